"""A real federation on loopback: a server, a target and four sources, each its own processes.

A study costs some 25 seconds of a processor, most of it for starting Python at every site. So
the tests have few studies, each with several things to look at; what needs no engine is tested
between desks, in `tests/site`.
"""

import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

SOURCES = {"abbey": 200, "birch": 220, "castle": 240, "dunes": 260}
#: On a loaded machine everything takes longer; nothing waits this long on a free one.
PATIENCE = 180.0
#: Every model of this source ends whoever opens it at the target (attack A3).
POISONED = "castle"
#: This source is started by its command, from a renewed kit with a key that a password locks.
COMMANDED = "dunes"
PASSWORD = "correct horse"  # noqa: S105 - of a test
RIDGE = 'name = "ridge"\n[candidates]\npenalty = [0.01, 10.0]'
PIPELINE = """name = "pipeline"
[[model.steps]]
name = "columns"
class = "sklearn.compose.ColumnTransformer"
[model.steps.parameters]
transformers = [
  ["gaps", { class = "sklearn.impute.SimpleImputer", parameters = { add_indicator = true } },
   ["sbp"]],
  ["numbers", { class = "sklearn.preprocessing.StandardScaler" }, ["age", "bmi"]],
  ["texts", { class = "sklearn.preprocessing.OneHotEncoder" }, ["ward", "smoker"]],
]
[[model.steps]]
name = "fit"
class = "sklearn.linear_model.LogisticRegression"
[candidates]
fit__C = { low = 0.1, high = 1.0, log = true }"""
#: Two rounds that do not depend on risks, so that they are the same without one of the sources.
SEARCH = 'search = "random"\nbudget = { candidates = 3, rounds = 2 }\n'
TABLE = """
sbp = { missing = "model" }
ward = ["1", "2", "10"]
smoker = "flag"
"""
#: model, outcome, further columns and options of a study
KINDS = {
    "ridge": (RIDGE, 'name = "days"', "", ""),
    "classes": (PIPELINE, 'name = "state"\nlevels = ["ill", "well"]', TABLE, SEARCH),
}


def wait_until(holds, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"waited {patience:.0f} s in vain: {what}")
        time.sleep(0.1)


