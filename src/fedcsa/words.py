"""How numbers and names are written, on a terminal, in a notebook and on a page alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The longest name in a chart; tables have it in full.
LONGEST = 28


def number(value: float | None) -> str:
    """Three digits, and all digits before the point; a dash for what is not known.

    >>> number(0.21049), number(-6.18), number(5200.4), number(2.5e-9), number(None)
    ('0.21', '-6.18', '5200', '2.5e-09', '—')
    """
    if value is None:
        return "—"
    return f"{value:.0f}" if 999.5 <= abs(value) < 1e7 else f"{value:.3g}"


def shown_probability(probability: float) -> str:
    """A probability; nobody needs the digits of one that is nearly certain or nearly nothing.

    >>> shown_probability(0.196), shown_probability(3.97e-5), shown_probability(1.0)
    ('0.196', 'below 0.001', 'above 0.999')
    """
    if probability < 0.001:
        return "below 0.001"
    return "above 0.999" if probability > 0.999 else number(probability)


def percent(share: float) -> str:
    """A share, to a tenth of a percent.

    >>> percent(0.95), percent(0.403444), percent(1e-5)
    ('95 %', '40.3 %', '0 %')
    """
    return f"{round(100.0 * share, 1):g} %"


def interval(lower: float | None, upper: float | None) -> str:
    """An interval, or a dash.

    >>> interval(0.8412, 2.049), interval(None, None)
    ('0.841 to 2.05', '—')
    """
    return "—" if lower is None or upper is None else f"{number(lower)} to {number(upper)}"


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:,.0f}"


def counted(how_many: int, noun: str) -> str:
    """A count with its noun, which is given in the singular.

    >>> counted(1, "source"), counted(2, "source")
    ('1 source', '2 sources')
    """
    return f"{count(how_many)} {noun if how_many == 1 else noun + 's'}"


def printable(text: object) -> str:
    """Text from elsewhere without control characters: a terminal would obey, XML forbids them."""
    told = str(text)
    if told.isprintable():
        return told
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in told)


def short(text: object, longest: int = LONGEST) -> str:
    """A name cut to fit into a chart.

    >>> short("blood pressure"), short("a" * 50, 6)
    ('blood pressure', 'aaaaa…')
    """
    name = printable(text)
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first names in a row, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(map(printable, names[:most]))
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


def candidate_text(candidate: Mapping[str, Any]) -> str:
    """A candidate as people write it.

    >>> candidate_text({"penalty": 0.1, "ratio_power": 1.0})
    'penalty 0.1, ratio_power 1'
    """
    parts = [
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in candidate.items()
    ]
    return printable(", ".join(parts) or "as given")
