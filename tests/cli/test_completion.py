"""Shells complete commands, options and files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedcsa.cli.app import app

PROGRAM = Path(sys.executable).with_name("fedcsa")
SHELLS = ("bash", "zsh", "fish")
pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason="the program is not installed")


@pytest.fixture
def ask(monkeypatch, capsys):
    """What the program answers when a shell asks how `line` may go on."""

    def call(line, shell):
        words = line.split(" ")
        asked = {
            "_FEDCSA_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
        }
        for name, value in asked.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            app(prog_name="fedcsa")
        told = capsys.readouterr()
        assert told.err == ""
        return told.out

    return call


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
def test_commands_and_options_are_offered(ask, line, offered, withheld, shell):
    answer = ask(line, shell)
    assert all(word in answer for word in offered)
    assert not any(word in answer for word in withheld)


@pytest.mark.parametrize(
    "line", ["fedcsa run ", "fedcsa predict result ", "fedcsa run s.toml --out "]
)
def test_where_a_path_belongs_the_shell_offers_its_files(ask, line):
    assert all(ask(line, shell).startswith("file") for shell in SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_shown_and_installed(shell, script, tmp_path):
    home = {"HOME": str(tmp_path)}
    shown = script("--show-completion", shell, **home)
    assert shown.returncode == 0
    assert f"_FEDCSA_COMPLETE={shell}_complete" in shown.stdout
    start_up = tmp_path / f".{shell}rc"
    start_up.write_text("# mine")
    for _ in range(2):  # the second time changes nothing
        installed = script("--install-completion", SHELL=f"/usr/bin/{shell}", **home)
        assert (installed.returncode, installed.stderr) == (0, "")
    files = {path: path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file()}
    assert [text for text in files.values() if "_FEDCSA_COMPLETE" in text] == [shown.stdout]
    assert files[start_up].startswith("# mine")
    assert len(files[start_up].splitlines()) == (1 if shell == "fish" else 2)


def test_the_start_up_file_is_only_added_to(script, tmp_path):
    before = b"\n# caf\xe9, not UTF-8  \nalias ll='ls -l'"
    (tmp_path / ".bashrc").write_bytes(before)
    for _ in range(2):
        script("--install-completion", "bash", HOME=str(tmp_path))
    line = b"source ~/.bash_completions/fedcsa.sh"
    assert (tmp_path / ".bashrc").read_bytes() == before + b"\n" + line + b"\n"


def test_a_home_that_cannot_be_written_is_named(script, tmp_path):
    (tmp_path / ".bash_completions").write_text("a file")
    done = script("--install-completion", "bash", HOME=str(tmp_path))
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shell_that_is_not_known_is_named(script):
    refused = script("--show-completion", "tcsh")
    assert refused.returncode == 2
    assert "bash" in refused.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes(script):
    code = script("--show-completion", "bash").stdout
    asks = (
        'COMP_WORDS=(fedcsa fed); COMP_CWORD=1; _fedcsa_completion fedcsa; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(  # noqa: S603 - the shell of this machine
        [shutil.which("bash"), "--norc", "-c", f"{code}\n{asks}\ncomplete -p fedcsa"],
        env={**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "federation"
