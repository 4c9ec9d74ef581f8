"""A given model: a formula, or a file with converted trees in our formats; bound by a digest.

A formula is a sum of terms, and a link that turns it into a prediction:

    prediction = link⁻¹(intercept + Σ coefficient · transform(column))

A points score is a formula whose terms give points for bands; a table turns its total into a risk.
Nothing is evaluated: a term has a column, numbers, and transforms from a short list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array, logit
from fedcsa.errors import ModelError, unknown
from fedcsa.models.description import thaw
from fedcsa.models.formats import FORMATS, open_model
from fedcsa.models.linear_format import DesignModel, LinearModel
from fedcsa.models.portable import PortableModel
from fedcsa.models.steps import MAX_DEGREE, Part, Steps

#: Links as a formula names them, and as our formats do.
FORMULA_LINKS = {"identity": "identity", "logit": "logistic", "log": "log"}
#: Terms of a formula: more than any published score has.
MAX_TERMS = 200
#: A total is compared with a bound after as much, in shares of it, is taken off: sums of decimals
#: such as 0.1 + 0.2 miss their value by rounding, and points differ by far more.
TOTAL_SLACK = 1e-9
#: Takes the place of a cap that is not there: no column has larger values.
_LARGEST = 1e30
#: Of the file; another one is refused.
MODEL_FORMAT = 1
#: Larger files are no models that could travel.
_MOST_BYTES = 1 << 28
_KINDS = {"f": np.float64, "i": np.int32}


@dataclass(frozen=True)
class Term:
    """One term of a formula: a coefficient times a transform of a column, or points for its bands.

    The transforms follow in this order: cap, plus, log, power.

    Attributes
    ----------
    column : str
        A column of the study; a level is ``column=level``.
    coefficient : float
    low, high : float or None
        Smaller and larger values count as these.
    plus : float
        Is added.
    log : bool
        Whether the natural logarithm is taken.
    power : int
    bounds : tuple of float
        Where bands begin, rising; below the first there are no points.
    points : tuple of float
        Of every band.
    """

    column: str
    coefficient: float = 1.0
    low: float | None = None
    high: float | None = None
    plus: float = 0.0
    log: bool = False
    power: int = 1
    bounds: tuple[float, ...] = ()
    points: tuple[float, ...] = ()

    @property
    def is_line(self) -> bool:
        """Whether it is a coefficient times the column as it is."""
        return self == Term(self.column, self.coefficient)

    @property
    def weights(self) -> list[float]:
        """Coefficients of the columns that it makes: of a band, the points that it adds."""
        if self.bounds:
            return [float(w) for w in np.diff(self.points, prepend=0.0)]
        return [self.coefficient]


@dataclass(frozen=True)
class Formula:
    """A published model as it is typed in.

    Attributes
    ----------
    terms : tuple of Term
    intercept : float
    link : {"identity", "logit", "log"}
    totals, risks : tuple of float
        Instead of a link: the risk from every total on; the first also holds below.
    title, source : str
        What it is called, and where it was published.
    """

    terms: tuple[Term, ...]
    intercept: float = 0.0
    link: str = "identity"
    totals: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()
    title: str = ""
    source: str = ""

    def model(self, features: Sequence[str], n_classes: int) -> PortableModel:
        """The model of the study's columns, or a `ModelError`.

        Parameters
        ----------
        features : sequence of str
            The study's columns.
        n_classes : int
            Of the study's outcome; 0 for numbers.
        """
        self._check(features, n_classes)
        columns = [list(features).index(term.column) for term in self.terms]
        link = "logistic" if self.risks else FORMULA_LINKS[self.link]
        lines = all(term.is_line for term in self.terms) and not self.risks
        if lines:
            slopes = np.zeros(len(features))
            np.add.at(slopes, columns, [term.coefficient for term in self.terms])
            if link != "log":
                return LinearModel(slopes, self.intercept, link)
            return DesignModel(slopes[None], np.array([self.intercept]), link)
        steps = _steps_of_terms(self.terms, columns)
        weights = np.array([[w for term in self.terms for w in term.weights]])
        intercept = self.intercept
        if self.risks:
            steps, weights, intercept = self._of_total(steps, weights)
        classes = (0, 1) if n_classes else ()
        return DesignModel(weights, np.array([intercept]), link, steps, classes, n_classes)

    def _of_total(self, steps: Steps, weights: Array) -> tuple[Steps, Array, float]:
        """Bands of the total in place of the total: their log-odds.

        Parameters
        ----------
        steps : Steps
            That make the terms.
        weights : array of shape (1, columns)
        """
        odds = logit(np.array(self.risks))
        everything = tuple(range(weights.shape[1]))
        steps = (*steps, (Part("sum", everything, {}, {"weights": weights}),))
        if len(odds) == 1:
            return steps, np.zeros((1, 1)), float(odds[0])
        bounds = np.array(self.totals[1:]) - self.intercept
        bounds = bounds - TOTAL_SLACK * np.maximum(1.0, np.abs(bounds))
        steps = (*steps, (Part("bands", (0,), {}, {"bounds": bounds}),))
        return steps, np.diff(odds)[None], float(odds[0])

    def _check(self, features: Sequence[str], n_classes: int) -> None:
        """Raise a `ModelError`, a line a problem, unless it suits the study.

        Parameters
        ----------
        features : sequence of str
        n_classes : int
        """
        strange = dict.fromkeys(t.column for t in self.terms if t.column not in features)
        problems = [f"In the formula: {unknown('column', n, features)}" for n in strange]
        if not 1 <= len(self.terms) <= MAX_TERMS:
            problems.append(f"A formula must have 1 to {MAX_TERMS} terms.")
        probability = bool(self.risks) or self.link == "logit"
        if n_classes > 2:
            problems.append(
                f"A formula predicts a number or one of two classes; the outcome has {n_classes}. "
                "Declare two, or give the model as converted trees."
            )
        elif probability != (n_classes == 2):
            wanted = "link = 'logit' or a table of risks" if n_classes else "'identity' or 'log'"
            problems.append(f"The formula's link does not suit the study's outcome: use {wanted}.")
        if problems:
            raise ModelError("\n".join(problems))


def _steps_of_terms(terms: Sequence[Term], columns: Sequence[int]) -> Steps:
    """Steps that make the columns of all terms, one after the other.

    Parameters
    ----------
    terms : sequence of Term
    columns : sequence of int
        Of every term.
    """
    steps: list[tuple[Part, ...]] = [tuple(Part("keep", (column,)) for column in columns)]
    for kind, numbers in _TRANSFORMS.items():
        made = [numbers(term) for term in terms]
        if any(arrays is not None for arrays in made):
            steps.append(
                tuple(
                    Part("keep", (k,)) if arrays is None else Part(kind, (k,), {}, arrays)
                    for k, arrays in enumerate(made)
                )
            )
    return tuple(steps)


def _one(value: float) -> Array:
    return np.array([value], dtype=np.float64)


def _caps(term: Term) -> dict[str, Array] | None:
    if term.low is None and term.high is None:
        return None
    low = -_LARGEST if term.low is None else term.low
    return {"low": _one(low), "high": _one(_LARGEST if term.high is None else term.high)}


#: Step of a format -> its arrays for a term, None where the term does without; in their order.
_TRANSFORMS: Mapping[str, Any] = {
    "clip": _caps,
    "affine": lambda t: {"shift": _one(-t.plus), "scale": _one(1.0)} if t.plus else None,
    "log": lambda t: {} if t.log else None,
    "powers": lambda t: (
        {"powers": np.array([[t.power]], np.int32)} if t.power != 1 else None
    ),
    "bands": lambda t: {"bounds": np.array(t.bounds, np.float64)} if t.bounds else None,
}  # fmt: skip
#: The largest power of a term.
MAX_POWER = MAX_DEGREE


def model_digest(model: PortableModel) -> str:
    """SHA-256 of all words and numbers of a model: what the sites agree on.

    Examples
    --------
    >>> model_digest(LinearModel(np.ones(2), 0.0))[:12]
    'bda214c76f88'
    """
    sha256 = hashlib.sha256()
    sha256.update(json.dumps(thaw(model.form), sort_keys=True).encode())
    for name, array in sorted(model.arrays.items()):
        sha256.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()


def places_of(own: Sequence[str], features: Sequence[str]) -> tuple[int, ...]:
    """Where a study has the columns of a given model, or a `ModelError`.

    Parameters
    ----------
    own : sequence of str
    features : sequence of str
        The study's.
    """
    strange = [name for name in own if name not in features]
    if strange:
        lines = [f"In the given model: {unknown('column', n, features)}" for n in strange]
        raise ModelError("\n".join(lines))
    return tuple(list(features).index(name) for name in own)


def for_columns(model: PortableModel, own: Sequence[str], features: Sequence[str]) -> PortableModel:
    """The same model for the columns of a study, of which it may use some.

    Parameters
    ----------
    model : PortableModel
    own : sequence of str
        Names of its columns.
    features : sequence of str
        The study's.
    """
    places = list(places_of(own, features))
    if list(own) == list(features):
        return model
    kind = str(model.form["kind"])
    placed = FORMATS[kind].placed
    if placed is None:
        raise ModelError(
            f"A given model in the format {kind!r} must have the study's columns in their order. "
            "Name the study's features as the model does."
        )
    return placed(model, places, len(features))


# A file: JSON with the words and numbers of one of our formats --------------------------------


@dataclass(frozen=True)
class FileModel:
    """A model and the columns that it looks at.

    Attributes
    ----------
    model : PortableModel
    columns : tuple of str
        In its order.
    n_classes : int
        Of the outcome; 0 for numbers.
    """

    model: PortableModel
    columns: tuple[str, ...]
    n_classes: int


def write_model(path: str | Path, told: FileModel) -> None:
    """Write a model.

    Parameters
    ----------
    path : path
    told : FileModel
    """
    content = {
        "fedcsa model": MODEL_FORMAT,
        "columns": list(told.columns),
        "classes": told.n_classes,
        "form": thaw(told.model.form),
        "arrays": {
            name: {"kind": array.dtype.kind, "shape": array.shape, "values": array.ravel().tolist()}
            for name, array in told.model.arrays.items()
        },
    }
    try:
        Path(path).write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ModelError(
            f"The file {str(path)!r} cannot be written ({type(error).__name__}). Choose another."
        ) from None


def read_file_model(path: str | Path) -> FileModel:
    """Read a model that `write_model` wrote, every index, length and value checked."""
    path = Path(path)
    content = _content(path)
    try:
        columns, n_classes = tuple(content["columns"]), content["classes"]
        arrays = {
            str(name): np.array(a["values"], dtype=_KINDS[a["kind"]]).reshape(a["shape"])
            for name, a in content["arrays"].items()
        }
        sound = all(isinstance(name, str) for name in columns) and len(set(columns)) == len(columns)
        sound = sound and type(n_classes) is int and 0 <= n_classes != 1
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        sound = False
    if not sound:
        raise ModelError(f"The model {path.name!r} is damaged. Convert it again.")
    model = open_model(content.get("form", {}), arrays, len(columns), n_classes)
    return FileModel(model, columns, n_classes)


def _content(path: Path) -> dict[str, Any]:
    """What the file says, if it is a model of ours."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ModelError(f"The model {path.name!r} is too large. Use fewer trees.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(
            f"The model {str(path)!r} cannot be read ({type(error).__name__}). Check the path."
        ) from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("fedcsa model") != MODEL_FORMAT:
        raise ModelError(
            f"{path.name!r} is no converted model. Make one with: fedcsa convert MODEL --out FILE"
        )
    return content
