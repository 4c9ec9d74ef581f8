"""Help teaches: every command has examples that work, and answers in the same ways."""

import re
import shlex

import click
import pytest

from fedcsa.cli.app import SITUATIONS, app

PROGRAM = app


def walk(command, path=()):
    if not hasattr(command, "commands"):
        yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))


LEAVES = [pytest.param(path, command, id=" ".join(path)) for path, command in walk(PROGRAM)]
EXAMPLES = [
    pytest.param(path, command, example, id=example.split("#")[0].strip())
    for path, command in walk(PROGRAM)
    for example in command.examples
]


def words(example):
    """The arguments of an example, without what only the shell sees."""
    found = shlex.split(example, comments=True)
    ends = [place for place, word in enumerate(found) if word in (">", "|", "||", "&&")]
    return found[: ends[0]] if ends else found


def test_there_are_commands_at_every_depth():
    assert {("run",), ("site", "start"), ("federation", "demo"), ("study", "submit")} <= {
        path for path, _ in walk(PROGRAM)
    }


@pytest.mark.parametrize(("path", "command"), LEAVES)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_says_what_for_and_shows_examples_at_80_columns(path, command, flag, invoke):
    result = invoke(*path, flag, COLUMNS="80")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    assert command.examples, "an example is missing"
    assert len(command.help.split("\n\n")) >= 2, "what it reads, writes or answers is missing"
    start = lines.index(" Examples")
    shown = [line.strip() for line in lines[start + 1 :] if line.strip()]
    assert shown == command.examples


@pytest.mark.parametrize(("path", "command", "example"), EXAMPLES)
def test_every_example_parses(path, command, example):
    program, *arguments = words(example)
    assert program == "fedcsa"
    assert tuple(arguments[: len(path)]) == path
    context = command.make_context(" ".join(path), arguments[len(path) :])
    assert context.args == []


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_every_command_answers_programs_and_can_be_quiet(path, command):
    options = {name: option for option in command.params for name in option.opts}
    assert {"--json", "--quiet", "-q"} <= set(options)
    assert options["--quiet"].name == "quiet"
    for option in command.params:
        assert getattr(option, "help", None), f"{option.name} of {path} is not explained"


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_arguments_are_called_in_capitals(path, command):
    usage = command.get_usage(click.Context(command, info_name=" ".join(path)))
    assert not re.search(r"[{}]", usage)
    for option in command.params:
        if option.param_type_name == "argument":
            assert option.metavar == option.metavar.upper()


def test_without_arguments_it_teaches_the_first_steps(invoke):
    result = invoke(COLUMNS="80")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) <= 12
    for situation, command in SITUATIONS:
        place = lines.index(f"  {situation}")
        assert lines[place + 1] == f"    {command}"
        found, *arguments = shlex.split(command)[1:]
        leaf, path = PROGRAM.commands[found], [found]
        while hasattr(leaf, "commands"):
            path.append(arguments.pop(0))
            leaf = leaf.commands[path[-1]]
        leaf.make_context(" ".join(path), arguments)


def test_a_group_without_a_command_shows_its_help(invoke):
    result = invoke("site")
    assert result.exit_code == 2
    assert "approve" in result.stdout
