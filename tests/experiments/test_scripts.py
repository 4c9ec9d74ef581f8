"""Every experiment runs in its quick form, and says what its table must say."""

import guard_backtest
import guard_losses
import guard_reach
import guard_real
import guard_resplit
import guard_study
import guard_table1
import numpy as np
import pytest
from common import ROOT, read_table
from families import FAMILIES, case1
from sklearn.linear_model import Ridge

import fedcsa

DATA = ROOT.parent / "shared" / "data"


def run(script, folder, *arguments, workers=1):
    script.main(["--quick", "--workers", str(workers), "--out", str(folder), *arguments])
    return {path.stem: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    run(guard_study, folder)
    return folder


def test_the_study_reports_every_family_and_method(study):
    lines = {line["family"]: line for line in read_table(study / "guard_families.csv")}
    assert tuple(lines) == guard_study.QUICK.families
    for line in lines.values():
        assert line["seeds"] == str(guard_study.QUICK.seeds)
        for method in (*guard_study.METHODS, *guard_study.YARDSTICKS):
            assert float(line[f"mse_{method}"]) > 0.0


def test_nothing_beats_the_oracle_and_one_source_is_its_own_best(study):
    for line in read_table(study / "guard_families.csv"):
        assert float(line["over_oracle"]) >= 0.9999
        if line["family"] == "one-source":
            assert line["mse_single"] == line["mse_guarded"]


def test_the_far_source_of_case_1_has_next_to_no_weight(study):
    lines = read_table(study / "guard_case1.csv")
    assert len(lines) == guard_study.QUICK.case1_rows
    assert all(float(line["far_weight_max"]) < 0.05 for line in lines)


def test_case_2_is_refused_when_the_sources_are_away(study):
    lines = {line["c"]: line for line in read_table(study / "guard_case2.csv")}
    assert lines["3"]["no_overlap"] == "1"


def test_claims_are_made_about_sets_of_families(study):
    sets = {line["set"] for line in read_table(study / "guard_sets.csv")}
    assert {"answered", "not violating", "violates"} <= sets
    shares = [
        float(line["share"])
        for line in read_table(study / "guard_coverage.csv")
        if line["set"] == "not violating"
    ]
    assert sum(shares) == pytest.approx(1.0, abs=1e-4)


def test_the_full_study_uses_every_family_and_seeds_of_its_own():
    assert set(guard_study.FULL.families) == {item.name for item in FAMILIES}
    assert guard_study.FULL.seeds >= 50
    for script in (guard_study, guard_table1, guard_losses, guard_backtest):
        assert script.FULL.first_seed == 20_000
        assert script.QUICK.first_seed < 10_000


def test_the_printed_table_has_twenty_rows_and_fedda_is_its_winner():
    rows = guard_table1.printed()
    assert len(rows) == 20
    assert len({(row["n_target"], row["n_1"], row["n_2"]) for row in rows}) == 20
    for row in rows:
        assert row["feddae"][0] < min(row["naive"][0], row["fediwe"][0], row["reference"][0])


def test_table_1_repeats_to_the_last_digit_whatever_the_workers(tmp_path):
    first = run(guard_table1, tmp_path / "a")
    assert first == run(guard_table1, tmp_path / "b", workers=2)
    lines = read_table(tmp_path / "a" / "guard_table1.csv")
    assert len(lines) == 2 * guard_table1.QUICK.rows
    assert all(float(line["guarded_mean"]) < float(line["naive_mean"]) for line in lines)
    assert lines[0]["printed_feddae"] == "0.8649"


def test_a_penalty_beside_a_sum_is_scikit_learns():
    found = guard_table1.run_one(("sum", (20, 30, 20), 3, guard_table1.QUICK))
    drawn = case1(20, 30, 20).draw(3, n_truth=guard_table1.QUICK.n_truth)
    order = np.random.default_rng(3).permutation(20)
    train, held = order[:14], order[14:]
    fits = [
        Ridge(alpha=alpha).fit(drawn.X_target[train], drawn.y_target[train])
        for alpha in np.linspace(0.0, 1.0, 11)
    ]
    X, y = drawn.X_target[held], drawn.y_target[held]
    best = min(fits, key=lambda fit: np.mean((fit.predict(X) - y) ** 2))
    error = np.abs(best.predict(drawn.X_truth) - drawn.y_truth).mean()
    assert found["reference"] == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("scale", ["mean", "sum"])
def test_re_split_targets_are_judged_on_the_rows_that_no_method_saw(monkeypatch, scale):
    given = []
    default = guard_resplit.default

    def watched(sources, X_target, *rest):
        given.append(X_target)
        return default(sources, X_target, *rest)

    monkeypatch.setattr(guard_resplit, "default", watched)
    settings, sizes, seed = guard_resplit.QUICK, (20, 30, 20), 5
    found = guard_resplit.run_one((scale, sizes, seed, settings))
    drawn = case1(*sizes).draw(seed, n_truth=1)
    errors = {"guarded": [], "reference": [], "reference-tuned": [], "target-mean": []}
    penalties = np.linspace(0.0, 1.0, 11)
    beside = {"mean": lambda rows: rows, "sum": lambda _: 1}[scale]

    def ridge(rows, penalty, n_penalised):
        alpha = max(penalty * beside(n_penalised), 1e-10)
        return Ridge(alpha).fit(drawn.X_target[rows], drawn.y_target[rows])

    def missed(model, rows):
        return model.predict(drawn.X_target[rows]) - drawn.y_target[rows]

    assert len(given) == settings.splits
    for seen in given:
        places = [np.flatnonzero((drawn.X_target == row).all(1))[0] for row in seen]
        hidden = [i for i in range(20) if i not in places]
        assert (len(seen), len(hidden)) == (14, 6)
        models = {
            "guarded": fedcsa.FedCSA(
                {"name": "ridge", "penalty_scale": {"mean": "mean", "sum": "sklearn"}[scale]},
                candidates=penalties.tolist(),
                scale=False,
                random_state=seed,
                on_no_overlap="predict",
            ).fit(drawn.sources, seen)
        }
        first, rest = places[:10], places[10:]
        held = [np.mean(missed(ridge(first, p, 10), rest) ** 2) for p in penalties]
        models["reference"] = ridge(first, penalties[np.argmin(held)], 10)
        left_out = [
            np.mean([missed(ridge([j for j in places if j != i], p, 14), [i]) ** 2 for i in places])
            for p in penalties
        ]
        models["reference-tuned"] = ridge(places, penalties[np.argmin(left_out)], 14)
        for name, model in models.items():
            errors[name].append(np.abs(missed(model, hidden)).mean())
        mean = drawn.y_target[places].mean()
        errors["target-mean"].append(np.abs(mean - drawn.y_target[hidden]).mean())
    for name, each in errors.items():
        expected = (np.mean(each), np.std(each, ddof=1))
        assert found[name] == pytest.approx(expected, rel=1e-6), name


def test_re_split_tables_average_over_data_sets(tmp_path):
    run(guard_resplit, tmp_path)
    lines = read_table(tmp_path / "guard_resplit.csv")
    settings = guard_resplit.QUICK
    assert [line["penalty"] for line in lines] == ["mean", "mean", "sum", "sum"]
    for told, scale in ((lines[0], "mean"), (lines[2], "sum")):
        sets = [guard_resplit.run_one((scale, (20, 30, 20), seed, settings)) for seed in range(3)]
        spread = sum(each["reference"][1] for each in sets) / 3
        assert float(told["reference_sd"]) == pytest.approx(spread, rel=1e-3)
        gap = sum(each["guarded"][0] - each["reference-tuned"][0] for each in sets) / 3
        assert float(told["mean_difference"]) == pytest.approx(gap, rel=1e-3)
        ahead = [each["guarded"][0] < each["naive"][0] for each in sets]
        assert float(told["mean_below_naive"]) == pytest.approx(sum(ahead) / 3, rel=1e-3)
        rivals = ("naive", "fediwe", "feddae", "reference")
        ahead = [each["guarded"][1] < min(each[m][1] for m in rivals) for each in sets]
        assert float(told["sd_smallest_reference"]) == pytest.approx(sum(ahead) / 3, rel=1e-3)


def test_the_best_penalty_in_hindsight_is_the_least_of_all(tmp_path):
    run(guard_reach, tmp_path)
    drawn = case1(20, 30, 20).draw(1, n_truth=2_000)
    X, y = drawn.sources["s01"]
    for scale, factor in (("mean", len(y)), ("sum", 1)):
        errors = []
        for penalty in np.linspace(0.0, 1.0, 11):
            fitted = Ridge(alpha=factor * max(penalty, 1e-9)).fit(X, y)
            errors.append(np.abs(fitted.predict(drawn.X_truth) - drawn.y_truth).mean())
        found = guard_reach.run_one((scale, (20, 30, 20), 1, guard_reach.QUICK))
        assert found["best-penalty"] == pytest.approx(min(errors), rel=1e-6)
    assert len(read_table(tmp_path / "guard_reach.csv")) == 2 * guard_reach.QUICK.rows


def test_the_references_of_what_can_be_reached_are_those_of_table_1():
    results = ROOT / "experiments" / "results"
    for ours, theirs in zip(
        read_table(results / "guard_reach.csv"),
        read_table(results / "guard_table1.csv"),
        strict=True,
    ):
        for name in ("reference_mean", "reference_sd"):
            assert ours[name] == theirs[name]


def test_losses_run_and_the_brier_loss_is_exact(tmp_path):
    written = {"guard_losses", "guard_losses_first", "guard_losses.provenance"}
    assert set(run(guard_losses, tmp_path)) == written
    lines = read_table(tmp_path / "guard_losses.csv")
    kinds = {line["loss"]: line["kind"] for line in lines}
    assert kinds == {"absolute": "bound", "log": "bound", "brier": "exact", "zero-one": "bound"}
    assert all(float(line["below_upper"]) >= float(line["coverage"]) for line in lines)


def test_back_tests_leave_identical_hospitals_in_peace(tmp_path):
    run(guard_backtest, tmp_path)
    lines = {line["family"]: line for line in read_table(tmp_path / "guard_backtest.csv")}
    assert lines["identical"]["passed"] == "1"
    assert lines["mixture-line"]["untested"] == "1"
    for line in lines.values():
        assert sum(float(line[v]) for v in guard_backtest.VERDICTS) == pytest.approx(1, abs=1e-4)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data folder beside the project")
def test_real_data_run_site_by_site(tmp_path):
    run(guard_real, tmp_path, "--data", str(DATA))
    lines = {line["data_set"]: line for line in read_table(tmp_path / "guard_real.csv")}
    assert set(lines) == {"heart", "parkinsons"}
    sites = read_table(tmp_path / "guard_real_sites.csv")
    assert len(sites) == 2 * guard_real.QUICK.max_sites
    # 93 % of the variance of the Parkinson score lies between patients: no promise can hold.
    assert float(lines["parkinsons"]["realised_own_model"]) < float(
        lines["parkinsons"]["realised_guarded"]
    )


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="no data folder beside the project")
def test_the_stroke_trial_has_enough_countries():
    sites = guard_real.sites_of("stroke", DATA, None)
    assert len(sites.rows) >= 18
    assert all(len(y) >= 100 and set(y) == {0.0, 1.0} for _, y in sites.rows.values())
    assert len(sites.public_sd) == len(sites.columns)


