"""What an array must be before any arithmetic touches it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.errors import DataError

Array: TypeAlias = NDArray[np.float64]

#: The square of a larger cell, summed over rows, is no number any more.
LARGEST = 1e150
#: The variance of a squared loss is a fourth power, and neither overflows nor vanishes up to here,
#: and down to its inverse.
LARGEST_OUTCOME = 1e60
#: What to do about cells that are no numbers: among features, and among outcomes of a regressor.
_NO_NUMBERS = "Encode categories as numbers first, or describe them by 'columns'."
_NO_CLASSES = "For classes give a classifier, for example FedCSA(LogisticRegression())."


def as_matrix(values: ArrayLike, name: str, n_columns: int | None = None) -> Array:
    """Return `values` as a finite float64 matrix (rows, columns), or raise a `DataError`.

    No cell may exceed `LARGEST` in size, so that squares are finite too.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
    name : str
        What an error calls it.
    n_columns : int, optional
        How many columns it must have.

    Examples
    --------
    >>> as_matrix([[1, 2], [3, 4]], "X").shape
    (2, 2)
    >>> as_matrix([[1, float("nan")]], "X")
    Traceback (most recent call last):
        ...
    fedcsa.errors.DataError: X must be finite, but 1 of its 2 cells is NaN or infinite. ...
    """
    if hasattr(values, "toarray"):
        raise DataError(f"{name} must not be sparse. Make an array of it with .toarray().")
    matrix = _as_float(values, name)
    if matrix.ndim != 2:
        raise DataError(
            f"{name} must be a matrix of rows and columns; it has {matrix.ndim} dimension(s). "
            "Reshape a single column with X[:, None]."
        )
    if n_columns is not None and matrix.shape[1] != n_columns:
        raise DataError(
            f"{name} must have {n_columns} column(s) like the data it is used with; "
            f"it has {matrix.shape[1]}. "
            "Use the same columns in the same order."
        )
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise DataError(
            f"{name} must have rows and columns; its shape is {matrix.shape}. "
            "Check how it was selected."
        )
    # Two looks without a matrix in between; a cell that is no number is in no bounds.
    if matrix.max() <= LARGEST and matrix.min() >= -LARGEST:
        return matrix
    if not np.isfinite(matrix).all():
        raise _not_finite(matrix, name)
    large = int(np.count_nonzero(np.abs(matrix) > LARGEST))
    verb = "is" if large == 1 else "are"
    raise DataError(
        f"{name} must hold numbers of at most {LARGEST:.0e} in size, but {large} of its "
        f"{matrix.size} cells {verb} larger. Check its units, and how missing cells are coded."
    )


def as_vector(
    values: ArrayLike, name: str, n_rows: int | None = None, advice: str = _NO_NUMBERS
) -> Array:
    """Return `values` as a finite float64 vector, or raise a `DataError`.

    Parameters
    ----------
    values : array-like of shape (rows,) or (rows, 1)
    name : str
        What an error calls it.
    n_rows : int, optional
        How many rows it must have.
    advice : str
        What to do about cells that are no numbers.
    """
    vector = _as_float(values, name, advice)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise DataError(f"{name} must be one column; its shape is {vector.shape}. Choose one.")
    if not np.isfinite(vector).all():
        raise _not_finite(vector, name)
    if n_rows is not None and vector.shape[0] != n_rows:
        raise DataError(
            f"{name} must have {n_rows} row(s); it has {vector.shape[0]}. "
            "Give one value per row, in the same order."
        )
    return vector


def as_outcome(y: Any, classes: Sequence[Any], name: str) -> Array:
    """Return outcomes as numbers: as they are, or the codes 0…K−1 of their labels.

    Parameters
    ----------
    y : array of shape (rows,) or (rows, 1)
    classes : sequence of labels
        In the agreed order; empty for an outcome of numbers.
    name : str
        Begins the sentence of a `DataError`.

    Examples
    --------
    >>> as_outcome(["no", "yes", "no"], ("no", "yes"), "y")
    array([0., 1., 0.])
    """
    if not classes:
        numbers = as_vector(y, name, advice=_NO_CLASSES)
        size = float(np.abs(numbers).max(initial=0.0))
        if size > LARGEST_OUTCOME or 0.0 < size < 1.0 / LARGEST_OUTCOME:
            raise DataError(
                f"{name} must be numbers of a size between {1.0 / LARGEST_OUTCOME:g} and "
                f"{LARGEST_OUTCOME:g}; they are {'larger' if size > 1.0 else 'smaller'}. "
                "Choose another unit."
            )
        return numbers
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{name} must be one column; its shape is {labels.shape}.")
    codes = np.full(len(labels), -1.0)
    for code, label in enumerate(classes):
        codes[labels == label] = code
    strangers = int((codes < 0).sum())
    if strangers:
        raise DataError(
            f"{name} must hold only the {len(classes)} agreed classes; "
            f"{strangers} of its {len(labels)} rows hold something else."
        )
    return codes


def is_whole(value: Any, smallest: int) -> bool:
    """Whether `value` is a whole number of at least `smallest`, and not a truth value.

    Parameters
    ----------
    value : object
    smallest : int
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value >= smallest)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _as_float(values: ArrayLike, name: str, advice: str = _NO_NUMBERS) -> Array:
    """A contiguous float64 array, or the complaint that some cells are no numbers.

    Parameters
    ----------
    values : array-like
    name : str
        What an error calls it.
    advice : str
        What to do about cells that are no numbers.
    """
    try:
        array = np.asarray(values)
        if array.dtype == object:
            if any(isinstance(cell, str | bytes) for cell in array.ravel()):
                raise TypeError
        elif array.dtype.kind not in "fiub":
            raise TypeError
        if np.ma.is_masked(values):
            raise TypeError
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        # `from None`: numpy's own text quotes the cell that it could not convert.
        raise DataError(
            f"{name} must hold numbers; some of its cells are text, dates, missing, "
            f"or of ragged shape. {advice}"
        ) from None


