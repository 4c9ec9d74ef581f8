"""What the commands share: options, errors as exit codes, answers, progress."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from click.exceptions import Exit
from rich.console import Console
from rich.text import Text

from fedcsa.errors import (
    BindingError,
    FedCSAError,
    MessageError,
    ModelError,
    NoOverlapError,
    ProtocolError,
    ResultError,
    StudyError,
    unknown,
)
from fedcsa.words import counted, listed, printable

if TYPE_CHECKING:
    from fedcsa.data.coding import Columns
    from fedcsa.study import Study
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.verdict import Verdict

EXIT_INPUT, EXIT_EXCHANGE, EXIT_MODEL, EXIT_DO_NOT_USE, EXIT_BROKEN = 3, 4, 5, 6, 7
#: Of a study between sites: it waits for people, or too many sites refused.
EXIT_WAITING, EXIT_REFUSED = 8, 9
#: As shells count: 128 and the number of the signal.
EXIT_INTERRUPTED, EXIT_UNREAD = 130, 141
#: What to do about a message that is not as it must be.
_SAME_VERSION = "Try again; if it recurs, compare fedcsa --version at every site."

#: Seconds between two lines about the fits of one source, where nothing can be drawn anew.
_LINE_EVERY = 10.0

# Parameters of commands ---------------------------------------------------------------------


@dataclass(frozen=True)
class Declared:
    """An option or an argument, as an annotation of a function's parameter.

    Attributes
    ----------
    argument : bool
        Whether it has a place instead of a name.
    names : tuple of str
        Of an option; by default the parameter's.
    settings : mapping
        ``help``, ``metavar``, ``min`` (of a whole number), ``envvar``, ``shell_complete``.
    """

    argument: bool
    names: tuple[str, ...]
    settings: Mapping[str, Any]


def option(*names: str, **settings: Any) -> Declared:
    """An option, such as ``option("--out", "-o", metavar="DIR", help="…")``."""
    return Declared(argument=False, names=names, settings=settings)


def argument(**settings: Any) -> Declared:
    """An argument, such as ``argument(metavar="STUDY", help="…")``."""
    return Declared(argument=True, names=(), settings=settings)


def out_option(metavar: str, help: str) -> Declared:
    """The option ``--out``: a file or a folder to write."""
    return option("--out", "-o", metavar=metavar, help=help)


StudyFile = Annotated[
    Path, argument(metavar="STUDY", help="The study file, for example study.toml.")
]
ResultFolder = Annotated[
    Path, argument(metavar="RESULT", help="A result folder, as fedcsa run writes it.")
]
RowsPlace = Annotated[
    str,
    argument(
        metavar="ROWS",
        type=click.Path(),
        help="A table: CSV, TSV, Parquet, Excel; or with --query a DuckDB or SQLite file, or the "
        "address of a PostgreSQL server.",
    ),
]
RowsQuery = Annotated[
    str, option("--query", metavar="SQL", help="The query, if ROWS is a database.")
]
RowsSheet = Annotated[
    str, option("--sheet", metavar="NAME", help="The sheet, if ROWS is a workbook.")
]
TablesQuery = Annotated[
    str, option("--query", metavar="SQL", help="The query for tables that are databases.")
]
TablesSheet = Annotated[
    str, option("--sheet", metavar="NAME", help="The sheet of tables that are workbooks.")
]
ResultOut = Annotated[
    Path | None,
    out_option("DIR", "Folder for the result; by default STUDY-result, named after the file."),
]
Force = Annotated[bool, option("--force", help="Overwrite an older file.")]
Seed = Annotated[int, option(metavar="N", help="Seed of the patients and the folds.", min=0)]
NoReport = Annotated[
    bool,
    option(
        "--no-report", help="Write numbers and models only; fedcsa report writes the report later."
    ),
]
PasswordFile = Annotated[
    Path | None,
    option(
        metavar="FILE",
        envvar="FEDCSA_PASSWORD_FILE",
        help="File with the password of the kit's key; without it, the terminal asks you.",
    ),
]
Changes = Annotated[
    list[str] | None,
    option(
        "--set",
        metavar="NAME=VALUE",
        help="Override an option of the study file, such as level=0.9; may be repeated.",
    ),
]
Preset = Annotated[
    str | None,
    option(
        "--preset",
        metavar="NAME",
        help="Options that go together; 'paper' is Algorithm 1 of the paper as printed.",
    ),
]
Trust = Annotated[
    list[str] | None,
    option(
        metavar="TYPE",
        help="Full name of a class outside scikit-learn that the model may use; may be repeated.",
    ),
]


def asking(file: Path | None, *, twice: bool = False) -> Callable[[], str]:
    """A function that reads the password of a kit's key, from a file or from the terminal.

    Parameters
    ----------
    file : Path or None
        Its first line counts.
    twice : bool
        Whether to ask again, for a password that is new.
    """

    def read() -> str:
        if file is not None:
            try:
                return file.read_text(encoding="utf-8").partition("\n")[0]
            except (OSError, ValueError):
                raise StudyError(
                    f"The password file {str(file)!r} cannot be read. Name another."
                ) from None
        if not sys.stdin.isatty():
            raise StudyError(
                "A password locks the key of this kit. Name a file with it: --password-file FILE"
            )
        asked = "Password of the kit's key"
        return str(click.prompt(asked, hide_input=True, confirmation_prompt=twice, err=True))

    return read


# Answers ------------------------------------------------------------------------------------


class Screen(Console):
    """A console that leaves it to `named_errors` what happens when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise BrokenPipeError from None

    def say(self, text: str, mark: str = "", style: str = "") -> None:
        """A text that is not folded, after a word in a style of its own."""
        self.print(Text.assemble((mark, style), text), soft_wrap=True)


