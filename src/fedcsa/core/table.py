"""Table 1 of the target: all that it tells about its rows, rounded as in print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcsa.core.arrays import LARGEST, Array, as_matrix, as_vector, in_bands, is_whole, read_only
from fedcsa.core.batches import HeldRows
from fedcsa.errors import DataError, raise_all

#: The sd of a fair coin: the largest that a column of zeros and ones can have. It is the unit of
#: a share, so that a share of 0 or 1 is ordinary.
INDICATOR_SD = 0.5
#: How the column is called that is 1 where a cell of another one is missing: after that one.
MISSING_MARK = "=missing"
#: A told sd is at least this share of the public one: a target of near-copies of one patient
#: cannot point at that patient's row in a source.
SD_FLOOR = 0.3
#: Means are told to this part of an sd, shares to this part of all rows: two digits, as in print.
STEP = 0.01
#: A told sd has two digits.
SD_DIGITS = 2
#: Rows are counted in tens, so that one patient more is not seen.
COUNT_STEP = 10
#: Correlations are told up to this many columns: their number grows with the square.
MAX_CORRELATED = 10
#: … and only if every told number stands for this many rows.
ROWS_PER_NUMBER = 10
#: The unit of a number that does not vary at the target and has no public sd.
CONSTANT_SD = 1.0
#: Two digits of an sd move a second moment in its units by up to 10.3 % (1.05 told as 1.0), and
#: two digits of the moment itself by half a hundredth.
LARGEST_MOMENT = 1.12
#: The most by which rounding to two digits moves a share or a correlation.
TYPED_SLACK = 0.005

Flags = Sequence[bool] | NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Table1:
    r"""What the target tells: its Table 1, rounded.

    With X the rows, s the told sds (units) and m the told means,

    .. math:: z_k = (x_k - m_k) / s_k, \qquad R_{kl} = \tfrac1n \sum_i z_{ik} z_{il}.

    Make one with `Table1.of` from rows, or with `Table1.typed` from a published table. The class
    itself takes told numbers as they are and only checks that they do not contradict each other.

    Attributes
    ----------
    n_rows : int
        In tens, rounded down; fewer than ten are told as they are.
    features : tuple of str
        Names of the d columns: ``"age"``, ``"sex=M"``, …
    flags : tuple of bool
        Which columns hold zeros and ones: flags, levels, marks of missing cells.
    mean : array of shape (d,)
        Means of numbers to a hundredth of the told sd, shares of flags to a hundredth.
    sd : array of shape (d,)
        The units: of a number its sd to two digits, at least 0.3 of the public one; of a flag
        the public unit.
    correlations : array of shape (d, d), optional
        Second moments R of z, to a hundredth. Told only if all columns are numbers, d ≤ 10 and
        2d + d(d − 1)/2 ≤ n/10.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(63.0, 11.0, 200), rng.random(200) < 0.4])
    >>> table = Table1.of(X, ["age", "sex=M"], [False, True])
    >>> table.n_rows, table.mean.round(2).tolist(), table.sd.tolist()
    (200, [63.14, 0.36], [11.0, 0.5])
    """

    n_rows: int
    features: tuple[str, ...]
    flags: tuple[bool, ...]
    mean: Array = field(repr=False)
    sd: Array = field(repr=False)
    correlations: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(map(str, self.features)))
        object.__setattr__(self, "flags", tuple(map(bool, self.flags)))
        d = len(_columns(self.features, self.flags)[0])
        if not is_whole(self.n_rows, 2):
            raise DataError(
                "The number of rows of a Table 1 must be a whole number of at least 2. "
                "Collect more rows, or correct n."
            )
        object.__setattr__(self, "n_rows", int(self.n_rows))
        for name in ("mean", "sd"):
            values = as_vector(getattr(self, name), f"The {name!r} of a Table 1", n_rows=d)
            object.__setattr__(self, name, read_only(values.copy()))
        problems, R = list[str](), self.correlations
        if R is not None:
            R = as_matrix(R, "The correlations of a Table 1", n_columns=d)
            object.__setattr__(self, "correlations", read_only(R.copy()))
            if not tells_correlations(self.n_rows, self.flags):
                problems.append(
                    "Correlations must be left out of a Table 1 with flags, with more than "
                    f"{MAX_CORRELATED} columns, or with fewer than {ROWS_PER_NUMBER} rows a told "
                    "number; they are given. Leave them out."
                )
        problems += told_problems(self.features, self.flags, self.mean, self.sd, R)
        if problems:
            raise DataError("\n".join(problems))

    @classmethod
    def of(
        cls,
        X: ArrayLike | Moments,
        features: Sequence[str],
        flags: Sequence[bool],
        public_sd: ArrayLike | None = None,
        fewest: int = 0,
    ) -> Self:
        """Table 1 of rows.

        A number that does not vary gets the floor of its public sd as its unit, and 1 if it has
        none.

        Parameters
        ----------
        X : array of shape (rows, d), or Moments
            At least two rows; or their sums, if they are not held.
        features : sequence of d str
        flags : sequence of d bool
            Columns that hold only zeros and ones.
        public_sd : array of shape (d,), optional
            Agreed sds; NaN where there is none. A number without one has no floor, a flag
            without one has the unit 0.5.
        fewest : int
            A flag or level that fewer patients have counts as having none: see `merged_counts`. No
            correlations are told where fewer make up the variance of a number.
        """
        d = len(features)
        rows = X if isinstance(X, Moments) else moments_of(HeldRows(as_matrix(X, "X_target")), d)
        n = rows.n_rows
        if n < 2:
            raise DataError(
                "X_target must have at least 2 rows to say how it varies; it has 1. "
                "Collect more rows."
            )
        is_flag, public = _columns(features, flags, public_sd)
        wrong = is_flag & ~rows.binary
        if wrong.any():
            raise DataError(
                f"Column {features[int(wrong.argmax())]!r} must hold only 0 and 1, because it is "
                "described as a flag; it holds something else. Describe it as a number, or "
                "correct it."
            )
        # Not sd > 0 alone: the sd of a constant column is often a rounding error away from 0.
        spread = np.sqrt(np.diagonal(rows.squares) / n)
        varies = (rows.high > rows.low) & (spread > 0.0)
        spread = np.where(varies | np.isfinite(public), spread, CONSTANT_SD)
        total = rows.total
        if is_flag.any():
            total = merged_counts(features, is_flag, total, n, fewest)
        mean, R = total / n, None
        m, s = _rounded(mean, spread, is_flag, public)
        if tells_correlations(n, is_flag):
            # Correlations with a column are, up to scale, the other columns of those patients who
            # make up its variance. One row may make up a share of 1/fewest.
            largest = np.maximum((rows.high - mean) ** 2, (rows.low - mean) ** 2)
            if (largest * fewest <= np.diagonal(rows.squares)).all():
                off = np.outer(mean - m, mean - m)
                R = np.round((rows.squares / n + off) / np.outer(s, s), 2)
        return cls(in_bands(n, COUNT_STEP), tuple(features), tuple(is_flag), m, s, R)

    @classmethod
    def typed(
        cls,
        n_rows: int,
        features: Sequence[str],
        flags: Sequence[bool],
        mean: ArrayLike,
        sd: ArrayLike,
        public_sd: ArrayLike | None = None,
        correlations: ArrayLike | None = None,
    ) -> Self:
        """Table 1 from a published one, rounded and floored; all mistakes are one `DataError`.

        Parameters
        ----------
        n_rows : int
            As published.
        features : sequence of d str
        flags : sequence of d bool
        mean : array of shape (d,)
            Means of numbers, shares (0 to 1, not percent) of flags.
        sd : array of shape (d,)
            Sds of numbers; of a flag any number, 0 for example.
        public_sd : array of shape (d,), optional
            As for `of`.
        correlations : array of shape (d, d), optional
            Of all columns, ones on the diagonal; or second moments as told. They are left out
            where a target with these columns and rows does not tell them.

        Examples
        --------
        >>> table = Table1.typed(1234, ["age", "sex=M"], [False, True], [63.21, 0.428], [11.4, 0])
        >>> table.n_rows, table.mean.round(4).tolist(), table.sd.tolist()
        (1230, [63.25, 0.43], [11.0, 0.5])
        """
        is_flag, public = _columns(features, flags, public_sd)
        d = len(is_flag)
        means = as_vector(mean, "The 'mean' of a Table 1", n_rows=d)
        spread = np.where(is_flag, INDICATOR_SD, as_vector(sd, "The 'sd' of a Table 1", n_rows=d))
        r = None
        if correlations is not None:
            r = as_matrix(correlations, "The correlations of a Table 1", n_columns=d)
        problems = [*told_problems(features, is_flag, means, spread, r)]
        raise_all(problems + level_problems(features, is_flag, means), DataError)
        m, s = _rounded(means, spread, is_flag, public)
        told = in_bands(n_rows, COUNT_STEP) if is_whole(n_rows, 2) else 0  # 0 is refused below
        R = None
        if r is not None and tells_correlations(told, is_flag):
            # In the told units, around the told means, as `of` gives them.
            offset, scale = (means - m) / s, spread / s
            R = np.round(r * np.outer(scale, scale) + np.outer(offset, offset), 2)
        return cls(told, tuple(features), tuple(is_flag), m, s, R)

    @property
    def n_numbers(self) -> int:
        """How many numbers about the target's rows it tells: n, means, sds, correlations."""
        d = len(self.features)
        pairs = 0 if self.correlations is None else d * (d - 1) // 2
        return 1 + d + self.flags.count(False) + pairs

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table1):
            return NotImplemented
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)  # None equals None

    __hash__ = None  # type: ignore[assignment]


