"""Every experiment on the paper runs in its quick form, repeats, and sees no held-back outcome."""

import copy
import re

import numpy as np
import pytest
from lib import paper_arrays, paper_cases, paper_figures
from lib.common import ROOT, read_table
from lib.families import Family, case1
from lib.page import Results
from lib.real_data import DataAbsentError, Sites
from paper import (
    collapse,
    draw_figures,
    figure2,
    parkinsons_tables,
    readings,
    real_studies,
    table1,
    table1_reading,
    theorems,
)
from paper.write_reproduction import BLOCKS, SCRIPTS
from scipy.stats import gaussian_kde
from sklearn.linear_model import Ridge

DATA = ROOT.parent / "shared" / "data"
SIMULATED = (table1, table1_reading, figure2, theorems, readings, collapse)
REAL = (parkinsons_tables, real_studies)
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
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(generated/figures/(\w+)\.svg\)", page))
    assert shown == {path.stem for path in tmp_path.iterdir()} == set(paper_figures.FIGURES)


def test_tables_repeat_to_the_last_byte_whatever_the_workers(quick, tmp_path):
    run(readings, tmp_path, workers=2)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (quick / path.name).read_bytes(), path.name


def test_reported_runs_have_seeds_of_their_own():
    for script in (*SIMULATED, *REAL):
        full, small = script.FULL, script.QUICK
        assert getattr(full, "first_seed", getattr(full, "seed", 0)) >= 20_000
        assert getattr(small, "first_seed", getattr(small, "seed", 0)) < 10_000


def test_the_full_studies_are_what_the_paper_has():
    assert (table1.FULL.rows, table1.FULL.seeds) == (20, 100)
    assert figure2.FULL.distances == tuple(np.arange(1.0, 5.5, 0.5))
    assert parkinsons_tables.FULL.seeds == 100
    assert parkinsons_tables.FULL.patients is None
    assert len(paper_cases.printed("table2")) == len(paper_cases.printed("table3")) == 4


def test_the_printed_table_has_twenty_rows_and_fedda_is_its_winner():
    rows = paper_cases.printed()
    assert len(rows) == 20
    assert len({(row["n_target"], row["n_1"], row["n_2"]) for row in rows}) == 20
    for row in rows:
        assert row["feddae"][0] < min(row["naive"][0], row["fediwe"][0], row["reference"][0])


def test_the_printed_value_is_a_quantile_of_the_resplit_distribution(quick):
    lines = read_table(quick / "table1_resplit.csv")
    assert len(lines) == 3 * table1.QUICK.rows * len(paper_cases.PRINTED_METHODS)
    assert all(0.0 <= float(line["quantile"]) <= 1.0 for line in lines)
    best = [float(x["share_best"]) for x in lines[: len(paper_cases.PRINTED_METHODS)]]
    assert sum(best) == pytest.approx(1.0, abs=1e-4)


def test_readings_are_judged_by_the_columns_that_no_ratio_enters(quick):
    lines = read_table(quick / "table1_reading.csv")
    assert len(lines) == 16
    both = {(x["intercept"], x["penalty"]): x for x in read_table(quick / "table1_penalty.csv")}
    total = 0.0
    for column in ("naive", "reference"):
        mine = [
            float(x["log_likelihood"])
            for x in lines
            if (x["column"], x["intercept"], x["penalty"]) == (column, "free", "sum")
        ]
        assert len(mine) == 2
        total += np.log(np.mean(np.exp(mine)))
    assert float(both["free", "sum"]["log_likelihood"]) == pytest.approx(total, rel=1e-3)
    assert min(float(x["log10_below_best"]) for x in both.values()) == 0.0


def made_up_runs(rows, sets):
    """As if error and spread were 1.2 times larger when penalties stand beside a sum."""
    rng = np.random.default_rng(0)
    return {
        reading: np.exp(0.1 * rng.normal(size=(rows, sets, 2))) * 1.2 ** (reading.penalty == "sum")
        for reading in table1_reading.readings()
    }


