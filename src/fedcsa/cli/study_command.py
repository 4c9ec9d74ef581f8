"""``fedcsa study``: begin a study, or run it over a federation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from click.exceptions import Exit
from rich.text import Text

from fedcsa.cli.common import (
    Output,
    PasswordFile,
    ResultOut,
    StudyFile,
    argument,
    asking,
    fail,
    option,
)
from fedcsa.cli.program import Group
from fedcsa.cli.study_init import init
from fedcsa.cli.study_screen import StudyScreen, check_out, in_a_sentence, show_end
from fedcsa.errors import StudyError, unknown
from fedcsa.words import printable

if TYPE_CHECKING:
    from fedcsa.federation.kept import Ask, Ended, Kept, Shelf
    from fedcsa.federation.progress import StudyProgress
    from fedcsa.messages.messages import Conclusion

study = Group("study", "Begin a study, or run it over sites.")
study.adds(init)
NoWait = Annotated[
    bool, option("--no-wait", help="Ask once; exit code 8 if the study still waits.")
]
ShowPage = Annotated[
    bool, option("--page", help="Show a page on this machine, too; its link is printed.")
]


@study.adds
def submit(
    output: Output,
    study: Annotated[
        Path, argument(metavar="STUDY", help="The study file; its sources are sites.")
    ],
    kit: Annotated[Path, option(metavar="KIT", help="The lead's start-up kit.")],
    min_sources: Annotated[
        int, option(min=1, metavar="N", help="With fewer sources there is no model.")
    ] = 1,
    deadline: Annotated[
        int, option(min=1, metavar="S", help="Seconds that a step may take.")
    ] = 600,
    target: Annotated[
        str | None, option(metavar="NAME", help="The target, if there are several.")
    ] = None,
    wait: Annotated[
        str,
        option(
            metavar="TIME",
            help="How long to wait for approval at the sites, such as 14d, 12h or 0; then the "
            "study goes on without them.",
        ),
    ] = "14d",
    no_wait: NoWait = False,
    page: ShowPage = False,
    out: ResultOut = None,
    password_file: PasswordFile = None,
) -> None:
    """Run a study over the sites of a federation; the model stays at the target.

    Reads the study file and the kit; writes the numbers that the target shares into a folder.
    Where people at sites must approve it, the study waits, is kept in the kit, and is asked for
    again until they have decided. Nothing is disclosed twice, however often it is submitted.
    Exit code 4 if too few sources answered or the exchange failed, 5 if there is no model, 6 if
    the verdict is not to use it, 8 if it still waits (--no-wait), 9 if too many sites refused.

    Examples
    --------
    fedcsa study submit study.toml --kit kits/lead@example.org
    fedcsa study submit study.toml --kit kits/lead@example.org --wait 30d
    """
    from fedcsa.federation.flare import require_engine
    from fedcsa.federation.kept import Shelf, new_kept
    from fedcsa.site.agreed import AgreedStudy
    from fedcsa.study.model_section import agreed_text

    agreed = AgreedStudy(agreed_text(study))
    require_engine()
    from fedcsa.federation.flare.kits import Kit

    sites = Kit.load(kit).sites
    chosen = _target_of(sites, target)
    _check_sources(agreed.sources, sites, min_sources)
    out = out or Path(f"{study.stem}-result")
    check_out(out)
    kept = new_kept(Shelf(kit), agreed, chosen, min_sources, deadline, out, wait)
    screen = StudyScreen(quiet=output.quiet)
    raise Exit(_ask_for([kept], kit, screen, output, password_file, no_wait, page))


@study.adds
def watch(
    output: Output,
    kit: Annotated[Path, option(metavar="KIT", help="The lead's start-up kit.")],
    study: Annotated[
        str | None,
        argument(metavar="STUDY", help="Name or id of a study; by default all that wait."),
    ] = None,
    wait: Annotated[
        str | None,
        option(metavar="TIME", help="How much longer to wait, from now; 0 goes on at once."),
    ] = None,
    no_wait: NoWait = False,
    page: ShowPage = False,
    password_file: PasswordFile = None,
) -> None:
    """Take up the studies that wait for approval, until each has ended; show where they are.

    Reads the studies that are kept in the lead's kit, and asks for each at once: after a restart
    of this machine, or to go on where fedcsa study submit was stopped. Writes results where
    they were asked for. With --json, one object per line whenever something changes. Exit code
    as of fedcsa study submit; of several studies, the first that is not 0.

    Examples
    --------
    fedcsa study watch --kit kits/lead@example.org
    fedcsa study watch stroke --kit kits/lead@example.org --wait 0
    """
    from fedcsa.federation.flare import require_engine
    from fedcsa.federation.kept import Shelf, with_patience

    require_engine()
    shelf, output = Shelf(kit), replace(output, lines=True)
    studies = shelf.all() if study is None else [shelf.named(study)]
    if wait is not None:
        studies = [with_patience(kept, wait) for kept in studies]
    if not studies:
        output.say("No study waits here.")
        return
    screen = StudyScreen(quiet=output.quiet or output.json, output=output)
    raise Exit(_ask_for(studies, kit, screen, output, password_file, no_wait, page))


@study.adds
def forget(
    output: Output,
    study: Annotated[str, argument(metavar="STUDY", help="Name or id of the study.")],
    kit: Annotated[Path, option(metavar="KIT", help="The lead's start-up kit.")],
) -> None:
    """Give up a study that waits: it is not asked for any more.

    Deletes it from the lead's kit. What sites have sent stays with the target.

    Examples
    --------
    fedcsa study forget stroke --kit kits/lead@example.org
    """
    from fedcsa.federation.kept import Shelf
    from fedcsa.site.state import alone

    shelf = Shelf(kit)
    full = shelf.named(study).study
    with alone(shelf.folder(full)):
        shelf.remove(full)
    output.answer(
        {"study": full}, lambda screen: screen.print(Text(f"forgotten: {printable(full)}"))
    )


@partial(study.adds, name="id")
def show_id(output: Output, study: StudyFile) -> None:
    """Show the full id of a study, by which a site can approve it before it comes.

    Reads the study file. Whoever has the same file sees the same id.

    Examples
    --------
    fedcsa study id study.toml
    """
    from fedcsa.site.agreed import AgreedStudy
    from fedcsa.study.model_section import agreed_text

    full = AgreedStudy(agreed_text(study)).id
    output.answer({"study": full}, lambda screen: screen.print(Text(full)))


def _ask_for(
    studies: list[Kept],
    kit: Path,
    screen: StudyScreen,
    output: Output,
    password_file: Path | None,
    no_wait: bool,
    page: bool,
) -> int:
    """Ask for studies until they have ended; the exit code."""
    from fedcsa.federation.flare.certificates import unlocked
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.kept import Shelf, ask_until_ended
    from fedcsa.federation.progress import page_of, progress_of

    shelf, codes = Shelf(kit), []
    with ExitStack() as stack:
        for kept in studies:
            stack.enter_context(shelf.held(kept.study))
        stack.enter_context(unlocked(kit, Kit.load(kit).role, asking(password_file)))
        if page:
            link = stack.enter_context(page_of(lambda: screen.studies))
            screen.say(f"The page opens once, in a browser on this machine: {link}")
        ends = ask_until_ended(
            studies, shelf, _asker(kit, screen), lambda kept: screen.show(progress_of(kept)),
            once=no_wait,
        )  # fmt: skip
        for end in _shown(ends, screen, shelf, kit):
            if end.error is not None and len(studies) == 1:
                raise end.error
            codes.append(show_end(end, kit, output))
            screen.keep(_ended(end))
        if page:
            _stay(screen)
    return next((code for code in codes if code), 0)


def _ended(end: Ended) -> StudyProgress:
    """Where a study is that is no longer asked for."""
    from fedcsa.federation.progress import ended, progress_of

    if end.told is None and end.error is None:
        return progress_of(end.kept)
    done = end.told is not None and end.told.outcome == "done"
    return ended(end.kept, in_a_sentence(end), done=done)


def _stay(screen: StudyScreen) -> None:
    """Leave the page as it is until Ctrl-C: somebody may be reading it."""
    screen.say("The page stays until Ctrl-C.")
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(1.0)


def _shown(ends: Iterator[Ended], screen: StudyScreen, shelf: Shelf, kit: Path) -> Iterator[Ended]:
    """The ends of studies, their progress shown between them."""
    while True:
        try:
            with screen.shown():
                end = next(ends, None)
        except KeyboardInterrupt:
            if shelf.all():
                fail(f"What waits is kept. Go on with: fedcsa study watch --kit {kit}")
            else:
                fail(
                    "The study was ended at the server. To go on, submit it again with the same "
                    "command: sites answer what they have answered before, and disclose nothing "
                    "twice."
                )
            raise
        if end is None:
            return
        yield end


def _asker(kit: Path, screen: StudyScreen) -> Ask:
    """Asks for a study over the engine, with a key of its own for every question."""
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.flare.seal import KitSeal
    from fedcsa.federation.flare.session import Submission, open_conclusion, submit_study
    from fedcsa.federation.progress import running
    from fedcsa.messages.envelope import START, ask
    from fedcsa.site.agreed import AgreedStudy

    name = Kit.load(kit).participant

    def ask_engine(kept: Kept, wait: bool) -> tuple[dict[str, Any], Conclusion]:
        seal = KitSeal(kit / "startup")
        agreed = AgreedStudy(kept.text)
        start = ask(agreed.id, START, name, kept.target, seal)
        submission = Submission(
            agreed, kept.target, kept.min_sources, kept.deadline, start, seal, wait
        )
        board = submit_study(kit, submission, lambda seen: screen.show(running(kept, seen)))
        return board, open_conclusion(board, submission)

    return ask_engine


def _check_sources(names: Sequence[str], sites: Mapping[str, str], min_sources: int) -> None:
    """Raise a `StudyError` unless a study's sources are of this federation, and enough."""
    for name in names:
        if sites.get(name) != "source":
            sources = [site for site, role in sites.items() if role == "source"]
            raise StudyError(unknown("source of this federation", name, sources))
    if min_sources > len(names):
        raise StudyError(
            f"--min-sources must be at most {len(names)}, the study's own; "
            f"it is {min_sources}. Ask for fewer."
        )


def _target_of(sites: dict[str, str], wanted: str | None) -> str:
    targets = [name for name, role in sites.items() if role == "target"]
    if wanted is None and len(targets) == 1:
        return targets[0]
    if wanted is None:
        raise StudyError(f"The federation has several targets. Say which with --target: {targets}.")
    if wanted not in targets:
        raise StudyError(unknown("target", wanted, targets))
    return wanted
