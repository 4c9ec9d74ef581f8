"""How the report writes counts, names and losses. It computes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fedcsa.findings import number

#: The longest name in a chart; tables have it in full.
LONGEST = 28
_LOSSES = {
    "squared": ("mean squared error", "in squared units of the outcome"),
    "absolute": ("mean absolute error", "in units of the outcome"),
    "log": ("log loss", "the mean of −log of the probability given to what happened"),
    "brier": ("Brier score", "the mean squared error of the probabilities, between 0 and 1"),
    "zero-one": ("misclassification rate", "the share of rows with the wrong class"),
}


def known(value: float | None) -> str:
    """A number, or a dash.

    >>> known(2.0501), known(None)
    ('2.05', '—')
    """
    return "—" if value is None else number(value)


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def clean(text: object) -> str:
    """Text from elsewhere without control characters, which XML forbids."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def short(text: object, longest: int = LONGEST) -> str:
    """A name cut to fit into a chart.

    Parameters
    ----------
    text : object
    longest : int

    Examples
    --------
    >>> short("blood pressure"), short("a" * 50, 6)
    ('blood pressure', 'aaaaa…')
    """
    name = clean(text)
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def loss(name: str) -> tuple[str, str]:
    """The loss in words, and its unit."""
    return _LOSSES.get(name, (f"loss {clean(name)}", "in units of the study's own loss"))


def counted(how_many: int, noun: str) -> str:
    """A count with its noun.

    Parameters
    ----------
    how_many : int
    noun : str
        Of one.

    Examples
    --------
    >>> counted(1, "source"), counted(2, "source")
    ('1 source', '2 sources')
    """
    return f"{count(how_many)} {noun if how_many == 1 else noun + 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a row, and how many more there are.

    Parameters
    ----------
    names : sequence of str
    most : int

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(clean(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def sentence(text: str) -> str:
    """A text as a sentence; a formula at its beginning stays as it is.

    >>> sentence("sites agree"), sentence("p(y|x) moved"), sentence("")
    ('Sites agree.', 'p(y|x) moved.', '')
    """
    if not text:
        return ""
    first = text[0] if text.startswith("p(") else text[0].upper()
    return f"{first}{text[1:]}" + ("" if text.endswith(".") else ".")


def about_left_out(names: Sequence[str]) -> str:
    """A title for findings about sources on which the answer does not rest.

    >>> about_left_out(["far", "far"])
    'About one source that was left out, with less than 1 % of the weight: far'
    """
    which = sorted(set(names))
    who = "one source that was" if len(which) == 1 else f"{count(len(which))} sources that were"
    return f"About {who} left out, with less than 1 % of the weight: {listed(which)}"
