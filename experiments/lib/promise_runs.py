"""What the studies of the promise share: how a default study is run, and how runs are kept."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lib.common import Array
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import fedcsa

#: The default before the examination, whose runs are kept to compare with, and the one of today.
CODES = ("old", "new")


@dataclass(frozen=True)
class Study:
    """What a default study is given: rows, and how the columns are described."""

    sources: Mapping[str, tuple[Array, Array]]
    X_target: Array
    flags: tuple[bool, ...]  # which columns are 0 or 1
    public_sd: tuple[float, ...] | None = None
    groups: Mapping[str, NDArray[np.int64]] | None = None  # the patient of every row


def run_default(study: Study, seed: int, learner: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Promise, verdict on three legs and weights of one study, and the fitted estimator.

    Parameters
    ----------
    study : Study
    seed : int
    learner : dict
        Model, candidates and loss; nothing for ridge with its default candidates.
    """
    sources = study.sources
    if study.groups is not None:
        sources = {
            name: (np.column_stack([X, study.groups[name]]), y) for name, (X, y) in sources.items()
        }
    fitted = fedcsa.FedCSA(
        random_state=seed, on_no_overlap="predict", columns=described(study), **learner
    )
    fitted.fit(sources, study.X_target)
    lower, upper = fitted.interval_ or (None, None)
    told = {
        "verdict": fitted.verdict_,
        "refused": fitted.adaptation_.refused,
        "promised": fitted.target_risk_,
        "lower": lower,
        "upper": upper,
        "level": fitted.level,
        "between": fitted.between_sites_,
        "candidate": json.dumps(fitted.candidate_),
        # A source that sent no model has no weight.
        "last_weight": fitted.source_weights_.get(max(study.sources), 0.0),
    }
    for name, leg in fitted.legs_.items():
        told |= {f"{name}_passed": leg.passed, f"{name}_value": leg.value}
    return told, fitted


def described(study: Study) -> dict[str, Any] | None:
    """The columns of a study in words; none where there is nothing that rows do not show."""
    if study.public_sd is None and study.groups is None:
        return None
    scales = study.public_sd or (None,) * len(study.flags)
    columns: dict[str, Any] = {}
    for place, (flag, sd) in enumerate(zip(study.flags, scales, strict=True)):
        number = "number" if sd is None else {"kind": "number", "sd": sd}
        columns[f"x{place}"] = "flag" if flag else number
    return columns if study.groups is None else {**columns, "patient": "group"}


def logistic(inverse_penalties: Sequence[float]) -> dict[str, Any]:
    """Logistic regression under the Brier loss, for every C of scikit-learn and training weight."""
    return {
        "model": LogisticRegression(max_iter=1_000),
        "candidates": {"C": list(inverse_penalties), "ratio_power": [0.0, 0.5, 1.0]},
        "loss": "brier",
    }


def flags_of(blocks: Iterable[Array]) -> tuple[bool, ...]:
    """Which columns hold nothing but 0 and 1 at any site."""
    every = [np.isin(X, (0.0, 1.0)).all(axis=0) for X in blocks]
    return tuple(np.all(every, axis=0).tolist())


def guess(fitted: Any, X: Array) -> Array:
    """The number predicted, or the probability of an event."""
    return fitted.predict_proba(X)[:, 1] if hasattr(fitted, "classes_") else fitted.predict(X)


# Runs as lines, lines as tables -----------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """One line a run; a run that is there is not run again, so a cut-off loses nothing."""

    path: Path
    key: tuple[str, ...]

    def read(self) -> list[dict[str, Any]]:
        """The runs that are there, in the order of their keys."""
        if not self.path.is_file():
            return []
        lines = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
        once = {self._key_of(line): line for line in lines}
        return [once[key] for key in sorted(once)]

    def _key_of(self, line: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(line[name] for name in self.key)

    def run(
        self,
        function: Callable[[Any], dict[str, Any]],
        tasks: Iterable[tuple[tuple[Any, ...], Any]],
    ) -> None:
        """Run what is missing.

        Parameters
        ----------
        function : function of a task
        tasks : iterable of (key, task)
        """
        done = {self._key_of(line) for line in self.read()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file, threadpool_limits(1):
            for key, task in tasks:
                if key not in done:
                    file.write(json.dumps(function(task), default=_plain) + "\n")
                    file.flush()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def write_packed(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """One gzipped table, six significant digits; the same lines always give the same bytes.

    Parameters
    ----------
    path : Path
    lines : sequence of mappings
    """
    columns = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in line.items()} for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.getvalue().encode("utf-8"), mtime=0))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_packed(path: Path) -> list[dict[str, str]]:
    """The lines of a packed table, as text."""
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
