"""A published model typed in as TOML ⇄ a `Formula`. Nothing in it is evaluated.

::

    title = "Mayo"                     # optional, as is source
    link = "logit"                     # identity, logit or log
    intercept = -6.8272
    [terms]
    age = 0.0391                       # a coefficient
    "smoking=ever" = 0.7917            # of a level
    creatinine = { coefficient = 1.1, at_least = 0.6, log = true }
    bmi = [0.2, { coefficient = -0.003, power = 2 }]
    pulse = { from = [90, 110], points = [1, 2] }

A points score has ``[risks]`` in place of a link: ``total`` and ``risk``, two lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedcsa.errors import StudyError, one_of
from fedcsa.models.given import FORMULA_LINKS, MAX_POWER, Formula, Term
from fedcsa.study.toml import Section, format_toml, kind_of, parse_toml, read_text


def load_formula(path: str | Path) -> Formula:
    """Read a formula file."""
    text = read_text(path, "formula", "Check the path.")
    return parse_formula(text, Path(path).name)


def parse_formula(text: str, origin: str) -> Formula:
    r"""Read the text of a formula file.

    Parameters
    ----------
    text : str
    origin : str
        Name of the file, for the sentences.

    Raises
    ------
    StudyError
        With one line for everything that is wrong, and where it stands.

    Examples
    --------
    >>> parse_formula("intercept = 1.5\n[terms]\nage = 0.1", "f.toml").terms[0].coefficient
    0.1
    """
    return formula_of(parse_toml(text, origin), f"{origin}:", text)


def formula_of(document: Mapping[str, Any], where: str, text: str = "") -> Formula:
    """The formula that TOML's tables mean, or a `StudyError` with one line per problem.

    Parameters
    ----------
    document : mapping
    where : str
        Begins every sentence.
    text : str
        Of the file, to find lines in.
    """
    top = Section(document, where)
    values = {key: top.take(key, "str", "") for key in ("title", "source")}
    link = top.take("link", "str", None)
    intercept = top.take("intercept", "float", 0.0)
    terms = top.take("terms", "Mapping[str, Any]")
    risks = top.take("risks", "Mapping[str, Any]", None)
    top.close()
    if link is not None and link not in FORMULA_LINKS:
        top.say(str(one_of("link", tuple(FORMULA_LINKS), link)))
    if link is not None and risks is not None:
        top.say("'link' must be left out beside [risks], which takes its place.")
    if terms == {}:
        top.say("[terms] must have at least one term.")
    if not math.isfinite(intercept):
        top.say("'intercept' must be finite.")
    found: list[Term | None] = []
    for column, value in (terms or {}).items():
        place = f"{where}{_at_line(text, column)} [terms] {column!r}"
        many = value if isinstance(value, list) else [value]
        if not many:
            top.problems.append(f"{place} must have at least one term.")
        found += [_term(column, item, place, top.problems) for item in many]
    totals: tuple[tuple[float, ...], tuple[float, ...]] = (), ()
    if risks is not None:
        totals = _risks(Section(risks, f"{where} [risks]", top.problems))
    top.end()
    sound = tuple(term for term in found if term is not None)
    return Formula(sound, float(intercept), link or "identity", *totals, **values)


def _at_line(text: str, key: str) -> str:
    r"""On which line of TOML `key` is set, in words; "" if it is not found.

    >>> _at_line("[terms]\nage = 1", "age")
    ' line 2,'
    """
    begins = re.compile(rf"""\s*(["']?){re.escape(key)}\1\s*=""")
    lines = enumerate(text.splitlines(), 1)
    return next((f" line {number}," for number, line in lines if begins.match(line)), "")


def _term(column: str, value: Any, where: str, problems: list[str]) -> Term | None:
    """One term, or None if something is wrong with it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = {"coefficient": value}
    if not isinstance(value, dict):
        problems.append(f"{where} must be a number, a table or a list; it is {kind_of(value)}.")
        return None
    before = len(problems)
    section = Section(value, where, problems)
    term = _points(column, section, value) if "points" in value else _curve(column, section)
    section.close()
    if len(problems) > before:
        return None
    numbers = (*term.bounds, *term.points, term.coefficient, term.plus, term.low or 0.0)
    if not all(map(math.isfinite, (*numbers, term.high or 0.0))):
        section.say("must have finite numbers.")
    return term


def _curve(column: str, section: Section) -> Term:
    """A coefficient times a transform of the column."""
    coefficient = section.take("coefficient", "float")
    low, high = (section.take(key, "float", None) for key in ("at_least", "at_most"))
    plus, log = section.take("plus", "float", 0.0), section.take("log", "bool", False)
    power = section.take("power", "int", 1)
    if not 1 <= power <= MAX_POWER:
        section.say(f"'power' must be from 1 to {MAX_POWER}.")
    if low is not None and high is not None and low > high:
        section.say("'at_least' must not be above 'at_most'.")
    return Term(column, float(coefficient or 0.0), low, high, float(plus), log, power)


def _points(column: str, section: Section, value: Mapping[str, Any]) -> Term:
    """Points for the bands of the column; a bound of 'above' belongs to the band below it."""
    key = "above" if "above" in value else "from"
    bounds, points = _numbers(section, key), _numbers(section, "points")
    if len(bounds) != len(points) or not bounds:
        section.say(f"{key!r} and 'points' must be lists of the same length, at least one.")
    if any(a >= b for a, b in pairwise(bounds)):
        section.say(f"{key!r} must rise.")
    if key == "above":
        bounds = tuple(math.nextafter(bound, math.inf) for bound in bounds)
    return Term(column, bounds=bounds, points=points)


def _risks(section: Section) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Totals, and the risk from every total on."""
    totals, risks = _numbers(section, "total"), _numbers(section, "risk")
    section.close()
    if len(totals) != len(risks) or not totals:
        section.say("'total' and 'risk' must be lists of the same length, at least one.")
    if not all(map(math.isfinite, totals)):
        section.say("'total' must have finite numbers.")
    if any(a >= b for a, b in pairwise(totals)):
        section.say("'total' must rise.")
    if not all(0.0 < risk < 1.0 for risk in risks):
        section.say(
            "'risk' must be above 0 and below 1: no patient's risk is nil. Write a small one."
        )
    return totals, risks


def _numbers(section: Section, key: str) -> tuple[float, ...]:
    """A number or a list of numbers."""
    listed: Sequence[Any] = section.take(key, "list", [])
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in listed):
        section.say(f"{key!r} must be a list of numbers.")
        return ()
    return tuple(float(v) for v in listed)


