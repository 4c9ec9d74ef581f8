"""Arrays and frames of any library as one matrix with named columns; and sources as pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.core.arrays import Array, as_matrix
from fedcsa.core.table import Table1, flags_of
from fedcsa.data.cells import Cells, is_text
from fedcsa.data.coding import Columns
from fedcsa.data.columns import first_few, require_columns
from fedcsa.errors import DataError, must
from fedcsa.models.handed import has_classes
from fedcsa.models.inputs import pandas

if TYPE_CHECKING:
    import pyarrow as pa

_INFER = (
    'Say what every column is: FedCSA(columns=Columns.infer({"name": frame, …})) proposes it, '
    "from fedcsa import Columns."
)
#: What has one of these has columns with names, which an array of it would lose.
_OF_FRAMES = ("schema", "__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")


# Any frame ------------------------------------------------------------------------------------


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of a frame's columns; None for an array, which has none."""
    if type(X) is np.ndarray:
        return None
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(_whole(X), pass_through=True)
    except nw.exceptions.DuplicateError:  # which of them is said by `require_columns`
        names = getattr(X, "column_names", None)
        return tuple(map(str, X.columns if names is None else names))
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        if any(hasattr(X, name) for name in _OF_FRAMES):
            raise DataError(
                "Rows must be an array or a frame of pandas, Polars, pyarrow or DuckDB; "
                f"{type(X).__name__} is neither. Make a frame of it first."
            )
        return None
    if frame.implementation.is_duckdb():  # its schema has a name once only
        return tuple(X.columns)
    return tuple(map(str, frame.collect_schema().names()))


def _whole(X: Any) -> Any:
    """A batch of pyarrow's as a table; everything else as it is."""
    import pyarrow as pa

    return pa.Table.from_batches([X]) if isinstance(X, pa.RecordBatch) else X


def frame_series(X: Any, names: Sequence[str], where: str) -> dict[str, Any]:
    """Columns of a frame by name, as its own library has them.

    Parameters
    ----------
    X : frame
        Of pandas, Polars (lazy too), pyarrow, DuckDB or whatever else narwhals knows. What is
        not computed yet is computed once.
    names : sequence of str
        Columns that it has. A frame's own names need not be texts.
    where : str
        What to call it in an error.
    """
    import narwhals.stable.v2 as nw

    frame = nw.from_native(_whole(X))
    if isinstance(frame, nw.LazyFrame):
        try:
            frame = frame.select(names).collect("pyarrow")
        except Exception:  # whatever the library's own; its text may quote a cell
            raise DataError(
                f"{where} must be a frame that can be computed; this one cannot. Compute it on "
                "its own to see why."
            ) from None
    found = dict(zip(map(str, frame.columns), frame.iter_columns(), strict=True))
    return {name: found[name].to_native() for name in names}


def frame_columns(X: Any, names: Sequence[str], where: str) -> dict[str, pa.ChunkedArray]:
    """Columns of a frame by name, all of them as pyarrow has them.

    Parameters
    ----------
    X, names, where
        As for `frame_series`.

    Examples
    --------
    >>> import pandas as pd
    >>> frame_columns(pd.DataFrame({"age": [50, 60], 7: ["a", "b"]}), ["7"], "X")["7"].to_pylist()
    ['a', 'b']
    """
    found = frame_series(X, names, where)
    return {name: arrow_column(found[name], f"{where}: column {name!r}") for name in names}


def pandas_frame(X: Any, names: Sequence[str], where: str) -> Any:
    """Columns of a frame as pandas itself has or reads them.

    Parameters
    ----------
    X, names, where
        As for `frame_series`.
    """
    import pyarrow as pa

    pd = pandas()
    found = frame_series(X, names, where)
    if all(isinstance(column, pd.Series) for column in found.values()):
        return pd.DataFrame({name: c.reset_index(drop=True) for name, c in found.items()})
    return pa.table({name: arrow_column(c, where) for name, c in found.items()}).to_pandas()


