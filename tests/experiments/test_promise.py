"""The promise study: runs are kept, measured and judged as the bars say."""

import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
from lib.common import ROOT, read_table
from lib.families import FAMILIES
from lib.promise_measures import Run, coverage, mean_by_cluster, pairs, score_difference
from lib.promise_runs import Lines, Study, described, flags_of, read_packed, write_packed
from lib.promise_tables import Evidence, risk_ratios
from promise import bars, real_sites, simulated_sites, write_promise

DATA = ROOT.parent / "shared" / "data"


def line(family="identical", seed=0, part="regression", **more):
    told = {"part": part, "family": family, "seed": seed, "n_sources": 3, "refused": False}
    told |= {"lower": 0.5, "upper": 2.0, "promised": 1.0, "true": 1.1, "verdict": "use it"}
    return {key: str(value) for key, value in (told | more).items() if value is not None}


def test_a_promise_inside_scores_its_width_and_outside_twenty_times_its_miss():
    inside = Run.of(line())
    assert inside.covered
    np.testing.assert_allclose(inside.score, np.log(4.0))
    np.testing.assert_allclose(inside.half_width, 2.0)
    outside = Run.of(line(true=4.0))
    assert not outside.covered
    np.testing.assert_allclose(outside.score, np.log(4.0) + 40.0 * (np.log(4.0) - np.log(2.0)))


def test_a_real_site_has_its_own_sampling_error_in_quadrature():
    told = line(true=None) | {"data_set": "heart", "site": "va", "realised": "1.0"}
    del told["family"]
    exact = Run.of(told | {"realised_se": "0"})
    np.testing.assert_allclose([exact.lower, exact.upper], [0.5, 2.0])
    wider = Run.of(told | {"realised_se": str(np.log(2.0) / 1.959964)})
    np.testing.assert_allclose(np.log(wider.upper), np.sqrt(2.0) * np.log(2.0), rtol=1e-5)
    assert (wider.cluster, wider.part) == ("heart va", "heart")


def test_a_study_without_a_promise_has_no_score_and_makes_no_pair():
    refused = Run.of(line(lower=None, upper=None, verdict="do not use it"))
    failed = Run.of(line(lower=None, upper=None, true=None, verdict=None, seed=1))
    assert not refused.answered
    assert failed.verdict == "failed"
    assert pairs([Run.of(line()), Run.of(line(seed=1))], [refused, failed]) == []
    with pytest.raises(ValueError, match="no promise"):
        _ = refused.score


def test_families_and_not_runs_are_drawn_anew():
    runs = [Run.of(line(name, seed)) for name in ("identical", "ring") for seed in range(50)]
    found = mean_by_cluster(runs, lambda run: float(run.family == "ring"))
    assert found.value == 0.5
    assert (found.lower, found.upper) == (0.0, 1.0)
    assert coverage(runs).value == 1.0


def test_score_differences_are_paired():
    old = [Run.of(line(name, seed, upper=3.0)) for name in ("identical", "ring") for seed in (1, 2)]
    new = [Run.of(line(name, seed)) for name in ("identical", "ring") for seed in (0, 1)]
    both = pairs(old, new)
    assert [run.seed for _, run in both] == ["1", "1"]
    np.testing.assert_allclose(score_difference(both).value, np.log(4.0) - np.log(6.0))


def test_risk_is_compared_with_the_best_rival_of_a_family():
    rivals = {"naive": 2.0, "fediwe": 1.0, "feddae": 3.0, "single": 4.0}
    old = Evidence([Run.of(line(seed=seed, **rivals)) for seed in range(10)], [], [])
    new = Evidence([Run.of(line(seed=seed)) for seed in range(10)], [], [])
    assert risk_ratios(new, old, tuple(rivals)) == {"identical": pytest.approx(1.1)}
    few = Evidence(new.studies[:9], [], [])
    assert risk_ratios(few, old, tuple(rivals)) == {}


