"""Pages written from results: as they are, and nothing else is touched."""

import pytest
from lib import page
from lib.common import ROOT
from lib.page import Results
from paper import write_reproduction as render_reproduction
from paper.write_reproduction import BLOCKS

RESULTS = ROOT / "experiments" / "results"
PAGES = pytest.mark.parametrize("script", [render_reproduction], ids=lambda each: each.__name__)


@PAGES
def test_the_page_shows_the_results_as_they_are(script):
    script.main(["--check"])


@PAGES
def test_a_page_that_lags_behind_is_refused(script, tmp_path):
    stale = tmp_path / "page.md"
    marks = [f"<!-- begin:{n} -->stale-words<!-- end:{n} -->" for n in script.BLOCKS]
    stale.write_text("\n".join(marks))
    with pytest.raises(SystemExit, match="out of date"):
        script.main(["--check", "--page", str(stale)])
    assert "stale-words" in stale.read_text()  # a check changes nothing
    script.main(["--page", str(stale)])
    script.main(["--check", "--page", str(stale)])
    assert "stale-words" not in stale.read_text()


def test_text_outside_the_blocks_is_left_alone():
    marked = "".join(f"untouched <!-- begin:{n} --><!-- end:{n} -->\n" for n in BLOCKS)
    assert page.render(marked, BLOCKS, Results(RESULTS)).count("untouched") == len(BLOCKS)