@dataclass(frozen=True)
class Output:
    """How a command answers: to a person, to a program, or as briefly as it can.

    Attributes
    ----------
    json, quiet : bool
        The options of every command.
    lines : bool
        Whether an answer in JSON is one line of several.
    """

    json: bool
    quiet: bool
    lines: bool = False

    def answer(
        self, content: Any, show: Callable[[Screen], None], path: Path | None = None
    ) -> None:
        """Give the answer: `content` as JSON, or what `show` prints, or only the bare `path`."""
        if self.json and self.lines:
            self.line(content, "")
        elif self.json:
            print_json(content)
        elif not self.quiet:
            show(console())
        elif path is not None:
            click.echo(path)

    def answer_problems(
        self, content: Any, show: Callable[[Screen], None], problems: Collection[str]
    ) -> None:
        """Give the answer, of problems also if `quiet`; then end with their exit code."""
        replace(self, quiet=self.quiet and not problems).answer(content, show)
        if problems:
            raise Exit(EXIT_INPUT)

    def tell(self, content: Any, text: str, path: Path | None = None) -> None:
        """Give an answer that is a text to a person."""
        self.answer(content, lambda screen: screen.say(text), path)

    def line(self, content: Mapping[str, Any], text: str) -> None:
        """Say one thing of many at once: `content` as a line of JSON, or else `text`."""
        if self.json:
            click.echo(json.dumps(content, ensure_ascii=False))
            sys.stdout.flush()
        else:
            self.say(text)

    def say(self, text: str, style: str = "") -> None:
        """Tell a person something on the way to the answer."""
        if not (self.json or self.quiet):
            console().print(Text(printable_lines(text), style=style), soft_wrap=True)

    def _progress_kind(self) -> str:
        """How to show progress on standard error: "none", "lines", or "drawn" on a terminal."""
        if self.quiet or not sys.stderr.isatty():
            return "none"
        return "lines" if is_plain() else "drawn"

    @contextmanager
    def working(self, text: str) -> Iterator[Callable[[str], None]]:
        """A spinner that says what is being done, on standard error, only on a terminal.

        It gives a function that says how far it is.
        """
        screen, kind, said = console(stderr=True), self._progress_kind(), printable(text)
        if kind == "lines":
            screen.print(Text(said), soft_wrap=True)
        if kind != "drawn":
            yield lambda _: None
            return
        with screen.status(Text(said)) as status:
            yield lambda far: status.update(Text(f"{said}: {printable(far)}"))

    @contextmanager
    def progress(
        self, n_sources: int, first: str = "starting"
    ) -> Iterator[Callable[[str, str, str], None]]:
        """A bar that names the site and the phase, on standard error, only on a terminal.

        Parameters
        ----------
        n_sources : int
        first : str
            What is done before the first source is asked.
        """
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        screen, kind = console(stderr=True), self._progress_kind()
        labels = {
            "risk": "phase 1 of 3, risk numbers",
            "search": "phase 1 of 3, more candidates",
            "model": "phase 2 of 3, one model",
            "examine": "phase 3 of 3, the others' models",
            "again": "phase 3 of 3, without a useless model",
        }
        text = TextColumn("{task.description}", markup=False)
        left = TextColumn("{task.completed:.0f} of {task.total:.0f} steps")
        columns = (SpinnerColumn(), text, BarColumn(), left, TimeElapsedColumn())
        with Progress(*columns, console=screen, transient=True, disable=kind != "drawn") as bar:
            if kind == "lines":
                screen.print(Text(first))
            task, printed = bar.add_task(first, total=3 * n_sources), time.monotonic()

            def advance(phase: str, source: str, state: str) -> None:
                nonlocal printed
                phase, _, far = phase.partition(": ")
                said = f"{labels[phase]}{far and f', {far}'}: {printable(source)}"
                fits = "" if state in ("started", "done") else f", {state}"
                bar.update(task, description=f"{said}{fits}", advance=float(state == "done"))
                if (
                    kind == "lines"
                    and state != "done"
                    and (not fits or time.monotonic() - printed > _LINE_EVERY)
                ):
                    screen.print(Text(f"{said}{fits}"), soft_wrap=True)
                    printed = time.monotonic()

            yield advance


