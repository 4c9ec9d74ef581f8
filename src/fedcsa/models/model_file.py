"""A given model as a file: JSON with the words and numbers of one of our formats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcsa.errors import ModelError
from fedcsa.models.portable import PortableModel, open_model
from fedcsa.models.sound import thawed

#: Of the file; another one is refused.
MODEL_FORMAT = 1
#: Larger files are no models that could travel.
_MOST_BYTES = 1 << 28
_KINDS = {"f": np.float64, "i": np.int32}


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
        "form": thawed(told.model.form),
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
        arrays = {str(name): _array(told) for name, told in content["arrays"].items()}
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
            f"{path.name!r} is no model of ours. Make one with: fedcsa convert MODEL --out FILE"
        )
    return content


def _array(told: dict[str, Any]) -> np.ndarray[Any, Any]:
    """An array out of its kind, shape and values."""
    return np.array(told["values"], dtype=_KINDS[told["kind"]]).reshape(told["shape"])
