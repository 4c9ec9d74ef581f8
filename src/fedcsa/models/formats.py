"""The formats in which models travel."""

from __future__ import annotations

from collections.abc import Mapping

from fedcsa.models.description import damaged
from fedcsa.models.linear_format import DesignModel, LinearModel
from fedcsa.models.portable import Arrays, Form, PortableModel
from fedcsa.models.tree_format import TreeModel

_KINDS: Mapping[str, type[LinearModel | DesignModel | TreeModel]] = {
    "linear": LinearModel, "design": DesignModel, "trees": TreeModel
}  # fmt: skip


def open_model(form: Form, arrays: Arrays, n_features: int, n_classes: int) -> PortableModel:
    """The model of a message, after every index, length, type and value has been checked.

    Parameters
    ----------
    form : mapping
        Words, as `PortableModel.form` gives them.
    arrays : mapping of str to array
        Numbers, as `PortableModel.arrays` gives them.
    n_features : int
        Of the study.
    n_classes : int
        Of the study's outcome; 0 for numbers.

    Raises
    ------
    ModelError
        Whatever is wrong with them; no value is quoted.

    Examples
    --------
    >>> import numpy as np
    >>> line = LinearModel(np.ones(2), 0.0)
    >>> open_model(line.form, line.arrays, n_features=2, n_classes=0)
    LinearModel(2 coefficients, link='identity')
    """
    kind = form.get("kind") if isinstance(form, Mapping) else None
    known = isinstance(kind, str) and kind in _KINDS and isinstance(arrays, Mapping)
    if not known:
        raise damaged(f"one of the formats {', '.join(sorted(_KINDS))}")
    return _KINDS[kind].opened(form, arrays, n_features, n_classes)  # type: ignore[index]
