"""Shells complete commands, options and files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("fedcsa")
SHELLS = ("bash", "zsh", "fish")
pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason="the program is not installed")


def ask(line, shell):
    """What the program answers when a shell asks how `line` may go on."""
    words = line.split(" ")
    environment = {
        "_FEDCSA_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(  # noqa: S603 - our own program
        [str(PROGRAM)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered", "withheld"),
    [
        ("fedcsa re", ["report"], ["run"]),
        ("fedcsa site ", ["init", "start", "preview", "approve"], ["submit"]),
        ("fedcsa run --s", ["--stream"], ["--json"]),
        ("fedcsa study submit --min", ["--min-sources"], ["--kit"]),
        ("fedcsa explain no-ov", ["no-overlap"], ["other-unit"]),
    ],
)
def test_commands_and_options_are_offered(line, offered, withheld, shell):
    answer = ask(line, shell)
    assert all(word in answer for word in offered)
    assert not any(word in answer for word in withheld)


@pytest.mark.parametrize(
    "line", ["fedcsa run ", "fedcsa predict result ", "fedcsa run s.toml --out "]
)
def test_where_a_path_belongs_the_shell_offers_its_files(line):
    assert ask(line, "bash").strip() == ""  # with -o default, bash then offers files
    assert ask(line, "zsh").strip() == "_files"
    assert ask(line, "fish").strip() == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_shown_and_installed(shell, script, tmp_path):
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    shown = script("--show-completion", shell, **told)
    assert shown.returncode == 0
    assert f"_FEDCSA_COMPLETE=complete_{shell}" in shown.stdout.replace("\\\n", "")
    installed = script("--install-completion", shell, **told)
    assert installed.returncode == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_FEDCSA_COMPLETE" in path.read_text(encoding="utf-8") for path in files)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes(script):
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    code = script("--show-completion", "bash", **told).stdout
    asks = (
        'COMP_WORDS=(fedcsa fed); COMP_CWORD=1; _fedcsa_completion fedcsa; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(  # noqa: S603 - the shell of this machine
        [shutil.which("bash"), "--norc", "-c", f"{code}\n{asks}\ncomplete -p fedcsa"],
        env={**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "federation"
    assert "-o default" in done.stdout
