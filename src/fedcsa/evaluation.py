"""Judge a model that exists already, `evaluate`, and convert one into our own format, `convert`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedcsa.errors import ModelError
from fedcsa.estimator import FedCSA
from fedcsa.models.foreign_trees import from_estimator
from fedcsa.models.given import FileModel, read_file_model, write_model
from fedcsa.run import Progress
from fedcsa.study.formula_file import load_formula
from fedcsa.target.adaptation import Adaptation


def evaluate(
    model: Any,
    sources: Any,
    X_target: Any,
    *,
    predictions: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> Adaptation:
    """How a given model will do at the target: nothing is fitted, and no model leaves a source.

    Parameters
    ----------
    model : fitted scikit-learn estimator, Formula, path or None
        A path is that of a formula (.toml) or of a model that `convert` wrote (.json). None judges
        predictions that the sites have already.
    sources : mapping of str to (X, y), or to (X, y, predictions) if `model` is None
        Predictions are numbers, or probabilities of the second class.
    X_target : array or frame of shape (rows, features), or Table1
    predictions : array of shape (rows,), optional
        The target's own, if `model` is None and it has them.
    progress : function, optional
        Called with the phase, the source and "started" or "done": see `fedcsa.run.Progress`.
    **options
        Of `FedCSA`: ``loss``, ``level``, ``columns``, ``thresholds``, ``subgroups`` …

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> def hospital(rows):
    ...     X = rng.normal(size=(rows, 2))
    ...     return X, X.sum(axis=1) + rng.normal(size=rows)
    >>> model = LinearRegression().fit(*hospital(500))
    >>> sources = {name: hospital(200) for name in ("north", "south", "west")}
    >>> found = evaluate(model, sources, hospital(100)[0], random_state=0)
    >>> found.verdict.words
    'use it'
    """
    if isinstance(model, str | Path):
        path = Path(model)
        toml = path.suffix.lower() == ".toml"
        model = load_formula(path) if toml else read_file_model(path)
    judge = FedCSA(**options)
    return judge.evaluate(model, sources, X_target, predictions=predictions, progress=progress)


def convert(estimator: Any, path: str | Path, columns: Sequence[str] | None = None) -> Path:
    """Write a fitted scikit-learn estimator in our own format: a file that holds no code.

    Trees, forests, boosting, and linear models with the usual steps have one. The command
    ``fedcsa convert`` does the same with models that XGBoost and LightGBM saved.

    Parameters
    ----------
    estimator : fitted scikit-learn estimator
    path : path
        Of the file, which ends in .json.
    columns : sequence of str, optional
        Names of its columns; by default those that it was fitted with.
    """
    names = list(getattr(estimator, "feature_names_in_", ()) if columns is None else columns)
    width = int(getattr(estimator, "n_features_in_", 0))
    if len(names) != width:
        raise ModelError(
            f"The estimator was fitted on {width} columns, and {len(names)} are named. Give their "
            "names in their order."
        )
    labels = getattr(estimator, "classes_", ())
    coded = estimator if not len(labels) else _with_codes(estimator, len(labels))
    model = FileModel(from_estimator(coded, len(labels)), tuple(map(str, names)), len(labels))
    write_model(path, model)
    return Path(path)


def _with_codes(estimator: Any, n_classes: int) -> Any:
    """The same estimator whose classes are called 0, 1, and so on.

    Parameters
    ----------
    estimator : fitted classifier
    n_classes : int
    """
    from copy import deepcopy

    import numpy as np
    from sklearn.pipeline import Pipeline

    coded = deepcopy(estimator)
    final = coded
    while isinstance(final, Pipeline):
        final = final.steps[-1][1]
    final.classes_ = np.arange(n_classes)
    return coded
