"""Every experiment on the paper runs in its quick form, repeats, and sees no held-back outcome."""

import copy
import re

import numpy as np
import pytest
from lib import paper_cases, paper_figures, paper_readings
from lib.claims import read_claims
from lib.common import ROOT, read_table
from lib.families import Family
from lib.page import Results
from lib.paper_readings import FACTORS, all_readings
from lib.real_data import DataAbsentError, parkinsons
from paper import (
    assumption,
    bound,
    draw_figures,
    figure2,
    parkinsons_tables,
    recut,
    table1,
    theorems,
    write_reproduction,
)
from scipy.stats import norm

DATA = ROOT.parent / "shared" / "data"
SIMULATED = (assumption, table1, recut, figure2, theorems)
#: With the file that each asks for.
REAL = {bound: "IST.csv.gz", parkinsons_tables: "parkinsons_updrs.data"}
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no data folder beside the project")


def name_of(script):
    return script.__name__.rpartition(".")[2]


def run(script, folder, workers=1):
    where = ["--data", str(DATA)] if script in REAL else []
    script.main(["--quick", "--workers", str(workers), "--out", str(folder), *where])


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick")
    for script in SIMULATED:
        run(script, folder)
    return folder


@pytest.fixture(scope="module")
def quick_real(quick):
    for script in REAL:
        run(script, quick)
    return quick


# They run, and repeat -----------------------------------------------------------------------


@pytest.mark.parametrize("script", SIMULATED, ids=name_of)
def test_every_script_tells_where_its_numbers_come_from(quick, script):
    told = (quick / f"{name_of(script)}.provenance.json").read_text(encoding="utf-8")
    assert '"mode": "quick"' in told
    assert str(ROOT) not in told


def test_every_figure_of_the_page_is_drawn_from_the_results(tmp_path):
    draw_figures.main(["--out", str(tmp_path)])
    page = (ROOT / "docs" / "reproduction-tables.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(generated/figures/(\w+)\.svg\)", page))
    assert shown == {path.stem for path in tmp_path.iterdir()} == set(paper_figures.FIGURES)


def test_tables_repeat_to_the_last_byte_whatever_the_workers(quick, tmp_path):
    run(table1, tmp_path, workers=2)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (quick / path.name).read_bytes(), path.name


def test_reported_runs_have_seeds_of_their_own():
    for script in (*SIMULATED, *REAL):
        if script is assumption:
            continue  # nothing is drawn
        full, small = script.FULL, script.QUICK
        assert getattr(full, "first_seed", getattr(full, "seed", 0)) >= 20_000
        assert getattr(small, "first_seed", getattr(small, "seed", 0)) < 10_000


def test_the_full_studies_are_what_the_paper_has():
    assert (table1.FULL.rows, table1.FULL.seeds) == (20, 100)
    assert figure2.FULL.distances == tuple(np.arange(1.0, 5.5, 0.5))
    assert parkinsons_tables.FULL.patients is None
    assert len(paper_cases.printed("table2")) == len(paper_cases.printed("table3")) == 4


def test_the_printed_table_has_twenty_rows_and_fedda_is_its_winner():
    rows = paper_cases.printed()
    assert len(rows) == 20
    assert len({(row["n_target"], row["n_1"], row["n_2"]) for row in rows}) == 20
    for row in rows:
        assert row["feddae"][0] < min(row["naive"][0], row["fediwe"][0], row["reference"][0])


def test_the_printed_value_is_a_quantile_of_the_recut_distribution(quick):
    lines = read_table(quick / "recut.csv")
    assert len(lines) == 2 * recut.QUICK.rows * len(paper_cases.PRINTED_METHODS)
    assert all(0.0 <= float(line["quantile"]) <= 1.0 for line in lines)
    best = [float(x["share_best"]) for x in lines[: len(paper_cases.PRINTED_METHODS)]]
    assert sum(best) == pytest.approx(1.0, abs=1e-4)


def test_the_printed_column_of_fedda_has_the_level_of_the_true_rule():
    line = recut.level_of_truth(paper_cases.printed())
    assert line["mean_z"] == pytest.approx(0.02, abs=0.005)
    assert line["kolmogorov_smirnov_p"] > 0.5


def test_a_level_is_only_the_truths_where_the_kindest_reading_does_not_fit(quick):
    lines = read_table(quick / "recut.csv")
    lines = [x | {"printed": float(x["printed"]), "share_best": 0.0} for x in lines]

    def verdict(truth, kindest):
        rules = {"true rule": truth, "as printed": 0.0, "kindest": kindest}
        levels = [
            {"rule": name, "mean_z": 0.0, "standard_error": 1.0, "kolmogorov_smirnov_p": p}
            for name, p in rules.items()
        ]
        return recut.claims(lines, levels)[1].verdict

    assert verdict(0.8, 0.001) == "the true rule's, not the kindest reading's"
    assert verdict(0.8, 0.8) == verdict(0.001, 0.001) == "not told apart"