def test_a_table_made_under_a_reading_is_found_to_be():
    runs = made_up_runs(rows=20, sets=30)
    printed = np.full((20, 2), 1.2)
    found = {r: table1_reading.log_likelihoods(printed, pairs).sum() for r, pairs in runs.items()}
    told = table1_reading.both_columns(found)
    assert {way for way, value in told.items() if value > max(told.values()) - 20.0} == {
        (True, "sum"),
        (False, "sum"),
    }
    # Nothing tells an intercept from none here, so that about half are taken for the other.
    assert 0.0 < table1_reading.recognised((True, "sum"), runs, 20) < 1.0


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_the_likelihood_is_scipys_kernel_density(width):
    pairs = made_up_runs(rows=3, sets=9)[next(table1_reading.readings())]
    entries = np.array([(1.1, 0.9), (0.8, 1.3), (4.0, 1.0)])
    expected = []
    for points, entry in zip(pairs, entries, strict=True):
        density = gaussian_kde(np.log(points).T, bw_method=width * 9 ** (-1 / 6))
        expected.append(density.logpdf(np.log(entry))[0])
    found = table1_reading.log_likelihoods(entries, pairs, width)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_evidence_shrinks_with_wider_kernels_and_without_the_loudest_rows():
    runs = made_up_runs(rows=20, sets=30)
    columns = {column: np.full((20, 2), 1.2) for column in ("naive", "reference")}
    lines = list(table1_reading.evidence(columns, runs))
    told = {(x["reference"], x["width"], x["left_out"]): x["decades"] for x in lines}
    assert len(told) == 15
    for choice in ("either", *table1_reading.CHOICES):
        assert told[choice, 0.5, 0] > told[choice, 1.0, 0] > told[choice, 2.0, 0] > 0.0
        assert told[choice, 1.0, 0] > told[choice, 1.0, 1] > told[choice, 1.0, 3] > 0.0
    mean = np.full((20, 2), 1.0)
    against = table1_reading.evidence({"naive": mean, "reference": mean}, runs)
    assert all(x["decades"] < 0.0 for x in against)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scale", ["mean", "sum"])
def test_a_reading_is_what_scikit_learn_gives_on_the_rows_it_may_see(intercept, scale):
    sizes, seed, settings = (20, 30, 20), 6, table1_reading.QUICK
    found = table1_reading.run_one((sizes, seed, settings))
    drawn = case1(*sizes).draw(seed, n_truth=1)
    X, y = drawn.X_target, drawn.y_target

    def fit(rows, outcomes, penalty):
        beside = len(outcomes) if scale == "mean" else 1.0
        return Ridge(max(penalty * beside, 1e-10), fit_intercept=intercept).fit(rows, outcomes)

    def tuned(train, kind):
        """Squared errors of every penalty on rows that the model has not seen."""
        if kind == "hold-out":
            n = round(0.7 * len(train))
            rounds = [(train[:n], train[n:])]
        else:
            rounds = [(np.delete(train, i), train[[i]]) for i in range(len(train))]
        penalties = np.linspace(0.0, 1.0, settings.n_penalties)
        errors = []
        for penalty in penalties:
            squares = []
            for rest, held in rounds:
                # the paper's leave-one-out keeps the penalty of all rows
                size = len(train) if kind == "leave-one-out" else len(rest)
                beside = size if scale == "mean" else 1.0
                model = Ridge(max(penalty * beside, 1e-10), fit_intercept=intercept)
                squares += list((model.fit(X[rest], y[rest]).predict(X[held]) - y[held]) ** 2)
            errors.append(np.mean(squares))
        best = penalties[int(np.argmin(errors))]
        rows = rounds[0][0] if kind == "hold-out" else train
        return fit(X[rows], y[rows], best)

    for kind in table1_reading.CHOICES:
        if not intercept and kind == "leave-one-out":
            continue  # without an intercept it is the same formula, less one term
        errors = []
        for index in range(settings.splits):
            train, test = paper_cases.cut(len(y), seed, index, settings.target_share)
            assert set(train).isdisjoint(test)
            predicted = tuned(train, kind).predict(X[test])
            errors.append(np.abs(predicted - y[test]).mean())
        pair = found[table1_reading.Reading("reference", intercept, scale, kind)]
        expected = (np.mean(errors), np.std(errors, ddof=1))
        np.testing.assert_allclose(pair, expected, rtol=1e-5)


