"""Every number told of scores is held against an inequality that all data satisfy."""

from dataclasses import replace

import numpy as np
import pytest

from fedcsa.core.measures import measure_columns, measure_variances
from fedcsa.core.scores import (
    RESIDUAL_SHAPE,
    ScoreDesign,
    ScoreSums,
    residual_sums,
    told_residuals,
)
from fedcsa.messages.messages import ExaminationReport
from fedcsa.messages.policy import Policy
from fedcsa.target.accept import score_rules

#: Outcomes with two classes, three classes, and numbers.
DESIGNS = {
    "two classes": ScoreDesign(2, (0.2, 0.5), 1),
    "three classes": ScoreDesign(3, (), 1),
    "numbers": ScoreDesign(0, (), 1, 3.0, 2.0),
}


class Said:
    """What a source reported before, as far as it matters here."""

    def __init__(self, w):
        self.n_rows, self.largest_share = len(w), float(w.max())


def drawn(kind, seed=0, n=200, event=0.3, flat=False, far=False):
    """Rows with outcomes, predictions, weights, a subgroup; `far`: some weigh next to nothing."""
    rng, design = np.random.default_rng(seed), DESIGNS[kind]
    w = rng.gamma(2.0, 1.0, n)
    w /= w.sum()
    if kind == "numbers":
        p = 3.0 + rng.normal(0.0, 1.0, n) * (not flat)
        y = p + rng.normal(0.0, 1.5, n)
    else:
        k = design.n_classes
        odds = rng.normal(0.0, 0.0 if flat else 1.0, (n, k)) + np.log(
            [1.0 - event] + [event] * (k - 1)
        )
        p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
        y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).astype(float)
    inside = np.column_stack([np.ones(n, bool), rng.random(n) < 0.4])
    if far:
        w = np.where((p if p.ndim == 1 else p[:, -1]) > np.median(p), 5e-324, w)
        w[w > 1e-300] /= w.sum()
    return design, y, p, w, rng.integers(0, 20, n), inside


def told(kind, min_rows=1, digits=None, **how):
    """The report of an honest source, and what it said before."""
    design, y, p, w, labels, inside = drawn(kind, **how)
    sums = ScoreSums.of_rows(design, y, p, w, labels, inside)
    residuals = np.empty((0, 0))
    if kind == "numbers":
        z = np.random.default_rng(9).normal(size=(len(y), 3))
        residuals = told_residuals(*residual_sums(z, (y - p) / design.unit, w), min_rows)
    (table, exact, parts), none = sums.told(min_rows), np.empty((0, 0))
    tables = table, none, none, none
    if len(table):
        variances = measure_variances(parts, design, 0.001)
        tables = table, exact, variances, residuals
    report = ExaminationReport(
        "s", "a", "0" * 64, "", 0.3, 0.01, 0.1, 0.5, 0.01, np.zeros(1), np.full(1, 0.01),
        np.empty(0), np.empty(0), *tables,
    )  # fmt: skip
    policy = replace(Policy.open(), significant_digits=digits)
    return policy.release(report), design, Said(w)


def score_problem(report, design, said):
    """The first rule that is broken, in words."""
    rules = score_rules(report, design, said)
    return next((text for holds, text in rules if not holds), None)


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize(("min_rows", "digits"), [(1, None), (1, 3), (5, 4)])
def test_what_an_honest_source_tells_is_accepted(kind, min_rows, digits):
    for seed in range(4):
        assert score_problem(*told(kind, min_rows, digits, seed=seed, n=60 + 80 * seed)) is None


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("how", [{"flat": True}, {"event": 1e-6}, {"n": 7}, {"far": True}], ids=str)
def test_strange_data_are_no_lie(kind, how):
    for min_rows in (1, 5):
        assert score_problem(*told(kind, min_rows, 4, **how)) is None


@pytest.mark.parametrize("kind", DESIGNS)
def test_a_source_may_keep_its_table(kind):
    report, design, said = told(kind)
    none = np.empty((0, 0))
    silent = {"scores": np.empty((0, 7)), "score_sums": none, "measure_variance": none}
    assert score_problem(replace(report, **silent, residuals=none), design, said) is None


