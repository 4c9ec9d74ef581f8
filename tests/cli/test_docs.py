"""The page on the command line says what the program says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fedcsa.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BLOCK = re.compile(r"(<!-- begin:commands -->\n).*?(<!-- end:commands -->)", re.DOTALL)
HEADING = "### fedcsa {}\n\n"
#: Options of every command, explained once.
EVERYWHERE = ("json", "quiet")


def reference(command: Any, path: tuple[str, ...] = ()) -> str:
    """The commands below `command`, as Markdown."""
    if hasattr(command, "commands"):
        return "".join(reference(c, (*path, name)) for name, c in command.commands.items())
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    options = [p for p in options if p.name not in EVERYWHERE]
    usage = " ".join([p.metavar if p.required else f"[{p.metavar}]" for p in arguments])
    parts = [HEADING.format(f"{' '.join(path)} {usage}".strip()), f"{_literal(command.help)}\n\n"]
    rows = [(p.metavar, p.help) for p in arguments] + [(_named(p), p.help) for p in options]
    parts += ["| | |\n|---|---|\n"] if rows else []
    parts += [f"| `{name}` | {_literal(text)} |\n" for name, text in rows]
    parts += ["\n```console\n", *(f"$ {example}\n" for example in command.examples), "```\n\n"]
    return "".join(parts)


def _literal(text: str) -> str:
    """Options as code: a page would make one dash of two."""
    return re.sub(r"--[a-z]+(-[a-z]+)*", r"`\g<0>`", text)


def _named(option: Any) -> str:
    value = f" {option.metavar}" if option.metavar else ""
    return ", ".join(option.opts) + value


def written() -> str:
    return PAGE.read_text(encoding="utf-8")


def fresh() -> str:
    commands = reference(app).rstrip()
    return BLOCK.sub(lambda found: f"{found[1]}{commands}\n{found[2]}", written())


def test_the_page_has_the_help_of_every_command() -> None:
    assert written() == fresh(), f"run: python {Path(__file__).name}"


def documented() -> dict[str, list[str]]:
    rows = re.findall(r"^\| (`[^|]*`) \| (.*) \|$", written().split("### JSON")[1], re.M)
    return {
        name: re.findall(r"`(\w+)`", keys)
        for names, keys in rows
        for name in re.findall(r"`([^`]+)`", names)
    }


def test_every_command_has_its_keys_documented() -> None:
    paths = re.findall(r"^### fedcsa ([a-z]+(?: [a-z]+)?)", written(), re.M)
    assert set(paths) <= set(documented())


@pytest.mark.parametrize("command", ["check", "run", "backtest", "followup", "update", "predict"])
def test_the_documented_keys_are_there(command, invoke, tmp_path, make_study) -> None:
    study = make_study(tmp_path)
    invoke("run", study, "--out", tmp_path / "result")
    words = {
        "check": (study,),
        "run": (study, "--out", tmp_path / "again"),
        "backtest": (study,),
        "followup": (tmp_path / "result", tmp_path / "new.csv", "--out", tmp_path / "l.csv"),
        "update": (tmp_path / "result", tmp_path / "later.csv"),
        "predict": (tmp_path / "result", tmp_path / "new.csv", "--out", tmp_path / "p.csv"),
    }[command]
    answer = json.loads(invoke(command, *words, "--json").stdout)
    keys = [key for key in documented()[command] if key != "prediction"]
    assert keys
    assert set(keys) <= set(answer)


def test_the_documented_keys_of_a_ledger_are_those_of_its_messages(finished, invoke) -> None:
    answer = json.loads(invoke("ledger", finished() / "result", "--json").stdout)
    keys = documented()["ledger"]
    assert "sha256" in keys
    assert all(set(keys) <= set(message) for site in answer.values() for message in site)


def test_every_exit_code_is_documented() -> None:
    from fedcsa.cli import common, program

    table = written().split("## Exit codes")[1]
    codes = {value for name, value in vars(common).items() if name.startswith("EXIT_")}
    assert len(codes) == 9
    for code in (0, 1, program.EXIT_USAGE, *codes):
        assert f"\n| {code} | " in table


if __name__ == "__main__":  # python tests/cli/test_docs.py rewrites the block
    PAGE.write_text(fresh(), encoding="utf-8")
