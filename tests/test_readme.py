"""The README shows what the demo really prints."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from fedcsa.cli.app import app
from fedcsa.findings import ADVICE

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"<!-- begin:demo -->\n```text\n(.*?)```\n<!-- end:demo -->", re.DOTALL)


def printed() -> str:
    result = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "88", "NO_COLOR": "1"})
    assert result.exit_code == 0
    return "".join(line.rstrip() + "\n" for line in result.stdout.splitlines())


def test_the_readme_shows_what_the_demo_prints() -> None:
    shown = BLOCK.search(README.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown.group(1) == printed()


def test_the_picture_has_the_figures_of_the_readme() -> None:
    shown = BLOCK.search(README.read_text(encoding="utf-8"))
    assert shown is not None
    # A row of the table may go over several lines: its numbers stand in the first.
    [line] = [line for line in shown.group(1).splitlines() if line.startswith(" validated")]
    _, chosen, risk, interval, truth = re.split(r" {2,}", line.strip())
    picture = README.with_name("docs") / "_static" / "picture.svg"
    texts = re.findall(r">([^<]+)<", picture.read_text(encoding="utf-8"))
    assert chosen.split(",")[0] in texts
    assert f"{risk} ({interval.replace(' to ', '–')})" in texts
    assert f"truth, known in the demo: {truth}" in texts
    advice = [text for text in texts if text in {words.lower() for words, _ in ADVICE.values()}]
    assert [f"✓ {text.capitalize()} " in shown.group(1) for text in advice] == [True]


if __name__ == "__main__":  # python tests/test_readme.py rewrites the block
    text = README.read_text(encoding="utf-8")
    block = f"<!-- begin:demo -->\n```text\n{printed()}```\n<!-- end:demo -->"
    text = re.sub(
        r"<!-- begin:demo -->.*?<!-- end:demo -->", lambda _: block, text, flags=re.DOTALL
    )
    README.write_text(text, encoding="utf-8")