def tells_correlations(n_rows: int, flags: Flags) -> bool:
    """Whether a target tells correlations: numbers only, few of them, and rows enough.

    Parameters
    ----------
    n_rows : int
    flags : sequence of bool
        Which columns are flags.

    Examples
    --------
    >>> tells_correlations(650, [False] * 10), tells_correlations(640, [False] * 10)
    (True, False)
    """
    d = len(flags)
    told = 2 * d + d * (d - 1) // 2
    return not any(flags) and d <= MAX_CORRELATED and told <= n_rows / ROWS_PER_NUMBER


def merged_counts(
    features: Sequence[str], flags: Flags, counts: Array, n_rows: int, fewest: int
) -> Array:
    """Counts of flags and levels of which none, nor what they leave over, is of a few patients.

    The patients of a rare level are counted with the first level, which has no column of its own.
    If the first level is rare itself, they are counted with the largest. Of a flag, those who lack
    it are the first level.

    Parameters
    ----------
    features : sequence of d str
        Levels of one column have names that begin alike: ``"sex=F"``, ``"sex=M"``.
    flags : sequence of d bool
        Other columns are left as they are.
    counts : array of shape (d,)
        Patients who have each.
    n_rows : int
    fewest : int
        Fewer patients, but some, are rare.

    Examples
    --------
    >>> names = ["stage=II", "stage=III", "smoker"]  # of 100 patients, 3 are in stage I
    >>> merged_counts(names, [True] * 3, np.array([93.0, 4.0, 97.0]), 100, 5)
    array([ 93.,   0., 100.])
    """
    merged = np.array(counts, dtype=np.float64)
    columns: dict[str, list[int]] = {}
    for place, (name, flag) in enumerate(zip(features, flags, strict=True)):
        if flag:
            columns.setdefault(name.partition("=")[0], []).append(place)
    for places in columns.values():
        own = merged[places]
        own[own < fewest] = 0.0
        if 0.0 < n_rows - own.sum() < fewest:
            own[own.argmax()] += n_rows - own.sum()
        merged[places] = own
    return merged


