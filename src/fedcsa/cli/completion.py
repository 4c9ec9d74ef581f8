"""``fedcsa --install-completion``: what a shell reads to complete commands, options and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from fedcsa.cli.program import COMPLETE_VARIABLE
from fedcsa.errors import one_of


@dataclass(frozen=True)
class _Place:
    """Where a shell looks: the file of the completion, and the lines that its start-up needs."""

    file: str
    start_up: str = ""
    lines: str = ""


#: Below the user's home.
_PLACES: Mapping[str, _Place] = {
    "bash": _Place(
        ".bash_completions/fedcsa.sh", ".bashrc", "source ~/.bash_completions/fedcsa.sh"
    ),
    "zsh": _Place(".zfunc/_fedcsa", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": _Place(".config/fish/completions/fedcsa.fish"),
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
    name = _named(shell)
    place, home = _PLACES[name], Path.home()
    file = home / place.file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_code(context, name) + "\n", encoding="utf-8")
        if place.start_up:
            _append(home / place.start_up, place.lines.encode())
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
