"""Where studies are and how they ended, on the terminal, for ``fedcsa study``."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_DO_NOT_USE,
    EXIT_EXCHANGE,
    EXIT_MODEL,
    EXIT_REFUSED,
    EXIT_WAITING,
    Output,
    Screen,
    code_of,
    console,
    fail,
    is_plain,
    unbroken,
)
from fedcsa.cli.report_command import report_line
from fedcsa.errors import ResultError
from fedcsa.words import listed, printable

if TYPE_CHECKING:
    from fedcsa.federation.kept import Ended, Kept
    from fedcsa.federation.progress import StudyProgress
    from fedcsa.messages.messages import Conclusion
    from fedcsa.target.adaptation import Adaptation

_EXITS = {"no_overlap": EXIT_DO_NOT_USE, "no_model": EXIT_MODEL}


class StudyScreen:
    """Shows on standard error where studies are: rewritten on a terminal, else a line a change.

    A line is printed once: a study that waits goes through the same steps at every question.

    Parameters
    ----------
    quiet : bool
    output : Output, optional
        If it is for a program, every change is a line of JSON on standard output, too.
    """

    def __init__(self, *, quiet: bool, output: Output | None = None) -> None:
        self._console = console(stderr=True)
        self._quiet = quiet
        self._output = output
        self._live: Live | None = None
        self._said: set[tuple[str, str, str]] = set()
        #: By id; a page shows them, too.
        self.studies: dict[str, StudyProgress] = {}

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw meanwhile, if this is a terminal that can be drawn on."""
        if self._quiet or is_plain() or not sys.stderr.isatty():
            yield
            return
        with Live(console=self._console, transient=True, refresh_per_second=4) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def say(self, text: str) -> None:
        """Tell a person something, also one who wants no progress."""
        self._console.say(text)

    def keep(self, progress: StudyProgress) -> None:
        """Let the page show where a study is; the terminal shows its end elsewhere."""
        self.studies = {**self.studies, progress.study: progress}

    def show(self, progress: StudyProgress) -> None:
        """Show where a study is."""
        before = self.studies.get(progress.study)
        self.keep(progress)
        if self._output is not None and self._output.json and progress != before:
            self._output.line(asdict(progress), "")
        if self._live is not None:
            self._live.update(Group(*map(_grid, self.studies.values())))
        elif not self._quiet:
            self._print_changes(progress)

    def _print_changes(self, progress: StudyProgress) -> None:
        head = _name(progress) if len(self.studies) > 1 else ""
        for name, text in _lines(progress).items():
            if (progress.study, name, text) not in self._said:
                self._said.add((progress.study, name, text))
                label = f"{head}, {name}" if head and name else head or name or "study"
                self._console.say(f"{label}: {text}")


def _name(progress: StudyProgress) -> str:
    return printable(progress.study.rpartition("@")[0])


def _lines(progress: StudyProgress) -> dict[str, str]:
    """What there is to say of a study, under no name, and of its sites."""
    lines = {"": printable(progress.text)}
    if progress.state == "waiting":
        lines[""] += f" {_times(progress)}"
    for site in progress.sites:
        since = f", since {moment(site.since)}" if site.since and site.waits else ""
        lines[printable(site.name)] = f"{printable(site.what)}{since}"
    return lines


def _times(progress: StudyProgress) -> str:
    """Since when a study waits, when it was asked for last, and how long it waits."""
    since = min((site.since for site in progress.sites if site.waits), default="")
    told = {"since": since, "asked last": progress.asked, "until": progress.until}
    words = ", ".join(f"{word} {moment(time)}" for word, time in told.items() if time)
    return f"{words[:1].upper()}{words[1:]} at most."


def _grid(progress: StudyProgress) -> Table:
    grid = Table.grid(padding=(0, 2))
    lines = _lines(progress)
    if progress.state == "waiting":
        lines[""] += f" Next question at {moment(progress.next)}."
    for name, text in lines.items():
        grid.add_row(Text(name or _name(progress), style="bold"), Text(text))
    return grid


def moment(time: str) -> str:
    """A time of a log, in this machine's zone, to the minute.

    Parameters
    ----------
    time : str
        In ISO format.
    """
    from datetime import datetime

    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return printable(time)


# How a study ended --------------------------------------------------------------------------


def show_end(end: Ended, kit: Path, output: Output) -> int:
    """Keep what the target told of a study, show it; the exit code.

    Parameters
    ----------
    end : Ended
    kit : Path
    output : Output
    """
    if end.error is not None:
        fail(f"{end.kept.study}: {end.error}")
        return code_of(end.error)
    if end.told is None:
        return _show_waiting(end.kept, kit, output)
    return _show_told(end.told, end.kept, end.board, output)


