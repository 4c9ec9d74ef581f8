"""The units and the image of `deploy/`: what they start exists, and systemd understands them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fedcsa.cli.app import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))
PROGRAM = "/opt/fedcsa/bin/fedcsa"
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
SYSTEMD = shutil.which("systemd-analyze")


def parse(words):
    """The command that these words call, parsed and not run."""
    command, context = app, None
    while hasattr(command, "commands"):
        context = click.Context(command, parent=context, info_name=words[0])
        name, *words = words
        command = command.commands[name]
    return command.make_context(command.name, words, parent=context)


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_starts_a_command_that_there_is(unit):
    [line] = re.findall(r"^ExecStart=(.+)$", (DEPLOY / unit).read_text(encoding="utf-8"), re.M)
    program, *words = shlex.split(line)
    assert program == PROGRAM
    assert parse(words).params["kit"] == Path("kit")


def test_the_image_starts_a_command_that_there_is_and_copies_what_there_is():
    steps = {key: json.loads(re.search(rf"^{key} (.+)$", CONTAINER, re.M)[1])
             for key in ("ENTRYPOINT", "CMD")}  # fmt: skip
    assert steps["ENTRYPOINT"] == [PROGRAM]
    assert parse(steps["CMD"]).params["data"] == Path("site.toml")
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", CONTAINER, re.M)
              for name in line.split()]  # fmt: skip
    assert {"requirements-site.txt", "src"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert re.findall(r"^FROM (.+)$", CONTAINER, re.M) == ["python:3.11-slim"]
    assert CONTAINER.index("\nUSER fedcsa") < CONTAINER.index("\nENTRYPOINT")


@pytest.mark.skipif(SYSTEMD is None, reason="there is no systemd here")
@pytest.mark.parametrize("scope", ["--system", "--user"])
def test_systemd_finds_nothing_to_complain_of(tmp_path, scope):
    mine = [path for path in DEPLOY.iterdir() if path.suffix in (".service", ".timer")]
    mine = [path for path in mine if ("watch" in path.name) == (scope == "--user")]
    for path in mine:
        text = path.read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - found on the path
        [SYSTEMD, "verify", "--man=no", scope, *(tmp_path / path.name for path in mine)],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_service_is_kept_from_what_it_does_not_need():
    for unit in ("fedcsa-site.service", "fedcsa-server.service"):
        lines = set((DEPLOY / unit).read_text(encoding="utf-8").splitlines())
        assert lines >= {
            "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
            "CapabilityBoundingSet=", "UMask=0077", "SystemCallFilter=@system-service",
        }  # fmt: skip
        assert not [line for line in lines if line.startswith("User=root")]


def test_the_page_shows_every_file():
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\{literalinclude\} \.\./deploy/(\S+)", page)) == {
        path.name for path in DEPLOY.iterdir()
    }
