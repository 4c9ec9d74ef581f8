import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.bars import Results, at_least, at_most, bars  # noqa: E402
from benchmarks.harness import RESULTS  # noqa: E402
from benchmarks.plots import draw  # noqa: E402
from benchmarks.render import BLOCKS, NOT_YET, main, render  # noqa: E402

BLANK = "".join(f"untouched <!-- begin:{n} -->stale-words<!-- end:{n} -->\n" for n in BLOCKS)


def test_the_page_shows_the_results_as_they_are():
    main(["--check"])


def test_a_page_that_lags_behind_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(BLANK)
    with pytest.raises(SystemExit, match="rendered anew"):
        main(["--check", "--page", str(page)])
    assert page.read_text() == BLANK
    page.write_text(render(BLANK, Results(RESULTS)))
    main(["--check", "--page", str(page)])
    assert "stale-words" not in page.read_text()
    assert page.read_text().count("untouched") == len(BLOCKS)


def test_a_page_without_a_block_is_refused():
    with pytest.raises(ValueError, match="one block 'criteria'"):
        render("nothing here", Results(RESULTS))


def test_what_was_not_measured_is_called_so(tmp_path):
    told = render(BLANK, Results(tmp_path))
    assert told.count(NOT_YET) == len(BLOCKS) - 2
    assert {bar.verdict for bar in bars(Results(tmp_path))} == {"not measured"}


@pytest.mark.parametrize(
    ("value", "most", "least"),
    [("2.9", "met", "**missed**"), ("3", "met", "met"), ("3.1", "**missed**", "met")],
)
def test_a_bar_is_met_or_missed(value, most, least):
    assert at_most("x", 3.0, value).verdict == most
    assert at_least("x", 3.0, value).verdict == least
    assert at_most("x", 3.0, value).bar == "≤ 3 ×"


def test_the_kept_results_are_small_and_of_full_runs():
    assert sum(path.stat().st_size for path in RESULTS.iterdir()) < 100_000
    for name in Results(RESULTS).provenances():
        told = json.loads((RESULTS / f"{name}.provenance.json").read_text(encoding="utf-8"))
        assert told["mode"] == "full"


def test_plots_are_the_same_bytes_for_the_same_results(tmp_path):
    pytest.importorskip("matplotlib")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        draw(Results(RESULTS), tmp_path / folder)
    made = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert made
    for name in made:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_every_plot_of_the_page_is_there():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    named = {part.split(")")[0] for part in page.split("](_static/")[1:]}
    assert named
    for name in named:
        assert (ROOT / "docs" / "_static" / name).is_file()
