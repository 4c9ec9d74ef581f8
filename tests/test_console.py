"""The pages that show a terminal show what really happens there.

Every ``$`` line of a console block is run, in order, in one folder; it must succeed, and where the
block shows what it prints, it prints that. An ellipsis (…) stands for anything. A block of TOML
becomes the study file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("FEDCSA_DATA", ROOT.parent / "shared" / "data"))
BLOCK = re.compile(r"^```(console|toml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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


def printed(command: str, folder: Path) -> str:
    """What a command prints, without blanks at the ends of lines."""
    here = str(Path(sys.executable).parent)
    result = subprocess.run(  # noqa: S603 - our own pages
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "FEDCSA_DATA": str(DATA),
            "COLUMNS": "88",
            "NO_COLOR": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, f"$ {command}\n{result.stdout}"
    return "\n".join(line.rstrip() for line in result.stdout.strip().splitlines())


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


@pytest.mark.data
def test_a_study_without_python(tmp_path: Path) -> None:
    if not DATA.is_dir():
        pytest.skip("the stroke trial is not here: name its folder with FEDCSA_DATA")
    check("without-python.md", tmp_path)


def test_the_commands_of_the_first_page(tmp_path: Path) -> None:
    check("start.md", tmp_path)
