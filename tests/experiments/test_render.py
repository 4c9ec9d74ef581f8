"""Pages written from results: as they are, and nothing else is touched."""

import pytest
from lib import page
from lib.common import ROOT
from lib.page import Results
from paper import write_reproduction
from paper.write_reproduction import BLOCKS

RESULTS = ROOT / "experiments" / "results"


def test_the_pages_show_the_results_as_they_are():
    write_reproduction.main(["--check"])


def test_pages_that_lag_behind_are_refused(tmp_path):
    stale = tmp_path / "reproduction.md"
    marks = [f"<!-- begin:{n} -->stale-words<!-- end:{n} -->" for n in BLOCKS]
    stale.write_text("\n".join(marks))
    for _ in range(2):  # first the page, then the tables behind it
        with pytest.raises(SystemExit, match="out of date"):
            write_reproduction.main(["--check", "--docs", str(tmp_path)])
        write_reproduction.main(["--docs", str(tmp_path)])
        write_reproduction.main(["--check", "--docs", str(tmp_path)])
        assert "stale-words" not in stale.read_text()
        (tmp_path / write_reproduction.TABLES).write_text("stale-words")


def test_text_outside_the_blocks_is_left_alone():
    marked = "".join(f"untouched <!-- begin:{n} --><!-- end:{n} -->\n" for n in BLOCKS)
    assert page.render(marked, BLOCKS, Results(RESULTS)).count("untouched") == len(BLOCKS)


def test_no_cell_of_a_table_breaks_its_row():
    """A heading with a bar in it would make two cells."""
    shown = (ROOT / "docs" / write_reproduction.TABLES).read_text(encoding="utf-8")
    for block in shown.split("\n\n"):
        if block.startswith("| "):
            assert len({line.count("|") for line in block.splitlines()}) == 1, block[:80]
