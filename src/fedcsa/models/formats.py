"""The formats in which models travel: all that is asked of one goes through `FORMATS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcsa.models.chosen import sklearn_name
from fedcsa.models.description import damaged
from fedcsa.models.linear_format import DESIGN_FORMAT, LINE_FORMAT
from fedcsa.models.portable import Arrays, Form, Format, PortableModel
from fedcsa.models.tree_format import TREE_FORMAT

#: Kind of a form -> its format. To add one: docs/extend.md.
FORMATS: dict[str, Format] = {
    "linear": LINE_FORMAT, "design": DESIGN_FORMAT, "trees": TREE_FORMAT
}  # fmt: skip


def format_of(estimator: Any) -> Format | None:
    """The first format that carries an estimator of scikit-learn's; None if none does."""
    name = sklearn_name(estimator)
    return next((own for own in FORMATS.values() if name in [*own.estimators]), None)


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
    >>> from fedcsa.models.linear_format import LinearModel
    >>> line = LinearModel(np.ones(2), 0.0)
    >>> open_model(line.form, line.arrays, n_features=2, n_classes=0)
    LinearModel(2 coefficients, link='identity')
    """
    kind = form.get("kind") if isinstance(form, Mapping) else None
    if not (isinstance(kind, str) and kind in FORMATS and isinstance(arrays, Mapping)):
        raise damaged(f"one of the formats {', '.join(sorted(FORMATS))}")
    return FORMATS[kind].opened(form, arrays, n_features, n_classes)
