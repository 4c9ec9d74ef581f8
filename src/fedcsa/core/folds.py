"""Who sees which rows: disjoint folds for the ratio, the models and the judgement."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, is_whole
from fedcsa.errors import DataError, must, one_of

Rows: TypeAlias = NDArray[np.intp]

SCHEMES = ("split", "cross-fit")
THIRDS = (1 / 3, 1 / 3, 1 / 3)


@dataclass(frozen=True)
class Turn:
    """One use of the parts of a table: by the ratio, by the models, by the judgement.

    Attributes
    ----------
    density, train : tuple of int
        Parts; `density` serves only a ratio that is fitted on rows of the target.
    judge : int
        The part that the models have not seen.
    """

    density: tuple[int, ...]
    train: tuple[int, ...]
    judge: int


def turns(scheme: str, n_folds: int) -> list[Turn]:
    """Who sees which part.

    Parameters
    ----------
    scheme : {"cross-fit", "split"}
        ``"cross-fit"``: each of `n_folds` parts is judged by models of all the others.
        ``"split"``, step 3.1 of Algorithm 1: one density, one train and one validation part.
    n_folds : int
        Parts of ``"cross-fit"``; a split has three.

    Examples
    --------
    >>> turns("split", 3)
    [Turn(density=(0,), train=(1,), judge=2)]
    >>> [turn.judge for turn in turns("cross-fit", 5)]
    [0, 1, 2, 3, 4]
    """
    if scheme == "cross-fit":
        if not is_whole(n_folds, 2):
            raise must("n_folds", "a whole number of at least 2", n_folds)
        found = []
        for fold in range(n_folds):
            others = (*range(fold), *range(fold + 1, n_folds))
            found.append(Turn(others, others, fold))
        return found
    if scheme != "split":
        raise one_of("scheme", SCHEMES, scheme)
    return [Turn((0,), (1,), 2)]


def generator_for(seed: int, source_name: str, purpose: str) -> np.random.Generator:
    """A generator of its own for every source and purpose.

    It depends on nothing else, so that adding or reordering sources changes nobody's draws.

    Parameters
    ----------
    seed : int
        Of the study.
    source_name : str
    purpose : str
        What the draws are for.
    """
    digest = hashlib.sha256(f"{purpose}\0{source_name}".encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").astype(int).tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def fold_key(rng: np.random.Generator) -> int:
    """The key by which `fold_labels` deals rows, one draw of `rng`."""
    return int(rng.integers(1 << 63))


def fold_labels(
    start: int, stop: int, n_folds: int, key: int, groups: Array | None = None
) -> NDArray[np.int16]:
    """Fold of the rows at positions `start` to `stop`, by a keyed hash of the position alone.

    Whoever reads a table in pieces deals its rows as one who holds it whole, and a row keeps its
    fold when others are appended. Of every `n_folds` neighbours each goes to another fold, so
    that the sizes of folds differ by one at most. Rows of one patient stay together: their fold
    follows from the patient.

    Parameters
    ----------
    start, stop : int
        Positions in the table, the last one not included.
    n_folds : int
    key : int
        As `fold_key` gives it.
    groups : array of shape (rows,), optional
        Whole numbers that stand for the patients of these rows, where some have several.

    Examples
    --------
    >>> fold_labels(0, 10, 5, key=7)
    array([2, 4, 0, 1, 3, 1, 2, 4, 0, 3], dtype=int16)
    >>> fold_labels(3, 8, 5, key=7)
    array([1, 3, 1, 2, 4], dtype=int16)
    >>> fold_labels(0, 3, 5, key=1, groups=np.array([7.0, 8.0, 7.0]))
    array([0, 3, 0], dtype=int16)
    """
    if groups is not None:
        hashes = mixed_bits(mixed_bits(groups.astype(np.uint64)) ^ np.uint64(key))
        return (hashes % np.uint64(n_folds)).astype(np.int16)
    first, last = start // n_folds, -(-stop // n_folds)
    positions = np.arange(first * n_folds, last * n_folds, dtype=np.uint64)
    hashes = mixed_bits(mixed_bits(positions) ^ np.uint64(key)).reshape(-1, n_folds)
    labels = hashes.argsort(axis=1, kind="stable").astype(np.int16).ravel()
    return labels[start - first * n_folds : stop - first * n_folds]


def mixed_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): every bit moves every other."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def check_shares(shares: Sequence[float]) -> tuple[float, float, float]:
    """Return the shares of the density, train and validation folds, or say what is wrong."""
    try:
        values = tuple(float(share) for share in shares)
    except (TypeError, ValueError):
        values = ()
    if len(values) != 3 or not min(values) > 0.0 or not abs(sum(values) - 1.0) <= 1e-9:
        raise must("folds", "3, or three positive shares that sum to 1", values or "no numbers")
    return values[0], values[1], values[2]


def dealt_labels(
    n_rows: int, rng: np.random.Generator, shares: Sequence[float] = THIRDS
) -> NDArray[np.int16]:
    """Part of every row under ``"split"``, where rows are shuffled and cut.

    Parameters
    ----------
    n_rows : int
    rng : Generator
    shares : three floats
        Of the density, train and validation parts.

    Examples
    --------
    >>> np.bincount(dealt_labels(7, np.random.default_rng(0)))
    array([3, 2, 2])
    """
    labels = np.empty(n_rows, dtype=np.int16)
    if n_rows < 6:
        raise DataError(
            f"A source must have at least 6 rows, two for each of its 3 folds; it has {n_rows}. "
            "Leave the source out."
        )
    sizes = _sizes(n_rows, check_shares(shares))
    if min(sizes) < 2:
        raise DataError(
            f"Every fold must have at least 2 rows; {n_rows} rows in shares "
            f"{tuple(round(share, 3) for share in shares)} leave one with {min(sizes)}. "
            "Use larger shares or leave the source out."
        )
    parts = np.split(rng.permutation(n_rows), np.cumsum(sizes)[:-1])
    for label, rows in enumerate(parts):
        labels[rows] = label
    return labels


def _sizes(n_rows: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to `n_rows`: the largest remainders are rounded up.

    Parameters
    ----------
    n_rows : int
    shares : sequence of float
        Summing to 1.
    """
    exact = np.asarray(shares) * n_rows
    sizes = np.floor(exact + 1e-9).astype(int)
    order = np.argsort(-(exact - sizes), kind="stable")
    sizes[order[: n_rows - sizes.sum()]] += 1
    return list(map(int, sizes))
