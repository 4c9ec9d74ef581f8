"""Mutated messages and files: one named error or none, no crash, and bounded memory.

CI reads a share of them; ``make attacks`` reads 10,000 messages and 2,000 files, and prints how
long the slowest took and how far the process grew.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "fuzz" / "run.py"
WHOLE = os.environ.get("FEDCSA_WHOLE_FUZZ") == "1"
#: How many are read: of all, and in CI.
COUNTS = {"messages": (10_000, 500), "files": (2_000, 200)}
#: Beside what the process had before the first input; the system enforces it.
MEMORY_MB = 300


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("what", COUNTS)
def test_whatever_comes_is_taken_or_refused_by_name(what, tmp_path):
    count = COUNTS[what][0 if WHOLE else 1]
    command = [sys.executable, "-W", "ignore", str(SCRIPT), what, str(count), "15", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-2000:]  # no crash, nothing that took a minute
    found = json.loads(done.stdout)
    print({key: found[key] for key in ("tried", "slowest", "grown_mb")})
    assert found["foreign"] == []
    assert found["tried"] == count
    assert sum(found["refused"].values()) > count // 2
    assert sum(found["taken"].values()) > count // 50  # some get as far as being used
    assert found["grown_mb"] < MEMORY_MB
