"""The scikit-learn face: ``FedCSA(...).fit(sources, X_target).predict(X)``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if

from fedcsa.backtest import run_backtest
from fedcsa.core.arrays import Array, as_vector
from fedcsa.core.subgroups import unknown_levels
from fedcsa.data.coding import Columns
from fedcsa.data.frame_types import chosen_of_frames, in_own_order, typed_inputs
from fedcsa.data.frames import (
    as_named_matrix,
    as_predictions,
    classes_for,
    classes_of,
    read_sites,
)
from fedcsa.errors import CandidatesError, known_parameters, must, raise_all
from fedcsa.findings import Finding
from fedcsa.messages.messages import ExaminationReport
from fedcsa.messages.policy import Policy
from fedcsa.models.description import given_column
from fedcsa.models.fitted import FittedModel
from fedcsa.models.handed import handed_over
from fedcsa.models.inputs import begins_with_columns, plain_numbers
from fedcsa.models.space import SpaceFunction
from fedcsa.option_rules import TEXT, is_value, preset_values
from fedcsa.outcomes import History, bring_in, id_keys, pick_rows
from fedcsa.plan import OPTIONS, Plan, documented, make_plan
from fedcsa.run import InProcess, Progress, run_study, with_texts
from fedcsa.source.source import Source
from fedcsa.target.adaptation import Adaptation
from fedcsa.target.backtest_result import Backtest
from fedcsa.target.per_patient import PATIENT_LEVEL
from fedcsa.target.target import Target
from fedcsa.target.verdict import Leg, Verdict
from fedcsa.update import Update

#: What an estimator says that was not fitted.
NOT_FITTED = "This FedCSA instance is not fitted yet. Call 'fit' with appropriate arguments first."


def _classifies(estimator: FedCSA) -> bool:
    """Whether the model is a scikit-learn classifier."""
    model = estimator.model
    instance = hasattr(model, "get_params") and not isinstance(model, type)
    return instance and bool(is_classifier(model))


@documented
class FedCSA(BaseEstimator):  # type: ignore[misc]
    """Federated covariate shift adaptation, all sites in this process.

    The target sends its Table 1. Every source weights its rows to that table, fits a model for
    every candidate and reports a few numbers; the target chooses a candidate and mixes the
    sources' models; every source examines the others' mixture on its own weighted rows. These
    examinations give the promise, with a prediction interval, and the verdict.

    Parameters
    ----------
    model : {"ridge", "weighted-least-squares"}, mapping or scikit-learn estimator
        A mapping names one of the two and sets its options, for example
        ``{"name": "ridge", "penalty_scale": "sklearn"}``.
    candidates : sequence, mapping or function, optional
        Hyperparameters to choose from. Numbers stand for ridge's ``penalty`` or the
        ``ratio_power`` of weighted least squares; a mapping of lists stands for all combinations.
        Any model that takes sample weights also understands ``ratio_power``: training weights r^γ.
        A list is taken as it is. A mapping with a range, ``{"low": 1e-4, "high": 1, "log": True}``,
        or a distribution of scipy.stats or Optuna is a space to search; so is a list of such
        mappings, and a function of an Optuna trial. By default 0 and twelve penalties from 0.001
        to 1 for ridge, and the estimator as it is for scikit-learn, each with γ = 0, ½ and 1.
    columns : Columns or mapping of str to str, list or mapping, optional
        What every column is: ``"number"``, ``"flag"``, ``"group"`` (rows of one patient), ``"id"``,
        a list of levels, or a mapping with ``kind`` and more, as for `Columns`;
        ``Columns.infer(frames)`` proposes it. Without it all columns are numbers, but for those
        that hold only zeros and ones at every site.
    random_state : int, Generator or RandomState, optional
        The study's seed, or a generator that draws it.
    OPTIONS
    policy : Policy, optional
        Rules of every site. By default none, since one process sees everything anyway.
    trusted_types : collection of str, optional
        Full names of classes outside scikit-learn that a model may use.

    Attributes
    ----------
    adaptation_ : Adaptation
        The whole result.
    classes_ : array
        Labels of a classifier.
    feature_names_in_ : array of str

    `save` writes all of it into a folder, with a report as one HTML page.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def hospital(mean, rows):
    ...     X = rng.normal(mean, 1.0, (rows, 2))
    ...     return X, X.sum(axis=1) + rng.normal(size=rows)
    >>> sources = {"north": hospital(0.0, 300), "south": hospital(0.5, 200)}
    >>> X_target, _ = hospital(0.3, 100)
    >>> fedcsa = FedCSA(candidates=[0.0, 0.1, 1.0], random_state=0).fit(sources, X_target)
    >>> fedcsa.candidate_
    {'penalty': 0.0}
    >>> fedcsa.predict(X_target).shape
    (100,)
    """

    history_: History | None

    @known_parameters
    def __init__(
        self,
        model: Any = "ridge",
        candidates: Any = None,
        loss: str | Callable[[Array, Array], Array] = Plan.loss,
        method: str = Plan.method,
        exchange: str = Plan.exchange,
        folds: int | Sequence[float] | None = Plan.folds,
        random_state: Any = None,
        *,
        columns: Mapping[str, Any] | None = None,
        preset: str | None = Plan.preset,
        compare: Sequence[str] = Plan.compare,
        fedle_weights: Mapping[str, float] | None = Plan.fedle_weights,
        scheme: str | None = Plan.scheme,
        refit: bool | None = Plan.refit,
        combine: str = Plan.combine,
        on_no_overlap: str = Plan.on_no_overlap,
        level: float = Plan.level,
        search: str | None = Plan.search,
        budget: int | Mapping[str, int] | None = Plan.budget,
        thresholds: Sequence[float] = Plan.thresholds,
        subgroups: Sequence[Mapping[str, Any]] = Plan.subgroups,
        scale: bool = Plan.scale,
        ratio: Any = Plan.ratio,
        policy: Policy | None = None,
        trusted_types: Collection[str] = (),
    ) -> None:
        self.model = model
        self.candidates = candidates
        self.loss = loss
        self.method = method
        self.exchange = exchange
        self.folds = folds
        self.random_state = random_state
        self.columns = columns
        self.preset = preset
        self.compare = compare
        self.fedle_weights = fedle_weights
        self.scheme = scheme
        self.refit = refit
        self.combine = combine
        self.on_no_overlap = on_no_overlap
        self.level = level
        self.search = search
        self.budget = budget
        self.thresholds = thresholds
        self.subgroups = subgroups
        self.scale = scale
        self.ratio = ratio
        self.policy = policy
        self.trusted_types = trusted_types

    def fit(self, sources: Any, X_target: Any, *, progress: Progress | None = None) -> Self:
        """Adapt to the target.

        Parameters
        ----------
        sources : mapping of str to (X, y), or sequence of (X, y)
            Arrays, pandas or Polars frames; without names they are called source-1, source-2, …
        X_target : array or frame of shape (rows, features), or Table1
            The target's rows, or its Table 1 alone. It has no outcomes.
        progress : function, optional
            Called with the phase, the source and "started" or "done": see `fedcsa.run.Progress`.
        """
        self.adaptation_ = self._adapted(sources, X_target, progress)
        self.history_ = None
        plan, coding = self.adaptation_.plan, self.adaptation_.described
        inputs = plan.features if coding is None else coding.needed(with_outcome=False)
        self.feature_names_in_ = np.asarray(inputs, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.__dict__.pop("classes_", None)  # of an earlier fit
        if plan.classes:
            self.classes_ = np.asarray(plan.classes)
        return self

    def evaluate(
        self,
        model: Any,
        sources: Any,
        X_target: Any,
        *,
        predictions: Any = None,
        progress: Progress | None = None,
    ) -> Adaptation:
        """Judge a given model, or predictions that every site has, at the target.

        Nothing is fitted, so ``model``, ``candidates`` and their options do not matter; this
        estimator stays as it is.

        Parameters
        ----------
        model : fitted scikit-learn estimator, Formula, FileModel or None
            None judges predictions.
        sources : mapping of str to (X, y), or to (X, y, predictions) if `model` is None
        X_target : as for `fit`
        predictions : array of shape (rows,), optional
            The target's own, if `model` is None and it has them.
        progress : function, optional
            As for `fit`.
        """
        own = None if predictions is None else as_predictions(predictions, "the target")
        return self._adapted(sources, X_target, progress, (model,), own)

    def backtest(
        self, sources: Any, *, given: Any = None, progress: Progress | None = None
    ) -> Backtest:
        """Let every source play the target for the others, and see which promises hold.

        On a fitted estimator, a back-test that fails lowers the verdict ``verdict_``. A back-test
        of a given model does not; ``evaluate(…).with_backtest(…)`` takes it in.

        Parameters
        ----------
        sources : as for `fit`, or for `evaluate`
        given : fitted scikit-learn estimator, Formula, FileModel or "predictions", optional
            What is judged instead of a model of this estimator: a model, or the predictions
            beside the outcomes of every source.
        progress : function, optional
            As for `fit`.
        """
        beside = isinstance(given, str) and given == "predictions"
        judged = () if given is None else (None if beside else given,)
        fitted = given is None and self.columns is None and hasattr(self, "feature_names_in_")
        features = self.feature_names_in_.tolist() if fitted else None
        ready = self._prepare(sources, (), judged, features)
        site = {key: ready.site[key] for key in ("policy", "losses", "trusted_types")}
        told = {"given": ready.given, "space": ready.space, "progress": progress, **site}
        found = run_backtest(ready.data, ready.plan, **told)
        if given is None and hasattr(self, "adaptation_"):
            self.adaptation_ = self.adaptation_.with_backtest(found)
        return found

    def followup(self, X: Any, n: int = 30, *, ids: Any = None, seed: int = 0) -> NDArray[np.intp]:
        """Draw rows to follow up; returns their positions, in order. `update` uses the weights.

        Parameters
        ----------
        X : array or frame of shape (rows, features)
            All rows to choose from.
        n : int
            How many to draw; a second call draws further rows.
        ids : sequence of str or int, optional
            Of the rows, each once; by default their positions 0, 1, 2, …
        seed : int
            Of the first list.
        """
        rows = self._rows(X)
        keys = id_keys(range(len(rows)) if ids is None else ids, "The ids")
        found = pick_rows(self.adaptation_, rows, keys, n, seed=seed, history=self.history_)
        self.history_ = found[2]
        return found[0]

    def update(self, X: Any, y: Any, *, ids: Any = None, anew: bool = False) -> Update:
        """Bring all outcomes so far into the answer; predictions are corrected from then on.

        Parameters
        ----------
        X : array or frame of shape (rows, features)
        y : array of shape (rows,)
        ids : sequence of str or int, optional
            Of the rows, each once: then an outcome that contradicts an earlier one is refused.
        anew : bool
            Forget earlier updates.
        """
        rows = self._rows(X)
        keys = None if ids is None else id_keys(ids, "The ids")
        loss = self.loss if callable(self.loss) else None
        more: dict[str, Any] = {"keys": keys, "history": self.history_, "anew": anew, "loss": loss}
        self.history_ = bring_in(self.adaptation_, rows, np.atleast_1d(y), **more)
        last = cast(Update, self.history_.last)
        self.adaptation_ = self.adaptation_.with_correction(last.correction, last.intervals)
        return last

    def save(self, folder: str | Path) -> Path:
        """Write the result and its report, as ``fedcsa run --out`` does; returns the report.

        ``fedcsa.load_result(folder)`` reads it again and predicts rows of a frame, ``fedcsa
        predict`` those of a table. Outcomes are read from the column that `columns` names.

        Parameters
        ----------
        folder : path
            An older result in it is replaced.
        """
        from fedcsa.answer.page import write_report
        from fedcsa.answer.store import NO_MODELS, keeps_models, save_result

        if not hasattr(self, "adaptation_"):
            raise NotFittedError(NOT_FITTED)
        if not keeps_models(self.adaptation_):
            warnings.warn(NO_MODELS, stacklevel=2)
        return write_report(save_result(self.adaptation_, folder, history=self.history_))

    @property
    def candidate_(self) -> dict[str, Any]:
        """The chosen candidate."""
        return dict(self.adaptation_.candidate)

    @property
    def examinations_(self) -> dict[str, ExaminationReport]:
        """What every source found about the others' mixture."""
        return dict(self.adaptation_.examinations)

    @property
    def source_weights_(self) -> dict[str, float]:
        """Weight of every source's model."""
        return dict(self.adaptation_.source_weights)

    @property
    def update_(self) -> Update | None:
        """What outcomes have changed, see `update`."""
        return None if self.history_ is None else self.history_.last

    @property
    def target_risk_(self) -> float:
        """Risk at the target, as promised."""
        return self.adaptation_.target_risk

    @property
    def interval_(self) -> tuple[float, float] | None:
        """Prediction interval of the risk for a new site, at the level asked for."""
        return self.adaptation_.interval

    @property
    def between_sites_(self) -> float | None:
        """Standard deviation of the log risk between sites."""
        promise = self.adaptation_.promise
        return None if promise is None else promise.between_sites

    @property
    def findings_(self) -> tuple[Finding, ...]:
        """Every danger by name, those that outcomes show first."""
        told = () if self.update_ is None else self.update_.findings
        return (*told, *self.adaptation_.findings)

    @property
    def _verdict(self) -> Verdict:
        return self.adaptation_.verdict if self.update_ is None else self.update_.verdict

    @property
    def verdict_(self) -> str:
        """``"use it"``, ``"use it with care"``, ``"do not use it"`` or ``"not judged"``."""
        return self._verdict.words

    @property
    def legs_(self) -> dict[str, Leg]:
        """What the verdict stands on: ``reach``, ``agreement`` and ``skill``, with numbers."""
        return {leg.name: leg for leg in self._verdict.legs}

    def _adapted(
        self,
        sources: Any,
        X_target: Any,
        progress: Progress | None,
        judged: tuple[Any, ...] = (),
        predictions: Array | None = None,
    ) -> Adaptation:
        """Carry a study out: of the own model, or of the one that is `judged`."""
        ready = self._prepare(sources, (X_target,), judged)
        plan, site = ready.plan, ready.site
        names = (*plan.features, *filter(None, (plan.group, given_column(plan.model))))
        roles = [Source(name, *pair, features=names, **site) for name, pair in ready.data.items()]
        target = Target(
            ready.told,
            plan,
            policy=site["policy"],
            trusted_types=site["trusted_types"],
            given=ready.given if predictions is None else predictions,
            space=ready.space,
        )
        try:
            answer = run_study(target, InProcess(roles, progress))
        except CandidatesError as error:
            raise with_texts(error, roles) from None  # one person holds all the data
        return replace(answer, described=ready.coding, by_name=True)

    def _prepare(
        self,
        sources: Any,
        target: tuple[Any, ...],
        judged: tuple[Any, ...] = (),
        features: Sequence[str] | None = None,
    ) -> _Ready:
        """Read the rows of all sites and make the plan.

        Parameters
        ----------
        sources : as for `fit`
        target : tuple
            Its rows or its Table 1; empty if there is no target.
        judged : tuple
            A given model; empty if the own one is fitted.
        features : sequence of str, optional
            The columns if there is no target; by default those of the first source.
        """
        options, site = self._settings()
        coding = self.columns if isinstance(self.columns, Columns | None) else Columns(self.columns)
        own = bool(judged) and judged[0] is None
        read = read_sites(sources, target, coding, features, with_predictions=own)
        told, columns, data, frames = read
        preset = {} if self.preset is None else preset_values(self.preset)
        if coding is None and str(preset.get("exchange", self.exchange)) != "table":
            columns["flags"] = ()  # rows are told as they are
        columns["inputs"] = None if coding is None else coding.inputs
        model, candidates, given = self.model, self.candidates, None
        if judged or not isinstance(model, str):  # what has a name of ours gets the matrix
            model, given = self._handed(judged, data, frames, columns)
        if judged:
            candidates, options["search"], options["budget"] = None, None, None
            del options["method"]
        plan = make_plan(model, candidates, options, site["losses"], self.trusted_types, **columns)
        if coding is not None:
            raise_all(unknown_levels(plan.subgroups, coding.levels))
        space = candidates if callable(candidates) else None
        return _Ready(plan, site, told, data, given, space, coding)

    def _handed(
        self,
        judged: tuple[Any, ...],
        data: Mapping[str, tuple[Array, Any]],
        frames: Mapping[str, Any],
        columns: dict[str, Any],
    ) -> tuple[Any, FittedModel | None]:
        """A model without a name of ours; its classes and inputs become those of `columns`."""
        (model,) = judged or (self.model,)
        inputs, by_columns = columns["inputs"], begins_with_columns(model)
        if not judged and _classifies(self):
            columns["classes"] = classes_of(data)
        if not isinstance(model, str):
            inputs = plain_numbers(columns["features"]) if inputs is None else inputs
            inputs = typed_inputs(inputs, frames) if by_columns else inputs
        if by_columns and not judged:
            inputs = in_own_order(inputs, frames)
            model = chosen_of_frames(model, inputs, frames)
        columns["inputs"] = inputs
        if not judged:
            return model, None
        columns["classes"] = classes_for(model, data)
        return handed_over(model, columns["features"], columns["classes"], inputs)

    def _settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The options of a plan, and what every site is given besides."""
        if not isinstance(self.policy, Policy | None):
            raise must("policy", "a Policy or None", type(self.policy).__name__)
        trusted = self.trusted_types
        listed = isinstance(trusted, Collection) and getattr(trusted, "ndim", 1) > 0
        if not listed or isinstance(trusted, str) or not all(map(TEXT.holds, trusted)):
            raise must("trusted_types", "a list of full names of classes", type(trusted).__name__)
        seed = np.random.default_rng() if self.random_state is None else self.random_state
        if isinstance(seed, np.random.Generator):
            seed = int(seed.integers(2**32))
        elif isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31 - 1))
        if not OPTIONS["seed"].holds(seed):
            raise OPTIONS["seed"].refusal("random_state", seed)
        options = {name: seed if name == "seed" else getattr(self, name) for name in OPTIONS}
        losses, ratio = {}, None
        if callable(self.loss):
            options["loss"] = f"own:{getattr(self.loss, '__name__', 'loss')}"
            losses[options["loss"]] = self.loss
        if hasattr(self.ratio, "fit") and hasattr(self.ratio, "predict"):
            ratio, options["ratio"] = self.ratio, None
            if not is_value(self.exchange, "rows") or self.preset is not None:
                rule = "left out unless exchange is 'rows' and there is no preset"
                raise must("ratio", rule, type(ratio).__name__)
        return options, {
            "policy": self.policy or Policy.open(),
            "losses": losses,
            "ratio": ratio,
            "tell_errors": True,  # one person holds all the data
            "trusted_types": tuple(trusted),
        }

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict numbers, or the most probable class, with the weighted model."""
        rows = self._rows(X)  # it asks whether there is a fit
        return self.adaptation_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, or for classes the share of right ones, as in scikit-learn.

        The promise is about the loss; ``update`` compares it with outcomes.

        Parameters
        ----------
        X : array or frame of shape (rows, features)
        y : array of shape (rows,)
        sample_weight : array of shape (rows,), optional
        """
        of, truth = (accuracy_score, y) if _classifies(self) else (r2_score, as_vector(y, "y"))
        return float(of(truth, self.predict(X), sample_weight=sample_weight))

    @property
    def _estimator_type(self) -> str:
        return "classifier" if _classifies(self) else "regressor"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags  # not in scikit-learn 1.5

        tags = super().__sklearn_tags__()
        tags.estimator_type = self._estimator_type
        tags.classifier_tags = ClassifierTags() if _classifies(self) else None
        tags.regressor_tags = None if _classifies(self) else RegressorTags()
        return tags

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probability of every class, in the order of ``classes_``."""
        rows = self._rows(X)
        return self.adaptation_.predict_proba(rows)

    @available_if(lambda estimator: not _classifies(estimator))  # type: ignore[untyped-decorator]
    def predict_interval(self, X: Any, level: float = PATIENT_LEVEL) -> Array:
        """Lower and upper end of the interval of every row, shape (rows, 2).

        Parameters
        ----------
        X : array or frame of shape (rows, features)
        level : float
            Share of the patients whose outcome lies in their interval.
        """
        rows = self._rows(X)
        return self.adaptation_.predict_interval(rows, level)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_set(self, X: Any, level: float = PATIENT_LEVEL) -> NDArray[np.bool_]:
        """Which classes are possible, shape (rows, classes), in the order of ``classes_``.

        Parameters
        ----------
        X : array or frame of shape (rows, features)
        level : float
            Share of the patients of every class whose class is in their set.
        """
        rows = self._rows(X)
        return self.adaptation_.predict_set(rows, level)

    def _repr_html_inner(self) -> str:
        if not hasattr(self, "adaptation_"):
            return str(super()._repr_html_inner())
        from fedcsa.answer.notebook import view_html
        from fedcsa.answer.view import view_of

        return view_html(view_of(self.adaptation_, self.update_))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def _rows(self, X: Any) -> Array:
        """Rows as the model gets them, if there is a fit."""
        if not hasattr(self, "adaptation_"):
            raise NotFittedError(NOT_FITTED)
        return as_named_matrix(X, "X", self.feature_names_in_.tolist(), self.adaptation_.described)[
            0
        ]


class _Ready(NamedTuple):
    """All that a study needs, checked: of the target its rows, its Table 1 or nothing."""

    plan: Plan
    site: dict[str, Any]
    told: Any
    data: dict[str, tuple[Array, Any]]
    given: FittedModel | None
    space: SpaceFunction | None
    coding: Columns | None