def test_the_naive_reading_is_the_package_s():
    drawn = case1(30, 40, 30).draw(4, n_truth=1)
    ridge = paper_arrays.Ridge(np.linspace(0.0, 1.0, 11), penalty_scale="sum")
    prepared = paper_arrays.prepare(drawn.sources, drawn.X_target, 4_000)
    expected = paper_arrays.conclude(prepared, ridge)["naive"]
    b, b0 = table1_reading.naive(drawn, 4, ridge, paper_arrays.THIRDS)
    np.testing.assert_allclose(b, expected.coefficients, rtol=1e-9)
    assert b0 == pytest.approx(expected.intercept, rel=1e-9)


def test_weights_by_rows_never_collapse_but_fedda_does(quick):
    lines = read_table(quick / "collapse.csv")
    assert all(x["collapsed"] == "0" for x in lines if x["weighting"] == "naive")
    assert any(float(x["collapsed"]) > 0.0 for x in lines if x["weighting"].startswith("feddae"))


def test_the_far_source_of_case_1_has_next_to_no_weight_under_the_default(quick):
    lines = read_table(quick / "collapse.csv")
    [near] = [x for x in lines if x["weighting"] == "default" and x["setting"].startswith("case 1")]
    assert float(near["far_weight"]) < 0.05


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
def test_real_studies_judge_every_method_at_every_site(quick_real):
    sites = read_table(quick_real / "real_sites.csv")
    assert len(sites) == 2 * real_studies.QUICK.max_sites
    lines = read_table(quick_real / "real_studies.csv")
    assert {line["method"] for line in lines} == set(real_studies.METHODS)
    assert all(float(line["regret"]) >= 1.0 for line in lines if line["method"] == "default")
    judged = {line["data_set"]: line for line in lines if line["method"] == "default"}
    for name, line in judged.items():
        own = [site for site in sites if site["data_set"] == name]
        assert int(line["use"]) + int(line["warned"]) == len(own)
        assert int(line["judged"]) == sum(site["promised_default"] != "" for site in own)


def test_where_nothing_was_promised_nothing_is_off():
    sites = [
        {"data_set": "a", "loss": "brier", "verdict": "use it", "covered": True, "kept": True}
        | {"right": True, "promised_default": 0.2},
        {"data_set": "a", "loss": "brier", "verdict": "do not use it", "covered": None}
        | {"kept": None, "right": False, "promised_default": None},
    ]
    for site in sites:
        site |= {f"realised_{method}": 0.25 for method in real_studies.METHODS}
        site |= {f"promised_{method}": 0.35 for method in real_studies.PAPER_METHODS}
    lines = {line["method"]: line for line in real_studies.study_lines(sites)}
    assert lines["default"]["promise_off"] == pytest.approx(0.05)
    assert lines["default"]["promise_bias"] == pytest.approx(-0.05)
    assert lines["naive"]["promise_off"] == pytest.approx(0.1)
    assert lines["naive"]["gap"] == pytest.approx(-0.05)  # over the one site that both promised
    assert lines["constant"]["promise_off"] is None
    assert [lines["default"][key] for key in ("judged", "use", "use_right", "warned")] == [
        1, 1, 1, 1,
    ]  # fmt: skip
    never = [site | {"promised_default": None} for site in sites]
    assert real_studies.study_lines(never)[0]["promise_off"] is None


@pytest.mark.data
@needs_data
def test_the_page_can_be_written_from_any_results(quick_real):
    for name, block in BLOCKS.items():
        assert block(Results(quick_real)), name


@pytest.mark.data
@needs_data
def test_the_stroke_trial_has_enough_countries():
    sites = real_studies.sites_of("stroke", DATA, 100, None)
    assert len(sites.rows) >= 18
    assert all(len(y) >= 100 and set(y) == {0.0, 1.0} for _, y in sites.rows.values())
    assert len(sites.public_sd) == len(sites.columns)


