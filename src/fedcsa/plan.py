"""The design of a study, as agreed by all sites before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.folds import SCHEMES, THIRDS, check_shares
from fedcsa.core.losses import CLASSIFICATION, REGRESSION, loss_named
from fedcsa.core.weights import WEIGHT_RULES
from fedcsa.errors import DataError, ParameterError, must, one_of, unknown
from fedcsa.models.model import Model
from fedcsa.models.registry import build_candidates, build_model

EXCHANGES = ("table", "rows")
COMBINATIONS = ("mean", "median")
#: Losses that a study may name beside the built-in ones, given to every source beforehand.
LossFunctions = Mapping[str, Callable[[Array, Array], Array]]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_numbers(value: Any) -> bool:
    many = isinstance(value, Sequence) and not isinstance(value, str)
    return value is None or (many and all(map(_is_number, value)))


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


_NUMBER = ("a number", _is_number)
_OPTIONAL = ("a number", _is_number_or_none)
_ONE_OR_MORE = ("a number or a list of numbers", lambda v: _is_number(v) or _are_numbers(v))
_TEXT = ("a text", _is_text)
#: exchange -> option -> (what it must be, test)
_RATIO_OPTIONS: Mapping[str, Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "table": {},
    "rows": {
        "bandwidths": _ONE_OR_MORE,
        "regularizations": _ONE_OR_MORE,
        "n_centres": _NUMBER,
        "nonnegative": _TEXT,
        "alpha": _NUMBER,
        "score_rows": _OPTIONAL,
    },
}


@dataclass(frozen=True)
class Plan:
    """Everything that a study fixes besides the data.

    Attributes
    ----------
    features : tuple of str
    model : mapping
        Description of the model, as `fedcsa.models.registry.model_description` makes it.
    candidates : tuple of mapping
    study : str
        A name.
    classes : tuple
        Labels of a classifier's outcome in the agreed order; empty for a number.
    loss : str
        A known loss, or the name of a function that every source has been given.
    method : {"validated", "naive", "fediwe", "feddae", "fedle"}
    compare : tuple of str
        Methods of the paper to estimate from the same messages, for comparison.
    fedle_weights : mapping of str to float, optional
        Weight of every source, by name, for ``"fedle"``; beside another method it is compared.
    exchange : {"table", "rows"}
        What the target announces: its Table 1, or, as in the paper, its rows.
    scheme : {"cross-fit", "split", "rotate"}, optional
        Who sees which rows, see `fedcsa.core.folds.turns`. By default ``"cross-fit"`` with
        a table and the paper's ``"split"`` with rows.
    folds : int or three shares, optional
        Number of folds of ``"cross-fit"`` (default 5), or shares of the density, train and
        validation folds of ``"split"`` (default 3: equal).
    refit : bool, optional
        Send models fitted on all rows. By default so except under ``"split"``.
    scale : bool
        Standardise features by the target's means and sds.
    ratio : mapping
        Options of the density ratio.
    combine : {"mean", "median"}
        How the sources' predictions become one; the median withstands a lying source.
    on_no_overlap : {"refuse", "predict"}
    level : float
        Of the interval.
    seed : int
    flags : tuple of bool
        Which features are zeros and ones; by default none.
    group : str
        The column that says which rows are of one patient; ``""`` if there is none.
    public_sd : array of shape (features,), optional
        Agreed sd of every feature, NaN where there is none, see `fedcsa.Table1`.
    """

    features: tuple[str, ...]
    model: Mapping[str, Any]
    candidates: tuple[Mapping[str, Any], ...]
    study: str = "study"
    classes: tuple[Any, ...] = ()
    loss: str = "squared"
    method: str = "validated"
    compare: tuple[str, ...] = ()
    fedle_weights: Mapping[str, float] | None = None
    exchange: str = "table"
    scheme: str | None = None
    folds: int | tuple[float, float, float] | None = None
    refit: bool | None = None
    scale: bool = True
    ratio: Mapping[str, Any] = field(default_factory=dict)
    combine: str = "mean"
    on_no_overlap: str = "refuse"
    level: float = 0.95
    seed: int = 0
    flags: tuple[bool, ...] = ()
    group: str = ""
    public_sd: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _one_of("method", self.method, ("validated", *WEIGHT_RULES))
        if self.fedle_weights is not None:
            _check_weights(self.fedle_weights)
        elif self.method == "fedle":
            raise must("fedle_weights", "given if method is 'fedle'", None)
        if not isinstance(self.loss, str) or not isinstance(self.study, str):
            raise must("loss", "a name, like the study's", type(self.loss).__name__)
        _one_of("exchange", self.exchange, EXCHANGES)
        _one_of("combine", self.combine, COMBINATIONS)
        _one_of("on_no_overlap", self.on_no_overlap, ("refuse", "predict"))
        if not _is_number(self.level):
            raise must("level", "a number between 0 and 1", type(self.level).__name__)
        if not 0.0 < self.level < 1.0:
            raise must("level", "between 0 and 1", self.level)
        self._settle_folds()
        if self.method == "validated" and (self.scheme, self.exchange) != ("cross-fit", "table"):
            raise ParameterError(
                "The default method must have exchange='table' and scheme='cross-fit'; for "
                "another, name a method of the paper: 'naive', 'fediwe', 'feddae' or 'fedle'."
            )
        object.__setattr__(self, "flags", self.flags or (False,) * len(self.features))
        if len(self.flags) != len(self.features):
            raise must("flags", "one true or false per feature", len(self.flags))
        if self.group in self.features:
            raise must("group", "a column that is not a feature", self.group)
        self._settle_compare()
        _check_ratio(self.ratio, self.exchange)
        if not 0 <= self.seed < 2**63:
            raise must("seed", "a whole number from 0 up", self.seed)

    def _settle_compare(self) -> None:
        given: object = self.compare
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise must("compare", "a list of methods of the paper", type(given).__name__)
        for method in self.compare:
            _one_of("compare", method, list(WEIGHT_RULES))
        if "fedle" in self.compare and self.fedle_weights is None:
            raise must("fedle_weights", "given if 'fedle' is compared", None)
        object.__setattr__(self, "compare", tuple(self.compare))

    @property
    def compared(self) -> tuple[str, ...]:
        """Methods of the paper that are estimated, the study's own among them."""
        own = () if self.method == "validated" else (self.method,)
        given = ("fedle",) if self.fedle_weights is not None else ()
        return tuple(dict.fromkeys((*own, *self.compare, *given)))

    def _settle_folds(self) -> None:
        """Fill in what was left open, so that a plan says everything."""
        scheme = self.scheme or ("cross-fit" if self.exchange == "table" else "split")
        _one_of("scheme", scheme, SCHEMES)
        folds = self.folds
        whole = isinstance(folds, int) and not isinstance(folds, bool)
        if scheme == "cross-fit":
            folds = 5 if folds is None else folds
            if not isinstance(folds, int) or isinstance(folds, bool) or folds < 2:
                raise must("folds", "a whole number of at least 2 for cross-fitting", folds)
        elif folds is None or (whole and folds == 3):
            folds = 3
        elif whole or scheme == "rotate":
            allowed = "3" if scheme == "rotate" else "3, or three positive shares that sum to 1"
            raise must("folds", f"{allowed} with scheme {scheme!r}", folds)
        else:
            folds = check_shares(folds)  # type: ignore[arg-type]
        refit = scheme != "split" if self.refit is None else self.refit
        if scheme != "split" and not refit:
            raise must(
                "refit", f"on with scheme {scheme!r}: no single fold's model stands out", refit
            )
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "folds", folds)
        object.__setattr__(self, "refit", refit)

    def design(self) -> dict[str, Any]:
        """What a brief says of the study, beside the target's table."""
        return {
            "study": self.study,
            "features": list(self.features),
            "flags": list(self.flags),
            "group": self.group,
            "classes": list(self.classes),
            "model": self.model,
            "candidates": list(self.candidates),
            "loss": self.loss,
            "scheme": str(self.scheme),
            "n_folds": self.n_folds,
            "shares": np.array(self.shares),
            "refit": bool(self.refit),
            "scale": self.scale,
            "moments": bool(self.compared),
            "seed": self.seed,
            "exchange": self.exchange,
            "ratio": dict(self.ratio),
        }

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return self.folds if isinstance(self.folds, int) else 3

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the density, train and validation folds."""
        return self.folds if isinstance(self.folds, tuple) else THIRDS


def check_loss(loss: str, n_classes: int, own: Collection[str] = ()) -> None:
    """Raise unless `loss` judges the kind of outcome at hand."""
    if loss in own:
        return
    loss_named(loss)
    fitting = CLASSIFICATION if n_classes else REGRESSION
    if loss not in fitting:
        kind = "classes" if n_classes else "numbers"
        raise one_of("loss", sorted(fitting), loss, f" for an outcome of {kind}")


def instantiate(
    description: Mapping[str, Any],
    candidates: Sequence[Mapping[str, Any]],
    n_classes: int,
    trusted: Collection[str],
) -> tuple[Model, list[dict[str, Any]]]:
    """The model and the candidates that a plan or a brief describes."""
    return (
        build_model(description, n_classes, trusted),
        build_candidates(candidates, trusted),
    )


def encode_classes(y: Any, classes: Sequence[Any], where: str) -> Array:
    """Codes 0…K−1 of the labels in `y`, in the order of `classes`.

    >>> encode_classes(["no", "yes", "no"], ("no", "yes"), "y")
    array([0., 1., 0.])
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{where} must be one column; its shape is {labels.shape}.")
    codes = np.full(len(labels), -1.0)
    for code, label in enumerate(classes):
        codes[labels == label] = code
    strangers = int((codes < 0).sum())
    if strangers:
        raise DataError(
            f"{where} must hold only the {len(classes)} agreed classes; "
            f"{strangers} of its {len(labels)} rows hold something else."
        )
    return codes


