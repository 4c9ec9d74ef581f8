"""The pages that show a terminal show what really happens there.

Every ``$`` line of a console block is run, in order, in one folder; it must succeed, and where the
block shows what it prints, it prints that. An ellipsis (…) stands for anything. A block of TOML
becomes the study file. A command of ours alone on its line runs in this process, which has loaded
all it needs: starting a program takes most of a short command's time. The others run in a shell.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from fedcsa.cli.app import main

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("FEDCSA_DATA", ROOT.parent / "shared" / "data"))
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


#: A command of ours with nothing that a shell must do.
ALONE = re.compile(r"fedcsa [^|<>&;$`#\n]*(#[^\n]*)?")


def steps(page: str) -> list[tuple[str, str, str]]:
    """(kind, command or file, what is shown) in the order of the page."""
    found: list[tuple[str, str, str]] = []
    for kind, text in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        if kind == "toml":
            found.append(("toml", text, ""))
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            n = 1 + next((i for i, s in enumerate(lines[1:]) if not s.startswith("> ")), len(lines))
            command = "\n".join([lines[0], *(line.removeprefix("> ") for line in lines[1:n])])
            found.append(("console", command, "\n".join(lines[n:])))
    return found


def environment() -> dict[str, str]:
    here = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "FEDCSA_DATA": str(DATA),
        "COLUMNS": "88",
        "NO_COLOR": "1",
    }


def in_this_process(command: str, folder: Path) -> tuple[int, str]:
    """Exit code and output of a command of ours."""
    came = io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environment()),
        mock.patch.object(sys, "argv", shlex.split(command, comments=True)),
        contextlib.redirect_stdout(came),
        contextlib.redirect_stderr(came),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return ended.value.code or 0, came.getvalue()


def in_a_shell(command: str, folder: Path) -> tuple[int, str]:
    """Exit code and output of any command."""
    result = subprocess.run(  # noqa: S603 - our own pages
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return result.returncode, result.stdout


def printed(command: str, folder: Path) -> str:
    """What a command prints, without blanks at the ends of lines."""
    run = in_this_process if ALONE.fullmatch(command) else in_a_shell
    code, came = run(command, folder)
    assert code == 0, f"$ {command}\n{came}"
    return "\n".join(line.rstrip() for line in came.strip().splitlines())


def matches(shown: str, came: str) -> bool:
    wanted = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(wanted, came, re.DOTALL) is not None


def check(page: str, folder: Path) -> None:
    for kind, text, shown in steps(page):
        if kind == "toml":
            (folder / "study.toml").write_text(text, encoding="utf-8")
            continue
        came = printed(text, folder)
        assert not shown or matches(shown, came), f"$ {text}\n{came}"


def test_an_ellipsis_stands_for_anything_and_nothing_else_does() -> None:
    assert matches("a\n…\nd", "a\nb\nc\nd")
    assert not matches("a\n…\nd", "a\nb\nc")
    assert not matches("1.5", "125")


def test_a_command_ends_where_its_output_begins() -> None:
    kinds = [(command, shown) for kind, command, shown in steps("without-python.md")]
    assert any("\n" in command and "> " not in command for command, _ in kinds)
    assert any(shown.startswith("problem: ") for _, shown in kinds)


def test_a_command_is_the_same_in_this_process_and_in_a_shell(tmp_path: Path) -> None:
    for command in ("fedcsa --version", "fedcsa check nothing.toml"):
        assert ALONE.fullmatch(command)
        assert in_this_process(command, tmp_path) == in_a_shell(command, tmp_path)
    assert not ALONE.fullmatch('fedcsa check study.toml || echo "exit code $?"')


@pytest.mark.data
@pytest.mark.parametrize("page", ["without-python.md", "vendor-score.md"])
def test_a_study_on_real_patients(page: str, tmp_path: Path) -> None:
    if not DATA.is_dir():
        pytest.skip("the stroke trial is not here: name its folder with FEDCSA_DATA")
    check(page, tmp_path)


def test_the_commands_of_the_first_page(tmp_path: Path) -> None:
    check("start.md", tmp_path)
