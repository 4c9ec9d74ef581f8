"""``fedcsa study init``: a first study file, from tables or from a data dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from fedcsa.cli.common import (
    Force,
    Output,
    Screen,
    TablesQuery,
    TablesSheet,
    argument,
    option,
    out_option,
    print_unused,
    refuse_older,
    write_draft,
)
from fedcsa.errors import StudyError
from fedcsa.words import counted, listed, printable

if TYPE_CHECKING:
    from fedcsa.study.new_study import StudyDraft


def init(
    output: Output,
    tables: Annotated[
        list[Path] | None,
        argument(metavar="TABLES", help="Tables with outcomes, one per source."),
    ] = None,
    target: Annotated[
        Path | None,
        option(metavar="TABLE", help="The target's table; with --dictionary, its name."),
    ] = None,
    outcome: Annotated[
        str | None,
        option(
            metavar="NAME",
            help="The outcome's column; by default one that every source has and the target lacks.",
        ),
    ] = None,
    dictionary: Annotated[
        Path | None,
        option(metavar="CSV", help="Instead of tables: one line per column, name and kind."),
    ] = None,
    source: Annotated[
        list[str] | None,
        option(metavar="NAME", help="With --dictionary: a source; may be repeated."),
    ] = None,
    federation: Annotated[
        Path | None,
        option(metavar="FILE", help="With --dictionary: the federation file that names the sites."),
    ] = None,
    missing: Annotated[
        list[str] | None,
        option(metavar="TEXT", help="A further spelling of a missing cell; may be repeated."),
    ] = None,
    query: TablesQuery = "",
    sheet: TablesSheet = "",
    out: Annotated[Path, out_option("FILE", "The study file to write.")] = Path("study.toml"),
    force: Force = False,
) -> None:
    """Write a study file that runs, from tables of this machine or from a data dictionary.

    Looks at every column: numbers, flags, levels, dates, ids, patients with several rows, missing
    cells. Writes what it takes them for, with the reason at each, and a model for the outcome.
    Notes say what the tables do not agree on. A lead who sees no table gives a dictionary, a CSV
    file with the headings name, kind, levels (a|b|c), unit and others. It never overwrites
    an older file without --force (exit code 3).

    Examples
    --------
    fedcsa study init tables/*.csv --target tables/new.csv
    fedcsa study init leeds.csv turin.parquet --target new.csv --outcome died
    fedcsa study init *.csv --target new.csv --missing "?" --missing unknown
    fedcsa study init *.db --target new.db --query "SELECT * FROM s ORDER BY id"
    fedcsa study init --dictionary columns.csv --source leeds --source turin
    """
    refuse_older(out, force=force)
    from fedcsa.study import Study
    from fedcsa.study.new_study import draft_from_tables

    with output.working("looking at the columns"):
        if dictionary is not None and tables:
            raise StudyError("Name tables or a --dictionary, not both.")
        if dictionary is not None:
            draft = _from_dictionary(dictionary, target, outcome, source or [], federation)
        elif source or federation:
            raise StudyError("Sources are named after their tables: leave out --source.")
        elif not tables or target is None:
            raise StudyError("Name the sources' tables and the target's: TABLES --target TABLE")
        else:
            draft = draft_from_tables(
                _expanded(tables), target, outcome, out.parent, query=query, sheet=sheet,
                missing_values=missing or [],
            )  # fmt: skip
        text = draft.to_toml(out.name)
        # It must be read as what it means.
        Study.parse(text, folder=out.parent, origin=out.name).plan()
    write_draft(out, text)
    output.answer(_plain(draft, out), lambda screen: _print(screen, draft, out), out)


def _from_dictionary(
    dictionary: Path,
    target: Path | None,
    outcome: str | None,
    sources: list[str],
    federation: Path | None,
) -> StudyDraft:
    from fedcsa.federation.federation_file import Federation
    from fedcsa.study.data_dictionary import draft_from_dictionary

    name = None if target is None else str(target)
    if federation is not None:
        sites = Federation.load(federation).sites
        sources = sources or [site for site, role in sites.items() if role == "source"]
        name = name or next(site for site, role in sites.items() if role == "target")
    return draft_from_dictionary(dictionary, sources, name or "new", outcome)


def _expanded(tables: list[Path]) -> list[Path]:
    """The files that patterns stand for, where the shell has not looked: on Windows."""
    found = [[] if path.exists() else sorted(path.parent.glob(path.name)) for path in tables]
    return [own for path, paths in zip(tables, found, strict=True) for own in paths or [path]]


def _plain(draft: StudyDraft, out: Path) -> dict[str, Any]:
    outcome = draft.outcome
    return {
        "file": str(out),
        "outcome": {"name": outcome.name, "levels": list(outcome.levels), "why": draft.outcome_why},
        "features": {f.name: f.kind for f in draft.columns.features},
        "target": dict(draft.target),
        "sources": {name: dict(place) for name, place in draft.sources.items()},
        "notes": list(draft.notes),
        "unused": list(draft.unused),
    }


def _print(screen: Screen, draft: StudyDraft, out: Path) -> None:
    from rich.table import Table

    from fedcsa.study.new_study import place_name, why

    outcome = draft.outcome
    kind = f"levels {', '.join(map(str, outcome.levels))}" if outcome.levels else "a number"
    told = f"Outcome {outcome.name!r}, {kind}: {draft.outcome_why}."
    screen.say(printable(told))
    names = listed([*draft.sources], len(draft.sources))
    told = f"{counted(len(draft.sources), 'source')}: {names}. Target: {place_name(draft.target)}."
    screen.say(printable(told))
    shown = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("column", "kind", "why"):
        shown.add_column(heading)
    for feature in draft.columns.features:
        shown.add_row(
            Text(printable(feature.name)),
            feature.kind,
            Text(printable(why(feature, draft.seen)), style="dim"),
        )
    screen.print(shown)
    for note in draft.notes:
        screen.say(printable(note), "note: ", "yellow")
    print_unused(screen, draft.unused)
    then = f"fedcsa check {out}"
    if not draft.seen:  # the tables are at the sites
        then = f"fedcsa federation provision (once), and fedcsa study submit {out} --kit KIT"
    screen.say(f"\nWritten to {out}. Look at it, then: {then}")
