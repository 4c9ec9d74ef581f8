"""Columns in another unit are named, honest ones are not."""

import numpy as np
import pytest

from fedcsa.core.table import Table1
from fedcsa.core.units import CONVERSIONS, DIRECTIONS, OtherUnit, of_known_cells, other_units

#: conversion -> (name of a column, mean and sd in the smaller unit, whether it is skewed)
REALISTIC = {
    "glucose": ("glucose", 7.4, 2.6, True),
    "cholesterol": ("total_chol", 5.1, 1.1, False),
    "creatinine": ("creatinine", 1.2, 0.8, True),
    "triglycerides": ("Triglycerides", 1.7, 1.0, True),
    "bilirubin": ("bilirubin", 0.8, 0.5, True),
    "urea": ("BUN", 6.0, 2.0, True),
    "lactate": ("lactate", 1.8, 0.9, True),
    "calcium": ("calcium", 2.3, 0.15, False),
    "temperature": ("temp", 37.1, 0.7, False),
    "length": ("height", 66.5, 3.9, False),
    "weight": ("weight", 78.0, 15.0, False),
    "ounces": ("birth_weight", 120.0, 18.0, False),
    "pressure": ("paCO2", 5.3, 0.9, False),
    "years": ("age", 66.0, 13.0, False),
    "months": ("age", 66.0, 13.0, False),
    "hours": ("delay", 3.2, 1.5, True),
    "days": ("los", 6.0, 3.5, True),
    "weeks": ("gestation", 39.0, 1.8, False),
    "ten": ("albumin", 4.1, 0.5, False),
    "hundred": ("ejection_fraction", 0.52, 0.12, False),
    "thousand": ("platelets", 0.24, 0.08, True),
    "million": ("count", 4.6, 0.6, False),
}
ROWS = 300


def drawn(rng, mean, sd, skewed, rows=ROWS):
    """Rows of a column: log-normal if it is skewed."""
    if not skewed:
        return rng.normal(mean, sd, rows)
    shape = np.log1p((sd / mean) ** 2)
    return rng.lognormal(np.log(mean) - shape / 2, np.sqrt(shape), rows)


def found(name, here, there):
    own, told = ((np.array([x.mean()]), np.array([x.std()])) for x in (here, there))
    return other_units([name], [False], len(here), own, told)


def test_every_conversion_has_a_realistic_column():
    assert set(REALISTIC) == set(CONVERSIONS)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("key", CONVERSIONS)
def test_a_conversion_is_recognised_although_patients_differ(key, direction):
    """A site's mean is off by up to half an sd, its sd by up to a fifth."""
    name, mean, sd, skewed = REALISTIC[key]
    units, rng, right = CONVERSIONS[key], np.random.default_rng(3), 0
    for _ in range(40):
        moved, wider = mean + rng.uniform(-0.5, 0.5) * sd, sd * rng.uniform(1 / 1.2, 1.2)
        one, other = drawn(rng, moved, wider, skewed), drawn(rng, mean, sd, skewed)
        large = units.factor * (one if direction == "divide" else other) + units.offset
        here, there = (large, other) if direction == "divide" else (one, large)
        right += found(name, here, there) == [OtherUnit(0, key, direction)]
    assert right >= 36


def with_gaps(rng, cells, share, fill):
    """A column with an agreed value in some places, and the column that marks them."""
    missing = rng.random(len(cells)) < share
    return np.column_stack([np.where(missing, fill, cells), missing])


def found_behind_gaps(name, here, there):
    """What is said of a column with gaps, if the target tells its table as always."""
    names, flags = [name, f"{name}=missing"], [False, True]
    table = Table1.of(there, names, flags)
    own = here[here[:, 1] == 0.0]
    told = of_known_cells({0: 1}, (table.mean, table.sd), here.mean(axis=0), own.mean(axis=0))
    return other_units(names, flags, len(here), (own.mean(axis=0), own.std(axis=0)), told)


@pytest.mark.parametrize("fill", ["nought", "mean", "largest"])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_conversion_is_recognised_behind_gaps_at_the_target(share, fill):
    """Of columns that vary little beside their mean, rounding hides too much."""
    right, wrong, rng = [], 0, np.random.default_rng(6)
    for key, units in CONVERSIONS.items():
        name, mean, sd, skewed = REALISTIC[key]
        if sd < 0.15 * mean:
            continue
        for _ in range(20):
            one, other = (drawn(rng, mean, sd, skewed) for _ in range(2))
            agreed = {"nought": 0.0, "mean": other.mean(), "largest": other.max()}[fill]
            there = with_gaps(rng, other, share, agreed)
            here = with_gaps(rng, units.factor * one + units.offset, 0.2, agreed)
            right.append(found_behind_gaps(name, here, there) == [OtherUnit(0, key, "divide")])
            wrong += len(found_behind_gaps(name, with_gaps(rng, one, 0.2, agreed), there))
    assert np.mean(right) >= 0.95
    assert wrong == 0