def _not_finite(array: Array, name: str) -> DataError:
    """The error for cells that are NaN or infinite, with their number.

    Parameters
    ----------
    array : array
    name : str
        What the error calls it.
    """
    bad = int(array.size - np.count_nonzero(np.isfinite(array)))
    verb = "is" if bad == 1 else "are"
    return DataError(
        f"{name} must be finite, but {bad} of its {array.size} cells {verb} NaN or infinite. "
        "Drop those rows or fill them in by a rule that all sites share."
    )


def in_bands(n_rows: int, band: int) -> int:
    """The largest multiple of `band` up to `n_rows`; fewer rows than one band stay as they are.

    Parameters
    ----------
    n_rows, band : int

    Examples
    --------
    >>> in_bands(347, 10), in_bands(7, 10)
    (340, 7)
    """
    return n_rows - n_rows % band if n_rows >= band else n_rows


def _special(name: str, *values: Any, **options: Any) -> Any:
    """A function of `scipy.special`, by its name.

    Loading them takes a quarter of a second, and `fedcsa check` computes nothing: so they are
    loaded when one is first called.

    Parameters
    ----------
    name : str
    *values, **options
        What it is called with.
    """
    from scipy import special

    return getattr(special, name)(*values, **options)


bdtrc = partial(_special, "bdtrc")
betainc = partial(_special, "betainc")
betaincc = partial(_special, "betaincc")
betaincinv = partial(_special, "betaincinv")
erf = partial(_special, "erf")
expit = partial(_special, "expit")
gammaln = partial(_special, "gammaln")
logit = partial(_special, "logit")
ndtri = partial(_special, "ndtri")
softmax = partial(_special, "softmax")
stdtr = partial(_special, "stdtr")
stdtrit = partial(_special, "stdtrit")
