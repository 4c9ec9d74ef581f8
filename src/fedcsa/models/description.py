"""A model in plain values: names, how an estimator is told and built, checks of what came.

It names no class of ours, so that messages and policies may read a description.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcsa.errors import ModelError, UntrustedError, hint

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array

#: One hyperparameter setting: parameter name -> plain value.
Candidate: TypeAlias = Mapping[str, Any]
#: The parameter γ that every model with sample weights understands: training weights r(x)^γ.
RATIO_POWER = "ratio_power"
#: The parameter θ of a candidate.
PENALTY = "penalty"
RIDGE, WEIGHTED = LINEAR = "ridge", "weighted-least-squares"
#: The name of a model that nobody fits.
GIVEN = "given"
#: What a description may hold besides its name.
DESCRIBED = ("title", "sha256", "column", "class")
#: Functions of one cell, by the name that numpy gives them.
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    name: getattr(np, name) for name in ("log", "log1p", "sqrt", "square", "exp", "expm1", "abs")
}
#: Of one model in all: 2²³ numbers are 64 MB, far more than a model that keeps its rows' secrets.
MAX_NUMBERS = 1 << 23
#: Links that turn scores into an outcome of numbers, and of classes.
NUMBER_LINKS = ("identity", "log")
CLASS_LINKS = ("logistic", "softmax", "probabilities")
#: Types of values that are plain already.
_PLAIN = frozenset({float, int, str, bool, type(None)})
#: Arrays that follow from the study's words, and those of indices, hold nothing of the rows.
_AGREED = ("step", "feature", "powers", "levels", "sizes", "dropped", "knots", "constant")


def given_description(title: str = "", **told: str) -> dict[str, str]:
    """What a plan says of a given model.

    Parameters
    ----------
    title : str
        What it is called.
    **told : str
        One of ``sha256``, ``column`` and ``class``.

    Examples
    --------
    >>> given_description("EWS", column="ews")
    {'name': 'given', 'title': 'EWS', 'column': 'ews'}
    """
    return {"name": GIVEN, **({"title": title} if title else {}), **told}


def given_column(description: Mapping[str, Any]) -> str:
    """The study's name of the column of predictions that is judged; ``""`` if it is a model."""
    return str(description.get("column", "")) if description.get("name") == GIVEN else ""


def describe(value: Any) -> Any:
    """Plain values (None, bool, int, float, str, list, dict) that `build` turns back.

    >>> from sklearn.linear_model import Lasso
    >>> describe(Lasso(alpha=0.5))
    {'class': 'sklearn.linear_model.Lasso', 'parameters': {'alpha': 0.5}}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [describe(item) for item in value]}
    if isinstance(value, list):
        return [describe(item) for item in value]
    if isinstance(value, np.ndarray):
        return [describe(item) for item in value.tolist()]
    if function_name(value):
        return {"function": f"numpy.{function_name(value)}"}
    if isinstance(value, slice):
        return {"slice": [describe(value.start), describe(value.stop), describe(value.step)]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: describe(item) for key, item in value.items()}}
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _describe_estimator(value)
    raise ModelError(
        f"A model must be made of numbers, texts, lists and estimators to be sent to a source; "
        f"it holds an object of type {_full_name(type(value))}. "
        "Leave that parameter out."
    )


def build(description: Any, trusted: Collection[str] = ()) -> Any:
    """Make the value that `describe` described.

    Parameters
    ----------
    description : plain values
        As `describe` gives them.
    trusted : collection of str
        Full names of classes outside scikit-learn that may be built.
    """
    if type(description) in (float, int, str, bool):  # most values of a long list of candidates
        return description
    if isinstance(description, Mapping):
        if set(description) == {"tuple"} and isinstance(description["tuple"], list | tuple):
            return tuple(build(item, trusted) for item in description["tuple"])
        if set(description) == {"dict"} and isinstance(description["dict"], Mapping):
            return {key: build(item, trusted) for key, item in description["dict"].items()}
        if set(description) == {"function"}:
            return _function(description["function"])
        if set(description) == {"slice"} and len(description["slice"]) == 3:
            return slice(*(build(item, trusted) for item in description["slice"]))
        if set(description) == {"class", "parameters"}:
            return _build_estimator(description, trusted)
        raise ModelError("A model description must name a class and its parameters.")
    if isinstance(description, list | tuple):
        return [build(item, trusted) for item in description]
    return description


def _function(name: Any) -> Any:
    """One of numpy's functions that have a format of ours."""
    package, _, own = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if package != "numpy" or own not in FUNCTIONS:
        raise ModelError(f"A model's function must be one of numpy's {', '.join(FUNCTIONS)}.")
    return FUNCTIONS[own]


