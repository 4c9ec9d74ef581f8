"""``fedcsa explain NAME``."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import Json, Output, Quiet, named_errors
from fedcsa.errors import ParameterError, unknown
from fedcsa.findings import CATALOGUE, SEVERITIES
from fedcsa.refusals import REFUSAL_RULES
from fedcsa.words import sentence


def _offered(begun: str) -> list[tuple[str, str]]:
    """What a shell offers after `begun`."""
    return [(name, about["meaning"]) for name, about in _all().items() if name.startswith(begun)]


@named_errors
def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A finding or a rule; without one, all.", autocompletion=_offered
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say what a finding means, or the rule of a refusal, and what to do about it.

    A finding is a named danger of a result, such as other-unit. A rule is the one word by which
    a site, or an error, says why it refused, such as row_floors. Without a name, all are listed.

    Examples
    --------
    fedcsa explain no-overlap
    fedcsa explain row_floors
    fedcsa explain                      # all of them
    """
    known = _all()
    if name is None:
        Output(json, quiet).answer(known, lambda screen: _list(screen, known))
        return
    found = {key: about for key, about in known.items() if _bare(key) == _bare(name)}
    if name in known and name != _bare(name):  # spelled in full: that one alone
        found = {name: known[name]}
    if not found:
        raise ParameterError(_misspelt(name, known))
    Output(json, quiet).answer(found, lambda screen: _print(screen, found))


def _bare(name: str) -> str:
    """A name without what people do not remember: case, dashes, underscores and blanks."""
    return re.sub(r"[-_\s]", "", name).lower()


def _all() -> dict[str, dict[str, str]]:
    """Findings, the gravest first, and then rules: kind, meaning, advice."""
    found = sorted(CATALOGUE.items(), key=lambda item: SEVERITIES.index(item[1][0]))
    findings = {
        code: {"kind": severity, "meaning": sentence(meaning), "advice": sentence(advice)}
        for code, (severity, meaning, advice) in found
    }
    rules = {
        rule: {"kind": "rule", "meaning": sentence(meaning), "advice": sentence(advice)}
        for rule, (meaning, advice) in REFUSAL_RULES.items()
    }
    return {**findings, **rules}


def _misspelt(name: str, known: dict[str, Any]) -> str:
    said = unknown("finding or rule", name[:60], [*known])
    return (
        said
        if "Did you mean" in said
        else f"{said.partition('. Known')[0]}. All: fedcsa explain. Other words: docs/glossary.md"
    )


def _print(screen: Console, found: dict[str, dict[str, str]]) -> None:
    for place, (name, about) in enumerate(found.items()):
        screen.print(Text.assemble("\n" if place else "", (name, "bold"), f" ({about['kind']})"))
        screen.print(Text(about["meaning"]))
        screen.print(Text(f"What to do: {about['advice']}"))


def _list(screen: Console, known: dict[str, dict[str, str]]) -> None:
    for title, kinds in (("Findings", SEVERITIES), ("Rules of refusals and errors", ("rule",))):
        shown = Table(title=title, title_justify="left", title_style="bold", box=None)
        for heading in ("name", "meaning") if kinds == ("rule",) else ("name", "kind", "meaning"):
            shown.add_column(heading)
        for name, about in known.items():
            if about["kind"] in kinds:
                kind = () if kinds == ("rule",) else (about["kind"],)
                shown.add_row(Text(name, style="bold"), *kind, Text(about["meaning"]))
        screen.print(shown)
        screen.print()
    screen.print(Text("What to do about one of them: fedcsa explain NAME"))