def _write(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _hospital(rng, mean, rows):
    X = rng.normal(mean, 1.0, (rows, 2))
    y = X.sum(axis=1) + rng.normal(size=rows)
    other = np.random.default_rng(rows)
    cells = {
        "age": X[:, 0].tolist(),
        "bmi": X[:, 1].tolist(),
        "sbp": ["" if x > 1.0 else x for x in other.normal(size=rows).tolist()],
        "ward": other.choice(["1", "2", "10"], rows).tolist(),
        "smoker": other.choice(["true", "false"], rows).tolist(),
    }
    labels = ["well" if value > 0.0 else "ill" for value in y]
    return {**cells, "days": y.tolist(), "state": labels}


class ByCommand:
    """A site that runs as its administrator starts it; to `Live`, like an engine's process."""

    def __init__(self, command, said):
        self.command = command
        self._said = said.open("ab")
        self._process = subprocess.Popen(command, stdout=self._said)  # noqa: S603 - our own
        self.pid = self._process.pid

    def workers(self):
        import psutil

        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        self._said.close()
        return self._process.wait(600)


class Live:
    """The processes of a federation, and what a test does to them."""

    def __init__(self, folder):
        from fedcsa.federation.federation_file import Federation
        from fedcsa.federation.flare.kits import provision, renew

        self.folder = folder
        self.processes = {}
        self.commands = []
        rng = np.random.default_rng(5)
        for index, (name, rows) in enumerate(SOURCES.items()):
            (folder / name).mkdir()
            _write(folder / name / "table.csv", _hospital(rng, 0.1 * index, rows))
        (folder / "new").mkdir()
        rows = _hospital(rng, 0.1, 400)
        cells = {name: own for name, own in rows.items() if name not in ("days", "state")}
        _write(folder / "new" / "table.csv", cells)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        sites = {"new": "target", **dict.fromkeys(SOURCES, "source")}
        users = {"lead@demo.org": "lead", "viewer@demo.org": "viewer"}
        self.federation = Federation("test", "localhost", self.port, sites, users)
        provision(self.federation, folder / "kits")
        renew(self.federation, folder / "kits", COMMANDED, password=PASSWORD)
        (folder / "password.txt").write_text(f"{PASSWORD}\n", encoding="utf-8")
        for name in sites:
            self.configure(name)

    # Sites -----------------------------------------------------------------------------------

    def kit(self, name):
        return self.folder / "kits" / name

    def state(self, name):
        return self.folder / name / "state"

    def configure(self, name, extra=""):
        # One target asks several times in the tests' one federation.
        rules = '[policy]\nmax_briefs = "none"'
        extra = extra.replace("[policy]", rules) if "[policy]" in extra else f"{extra}\n{rules}"
        text = f'table = "table.csv"\n{extra}\n'
        (self.folder / name / "site.toml").write_text(text, encoding="utf-8")

    def start(self, name):
        from fedcsa.federation.flare.kits import Kit
        from fedcsa.federation.flare.process import EngineProcess
        from fedcsa.federation.flare.settings import write_settings

        if name == COMMANDED:
            said = self.folder / "said.txt"
            self.processes[name] = ByCommand(self.command(name), said)
            return
        if name != "localhost":
            write_settings(self.kit(name), self.folder / name / "site.toml")
        with pytest.MonkeyPatch.context() as patch:
            hooks = POISON if name == "new" else HOLD
            path = [str(hooks), os.environ.get("PYTHONPATH", "")]
            patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
            if name == "new":
                patch.setenv("FEDCSA_TEST_POISON", f"model-report {POISONED} segfault")
            self.processes[name] = EngineProcess(self.kit(name), Kit.load(self.kit(name)))

    def command(self, name):
        """With which an administrator starts a site."""
        return [sys.executable, "-m", "fedcsa", "site", "start", str(self.kit(name)),
                "--data", str(self.folder / name / "site.toml"),
                "--password-file", str(self.folder / "password.txt")]  # fmt: skip

    def lines(self, name):
        from fedcsa.site.state import Status

        return [line["text"] for line in Status(self.state(name)).lines()]

    def said(self, name, text, study=""):
        from fedcsa.site.state import Status

        return any(
            text in line["text"] and line["study"].startswith(study)
            for line in Status(self.state(name)).lines()
        )

    def start_and_wait(self, *names):
        before = {name: self.lines(name).count(CONNECTED) for name in names if name != "localhost"}
        for name in names:
            self.start(name)
        for name, count in before.items():
            wait_until(
                lambda name=name, count=count: self.lines(name).count(CONNECTED) > count,
                f"{name} connects",
            )

    def kill(self, name):
        """kill -9 of a site or the server with its workers, as a power cut would."""
        process = self.processes.pop(name)
        for pid in (process.pid, *process.workers()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.stop()

    def worker(self, name):
        """The process that runs a site's part of the job."""
        import psutil

        def found():
            """Without the child that opens messages for it."""
            pids = self.processes[name].workers()
            return [p for p in pids if CHILD not in " ".join(psutil.Process(p).cmdline())]

        wait_until(found, f"a worker at {name}")
        return found()[-1]

    def stop(self):
        """End whatever runs, though one of them should not end as it ought to."""
        with contextlib.ExitStack() as all_of_them:
            for process in self.processes.values():
                all_of_them.callback(process.stop)
            for command in self.commands:
                all_of_them.callback(command.communicate)
                all_of_them.callback(command.kill)

    # Studies ---------------------------------------------------------------------------------

    def study(self, name, kind="ridge", sources=tuple(SOURCES)):
        model, outcome, columns, options = KINDS[kind]
        tables = "".join(f'[sources.{s}]\ntable = "{s}/table.csv"\n' for s in sources)
        path = self.folder / f"{name}.toml"
        path.write_text(
            f'name = "{name}"\nseed = 3\n{options}[outcome]\n{outcome}\n'
            '[features]\nage = "number"\n'
            f'bmi = "number"\n{columns}[model]\n{model}\nratio_power = [0.0]\n'
            f'[policy]\npreset = "site"\n[target]\ntable = "new/table.csv"\n{tables}',
            encoding="utf-8",
        )
        return path

    def hold(self, name, study):
        """Let a site stop before it computes anything in a study."""
        (self.folder / name / f"hold-{study.stem}").touch()

    def release(self, name, study):
        """Let it go on."""
        (self.folder / name / f"hold-{study.stem}").unlink(missing_ok=True)

    def let_through(self, name, study, report):
        """Let a site that is held send one report, and be held again at the next question.

        Something else must keep the phase from ending meanwhile.
        """
        self.release(name, study)
        self.until_sent(name, study, report)
        self.hold(name, study)

    def until_held(self, name, study, number):
        text = f"held in phase {number}"
        wait_until(lambda: self.said(name, text, study.stem), f"{name} is held in phase {number}")

    def until_sent(self, name, study, report):
        wait_until(lambda: self.said(name, f"({report})", study.stem), f"{name} sends a {report}")

    def submit(self, study, *more, min_sources=1, deadline=60, user="lead@demo.org"):
        """Start a submission; `finish` waits for it."""
        return self.command_of(
            "submit", str(study), "--kit", str(self.kit(user)), "--min-sources", str(min_sources),
            "--deadline", str(deadline), "--out", str(study.with_suffix(".result")), *more,
        )  # fmt: skip

    def command_of(self, *arguments):
        """A command of ``fedcsa study`` that runs; `finish` waits for it."""
        command = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "fedcsa", "study", *arguments, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"},
        )  # fmt: skip
        self.commands.append(command)
        return command

    def finish(self, submission, code=0):
        try:
            out, err = submission.communicate(timeout=PATIENCE + 120)
        except subprocess.TimeoutExpired:
            submission.kill()
            out, err = submission.communicate()
            pytest.fail(f"a submission did not end: {out} {err}")
        self.commands.remove(submission)
        assert submission.returncode == code, (out, err)
        lines = out.strip().splitlines() or [json.dumps({"error": err})]
        return json.loads(out if lines[0] == "{" else lines[-1])

    def run(self, study, *more, **options):
        code = options.pop("code", 0)
        return self.finish(self.submit(study, *more, **options), code)

    def result(self, study):
        """The target's own result."""
        from fedcsa.answer.store import load_result
        from fedcsa.site.agreed import AgreedStudy

        name = AgreedStudy(study.read_text(encoding="utf-8")).id.replace("@", "_")
        return load_result(self.state("new") / "results" / name)

    def sent(self, name, study):
        """Kind and message of everything that left a site in a study."""
        from fedcsa.site.log import SiteLog

        return [
            (item.kind, item.entry.message)
            for item in SiteLog(self.state(name)).sent
            if item.entry.study == study.stem
        ]


#: Ends the processes that name a folder, once whoever started it has ended, in whatever way.
REAPER = """
import sys
import psutil
sys.stdin.read()
for process in psutil.process_iter(["pid", "cmdline"]):
    if sys.argv[1] in " ".join(process.info["cmdline"] or ()) and process != psutil.Process():
        process.kill()
"""
CONNECTED = "connected, waiting for a study"
CHILD = "fedcsa.site.opening"
HOLD = Path(__file__).parent / "hold"
POISON = Path(__file__).parents[1] / "attacks" / "poison"


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")
    # Workers start some thirty times: let them find compiled files, as those of real sites do.
    unwritten = os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Whoever ends the tests must not leave a federation behind.
    ended = signal.signal(signal.SIGTERM, signal.default_int_handler)
    federation = Live(tmp_path_factory.mktemp("federation"))
    reaper = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", REAPER, str(federation.folder)],
        stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        federation.start("localhost")
        federation.start_and_wait("new", *SOURCES)
        yield federation
    finally:
        federation.stop()
        reaper.communicate()
        signal.signal(signal.SIGTERM, ended)
        if unwritten is not None:
            os.environ["PYTHONDONTWRITEBYTECODE"] = unwritten


@pytest.fixture
def calm(live):
    """The federation with every site up and on its strict settings, before and after."""
    missing = [n for n in ("localhost", "new", *SOURCES) if n not in live.processes]
    if missing:
        live.start_and_wait(*missing)
    yield live
    for name in SOURCES:
        live.configure(name)
