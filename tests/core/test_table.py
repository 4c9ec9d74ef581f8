"""Table 1 of the target, against a second writing in plain loops."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcsa.core.table import Table1, flags_of, merged_counts, tells_correlations
from fedcsa.errors import DataError

PLANTED = 123456.789
NAMES = [f"c{index}" for index in range(20)]


def two_digits(value):
    """`value` to two significant digits, as a pencil does it."""
    return float(f"{value:.1e}")


def slow_table(X, flags, public_sd):
    """n, means, units and second moments, number by number (rule, step 1)."""
    n, d = X.shape
    mean, unit = [], []
    for k in range(d):
        column = [X[i, k] for i in range(n)]
        centre = math.fsum(column) / n
        spread = math.sqrt(math.fsum((x - centre) ** 2 for x in column) / n)
        if flags[k]:
            unit.append(public_sd[k])
            mean.append(round(centre * 100.0) / 100.0)
        else:
            unit.append(two_digits(max(spread, 0.3 * public_sd[k])))
            mean.append(round(centre / (0.01 * unit[k])) * 0.01 * unit[k])
    moments = None
    if not any(flags) and d <= 10 and 2 * d + d * (d - 1) // 2 <= n / 10:
        moments = np.zeros((d, d))
        for k in range(d):
            for m in range(d):
                products = [
                    (X[i, k] - mean[k]) / unit[k] * (X[i, m] - mean[m]) / unit[m] for i in range(n)
                ]
                moments[k, m] = round(math.fsum(products) / n, 2)
    return n - n % 10, np.array(mean), np.array(unit), moments


def rows_of(n, n_numbers, n_flags, seed):
    rng = np.random.default_rng([seed, n, n_numbers, n_flags])
    centre, width = rng.normal(0.0, 50.0, n_numbers), np.exp(rng.normal(0.0, 2.0, n_numbers))
    numbers = rng.normal(centre, width, (n, n_numbers))
    X = np.column_stack([numbers, rng.random((n, n_flags)) < rng.random(n_flags)])
    flags = [False] * n_numbers + [True] * n_flags
    public = np.concatenate([width * np.exp(rng.normal(0.5, 1.0, n_numbers)), [0.5] * n_flags])
    return X, flags, public


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("n", "n_numbers", "n_flags"),
    [(10, 1, 0), (19, 2, 3), (50, 2, 0), (49, 2, 0), (657, 10, 0), (300, 0, 4), (200, 11, 0)],
)
def test_it_is_the_table_that_loops_write(n, n_numbers, n_flags, seed):
    X, flags, public = rows_of(n, n_numbers, n_flags, seed)
    table = Table1.of(X, NAMES[: len(flags)], flags, public)
    n_told, mean, unit, moments = slow_table(X, flags, public)
    assert table.n_rows == n_told
    assert table.mean == pytest.approx(mean, rel=1e-12, abs=1e-12)
    assert table.sd == pytest.approx(unit, rel=1e-12)
    assert (table.correlations is None) == (moments is None)
    if moments is not None:
        assert np.asarray(table.correlations) == pytest.approx(moments, abs=1e-12)


def test_correlations_are_told_exactly_where_the_rule_allows():
    assert tells_correlations(650, [False] * 10)
    assert not tells_correlations(649, [False] * 10)
    assert not tells_correlations(10_000, [False] * 11)
    assert not tells_correlations(10_000, [False, True])


def test_a_number_without_a_public_sd_has_no_floor_and_a_flag_has_the_unit_of_a_coin():
    X = np.column_stack([np.tile([1.0, 1.002], 50), np.tile([1.0, 0.0], 50)])
    floored = Table1.of(X, ["a", "b"], [False, True], [10.0, 0.3])
    free = Table1.of(X, ["a", "b"], [False, True], [math.nan, math.nan])
    assert floored.sd.tolist() == [3.0, 0.3]
    assert free.sd.tolist() == [0.001, 0.5]
    assert free == Table1.of(X, ["a", "b"], [False, True])


def test_a_constant_number_has_the_floor_of_its_public_sd_or_else_the_unit_1():
    X = np.full((30, 1), 0.1)
    assert Table1.of(X, ["a"], [False], [2.0]).sd.tolist() == [0.6]
    table = Table1.of(X, ["a"], [False])
    assert (table.mean.tolist(), table.sd.tolist()) == ([0.1], [1.0])


@given(
    n=st.integers(2, 60),
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    fewest=st.integers(0, 8),
)
def test_no_level_nor_what_the_levels_leave_over_is_of_a_few(n, counts, fewest):
    """And of several columns, each is merged for itself."""
    own = np.array(counts, dtype=float)
    if own.sum() > n:
        own = np.floor(own * n / own.sum())
    names = [f"stage={k}" for k in range(len(own))]
    told = merged_counts([*names, "other"], [True] * (len(own) + 1), [*own, n // 2], n, fewest)
    parts = [*told[:-1], n - told[:-1].sum()]
    assert all(part == 0 or part >= fewest for part in parts) or n < fewest
    assert sum(parts) == n
    assert min(parts) >= 0
    kept = [a == b for a, b in zip(own, told[:-1], strict=True) if b]
    assert sum(not same for same in kept) <= 1  # at most the largest has become larger


def test_rare_levels_are_counted_with_the_first_and_a_rare_first_with_the_largest():
    def told(counts, n=100):
        flags = [True] * len(counts)
        names = [f"stage={k}" for k in range(len(counts))]
        return merged_counts(names, flags, np.array(counts, float), n, 5).tolist()

    assert told([30, 4, 0]) == [30, 0, 0]
    assert told([30, 5, 0]) == [30, 5, 0]
    assert told([60, 38]) == [62, 38]
    assert told([60, 3, 36]) == [64, 0, 36]  # one was left over, with the three it is four
    assert told([96]) == [100]
    assert told([4]) == [0]
    numbers = merged_counts(["age"], [False], np.array([3.0]), 100, 5)
    assert numbers.tolist() == [3.0]  # a sum of numbers is no count


def test_rows_are_counted_in_tens_but_never_as_none():
    counts = {n: Table1.of(np.eye(n)[:, :1], ["a"], [True]).n_rows for n in (2, 9, 10, 19, 20)}
    assert counts == {2: 2, 9: 9, 10: 10, 19: 10, 20: 20}


@pytest.mark.parametrize(("d", "flags", "told"), [(10, 0, 21), (3, 2, 5), (2, 0, 6), (1, 1, 2)])
def test_it_counts_the_numbers_that_it_tells(d, flags, told):
    n = 60 if d <= 2 else 100
    X = np.tile([0.0, 1.0], n // 2)[:, None] * np.ones(d)
    marks = [True] * flags + [False] * (d - flags)
    assert Table1.of(X, NAMES[:d], marks).n_numbers == told


def test_a_share_of_0_or_1_is_ordinary():
    X = np.column_stack([np.zeros(20), np.ones(20)])
    table = Table1.of(X, ["a", "b"], [True, True])
    assert (table.mean.tolist(), table.sd.tolist()) == ([0.0, 1.0], [0.5, 0.5])


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 300),
    numbers=st.integers(0, 4),
    flags=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_every_told_number_has_two_digits(n, numbers, flags, seed):
    if not numbers + flags:
        return
    X, marks, public = rows_of(n, numbers, flags, seed)
    table = Table1.of(X, NAMES[: len(marks)], marks, public)
    flag = np.array(marks)
    assert table.sd[~flag] == pytest.approx([two_digits(s) for s in table.sd[~flag]], rel=1e-15)
    assert (table.sd[~flag] >= 0.95 * 0.3 * public[~flag]).all()
    steps = table.mean / np.where(flag, 0.01, 0.01 * table.sd)
    assert steps == pytest.approx(np.round(steps), abs=1e-6)
    assert (np.abs(table.mean - X.mean(axis=0)) <= 0.005001 * np.where(flag, 1.0, table.sd)).all()
    if table.correlations is not None:
        assert np.linalg.eigvalsh(table.correlations).min() >= -0.005 * len(marks) - 1e-9


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 200), seed=st.integers(0, 99), far=st.floats(-1e6, 1e6))
def test_the_order_of_rows_and_columns_does_not_matter(n, seed, far):
    X, marks, public = rows_of(n, 3, 1, seed)
    X = X + np.array([far, 0.0, 0.0, 0.0])
    table = Table1.of(X, NAMES[:4], marks, public)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(n), rng.permutation(4)
    other = Table1.of(X[rows][:, columns], NAMES[:4], [marks[k] for k in columns], public[columns])
    # A sum in another order may round to the neighbour, so up to a step.
    assert other.mean == pytest.approx(table.mean[columns], abs=0.0101 * table.sd.max())
    assert other.sd == pytest.approx(table.sd[columns], rel=0.11)


# Typed in from a published table -------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 300),
    numbers=st.integers(0, 4),
    flags=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_a_typed_table_is_the_table_of_the_rows_it_describes(n, numbers, flags, seed):
    if not numbers + flags:
        return
    X, marks, public = rows_of(n, numbers, flags, seed)
    names = NAMES[: len(marks)]
    mine = Table1.of(X, names, marks, public)
    r = np.atleast_2d(np.corrcoef(X.T)) if tells_correlations(n, marks) else None
    typed = Table1.typed(n, names, marks, X.mean(axis=0), X.std(axis=0), public, r)
    assert (typed.n_rows, typed.flags) == (mine.n_rows, mine.flags)
    assert typed.mean.tolist() == mine.mean.tolist()
    assert typed.sd.tolist() == mine.sd.tolist()
    assert (typed.correlations is None) == (mine.correlations is None)
    if mine.correlations is not None:
        assert np.abs(typed.correlations - mine.correlations).max() <= 0.0100001


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 300),
    numbers=st.integers(0, 4),
    flags=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_typing_in_a_told_table_changes_nothing(n, numbers, flags, seed):
    if not numbers + flags:
        return
    X, marks, _ = rows_of(n, numbers, flags, seed)
    told = Table1.of(X, NAMES[: len(marks)], marks)
    again = Table1.typed(told.n_rows, told.features, told.flags, told.mean, told.sd)
    assert again.mean == pytest.approx(told.mean, rel=1e-12, abs=1e-12)
    assert (again.n_rows, again.sd.tolist()) == (told.n_rows, told.sd.tolist())


def test_correlations_that_a_target_would_not_tell_are_left_out():
    r = np.eye(2)
    assert Table1.typed(40, ["a", "b"], [False] * 2, [0, 0], [1, 1], None, r).correlations is None
    assert (
        Table1.typed(50, ["a", "b"], [False] * 2, [0, 0], [1, 1], None, r).correlations is not None
    )


def good():
    return {
        "n_rows": 200,
        "features": ["age", "bmi"],
        "flags": [False, False],
        "mean": [60.0, 25.0],
        "sd": [10.0, 4.0],
        "correlations": [[1.0, 0.3], [0.3, 1.0]],
    }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"n_rows": 1}, "at least 2"),
        ({"n_rows": 20.5}, "whole number"),
        ({"n_rows": True}, "whole number"),
        ({"features": ["age", "age"]}, "distinct names"),
        ({"flags": [False]}, "one per column|each a flag"),
        ({"mean": [60.0]}, "2 row"),
        ({"mean": [60.0, math.nan]}, "finite"),
        ({"mean": [PLANTED, "text"]}, "numbers"),
        ({"mean": [60.0, 1e200]}, "in size"),
        ({"sd": [10.0, 0.0]}, "sd of 'bmi' must be a positive"),
        ({"sd": [10.0, -1.0]}, "sd of 'bmi' must be a positive"),
        ({"sd": [10.0, math.inf]}, "finite"),
        ({"correlations": [[1.0, 0.3]]}, "must have 2 rows"),
        ({"correlations": [[1.0, 0.3, 0.1], [0.3, 1.0, 0.1]]}, "2 column"),
        ({"correlations": [[1.0, 0.3], [0.2, 1.0]]}, "both sides of the diagonal"),
        ({"correlations": [[1.0, 1.3], [1.3, 1.0]]}, "between -1 and 1"),
        ({"correlations": [[1.0, math.nan], [0.3, 1.0]]}, "finite"),
    ],
)
@pytest.mark.parametrize("make", [Table1, Table1.typed], ids=["told", "typed"])
def test_a_table_that_contradicts_itself_is_refused(make, change, text):
    with pytest.raises(DataError, match=text) as caught:
        make(**{**good(), **change})
    assert "123456" not in str(caught.value)


def test_correlations_that_cannot_be_together_are_refused():
    r = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    for make in (Table1, Table1.typed):
        with pytest.raises(DataError, match="can have all these correlations"):
            make(500, NAMES[:3], [False] * 3, [0.0] * 3, [1.0] * 3, correlations=r)


def test_rounded_correlations_of_collinear_columns_are_possible():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(900, 2))
    X = base @ rng.normal(size=(2, 10))
    assert Table1.of(X, NAMES[:10], [False] * 10).correlations is not None


@pytest.mark.parametrize("change", [{"flags": [False, True], "mean": [60.0, 0.5]}, {"n_rows": 40}])
def test_nobody_tells_correlations_beyond_the_rule(change):
    with pytest.raises(DataError, match="Correlations must be left out"):
        Table1(**{**good(), **change})


@pytest.mark.parametrize("make", [Table1, Table1.typed], ids=["told", "typed"])
@pytest.mark.parametrize(
    ("share", "advice"), [(-0.1, "Correct it"), (1.2, "percent"), (45, "percent")]
)
def test_a_share_outside_0_and_1_is_refused_and_not_quoted(make, share, advice):
    with pytest.raises(
        DataError, match=f"share of 'sex=M' must lie between 0 and 1.*{advice}"
    ) as caught:
        make(100, ["sex=M"], [True], [share], [0.5])
    assert str(share) not in str(caught.value)


def test_all_mistakes_are_said_at_once():
    with pytest.raises(DataError) as caught:
        Table1.typed(
            100, ["a", "b", "c=x", "c=y"], [False, True, True, True], [0, 3, 0.7, 0.7], [0, 1, 1, 1]
        )
    assert len(str(caught.value).splitlines()) == 3


def test_shares_of_levels_sum_to_at_most_1_rounding_aside():
    names = ["stage=II", "stage=III", "smoker"]
    Table1.typed(100, names, [True] * 3, [0.505, 0.505, 1.0], [0.0] * 3)
    with pytest.raises(DataError, match="levels of 'stage' sum to more than 1"):
        Table1.typed(100, names, [True] * 3, [0.6, 0.6, 0.0], [0.0] * 3)


@pytest.mark.parametrize(
    ("X", "options", "text"),
    [
        ([[1.0]], {}, "at least 2 rows"),
        ([[PLANTED], [1.0]], {"flags": [True]}, "only 0 and 1"),
        ([[1.0], [2.0]], {"public_sd": [0.0]}, "public sds"),
        ([[1.0], [2.0]], {"public_sd": [1.0, 2.0]}, "public sds"),
        ([[1.0], [math.inf]], {}, "finite"),
    ],
)
def test_rows_that_cannot_be_told_are_refused(X, options, text):
    with pytest.raises(DataError, match=text) as caught:
        Table1.of(X, **{"features": ["a"], "flags": [False], **options})
    assert "123456" not in str(caught.value)


def test_tables_compare_by_value_and_cannot_be_written_to():
    table = Table1.typed(**good())
    assert table == Table1.typed(**good())
    for item in dataclasses.fields(Table1):
        other = {"n_rows": 100, "features": ("x", "y"), "flags": (False, True)}.get(item.name)
        changed = dict(good(), correlations=None)
        base = Table1(**changed)
        if item.name == "correlations":
            assert base != Table1(**good())
            continue
        value = np.array([0.5, 0.25]) if other is None else other
        if item.name == "flags":
            changed["mean"], base = [60.0, 0.5], Table1(**{**changed, "mean": [60.0, 0.5]})
        assert base != Table1(**{**changed, item.name: value})
    with pytest.raises(ValueError, match="read-only"):
        table.mean[0] = 1.0
    assert "60" not in repr(table)


def test_a_column_is_a_flag_if_it_holds_0_and_1_at_every_site():
    a = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    b = np.array([[1.0, 2.0, 0.0]])
    assert flags_of([a]) == (True, True, True)
    assert flags_of([a, b]) == (True, False, True)
