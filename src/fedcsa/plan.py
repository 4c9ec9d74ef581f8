"""The design of a study, as agreed by all sites before anything is computed.

Every option of a study is declared once, as a field of `Plan`: its name, default, rule and help
serve Python, the study file and the command line alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from fedcsa.core.arrays import Array, is_whole
from fedcsa.core.folds import SCHEMES, THIRDS, check_shares
from fedcsa.core.losses import loss_named
from fedcsa.core.subgroups import MOST_THRESHOLDS, subgroup_name, subgroup_problems
from fedcsa.core.weights import MEDIAN_SOURCES, WEIGHT_RULES
from fedcsa.errors import (
    FedCSAError,
    ModelError,
    ParameterError,
    gathered,
    must,
    unknown,
)
from fedcsa.models.description import GIVEN, LINEAR, RATIO_POWER, Candidate, given_column
from fedcsa.models.registry import (
    check_names,
    checked_candidate,
    default_candidates,
    expand_candidates,
    instantiate,
    model_description,
)
from fedcsa.models.space import (
    BUDGET,
    LONGEST_GRID,
    MOST_ROUNDS,
    SEARCHES,
    Space,
    corners,
    described_space,
    is_budget,
    is_space,
    spread_points,
    whole_budget,
)
from fedcsa.option_rules import (
    EXAMINED,
    FLAG,
    FOLD_RULES,
    OPEN,
    PRESETS,
    RATIO,
    RATIO_OPTIONS,
    SHARES,
    TEXT,
    THETA,
    WEIGHTS,
    Option,
    are_shares,
    are_weights,
    is_list,
    is_number,
    is_value,
    preset_values,
)

#: Losses that a study may name beside the built-in ones, given to every source beforehand.
LossFunctions = Mapping[str, Callable[[Array, Array], Array]]
Documented = TypeVar("Documented", bound=type)


def _option(default: Any, words: str | Sequence[str], holds: Any = None) -> Any:
    """A field of a plan that is an option, free or with a few allowed texts."""
    if isinstance(words, str):
        rule = Option(words, holds, default is None)
    else:
        texts = tuple(words)
        known = lambda value: isinstance(value, str) and value in texts  # noqa: E731
        rule = Option(f"one of {list(texts)}", known, default is None, texts)
    return field(default=default, metadata={"option": rule})


@dataclass(frozen=True)
class Plan:
    """Everything that a study fixes besides the data.

    All that is wrong with it is one `ParameterError`, with one line per problem.

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
    flags : tuple of bool
        Which features are zeros and ones; by default none.
    group : str
        The column that says which rows are of one patient; ``""`` if there is none.
    space : tuple of mapping
        From which a search draws candidates, see `fedcsa.models.space`; empty if they are listed.
        `candidates` are then those that were asked for so far.
    public_sd : array of shape (features,), optional
        Agreed sd of every feature, NaN where there is none, see `fedcsa.Table1`.
    seed : option
        Every draw follows from it and the sites' names.
    loss : option
        ``"squared"`` or ``"absolute"``; for classes ``"brier"``, ``"log"`` or ``"zero-one"``, and
        ``"squared"`` is then read as ``"brier"``. In Python also a function of (prediction, y)
        that returns one number per row.
    preset : option
        A word that sets several options. ``"paper"`` is Algorithm 1 of the paper as printed: the
        target's rows go to the sources, and nothing is promised. ``method`` and ``folds`` may
        still be chosen; the other options that it sets must be left out.
    method : option
        How the sources' numbers become one answer. The default lets every source examine the
        others' models, promises a risk with a prediction interval and gives a verdict;
        ``"given"``, which follows from a given model, does the same with that. The others are
        formulas of the paper, here on the weights of the table; on the paper's own ratio with
        ``preset="paper"``.
    compare : option
        Formulas of the paper to estimate beside the study's own, from the same messages and so
        on the same weights of rows.
    fedle_weights : option
        Weight of every source for the method ``"fedle"``; beside another method it is compared.
    exchange : option
        What the target announces: its Table 1, or its rows.
    scheme : option
        Who sees which rows, see `fedcsa.core.folds.turns`. By default ``"cross-fit"`` with a
        table, and ``"split"`` with rows.
    folds : option
        Number of folds of ``"cross-fit"``, by default 5; or shares of the density, train and
        validation folds of ``"split"``, by default 3: equal.
    refit : option
        Send models fitted on all rows; by default so unless the scheme is ``"split"``.
    scale : option
        Let models see features in units of the target's means and standard deviations.
    ratio : option
        With the exchange of rows: options of `ULSIF`; in Python also any object with
        ``fit(X_source, X_target)`` and ``predict(X)``.
    combine : option
        How the sources' predictions become one. The median (four sources or more) withstands a
        lying source, but has no interval.
    on_no_overlap : option
        Whether to raise a `NoOverlapError` when no source resembles the target.
    level : option
        Of the prediction interval.
    search : option
        How Optuna draws candidates from a space: where earlier ones did well, or anywhere. By
        default ``"tpe"``. Grids and lists are tried whole.
    budget : option
        Most candidates of a search; or a mapping with ``candidates`` (by default 40), ``rounds``
        over which they are spread (6, or 1 of a random search), and ``numbers`` that leave every
        source in its reports.
    thresholds : option
        Predicted risks at which one would act, for an outcome of two classes: sensitivity,
        specificity, predictive values and net benefit are reported there.
    subgroups : option
        Patients for whom all measures are reported too. Each is a ``feature`` with a ``level``, or
        with a ``cut``: the rows from there up; and perhaps a ``name``.
    """

    features: tuple[str, ...]
    model: Mapping[str, Any]
    candidates: tuple[Mapping[str, Any], ...]
    study: str = "study"
    classes: tuple[Any, ...] = ()
    flags: tuple[bool, ...] = ()
    group: str = ""
    space: Space = ()
    public_sd: Array | None = field(default=None, repr=False)
    seed: int = _option(0, "a whole number from 0 up", lambda v: is_whole(v, 0) and v < 2**63)
    loss: str = _option("squared", "the name of a loss", TEXT.holds)
    preset: str | None = _option(None, tuple(PRESETS))
    method: str = _option("validated", ("validated", *WEIGHT_RULES, GIVEN))
    compare: tuple[str, ...] = _option(
        (),
        f"a list of formulas of the paper, from {list(WEIGHT_RULES)}",
        lambda value: is_list(value, lambda v: isinstance(v, str) and v in WEIGHT_RULES),
    )
    fedle_weights: Mapping[str, float] | None = _option(None, WEIGHTS, are_weights)
    exchange: str = _option("table", ("table", "rows"))
    scheme: str | None = _option(None, SCHEMES)
    folds: int | tuple[float, float, float] | None = _option(
        None,
        f"a whole number of at least 2, or {SHARES}",
        lambda value: is_whole(value, 2) or are_shares(value),
    )
    refit: bool | None = _option(None, FLAG.words, FLAG.holds)
    scale: bool = _option(True, FLAG.words, FLAG.holds)
    ratio: Mapping[str, Any] | None = _option(None, RATIO, lambda v: isinstance(v, Mapping))
    combine: str = _option("mean", ("mean", "median"))
    on_no_overlap: str = _option("refuse", ("refuse", "predict"))
    level: float = _option(
        0.95, "a number between 0 and 1", lambda value: is_number(value) and 0.0 < value < 1.0
    )
    search: str | None = _option(None, SEARCHES)
    budget: int | Mapping[str, int] | None = _option(
        None,
        f"a whole number of candidates from 1 to {LONGEST_GRID}, or a mapping of some of "
        f"{list(BUDGET)} to such, rounds up to {MOST_ROUNDS}",
        is_budget,
    )
    thresholds: tuple[float, ...] = _option(
        (),
        f"a list of at most {MOST_THRESHOLDS} different numbers between 0 and 1, such as [0.1]",
        lambda value: (
            is_list(value, lambda v: is_number(v) and 0.0 < v < 1.0)
            and len(set(value)) == len(value) <= MOST_THRESHOLDS
        ),
    )
    subgroups: tuple[Mapping[str, Any], ...] = _option(
        (),
        "a list of subgroups, each a mapping",
        lambda value: is_list(value, lambda v: isinstance(v, Mapping)),
    )

    def __post_init__(self) -> None:
        if self.preset is not None:
            self._take_preset()
        problems: list[ParameterError] = []
        sound, chosen = set(OPTIONS), self.model.get("name") == GIVEN
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            if value is not getattr(Plan, name):  # what was left out contradicts nothing
                chosen = True
                if problem := option.problem(name, value):
                    problems.append(problem)
                    sound.remove(name)
        if self.scheme is None and "exchange" in sound:
            scheme = "cross-fit" if self.exchange == "table" else "split"
            object.__setattr__(self, "scheme", scheme)
        if self.flags and len(self.flags) != len(self.features):
            problems.append(must("flags", "one true or false per feature", len(self.flags)))
        if self.group in self.features:
            problems.append(must("group", "a column that is not a feature", self.group))
        if chosen:
            problems += self._contradictions(sound)
        if problems:
            raise ParameterError("\n".join(map(str, problems)))
        folds = self.folds if self.folds is not None else 5 if self.scheme == "cross-fit" else 3
        settled = {
            "flags": self.flags or (False,) * len(self.features),
            "folds": int(folds) if isinstance(folds, int | np.integer) else check_shares(folds),
            "refit": bool(self.scheme != "split" if self.refit is None else self.refit),
            "compare": tuple(self.compare),
            "ratio": _plain(self.ratio) if self.ratio else {},
            "level": float(self.level),
            "search": (self.search or SEARCHES[0]) if self.space else None,
            "budget": whole_budget(self.budget, self.search or "") if self.space else None,
            "seed": int(self.seed),
            "thresholds": tuple(sorted(map(float, self.thresholds))),
            "subgroups": tuple(map(_named_subgroup, self.subgroups)),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def _take_preset(self) -> None:
        """Let the preset set what was left out."""
        for name, value in preset_values(self.preset).items():
            if is_value(getattr(self, name), getattr(Plan, name)):
                object.__setattr__(self, name, value)

    def _contradictions(self, sound: Set[str]) -> Iterator[ParameterError]:
        """What does not go together, of the options that are `sound` each by itself."""
        if self.preset is not None:
            yield from self._preset_problems(sound)
        named = (self.method, *self.compare) if sound >= {"method", "compare"} else ()
        if self.fedle_weights is None and "fedle" in named:
            yield must("fedle_weights", "given for the method 'fedle'", None)
        if sound >= {"scheme", "exchange"}:
            by_table = (self.scheme, self.exchange) == ("cross-fit", "table")
            if "method" in sound and self.examined and not by_table and self.preset is None:
                yield ParameterError(
                    "The default method must have exchange='table' and scheme='cross-fit'; for "
                    "Algorithm 1 of the paper choose preset='paper'."
                )
            rule = FOLD_RULES[str(self.scheme)]
            if "folds" in sound and (wrong := rule.problem("folds", self.folds)):
                yield wrong
            off = "refit" in sound and not (self.refit is None or self.refit)
            if off and self.scheme != "split":
                words = f"on with scheme {self.scheme!r}: no single fold's model stands out"
                yield must("refit", words, False)
        if sound >= {"ratio", "exchange"} and self.ratio:
            yield from self._ratio_problems(self.ratio)
        yield from self._column_problems(sound)
        if self.model.get("name") == GIVEN or ("method" in sound and self.method == GIVEN):
            yield from self._given_problems(sound)

    def _column_problems(self, sound: Set[str]) -> Iterator[ParameterError]:
        """What does not go together with the features, the outcome and the candidates."""
        if "thresholds" in sound and len(self.thresholds) and len(self.classes) != 2:
            got = f"{len(self.classes)} classes" if self.classes else "an outcome of numbers"
            yield must("thresholds", "left out unless the outcome has two classes", got)
        if "subgroups" in sound and len(self.subgroups):
            for problem in subgroup_problems(list(self.subgroups), self.features):
                yield must("subgroups", problem, len(self.subgroups))
        for name in ("search", "budget"):
            if name in sound and not self.space and getattr(self, name) is not None:
                rule = "left out unless candidates are a space: a grid or list is tried whole"
                yield must(name, rule, getattr(self, name))

    def _preset_problems(self, sound: Set[str]) -> Iterator[ParameterError]:
        """Options that a preset sets, and that were given another value."""
        for name, value in preset_values(self.preset).items():
            given = getattr(self, name)
            if name in sound and name not in OPEN and not is_value(given, value):
                rule = f"left out with the preset {self.preset!r}, which sets it"
                yield must(name, rule, given if isinstance(given, str) else type(given).__name__)

    def _given_problems(self, sound: Set[str]) -> Iterator[ParameterError]:
        """What does not go together with a given model."""
        given = self.model.get("name") == GIVEN
        if "method" in sound and given != (self.method == GIVEN):
            what = "left out with a given model" if given else "one for a model that is fitted"
            yield must("method", what, self.method)
        if not given:
            return
        if self.preset is not None:
            yield must("preset", "left out with a given model", self.preset)
            return
        for name, wanted in _WITH_GIVEN.items():
            if name in sound and getattr(self, name) != wanted:
                yield must(name, f"{wanted!r} with a given model", getattr(self, name))
        if self.candidates:
            yield must("candidates", "left out with a given model: nothing is fitted", "some")
        if given_column(self.model) and len(self.classes) > 2:
            rule = "a number or two classes for a column of predictions"
            yield must("outcome", rule, f"{len(self.classes)} classes")
        if given_column(self.model) in (*self.features, self.group) and given_column(self.model):
            yield must("column", "a column of predictions that is no feature", "a feature")

    def _ratio_problems(self, ratio: Mapping[str, Any]) -> Iterator[ParameterError]:
        if ratio and self.exchange != "rows":
            yield must("ratio", "left out unless exchange is 'rows'", sorted(map(str, ratio)))
            return
        for key, value in ratio.items():
            if key not in RATIO_OPTIONS:
                yield ParameterError(unknown("option of the ratio", str(key), RATIO_OPTIONS))
            elif wrong := RATIO_OPTIONS[key].problem(f"ratio[{key!r}]", value):
                yield wrong

    def source_problems(self, sources: Collection[str]) -> list[str]:
        """A sentence for everything that does not go together with the sources of these names."""
        found: list[str] = []
        missing = sorted(set(sources) - set(self.fedle_weights or sources))
        if missing:
            got = f"none for {missing[0]!r}"
            found.append(str(must("fedle_weights", "one weight for every source", got)))
        if self.combine == "median" and 0 < len(sources) < MEDIAN_SOURCES:
            rule = f"'mean' with fewer than {MEDIAN_SOURCES} sources"
            found.append(str(must("combine", rule, "median")))
        return found

    @property
    def examined(self) -> bool:
        """Whether sources examine a model, from which the promise and the verdict follow."""
        return self.method in EXAMINED

    def titled(self, method: str) -> str:
        """What a method is called: a formula of the paper says on which weights of rows it runs."""
        if method in EXAMINED:
            return method
        if self.preset is not None:
            return f"{method}, preset {self.preset}"
        if method == "naive":
            return "naive, rows unweighted"
        weights = "the table's weights" if self.exchange == "table" else "a ratio fitted on rows"
        return f"{method}, on {weights}"

    @property
    def compared(self) -> tuple[str, ...]:
        """Formulas of the paper that are estimated, the study's own among them."""
        own = () if self.examined else (self.method,)
        given = ("fedle",) if self.fedle_weights is not None else ()
        return tuple(dict.fromkeys((*own, *self.compare, *given)))

    @property
    def limits(self) -> Mapping[str, int]:
        """Every limit of a search by name; empty where candidates are listed."""
        return self.budget if isinstance(self.budget, Mapping) else {}

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
            "n_folds": self.folds if isinstance(self.folds, int) else 3,
            "shares": np.array(self.folds if isinstance(self.folds, tuple) else THIRDS),
            "refit": bool(self.refit),
            "scale": bool(self.scale),
            "moments": bool(self.compared),
            "seed": self.seed,
            "exchange": self.exchange,
            "ratio": dict(self.ratio or {}),
            "thresholds": np.array(self.thresholds),
            "subgroups": list(self.subgroups),
        }


