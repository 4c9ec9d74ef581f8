"""What every page on this machine looks like: the answer's style, one frame, forms."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fedcsa.answer.templates import page_asset, templates
from fedcsa.words import counted, printable

if TYPE_CHECKING:
    import jinja2

#: Files that every page loads: address -> (kind, the files of this program that it is made of)
FILES: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "/style.css": (
        "text/css", (("fedcsa.answer", "style.css"), ("fedcsa.loopback", "pages.css")),
    ),
    "/live.js": ("text/javascript", (("fedcsa.loopback", "live.js"),)),
}  # fmt: skip
#: Seconds in a unit of time, and the most seconds that are told in it.
_UNITS = (("second", 1, 90), ("minute", 60, 5400), ("hour", 3600, 129_600), ("day", 86_400, None))


@dataclass(frozen=True)
class Shown:
    """A page to show.

    Attributes
    ----------
    template : str
        ``"package:file"``, such as ``"fedcsa.site:overview.html.jinja"``. It extends
        ``"fedcsa.loopback:layout.html.jinja"``.
    facts : mapping
        What the template shows. Every text of it is escaped.
    status : int
        Of HTTP.
    """

    template: str
    facts: Mapping[str, Any]
    status: int = 200


def file_content(address: str) -> tuple[str, str]:
    """Kind and content of one of `FILES`."""
    kind, parts = FILES[address]
    return kind, "\n".join(page_asset(package, name) for package, name in parts)


def rendered(shown: Shown, base: str, csrf: str) -> str:
    """A page as text.

    Parameters
    ----------
    shown : Shown
    base : str
        What every address on the page begins with.
    csrf : str
        What every form on the page sends back.
    """
    template = _environment().get_template(shown.template)
    return template.render(**shown.facts, base=base, csrf=csrf, version=version("fedcsa"))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = templates()
    environment.filters |= {
        "printable": printable, "lines": _printable_lines, "moment": _moment, "ago": _ago,
    }  # fmt: skip
    return environment


def _printable_lines(text: str) -> str:
    """Text of several lines without any other control character."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _moment(time: str) -> str:
    """A time of a log as people write it."""
    return printable(time[:16].replace("T", " "))


def _ago(time: str) -> str:
    """How long ago a time of a log is; nothing if it is no time.

    >>> _ago("no time")
    ''
    """
    try:
        then = datetime.fromisoformat(time)
        seconds = max((datetime.now(UTC) - then).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return ""
    unit, length, _ = next(u for u in _UNITS if u[2] is None or seconds < u[2])
    return f"{counted(int(seconds // length), unit)} ago"
