"""Write docs/reproduction.md and docs/reproduction-tables.md: no number there is typed by hand.

Of the first page only what stands between ``<!-- begin:NAME -->`` and ``<!-- end:NAME -->`` is
rewritten; the second is all made from the results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib import paper_tables, paper_tables_theory
from lib.claims import read_claims
from lib.common import RESULTS, ROOT
from lib.page import Block, Results, render, table

#: In the order of the paper.
SCRIPTS = ("theorems", "bound", "assumption", "table1", "recut", "figure2", "parkinsons_tables")
TABLES = "reproduction-tables.md"
SECTIONS = paper_tables_theory.SECTIONS | paper_tables.SECTIONS


def claims(results: Results) -> str:
    """One row a claim: verdict, sentence, and a link to its table."""
    rows = []
    for script in SCRIPTS:
        for each in read_claims(results.folder, script):
            link = f"[{each.claim}]({TABLES}#{SECTIONS[each.table].anchor})"
            rows.append((each.where, link, f"**{each.verdict}.** {each.sentence}"))
    return table(("where", "claim, with its table", "verdict"), rows)


BLOCKS: dict[str, Block] = {"claims": claims}


def tables(results: Results) -> str:
    """The second page."""
    made = paper_tables.provenance(SCRIPTS, results.folder)
    return paper_tables.page(SECTIONS, results) + f"\n## How the numbers were made\n\n{made}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pages")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if it would")
    given = parser.parse_args(arguments)
    results, first = Results(given.results), given.docs / "reproduction.md"
    written = {
        first: render(first.read_text(encoding="utf-8"), BLOCKS, results),
        given.docs / TABLES: tables(results),
    }
    for path, text in written.items():
        if not given.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is out of date. Run experiments/paper/write_reproduction.py.")


if __name__ == "__main__":
    main()
