"""Folds are disjoint, cover the rows, have the promised sizes and owe nothing to other sources."""

import hashlib
import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from fedcsa.core.folds import (
    SCHEMES,
    THIRDS,
    Turn,
    check_shares,
    dealt_labels,
    fold_key,
    fold_labels,
    generator_for,
    turns,
)
from fedcsa.errors import DataError, ParameterError


def rng(seed=0):
    return np.random.default_rng(seed)


def test_folds_are_shuffled_and_follow_the_generator():
    first, again, other = (dealt_labels(50, rng(s)) for s in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert first.tolist() != sorted(first.tolist())


@pytest.mark.parametrize(("n", "k"), [(10, 2), (23, 5), (1000, 7), (12, 12)])
def test_dealt_rows_are_even_and_keep_their_fold_however_the_table_is_read(n, k):
    whole = fold_labels(0, n, k, key=3)
    sizes = np.bincount(whole, minlength=k)
    assert sizes.max() - sizes.min() <= 1
    for cut in (1, k - 1, k, n // 2, n - 1):
        pieces = [fold_labels(0, cut, k, key=3), fold_labels(cut, n, k, key=3)]
        assert np.concatenate(pieces).tolist() == whole.tolist()
    assert fold_labels(0, n + 9, k, key=3)[:n].tolist() == whole.tolist()


def test_dealing_is_random_in_the_key_and_in_the_position():
    n, k, keys = 50, 5, 4000
    dealt = np.array([fold_labels(0, n, k, fold_key(rng(seed))) for seed in range(keys)])
    # Every position visits every fold equally often, and no two blocks go together.
    counts = np.array([np.bincount(column, minlength=k) for column in dealt.T])
    assert np.abs(counts - keys / k).max() < 5.0 * math.sqrt(keys * 0.2 * 0.8)
    together = np.mean(dealt[:, :-k] == dealt[:, k:], axis=0)
    assert np.abs(together - 1.0 / k).max() < 5.0 * math.sqrt(0.16 / keys)
    one = fold_labels(0, 5 * 20_000, k, key=1).reshape(-1, k)
    orders, seen = np.unique(one @ k ** np.arange(k), return_counts=True)
    assert len(orders) == math.factorial(k)  # and one key goes through all orders
    assert np.abs(seen - 20_000 / 120).max() < 6.0 * math.sqrt(20_000 / 120)


def largest_remainder(n, shares):
    """Sizes in exact arithmetic; ties go to the earlier fold."""
    exact = [Fraction(share).limit_denominator(10**6) * n for share in shares]
    sizes = [math.floor(value) for value in exact]
    order = sorted(range(3), key=lambda k: (-(exact[k] - sizes[k]), k))
    for k in order[: n - sum(sizes)]:
        sizes[k] += 1
    return sizes


@pytest.mark.parametrize("shares", [THIRDS, (0.21, 0.49, 0.30), (0.25, 0.25, 0.5), (0.4, 0.3, 0.3)])
@pytest.mark.parametrize("n", [10, 11, 12, 20, 50, 99, 100, 1000])
def test_a_split_has_the_sizes_of_the_largest_remainder(n, shares):
    labels = dealt_labels(n, rng(), shares)
    assert np.bincount(labels).tolist() == largest_remainder(n, shares)


def test_a_split_is_in_thirds_unless_told():
    assert np.bincount(dealt_labels(9, rng())).tolist() == [3, 3, 3]
    assert math.fsum(THIRDS) == 1.0


def test_the_paper_splits_into_a_density_a_train_and_a_validation_part():
    assert turns("split", 3) == [Turn((0,), (1,), 2)]


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
def test_cross_fitting_judges_every_part_once_by_all_the_others(n_folds):
    found = turns("cross-fit", n_folds)
    assert [turn.judge for turn in found] == list(range(n_folds))
    for turn in found:
        assert sorted([*turn.train, turn.judge]) == list(range(n_folds))
        assert turn.density == turn.train


@pytest.mark.parametrize("n_folds", [1, 0, -2, 2.5])
def test_cross_fitting_has_two_folds_or_more(n_folds):
    with pytest.raises(ParameterError, match=r"'n_folds' .* a whole number of at least 2"):
        turns("cross-fit", n_folds)


def test_a_source_must_have_two_rows_for_every_part():
    for n in (0, 1, 5):
        with pytest.raises(DataError, match=rf"at least 6 rows, two for .* it has {n}\."):
            dealt_labels(n, rng())
    assert np.bincount(dealt_labels(6, rng())).tolist() == [2, 2, 2]


def test_every_part_of_a_split_must_have_two_rows():
    with pytest.raises(DataError, match=r"at least 2 rows; 10 rows in shares \(0\.1, .* with 1\."):
        dealt_labels(10, rng(), (0.1, 0.4, 0.5))


def test_an_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"'scheme' .*'split', 'cross-fit'.* Got 'bootstrap'"):
        turns("bootstrap", 3)
    assert set(SCHEMES) == {"split", "cross-fit"}


def test_rows_of_one_patient_share_a_fold_wherever_they_stand():
    patients = rng(1).integers(0, 2**53, 4000).astype(float)
    visits = np.repeat(patients, 3)
    labels = fold_labels(0, len(visits), 5, 7, visits)
    assert (labels.reshape(-1, 3) == labels[::3, None]).all()
    order = rng(2).permutation(len(visits))
    assert (fold_labels(0, len(visits), 5, 7, visits[order]) == labels[order]).all()
    sizes = np.bincount(labels[::3], minlength=5)
    assert np.abs(sizes - 800).max() < 5.0 * math.sqrt(800 * 0.8)
    assert (fold_labels(0, len(visits), 5, 8, visits) != labels).mean() > 0.7


@pytest.mark.parametrize(
    "shares",
    [
        (0.5, 0.5),
        (0.25, 0.25, 0.25, 0.25),
        (0.0, 0.5, 0.5),
        (-0.2, 0.6, 0.6),
        (0.3, 0.3, 0.3),
        (1.0, 1.0, 1.0),
        (),
        (math.inf, 0.5, 0.5),
        (math.nan, 0.5, 0.5),
        (0.5, 0.5, math.nan),
    ],
)
def test_shares_must_be_three_positive_numbers_that_sum_to_one(shares):
    with pytest.raises(ParameterError, match=r"'folds' .*three positive shares that sum to 1"):
        check_shares(shares)


def test_shares_come_back_as_floats():
    assert check_shares([0.25, np.float32(0.25), 0.5]) == (0.25, 0.25, 0.5)


def test_a_generator_depends_on_seed_source_and_purpose_and_on_nothing_else():
    def draw(*key):
        return generator_for(*key).integers(2**60)

    base = draw(0, "north", "folds")
    assert base == draw(0, "north", "folds")
    others = [draw(1, "north", "folds"), draw(0, "south", "folds"), draw(0, "north", "ratio")]
    assert len({base, *others}) == 4
    assert draw(0, "folds", "north") != base


@pytest.mark.parametrize("name", ["north", "", "Zürich 病院"])
def test_a_generator_is_seeded_by_the_hash_of_purpose_and_name(name):
    # the same words, read by another route: eight little-endian 32-bit integers
    words = struct.unpack("<8I", hashlib.sha256(b"folds\0" + name.encode("utf-8")).digest())
    expected = np.random.default_rng(np.random.SeedSequence([7, *words]))
    assert generator_for(7, name, "folds").integers(2**60) == expected.integers(2**60)