#: Options that a given model leaves no choice of: its numbers are in raw units, and there is one.
_WITH_GIVEN: Mapping[str, Any] = {"scale": False, "combine": "mean", "compare": ()}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a message has them: numbers of Python's own, and lists."""
    arrays = (np.generic, np.ndarray)
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    return {k: v.tolist() if isinstance(v, arrays) else v for k, v in lists.items()}


def _named_subgroup(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": subgroup_name(said), **_plain(said)}


#: Name of an option -> what it must be.
OPTIONS: Mapping[str, Option] = {
    item.name: item.metadata["option"] for item in fields(Plan) if item.metadata
}


def documented(cls: Documented) -> Documented:
    """Fill the options into the docstring of `cls`, where it has the line OPTIONS."""
    cls.__doc__ = (cls.__doc__ or "").replace("OPTIONS", _HELP)
    return cls


def _spelled_out(found: re.Match[str]) -> str:
    default = getattr(Plan, found[1])
    return f"{found[1]} : {OPTIONS[found[1]].words}, " + (
        "optional" if default is None else f"default {default!r}"
    )


Plan.__doc__ = re.sub(r"(\w+) : option", _spelled_out, Plan.__doc__ or "")
#: The options in the words of the plan; the seed is a `random_state` to scikit-learn.
_HELP = Plan.__doc__[Plan.__doc__.find("loss : ") :].rstrip()


def make_plan(
    model: Any,
    candidates: Any,
    options: Mapping[str, Any],
    own_losses: LossFunctions | None = None,
    trusted: Collection[str] = (),
    build: bool = True,
    inputs: Sequence[Mapping[str, Any]] | None = None,
    **columns: Any,
) -> Plan:
    """The plan of a study, or one error with a line for everything that is wrong.

    Parameters
    ----------
    model : str, mapping or scikit-learn estimator
    candidates : None, sequence or mapping
        As for `FedCSA`.
    options : mapping
        Of a plan, by name.
    own_losses : mapping of str to function, optional
        Losses that are not built in, by name.
    trusted : collection of str
        Classes outside scikit-learn that the model may use.
    build : bool
        Build the model, to see whether it can be, and has the parameters that candidates set.
    inputs : sequence of mapping, optional
        The table's own columns, for a model that gets them; see `fedcsa.models.inputs`.
    **columns
        The other fields of a plan: features, classes, flags …
    """
    problems: list[str] = []
    n_classes, loss = len(columns.get("classes", ())), options.get("loss", Plan.loss)
    loss = "brier" if n_classes and is_value(loss, "squared") else loss
    options = {**options, "loss": loss}
    described: dict[str, Any] = {}
    listed: tuple[Candidate, ...] = ()
    space: Space = ()
    with gathered(problems):
        described = model_description(model, inputs, trusted)
        given = described["name"] == GIVEN
        if given or "inputs" in described:  # it gets them in their own units
            options["scale"] = False
        if given:
            options, listed = {"method": GIVEN, **options}, tuple(candidates or ())
        elif candidates is None and options.get("preset") is None:
            method = options.get("method")
            method = method if isinstance(method, str) else Plan.method  # what it is, is said below
            listed = default_candidates(described, method, trusted)
        else:
            listed, space = _asked_for(candidates, described["name"])
    with gathered(problems):
        if candidates is not None and not space and is_space(candidates):
            options |= {"search": None, "budget": None}  # what is wrong with it was said
        plan = Plan(model=described, candidates=listed, space=space, **columns, **options)
    if isinstance(loss, str):
        with gathered(problems):
            loss_named(loss, n_classes, own_losses)
    tried = listed or tuple(corners(space))
    if build and tried:  # if it alone is wrong, its own kind of error says more
        with gathered(problems) if problems else nullcontext():
            if described["name"] == "sklearn":
                _check_estimator(described, tried, n_classes, trusted)
            else:
                instantiate(described, tried, n_classes, trusted)
    if problems:
        raise ParameterError("\n".join(problems))
    return plan


def _asked_for(candidates: Any, name: str) -> tuple[tuple[Candidate, ...], Space]:
    """Candidates that a study lists, or the space from which they are drawn.

    Parameters
    ----------
    candidates : sequence, mapping, function or None
        None for those of a preset.
    name : str
        Of the model.
    """
    if candidates is None:
        return expand_candidates(name, THETA if name in LINEAR else None), ()
    if not is_space(candidates):
        return expand_candidates(name, spread_points(candidates)), ()
    space = described_space(candidates)
    for corner in corners(space):  # refuses wrong values
        checked_candidate(name, corner)
    return (), space


def _check_estimator(
    description: Mapping[str, Any],
    candidates: Sequence[Candidate],
    n_classes: int,
    trusted: Collection[str],
) -> None:
    try:
        model, built = instantiate(description, candidates, n_classes, trusted)
    except FedCSAError:
        raise
    except Exception as error:  # whatever a class says to parameters that it does not like
        raise ModelError(
            f"The model cannot be built from its parameters ({type(error).__name__}). "
            "Look up which parameters its class wants."
        ) from None
    from fedcsa.models.estimators import SklearnModel, check_takes_empty, weight_keyword  # slow

    if isinstance(model, SklearnModel):
        check_names(model.estimator, candidates)
        model.check_columns(built)
        check_takes_empty(model, built)
        if any(candidate.get(RATIO_POWER) for candidate in candidates):
            weight_keyword(model.estimator)
