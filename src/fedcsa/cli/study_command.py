"""``fedcsa study``: begin a study, or run it over a federation."""

from __future__ import annotations

import base64
import json as jsonlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_DO_NOT_USE,
    EXIT_EXCHANGE,
    EXIT_MODEL,
    Json,
    Output,
    PasswordFile,
    Quiet,
    asking,
    console,
    fail,
    follow,
    is_plain,
    named_errors,
    read_study_text,
    unbroken,
)
from fedcsa.cli.program import Command, Group
from fedcsa.cli.report_command import report_line
from fedcsa.cli.study_init import init
from fedcsa.errors import BindingError, MessageError, ResultError, StudyError, unknown
from fedcsa.words import printable

if TYPE_CHECKING:
    from fedcsa.federation.flare.session import Submission
    from fedcsa.messages.messages import Conclusion
    from fedcsa.site.agreed import AgreedStudy
    from fedcsa.target.adaptation import Adaptation

study = typer.Typer(
    name="study", cls=Group, no_args_is_help=True, help="Begin a study, or run it over sites."
)
study.command(cls=Command)(init)
_EXITS = {"no_overlap": EXIT_DO_NOT_USE, "no_model": EXIT_MODEL}
_PHASES = {
    "greet": "1 of 3", "announce": "1 of 3", "risk": "1 of 3", "choose": "1 of 3",
    "model": "2 of 3", "mix": "2 of 3",
    "examine": "3 of 3", "again": "3 of 3", "conclude": "3 of 3",
}  # fmt: skip


