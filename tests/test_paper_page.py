"""The page about the preset: its table is rendered from results, its options from the preset."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from fedcsa.option_rules import PRESETS
from fedcsa.words import number, percent

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper-algorithm.md"
RESULTS = ROOT / "experiments" / "results"
BLOCK = re.compile(r"<!-- begin:bandwidth -->\n(.*?)<!-- end:bandwidth -->", re.DOTALL)
HEAD = (
    "where", "ratio", "draws", "weight, median", "largest", "takes more than half", "true RMSE",
)  # fmt: skip


def lines() -> list[dict[str, str]]:
    with (RESULTS / "bandwidth.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rendered() -> str:
    rows = [
        (
            line["setting"],
            line["ratio"],
            line["seeds"],
            percent(float(line["median_weight"])),
            percent(float(line["largest_weight"])),
            f"in {percent(float(line['above_half']))}",
            number(float(line["rmse"])),
        )
        for line in lines()
    ]
    text = [HEAD, ("---",) * len(HEAD), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in text)


def test_the_table_of_bandwidths_is_that_of_the_results() -> None:
    shown = BLOCK.search(PAGE.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown.group(1) == rendered()
    made = json.loads((RESULTS / "bandwidth.provenance.json").read_text(encoding="utf-8"))
    assert made["mode"] == "full"


def test_what_the_page_says_of_bandwidths_is_so() -> None:
    """The preset gives the demo's far source hardly anything; the table nearly all."""
    by = {(line["setting"], line["ratio"]): line for line in lines()}
    demo = {ratio: float(line["largest_weight"]) for (s, ratio), line in by.items() if "demo" in s}
    assert demo["preset paper"] < 0.01
    leads = {ratio: float(line["above_half"]) for (s, ratio), line in by.items() if "Case" in s}
    assert leads["one σ, the median distance"] == 0.0
    assert 0.2 < leads["preset paper"] < leads["no σ: the table's weights"]


def test_the_page_names_every_option_of_the_preset_with_its_value() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, value in PRESETS["paper"].items():
        said = f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}"
        assert said.replace("'", '"') in text


if __name__ == "__main__":  # python tests/test_paper_page.py rewrites the block
    whole = PAGE.read_text(encoding="utf-8")
    block = f"<!-- begin:bandwidth -->\n{rendered()}<!-- end:bandwidth -->"
    PAGE.write_text(BLOCK.sub(lambda _: block, whole), encoding="utf-8")