def place_of(rows: str, query: str, sheet: str) -> dict[str, str]:
    """Where a table is that a command names, as `fedcsa.data.tables.open_table` takes it."""
    if query:
        return {"database": rows, "query": query}
    return {"table": rows, "sheet": sheet} if sheet else {"table": rows}


def shown_place(rows: str) -> str:
    """A table as a command names it on screen: an address may hold more than others should see."""
    return "the server's rows" if "://" in rows else rows


def console(*, stderr: bool = False) -> Screen:
    """Standard output, or error: coloured only on a terminal that wants it."""
    colours = None if is_plain() else "auto"
    return Screen(stderr=stderr, highlight=False, color_system=colours)  # type: ignore[arg-type]


def is_plain() -> bool:
    """Whether escape codes are unwelcome even on a terminal."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


def print_json(content: Any) -> None:
    """Print plain values as JSON on standard output."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def printable_lines(text: str) -> str:
    """Lines from elsewhere without control characters."""
    return "\n".join(map(printable, text.splitlines()))


def open_result(folder: Path) -> tuple[Adaptation, Columns]:
    """A result, and how its tables are read."""
    from fedcsa.answer.store import load_result

    adaptation = load_result(folder)
    if adaptation.columns is None:
        raise ResultError(
            f"A result must hold the columns of its tables to read others; {str(folder)!r} does "
            "not. Save it again with FedCSA.save, or run the study again."
        )
    return adaptation, adaptation.columns


def write_draft(out: Path, text: str) -> None:
    """Write a file, whole, into a folder that may be new."""
    with unbroken():
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")


def refuse_older(out: Path, *, force: bool) -> None:
    """Raise a `ResultError` if a draft would replace a file, unless that is wanted."""
    if out.exists() and not force:
        raise ResultError(
            f"{str(out)!r} already exists. Choose another name with --out, or say --force."
        )


