import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.bars import BARS, Bar, Results  # noqa: E402
from benchmarks.harness import RESULTS  # noqa: E402
from benchmarks.plots import draw  # noqa: E402
from benchmarks.render import NOT_YET, PAGES, PARTS, lost, main, render  # noqa: E402
from benchmarks.render import machine as machine_block  # noqa: E402

BLOCKS = PAGES["benchmarks.md"]


def blank(blocks):
    return "".join(f"untouched <!-- begin:{n} -->stale-words<!-- end:{n} -->\n" for n in blocks)


def test_the_pages_show_the_results_as_they_are():
    main(["--check"])


@pytest.mark.parametrize("lagging", PAGES)
def test_a_page_that_lags_behind_is_refused(lagging, tmp_path):
    for name, blocks in PAGES.items():
        (tmp_path / name).write_text(render(blank(blocks), blocks, Results(RESULTS)))
    main(["--check", "--docs", str(tmp_path)])
    page, blocks = tmp_path / lagging, PAGES[lagging]
    assert "stale-words" not in page.read_text()
    assert page.read_text().count("untouched") == len(blocks)
    page.write_text(blank(blocks))
    with pytest.raises(SystemExit, match=f"{lagging} must be rendered anew"):
        main(["--check", "--docs", str(tmp_path)])
    assert page.read_text() == blank(blocks)


def test_all_pages_are_written_at_once(tmp_path):
    pytest.importorskip("matplotlib")
    for name, blocks in PAGES.items():
        (tmp_path / name).write_text(blank(blocks))
    (tmp_path / "_static").mkdir()
    main(["--docs", str(tmp_path), "--results", str(tmp_path)])
    for name, blocks in PAGES.items():
        assert (tmp_path / name).read_text() == render(blank(blocks), blocks, Results(tmp_path))


def test_a_page_without_a_block_is_refused():
    with pytest.raises(ValueError, match="one block 'criteria'"):
        render("nothing here", BLOCKS, Results(RESULTS))


def test_what_was_not_measured_is_called_so(tmp_path):
    for blocks in PAGES.values():
        needing = [name for name, (_, needed) in blocks.items() if needed]
        assert render(blank(blocks), blocks, Results(tmp_path)).count(NOT_YET) >= len(needing) > 0
    assert {bar.verdict(Results(tmp_path)) for bar in BARS} == {"not measured"}


def test_the_federation_is_told_with_its_machine_and_its_load(tmp_path):
    columns = "sources,connect,study,login,start,greet,announce,risk,choose,model,mix,examine,"
    columns += "conclude,rest,empty_job,megabytes,in_process"
    lines = (
        "3,4.21,15.66,1.5,3.1,2.5,2.21,1.4,0.41,0.402,0.3,0.5,1.8,1.54,6.9,0.06123,0.11,0.99298\n"
    )
    (tmp_path / "federation.csv").write_text(f"{columns},engine_share\n{lines}")
    told = {
        "settings": {"rows": 250},
        "machine": {"processor": "P", "cores": 2, "load_before": 4.0, "load_average": 17.25},
        "packages": {"nvflare": "2.9.0"},
    }
    (tmp_path / "federation.provenance.json").write_text(json.dumps(told))
    blocks = PAGES["federation.md"]
    page = render(blank(blocks), blocks, Results(tmp_path))
    row = (
        "| 3 | 4.21 | 15.7 | 1.5 | 3.1 | 2.5 | 2.21 | 1.4 | 0.41 | 0.402 | 0.3 | 0.5 | 1.8 "
        "| 1.54 | 6.9 | 0.0612 | 0.11 | 99.3 % |"
    )
    assert page.count(row) == 1
    assert "250 rows a site, nvflare 2.9.0, P, 2 cores" in page
    assert "load 4 at the beginning, 17.25 at the end." in page


