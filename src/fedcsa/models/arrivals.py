"""Models that came from another site: opened, and bound to what was agreed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedcsa.core.arrays import Array
from fedcsa.models.allowed import check_agreed
from fedcsa.models.convert import agreed_grid
from fedcsa.models.portable import Arrays, Form, PortableModel, open_model


def open_agreed(
    form: Form,
    arrays: Arrays,
    description: Mapping[str, Any],
    candidate: Mapping[str, Any],
    sd: Array,
    *,
    scale: bool,
    n_classes: int,
) -> PortableModel:
    """The model of a message, if it is sound and the one that was agreed; else a `ModelError`.

    Parameters
    ----------
    form : mapping
    arrays : mapping of str to array
    description : mapping
        Of the study's model, in plain values.
    candidate : mapping
        The chosen one, in plain values.
    sd : array of shape (features,)
        The target's standard deviations, from which the agreed grid follows.
    scale : bool
        Whether models see features in units of the target's sds.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    """
    model = open_model(form, arrays, len(sd), n_classes)
    grid = agreed_grid(sd, scale=scale)
    check_agreed(form, arrays, description, candidate, len(sd), n_classes, grid)
    return model