def test_told_numbers_stay_where_the_agreed_value_is_not_known():
    """The source has no gaps, the target has none or nothing else, or rounding leaves no sd."""
    marks, told = {0: 1}, (np.array([5.0, 0.3, 1.0]), np.array([4.0, 0.5, 1.0]))
    every, known = np.array([4.0, 0.2, 1.0]), np.array([5.0, 0.2, 1.0])
    changed = of_known_cells(marks, told, every, known)
    assert changed[0][0] == pytest.approx(5.0 / 0.7)
    assert (changed[0][1:] == told[0][1:]).all()
    for share, own, sd in ((0.3, 0.0, 4.0), (0.0, 0.2, 4.0), (1.0, 0.2, 4.0), (0.3, 0.2, 0.1)):
        told = np.array([5.0, share, 1.0]), np.array([sd, 0.5, 1.0])
        same = of_known_cells(marks, told, np.array([4.0, own, 1.0]), known)
        np.testing.assert_array_equal(same, told)


def test_honest_sites_are_hardly_ever_accused():
    """Means up to 2 sds apart, sds up to half as large again: fewer than 1 column in 1,000."""
    rng, accused, columns = np.random.default_rng(4), 0, 0
    for name, mean, sd, skewed in REALISTIC.values():
        for _ in range(100):
            moved, wider = mean + rng.uniform(-2.0, 2.0) * sd, sd * rng.uniform(1 / 1.5, 1.5)
            if skewed:
                moved = max(moved, 0.2 * mean)
            rows = int(rng.integers(30, 300))
            pair = drawn(rng, moved, wider, skewed, rows), drawn(rng, mean, sd, skewed, rows)
            accused += len(found(name, *pair))
            columns += 1
    assert accused <= columns / 1000


@pytest.mark.parametrize(
    ("mean", "sd"),
    [
        ((0.0, 0.0), (1.0, 10.0)),  # about zero: no factor can be seen
        ((5.0, 50.0), (0.0, 10.0)),  # constants have no unit
        ((5.0, 50.0), (1.0, 0.0)),
        ((5.0, 50.0), (1.0, 1.0)),  # the mean alone
        ((5.0, 5.0), (1.0, 10.0)),  # the sd alone
        ((5.0, 50.0), (1.0, np.inf)),
    ],
)
def test_what_no_unit_explains_is_left_alone(mean, sd):
    own, told = ((np.array([mean[k]]), np.array([sd[k]])) for k in (1, 0))
    assert other_units(["x"], [False], ROWS, own, told) == []


@pytest.mark.parametrize(("mean", "sd"), [(50.0 + 2.0 * 5.0, 5.0), (50.0, 2.0 * 5.0)])
def test_a_conversion_must_bring_mean_and_sd_back(mean, sd):
    """Once the factor is undone, a mean 2 sds off or an sd twice as large is another thing."""
    target = np.array([50.0]), np.array([5.0])
    converted = np.array([1000.0 * 50.0]), np.array([1000.0 * 5.0])
    assert other_units(["weight"], [False], 300, converted, target)
    other = np.array([1000.0 * mean]), np.array([1000.0 * sd])
    assert not other_units(["weight"], [False], 300, other, target)


def test_flags_and_a_few_rows_are_left_alone():
    own, told = (np.array([50.0]), np.array([10.0])), (np.array([5.0]), np.array([1.0]))
    assert other_units(["x"], [False], 10, own, told) == [OtherUnit(0, "ten", "divide")]
    assert other_units(["x"], [True], 10, own, told) == []
    assert other_units(["x"], [False], 9, own, told) == []


def test_the_name_of_a_column_decides_between_conversions_that_both_fit():
    own, told = (np.array([88.5]), np.array([20.0])), (np.array([1.0]), np.array([0.23]))
    for name, key in [("crea", "creatinine"), ("trig_0", "triglycerides")]:
        assert other_units([name], [False], ROWS, own, told) == [OtherUnit(0, key, "divide")]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("key", CONVERSIONS)
def test_every_conversion_is_told_in_words(key, direction):
    words, units = OtherUnit(0, key, direction).words, CONVERSIONS[key]
    assert f"{direction} by {units.factor:.4g}" in words
    assert units.larger in words
    assert units.smaller in words
    assert key.isidentifier()