@pytest.mark.parametrize(
    ("value", "verdict"),
    [("2.9", "met"), ("3", "met"), ("3.1", "**missed**"), ("", "not measured")],
)
def test_a_bar_is_met_or_missed(value, verdict, tmp_path):
    (tmp_path / "t.csv").write_text(f"what,ratio\nb,9\na,{value}\n")
    bar = Bar("x", 3.0, " ×", "t", {"what": "a"}, "ratio", "warm")
    assert bar.verdict(Results(tmp_path)) == verdict


def test_no_two_bars_are_about_one_figure():
    figures = [(bar.table, bar.column, *sorted(bar.where.items())) for bar in BARS]
    assert len(set(figures)) == len(BARS)


def written(folder, name, *lines):
    rows = [",".join(lines[0]), *(",".join(map(str, line.values())) for line in lines)]
    (folder / f"{name}.csv").write_text("\n".join(rows) + "\n")


def peer(what, family, **numbers):
    line = {"task": "judge", "family": family, "rows": 1000, "what": what, "shown": what.upper()}
    line |= {"version": "" if "fedcsa" in what else "1.0", "needs": "rows", "cpu_seconds": 1.0}
    line |= {"auroc_error": 0.1, "risk_error": 0.1, "ratio_error": 0.1, "chosen_risk": ""}
    return line | numbers


def test_peers_that_are_better_are_told_and_no_others(tmp_path):
    worse = {"cpu_seconds": 2.0, "auroc_error": ""}
    lines = [peer("fedcsa-table", family) for family in "ab"]
    lines += [peer("slow", "a", **worse), peer("slow", "b", **worse)]
    lines += [peer("fast", "a"), peer("fast", "b", cpu_seconds=0.5, risk_error=0.05)]
    written(tmp_path, "peers", *lines)
    said = lost(Results(tmp_path)).splitlines()
    assert [line for line in said if "Not measured" not in line] == [
        "- FAST, against FEDCSA-TABLE: faster in 1, nearer to the true risk in 1 of 2 families."
    ]


def test_missed_bars_are_told(tmp_path):
    written(tmp_path, "peers", *[peer("fedcsa-table", family) for family in "ab"])
    written(tmp_path, "stream", {"what": "stream", "rows": 10000000, "peak_mb": 701})
    assert "takes 701 MB instead of 700 MB" in lost(Results(tmp_path))
    written(tmp_path, "stream", {"what": "stream", "rows": 10000000, "peak_mb": 699})
    assert "Missed" not in lost(Results(tmp_path))


def test_a_missed_bar_is_told_with_its_profile(tmp_path):
    written(tmp_path, "backtest", {"model": "ridge", "cpu_ratio": 1.5})
    written(tmp_path, "profiles", {"name": "back-test", "function": "core.x.f", "share": 0.25})
    steps = dict.fromkeys(PARTS, 1.5) | {"sources": 4, "study": 11.0, "empty_job": 9.0}
    written(tmp_path, "federation", steps)
    told = lost(Results(tmp_path))
    assert "takes 1.5 × instead of 1.3 ×. Of it 25 % `core.x.f`." in told
    assert "takes 11 s instead of 10 s. Of it 1.5 s login, 1.5 s start, " in told
    assert "an empty job of the engine takes 9 s." in told


def test_the_commit_is_told_once_for_all(tmp_path):
    for name, commit in {"a": "f" * 40, "b": "f" * 40, "c": "e" * 40 + "-changed"}.items():
        machine = {"processor": "P", "cores": 2, "memory_gb": 1, "python": "3", "load_before": 0}
        packages = dict.fromkeys(("numpy", "scipy", "scikit-learn"), "1")
        told = {"commit": commit, "machine": {**machine, "load_average": 0}, "packages": packages}
        (tmp_path / f"{name}.provenance.json").write_text(json.dumps(told))
    assert f"Measured at commit {'e' * 12}-changed, {'f' * 12}." in machine_block(Results(tmp_path))


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


def test_every_plot_of_the_page_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw(Results(RESULTS), tmp_path)
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    named = {part.split(")")[0] for part in page.split("](generated/figures/")[1:]}
    assert named
    assert named <= {path.name for path in tmp_path.iterdir()}
