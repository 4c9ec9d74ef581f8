"""``fedcsa check STUDY``."""

from __future__ import annotations

from click.exceptions import Exit
from rich.console import Console
from rich.text import Text

from fedcsa.cli.common import (
    EXIT_INPUT,
    Changes,
    Json,
    Output,
    Preset,
    Quiet,
    StudyFile,
    load_study,
    named_errors,
    print_unused,
    working,
)
from fedcsa.words import printable


@named_errors
def check(
    study: StudyFile,
    preset: Preset = None,
    changes: Changes = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say everything that would go wrong with a study, without computing anything.

    Reads the study file and its tables, and writes nothing. Exit code 3 if something stands in
    the way: one line a problem. A column that looks to be in another unit than the target's is a
    warning: the study runs, but its answer would suffer. If all is well, it also says which
    columns of the tables the study does not use.

    Examples
    --------
    fedcsa check study.toml
    fedcsa check study.toml --preset paper
    fedcsa check study.toml --json   # problems, warnings, unused columns
    """
    from fedcsa.study.plain_study import unused_if_sound

    unused = None if changes or preset else unused_if_sound(study)
    problems, warnings, command = list[str](), list[str](), "run"
    if unused is None:
        from fedcsa.study.given_section import is_given

        loaded = load_study(study, changes, preset)
        with working("reading the tables", quiet=quiet):
            problems, warnings = loaded.check()
            unused = () if problems else loaded.unused_columns()
        command = "evaluate" if is_given(loaded.model) else "run"

    def show(screen: Console) -> None:
        for problem in problems:
            screen.print(
                Text.assemble(("problem: ", "bold red"), printable(problem)), soft_wrap=True
            )
        for warning in warnings:
            screen.print(Text.assemble(("warning: ", "yellow"), printable(warning)), soft_wrap=True)
        print_unused(screen, unused)
        if not problems:
            screen.print(Text("Nothing stands in the way.", style="green"), end=" ")
            with_it = f" --preset {preset}" if preset else ""
            screen.print(Text(f"Next: fedcsa {command} {study}{with_it}"), soft_wrap=True)

    told = {"problems": problems, "warnings": warnings, "unused": list(unused)}
    Output(json, quiet and not problems).answer(told, show)
    if problems:
        raise Exit(EXIT_INPUT)
