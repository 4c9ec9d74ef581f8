"""Opens messages in a process that may die of them: ``python -m fedcsa.site.opening_child``.

::

    in    8 bytes   length of the task, little-endian
          8 bytes   length of the message
          task      JSON: {"max_bytes": …, "features": …, "classes": …, "memory": …, "seconds": …}
          message   as it came from another site
    out   one line of JSON a message: {"ended": "opened"}, "refused" or "memory"

It begins with the line {"ended": "ready"} and ends when nothing more comes in. What it learns of
a message stays here: the process that asked opens it again, once it is known to be harmless.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError, ModelError
from fedcsa.messages.codec import decode
from fedcsa.messages.messages import Examination, ModelReport
from fedcsa.models.portable import Arrays, Form, open_model

try:
    import resource
except ImportError:  # pragma: no cover - Windows, where only the time is limited, from outside
    resource = None  # type: ignore[assignment]

LENGTHS = struct.Struct("<QQ")
#: A message is there as it came, as its arrays, and once more while these are checked.
_COPIES = 3
#: Predicted by every model that comes, in the units of models, where most rows lie within ±3.
_AGREED_ROWS = 64


def agreed_rows(n_features: int) -> Array:
    """Rows on which every received model is tried: the same at every site.

    Parameters
    ----------
    n_features : int

    Returns
    -------
    array of shape (rows, features)
    """
    grid = np.linspace(-3.0, 3.0, _AGREED_ROWS)
    shifts = np.arange(n_features)  # so that features do not move together
    return np.stack([np.roll(grid, shift) for shift in shifts], axis=1)


def open_wholly(payload: bytes, task: dict[str, Any]) -> None:
    """Decode a message, open the models in it, and let them predict the agreed rows."""
    message = decode(payload, task["max_bytes"])
    models: list[tuple[Form, Arrays]] = []
    if isinstance(message, ModelReport):
        models += [(message.form, message.arrays)]
    elif isinstance(message, Examination):
        models += message.members
    for form, arrays in models:
        model = open_model(form, arrays, task["features"], task["classes"])
        try:
            model.predict(agreed_rows(task["features"]))
        except (FedCSAError, MemoryError):
            raise
        except Exception as error:  # whether it can predict the rows of a site is seen there
            raise ModelError(type(error).__name__) from None


def limit(task: dict[str, Any], n_bytes: int, mapped: int) -> None:
    """Allow this process the memory and computing time of one more message.

    Parameters
    ----------
    task : dict
    n_bytes : int
        Of the message.
    mapped : int
        Bytes that this process had mapped before the first message; 0 if that is unknown.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + task["seconds"])
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_CORE, 0)  # a core file would hold the message
    _lower(resource.RLIMIT_FSIZE, 0)  # there is nothing to write but the answer
    if mapped:
        _lower(resource.RLIMIT_AS, mapped + task["memory"] + _COPIES * n_bytes)


def _mapped() -> int:
    """Bytes that this process has mapped; 0 where the system does not tell."""
    pages = Path("/proc/self/statm")
    if resource is None or not pages.exists():
        return 0
    return int(pages.read_text("ascii").split()[0]) * resource.getpagesize()


def _lower(which: int, most: int) -> None:
    """Set the limit that this process may still change, at most to the one that it may not."""
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (most, hard))


def serve(taken: BinaryIO, told: BinaryIO) -> None:
    """Open one message after the other until no more come."""
    mapped = _mapped()
    _tell(told, "ready")
    while header := taken.read(LENGTHS.size):
        n_task, n_bytes = LENGTHS.unpack(header)
        task = json.loads(taken.read(n_task))
        if resource is not None:
            limit(task, n_bytes, mapped)
        try:
            open_wholly(taken.read(n_bytes), task)
        except MemoryError:
            _tell(told, "memory")
        except FedCSAError:
            _tell(told, "refused")
        else:
            _tell(told, "opened")


def _tell(told: BinaryIO, ended: str) -> None:
    told.write(json.dumps({"ended": ended}).encode() + b"\n")
    told.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