def test_data_that_are_not_the_published_ones_are_refused(tmp_path):
    (tmp_path / "parkinsons").mkdir()
    (tmp_path / "parkinsons" / "parkinsons_updrs.data").write_text("x")
    with pytest.raises(DataAbsentError, match="sha256 is another"):
        real_studies.sites_of("parkinsons", tmp_path, 1, None)


@pytest.mark.parametrize("script", REAL, ids=name_of)
def test_absent_data_are_named_with_their_publisher(script, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        script.main(["--quick", "--out", str(tmp_path), "--data", str(tmp_path)])
    assert left.value.code not in (0, None)
    told = f"{left.value.code} {capsys.readouterr().err}"
    assert "parkinsons_updrs.data must be in the data folder" in told
    assert "Get it from UCI" in told


@pytest.mark.data
@needs_data
def test_a_study_whose_data_are_absent_does_not_stop_the_others(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "heart_disease").symlink_to(DATA / "heart_disease")
    real_studies.main(
        ["--quick", "--workers", "1", "--out", str(tmp_path), "--data", str(tmp_path / "data")]
    )
    assert "parkinsons_updrs.data" in capsys.readouterr().err
    assert {x["data_set"] for x in read_table(tmp_path / "real_sites.csv")} == {"heart"}


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
        (table1, "fresh", ((20, 30, 20), 1, table1.QUICK), (paper_cases, "answers")),
        (table1, "resplit", ((20, 30, 20), "kept", 1, table1.QUICK), (table1, "conclude")),
        (figure2, "run_one", (2.0, 1, figure2.QUICK), (paper_cases, "answers")),
        (figure2, "run_one", (2.0, 1, figure2.QUICK), (figure2, "default_answer")),
        (readings, "run_one", (("case1", (20, 30, 20)), 1, readings.QUICK), (readings, "conclude")),
        (collapse, "run_one", ("case 2, c = 3", 1, collapse.QUICK), (collapse, "answers")),
    ],
    ids=["table1-fresh", "table1-resplit", "figure2", "figure2-default", "readings", "collapse"],
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
@pytest.mark.parametrize("scaling", ["patient", "global", "none"])
def test_poisoned_outcomes_of_a_patient_move_nothing(monkeypatch, scaling):
    told = recorder(monkeypatch, parkinsons_tables, "answers")
    patients = dict(parkinsons_tables.patients(DATA, 4))
    target = next(iter(patients))
    task = (target, scaling, 1, DATA, parkinsons_tables.QUICK)
    parkinsons_tables.run_one(task)
    X, y = patients[target]
    patients[target] = X, 1e6 * np.arange(len(y))
    monkeypatch.setattr(parkinsons_tables, "patients", lambda *_: patients)
    parkinsons_tables.run_one(task)
    assert_same(told[:1], told[1:])


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(("data_set", "loss"), real_studies.QUICK.studies)
def test_poisoned_outcomes_of_a_real_site_move_nothing(monkeypatch, data_set, loss):
    told = recorder(monkeypatch, real_studies, "answers")
    sites = real_studies.sites_of(data_set, DATA, 100, 3)
    target = next(iter(sites.rows))
    task = (data_set, loss, target, DATA, real_studies.QUICK)
    real_studies.run_one(task)
    X, y = sites.rows[target]
    rows = {**sites.rows, target: (X, 1.0 - y)}
    monkeypatch.setattr(
        real_studies, "sites_of", lambda *_: Sites(sites.columns, sites.public_sd, rows)
    )
    real_studies.run_one(task)
    assert_same(told[:1], told[1:])


# The results ---------------------------------------------------------------------------------


def test_results_are_small_and_those_of_the_full_studies():
    results = ROOT / "experiments" / "results"
    assert sum(path.stat().st_size for path in results.iterdir()) < 2_000_000
    for script in SCRIPTS:
        told = (results / f"{script}.provenance.json").read_text(encoding="utf-8")
        assert '"mode": "full"' in told
        assert '"commit"' in told
