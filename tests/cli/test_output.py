"""One answer for a person, one JSON document for a program, next to nothing on request."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

ERROR = {"kind", "message", "exit_code"}


def document(result):
    """The one JSON document on standard output."""
    return json.loads(result.stdout)


# Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (("run", "no.toml"), "StudyError", 3),
        (("check", "no.toml"), "StudyError", 3),
        (("backtest", "no.toml"), "StudyError", 3),
        (("predict", "nowhere", "rows.csv"), "ResultError", 3),
        (("update", "nowhere", "rows.csv"), "ResultError", 3),
        (("ledger", "nowhere"), "ResultError", 3),
        (("demo", "--out", "/dev/null/demo"), "OSError", 3),
        (("federation", "provision", "no.toml"), "StudyError", 3),
        (("site", "start", "kit", "--data", "no.toml"), "StudyError", 3),
        (("site", "preview", "no.toml", "--data", "no.toml"), "StudyError", 3),
        (("site", "approve", "demo", "--data", "no.toml"), "StudyError", 3),
        (("study", "submit", "no.toml", "--kit", "kit"), "StudyError", 3),
        (("run",), "UsageError", 2),
        (("rnu",), "UsageError", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_failure_is_one_document_too(arguments, kind, code, invoke):
    result = invoke(*arguments, "--json")
    assert result.exit_code == code
    told = document(result)
    assert set(told) == {"error"}
    assert set(told["error"]) == ERROR
    assert (told["error"]["kind"], told["error"]["exit_code"]) == (kind, code)
    assert result.stderr.startswith(f"error: {told['error']['message']}\n")
    plain = invoke(*arguments)
    assert (plain.exit_code, plain.stdout, plain.stderr) == (code, "", result.stderr)
    quiet = invoke(*arguments, "--quiet")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (code, "", result.stderr)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("rum", "study.toml"), "Unknown command 'rum'. Did you mean 'run'?"),
        (("site", "aprove", "x"), "Unknown command 'aprove'. Did you mean 'approve'?"),
        (("study", "sumbit"), "Unknown command 'sumbit'. Did you mean 'submit'?"),
        (("federation", "Serve"), "Unknown command 'Serve'. Did you mean 'serve'?"),
        (("run", "s.toml", "--strem"), "Unknown option '--strem'. Did you mean '--stream'?"),
        (("study", "submit", "--min-source"), "Did you mean '--min-sources'?"),
        (("ledger", "r", "--feilds"), "Unknown option '--feilds'. Did you mean '--fields'?"),
        (("--verson",), "Unknown option '--verson'. Did you mean '--version'?"),
        (("submit", "s.toml"), "Unknown command 'submit'. Did you mean 'study submit'?"),
        (("xyz",), "Unknown command 'xyz'. Known: backtest, check, convert, "),
        (("check", "s.toml", "--zzz"), "Unknown option '--zzz'. Known: --help, --json, "),
        (("check", "s.toml", "--out"), "Unknown option '--out'. Known: --help, --json, "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_misspelt_word_is_answered_with_the_nearest(arguments, text, invoke):
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    error, usage, help_line = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert text in error
    assert usage.startswith("Usage: fedcsa ")
    assert re.fullmatch(r"Help: fedcsa( \w+)* --help", help_line)


def test_the_site_that_was_meant_is_suggested(finished, invoke):
    result = invoke("ledger", finished() / "result", "--site", "tarjet")
    assert result.exit_code == 3
    assert "Unknown site 'tarjet'. Did you mean 'target'?" in result.stderr


# Answers ------------------------------------------------------------------------------------


def test_every_answer_can_be_quiet_and_then_says_where_it_is(study_folder, invoke, tmp_path):
    study, result = study_folder / "study.toml", study_folder / "result"
    for arguments, told in [
        (("run", study, "--out", tmp_path / "r"), tmp_path / "r"),
        (("check", study), None),
        (("predict", result, study_folder / "new.csv", "-o", tmp_path / "p.csv"),
         tmp_path / "p.csv"),
        (("backtest", study), None),
        (("backtest", study, "--result", result), result),
        (("update", result, study_folder / "later.csv"), result / "updates.json"),
        (("ledger", result), None),
        (("demo",), None),
        (("demo", "--out", tmp_path / "d"), tmp_path / "d"),
        (("federation", "init", tmp_path / "federation.toml"), tmp_path / "federation.toml"),
        (("site", "init", "--out", tmp_path / "site.toml"), tmp_path / "site.toml"),
    ]:  # fmt: skip
        answer = invoke(*arguments, "--quiet")
        assert (answer.exit_code, answer.stderr) == (0, "")
        assert answer.stdout == ("" if told is None else f"{told}\n")


def test_problems_are_errors_and_so_are_shown_when_quiet(make_study, invoke, tmp_path):
    study = make_study(tmp_path)
    (tmp_path / "a.csv").unlink()
    result = invoke("check", study, "-q")
    assert result.exit_code == 3
    assert result.stdout.startswith("problem: ")


def test_predictions_in_a_file_are_announced_as_json(finished, invoke, tmp_path):
    folder = finished()
    path = tmp_path / "p.csv"
    result = invoke("predict", folder / "result", folder / "new.csv", "--out", path, "--json")
    assert document(result) == {"file": str(path), "rows": 40}


def test_files_to_fill_in_are_announced_as_json(invoke, tmp_path):
    path = tmp_path / "federation.toml"
    assert document(invoke("federation", "init", path, "--json")) == {"file": str(path)}
    told = document(invoke("site", "init", "--out", tmp_path / "site.toml", "--json"))
    assert told == {"file": str(tmp_path / "site.toml"), "role": "", "notes": []}


def test_json_can_be_piped(finished, script, tmp_path):
    result = script("run", finished() / "study.toml", "-o", tmp_path / "r", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert document(result)["words"] == "use it with care"


def test_a_stream_is_one_object_a_line(capsys):
    from fedcsa.cli.common import Output

    for number in range(2):
        Output(json=True, quiet=False).line({"text": "a\nb", "number": number}, "for people")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1]
    Output(json=False, quiet=True).line({"text": "a"}, "for people")
    assert capsys.readouterr().out == ""
    Output(json=False, quiet=False).line({"text": "a"}, "for people\x1b[2J")
    assert capsys.readouterr().out == "for people\N{REPLACEMENT CHARACTER}[2J\n"


# How it ends --------------------------------------------------------------------------------


SLOW = """
import importlib, sys, time
place, *name = sys.argv[1].split(":")
owner = importlib.import_module(place)
for part in name[:-1]:
    owner = getattr(owner, part)
