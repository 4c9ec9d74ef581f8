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
    check_shares,
    fold_key,
    fold_labels,
    generator_for,
    rotations,
    split_evenly,
)
from fedcsa.errors import DataError, ParameterError


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (7, 3), (100, 5), (11, 2)])
def test_even_folds_are_disjoint_cover_the_rows_and_differ_by_one_at_most(n, k):
    folds = split_evenly(n, k, rng())
    assert sorted(np.concatenate(folds).tolist()) == list(range(n))
    sizes = [len(fold) for fold in folds]
    assert len(sizes) == k
    assert max(sizes) - min(sizes) <= 1


def test_folds_are_shuffled_and_follow_the_generator():
    first, again, other = (np.concatenate(split_evenly(50, 5, rng(s))) for s in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert first.tolist() != list(range(50))


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
    [rotation] = rotations(n, "split", rng(), shares=shares)
    parts = [rotation.density, rotation.train, rotation.validation]
    assert [len(part) for part in parts] == largest_remainder(n, shares)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))


def test_a_split_is_in_thirds_unless_told():
    [rotation] = rotations(9, "split", rng())
    assert len(rotation.density) == len(rotation.train) == len(rotation.validation) == 3
    assert math.fsum(THIRDS) == 1.0


@pytest.mark.parametrize("n", [6, 7, 8, 9, 100])
def test_rotating_judges_every_row_once_and_uses_it_once_in_every_role(n):
    turns = rotations(n, "rotate", rng())
    assert len(turns) == 3
    for turn in turns:
        parts = [turn.density, turn.train, turn.validation]
        assert sorted(np.concatenate(parts).tolist()) == list(range(n))
        assert min(len(part) for part in parts) >= 2
    for role in ("density", "train", "validation"):
        rows = np.concatenate([getattr(turn, role) for turn in turns])
        assert sorted(rows.tolist()) == list(range(n))


def test_the_first_turn_of_rotating_is_the_split():
    [single] = rotations(9, "split", rng(4))
    first = rotations(9, "rotate", rng(4))[0]
    for role in ("density", "train", "validation"):
        assert getattr(single, role).tolist() == getattr(first, role).tolist()


@pytest.mark.parametrize(("n", "n_folds"), [(4, 2), (10, 5), (13, 5), (101, 10)])
def test_cross_fitting_judges_every_row_once_by_all_the_others(n, n_folds):
    turns = rotations(n, "cross-fit", rng(), n_folds=n_folds)
    assert len(turns) == n_folds
    judged = np.concatenate([turn.validation for turn in turns])
    assert sorted(judged.tolist()) == list(range(n))
    for turn in turns:
        others = sorted(set(range(n)) - set(turn.validation.tolist()))
        assert sorted(turn.density.tolist()) == others
        assert sorted(turn.train.tolist()) == others
        assert n // n_folds <= len(turn.validation) <= -(-n // n_folds)


def test_cross_fitting_has_five_folds_unless_told():
    assert len(rotations(10, "cross-fit", rng())) == 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_follows_its_generator(scheme):
    first, again, other = (
        [turn.validation.tolist() for turn in rotations(60, scheme, rng(seed))]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("scheme", "n_folds", "needed"),
    [("split", 5, 6), ("rotate", 5, 6), ("cross-fit", 5, 10), ("cross-fit", 3, 6)],
)
def test_a_source_must_have_two_rows_for_every_fold(scheme, n_folds, needed):
    for n in (0, 1, needed - 1):
        with pytest.raises(DataError, match=rf"at least {needed} rows, two for .* it has {n}\."):
            rotations(n, scheme, rng(), n_folds=n_folds)
    assert rotations(needed, scheme, rng(), n_folds=n_folds)


def test_every_fold_of_a_split_must_have_two_rows():
    with pytest.raises(DataError, match=r"at least 2 rows; 10 rows in shares \(0\.1, .* with 1\."):
        rotations(10, "split", rng(), shares=(0.1, 0.4, 0.5))


def test_an_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"'scheme' .*'split', 'rotate', .* Got 'bootstrap'"):
        rotations(30, "bootstrap", rng())


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
