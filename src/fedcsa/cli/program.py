"""The program itself: help with examples, wrong usage, and how it ends."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from typing import Any, cast

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from fedcsa.cli.common import console, is_plain, nobody_reads, report_error
from fedcsa.errors import unknown

EXIT_USAGE = 2
_EXAMPLES = re.compile(r"\n+Examples\n-+\n")
#: What typer raises for wrong usage, wherever this version of it keeps the class.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])


class Command(TyperCommand):
    """A command whose docstring ends with examples; its help shows them last.

    Attributes
    ----------
    examples : list of str
        Command lines; what follows a ``#`` says what they are for.
    """

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        text, *block = _EXAMPLES.split(inspect.cleandoc(help or ""), maxsplit=1)
        self.examples = [line.strip() for part in block for line in part.splitlines()]
        super().__init__(*args, help=_unwrapped(text), **options)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments as they are written everywhere else: STUDY, not {STUDY}."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, then the examples."""
        _without_escape_codes()
        super().format_help(ctx, formatter)
        screen = console()
        screen.print(Text(" Examples", style="bold"))
        for example in self.examples:
            command, mark, comment = example.partition("#")
            screen.print(Text.assemble(f"   {command}", (mark + comment, "dim")), soft_wrap=True)
        screen.print()


class Group(TyperGroup):
    """Commands under one name; a misspelt one is answered with the nearest."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _without_escape_codes()
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begin with."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            inner = [f"{g} {c}" for g in self.commands for c in _below(self.commands[g])]
            ctx.fail(unknown("command", args[0], [*self.commands, *inner]))
        return super().resolve_command(ctx, args)


class Program(Group):
    """The outermost group: it ends with an exit code that means something."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command and exit."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(words, *rest, **{**options, "standalone_mode": False})
            sys.stdout.flush()
        except UsageError as error:
            code = _refuse(error, json="--json" in words)
        except BrokenPipeError:
            code = nobody_reads()
        sys.exit(code)


def _below(command: Any) -> Sequence[str]:
    return [*getattr(command, "commands", ())]


def _refuse(error: Any, *, json: bool) -> int:
    """Say what is wrong with a command line, and how it is called; the exit code."""
    context = error.ctx
    if type(error).__name__ == "NoArgsIsHelpError":  # it has printed the help
        return EXIT_USAGE
    text = error.format_message()
    if hasattr(error, "possibilities"):
        known = [name for option in context.command.get_params(context) for name in option.opts]
        long = [name for name in known if name.startswith("--")]
        text = unknown("option", error.option_name, long)
    report_error("UsageError", text, EXIT_USAGE, json=json)
    if context is not None:
        screen = console(stderr=True)
        screen.print(Text(context.get_usage()), soft_wrap=True)
        screen.print(Text(f"Help: {context.command_path} --help"), soft_wrap=True)
    return EXIT_USAGE


def _unwrapped(text: str) -> str:
    """Paragraphs of one line each, for a terminal of any width."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _without_escape_codes() -> None:
    """Tell typer's own console what ours knows: where escape codes are unwelcome."""
    from typer import rich_utils

    rich_utils.COLOR_SYSTEM = None if is_plain() else "auto"
