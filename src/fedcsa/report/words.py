"""How the report writes numbers, names and losses. It computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The longest name in a chart; tables have it in full.
LONGEST = 28
_LOSSES = {
    "squared": ("mean squared error", "in squared units of the outcome"),
    "absolute": ("mean absolute error", "in units of the outcome"),
    "log": ("log loss", "the mean of −log of the probability given to what happened"),
    "brier": ("Brier score", "the mean squared error of the probabilities, between 0 and 1"),
    "zero-one": ("misclassification rate", "the share of rows with the wrong class"),
}


def number(value: float | None) -> str:
    """A number with three significant digits.

    >>> [number(x) for x in (2.0501, -0.6, 246.2, 999.7, 12345.6, 0.0, 1.2e-7, None)]
    ['2.05', '−0.600', '246', '1,000', '12,346', '0', '1.20e−07', '—']
    """
    if value is None:
        return "—"
    text = f"{value:,.0f}" if 999.5 <= abs(value) < 1e7 else f"{value:#.3g}".removesuffix(".")
    text = "0" if value == 0.0 else text
    return text.replace("-", "\N{MINUS SIGN}")


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def percent(value: float) -> str:
    """A share.

    >>> percent(0.4034), percent(8.7e-06)
    ('40.3%', '0.0%')
    """
    return f"{value:.1%}"


def interval(lower: float | None, upper: float | None) -> str:
    """An interval, or a dash.

    >>> interval(1.4812, 2.7296), interval(None, None)
    ('1.48 to 2.73', '—')
    """
    return "—" if lower is None or upper is None else f"{number(lower)} to {number(upper)}"


def clean(text: object) -> str:
    """Text from elsewhere without control characters, which XML forbids."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def short(text: object, longest: int = LONGEST) -> str:
    """A name cut to fit into a chart.

    >>> short("blood pressure"), short("a" * 50, 6)
    ('blood pressure', 'aaaaa…')
    """
    name = clean(text)
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def candidate(values: Mapping[str, Any]) -> str:
    """A candidate as people write it.

    >>> candidate({"penalty": 0.1, "ratio_power": 1.0})
    'penalty 0.1, ratio_power 1'
    """
    return ", ".join(f"{clean(key)} {parameter(value)}" for key, value in values.items()) or (
        "as given"
    )


def parameter(value: Any) -> str:
    """The value of a parameter."""
    numeric = isinstance(value, float) and not isinstance(value, bool)
    return f"{value:.4g}" if numeric else clean(value)


def loss(name: str) -> tuple[str, str]:
    """The loss in words, and its unit."""
    return _LOSSES.get(name, (f"loss {clean(name)}", "in units of the study's own loss"))


def unknown_if_shared(combine: str) -> str:
    """Why there is no risk under a shared p(y|x), where there is none.

    >>> unknown_if_shared("median")
    'not known for a median of the models'
    """
    return f"not known for {'a median of the models' if combine == 'median' else 'this loss'}"


def counted(how_many: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> counted(1, "source"), counted(2, "source")
    ('1 source', '2 sources')
    """
    return f"{count(how_many)} {one if how_many == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a row, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(clean(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def about_left_out(names: Sequence[str]) -> str:
    """A title for findings about sources on which the answer does not rest.

    >>> about_left_out(["far", "far"])
    'About one source that was left out, with less than 1% of the weight: far'
    """
    which = sorted(set(names))
    who = "one source that was" if len(which) == 1 else f"{count(len(which))} sources that were"
    return f"About {who} left out, with less than 1% of the weight: {listed(which)}"
