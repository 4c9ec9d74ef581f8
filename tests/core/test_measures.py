"""Every measure against scikit-learn with weights, its variance against a slow jackknife."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn import metrics
from sklearn.linear_model import LinearRegression, LogisticRegression

from fedcsa.core import losses
from fedcsa.core.formulas import calibration_level, calibration_line
from fedcsa.core.measures import (
    MEASURES,
    NOT_ESTIMABLE,
    from_link,
    left_out_variance,
    link_slope,
    measure_columns,
    measure_values,
    measure_variances,
    on_link,
)
from fedcsa.core.scores import JACKKNIFE_GROUPS, ScoreDesign, ScoreSums, complement, told_by

THRESHOLDS = (0.2, 0.45)


def discrete_rows(n_classes, n=400, seed=0):
    """Rows whose scores have few values, each in a bin of its own, so that tables lose nothing."""
    rng = np.random.default_rng(seed)
    w = rng.exponential(size=n)
    x = rng.integers(-4, 5, n) / 2.0
    if n_classes == 0:
        return 3.0 + x + rng.normal(size=n), 3.0 + 0.8 * x, w / w.sum()
    odds = np.exp(np.column_stack([np.zeros(n), 1.3 * x - 0.5, -0.3 * x][:n_classes]))
    p = odds / odds.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return y.astype(float), p, w / w.sum()


def design_of(n_classes, n_subgroups=0):
    thresholds = THRESHOLDS if n_classes == 2 else ()
    return ScoreDesign(n_classes, thresholds, n_subgroups, centre=2.5, unit=1.7)


def sums_of(design, y, p, w, labels=None, inside=None):
    labels = np.arange(len(y)) % JACKKNIFE_GROUPS if labels is None else labels
    inside = np.ones((len(y), 1), bool) if inside is None else inside
    return ScoreSums.of_rows(design, y, p, w, labels, inside)


def variances_of(design, sums, min_rows=1, imbalance=0.0):
    return measure_variances(sums.told(min_rows)[2], design, imbalance)


def told_of(design, *rows, min_rows=1):
    sums = sums_of(design, *rows)
    return told_by(design, *sums.told(min_rows)[:2])[0]


def by_column(design, told):
    values, *_ = measure_values(told)
    columns = measure_columns(design)
    return {
        (c.measure.name, c.of_class, c.threshold): float(v)
        for c, v in zip(columns, values, strict=True)
    }


def of_two_classes(y, p, w, thresholds=THRESHOLDS):
    """What scikit-learn says."""
    score, rate = p[:, 1], np.average(y, weights=w)
    brier = metrics.brier_score_loss(y, score, sample_weight=w)
    line = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000)
    line.fit(logit(score)[:, None], y, sample_weight=w * len(y))
    found = {
        ("auroc", 1, None): metrics.roc_auc_score(y, score, sample_weight=w),
        ("event_rate", 1, None): rate,
        ("observed_expected", 1, None): rate / np.average(score, weights=w),
        ("calibration_slope", 1, None): line.coef_[0, 0],
        ("brier", None, None): brier,
        ("scaled_brier", None, None): 1.0 - brier / (rate * (1.0 - rate)),
        ("log_loss", None, None): metrics.log_loss(y, p, sample_weight=w),
    }
    for t in thresholds:
        high = score >= t
        pairs = {
            "sensitivity": metrics.recall_score(y, high, sample_weight=w),
            "specificity": metrics.recall_score(y, high, pos_label=0, sample_weight=w),
            "ppv": metrics.precision_score(y, high, sample_weight=w),
            "npv": metrics.precision_score(y, high, pos_label=0, sample_weight=w),
            # dcurves: true positives − false positives · t/(1 − t), per row
            "net_benefit": sum(
                wi * (yi - (1.0 - yi) * t / (1.0 - t))
                for wi, yi, above in zip(w, y, high, strict=True)
                if above
            ),
        }
        found |= {(name, 1, t): value for name, value in pairs.items()}
    return found


def of_three_classes(y, p, w):
    found = {}
    for c in range(3):
        event, score = (y == c).astype(float), p[:, c]
        one = of_two_classes(event, np.column_stack([1.0 - score, score]), w, ())
        found |= {(name, c, None): value for (name, of, _), value in one.items() if of == 1}
    rates = np.array([np.average(y == c, weights=w) for c in range(3)])
    brier = metrics.brier_score_loss(y, p, sample_weight=w, labels=[0, 1, 2])
    found["brier", None, None] = brier
    found["scaled_brier", None, None] = 1.0 - brier / (rates * (1.0 - rates)).sum()
    found["log_loss", None, None] = metrics.log_loss(y, p, sample_weight=w)
    return found


def of_numbers(y, p, w):
    line = LinearRegression().fit(p[:, None], y, sample_weight=w)
    return {
        ("rmse", None, None): metrics.root_mean_squared_error(y, p, sample_weight=w),
        ("mae", None, None): metrics.mean_absolute_error(y, p, sample_weight=w),
        ("r2", None, None): metrics.r2_score(y, p, sample_weight=w),
        ("calibration_slope", None, None): line.coef_[0],
        ("calibration_intercept", None, None): np.average(y - p, weights=w),
    }


#: Sixty patients whom dcurves 1.1.7 was asked about: risks in hundredths, and who had the event.
RISKS = (
    "57 81 70 22 28 79 2 74 72 43 29 27 24 41 46 51 90 72 57 89 21 16 56 6 5 47 43 83 "
    "57 47 46 24 3 19 63 20 35 2 75 16 26 79 47 77 58 67 10 50 47 79 34 55 7 36 30 15 "
    "74 35 88 54"
)
EVENTS = "011101010100001000111010000111100010101101110100110000100110"
#: Its net benefits at 0.1, 0.2, 0.35 and 0.5; some patients lie exactly there.
DCURVES = [0.4185185185185185, 0.35833333333333334, 0.27435897435897433, 0.1]


def test_net_benefit_equals_that_of_dcurves():
    p, y = np.array(RISKS.split(), float) / 100.0, np.array(list(EVENTS), float)
    design = ScoreDesign(2, (0.1, 0.2, 0.35, 0.5))
    told = told_of(design, y, np.column_stack([1.0 - p, p]), np.full(len(y), 1.0 / len(y)))
    found = [value for key, value in by_column(design, told).items() if key[0] == "net_benefit"]
    np.testing.assert_allclose(found, DCURVES, rtol=1e-12)


@pytest.mark.parametrize(
    ("n_classes", "peer"), [(0, of_numbers), (2, of_two_classes), (3, of_three_classes)]
)
def test_every_measure_equals_scikit_learns_with_the_same_weights(n_classes, peer):
    design, rows = design_of(n_classes), discrete_rows(n_classes)
    found, expected = by_column(design, told_of(design, *rows)), peer(*rows)
    assert set(found) == set(expected)
    for key, value in expected.items():
        # scikit-learn stops its logistic regression a little before the maximum
        slack = 1e-5 if key[0] == "calibration_slope" else 1e-9
        assert found[key] == pytest.approx(value, abs=slack), key


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_merging_cells_changes_no_measure_but_by_ties(n_classes):
    design, rows = design_of(n_classes), discrete_rows(n_classes, 2000)
    fine, told = (by_column(design, told_of(design, *rows, min_rows=k)) for k in (1, 5))
    for key, value in fine.items():
        assert told[key] == pytest.approx(value, abs=0.005), key


# Variances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_variances_are_those_of_a_jackknife_that_leaves_rows_out(n_classes):
    y, p, w = discrete_rows(n_classes)
    labels = np.random.default_rng(1).integers(0, JACKKNIFE_GROUPS, len(y))
    inside = np.column_stack([np.ones(len(y), bool), np.arange(len(y)) % 5 < 3])
    design = design_of(n_classes, 1)
    columns, pieces = measure_columns(design), {0: [], 1: [], 2: []}
    for g in range(JACKKNIFE_GROUPS):
        i = labels != g
        sums = sums_of(design, y[i], p[i], w[i], labels[i], inside[i])
        told = told_by(design, *sums.told(1)[:2])
        for s in (0, 1):
            pieces[s].append(measure_values(told[s])[2])
        rest = measure_values(complement(told[0], told[1]))[0]
        pieces[2].append(measure_values(told[1])[0] - rest)
    found = variances_of(design, sums_of(design, y, p, w, labels, inside))
    assert found.shape == (3, len(columns))
    for s, each in pieces.items():
        for k, column in enumerate(columns):
            slow = np.array(each)[:, k]
            slow = 19.0 / 20.0 * ((slow - slow.mean()) ** 2).sum()
            if column.measure.binomial:  # at least that of a binomial
                assert found[s, k] >= slow * (1.0 - 1e-9)
            else:
                assert found[s, k] == pytest.approx(slow, rel=1e-6, abs=1e-11)


def test_the_jackknife_of_a_mean_is_its_variance():
    values = np.random.default_rng(0).normal(size=50)
    left_out = (values.sum() - values) / 49.0
    assert left_out_variance(left_out) == pytest.approx(values.var(ddof=1) / 50.0)
    assert left_out_variance(left_out[:1]) == 0.0


def test_what_is_left_of_the_imbalance_widens_every_variance():
    design, rows = design_of(2), discrete_rows(2)
    sums = sums_of(design, *rows)
    plain, wide = (variances_of(design, sums, imbalance=x) for x in (0.0, 0.05))
    rate = np.average(rows[0], weights=rows[2])
    for k, column in enumerate(measure_columns(design)):
        unit = rate if column.measure.name == "net_benefit" else 1.0
        added = 0.05**column.measure.imbalance * unit**2
        assert wide[0, k] - plain[0, k] == pytest.approx(added, rel=1e-6)


def test_a_rate_of_one_is_not_certain():
    y, p, w = discrete_rows(2)
    p[y == 1] = [0.01, 0.99]
    design = design_of(2)
    variances = variances_of(design, sums_of(design, y, p, w))[0]
    found = dict(zip([c.measure.name for c in measure_columns(design)], variances, strict=True))
    assert found["sensitivity"] > 0.5


def test_a_difference_of_two_rates_of_one_is_not_certain():
    y, p, w = discrete_rows(2)
    p[y == 1] = [0.01, 0.99]
    inside = np.column_stack([np.ones(len(y), bool), np.arange(len(y)) % 2 == 0])
    design = design_of(2, 1)
    variances = variances_of(design, sums_of(design, y, p, w, None, inside))[2]
    found = dict(zip([c.measure.name for c in measure_columns(design)], variances, strict=True))
    assert found["sensitivity"] > 1e-5


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_numbers_of_four_digits_suffice(n_classes):
    design, rows = design_of(n_classes), discrete_rows(n_classes, 2000)
    table, sums, _ = sums_of(design, *rows).told()
    rounded = np.vectorize(lambda v: float(f"{v:.3e}"))
    exact = by_column(design, told_by(design, table, sums)[0])
    told = told_by(design, rounded(table), rounded(sums))[0]
    for key, value in by_column(design, told).items():
        assert value == pytest.approx(exact[key], abs=0.002), key


# Degenerate sites -----------------------------------------------------------------------------


def degenerate():
    y, p, w = discrete_rows(2, 200)
    same = np.full_like(p, 0.5)
    edge = np.column_stack([1.0 - (p[:, 1] > 0.5), p[:, 1] > 0.5]).astype(float)
    sure = np.column_stack([1.0 - y, y])
    number, _, v = discrete_rows(0, 200)
    return {
        "no events": (np.zeros_like(y), p, w),
        "one class": (np.ones_like(y), p, w),
        "one event": ((np.arange(200) == 7).astype(float), p, w),
        "four events": ((np.arange(200) % 53 == 7).astype(float), p, w),
        "constant predictions": (y, same, w),
        "probabilities of 0 and 1": (y, edge, w),
        "certain and right": (y, sure, w),
        "nine rows": (y[:9], p[:9], w[:9]),
        "one heavy row": (y, p, np.where(np.arange(200) == 0, 1.0, 1e-9)),
        "constant numbers": (number, np.full(200, 3.0), v),
        "equal outcomes": (np.full(200, 3.0), number, v),
        "perfect numbers": (number, number.copy(), v),
    }


#: Measures that cannot be estimated at such a site, of those with a value for everybody.
NOT_THERE = {
    "no events": {"auroc", "calibration_slope", "scaled_brier"},
    "one class": {"auroc", "calibration_slope", "scaled_brier"},
    "one event": {"auroc", "calibration_slope", "scaled_brier"},
    "four events": {"auroc", "calibration_slope"},
    "constant predictions": {"calibration_slope"},
    "probabilities of 0 and 1": set(),
    "certain and right": {"calibration_slope", "brier", "scaled_brier", "log_loss"},
    "constant numbers": {"calibration_slope"},
    "equal outcomes": {"r2"},
    "perfect numbers": {"rmse", "mae", "r2"},
}


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("min_rows", [1, 5])
def test_a_degenerate_site_tells_what_it_can(name, min_rows):
    y, p, w = degenerate()[name]
    design = design_of(2 if p.ndim == 2 else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums = sums_of(design, y, p, w)
        found = variances_of(design, sums, min_rows)[0]
        told = told_by(design, *sums.told(min_rows)[:2])
        for item in told.values():
            measure_values(item)
    assert np.isfinite(found).all()
    assert ((found > 0.0) | (found == NOT_ESTIMABLE)).all()
    missing = {
        c.measure.name
        for c, v in zip(measure_columns(design), found, strict=True)
        if v == NOT_ESTIMABLE and not c.measure.at_threshold
    }
    if name in NOT_THERE and (min_rows == 1 or name not in ("one event", "one class")):
        assert missing == NOT_THERE[name]
    elif name not in NOT_THERE:
        assert (found == NOT_ESTIMABLE).all()


def test_ties_count_half():
    y, p, w = degenerate()["constant predictions"]
    design = design_of(2)
    assert by_column(design, told_of(design, y, p, w))["auroc", 1, None] == 0.5


def test_the_log_loss_of_a_sure_mistake_is_that_of_the_loss():
    y, p, w = degenerate()["probabilities of 0 and 1"]
    design = design_of(2)
    found = by_column(design, told_of(design, y, p, w))["log_loss", None, None]
    assert found == pytest.approx(w @ losses.log(p, y), rel=1e-12)


def test_at_thresholds_that_nobody_reaches_some_rates_are_known_and_some_are_not():
    y, p, w = discrete_rows(2)
    design = ScoreDesign(2, (0.9999,))
    found = by_column(design, told_of(design, y, p, w))
    rate = np.average(y, weights=w)
    expected = {"sensitivity": 0.0, "specificity": 1.0, "npv": 1.0 - rate, "net_benefit": 0.0}
    for name, value in expected.items():
        assert found[name, 1, 0.9999] == pytest.approx(value)
    assert np.isnan(found["ppv", 1, 0.9999])


# Scales ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", MEASURES, ids=lambda m: f"{m.name} of {m.kind}")
def test_a_scale_leads_there_and_back(measure):
    value, many = np.array(0.3), np.array(1e12)
    x = on_link(measure, value, many)
    assert from_link(measure, x) == pytest.approx(0.3, abs=1e-9)
    step = (from_link(measure, x + 1e-6) - from_link(measure, x - 1e-6)) / 2e-6
    assert link_slope(measure, x) == pytest.approx(abs(float(step)), rel=1e-6)


@pytest.mark.parametrize("measure", [m for m in MEASURES if m.binomial], ids=lambda m: m.name)
def test_rates_of_zero_are_finite_on_their_scale(measure):
    assert np.isfinite(on_link(measure, np.array(0.0), np.array(20.0)))


def test_no_measure_is_there_twice():
    names = [(m.name, m.kind) for m in MEASURES]
    assert len(set(names)) == len(names)


def test_the_page_of_measures_has_a_row_for_each_with_its_scale_and_prior():
    page = Path(__file__).parents[2] / "docs" / "measures.md"
    cells = [line.strip("| ").split(" | ") for line in page.read_text("utf-8").splitlines()]
    rows = [(c[0].strip("`"), c[1], c[3], c[4]) for c in cells if c[0].startswith("`")]
    units = {"": "", "events": " event rates", "residuals": " residual sds"}
    assert rows == [(m.name, m.kind, m.link, f"{m.spread:g}{units[m.spread_in]}") for m in MEASURES]


# Calibration line -----------------------------------------------------------------------------


@pytest.mark.parametrize("line", [(0.0, 1.0), (-3.0, 0.3), (2.0, 4.0)])
def test_a_calibration_line_is_found(line):
    x = np.linspace(-4.0, 4.0, 30)
    w = np.random.default_rng(0).random(30)
    events = w * expit(line[0] + line[1] * x)
    assert calibration_line(w, events, x) == pytest.approx(line, abs=1e-8)
    assert calibration_level(w, events, x, line[1]) == pytest.approx(line[0], abs=1e-8)


def test_outcomes_that_are_separated_have_no_slope():
    x = np.linspace(-1.0, 1.0, 10)
    assert np.isnan(calibration_line(np.ones(10), (x > 0.0).astype(float), x)).all()
