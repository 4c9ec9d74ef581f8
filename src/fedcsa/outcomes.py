"""Outcomes of some of the target's rows: who was followed up, what they change, what came before.

An update is given *all* outcomes so far. Between updates a `History` is kept, which holds no row:
a digest of every id and of every outcome, so that an outcome that contradicts an earlier one is
noticed, and the design of the list, so that its weights are right. The salt lies beside the
digests, so anyone who has the file and the ids can try out outcomes: keep it with the outcomes.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedcsa.core.arrays import Array, is_whole
from fedcsa.core.losses import Loss
from fedcsa.core.selective import Selection, balanced_weights, selection_of
from fedcsa.core.strata import Labels, design_weights, n_strata, review_order, strata_by
from fedcsa.core.units import CONVERSIONS, other_units
from fedcsa.data.cells import Cells, numbered_rows
from fedcsa.errors import DataError, must, raise_all
from fedcsa.findings import Finding
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.estimate import MAX_IMBALANCE, MIN_EFFECTIVE_ROWS
from fedcsa.target.risk_units import in_units
from fedcsa.update import (
    Update,
    expected_interval,
    labelled_rows,
    output_before,
    update,
    with_intervals,
)

#: Letters of a digest: of a million ids, two share one with chance 1 in 30 million.
DIGEST_LETTERS = 16
#: So many times the promised error, and the other outcomes', nothing lies off its prediction but
#: slips and codes such as -999; in a normal world one of 10²² does.
FAR_OFF = 10.0
#: Why they do not correct the model.
FAR_OUTCOMES = "single outcomes lie absurdly far from their predictions"
OTHER_UNIT = "the outcomes look as if they were in another unit"
#: Fewer outcomes do not correct the model: of two that disagree nobody can say which is a slip.
FEWEST_TO_CORRECT = 3
TOO_FEW_TO_CORRECT = f"that takes {FEWEST_TO_CORRECT} outcomes, because one may be a slip"
#: Features that a finding or an error names.
MOST_DIFFERING = 3


@dataclass(frozen=True)
class ListDesign:
    """How a list of rows to follow up was drawn.

    Attributes
    ----------
    seed : int
    sizes : tuple of int
        N_h, rows of the target in every stratum.
    picked : mapping of str to int
        Digest of every id on the list -> its stratum, in the order of the list.
    files : tuple of str
        Where the lists were written, in their order, as far as that is known.
    """

    seed: int
    sizes: tuple[int, ...]
    picked: Mapping[str, int] = field(repr=False)
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class History:
    """What is known of earlier lists and updates.

    Attributes
    ----------
    salt : str
        Of the digests.
    design : ListDesign or None
        Of the rows that were to be followed up.
    seen : mapping of str to str
        Digest of every id with an outcome -> digest of both, in the order in which they came.
    last : Update or None
        The last one.
    """

    salt: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    design: ListDesign | None = None
    seen: Mapping[str, str] = field(default_factory=dict, repr=False)
    last: Update | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened yet."""
        return self.design is None and self.last is None

    def digest(self, *parts: object) -> str:
        """A text that stands for an id, or for an id and its outcome."""
        told = [float(part) if isinstance(part, int) else part for part in parts]  # 1 is 1.0
        text = "\n".join([self.salt, *map(str, told)])
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LETTERS]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "salt": self.salt,
            "design": None if self.design is None else asdict(self.design),
            "seen": {**self.seen},
            "update": None if self.last is None else self.last.to_json(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The same out of what `to_json` gave."""
        told, last = content["design"], content["update"]
        design = None
        if told is not None:
            picked = {str(key): int(value) for key, value in told["picked"].items()}
            sizes, files = tuple(map(int, told["sizes"])), tuple(map(str, told["files"]))
            design = ListDesign(int(told["seed"]), sizes, picked, files)
            if not all(0 <= stratum < len(design.sizes) for stratum in picked.values()):
                raise ValueError
        seen = {str(key): str(value) for key, value in content["seen"].items()}
        came = None if last is None else Update.from_json(last)
        return cls(str(content["salt"]), design, seen, came)


# Ids --------------------------------------------------------------------------------------------


def id_keys(ids: Any, what: str, missing_values: Collection[str] = ()) -> Array:
    """Whole numbers that stand for ids; each must be there, and once.

    Parameters
    ----------
    ids : pyarrow.ChunkedArray, or sequence
        Texts or numbers: 1, 1.0 and the text ``"1"`` are one id.
    what : str
        For the sentences, such as ``"Column 'id' of the table 'a.csv'"``.
    missing_values : collection of str
        Spellings of a missing cell, beside the usual ones.
    """
    import pyarrow as pa

    if not isinstance(ids, pa.ChunkedArray):
        try:
            ids = pa.chunked_array([pa.array(np.asarray(ids).tolist())])
        except (pa.ArrowException, TypeError, ValueError):  # its text quotes an id
            raise DataError(f"{what} must be texts or whole numbers, one per row.") from None
    problems: list[str] = []
    cells = Cells(ids, what, problems, missing_values)
    keys = cells.values("group")
    missing = np.isnan(keys)
    if missing.any():
        cells.complain("name every row", missing, "missing", "Fill them in, or drop those rows.")
    raise_all(problems, DataError)
    check_once(keys, what, "Give every row once.")
    return keys


def check_once(keys: Array, what: str, advice: str) -> None:
    """Raise if an id comes twice.

    Parameters
    ----------
    keys : array of shape (rows,)
    what : str
        For the sentence.
    advice : str
    """
    _, first, times = np.unique(keys, return_index=True, return_counts=True)
    again = np.ones(len(keys), dtype=np.bool_)
    again[first] = False
    if again.any():
        raise DataError(
            f"{what} must name every row once; {int((times > 1).sum())} id(s) come twice or more. "
            f"See {numbered_rows(again)}. {advice}"
        )


# Whom to follow up --------------------------------------------------------------------------


def pick_rows(
    adaptation: Adaptation,
    X: Array,
    keys: Array,
    n: int,
    *,
    seed: int = 0,
    history: History | None = None,
    predicted: Array | None = None,
) -> tuple[Labels, Array, History]:
    """Draw rows to follow up, by a stratified random sample; a second list goes on with the first.

    Returns the positions of the rows in the order of the list, how many of the target's rows each
    stands for, and the history with the design.

    Parameters
    ----------
    adaptation : Adaptation
        Whose predictions make the strata.
    X : array of shape (rows, features)
        All rows to choose from.
    keys : array of shape (rows,)
        Whole numbers that stand for their ids.
    n : int
        How many to draw.
    seed : int
        Of the first list; later lists go on with its order.
    history : History, optional
        Of this result.
    predicted : array of shape (rows,), optional
        The column of predictions, if the study judged one.
    """
    history = History() if history is None else history
    before = history.design
    drawn = 0 if before is None else len(before.picked)
    if not is_whole(seed, 0):
        raise must("seed", "a whole number from 0", seed)
    if not is_whole(n, 1) or n > len(X) - drawn:
        raise must("n", f"a whole number from 1 to {len(X) - drawn}, the rows that are left", n)
    _one_per_row(len(X), ids=keys)
    strata = n_strata(n, len(X)) if before is None else len(before.sizes)
    seed = int(seed) if before is None else before.seed
    labels = strata_by(_score(adaptation, X, predicted), strata)
    order = review_order(labels, np.random.default_rng(seed))[: drawn + n]
    names = [history.digest(int(keys[row])) for row in order]
    sizes = np.bincount(labels, minlength=strata)
    if before is not None and (
        names[:drawn] != [*before.picked] or tuple(sizes.tolist()) != before.sizes
    ):
        raise DataError(
            "A second list must be drawn from the same rows as the first; these are others. Name "
            "the same table, or begin again with --anew."
        )
    picked = dict(zip(names, labels[order].tolist(), strict=True))
    design = ListDesign(seed, tuple(sizes.tolist()), picked, before.files if before else ())
    stands_for = (sizes / np.maximum(np.bincount(labels[order], minlength=strata), 1))[labels]
    new = order[drawn:]
    return new, stands_for[new], replace(history, design=design)


def _score(adaptation: Adaptation, X: Array, predicted: Array | None) -> Array:
    """One number a row that sorts rows by their prediction.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    predicted : array of shape (rows,) or None
    """
    output = output_before(adaptation, X, predicted)
    if output.ndim == 1:
        return output
    return output[:, 1] if output.shape[1] == 2 else output.max(axis=1)


def expected_intervals(
    adaptation: Adaptation, last: Update | None, sizes: Collection[int]
) -> list[dict[str, float]]:
    """The interval of the loss, as people read it: promised, now, and with more outcomes.

    Parameters
    ----------
    adaptation : Adaptation
    last : Update or None
        The last one.
    sizes : collection of int
        Outcomes, with those that are in; fewer than these are left out.
    """
    promise = adaptation.promise
    if promise is None:
        return []
    known, lost, found = 0, 1.0, []
    spans = {0: (promise.risk, promise.lower, promise.upper)}
    if last is not None:
        known, lost = last.n_rows, last.effective_rows / last.n_rows
        spans[known] = last.risk.after
    for n in sorted(n for n in sizes if n > known):
        spans[n] = expected_interval(adaptation, n * lost, last)
    for n, three in spans.items():
        estimate, lower, upper = (in_units(adaptation.plan, value) for value in three)
        found.append({"outcomes": n, "estimate": estimate, "lower": lower, "upper": upper})
    return found


# What the outcomes change -------------------------------------------------------------------


def _one_per_row(n_rows: int, **given: NDArray[Any] | None) -> None:
    """Raise a `DataError` unless all that is given has one value per row."""
    for name, each in given.items():
        if each is not None and each.shape != (n_rows,):
            many = " by ".join(map(str, each.shape))
            raise DataError(
                f"There must be one of {name} for each of the {n_rows} rows; there are {many}. "
                "Give them in the same order."
            )


def bring_in(
    adaptation: Adaptation,
    X: Array,
    y: NDArray[Any],
    *,
    keys: Array | None = None,
    history: History | None = None,
    anew: bool = False,
    loss: Loss | None = None,
    predicted: Array | None = None,
) -> History:
    """Bring all outcomes so far into the answer: the history's `last` says what they change.

    Parameters
    ----------
    adaptation : Adaptation
        The answer before any outcome.
    X : array of shape (rows, features)
        Rows of the target.
    y : array of shape (rows,)
        Their outcomes: numbers or labels.
    keys : array of shape (rows,), optional
        Whole numbers that stand for the rows' ids, each once. Without them nobody can tell which
        outcomes are new.
    history : History, optional
        Of this result.
    anew : bool
        Forget its updates, but not its lists.
    loss : function, optional
        Needed only if the study used a loss of its own.
    predicted : array of shape (rows,), optional
        Needed only if the study judged a column of predictions.
    """
    history = History() if history is None else history
    history = replace(history, seen={}, last=None) if anew else history
    _one_per_row(len(X), y=y, ids=keys)
    names = None if keys is None else [history.digest(int(key)) for key in keys]
    order = _in_order_of_arrival(len(X), names, y, history)
    X, y = X[order], y[order]
    predicted = None if predicted is None else predicted[order]
    names = None if names is None else [names[place] for place in order]
    weights, findings = _weighed(adaptation, X, names, history)
    findings += _strange(adaptation, X, y, predicted)
    looks = () if history.last is None else history.last.path
    found = update(
        adaptation,
        X,
        y,
        row_weights=weights,
        earlier=[look for look in looks if look.n_rows < len(X)],
        loss=loss,
        predicted=predicted,
    )
    codes = {finding.code for finding in (*findings, *found.findings)}
    far, same = "outcomes-far" in codes, "outcomes-same" in codes and not adaptation.plan.classes
    unit = "outcome-unit" in codes
    slips = far or unit or same or len(y) < FEWEST_TO_CORRECT
    if found.correction is not None and slips:
        why = OTHER_UNIT if unit else FAR_OUTCOMES if far else TOO_FEW_TO_CORRECT
        found = replace(found, correction=None, gain=None, expected_gain=None, why_same_model=why)
    rows = labelled_rows(adaptation, X, y, weights, predicted)
    found = with_intervals(found, adaptation, rows, widen=not slips)
    seen = {} if names is None else {
        name: history.digest(name, value) for name, value in zip(names, y.tolist(), strict=True)
    }  # fmt: skip
    return replace(history, seen=seen, last=replace(found, findings=(*found.findings, *findings)))


def _in_order_of_arrival(
    n: int, names: list[str] | None, y: NDArray[Any], history: History
) -> Labels:
    """Positions of the rows, those of earlier updates first; or what is wrong with them.

    Parameters
    ----------
    n : int
        Rows.
    names : list of str or None
        Digests of their ids.
    y : array of shape (rows,)
    history : History
    """
    if names is None or not history.seen:
        before = 0 if history.last is None else history.last.n_rows
        if n < before:
            raise _left_out(before - n)
        return np.arange(n)
    missing = len(set(history.seen) - set(names))
    if missing:
        raise _left_out(missing)
    values = y.tolist()
    other = np.array(
        [
            name in history.seen and history.seen[name] != history.digest(name, value)
            for name, value in zip(names, values, strict=True)
        ]
    )
    if other.any():
        raise DataError(
            f"{int(other.sum())} outcome(s) contradict those of an earlier update. See "
            f"{numbered_rows(other)} of the outcomes. Correct the table; if the earlier ones were "
            "wrong, begin again with --anew (in Python, anew=True)."
        )
    arrival = {name: place for place, name in enumerate(history.seen)}
    return np.argsort([arrival.get(name, n) for name in names], kind="stable")


def _left_out(missing: int) -> DataError:
    return DataError(
        f"{missing} outcome(s) of an earlier update are missing. Every update needs all outcomes "
        "so far: give the earlier tables as well, or begin again with --anew (in Python, "
        "anew=True)."
    )


def _weighed(
    adaptation: Adaptation, X: Array, names: list[str] | None, history: History
) -> tuple[Array | None, tuple[Finding, ...]]:
    """Weights of the rows, None if all are equal; and what they had to make good.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    names : list of str or None
        Digests of their ids.
    history : History
    """
    weights, findings = _by_design(len(X), names, history.design)
    z = (X - adaptation.table.mean) / adaptation.table.sd
    found = selection_of(z, weights, adaptation.table)
    if found.differs.any():
        features = _named(found, adaptation.plan.features)
        weights = balanced_weights(z, weights)
        effective = 1.0 / float(weights @ weights)
        left = selection_of(z, weights, adaptation.table).imbalance
        if effective < MIN_EFFECTIVE_ROWS or left > MAX_IMBALANCE:
            raise DataError(
                f"The {len(X)} rows with outcomes cannot stand for the target's: they differ in "
                f"{', '.join(features)}, and no weights repair that. The promise stays as it is. "
                "Follow up rows that are drawn at random: fedcsa followup RESULT ROWS"
            )
        evidence = {**features, "effective rows": effective, "of": float(len(X))}
        findings += (Finding("outcomes-selective", evidence=evidence),)
    equal = bool(np.allclose(weights, 1.0 / len(weights), rtol=1e-12, atol=0.0))
    return (None if equal else weights), findings


def _by_design(
    n: int, names: list[str] | None, design: ListDesign | None
) -> tuple[Array, tuple[Finding, ...]]:
    """Weights by the list's design, if all outcomes are of rows on the list.

    Parameters
    ----------
    n : int
        Rows with outcomes.
    names : list of str or None
        Digests of their ids.
    design : ListDesign or None
    """
    equal = np.full(n, 1.0 / n)
    if design is None or names is None:
        return equal, ()
    beyond = sum(name not in design.picked for name in names)
    if beyond:
        evidence = {"not on the list": float(beyond), "of": float(n)}
        return equal, (Finding("beyond-list", evidence=evidence),)
    labels = np.array([design.picked[name] for name in names], dtype=np.intp)
    findings: tuple[Finding, ...] = ()
    if n < len(design.picked):
        evidence = {"outcomes": float(n), "of": float(len(design.picked))}
        findings = (Finding("answers-missing", evidence=evidence),)
    return design_weights(labels, np.array(design.sizes, dtype=np.intp)), findings


def _named(found: Selection, features: tuple[str, ...]) -> dict[str, float]:
    """The features that differ most, with their differences.

    Parameters
    ----------
    found : Selection
    features : tuple of str
    """
    differs = np.flatnonzero(found.differs)
    most = differs[np.argsort(-np.abs(found.differences[differs]))][:MOST_DIFFERING]
    return {features[place]: float(found.differences[place]) for place in most}


def _strange(
    adaptation: Adaptation, X: Array, y: NDArray[Any], predicted: Array | None
) -> tuple[Finding, ...]:
    """Whether outcomes look as if in another unit than the sources', or single ones far off.

    Parameters
    ----------
    adaptation : Adaptation
    X : array of shape (rows, features)
    y : array of shape (rows,)
    predicted : array of shape (rows,) or None
    """
    if adaptation.plan.classes or not np.issubdtype(np.asarray(y).dtype, np.number):
        return ()
    output, risk = output_before(adaptation, X, predicted), adaptation.target_risk
    error = max(risk, 0.0) if adaptation.plan.loss == "squared" else risk**2
    expected = np.array([output.mean()]), np.array([np.sqrt(output.var() + error)])
    own = np.array([y.mean()]), np.array([y.std()])
    found, columns = [], adaptation.columns
    name = "" if columns is None or columns.outcome is None else columns.outcome.name
    for item in other_units([name], [False], len(y), own, expected):
        # Without a name that speaks for it, a unit would be a guess by the factor alone.
        looks = item.beside("the sources'", units=CONVERSIONS[item.conversion].is_named_by(name))
        found.append(Finding("outcome-unit", evidence={"looks": looks}))
    off = np.abs(y - output)
    usual = float(np.median(off)) if len(off) >= FEWEST_TO_CORRECT else 0.0
    far = int((off > FAR_OFF * max(error**0.5, usual)).sum())
    if far:
        evidence = {"outcomes": float(far), "of": float(len(y))}
        found.append(Finding("outcomes-far", evidence=evidence))
    return tuple(found)