def slow(*_, **__):
    print("asked", file=sys.stderr, flush=True)
    time.sleep(60)
setattr(owner, name[-1], slow)
from fedcsa.cli.app import main
sys.argv = ["fedcsa", *sys.argv[2:]]
main()
"""


def interrupted(where, *arguments):
    """A command that is interrupted while `where` works: its exit code, output and errors."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", SLOW, where, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals here")
@pytest.mark.parametrize("flags", [(), ("--json",), ("--quiet",)])
def test_ctrl_c_is_one_line_and_130_and_nothing_is_written(flags, finished, tmp_path):
    study = finished() / "study.toml"
    arguments = ("run", study, "--out", tmp_path / "r", *flags)
    code, out, err = interrupted("fedcsa.run:InProcess:ask", *arguments)
    assert code == 130
    assert err == "error: Interrupted.\n"
    assert (json.loads(out)["error"]["exit_code"] == 130) if "--json" in flags else (out == "")
    assert not (tmp_path / "r").exists()


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals here")
@pytest.mark.parametrize("loaded", ["fedcsa.cli.app", "fedcsa.cli.run_command", "rich.console"])
def test_ctrl_c_while_the_command_line_is_loaded_is_one_line_and_130(loaded, tmp_path):
    late = tmp_path / "late.py"  # stands in front of everything that is imported
    late.write_text(
        "import os, runpy, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Press:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {loaded!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Press())\n"
        "sys.argv = ['fedcsa', 'run', 'study.toml']\n"
        "runpy.run_module('fedcsa', run_name='__main__')\n"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(late)], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: Interrupted.\n")