def formula_text(formula: Formula) -> str:
    """The text that `parse_formula` reads as `formula`.

    Examples
    --------
    >>> print(formula_text(Formula((Term("age", 0.1),), 1.5)))
    link = "identity"
    intercept = 1.5
    <BLANKLINE>
    [terms]
    age = 0.1
    <BLANKLINE>
    """
    document: dict[str, Any] = {
        key: getattr(formula, key) for key in ("title", "source") if getattr(formula, key)
    }
    if not formula.risks:
        document["link"] = formula.link
    document["intercept"] = formula.intercept
    terms: dict[str, list[Any]] = {}
    for term in formula.terms:
        terms.setdefault(term.column, []).append(_written(term))
    document["terms"] = {key: many[0] if len(many) == 1 else many for key, many in terms.items()}
    if formula.risks:
        document["risks"] = {"total": list(formula.totals), "risk": list(formula.risks)}
    return format_toml(document)


def write_formula(path: str | Path, formula: Formula) -> None:
    """Write a formula file.

    Parameters
    ----------
    path : path
    formula : Formula
    """
    try:
        Path(path).write_text(formula_text(formula), encoding="utf-8")
    except OSError as error:
        raise StudyError(
            f"The file {str(path)!r} cannot be written ({type(error).__name__}). Choose another."
        ) from None


def _written(term: Term) -> Any:
    """A term as its file has it."""
    if term.is_line:
        return term.coefficient
    if term.bounds:
        return {"from": list(term.bounds), "points": list(term.points)}
    told = {
        "coefficient": term.coefficient,
        "at_least": term.low,
        "at_most": term.high,
        "plus": term.plus or None,
        "log": term.log or None,
        "power": term.power if term.power != 1 else None,
    }
    return {key: value for key, value in told.items() if value is not None}
