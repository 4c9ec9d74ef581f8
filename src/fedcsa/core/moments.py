"""Sums of a table's columns that are made batch by batch, in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, as_matrix
from fedcsa.errors import DataError


@dataclass(frozen=True)
class Moments:
    """What a Table 1 is made of.

    Attributes
    ----------
    n_rows : int
    total : array of shape (d,)
        Sums of the columns.
    squares : array of shape (d, d)
        Sums of products of deviations from the means.
    low, high : array of shape (d,)
        Smallest and largest value.
    binary : array of bool of shape (d,)
        Whether a column holds nothing but zeros and ones.

    Examples
    --------
    >>> found = Moments.of([np.array([[1.0, 0.0]]), np.array([[3.0, 1.0], [5.0, 1.0]])], 2)
    >>> found.n_rows, found.mean.round(2), found.sd.round(2), found.binary
    (3, array([3.  , 0.67]), array([1.63, 0.47]), array([False,  True]))
    """

    n_rows: int
    total: Array = field(repr=False)
    squares: Array = field(repr=False)
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    binary: NDArray[np.bool_] = field(repr=False)

    @classmethod
    def of(cls, batches: Iterable[Array], n_columns: int) -> Self:
        """Of all rows of `batches`.

        Parameters
        ----------
        batches : iterable of arrays of shape (rows, d)
        n_columns : int
            d.
        """
        found: Self | None = None
        for batch in batches:
            rows = as_matrix(batch, "X_target", n_columns=n_columns)
            if len(rows):
                here = cls._of_rows(rows)
                found = here if found is None else found._with(here)
        if found is None:
            raise DataError("X_target must have rows; it has none. Check which table it names.")
        return found

    @classmethod
    def _of_rows(cls, rows: Array) -> Self:
        total = rows.sum(axis=0)
        deviations = rows - total / len(rows)
        squares = deviations.T @ deviations
        # To the bit as `numpy.std`, whatever the matrix product rounds.
        np.fill_diagonal(squares, np.square(deviations).sum(axis=0))
        binary = ((rows == 0.0) | (rows == 1.0)).all(axis=0)
        return cls(len(rows), total, squares, rows.min(axis=0), rows.max(axis=0), binary)

    def _with(self, other: Self) -> Self:
        """Of the rows of both (Chan, Golub and LeVeque 1983)."""
        n = self.n_rows + other.n_rows
        apart = other.mean - self.mean
        between = np.outer(apart, apart) * (self.n_rows * other.n_rows / n)
        return type(self)(
            n,
            self.total + other.total,
            self.squares + other.squares + between,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.binary & other.binary,
        )

    @property
    def mean(self) -> Array:
        """Of every column."""
        return self.total / self.n_rows

    @property
    def sd(self) -> Array:
        """Of every column, with n below the line."""
        spread: Array = np.sqrt(np.diagonal(self.squares) / self.n_rows)
        return spread

    def is_of_a_few(self, fewest: int) -> bool:
        """Whether fewer than `fewest` patients could make up the variance of a column.

        Correlations with such a column are, up to scale, those patients' other columns. One row
        may make up a share of 1/fewest; 0 for any.
        """
        largest = np.maximum((self.high - self.mean) ** 2, (self.low - self.mean) ** 2)
        return bool((largest * fewest > np.diagonal(self.squares)).any())

    def around(self, centre: Array, unit: Array) -> Array:
        """Mean products of the columns, of shape (d, d).

        Parameters
        ----------
        centre, unit : array of shape (d,)
            What is subtracted from every column, and what it is divided by.
        """
        off = self.mean - centre
        products: Array = (self.squares / self.n_rows + np.outer(off, off)) / np.outer(unit, unit)
        return products