def test_every_reading_is_told_once_and_claims_count_them(quick):
    lines = read_table(quick / "readings.csv")
    assert len(lines) == len(all_readings()) == 576
    assert len({tuple(line[factor] for factor in FACTORS) for line in lines}) == 576
    rows = table1.QUICK.rows
    for line, column in zip(read_table(quick / "readings_claims.csv"), table1.ASKED, strict=True):
        assert line["readings"] == ("144" if column == "below_both" else "576")
        share = 576 // int(line["readings"])
        held = sum(int(x[column]) == rows for x in lines)
        assert int(line["in_every_row"]) * share == held
        assert int(line["most_rows"]) == max(int(x[column]) for x in lines)


def test_a_claim_that_comes_out_names_a_swapped_ratio_and_one_that_never_does_says_so():
    line = read_table(ROOT / "experiments" / "results" / "readings_claims.csv")[0]
    assert "order source/target" in line["all_with"]
    [out] = table1.claims([line])
    assert "; only with the ratio's arguments swapped, " in out.sentence
    [never] = table1.claims([line | {"in_every_row": "0", "most_rows": "18"}])
    assert "only" not in never.sentence
    assert "; 18 at most, all with the ratio's arguments swapped, " in never.sentence
    assert "own table" not in out.sentence  # 20 of 20 there


def test_a_claim_that_the_papers_own_table_does_not_have_in_each_row_is_told_so():
    line = read_table(ROOT / "experiments" / "results" / "readings_claims.csv")[1]
    [claim] = table1.claims([line])
    assert claim.sentence.endswith("; 19 in the paper's own table.")


def test_the_kept_claims_are_those_of_the_kept_lines():
    folder = ROOT / "experiments" / "results"
    assert read_claims(folder, "table1") == table1.claims(
        read_table(folder / "readings_claims.csv")
    )


def test_the_assumption_fails_for_all_sources_but_one(quick):
    lines = {x["source"]: x for x in read_table(quick / "assumption.csv")}
    assert [name for name, x in lines.items() if x["log10_sup"] != "inf"] == ["Case 1, near"]
    assert lines["Case 1, far"]["log10_second_moment"] == "inf"
    for line in lines.values():
        closed, integrated = (float(line[f"log10_{k}"]) for k in ("second_moment", "integrated"))
        assert closed == pytest.approx(integrated, rel=1e-4)


@pytest.mark.parametrize(("mean", "variance"), [(1.0, 3.0), (0.3, 1.2)])
def test_the_ratios_moments_are_those_of_a_large_sample(mean, variance):
    x = np.random.default_rng(0).normal(mean, np.sqrt(variance), 400_000)
    ratio = norm.pdf(x) / norm.pdf(x, mean, np.sqrt(variance))
    assert np.log((ratio**2).mean()) == pytest.approx(
        assumption.log_second_moment(mean, variance), abs=0.01
    )
    assert ratio.max() == pytest.approx(np.exp(assumption.log_sup(mean, variance)), rel=1e-3)


def test_case_2_is_refused_when_the_sources_are_away(quick):
    lines = {line["c"]: line for line in read_table(quick / "figure2.csv")}
    assert lines["3"]["refused"] == lines["5"]["refused"] == "1"


def test_limits_are_those_of_a_large_simulation():
    settings = theorems.FULL
    limit = theorems.limits(settings)
    rng = np.random.default_rng(1)
    x = rng.normal(settings.means[0], settings.sds[0], 400_000)
    y = x + rng.normal(size=len(x))
    ratio = theorems.true_ratio(x, 0, settings)
    product = ratio * (settings.line[0] + settings.line[1] * x - y) ** 2
    assert product.mean() == pytest.approx(limit["risk"], rel=0.02)
    assert product.var() == pytest.approx(limit["iw_near"], rel=0.05)
    slope = np.cov(product, ratio)[0, 1] / ratio.var()
    assert (product - slope * ratio).var() == pytest.approx(limit["cv_near"], rel=0.05)
    assert limit["feddae"] <= min(limit["equal"], limit["fediwe"])