def arrow_column(column: Any, what: str) -> pa.ChunkedArray:
    """One column of any library as pyarrow has it.

    Parameters
    ----------
    column : array or series of shape (rows,)
    what : str
        Begins the sentence if it cannot be done.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return column
    try:
        if hasattr(column, "to_arrow"):  # Polars
            found = column.to_arrow()
        elif column.dtype == object:
            found = _of_objects(list(column))
        else:
            found = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # its text quotes a cell
        raise DataError(
            f"{what} must hold cells of one type; they are of several types, or of one that no "
            "column can have. Make it an array of one kind."
        ) from None
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _of_objects(cells: list[Any]) -> pa.Array:
    """Objects as pyarrow has them, but for what it would change without a word.

    It takes a number among dates for days since 1970, and drops the zone of a time among others.
    """
    import pyarrow as pa

    found = pa.array(cells, from_pandas=True)
    if pa.types.is_temporal(found.type):
        zone = getattr(found.type, "tz", None)
        if any(_is_strange(cell, zone) for cell in cells):
            raise TypeError
    return found


def _is_strange(cell: Any, zone: str | None) -> bool:
    """Whether a cell among dates is a number, or has a time zone where the others have none."""
    if isinstance(cell, datetime) and cell == cell:  # not pandas' missing time
        return (cell.tzinfo is None) != (zone is None)
    return isinstance(cell, Number) and bool(cell == cell)


# Without a description ------------------------------------------------------------------------


def as_named_matrix(
    X: Any,
    where: str,
    features: Sequence[str] | None,
    coding: Columns | None = None,
    *,
    with_group: bool = False,
) -> tuple[Array, tuple[str, ...]]:
    """The rows of an array or frame, its columns in the order of `features`.

    Parameters
    ----------
    X : array or frame of shape (rows, columns)
    where : str
        What to call it in an error.
    features : sequence of str, optional
        The columns that must be there, no more and no fewer; None takes them as they come and
        names an array's columns x0, x1, …
    coding : Columns, optional
        A description, by which columns are encoded instead.
    with_group : bool
        As for `as_described_matrix`.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [50, 60], "bmi": [20.5, 30.0]})
    >>> as_named_matrix(frame, "X", ["bmi", "age"])
    (array([[20.5, 50. ],
           [30. , 60. ]]), ('bmi', 'age'))
    """
    if coding is not None:
        return as_described_matrix(X, where, coding, with_group=with_group)
    names = column_names(X)
    if names is None:
        matrix = as_matrix(X, where, n_columns=None if features is None else len(features))
        return matrix, tuple(features or map("x{}".format, range(matrix.shape[1])))
    require_columns(names, names, where)  # every one once
    wanted = names if features is None else tuple(features)
    missing = [repr(name) for name in wanted if name not in names]
    extra = [repr(name) for name in names if name not in wanted]
    if missing or extra:
        raise DataError(
            f"{where} must have the columns of the target, in any order; "
            f"missing: {first_few(missing)}; not at the target: {first_few(extra)}. "
            "Rename or drop columns first."
        )
    columns = [
        _numbers(cells, f"{where}: column {name!r}")
        for name, cells in frame_columns(X, wanted, where).items()
    ]
    return np.hstack(columns) if columns else as_matrix(np.empty((0, 0)), where), wanted


def _numbers(column: pa.ChunkedArray, what: str) -> Array:
    """A column of numbers as a matrix of one column; anything else should be described."""
    import pyarrow as pa

    if pa.types.is_float64(column.type) and column.num_chunks == 1 and not column.null_count:
        return as_matrix(column.to_numpy()[:, None], what)  # not copied
    cells = Cells(column, what, [])
    kind, types = cells.kind, pa.types
    is_one = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if not any(is_number(kind) for is_number in is_one):
        words = "texts" if is_text(kind) else "dates or another type"
        raise DataError(f"{what} must hold numbers; it holds {words}. {_INFER}")
    return as_matrix(cells.values("number")[:, None], what)


# By a description -----------------------------------------------------------------------------


def as_described_matrix(
    X: Any, where: str, coding: Columns, *, with_group: bool = False
) -> tuple[Array, tuple[str, ...]]:
    """The rows of an array or frame as their description encodes them, and the columns' names.

    Parameters
    ----------
    X : array or frame of shape (rows, columns)
        A frame's columns are found by name; further ones are ignored. An array has the described
        columns in their order. The id may be left out, and the group too if it is not needed;
        one of both is refused, since the width does not tell which.
    where : str
        What to call it in an error.
    coding : Columns
    with_group : bool
        Whether the group, if one is described, becomes the last column. Without it, X need not
        have it.

    Examples
    --------
    >>> import pandas as pd
    >>> coding = Columns({"sex": ["F", "M"], "age": "number"})
    >>> frame = pd.DataFrame({"age": [50, 60], "sex": ["M", "F"]})
    >>> as_described_matrix(frame, "X", coding)
    (array([[ 1., 50.],
           [ 0., 60.]]), ('sex=M', 'age'))
    """
    names = column_names(X)
    needed = coding.needed(with_outcome=False, with_group=with_group)
    if names is None:
        table = _named_columns(X, where, coding, needed)
    else:
        require_columns(names, needed, where)
        table = frame_columns(X, needed, where)
    matrix, _ = coding.encode(table, where, with_outcome=False, with_group=with_group)
    return matrix, coding.matrix_columns if with_group else coding.columns


def _named_columns(
    X: Any, where: str, coding: Columns, needed: Sequence[str]
) -> dict[str, pa.ChunkedArray]:
    """The needed columns of an array: it has all that are described, or lacks some that are not."""
    cells = np.asarray(X)
    names = [feature.name for feature in coding.features]
    # The id may be there or not, and so may the group if nobody needs it.
    spare = [name for name in (coding.id, coding.group) if name and name not in needed]
    left_out = [set(), *({name} for name in spare), set(spare)]
    choices = {tuple(name for name in names if name not in some) for some in left_out}
    width = cells.shape[1] if cells.ndim == 2 else -1
    fitting = [choice for choice in choices if len(choice) == width]
    if len(fitting) != 1:
        shape = "x".join(map(str, cells.shape))
        why = " Either the id or the group is missing, and nobody can say which." if fitting else ""
        raise DataError(
            f"{where} must have the {len(names)} described columns in their order; "
            f"its shape is {shape}.{why} Use a frame to give columns by name."
        )
    found = fitting[0]
    return {
        name: arrow_column(cells[:, found.index(name)], f"{where}: column {name!r}")
        for name in needed
    }


def read_sites(
    sources: Any,
    target: tuple[Any, ...],
    coding: Columns | None,
    features: Sequence[str] | None = None,
    *,
    with_predictions: bool = False,
) -> tuple[Any, dict[str, Any], dict[str, tuple[Array, Any]], dict[str, Any]]:
    """Rows of all sites as numbers, their columns alike.

    Parameters
    ----------
    sources : mapping of str to (X, y), or sequence of (X, y)
    target : tuple
        Its rows or its Table 1; empty if there is no target.
    coding : Columns, optional
        What every column is. Without it columns are numbers, and those that hold only zeros and
        ones at every site are flags.
    features : sequence of str, optional
        The columns if there is no target; by default those of the first source.
    with_predictions : bool
        Whether sources are (X, y, predictions), which become the last column of their matrices.

    Returns
    -------
    The target's matrix or table; what a plan says of columns; matrix and outcomes of every source
    by name; and X of every source as it came.
    """
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        sources = {f"source-{index}": site for index, site in enumerate(sources, 1)}
    rule = "a mapping name -> (X, y) or a list of pairs"
    if with_predictions:
        rule = "a mapping name -> (X, y, predictions) or a list of triples"
    if not isinstance(sources, Mapping):
        raise must("sources", rule, type(sources).__name__)
    if not sources:
        raise must("sources", "at least one source", 0)
    told: Any = None
    matrices: list[Array] = []
    if target and isinstance(target[0], Table1):
        told, features = target[0], target[0].features
    elif target:
        told, features = as_named_matrix(target[0], "The target", None, coding)
        matrices.append(told)
    data, frames = {}, {}
    for name, site in sources.items():
        if not isinstance(name, str):
            raise must("sources", rule, f"a name that is {type(name).__name__}")
        where = f"Source {name!r}"
        frames[name], y, *own = _parts(site, where, with_predictions)
        X, found = as_named_matrix(frames[name], where, features, coding, with_group=True)
        features = found if features is None else features
        matrices.append(X)
        data[name] = _beside(X, y, own[0], name) if own else X, y
    if coding is not None:
        described = {key: getattr(coding, key) for key in ("flags", "group", "public_sd")}
        return told, {"features": coding.columns, **described}, data, frames
    flags = told.flags if isinstance(told, Table1) else flags_of(matrices)
    return told, {"features": tuple(features or ()), "flags": flags}, data, frames


def _parts(site: Any, where: str, with_predictions: bool) -> Sequence[Any]:
    """X and y of a source, and its predictions where they are judged.

    Parameters
    ----------
    site : tuple
    where : str
        What to call it in an error.
    with_predictions : bool
    """
    if not isinstance(site, tuple | list) or len(site) != 2 + with_predictions:
        words = "(X, y, predictions) where no model is given. Put all three in a tuple."
        words = words if with_predictions else "a pair (X, y). Put both in a tuple."
        raise DataError(f"{where} must be {words}")
    if site[1] is None:
        raise DataError(
            f"{where} must have outcomes y. A site without them can only be the target."
        )
    return site


def _beside(X: Array, y: Any, predictions: Any, name: str) -> Array:
    """Rows of a source with its predictions as their last column.

    Parameters
    ----------
    X : array of shape (rows, columns)
    y, predictions : array of shape (rows,)
    name : str
        The source's.
    """
    if np.shape(predictions) != np.shape(y)[:1]:
        raise DataError(f"Source {name!r} must have one prediction for every outcome.")
    if len(predictions) != len(X):
        raise DataError(f"Source {name!r} must have one prediction for every row of X.")
    return np.column_stack([X, as_predictions(predictions, f"source {name!r}")])


def classes_of(data: Mapping[str, tuple[Array, Any]]) -> tuple[Any, ...]:
    """The union of all sources' labels, sorted; in a federation the study file declares them."""
    labels: set[Any] = set()
    for name, (_, y) in data.items():
        found = set(np.asarray(y).ravel().tolist())
        # nan is not equal to itself, and whether pandas.NA is, is NA.
        if any(label is None or (label == label) is not True for label in found):
            raise DataError(f"The outcome of source {name!r} has missing labels. Drop those rows.")
        if any(isinstance(label, float) and not label.is_integer() for label in found):
            raise DataError(
                f"The outcome of source {name!r} must hold classes; it is continuous. Use a "
                "regressor, or make classes of it first."
            )
        labels |= found
    kinds = {isinstance(label, str) for label in labels}
    if len(kinds) != 1 or not all(isinstance(label, str | int | float) for label in labels):
        raise DataError("Classes must all be texts or all be numbers. Convert them first.")
    return tuple(sorted(labels))


def classes_for(model: Any, data: Mapping[str, tuple[Array, Any]]) -> tuple[Any, ...]:
    """Labels of the outcome that a given model predicts; bare predictions are of two, or numbers.

    Parameters
    ----------
    model : fitted estimator, Formula, FileModel or None
    data : mapping of str to (X, y)
    """
    wanted = has_classes(model)
    labels = {label for _, y in data.values() for label in np.ravel(y).tolist()}
    without_event = len(labels) == 1 and labels <= {0, 1}  # then nobody else says what an event is
    if wanted is None:
        wanted = len(labels) == 2 or without_event
    if not wanted:
        return ()
    known = np.ravel(getattr(model, "classes_", (0, 1) if without_event else ())).tolist()
    return tuple(sorted(known)) if labels <= set(known) else classes_of(data)


def as_predictions(values: Any, whose: str) -> Array:
    """Predictions as numbers; whether they are finite is looked at later.

    Parameters
    ----------
    values : array
    whose : str
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        # `from None`: numpy's own text quotes the cell that it could not convert.
        raise DataError(
            f"The predictions of {whose} must be numbers. Convert them first."
        ) from None