def build_parameters(parameters: Candidate, trusted: Collection[str] = ()) -> dict[str, Any]:
    """Parameters as the model takes them, estimators among their values made again.

    A cache on disk is refused: it would write files, and read back whatever lies there.

    Parameters
    ----------
    parameters : Candidate
        Of an estimator, or of a candidate.
    trusted : collection of str
        Classes outside scikit-learn that a value may use.
    """
    for key, value in parameters.items():
        if key.rpartition("__")[2] == "memory" and value is not None:
            raise ModelError("A model must not keep a cache on disk; leave 'memory' out.")
    return {key: build(value, trusted) for key, value in parameters.items()}


def _describe_estimator(estimator: Any) -> dict[str, Any]:
    cls = type(estimator)
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
    }
    parameters = {}
    for name, value in sorted(estimator.get_params(deep=False).items()):
        default = defaults.get(name, inspect.Parameter.empty)
        plain = value is None or isinstance(value, bool | int | float | str)
        if value is default or (plain and type(value) is type(default) and value == default):
            continue
        parameters[name] = describe(value)
    return {"class": _public_name(cls), "parameters": parameters}


def _build_estimator(description: Mapping[str, Any], trusted: Collection[str]) -> Any:
    """The estimator that a description names, if its class is known and trusted here.

    Parameters
    ----------
    description : mapping
        With a class and its parameters.
    trusted : collection of str
        Full names of classes outside scikit-learn that may be built.
    """
    name = description["class"]
    if not isinstance(name, str) or not isinstance(description["parameters"], Mapping):
        raise ModelError("A model description must name a class and its parameters.")
    module, _, attribute = name.rpartition(".")
    if module.split(".")[0] != "sklearn" and name not in trusted:
        raise UntrustedError(
            f"A model must be built from scikit-learn's classes or from classes declared as "
            f"trusted; {name[:100]!r} is neither. Add it to trusted_types if you know it."
        )
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        raise ModelError(
            f"The class {name[:100]!r} is not installed at this site. Check its name, or install "
            "its package at every site."
        ) from None
    if not inspect.isclass(cls) or not hasattr(cls, "get_params"):
        raise ModelError(
            f"{name[:100]!r} is not the class of an estimator. Name a class with fit and predict."
        )
    if name not in trusted and name != _public_name(
        cls
    ):  # a policy goes by names, so a class has only one
        raise ModelError(
            f"{name[:100]!r} must be called by its own name, {_public_name(cls)!r}. Use that one."
        )
    parameters = build_parameters(description["parameters"], trusted)
    known = set(inspect.signature(cls.__init__).parameters)
    strange = sorted(set(parameters) - known)
    if strange:
        meant = hint(strange[0], known - {"self"})
        raise ModelError(f"{name[:100]!r} has no parameter {strange[0][:60]!r}. {meant}")
    try:
        return cls(**parameters)
    except TypeError:
        raise ModelError(
            f"{name[:100]!r} must be given all its required parameters. Look up which it has."
        ) from None


def _public_name(cls: type) -> str:
    """``sklearn.linear_model.Lasso`` rather than a name with a private module in it."""
    parts = cls.__module__.split(".")
    private = [index for index, part in enumerate(parts) if part.startswith("_")]
    for length in range(1, (private or [0])[0] + 1):  # packages that hold it, the outermost first
        public = ".".join(parts[:length])
        try:
            found = getattr(importlib.import_module(public), cls.__name__, None)
        except ImportError:  # also of a package that loads its parts only when asked
            continue
        if found is cls:
            return f"{public}.{cls.__name__}"
    return _full_name(cls)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def function_name(function: Any) -> str:
    """The name of a function of numpy's that has a format, or ""."""
    return next((name for name, known in FUNCTIONS.items() if known is function), "")


# What came from elsewhere: one named error for whatever is wrong with it ------------------------


def damaged(rule: str) -> ModelError:
    """The error for a model that does not obey `rule`."""
    return ModelError(
        f"A received model must have {rule}. "
        "Ask the source which version of fedcsa it runs, or leave it out."
    )


def no_format(estimator: Any) -> ModelError:
    """The error for a fitted estimator that cannot travel."""
    name = type(estimator).__name__
    return ModelError(f"{name} has no format of ours. Use an estimator that has one.")