@pytest.mark.data
@needs_data
def test_the_pages_can_be_written_from_any_results(quick_real, tmp_path):
    page = ROOT / "docs" / "reproduction.md"
    (tmp_path / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    write_reproduction.main(["--results", str(quick_real), "--docs", str(tmp_path)])
    for script in write_reproduction.SCRIPTS:
        for claim in read_claims(quick_real, script):
            assert claim.sentence in (tmp_path / page.name).read_text(encoding="utf-8")


def test_every_claim_has_a_verdict_a_sentence_and_a_table_on_the_page():
    results = Results(ROOT / "experiments" / "results")
    shown = (ROOT / "docs" / write_reproduction.TABLES).read_text(encoding="utf-8")
    for script in write_reproduction.SCRIPTS:
        claims = read_claims(results.folder, script)
        assert claims, script
        for claim in claims:
            assert all((claim.where, claim.claim, claim.verdict, claim.sentence.endswith(".")))
            assert f"## {write_reproduction.SECTIONS[claim.table].title}\n" in shown


def test_the_page_has_at_most_1500_words():
    assert len((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8").split()) <= 1_500


def test_data_that_are_not_the_published_ones_are_refused(tmp_path):
    (tmp_path / "parkinsons").mkdir()
    (tmp_path / "parkinsons" / "parkinsons_updrs.data").write_text("x")
    with pytest.raises(DataAbsentError, match="sha256 is another"):
        parkinsons(tmp_path)


@pytest.mark.parametrize(("script", "file"), REAL.items(), ids=REAL.values())
def test_absent_data_are_named_with_their_publisher(script, file, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        script.main(["--quick", "--out", str(tmp_path), "--data", str(tmp_path)])
    assert left.value.code not in (0, None)
    told = f"{left.value.code} {capsys.readouterr().err}"
    assert f"{file} must be in the data folder" in told
    assert "Get it from" in told


def test_the_data_folder_can_be_named_once_for_all_scripts(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDCSA_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="must be in the data folder"):
        parkinsons_tables.main(["--quick", "--out", str(tmp_path)])


# No method sees a held-back outcome ---------------------------------------------------------


def recorder(monkeypatch, module, name):
    """Everything that `module.name` returns from now on."""
    told, function = [], getattr(module, name)

    def recorded(*arguments, **keywords):
        found = function(*arguments, **keywords)
        told.append(copy.deepcopy(found))  # the caller may add a yardstick afterwards
        return found

    monkeypatch.setattr(module, name, recorded)
    return told


def numbers(told):
    """All that is inside, flat."""
    if isinstance(told, dict):
        return [x for value in told.values() for x in numbers(value)]
    if isinstance(told, list | tuple):
        return [x for value in told for x in numbers(value)]
    if hasattr(told, "__dataclass_fields__"):
        return numbers([getattr(told, name) for name in told.__dataclass_fields__])
    return [told]


def assert_same(clean, poisoned):
    assert len(clean) == len(poisoned) > 0
    for left, right in zip(numbers(clean), numbers(poisoned), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.fixture
def poison(monkeypatch):
    """From now on the outcomes of every simulated target are garbage."""
    draw = Family.draw

    def poisoned(self, *arguments, **keywords):
        drawn = draw(self, *arguments, **keywords)
        drawn.y_target[:] = 1e6 * np.arange(len(drawn.y_target))
        drawn.y_truth[:] = np.nan
        return drawn

    return lambda: monkeypatch.setattr(Family, "draw", poisoned)


@pytest.mark.parametrize(
    ("module", "runner", "task", "watched"),
    [
        (table1, "run_one", ((20, 30, 20), 1, table1.QUICK), (paper_readings, "methods_under")),
        (recut, "run_one", ((20, 30, 20), "kindest", 1, recut.QUICK), (recut, "conclude")),
        (figure2, "run_one", (2.0, 1, figure2.QUICK), (paper_readings, "methods_under")),
        (figure2, "run_one", (2.0, 1, figure2.QUICK), (figure2, "default_error")),
    ],
    ids=["table1", "recut", "figure2", "figure2-default"],
)
def test_poisoned_outcomes_of_a_simulated_target_move_nothing(
    monkeypatch, poison, module, runner, task, watched
):
    told = recorder(monkeypatch, *watched)
    getattr(module, runner)(task)
    clean = told.copy()
    told.clear()
    poison()
    getattr(module, runner)(task)
    assert_same(clean, told)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("way", parkinsons_tables.FULL.ways, ids=" ".join)
def test_poisoned_outcomes_of_a_patient_move_nothing(monkeypatch, way):
    told = recorder(monkeypatch, parkinsons_tables, "answers")
    patients = dict(parkinsons_tables.patients(DATA, 4))
    target = next(iter(patients))
    task = (target, way, 1, DATA, parkinsons_tables.QUICK)
    parkinsons_tables.run_one(task)
    X, y = patients[target]
    patients[target] = X, 1e6 * np.arange(len(y))
    monkeypatch.setattr(parkinsons_tables, "patients", lambda *_: patients)
    parkinsons_tables.run_one(task)
    assert_same(told[:1], told[1:])


# The results ---------------------------------------------------------------------------------


def test_results_are_small_and_those_of_the_full_studies():
    results = ROOT / "experiments" / "results"
    assert sum(path.stat().st_size for path in results.iterdir()) < 2_000_000
    for script in write_reproduction.SCRIPTS:
        told = (results / f"{script}.provenance.json").read_text(encoding="utf-8")
        assert '"mode": "full"' in told
        assert '"commit"' in told


def test_make_paper_runs_every_script_whose_claims_the_page_tells():
    [line] = re.findall(r"^PAPER := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(write_reproduction.SCRIPTS) <= set(line.split())


def test_under_the_kindest_reading_fedda_is_best_in_most_rows():
    results = Results(ROOT / "experiments" / "results")
    line = results("readings_claims")[0]
    assert line["claim"] == "FedDA has the best mean"
    assert 15 <= int(line["kindest"]) <= int(line["kindest_hold_out"])
    assert int(line["as_printed"]) < 5