@study.command(cls=Command)
@named_errors
def submit(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="The study file; its sources are sites.")
    ],
    kit: Annotated[Path, typer.Option(metavar="KIT", help="The lead's start-up kit.")],
    min_sources: Annotated[
        int, typer.Option(min=1, metavar="N", help="With fewer sources there is no model.")
    ] = 1,
    deadline: Annotated[
        int, typer.Option(min=1, metavar="S", help="Seconds that a step may take.")
    ] = 600,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="The target, if there are several.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for the result; by default STUDY-result, after the file.",
        ),
    ] = None,
    password_file: PasswordFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a study over the sites of a federation; the model stays at the target.

    Reads the study file and the kit; writes the numbers that the target shares into a folder.
    Nothing is disclosed twice, however often it is submitted. Exit code 4 if too few sources
    answered or the exchange failed, 5 if there is no model, 6 if the verdict is not to use it.

    Examples
    --------
    fedcsa study submit study.toml --kit kits/lead@example.org
    fedcsa study submit study.toml --kit kits/lead@example.org --min-sources 3
    """
    from fedcsa.federation.flare import require_engine
    from fedcsa.site.agreed import AgreedStudy

    agreed = AgreedStudy(read_study_text(study))
    require_engine()
    from fedcsa.federation.flare.keys import unlocked
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.flare.seal import KitSeal
    from fedcsa.federation.flare.session import Submission, submit_study
    from fedcsa.messages.envelope import START, ask

    about = Kit.load(kit)
    sites = about.sites
    chosen = _target_of(sites, target)
    for name in agreed.sources:
        if sites.get(name) != "source":
            sources = [site for site, role in sites.items() if role == "source"]
            raise StudyError(unknown("source of this federation", name, sources))
    if min_sources > len(agreed.sources):
        raise StudyError(
            f"--min-sources must be at most {len(agreed.sources)}, the study's own; "
            f"it is {min_sources}. Ask for fewer."
        )
    out = out or Path(f"{study.stem}-result")
    _check_out(out)
    with unlocked(kit, about.role, asking(password_file)):
        seal = KitSeal(kit / "startup")
        start = ask(agreed.id, START, about.participant, chosen, seal)
        submission = Submission(agreed, chosen, min_sources, deadline, start, seal)
        with _progress(chosen, quiet=quiet) as watch:
            board = submit_study(kit, submission, watch)
        told = open_conclusion(board, submission)
    _finish(told, board, agreed, chosen, out, Output(json, quiet))


def open_conclusion(board: Mapping[str, Any], submission: Submission) -> Conclusion:
    """What the target itself said of this very submission, whatever carried it here."""
    from fedcsa.messages.codec import MAX_BYTES, decode, digest
    from fedcsa.messages.envelope import END, Envelope, check_seal, open_closed, reply
    from fedcsa.messages.messages import Conclusion
    from fedcsa.site.opening import Bounds, opener, unsafe_message

    wire, closed = base64.b64decode(board["envelope"]), base64.b64decode(board["conclusion"])
    envelope, expected = Envelope.from_bytes(wire), reply(submission.start, END)
    check_seal(wire, submission.target, submission.seal)
    meant = replace(expected, nonce=envelope.nonce, digest=digest(closed))
    if replace(envelope, in_reply_to=expected.in_reply_to) != meant:
        raise BindingError(
            "other_study", "The target ended another study than this one. Submit it again."
        )
    if envelope.in_reply_to != submission.start.nonce:
        raise BindingError(
            "replayed",
            "The target answered an earlier submission. Submit the study again.",
        )
    payload = open_closed(envelope, closed, submission.seal)
    unsafe = opener().try_out(payload, Bounds(MAX_BYTES))
    if unsafe:
        raise unsafe_message(unsafe, submission.target)
    told = decode(payload)
    if not isinstance(told, Conclusion):
        raise BindingError("phase_order", "A study must end with a conclusion. Submit it again.")
    summary = bytes(told.summary)
    if summary and digest(summary) != told.result:
        raise MessageError("The result was changed on its way. Ask the target for it.")
    return told


def _finish(
    told: Conclusion,
    board: dict[str, Any],
    agreed: AgreedStudy,
    target: str,
    out: Path,
    output: Output,
) -> None:
    """Keep what the target told, show it, and end with the exit code of its verdict."""
    from fedcsa.answer.store import restore

    summary = bytes(told.summary)
    plain = {
        "study": agreed.id, "outcome": told.outcome, "sources": dict(told.sources),
        "target": target, "result": told.result, "attempts": board["attempts"],
        "seconds": board["seconds"], "bytes": board["bytes"],
    }  # fmt: skip
    with unbroken():
        _save(out, agreed, plain, summary)
        line = report_line(out)

    answer = restore(jsonlib.loads(summary), out) if summary and told.outcome == "done" else None

    def show(screen: Console) -> None:
        _print(screen, plain, answer, out)
        screen.print(Text(line), soft_wrap=True)

    output.answer(plain, show, out)
    if told.outcome != "done":
        fail(_reason(told.outcome, target))
        raise typer.Exit(_EXITS.get(told.outcome, EXIT_EXCHANGE))
    if answer is not None:
        follow(answer.verdict)


def _reason(rule: str, target: str) -> str:
    if rule == "min_sources":
        return "Too few sources answered, so there is no model. Lower --min-sources, or wait."
    if rule == "no_overlap":
        return "No source resembles the target, so there is no answer worth giving."
    return f"The target {target!r} ended the study under the rule {rule!r}."


def _save(out: Path, agreed: AgreedStudy, plain: dict[str, Any], summary: bytes) -> None:
    _check_out(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "study.toml").write_text(agreed.text, encoding="utf-8")
    text = jsonlib.dumps(plain, indent=1, ensure_ascii=False)
    (out / "federation.json").write_text(text + "\n", encoding="utf-8")
    (out / "adaptation.json").unlink(missing_ok=True)
    if summary:
        (out / "adaptation.json").write_bytes(summary)


def _check_out(out: Path) -> None:
    known = ("adaptation.json", "federation.json")
    if out.exists() and any(out.iterdir()) and not any((out / n).is_file() for n in known):
        raise ResultError(
            f"The folder {str(out)!r} holds other files than a result. Choose another."
        )


def _print(screen: Console, plain: dict[str, Any], answer: Adaptation | None, out: Path) -> None:
    from fedcsa.answer.terminal import print_view
    from fedcsa.answer.view import view_of

    if answer is not None:
        print_view(screen, view_of(answer))
        screen.print()
    table = Table(title="Answers", title_justify="left", title_style="bold")
    for heading in ("source", "what became of it"):
        table.add_column(heading)
    for name, fate in sorted(plain["sources"].items()):
        table.add_row(Text(printable(name)), Text(printable(fate)))
    screen.print(table)
    if plain["outcome"] == "done":
        screen.print(Text(f"\nThe model stays at {plain['target']}. Numbers in {out}."))


@contextmanager
def _progress(target: str, *, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """One line a site, rewritten on a terminal; elsewhere one line a change; on standard error."""
    screen = console(stderr=True)
    said: dict[str, str] = {}

    def plain(board: dict[str, Any]) -> None:
        for name, text in _lines(board, target).items():
            if said.get(name) != text:
                said[name] = text
                screen.print(Text(f"{printable(name)}: {printable(text)}"), soft_wrap=True)

    if quiet:
        yield lambda _: None
    elif not sys.stderr.isatty() or is_plain():
        yield plain
    else:
        from rich.live import Live

        with Live(console=screen, transient=True, refresh_per_second=4) as live:
            yield lambda board: live.update(_grid(_lines(board, target)))


def _lines(board: dict[str, Any], target: str) -> dict[str, str]:
    step = board.get("step", "")
    if step == "again":
        return {"study": f"{board['problem']} Submitting again, attempt {board['attempt']}."}
    if step == "scheduling":
        return {"study": "waiting to be scheduled"}
    phase = f"phase {_PHASES[step]}, {step}" if step in _PHASES else step
    sites = board.get("sites", {})
    return {"study": phase, **{n if n != target else f"{n} (target)": t for n, t in sites.items()}}


def _grid(lines: dict[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        grid.add_row(Text(printable(name), style="bold"), Text(printable(text)))
    return grid


def _target_of(sites: dict[str, str], wanted: str | None) -> str:
    targets = [name for name, role in sites.items() if role == "target"]
    if wanted is None and len(targets) == 1:
        return targets[0]
    if wanted is None:
        raise StudyError(f"The federation has several targets. Say which with --target: {targets}.")
    if wanted not in targets:
        raise StudyError(unknown("target", wanted, targets))
    return wanted
