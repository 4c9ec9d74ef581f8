"""Pages written from results: only what stands between two marks is rewritten."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.common import RESULTS, ROOT, read_table

Line = dict[str, str]
NAMES = {
    "default": "default",
    "naive": "Naive",
    "fediwe": "FedIW",
    "feddae": "FedDA",
    "reference": "Reference",
    "constant": "constant",
    "pooled": "pooled",
}


@dataclass(frozen=True)
class Results:
    """The tables, read when asked for."""

    folder: Path

    def __call__(self, name: str, **wanted: str) -> list[Line]:
        """Lines of a table, those with the `wanted` values."""
        lines = read_table(self.folder / f"{name}.csv")
        return [line for line in lines if all(line[k] == v for k, v in wanted.items())]

    def one(self, name: str, **wanted: str) -> Line:
        """The one line with the `wanted` values."""
        [line] = self(name, **wanted)
        return line


Block = Callable[[Results], str]


def number(text: str | float, digits: int = 2) -> str:
    """Rounded; a dash where there is nothing."""
    return f"{float(text):.{digits}f}" if text != "" else "–"


def short(text: str | float) -> str:
    """Three significant digits."""
    return f"{float(text):.3g}" if text != "" else "–"


def percent(text: str | float, digits: int = 0) -> str:
    """As a percentage."""
    return f"{100.0 * float(text):.{digits}f} %" if text != "" else "–"


def interval(line: Mapping[str, Any], key: str, digits: int = 2) -> str:
    """A value with its interval: 1.20 [1.00, 1.40]."""
    ends = ", ".join(number(line[f"{key}_{end}"], digits) for end in ("lower", "upper"))
    return f"{number(line[key], digits)} [{ends}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def render(text: str, blocks: Mapping[str, Block], results: Results) -> str:
    """The page with every marked block written anew."""
    for name, block in blocks.items():
        begin, end = f"<!-- begin:{name} -->", f"<!-- end:{name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"The page must have one block {name!r}.")
        content = f"{begin}\n\n{block(results)}\n\n{end}"
        text = pattern.sub(content.replace("\\", r"\\"), text)
    return text


def run(
    description: str | None,
    blocks: Mapping[str, Block],
    page: str,
    arguments: Sequence[str] | None,
) -> None:
    """The command line of a script that writes a page."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / page)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if it would")
    given = parser.parse_args(arguments)
    before = given.page.read_text(encoding="utf-8")
    after = render(before, blocks, Results(given.results))
    if given.check and before != after:
        sys.exit(f"{given.page.name} is out of date. Run the script that writes it.")
    if not given.check:
        given.page.write_text(after, encoding="utf-8")