def load_study(path: Path, changes: Sequence[str] | None, preset: str | None = None) -> Study:
    """A study with some of its options changed: ``NAME=VALUE``, a value as in the file.

    Parameters
    ----------
    path : Path
        Of a study file.
    changes : sequence of str, optional
        A text needs no quotation marks.
    preset : str, optional
        The option of that name.
    """
    from fedcsa.option_rules import PRESETS
    from fedcsa.plan import OPTIONS
    from fedcsa.study import Study
    from fedcsa.study.toml import parse_toml

    if preset is not None and preset not in PRESETS:
        raise click.UsageError(unknown("preset", preset, PRESETS))
    options: dict[str, Any] = {} if preset is None else {"preset": preset}
    for change in changes or ():
        name, equals, value = (part.strip() for part in change.partition("="))
        if not equals:
            raise click.UsageError(
                f"--set must be NAME=VALUE, such as level=0.9; it is {change!r}."
            )
        if name not in OPTIONS:
            raise click.UsageError(f"--set: {unknown('option', name, OPTIONS)}")
        try:
            options[name] = parse_toml(f"value = {value}", "--set")["value"]
        except StudyError:
            options[name] = value
    study = Study.load(path)
    return replace(study, options={**study.options, **options})


# Errors -------------------------------------------------------------------------------------


@contextmanager
def named_errors(*, json: bool) -> Iterator[None]:
    """Turn our errors into one line on standard error and a meaningful exit code.

    With `json`, standard output says the same as a JSON document.
    """
    try:
        yield
        return
    except BrokenPipeError:
        raise Exit(nobody_reads()) from None
    except KeyboardInterrupt:
        kind, text, code = "Interrupted", "Interrupted.", EXIT_INTERRUPTED
    except FedCSAError as error:
        kind, text, code = type(error).__name__, str(error), code_of(error)
        if isinstance(error, MessageError | BindingError):
            text += f" {_SAME_VERSION}"
    except OSError as error:
        where = f" {str(error.filename)!r}" if error.filename else ""
        text = f"The file or folder{where} cannot be used: {error.strerror}."
        kind, code = "OSError", EXIT_INPUT
    report_error(kind, text, code, json=json)
    raise Exit(code)


def code_of(error: FedCSAError) -> int:
    """The exit code of an error."""
    codes = {
        ProtocolError: EXIT_EXCHANGE,
        ModelError: EXIT_MODEL,
        NoOverlapError: EXIT_DO_NOT_USE,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), EXIT_INPUT)


def follow(verdict: Verdict) -> None:
    """End with the exit code of a verdict: "use it", with or without care, is an ordinary end."""
    if verdict.advice == "no":
        raise Exit(EXIT_DO_NOT_USE)


def report_error(kind: str, text: str, code: int, *, json: bool) -> None:
    """Print an error line on standard error, and with `json` a document on standard output."""
    if json:
        print_json({"error": {"kind": kind, "message": text, "exit_code": code}})
    fail(text)


def fail(text: str) -> None:
    """Print an error line on standard error."""
    console(stderr=True).say(printable_lines(text), "error: ", "bold red")


def warn(text: str) -> None:
    """Print a warning on standard error, whatever is asked of standard output."""
    console(stderr=True).say(printable_lines(text), "warning: ", "yellow")


def nobody_reads() -> int:
    """Let what is still to be written vanish, without a word; the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_UNREAD


@contextmanager
def unbroken() -> Iterator[None]:
    """Hold a Ctrl-C back until what is being written is whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed.is_set():
        raise KeyboardInterrupt


def print_unused(screen: Screen, columns: Sequence[str]) -> None:
    """Say which columns of the tables a study does not use, if there are any.

    Parameters
    ----------
    screen : Screen
    columns : sequence of str
        Their names; R's row names may have none.
    """
    if columns:
        are = "is" if len(columns) == 1 else "are"
        names = listed([name or "(no name)" for name in columns])
        told = f"{counted(len(columns), 'column')} of your tables {are} not used: {names}."
        screen.say(told)