def flags_of(matrices: Sequence[Array]) -> tuple[bool, ...]:
    """Which columns are flags: those that hold only 0 and 1 in all of `matrices`.

    Parameters
    ----------
    matrices : sequence of arrays of shape (rows, d)
        One for every site, of the same columns.

    Examples
    --------
    >>> flags_of([np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 0.5]])])
    (True, False)
    """
    found = np.ones(matrices[0].shape[1], dtype=np.bool_)
    for X in matrices:
        found &= ((X == 0.0) | (X == 1.0)).all(axis=0)
    return tuple(found.tolist())


def _rounded(
    mean: Array, spread: Array, flags: NDArray[np.bool_], public: Array
) -> tuple[Array, Array]:
    """Means and units as they are told.

    Parameters
    ----------
    mean, spread : array of shape (d,)
        Means or shares, and sds.
    flags : array of bool of shape (d,)
    public : array of shape (d,)
        Agreed sds, NaN where there is none.
    """
    raised = np.fmax(spread, SD_FLOOR * public)  # a public sd of NaN is no floor
    s = np.char.mod(f"%.{SD_DIGITS}g", raised).astype(np.float64)
    s = np.where(flags, np.where(np.isfinite(public), public, INDICATOR_SD), s)
    step = np.where(flags, STEP, STEP * s)  # a share tells its own spread
    return np.round(mean / step) * step, s


def _columns(
    features: Sequence[str], flags: Flags, public_sd: ArrayLike | None = None
) -> tuple[NDArray[np.bool_], Array]:
    """The flags and the agreed sds, one a column, or the complaint that they do not go together.

    Parameters
    ----------
    features : sequence of d str
    flags : sequence of d bool
    public_sd : array of shape (d,), optional
        NaN, as without it, where no sd is agreed.
    """
    marked = np.array([*map(bool, flags)], dtype=np.bool_)
    d, distinct = len(features), len(set(features))
    if not d or distinct < d or len(marked) != d:
        raise DataError(
            f"A Table 1 must have one or more columns of distinct names, each a flag or not; "
            f"it has {d} name(s), {distinct} of them distinct, and {len(marked)} mark(s). "
            "Give every column once."
        )
    public = np.asarray(np.full(d, np.nan) if public_sd is None else public_sd, dtype=np.float64)
    if public.shape != (d,) or np.isinf(public).any() or (public <= 0.0).any():
        raise DataError(
            f"The public sds must be {d} positive number(s), one per column, or NaN where none is "
            "agreed. Correct them for all sites."
        )
    return marked, public