def take(
    arrays: Mapping[str, Any], name: str, dtype: type, shape: Sequence[int | None]
) -> NDArray[Any]:
    """One array of a model, if its type, shape and values are what they must be.

    Parameters
    ----------
    arrays : mapping of str to array
    name : str
    dtype : type
        ``np.float64`` or ``np.int32``.
    shape : sequence of int or None
        None for any length.
    """
    array = arrays.get(name)
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != len(shape):
        raise damaged(f"an array {name!r} of {len(shape)} dimension(s) of {dtype.__name__}")
    fits = all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits or array.size > MAX_NUMBERS:
        raise damaged(f"an array {name!r} of the agreed shape")
    if dtype is np.float64 and not np.isfinite(array).all():
        raise damaged(f"finite numbers in {name!r}")
    return array


def exactly(form: Mapping[str, Any], names: Collection[str], what: str) -> None:
    """Refuse words or arrays that are missing, and those that nobody asked for.

    Parameters
    ----------
    form : mapping
        Words or arrays by name.
    names : collection of str
        All that must be there.
    what : str
        How to call them.
    """
    if not isinstance(form, Mapping) or set(form) != set(names):
        raise damaged(f"the {what} of its format, no others")


def whole_numbers(values: Any, below: int, rule: str) -> tuple[int, ...]:
    """The values as whole numbers from 0 up, below a bound.

    Parameters
    ----------
    values : sequence of int
        As it came.
    below : int
    rule : str
        What they must be, in words.
    """
    listed = isinstance(values, list | tuple)
    if not listed or not all(type(v) is int and 0 <= v < below for v in values):
        raise damaged(rule)
    return tuple(values)


def thaw(value: Any) -> Any:
    """Dictionaries and lists from the read-only mappings and tuples inside a message."""
    if type(value) in _PLAIN:  # most values of a long list of candidates, hence first
        return value
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [thaw(item) for item in value]
    return value


def check_link(form: Mapping[str, Any], n_classes: int) -> tuple[str, tuple[int, ...]]:
    """Link and classes of a form, if they suit the study's outcome.

    Parameters
    ----------
    form : mapping
        With a link and, for scores of classes, the codes of the classes that the source knows.
    n_classes : int
        Of the study's outcome; 0 for numbers.
    """
    link, known = form.get("link"), CLASS_LINKS if n_classes else NUMBER_LINKS
    if not isinstance(link, str) or link not in known:
        raise damaged("a link of the study's outcome")
    classes = whole_numbers(form.get("classes"), max(n_classes, 1), "classes of the study")
    enough = {"logistic": len(classes) == 2, "softmax": len(classes) >= 3}
    if classes != tuple(sorted(set(classes))) or not enough.get(link, not classes):
        raise damaged("as many distinct classes as its link needs")
    return link, classes


def count_parameters(arrays: Mapping[str, NDArray[Any]]) -> int:
    """How many numbers a model holds that were fitted: all but what the study's words fix.

    Examples
    --------
    >>> count_parameters({"coefficients": np.ones(3), "intercept": np.ones(1), "step": np.ones(3)})
    4
    """
    return sum(array.size for name, array in arrays.items() if not is_agreed_array(name))


def is_agreed_array(name: str) -> bool:
    """Whether the array of this name follows from the study's words alone.

    >>> is_agreed_array("step"), is_agreed_array("step0.0.knots"), is_agreed_array("step0.0.shift")
    (True, True, False)
    """
    return name.rpartition(".")[2] in _AGREED


def must_agree(holds: object, what: str) -> None:
    """Raise a `ModelError` that names `what` unless it holds.

    Parameters
    ----------
    holds : object
    what : str
    """
    if not holds:
        raise another_model(what)


def another_model(what: str) -> ModelError:
    """The error for a model that is not the one that was agreed."""
    return ModelError(
        f"A received model must be the one that was agreed; its {what} is another. "
        "Ask the source which version of fedcsa it runs, or leave it out."
    )


def known_classes(form: Mapping[str, Any], n_classes: int) -> list[int]:
    """Classes of a form; a source that has not seen one of two cannot fit a model.

    Parameters
    ----------
    form : mapping
    n_classes : int
    """
    classes = list(form.get("classes", range(n_classes)))
    must_agree(
        len(classes) == n_classes or (n_classes > 2 and len(classes) >= 2), "number of classes"
    )
    return classes
