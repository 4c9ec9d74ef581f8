"""Draw the figures of docs/reproduction.md from the tables of results.

The documentation does so whenever it is built; the figures themselves are not kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import RESULTS
from lib.paper_figures import draw_all


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the tables")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    given = parser.parse_args(arguments)
    draw_all(given.results, given.out)


if __name__ == "__main__":
    main()
