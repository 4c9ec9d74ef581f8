"""On a terminal: colour unless it is unwelcome, and progress that names the site."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7](;[0-9]+)*m")


def on_a_terminal(*arguments, stream="stdout", **environment):
    """What the program writes to `stream` if that is a terminal."""
    leader, follower = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: follower}
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "fedcsa", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        env={**kept, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
        **streams,
    )
    os.close(follower)
    pieces = []
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    process.communicate(timeout=60)
    os.close(leader)
    assert process.returncode == 0
    return b"".join(pieces).decode("utf-8", "replace")


@pytest.fixture
def study(finished) -> Path:
    return finished() / "study.toml"


def test_colour_is_for_terminals_and_can_be_switched_off(study):
    assert COLOUR.search(on_a_terminal("check", study))
    plain = on_a_terminal("check", study, NO_COLOR="1")
    assert "Nothing stands in the way." in plain
    assert not COLOUR.search(plain)


def test_progress_names_the_phase_on_standard_error(study, tmp_path):
    shown = on_a_terminal("run", study, "--out", tmp_path / "r", stream="stderr")
    assert "phase" in shown or "starting" in shown
    assert on_a_terminal("run", study, "-o", tmp_path / "r", "--quiet", stream="stderr") == ""