# What cannot be: sentences that quote no number ----------------------------------------------


def told_problems(
    features: Sequence[str], flags: Flags, mean: Array, sd: Array, R: Array | None
) -> Iterator[str]:
    """A sentence for every told number that cannot be, its rounding allowed for.

    Parameters
    ----------
    features : sequence of d str
    flags : sequence of d bool
        Columns of zeros and ones, whose mean is a share.
    mean, sd : arrays of shape (d,)
    R : array of shape (rows, d) or None
        Second moments of z; whether it has d rows is looked at here.
    """
    for name, flag, m, s in zip(features, flags, mean, sd, strict=True):
        if flag and not 0.0 <= m <= 1.0:
            advice = (
                "It looks like percent; divide it by 100." if 1.0 < m <= 100.0 else "Correct it."
            )
            yield f"The share of {name!r} must lie between 0 and 1. {advice}"
        if not flag and abs(m) > LARGEST:
            yield f"The mean of {name!r} must be at most {LARGEST:.0e} in size. Check its unit."
        if not (np.isfinite(s) and 0.0 < s <= LARGEST):
            yield (
                f"The sd of {name!r} must be a positive number of at most {LARGEST:.0e}; "
                "it is not. Correct it."
            )
    if R is None:
        return
    d = R.shape[1]
    if len(R) != d:
        yield f"Correlations must have {d} rows, one per column; they have {len(R)}. Add rows."
    elif np.abs(R - R.T).max() > 1e-9:
        yield "Correlations must be the same on both sides of the diagonal. Correct them."
    elif np.abs(R).max() > LARGEST_MOMENT:
        yield "Correlations must lie between -1 and 1; they do not. Correct them."
    elif np.linalg.eigvalsh(R).min() < -TYPED_SLACK * d - 1e-9:  # d·slack bounds what rounding does
        yield "No data can have all these correlations at once. Check signs and pairs."


def level_problems(features: Sequence[str], flags: Flags, mean: Array) -> list[str]:
    """A sentence for every column of levels whose shares are more than all rows.

    Parameters
    ----------
    features : sequence of d str
        Levels of one column have names that begin alike: ``"sex=F"``, ``"sex=M"``.
    flags : sequence of d bool
    mean : array of shape (d,)
    """
    shares: dict[str, list[float]] = {}
    for name, flag, m in zip(features, flags, mean, strict=True):
        if flag and "=" in name:
            shares.setdefault(name.partition("=")[0], []).append(float(m))
    return [
        f"The shares of the levels of {name!r} sum to more than 1. Correct them."
        for name, own in shares.items()
        if sum(own) > 1.0 + TYPED_SLACK * len(own) + 1e-9  # each is rounded
    ]


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
    """

    n_rows: int
    total: Array = field(repr=False)
    squares: Array = field(repr=False)
    low: Array = field(repr=False)
    high: Array = field(repr=False)
    binary: NDArray[np.bool_] = field(repr=False)

    def _with(self, other: Self) -> Self:
        """Moments of the rows of both (Chan, Golub and LeVeque 1983)."""
        n = self.n_rows + other.n_rows
        apart = other.total / other.n_rows - self.total / self.n_rows
        between = np.outer(apart, apart) * (self.n_rows * other.n_rows / n)
        return type(self)(
            n,
            self.total + other.total,
            self.squares + other.squares + between,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.binary & other.binary,
        )


def moments_of(batches: Iterable[Array], n_columns: int) -> Moments:
    """What a Table 1 of all rows of `batches` is made of.

    Parameters
    ----------
    batches : iterable of arrays of shape (rows, d)
    n_columns : int
        d.

    Examples
    --------
    >>> found = moments_of([np.array([[1.0, 0.0]]), np.array([[3.0, 1.0], [5.0, 1.0]])], 2)
    >>> found.n_rows, found.total, found.squares.diagonal().round(2), found.binary
    (3, array([9., 2.]), array([8.  , 0.67]), array([False,  True]))
    """
    found: Moments | None = None
    for batch in batches:
        rows = as_matrix(batch, "X_target", n_columns=n_columns)
        total = rows.sum(axis=0)
        deviations = rows - total / len(rows)
        squares = deviations.T @ deviations
        # To the bit as `numpy.std`, whatever the matrix product rounds.
        np.fill_diagonal(squares, np.square(deviations).sum(axis=0))
        binary = ((rows == 0.0) | (rows == 1.0)).all(axis=0)
        here = Moments(len(rows), total, squares, rows.min(axis=0), rows.max(axis=0), binary)
        found = here if found is None else found._with(here)
    if found is None:
        raise DataError("X_target must have rows; it has none. Check which table it names.")
    return found
