"""``fedcsa site``: run a site, and decide what leaves it."""

from __future__ import annotations

import getpass
import json as jsonlib
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from rich.console import RenderableType
from rich.text import Text

from fedcsa.cli.common import (
    Force,
    Output,
    PasswordFile,
    Screen,
    StudyFile,
    TablesQuery,
    TablesSheet,
    argument,
    asking,
    option,
    out_option,
    refuse_older,
    write_draft,
)
from fedcsa.cli.ledger_command import fields_table
from fedcsa.cli.program import Group
from fedcsa.errors import ProtocolError, StudyError
from fedcsa.words import printable

if TYPE_CHECKING:
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.site.new_site import SiteDraft
    from fedcsa.site.state import Status

site = Group("site", "Run a site of a federation.")
Data = Annotated[Path, option("--data", metavar="SITE", help="The site's own file.")]
Port = Annotated[
    int, option("--page-port", metavar="PORT", help="Port of the page; by default a free one.")
]
SITE_FILE = Path("site.toml")
#: A running site is looked at so often, in seconds.
_TICK = 0.2


@site.adds
def page(
    output: Output,
    kit: Annotated[Path, argument(metavar="KIT", help="This site's start-up kit.")],
    data: Data = SITE_FILE,
    page_port: Port = 0,
) -> None:
    """Serve the steward's page on this machine, until Ctrl-C, for a site that runs or not.

    The page shows what waits, what would leave and what left, and takes decisions. Prints a link
    that opens it once; run the command again for another link. Only a browser on this machine
    can open it.

    Examples
    --------
    fedcsa site page kits/abbey --data site.toml
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.flare.process import until_stopped
    from fedcsa.site.site_file import SiteFile

    SiteFile.load(data)
    about = Kit.load(kit)
    with until_stopped() as stopped, steward_page(kit, data, about, page_port, output):
        while not stopped.wait(_TICK):
            pass


@contextmanager
def steward_page(kit: Path, data: Path, about: Kit, port: int, output: Output) -> Iterator[None]:
    """Serve the page of a site within a block, and say how to open it.

    Parameters
    ----------
    kit, data : Path
        The site's kit and its own file.
    about : Kit
    port : int
        Zero for a free one.
    output : Output
    """
    from fedcsa.loopback import require_page

    require_page()
    from fedcsa.federation.flare.doctor import engine_runs
    from fedcsa.loopback.pages import served
    from fedcsa.site.steward_page import StewardPage

    shown = StewardPage(data, about.participant, lambda: engine_runs(kit), _user())
    again = "For another link, run: fedcsa site page KIT --data SITE"
    try:
        with served(shown.views, again, port) as guard:
            link = guard.new_link()
            text = f"The page opens once, in a browser on this machine: {link}"
            output.line({"page": link}, text)
            if output.quiet and not output.json:
                click.echo(link)
            yield
    finally:
        shown.end()


def _user() -> str:
    """Who runs this command; empty where the system knows no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@site.adds
def init(
    output: Output,
    table: Annotated[Path | None, argument(metavar="TABLE", help="This site's table.")] = None,
    study: Annotated[
        Path | None, option(metavar="STUDY", help="A study to compare the table with.")
    ] = None,
    query: TablesQuery = "",
    sheet: TablesSheet = "",
    out: Annotated[Path, out_option("FILE", "The site file to write.")] = SITE_FILE,
    force: Force = False,
) -> None:
    """Write a commented site file: its table, its columns, its policy.

    Looks at the table, if one is named. With --study, it enters columns that have another name
    in the table, and says which columns and levels do not fit. Nothing leaves. It never
    overwrites an older file without --force (exit code 3).

    Examples
    --------
    fedcsa site init patients.csv                        # writes site.toml
    fedcsa site init patients.csv --study study.toml --out abbey/site.toml
    fedcsa site init stays.duckdb --query "SELECT * FROM stays ORDER BY id"
    """
    from fedcsa.site.new_site import draft_site
    from fedcsa.study import Study
    from fedcsa.study.new_study import place_in

    refuse_older(out, force=force)
    draft = draft_site(
        None if table is None else place_in(out.parent, table, query, sheet),
        out.parent,
        None if study is None else Study.load(study),
    )
    write_draft(out, draft.text)
    output.answer(
        {"file": str(out), "role": draft.role, "notes": list(draft.notes)},
        lambda screen: _print_draft(screen, draft, out),
        out,
    )


