"""``fedcsa``: the commands and their common options."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class
from rich.text import Text

from fedcsa import __version__
from fedcsa.cli.common import EXIT_INTERRUPTED, console, fail
from fedcsa.cli.program import COMPLETE_VARIABLE, Program
from fedcsa.errors import one_of

#: In the order of the help. Each is in a module of its own, which is loaded when it is asked for.
COMMANDS = (
    "demo", "run", "evaluate", "check", "table", "predict", "backtest", "followup", "update",
    "report", "explain", "ledger", "convert", "federation", "site", "study",
)  # fmt: skip
#: Where a reader may be, and the command to begin with there.
SITUATIONS = (
    ("See it work, on simulated hospitals.", "fedcsa demo --out demo"),
    (
        "The tables of several sites are on this machine.",
        "fedcsa study init tables/*.csv --target tables/new.csv",
    ),
    ("Every site keeps its table; this is one of them.", "fedcsa site init patients.csv"),
)


def _find(name: str) -> Any:
    """The function of a command, or a group of them."""
    return getattr(import_module(f"fedcsa.cli.{name}_command"), name)


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"fedcsa {__version__}")
        context.exit()


@click.pass_context
def _teach(context: click.Context) -> None:
    """What to do first, if no command was named."""
    if context.invoked_subcommand is not None:
        return
    screen = console()
    screen.print("Which model to use at a site without outcomes, and how well it will do there.\n")
    screen.print(Text("Where to start", style="bold"))
    for situation, command in SITUATIONS:
        screen.print(Text.assemble(f"  {situation}\n", (f"    {command}", "bold")))
    screen.print("\nA finding or a refusal: fedcsa explain NAME. All commands: fedcsa --help.")


# What a shell reads to complete commands, options and files -----------------------------------


#: Where a shell looks, below the user's home: shell -> the file of the completion, the file with
#: which the shell starts, and the line that this needs.
_PLACES: Mapping[str, tuple[str, str, str]] = {
    "bash": (".bash_completions/fedcsa.sh", ".bashrc", "source ~/.bash_completions/fedcsa.sh"),
    "zsh": (".zfunc/_fedcsa", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/fedcsa.fish", "", ""),
}


def show_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    """Print what a shell reads, and exit."""
    if shell is not None:
        click.echo(_code(context, _named(shell)))
        context.exit()


def install_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    """Write what a shell reads to where it looks, and exit."""
    if shell is None:
        return
    name, home = _named(shell), Path.home()
    place, start_up, line = _PLACES[name]
    file = home / place
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_code(context, name) + "\n", encoding="utf-8")
        if start_up:
            _append(home / start_up, line.encode())
    except OSError as error:
        raise click.UsageError(
            f"The completion cannot be written below {home} ({error.strerror}). "
            f"Print it instead: fedcsa --show-completion {name}"
        ) from None
    click.echo(f"Completion for {name} is in {file}. It works in the next terminal.")
    context.exit()


def _append(path: Path, line: bytes) -> None:
    """Add a line to a file that is the user's, unless it is there; nothing else is touched."""
    before = path.read_bytes() if path.is_file() else b""
    if line not in before.splitlines():
        with path.open("ab") as file:
            file.write((b"" if not before or before.endswith(b"\n") else b"\n") + line + b"\n")


def _named(shell: str) -> str:
    """The shell that is meant; an empty text is the user's own."""
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in _PLACES:
        raise click.UsageError(str(one_of("shell", tuple(_PLACES), name)))
    return name


def _code(context: click.Context, shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - every one of the places has one
    return kind(context.command, {}, "fedcsa", COMPLETE_VARIABLE).source()


# The program ----------------------------------------------------------------------------------

#: They end the program.
_EAGER: dict[str, Any] = {"is_eager": True, "expose_value": False}
#: A shell may be named; without one it is the user's own.
_SHELL: dict[str, Any] = {**_EAGER, "is_flag": False, "flag_value": "", "metavar": "[SHELL]"}

app = Program(
    "fedcsa",
    """Which model to use at a site without outcomes, and how well it will do there.

    Other sites have outcomes and never share a row. Start with fedcsa demo.
    """,
    {name: partial(_find, name) for name in COMMANDS},
    callback=_teach,
    invoke_without_command=True,
    no_args_is_help=False,
    params=[
        click.Option(
            ["--version", "-V"],
            is_flag=True, callback=_version, help="Show the version.", **_EAGER,
        ),
        click.Option(
            ["--install-completion"],
            callback=install_completion,
            help="Let bash, zsh or fish complete commands, options and files.", **_SHELL,
        ),
        click.Option(
            ["--show-completion"],
            callback=show_completion, help="Print what the shell would read for that.", **_SHELL,
        ),
    ],
    epilog=(
        "Exit codes: 0 done · 2 wrong usage · 3 the study, its data or a result cannot be used · "
        "4 a site refused or the exchange failed · 5 no model could be fitted or trusted · "
        "6 do not use it · 7 a promise was broken · 8 a study still waits for approval · "
        "9 too many sites refused · 130 interrupted."
    ),
)  # fmt: skip


def main() -> NoReturn:
    """Run the command line.

    After a Ctrl-C the process ends at once: Python itself would first wait for its threads, which
    may be at work on a long table.
    """
    try:
        app()
    except KeyboardInterrupt:  # before a command has begun
        fail("Interrupted.")
    except SystemExit as end:
        if end.code != EXIT_INTERRUPTED:
            raise
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(EXIT_INTERRUPTED)
