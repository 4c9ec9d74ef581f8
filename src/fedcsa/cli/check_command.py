"""``fedcsa check STUDY``."""

from __future__ import annotations

from rich.text import Text

from fedcsa.cli.common import (
    Changes,
    Output,
    Preset,
    Screen,
    StudyFile,
    load_study,
    print_unused,
)
from fedcsa.words import printable


def check(
    output: Output,
    study: StudyFile,
    preset: Preset = None,
    changes: Changes = None,
) -> None:
    """Say everything that would go wrong with a study, without computing anything.

    Reads the study file and its tables, and writes nothing. Exit code 3 if something stands in
    the way: one line per problem. A column that looks to be in another unit than the target's is a
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
        from fedcsa.study.model_section import is_given

        loaded = load_study(study, changes, preset)
        with output.working("reading the tables"):
            problems, warnings = loaded.check()
            unused = () if problems else loaded.unused_columns()
        command = "evaluate" if is_given(loaded.model) else "run"

    def show(screen: Screen) -> None:
        for problem in problems:
            screen.say(printable(problem), "problem: ", "bold red")
        for warning in warnings:
            screen.say(printable(warning), "warning: ", "yellow")
        print_unused(screen, unused)
        if not problems:
            screen.print(Text("Nothing stands in the way.", style="green"), end=" ")
            with_it = f" --preset {preset}" if preset else ""
            screen.say(f"Next: fedcsa {command} {study}{with_it}")

    told = {"problems": problems, "warnings": warnings, "unused": list(unused)}
    output.answer_problems(told, show, problems)