def test_every_bar_is_asked(tmp_path):
    rivals = {"naive": 2.0, "fediwe": 1.2, "feddae": 3.0, "single": 4.0}
    families = ("identical", "levels-8x400", "clear-5x300", "no-signal-6x300", "student-8x200")
    lines = [line(name, seed, n_sources=6) for name in families for seed in range(10)]
    lines += [line("logits-10-8x400", seed, "classes", n_sources=8) for seed in range(10)]
    cases = [
        line("case1-20-30-20", 0, "cases", last_weight=0.01),
        line("case2-c3", 0, "cases", last_weight=0.5, refused=True),
    ]
    old = [each | {key: str(value) for key, value in rivals.items()} for each in lines]
    new = [each | {"agreement_passed": "False", "upper": "1.5"} for each in lines]
    site = {"data_set": "stroke", "site": "Norway", "n_sources": "23", "verdict": "use it"}
    site |= {"promised": "1", "lower": "0.5", "upper": "2", "realised": "1.1", "realised_se": "0.1"}
    write_packed(tmp_path / "promise_old.csv.gz", old + cases)
    write_packed(tmp_path / "promise_new.csv.gz", new + cases)
    naive = {"naive_promised": "1", "naive_realised": "1.5"}
    write_packed(tmp_path / "promise_real_old.csv.gz", [site | naive])
    write_packed(tmp_path / "promise_real_new.csv.gz", [site])
    bars.main(["--results", str(tmp_path)])
    told = {each["asked"]: each for each in read_table(tmp_path / "promise_bars.csv")}
    assert told["agreement leg fails, `levels-8x400`"]["met"] == "yes"
    assert told["agreement leg fails, `logits-30-8x400`"]["met"] == "reported"
    assert told['"use it", signal none']["met"] == "no"
    assert told['"use it", signal clear']["met"] == "yes"
    assert told["interval score, families that violate something"]["met"] == "yes"
    assert told["weight of Case 1's far source, largest"]["new"] == "1.0%"
    gap = told["stroke trial: distance of promised from realised loss, over naive's"]
    assert (gap["new"], gap["met"]) == ("0.20", "yes")
    names = {path.stem for path in tmp_path.glob("promise_*.csv")}
    tables = ("bars", "sets", "families", "sources", "sites", "cases")
    assert names == {f"promise_{name}" for name in tables}
    page = tmp_path / "promise.md"
    page.write_text("".join(f"<!-- begin:{b} --><!-- end:{b} -->\n" for b in write_promise.BLOCKS))
    write_promise.main(["--results", str(tmp_path), "--page", str(page)])
    assert "| stroke | 0.20 / 0.20 |" in page.read_text()
    write_promise.main(["--results", str(tmp_path), "--page", str(page), "--check"])


def test_the_pages_show_the_results_as_they_are():
    write_promise.main(["--check"])


def test_the_page_stays_short_and_every_claim_links_to_its_table():
    page = (ROOT / "docs" / "promise.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 1_500
    rows = [row for row in page.splitlines() if row.startswith("| ")][2:]
    tables = (ROOT / "docs" / write_promise.TABLES).read_text(encoding="utf-8")
    headings = {
        row[3:].lower().replace(" ", "-") for row in tables.splitlines() if row[:3] == "## "
    }
    for row in rows:
        assert re.search(r"\[table\]\(promise-tables\.md#([\w-]+)\)", row)[1] in headings


def test_the_study_runs_and_knows_its_seeds(tmp_path):
    simulated_sites.main(["--quick", "--out", str(tmp_path)])
    lines = read_packed(tmp_path / "promise_new.csv.gz")
    quick = simulated_sites.QUICK
    asked = len(quick.regression) + len(quick.classes) + quick.case1_rows + len(quick.case2_places)
    assert len(lines) == quick.seeds * asked
    assert all(float(each["true"]) > 0.0 for each in lines if not each.get("error"))
    assert {each["refused"] for each in lines if each["family"] == "case2-c3"} == {"True"}
    full = simulated_sites.FULL
    assert (full.first_seed, full.seeds) == (60_000, 50)
    assert set(full.regression) | set(full.classes) == {item.name for item in FAMILIES}


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside the project")
def test_real_sites_are_targets_in_turn(tmp_path):
    real_sites.main(["--quick", "--out", str(tmp_path), "--data", str(DATA)])
    lines = read_packed(tmp_path / "promise_real_new.csv.gz")
    assert [each["site"] for each in lines] == ["cleveland", "hungarian", "switzerland", "va"]
    assert all(float(each["realised_se"]) > 0.0 for each in lines)


def test_columns_are_described_where_rows_do_not_show_it():
    rows = {"a": (np.zeros((2, 2)), np.zeros(2))}
    study = Study(rows, np.zeros((2, 2)), (False, True))
    assert described(study) is None
    study = replace(study, public_sd=(12.0, 0.5), groups={"a": np.arange(2)})
    number = {"kind": "number", "sd": 12.0}
    assert described(study) == {"x0": number, "x1": "flag", "patient": "group"}


def test_a_run_that_is_there_is_not_run_again(tmp_path):
    lines = Lines(tmp_path / "runs.jsonl", ("name",))
    asked = []

    def run(name):
        asked.append(name)
        return {"name": name, "value": np.float64(1.5), "passed": np.True_}

    lines.run(run, [(("b",), "b")])
    lines.run(run, [(("a",), "a"), (("b",), "b")])
    assert asked == ["b", "a"]
    assert [each["name"] for each in lines.read()] == ["a", "b"]
    assert lines.read()[0] == {"name": "a", "value": 1.5, "passed": True}


def test_packed_lines_read_back_and_are_always_the_same_bytes(tmp_path):
    lines = [{"a": 1.0 / 3.0, "b": None}, {"a": 2, "c": "x"}]
    for name in ("one", "two"):
        write_packed(tmp_path / name, lines)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    expected = [{"a": "0.333333", "b": "", "c": ""}, {"a": "2", "b": "", "c": "x"}]
    assert read_packed(tmp_path / "one") == expected
    assert gzip.decompress((tmp_path / "one").read_bytes()).startswith(b"a,b,c\n")


def test_flags_are_columns_of_noughts_and_ones_at_every_site():
    first = np.array([[0.0, 1.0, 0.3], [1.0, 0.0, 0.0]])
    second = np.array([[0.0, 2.0, 1.0]])
    assert flags_of([first, second]) == (True, False, False)
