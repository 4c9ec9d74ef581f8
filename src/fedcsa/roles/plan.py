"""The design of a study, as agreed by all sites before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.folds import check_shares
from fedcsa.core.losses import CLASSIFICATION, REGRESSION, loss_named
from fedcsa.core.weights import METHODS
from fedcsa.errors import ParameterError, must
from fedcsa.models.base import Model
from fedcsa.models.registry import build_candidates, build_model, unknown

EXCHANGES = ("embedding", "rows")
THIRDS = (1 / 3, 1 / 3, 1 / 3)
_RATIO_OPTIONS = {
    "embedding": ("basis", "n_features", "bandwidth", "regularizations"),
    "rows": ("bandwidths", "regularizations", "n_centres", "nonnegative", "alpha"),
}


@dataclass(frozen=True)
class Plan:
    """Everything that a study fixes besides the data.

    Attributes
    ----------
    study : str
        A name.
    features : tuple of str
    classes : tuple
        Labels of a classifier's outcome in the agreed order; empty for a number.
    model : mapping
        Description of the model, as `fedcsa.models.registry.model_description` makes it.
    candidates : tuple of mapping
    loss : str
        A known loss, or the name of a function that every source has been given.
    method : {"naive", "fediwe", "feddae", "fedle"}
    fedle_weights : mapping of str to float, optional
        Weight of every source, by name, for ``"fedle"``.
    exchange : {"embedding", "rows"}
    shares : three floats
        Of the density, train and validation folds.
    cross_fit, refit, scale : bool
        Rotate the folds; fit the model that is sent on all rows; standardise features by the
        target's means and sds.
    ratio : mapping
        Options of the density ratio.
    seed : int
    public_sd : array of shape (features,), optional
        Agreed scale of every feature, see `fedcsa.MeanEmbedding`.
    """

    features: tuple[str, ...]
    model: Mapping[str, Any]
    candidates: tuple[Mapping[str, Any], ...]
    study: str = "study"
    classes: tuple[Any, ...] = ()
    loss: str = "squared"
    method: str = "feddae"
    fedle_weights: Mapping[str, float] | None = None
    exchange: str = "embedding"
    shares: tuple[float, float, float] = THIRDS
    cross_fit: bool = False
    refit: bool = False
    scale: bool = True
    ratio: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    public_sd: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise must("method", f"one of {list(METHODS)}", self.method)
        if (self.method == "fedle") != (self.fedle_weights is not None):
            raise must("fedle_weights", "given if and only if method is 'fedle'", self.method)
        if self.exchange not in EXCHANGES:
            raise must("exchange", f"one of {list(EXCHANGES)}", self.exchange)
        check_shares(self.shares)
        if self.cross_fit and not self.refit:
            raise must("refit", "on when cross_fit is on: no single fold's model stands out", False)
        for key in self.ratio:
            if key not in _RATIO_OPTIONS[self.exchange]:
                what = f"option of the ratio with exchange {self.exchange!r}"
                raise ParameterError(unknown(what, str(key), _RATIO_OPTIONS[self.exchange]))
        if not 0 <= self.seed < 2**63:
            raise must("seed", "a whole number from 0 up", self.seed)


def check_loss(loss: str, n_classes: int, own: Collection[str] = ()) -> None:
    """Raise unless `loss` judges the kind of outcome at hand."""
    if loss in own:
        return
    loss_named(loss)
    fitting = CLASSIFICATION if n_classes else REGRESSION
    if loss not in fitting:
        kind = "classes" if n_classes else "numbers"
        raise must("loss", f"one of {sorted(fitting)} for an outcome of {kind}", loss)


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


LossFunctions = Mapping[str, Callable[[Array, Array], Array]]


def encode_classes(y: Any, classes: Sequence[Any], where: str) -> Array:
    """Codes 0…K−1 of the labels in `y`, in the order of `classes`.

    >>> encode_classes(["no", "yes", "no"], ("no", "yes"), "y")
    array([0., 1., 0.])
    """
    labels = np.asarray(y).ravel()
    codes = np.full(len(labels), -1.0)
    for code, label in enumerate(classes):
        codes[labels == label] = code
    strangers = int((codes < 0).sum())
    if strangers:
        from fedcsa.errors import DataError

        raise DataError(
            f"{where} must hold only the {len(classes)} agreed classes; "
            f"{strangers} of its {len(labels)} rows hold something else."
        )
    return codes