def cell(column, change):
    """A lie in one cell: the fullest of everybody's first class."""

    def lie(report, _):
        table = report.scores.copy()
        k = int(table[: (table[:, 0] == 0).sum() // 2, 3].argmax())
        table[k, column] = change(table[k])
        return {"scores": table}

    return lie


def part(name, change):
    """A lie in a sum over everybody."""

    def lie(report, design):
        sums = report.score_sums.copy()
        k = design.sum_names.index(name)
        sums[0, k] = change(sums[0, k])
        return {"score_sums": sums}

    return lie


def every_cell(change):
    def lie(report, _):
        table = report.scores.copy()
        change(table)
        return {"scores": table}

    return lie


def scaled_sums(report, _):
    return {"score_sums": 1.2 * report.score_sums}


def subgroup_outweighs(report, _):
    """Cells and sums of the subgroup twice as heavy: alone they would not contradict each other."""
    table, sums = report.scores.copy(), report.score_sums.copy()
    table[table[:, 0] == 1, 3:] *= 2.0
    sums[1] *= 2.0
    return {"scores": table, "score_sums": sums}


def no_cells_of_the_subgroup(report, _):
    return {"scores": report.scores[report.scores[:, 0] == 0]}


def tiny_variance(name):
    def lie(report, design):
        names = [column.measure.name for column in measure_columns(design)]
        variances = report.measure_variance.copy()
        variances[0, names.index(name)] = 1e-9
        return {"measure_variance": variances}

    return lie


BOTH = ("two classes", "three classes", "numbers")
#: What is impossible, the outcomes for which it can be told, and the lie.
LIES = [
    ("not whole", BOTH, cell(3, lambda c: c[3] + 0.5)),
    ("impossible counts", BOTH, cell(3, lambda _: 0.0)),
    ("impossible counts", BOTH, cell(3, lambda _: -1.0)),
    ("impossible counts", BOTH, cell(4, lambda c: -c[4])),
    ("heavier than their rows", BOTH, cell(3, lambda _: 1.0)),
    ("more rows than", BOTH, cell(3, lambda _: 1000.0)),
    ("outside their cell", BOTH, cell(6, lambda c: c[6] + 0.3 * c[4])),
    ("more events", BOTH[:2], cell(5, lambda c: 2.0 * c[4])),
    ("more events", BOTH[:2], cell(5, lambda c: -0.1 * c[4])),
    ("cells that contradict", BOTH[2:], cell(5, lambda _: 1e3)),
    ("out of order", BOTH, every_cell(lambda t: t.__setitem__(slice(None), t[::-1].copy()))),
    ("out of order", BOTH, every_cell(lambda t: t.__setitem__(1, t[0]))),
    ("unknown subgroups", BOTH, every_cell(lambda t: t.__setitem__((-1, 0), 7.0))),
    ("unknown classes", BOTH, every_cell(lambda t: t.__setitem__((-1, 1), 7.0))),
    ("leave bins out", BOTH, every_cell(lambda t: t.__setitem__((-1, 2), t[-1, 2] + 1.0))),
    ("do not sum to one", BOTH, scaled_sums),
    ("do not sum to their total", BOTH, every_cell(lambda t: t[:, 4:].__imul__(0.93))),
    ("squares of weights", BOTH, part("weight_squares", lambda v: 0.5 * v)),
    ("squares of weights", BOTH, part("weight_squares", lambda v: 9.0 * v)),
    ("impossible losses", BOTH[:2], part("brier", lambda v: -v)),
    ("impossible losses", BOTH[:2], part("brier", lambda v: v + 2.0)),
    ("impossible losses", BOTH[:2], part("log_loss", lambda _: 40.0)),
    ("do not sum to their total", BOTH[:2], part("events_1", lambda v: 1.3 * v)),
    ("do not sum to their total", BOTH[:2], part("expected_1", lambda v: 0.5 * v)),
    ("squares of weights", BOTH[:2], part("event_squares_1", lambda _: 1.0)),
    ("Cauchy", BOTH[2:], part("y_squares", lambda _: 0.0)),
    ("Cauchy", BOTH[2:], part("p", lambda _: 50.0)),
    ("Cauchy", BOTH[2:], part("absolute", lambda v: 9.0 * v)),
    ("Cauchy", BOTH[2:], part("products", lambda _: 1e4)),
    ("do not follow", BOTH[2:], part("squared", lambda v: 2.0 * v)),
    ("do not sum to their total", BOTH[2:], part("y", lambda v: v + 0.3)),
    ("heavier than everybody", BOTH, subgroup_outweighs),
    ("without a table", BOTH, no_cells_of_the_subgroup),
    ("below its floor", BOTH[:2], tiny_variance("event_rate")),
    ("below its floor", BOTH[:1], tiny_variance("sensitivity")),
    ("another study", BOTH, lambda r, _: {"score_sums": r.score_sums[:, :-1]}),
    ("another study", BOTH, lambda r, _: {"measure_variance": r.measure_variance[:-1]}),
    ("below its floor", BOTH, lambda r, _: {"measure_variance": r.measure_variance * 1e-20}),
    ("another study", BOTH[:2], lambda *_: {"residuals": np.full(RESIDUAL_SHAPE, 0.1)}),
    ("another study", BOTH[2:], lambda *_: {"residuals": np.ones((1, 1))}),
    ("no shares", BOTH[2:], lambda r, _: {"residuals": 1.2 * r.residuals}),
    ("no shares", BOTH[2:], lambda r, _: {"residuals": r.residuals - 0.0001}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "kind", "lie"), [(words, kind, lie) for words, kinds, lie in LIES for kind in kinds]
)
def test_what_no_data_can_give_is_refused(words, kind, lie):
    report, design, said = told(kind)
    problem = score_problem(replace(report, **lie(report, design)), design, said)
    assert words in str(problem)