def test_absent_data_are_named_with_their_publisher(tmp_path):
    with pytest.raises(SystemExit, match=r"processed\.cleveland\.data .* Get it from UCI"):
        guard_real.main(["--quick", "--out", str(tmp_path), "--data", str(tmp_path)])


def test_data_that_are_not_the_published_ones_are_refused(tmp_path):
    (tmp_path / "parkinsons").mkdir()
    (tmp_path / "parkinsons" / "parkinsons_updrs.data").write_text("x")
    with pytest.raises(guard_real.DataAbsentError, match="sha256 is another"):
        guard_real.sites_of("parkinsons", tmp_path, None)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_reference_is_scikit_learns_ridge_at_the_best_penalty(seed):
    drawn = case1(30, 40, 30).draw(seed, n_truth=200)
    penalties = np.linspace(0.0, 1.0, 11)
    ridge = guard_table1.QUICK.ridge("mean")
    order = np.random.default_rng(seed).permutation(30)
    X, y = drawn.X_target, drawn.y_target
    fits = [Ridge(alpha=max(21 * p, 1e-9)).fit(X[order[:21]], y[order[:21]]) for p in penalties]
    errors = [np.mean((fit.predict(X[order[21:]]) - y[order[21:]]) ** 2) for fit in fits]
    expected = fits[int(np.argmin(errors))].predict(drawn.X_truth)
    got = guard_table1.reference(drawn, ridge, seed, drawn.X_truth)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