def _print_draft(screen: Screen, draft: SiteDraft, out: Path) -> None:
    if draft.role:
        screen.print(Text(f"In this study the site would be a {draft.role}."))
    for note in draft.notes:
        screen.say(printable(note), "note: ", "yellow")
    screen.say(f"Written to {out}. The strict rules are in force.")
    screen.say(f"What would leave: fedcsa site preview STUDY --data {out}")


@site.adds
def start(
    output: Output,
    kit: Annotated[Path, argument(metavar="KIT", help="This site's start-up kit.")],
    data: Data = SITE_FILE,
    password_file: PasswordFile = None,
    with_page: Annotated[
        bool, option("--page", help="Serve the steward's page, too: see fedcsa site page.")
    ] = False,
    page_port: Port = 0,
) -> None:
    """Run this site in the foreground, until Ctrl-C; say what it is doing.

    Reads its file and its table; keeps its log in its state folder. With --json, one object a
    line: time, study, text. Ctrl-C is the ordinary end (exit code 0); 4 if the engine ends by
    itself. With --page, prints a link that opens the steward's page once.

    Examples
    --------
    fedcsa site start kits/abbey --data site.toml
    fedcsa site start kits/abbey --data site.toml --page
    """
    from fedcsa.federation.flare import require_engine
    from fedcsa.site.log import SiteLog
    from fedcsa.site.site_file import SiteFile
    from fedcsa.site.state import Status, alone

    folder = SiteFile.load(data).state_folder
    require_engine()
    from fedcsa.federation.flare.certificates import unlocked
    from fedcsa.federation.flare.kits import Kit

    about = Kit.load(kit)
    _check_kit(kit, about.role)
    with alone(folder), alone(kit), unlocked(kit, about.role, asking(password_file)):
        log = SiteLog(folder)
        log.check_site(about.participant)
        log.check_kit(kit)
        port = page_port if with_page else None
        _run_engine(kit, data, about, Status(folder), output, port)


def _check_kit(kit: Path, role: str) -> None:
    from fedcsa.federation.flare.hardening import problems_of

    if role not in ("source", "target"):
        raise ProtocolError(
            f"{str(kit)!r} is the kit of a {role}, not of a site. "
            "Name the folder with this site's name."
        )
    problems = problems_of(kit, role)
    if problems:
        raise ProtocolError("\n".join(problems))


def _run_engine(
    kit: Path, data: Path, about: Kit, status: Status, output: Output, port: int | None
) -> None:
    """Run the engine until Ctrl-C, and print what the site says meanwhile; a page if it has a port.

    Parameters
    ----------
    kit, data : Path
    about : Kit
    status : Status
    output : Output
    port : int or None
    """
    from fedcsa.federation.flare.doctor import PID
    from fedcsa.federation.flare.process import EngineProcess, until_stopped
    from fedcsa.federation.flare.settings import write_settings

    seen = len(status.lines())
    status.say(f"connecting to {about.host}:{about.port}")
    write_settings(kit, data)
    with (
        until_stopped() as stopped,
        EngineProcess(kit, about) as process,
        nullcontext() if port is None else steward_page(kit, data, about, port, output),
    ):
        (kit / PID).write_text(f"{process.pid}\n")
        while not stopped.is_set() and process.poll() is None:
            lines = status.lines(seen)
            for line in lines:
                study = f"{printable(line['study'])}: " if line["study"] else ""
                output.line(line, f"{line['time'][11:19]} {study}{printable(line['text'])}")
            seen += len(lines)
            time.sleep(_TICK)
        ended = process.poll()
    (kit / PID).unlink(missing_ok=True)
    if not stopped.is_set():
        raise ProtocolError(
            f"The site's engine ended by itself, with code {ended}. See {kit / 'engine.log'}."
        )


@site.adds
def preview(
    output: Output,
    study: StudyFile,
    data: Data = SITE_FILE,
    values: Annotated[
        bool, option("--values", help="Show the values, too, rounded as they would leave.")
    ] = False,
) -> None:
    """Show which numbers would leave this site in a study, over all three phases.

    Reads the study file, the site's file and its table; sends and writes nothing.

    Examples
    --------
    fedcsa site preview study.toml --data site.toml
    fedcsa site preview study.toml --data site.toml --values
    """
    from fedcsa.site.preview import preview as look
    from fedcsa.site.site_file import SiteFile
    from fedcsa.study.model_section import agreed_text

    with output.working("looking at what would leave"):
        found = look(agreed_text(study), SiteFile.load(data))
    output.answer(found, lambda screen: _print(screen, found, data, values))