def check_weights_of(weights: Mapping[str, float] | None, sources: Collection[str]) -> None:
    """Raise unless FedLE's weights, if given, name every source."""
    missing = [] if weights is None else [name for name in sorted(sources) if name not in weights]
    if missing:
        raise must("fedle_weights", "one weight for every source", f"none for {missing[0]!r}")


def _check_weights(weights: Any) -> None:
    rule = "one weight ≥ 0 per source, not all zero, as a mapping of names to finite numbers"
    if not isinstance(weights, Mapping):
        raise must("fedle_weights", rule, type(weights).__name__)
    given = [*weights.values()]
    if not all(_is_number(weight) and 0.0 <= weight < math.inf for weight in given):
        raise must("fedle_weights", rule, "another value")
    if not any(given):
        raise must("fedle_weights", rule, "no weight at all")


def _check_ratio(ratio: Any, exchange: str) -> None:
    """Raise unless every option exists and is of its kind; ranges are checked where it is used."""
    if not isinstance(ratio, Mapping):
        raise must("ratio", "a mapping of options to values", type(ratio).__name__)
    if ratio and not _RATIO_OPTIONS[exchange]:
        raise must("ratio", "left out unless exchange is 'rows'", sorted(ratio))
    for key, value in ratio.items():
        if key not in _RATIO_OPTIONS[exchange]:
            what = f"option of the ratio with exchange {exchange!r}"
            raise ParameterError(unknown(what, str(key), _RATIO_OPTIONS[exchange]))
        rule, is_sound = _RATIO_OPTIONS[exchange][key]
        if not is_sound(value):
            raise must(f"ratio[{key!r}]", rule, type(value).__name__)


def _one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise one_of(name, allowed, value)