def in_a_sentence(end: Ended) -> str:
    """What came of a study."""
    if end.error is not None:
        return str(end.error)
    if end.told is None:
        return f"It waits for approval at {listed(end.kept.waiting)}."
    if end.told.outcome != "done":
        return reason(end.told, end.kept.target)
    return f"It is done. The report is {Path(end.kept.out) / 'report.html'}."


def _show_waiting(kept: Kept, kit: Path, output: Output) -> int:
    from fedcsa.federation.progress import progress_of

    progress = progress_of(kept)

    def show(screen: Screen) -> None:
        screen.print(_answers(dict(kept.sources)))
        text = f"{progress.text} Go on with: fedcsa study watch --kit {kit}"
        screen.say(printable(text))

    output.answer({"outcome": "waiting", **asdict(progress)}, show)
    return EXIT_WAITING


def _show_told(told: Conclusion, kept: Kept, board: dict[str, Any], output: Output) -> int:
    from fedcsa.answer.store import restore

    out, summary = Path(kept.out), bytes(told.summary)
    plain = {
        "study": kept.study, "outcome": told.outcome, "sources": dict(told.sources),
        "target": kept.target, "result": told.result, "attempts": board["attempts"],
        "seconds": board["seconds"], "bytes": board["bytes"],
    }  # fmt: skip
    with unbroken():
        _save(out, kept.text, plain, summary)
        line = report_line(out)
    answer = restore(jsonlib.loads(summary), out) if summary and told.outcome == "done" else None

    def show(screen: Screen) -> None:
        _print(screen, plain, answer, out)
        screen.say(line)

    output.answer(plain, show, out)
    if told.outcome != "done":
        fail(reason(told, kept.target))
        return _EXITS.get(told.outcome, EXIT_REFUSED if _all_refused(told) else EXIT_EXCHANGE)
    return EXIT_DO_NOT_USE if answer is not None and answer.verdict.advice == "no" else 0


def _all_refused(told: Conclusion) -> bool:
    """Whether a study has too few sources because those that are missing refused."""
    fates = [fate for fate in told.sources.values() if fate != "answered"]
    return told.outcome == "min_sources" and all("refused: " in fate for fate in fates)


def reason(told: Conclusion, target: str) -> str:
    """Why a study ended without a result, and what to do.

    Parameters
    ----------
    told : Conclusion
    target : str
    """
    if _all_refused(told):
        names = [name for name, fate in sorted(told.sources.items()) if fate != "answered"]
        return f"Too few sources are left, because these refused: {listed(names)}."
    if told.outcome == "min_sources":
        return "Too few sources answered, so there is no model. Lower --min-sources, or wait."
    if told.outcome == "no_overlap":
        return "No source resembles the target, so there is no answer worth giving."
    return f"The target {target!r} ended the study under the rule {told.outcome!r}."


def _save(out: Path, text: str, plain: dict[str, Any], summary: bytes) -> None:
    check_out(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "study.toml").write_text(text, encoding="utf-8")
    about = jsonlib.dumps(plain, indent=1, ensure_ascii=False)
    (out / "federation.json").write_text(about + "\n", encoding="utf-8")
    (out / "adaptation.json").unlink(missing_ok=True)
    if summary:
        (out / "adaptation.json").write_bytes(summary)


def check_out(out: Path) -> None:
    """Raise a `ResultError` if a folder holds something other than a result."""
    known = ("adaptation.json", "federation.json")
    if out.exists() and any(out.iterdir()) and not any((out / n).is_file() for n in known):
        raise ResultError(
            f"The folder {str(out)!r} holds other files than a result. Choose another."
        )


def _print(screen: Screen, plain: dict[str, Any], answer: Adaptation | None, out: Path) -> None:
    from fedcsa.answer.terminal import print_view
    from fedcsa.answer.view import view_of

    if answer is not None:
        print_view(screen, view_of(answer))
        screen.print()
    screen.print(_answers(plain["sources"]))
    if plain["outcome"] == "done":
        screen.print(Text(f"\nThe model stays at {plain['target']}. Numbers in {out}."))


def _answers(sources: dict[str, str]) -> Table:
    from fedcsa.federation.progress import fate_in_words

    table = Table(title="Answers", title_justify="left", title_style="bold")
    for heading in ("source", "what became of it"):
        table.add_column(heading)
    for name, fate in sorted(sources.items()):
        table.add_row(Text(printable(name)), Text(printable(fate_in_words(fate))))
    return table