def test_threads_that_a_library_left_do_not_keep_the_program_from_ending_as_it_said():
    code = (
        "import atexit, sys, threading, time\n"
        "atexit.register(lambda: print('put away'))\n"
        "threading.Thread(target=time.sleep, args=(3600,)).start()\n"
        "sys.argv = ['fedcsa', 'check', 'nowhere.toml']\n"
        "from fedcsa.__main__ import begin\n"
        "begin()\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (3, "put away\n")
    assert done.stderr.startswith("error: ")


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals here")
@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("fedcsa.cli.common:load_study", "run study.toml"),
        ("fedcsa.data.streams:read_rows", "check study.toml"),
        ("fedcsa.run:run_study", "demo --out demo"),
        ("fedcsa.backtest:run_backtest", "backtest study.toml --result result"),
        ("fedcsa.outcomes:bring_in", "update result later.csv"),
        ("fedcsa.target.adaptation:Adaptation:output", "predict result new.csv --out p.csv"),
        ("fedcsa.target.adaptation:Adaptation:output", "predict result new.csv"),
        ("fedcsa.outcomes:pick_rows", "followup result new.csv --out list.csv"),
    ],
)
def test_ctrl_c_leaves_the_result_of_every_long_command_as_it_was(
    where, arguments, study_folder, monkeypatch
):
    monkeypatch.chdir(study_folder)
    before = files_in(study_folder)
    code, _, err = interrupted(where, *arguments.split())
    assert code == 130
    assert err == "error: Interrupted.\n"
    assert files_in(study_folder) == before


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals here")
def test_a_ctrl_c_waits_until_what_is_being_written_is_whole(tmp_path):
    from fedcsa.cli.common import unbroken

    before = signal.getsignal(signal.SIGINT)

    def write():
        with unbroken():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # the signal is seen here
            (tmp_path / "whole").write_text("all of it")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        write()
    assert (tmp_path / "whole").read_text() == "all of it"
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_reader_that_went_away_is_not_an_error(flags, finished):
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "fedcsa", "ledger", str(finished() / "result"), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()  # nobody reads, not one line
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(600) == 141


# Findings -----------------------------------------------------------------------------------


def test_findings_about_a_source_that_was_left_out_come_last_under_a_title(capsys):
    from fedcsa.answer.terminal import print_findings
    from fedcsa.cli.common import console
    from fedcsa.findings import Finding

    findings = [Finding("no-overlap", "far"), Finding("grid-edge"), Finding("imbalance", "near")]
    print_findings(console(), findings, findings[:1])
    counted, title, apart = capsys.readouterr().out.partition("About one source that was left out")
    assert title
    assert "near" in counted
    assert "imbalance" in counted
    assert "grid-edge" in counted
    assert "no-overlap" not in counted
    assert "no-overlap" in apart
    assert "far" in apart
    print_findings(console(), findings)
    assert "left out" not in capsys.readouterr().out


# Without a report ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    ["run study.toml --out result", "backtest study.toml --result result", "demo --out ."],
)
def test_without_a_report_none_is_left_and_it_can_be_written_later(
    arguments, invoke, study_folder, monkeypatch
):
    monkeypatch.chdir(study_folder)
    page = study_folder / "result" / "report.html"
    assert page.exists()
    if arguments.startswith("demo"):  # only an older demo is replaced
        (study_folder / "study.toml").write_text('name = "demo"', encoding="utf-8")
    shown = invoke(*arguments.split(), "--no-report")
    assert shown.exit_code == 0, shown.output
    assert "fedcsa report" in shown.output
    assert not page.exists()  # the old one told of another result
    assert invoke("report", "result").exit_code == 0
    assert page.exists()
