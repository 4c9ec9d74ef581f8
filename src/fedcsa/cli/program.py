"""The program itself: commands made of functions, help with examples, and how it ends."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import click
from click.exceptions import Exit, NoArgsIsHelpError
from click.shell_completion import shell_complete
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_INTERRUPTED,
    Declared,
    Output,
    console,
    fail,
    named_errors,
    nobody_reads,
    report_error,
)
from fedcsa.errors import unknown

EXIT_USAGE = 2
_EXAMPLES = re.compile(r"\n+Examples\n-+\n")
#: Both ask for help, in every command.
_HELP = {"help_option_names": ["-h", "--help"]}
#: Options of every command.
_EVERYWHERE = (
    click.Option(
        ["json", "--json"], is_flag=True, help="Print one JSON document on standard output instead."
    ),
    click.Option(
        ["quiet", "--quiet", "-q"],
        is_flag=True,
        help="Print errors only, and where a result was written.",
    ),
)
#: In which a shell says that it wants to know how a command line may go on.
COMPLETE_VARIABLE = "_FEDCSA_COMPLETE"
_Function = TypeVar("_Function", bound=Callable[..., None])


class Argument(click.Argument):
    """An argument that its command's help explains."""

    def __init__(self, *names: Any, help: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.help = help

    def make_metavar(self, ctx: click.Context) -> str:  # noqa: ARG002
        """As a usage line shows it: ``[NAME]`` if it may be left out, ``NAMES...`` of several."""
        shown = (self.metavar or "") if self.required else f"[{self.metavar}]"
        return f"{shown}..." if self.nargs < 0 else shown


class Command(click.Command):
    """A function as a command: it answers through its first parameter, an `Output`.

    Its docstring ends with examples; the help shows them last. Every command has the options
    that its output follows, and ends with the exit code of an error.

    Attributes
    ----------
    examples : list of str
        Command lines; what follows a ``#`` says what they are for.
    """

    def __init__(self, name: str, function: Callable[..., None]) -> None:
        text, *block = _EXAMPLES.split(inspect.getdoc(function) or "", maxsplit=1)
        self.examples = [line.strip() for part in block for line in part.splitlines()]
        hints = get_type_hints(function, include_extras=True)
        _, *about = inspect.signature(function).parameters.values()
        params = [_parameter(one.name, hints[one.name], one.default) for one in about]
        super().__init__(name, _HELP, _run(function), [*params, *_EVERYWHERE], _unwrapped(text))

    def get_help(self, ctx: click.Context) -> str:
        """The help, then the examples."""
        return _help_of(ctx, self.get_params(ctx), examples=self.examples)


class Group(click.Group):
    """Commands under one name; a misspelt one is answered with the nearest.

    Parameters
    ----------
    name, help : str
    found : mapping of str to function, optional
        Gives a command's function, or a group, when it is asked for.
    settings
        As of `click.Group`.
    """

    def __init__(
        self,
        name: str,
        help: str,
        found: Mapping[str, Callable[[], Callable[..., None] | Group]] | None = None,
        **settings: Any,
    ) -> None:
        self._found = dict(found or {})
        options = {"no_args_is_help": True, "context_settings": _HELP, **settings}
        built: Any = _Built(self._found)  # nobody writes to it
        super().__init__(name, built, help=_unwrapped(help), **options)

    def adds(self, function: _Function, name: str = "") -> _Function:
        """Make a command of a function, and leave that as it is."""
        self._found[name or function.__name__] = lambda: function
        return function

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Their names, in the order of the help."""
        return [*self._found]

    def get_help(self, ctx: click.Context) -> str:
        """The help; no command is built for it."""
        about = {
            name: inner.help if isinstance(inner, Group) else inspect.getdoc(inner)
            for name, inner in ((name, find()) for name, find in self._found.items())
        }
        short = {name: (text or "").partition("\n\n")[0] for name, text in about.items()}
        return _help_of(ctx, self.get_params(ctx), short, epilog=self.epilog or "")

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that `args` begin with."""
        if args and not args[0].startswith("-") and args[0] not in self._found:
            groups = {g: c for g, c in self.commands.items() if isinstance(c, Group)}
            inner = [f"{name} {one}" for name, group in groups.items() for one in group._found]
            ctx.fail(unknown("command", args[0], [*self._found, *inner]))
        return super().resolve_command(ctx, args)


class Program(Group):
    """The outermost group: it ends with an exit code that means something."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **settings: Any,
    ) -> NoReturn:
        """Run a command and exit.

        Parameters
        ----------
        args : sequence of str, optional
            By default those of the process.
        prog_name : str, optional
        settings
            As of a context.
        """
        words, name = sys.argv[1:] if args is None else list(args), prog_name or self.name or ""
        asked = os.environ.get(COMPLETE_VARIABLE)
        if asked:
            sys.exit(shell_complete(self, settings, name, COMPLETE_VARIABLE, asked))
        code = 0
        try:
            with self.make_context(name, words, **settings) as context:
                self.invoke(context)
            sys.stdout.flush()
        except Exit as end:
            code = end.exit_code
        except click.UsageError as error:
            code = _refuse(error, json="--json" in words)
        except click.Abort:  # at a question
            code = EXIT_INTERRUPTED
            fail("Interrupted.")
        except BrokenPipeError:
            code = nobody_reads()
        sys.exit(code)


class _Built(Mapping[str, click.Command]):
    """Commands that are made of their functions when they are asked for."""

    def __init__(self, found: Mapping[str, Callable[[], Callable[..., None] | Group]]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> click.Command:
        inner = self._found[name]()
        return inner if isinstance(inner, Group) else Command(name, inner)

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


# A function's parameters ----------------------------------------------------------------------


def _type_of(hint: Any) -> tuple[Any, bool]:
    """What one value of a parameter is, and whether there may be several."""
    options = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is list:
        return options[0], True
    return _type_of(options[0]) if options else (hint, False)


def _parameter(name: str, hint: Any, default: Any) -> click.Parameter:
    """What the command line knows of one parameter of a function.

    Parameters
    ----------
    name : str
    hint : type
        ``Annotated`` with what is `Declared` of it.
    default : object
        ``inspect.Parameter.empty`` if it must be given.
    """
    plain, declared = get_args(hint)[:2]
    assert isinstance(declared, Declared)  # noqa: S101 - every parameter is declared
    (one, several), settings = _type_of(plain), dict(declared.settings)
    settings |= {"required": True} if default is inspect.Parameter.empty else {"default": default}
    least = settings.pop("min", None)
    if declared.argument:
        settings = {"type": _click_type(one, least), **settings}
        return Argument([name], nargs=-1 if several else 1, **settings)
    if one is bool:
        settings |= {"is_flag": True}
    else:
        settings = {"type": _click_type(one, least), "multiple": several, **settings}
    names = declared.names or (f"--{name.replace('_', '-')}",)
    return click.Option([name, *names], **settings)


def _click_type(one: type, least: int | None) -> Any:
    if least is not None:
        return click.IntRange(min=least)
    return click.Path(path_type=Path) if one is Path else one


def _run(function: Callable[..., None]) -> Callable[..., None]:
    """The function with its output; several values come as a list, and none as its default."""

    def called(*, json: bool, quiet: bool, **given: Any) -> None:
        several = {name: list(value) for name, value in given.items() if isinstance(value, tuple)}
        empty = [name for name, value in several.items() if not value]
        values = {n: v for n, v in (given | several).items() if n not in empty}
        with named_errors(json=json):
            function(Output(json, quiet), **values)

    return called


# Help -----------------------------------------------------------------------------------------


def _help_of(
    ctx: click.Context,
    params: Sequence[click.Parameter],
    commands: Mapping[str, str] | None = None,
    *,
    examples: Sequence[str] = (),
    epilog: str = "",
) -> str:
    """What a command is for, its arguments, its options, and the commands below it."""
    screen = console()
    arguments = [(one.human_readable_name, _about(one)) for one in params if _is_argument(one)]
    options = [(_names_of(one), _about(one)) for one in params if not _is_argument(one)]
    inner = [(name, Text(text)) for name, text in (commands or {}).items()]
    boxes = {"Arguments": arguments, "Options": options, "Commands": inner}
    with screen.capture() as written:  # the caller ends it with a line
        screen.print(Text(f"\n {ctx.get_usage()}\n", style="bold"), soft_wrap=True)
        for part in (ctx.command.help or "").split("\n\n"):
            screen.print(_indented(part))
        for title, rows in boxes.items():
            if rows:
                screen.print(_box(title, rows))
        if epilog:
            screen.print()
            screen.print(_indented(epilog), end="")
        if examples:
            screen.print(Text(" Examples", style="bold"))
        for example in examples:
            command, mark, comment = example.partition("#")
            screen.print(Text.assemble(f"   {command}", (mark + comment, "dim")), soft_wrap=True)
    return written.get()


def _box(title: str, rows: Sequence[tuple[str, Text]]) -> Panel:
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True, style="bold cyan")
    table.add_column(ratio=1)
    for name, about in rows:
        table.add_row(Text(name), about)
    return Panel(table, title=title, title_align="left", border_style="dim")


def _indented(text: str) -> Padding:
    """A paragraph between margins of one column, and a line below it."""
    return Padding(Text(text), (0, 1, 1, 1))


def _is_argument(param: click.Parameter) -> bool:
    return isinstance(param, click.Argument)


def _names_of(option: click.Parameter) -> str:
    """As in ``-o, --out DIR``: short names are one below the other."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in option.opts if name.startswith("--")]
    start = f"{short[0]}, " if short else "    "
    return start + ", ".join(long) + (f" {option.metavar}" if option.metavar else "")


def _about(param: Any) -> Text:
    """What is said of a parameter: its help, and what is asked of its value."""
    told = []
    if isinstance(param.type, click.IntRange):
        told.append(f"at least {param.type.min}")
    if param.required:
        told.append("required")
    elif param.default not in (None, False, "") and isinstance(param.default, str | int | Path):
        told.append(f"default: {param.default}")
    if param.envvar:
        told.append(f"env var: {param.envvar}")
    brackets = "".join(f" [{one}]" for one in told)
    return Text.assemble(param.help, (brackets, "dim"))


def _unwrapped(text: str) -> str:
    """Paragraphs of one line each, for a terminal of any width."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


# Wrong usage ----------------------------------------------------------------------------------


def _refuse(error: click.UsageError, *, json: bool) -> int:
    """Say what is wrong with a command line, and how it is called; the exit code."""
    context = error.ctx
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.format_message())
        return EXIT_USAGE
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and context is not None:
        known = [name for option in context.command.get_params(context) for name in option.opts]
        long = [name for name in known if name.startswith("--")]
        text = unknown("option", error.option_name, long)
    report_error("UsageError", text, EXIT_USAGE, json=json)
    if context is not None:
        screen = console(stderr=True)
        screen.say(context.get_usage())
        screen.say(f"Help: {context.command_path} --help")
    return EXIT_USAGE