def _print(screen: Screen, found: dict[str, Any], data: Path, values: bool) -> None:
    from fedcsa.site.account import STAND_IN, search_sentence

    screen.print(Text.assemble("Study ", (printable(found["study"]), "bold")))
    screen.print(Text(f"This site would be a {found['role']}."))
    if found["role"] == "target":
        screen.print(Text(f"It would tell {found['numbers_about_rows']} numbers about its rows."))
    for message in found["messages"]:
        screen.print(_message_table(message, values))
    _print_attacks(screen, found)
    for text in found["refusals"]:
        screen.print(Text.assemble(("refused: ", "bold yellow"), printable(text)), soft_wrap=True)
    if found["messages"]:
        screen.print(Text("This site's file would let these leave, and nothing else."))
    if found["search"]:
        screen.say(search_sentence(found["search"]))
    known = all(message["exact"] for message in found["messages"])
    if not known:
        screen.say(f"{STAND_IN} {_TO_SEE}")
    if found["role"] == "source" and found["messages"]:
        when = "at once" if known else "before their values are known"
        command = f"fedcsa site approve {shlex.quote(found['study'])} --data {data}"
        screen.say(f"To approve all of them {when}: {command}")


#: What to do to see values, too.
_TO_SEE = (
    "With approve = true in the site's file the study waits here, and a preview then shows the "
    "very values of the first message."
)


def _message_table(message: dict[str, Any], values: bool) -> RenderableType:
    title = f"{message['message']} to {message['to']}"
    title += "" if message["exact"] else " (the question has not come: a stand-in)"
    rows = []
    for item in message["fields"]:
        told = printable(jsonlib.dumps(item["value"], ensure_ascii=False))
        what = f"{item['meaning']}:\n{told}" if values else item["meaning"]
        rows.append((item["name"], item["numbers"], what, item["computed_from"]))
    return fields_table(title, rows)


def _print_attacks(screen: Screen, found: dict[str, Any]) -> None:
    """What attacks on this site's model reached, whether it would leave or not."""
    from fedcsa.site.account import attack_sentences

    if found["certificate"] is None:
        return
    screen.print(Text("This site's own attacks on its model", style="bold"))
    for sentence in attack_sentences(found["certificate"], found["max_membership_auc"]):
        screen.say(f"  {sentence}")


@site.adds
def approve(
    output: Output,
    study: Annotated[str, argument(metavar="STUDY", help="Name or id of the study.")],
    data: Data = SITE_FILE,
    refuse: Annotated[bool, option("--refuse", help="Refuse it instead.")] = False,
    reason: Annotated[
        str, option(metavar="TEXT", help="Why, on one line; kept in the site's log.")
    ] = "",
    tell: Annotated[
        bool, option("--tell", help="Tell the target and the lead the reason of a refusal.")
    ] = False,
) -> None:
    """Let a study that waits at this site go on, or refuse it: once, for all its messages.

    Writes the decision into the site's log, where the site finds it when it is asked next: the
    study may wait for days. One that was approved can be refused later: what has not left yet
    stays. A full id, as fedcsa study id and the preview show it, can be decided on before the
    study comes: then it does not wait. Exit code 3 if no study of this name waits here.

    Examples
    --------
    fedcsa site approve demo --data site.toml
    fedcsa site approve demo --refuse --reason "not in our protocol" --tell
    """
    from fedcsa.site.log import SiteLog
    from fedcsa.site.site_file import SiteFile

    decision = "refused" if refuse else "approved"
    log = SiteLog(SiteFile.load(data).state_folder)
    if tell and not (refuse and reason):
        raise StudyError("--tell is for the reason of a refusal: give --refuse and --reason, too.")
    full = log.decide(study, decision, getpass.getuser(), reason, tell=tell)
    came = log.has_come(full)
    told = f"{decision}: {printable(full)}" + ("" if came else f"\n{_UNSEEN[decision]}")
    output.tell({"study": full, "decision": decision, "has_come": came}, told)


#: What follows where no study of that id has come.
_UNSEEN = {
    "approved": "No study of this id has come here. If one comes, its values leave unseen.",
    "refused": "No study of this id has come here. If one comes, it is refused.",
}
