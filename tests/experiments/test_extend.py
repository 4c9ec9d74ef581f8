"""The experiment that docs/extend.md shows runs as it stands there."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```\n", re.DOTALL)


def test_the_experiment_of_the_page_runs_and_writes_its_table(tmp_path):
    [(name, text)] = FILE.findall((ROOT / "docs" / "extend.md").read_text(encoding="utf-8"))
    script = tmp_path / name
    script.parent.mkdir(parents=True)
    script.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "experiments" / "lib", tmp_path / "experiments" / "lib")
    command = [sys.executable, str(script), "--quick", "--out", str(tmp_path), "--workers", "1"]
    path = os.pathsep.join(p for p in sys.path if p)
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})  # noqa: S603
    table = (tmp_path / f"{script.stem}.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(table.splitlines()))
    assert [(line["rows"], line["seed"]) for line in lines] == [
        ("50", "0"), ("50", "1"), ("200", "0"), ("200", "1"),
    ]  # fmt: skip
    assert all(float(line["width"]) > 0.0 for line in lines)
    assert (tmp_path / f"{script.stem}.provenance.json").is_file()
