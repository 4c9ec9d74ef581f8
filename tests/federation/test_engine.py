"""The real engine: equal results, and every failure that hospitals have."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedcsa.answer.store import summary
from fedcsa.errors import LedgerError
from fedcsa.messages.codec import MAGIC, PROTOCOL_VERSION, decode, digest, encode
from fedcsa.messages.envelope import Envelope, ask
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import LOG, SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import SourceDesk
from fedcsa.study import Study

psutil = pytest.importorskip("psutil", reason="it comes with the engine, nvflare")
SOURCES = ("abbey", "birch", "castle", "dunes")
TWO = ("abbey", "castle")
KINDS = {"ridge": SOURCES, "classifier": TWO, "pipeline": ("birch", "dunes"), "given": TWO}
APPROVE = "approve = true"
REPORTS = ["risk-report", "model-report", "examination-report"]
CONNECTED = "connected, waiting for a study"


def numbers(adaptation):
    """All but the ledgers, which hold times and each site's own part."""
    plain = json.loads(json.dumps(summary(adaptation)))
    for report in (*plain["reports"].values(), *plain["examinations"].values()):
        report.pop("in_reply_to")
    plain.pop("sites")
    models = adaptation.model_reports
    return plain, {n: encode(dataclasses.replace(m, in_reply_to="")) for n, m in models.items()}


def assert_same(live, study, without=()):
    """The target's result equals, to the bit, the run in one process without some sources."""
    described = Study.load(study)
    kept = {name: path for name, path in described.sources.items() if name not in without}
    expected = dataclasses.replace(described, sources=kept).run()
    assert numbers(live.result(study)) == numbers(expected)


def until(holds, what, patience=180.0):
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.1)


def held(live, name, phase, sources=TWO, **options):
    """A study that waits in `phase`: its file, its submission, and the site that holds it."""
    for site in TWO:
        live.configure(site, APPROVE)
    study = live.study(name, sources=sources)
    submission = live.submit(study, **options)
    return study, submission, live.hold(study, phase)


def assert_nothing_was_disclosed_twice(live, study):
    for name in TWO:
        left = [message for kind, message in live.sent(name, study) if kind == "sent"]
        assert sorted(left) == sorted(REPORTS)


# Equal results -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(live):
    """Four studies that ran at the same time: their files, and what the lead was told."""
    studies = {kind: live.study(f"equal-{kind}", kind, KINDS[kind]) for kind in KINDS}
    running = {kind: live.submit(study, min_sources=2) for kind, study in studies.items()}
    return {kind: (studies[kind], live.finish(running[kind])) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_the_federated_result_equals_the_one_in_process_to_the_bit(live, finished, kind):
    study, told = finished[kind]
    assert told["sources"] == dict.fromkeys(KINDS[kind], "answered")
    assert_same(live, study)
    shared = json.loads((study.with_suffix(".result") / "adaptation.json").read_text())
    assert shared["target_risk"] == live.result(study).target_risk
    assert not (study.with_suffix(".result") / "models").exists()
    for name in KINDS[kind]:
        # On a loaded machine the server asks twice and the same bytes are sent again.
        left = [message for how, message in live.sent(name, study) if how == "sent"]
        assert left == [r for r in REPORTS if kind != "given" or r != "model-report"]
    assert tuple(live.result(study).examinations) == KINDS[kind]


# What the server sees ------------------------------------------------------------------------


def known_shapes(live, study):
    """Numbers that the sites sent in a study, as bytes and text, and the digests of messages."""
    shapes = {MAGIC + struct.pack("<H", PROTOCOL_VERSION), b'"risk-report"'}
    for name in ("new", *SOURCES):
        for path in (live.state(name) / "payloads").glob("*.fcsa"):
            payload = path.read_bytes()
            message = decode(payload) if payload.startswith(MAGIC) else None
            if getattr(message, "study", "") != study.stem:
                continue
            shapes.add(digest(payload).encode())
            for number in np.ravel(getattr(message, "risk", ())).tolist():
                text = repr(number).encode()
                shapes |= {struct.pack("<d", number), struct.pack(">d", number)}
                shapes |= {text} if len(text) > 6 else set()
    assert len(shapes) > 10
    return shapes


def memory_of(pid):
    """What another process of this test holds in memory, piece by piece; some end meanwhile."""
    with (
        contextlib.suppress(FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess),
        Path(f"/proc/{pid}/mem").open("rb", 0) as memory,
    ):
        for region in psutil.Process(pid).memory_maps(grouped=False):
            first, last = (int(part, 16) for part in region.addr.split("-"))
            if region.perms.startswith("rw") and region.rss:  # gigabytes are reserved and empty
                with contextlib.suppress(OSError):
                    memory.seek(first)
                    yield memory.read(last - first)


def found_at(live, name, shapes):
    """The shapes that lie in the memory of a participant's processes."""
    pids = (live.processes[name].pid, *live.processes[name].workers())
    pieces = (piece for pid in pids for piece in memory_of(pid))
    return {shape for piece in pieces for shape in shapes if shape in piece}


@pytest.mark.usefixtures("finished")
def test_the_server_stores_no_byte_of_a_message(live):
    files = [path for path in live.kit("localhost").rglob("*") if path.is_file()]
    assert len(files) > 10
    whole = b"\n".join(path.read_bytes() for path in files)
    for kind in KINDS:
        shapes = known_shapes(live, live.folder / f"equal-{kind}.toml")
        assert [shape for shape in shapes if shape in whole] == []


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc here")
def test_the_servers_memory_holds_no_byte_of_a_message_and_the_targets_does(calm):
    study, submission, site = held(calm, "looked-into", "examine", min_sources=2)
    shapes = known_shapes(calm, study)
    found = {name: found_at(calm, name, shapes) for name in ("localhost", "new")}
    calm.decide(site, study, "approved")
    calm.finish(submission)
    assert found["new"]  # so the search finds what is there
    assert found["localhost"] == set()


# Whatever dies -------------------------------------------------------------------------------


def test_a_source_killed_before_its_model_is_as_if_it_were_not_there(calm):
    running = {
        fate: held(calm, f"killed-in-{phase}", phase, min_sources=1, deadline=75)
        for phase, fate in (("model", "model missing"), ("risk", "missing"))
    }
    assert {site for _, _, site in running.values()} == {"castle"}
    calm.kill("castle")
    for fate, (study, submission, _) in running.items():
        assert calm.finish(submission)["sources"] == {"abbey": "answered", "castle": fate}
        assert_same(calm, study, without=["castle"])


def test_a_source_killed_in_the_examination_is_named_and_the_promise_rests_on_the_others(calm):
    study, submission, site = held(calm, "killed-in-examine", "examine", min_sources=2, deadline=25)
    calm.kill(site)
    told = calm.finish(submission)
    [other] = set(TWO) - {site}
    assert told["sources"] == {other: "answered", site: "examination missing"}
    found = calm.result(study)
    assert set(found.source_weights) == set(TWO)
    assert found.promise.examined_by == (other,)


def test_a_killed_worker_costs_a_resubmission_and_no_second_disclosure(calm):
    study, submission, site = held(calm, "killed-worker", "model", min_sources=2)
    os.kill(calm.worker(site), signal.SIGKILL)
    calm.decide(site, study, "approved")
    told = calm.finish(submission)
    assert told["attempts"] >= 2
    assert set(told["sources"].values()) == {"answered"}
    assert_same(calm, study)
    assert_nothing_was_disclosed_twice(calm, study)


@pytest.fixture
def poisoned(calm, monkeypatch):
    """The target's messages from abbey with a model end whoever opens them (attack A3)."""
    folder = Path(__file__).parents[1] / "attacks" / "poison"
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        patch.setenv("FEDCSA_TEST_POISON", "model-report abbey segfault")
        calm.kill("new")
        calm.start_and_wait("new")
    yield calm
    calm.kill("new")
    calm.start_and_wait("new")


def test_a_source_that_crashes_whoever_opens_its_model_is_named_and_the_study_goes_on(poisoned):
    sources = ("abbey", "birch", "castle")
    study = poisoned.study("crashing", sources=sources)
    told = poisoned.run(study, min_sources=2)
    assert (told["outcome"], told["attempts"]) == ("done", 1)
    assert told["sources"] == {
        "abbey": "model rejected: opening_crashed", "birch": "answered", "castle": "answered",
    }  # fmt: skip
    assert_same(poisoned, study, without=["abbey"])
    for name in ("birch", "castle"):
        left = [message for how, message in poisoned.sent(name, study) if how == "sent"]
        assert left == REPORTS


def test_a_killed_server_costs_a_resubmission_and_no_second_disclosure(calm):
    study, submission, site = held(calm, "killed-server", "examine", min_sources=2)
    calm.kill("localhost")
    calm.decide(site, study, "approved")
    calm.start("localhost")
    told = calm.finish(submission)
    assert told["attempts"] >= 2
    assert set(told["sources"].values()) == {"answered"}
    assert_same(calm, study)
    assert_nothing_was_disclosed_twice(calm, study)


@pytest.mark.parametrize(("phase", "told_before"), [("model", "chosen"), ("examine", "mixed")])
def test_a_killed_target_resumes_with_what_it_told(calm, phase, told_before):
    study, submission, site = held(
        calm, f"killed-target-{phase}", phase, min_sources=2, deadline=15
    )
    before = SiteLog(calm.state("new")).find(told_before, study=study.stem)
    calm.kill("new")
    calm.decide(site, study, "approved")
    calm.start_and_wait("new")
    told = calm.finish(submission)
    assert set(told["sources"].values()) == {"answered"}
    assert before is not None
    assert SiteLog(calm.state("new")).find(told_before, study=study.stem) == before
    left = [message for kind, message in calm.sent("new", study) if kind == "sent"]
    assert [left.count(m) for m in ("brief", "model-request", "examination")] == [2, 2, 2]
    assert_same(calm, study)
    assert_nothing_was_disclosed_twice(calm, study)


def test_a_site_that_sleeps_past_the_deadline_is_missing(calm, sleeping):
    study, submission, site = held(calm, "asleep", "risk", min_sources=1, deadline=15)
    sleeping(calm.worker(site))
    told = calm.finish(submission)
    assert told["sources"][site] == "missing"
    assert_same(calm, study, without=[site])


def test_refusals_are_told_by_name_no_text_leaves_and_too_few_sources_give_no_model(calm):
    calm.configure("birch", '[policy]\nmodels = ["weighted-least-squares"]')
    calm.configure("castle", '[columns]\nage = "MARKER-4711"')
    calm.configure("dunes", "max_bytes = 100")
    study = calm.study("mixed")
    told = calm.run(study, min_sources=2, code=4)
    assert told["outcome"] == "min_sources"
    assert told["sources"] == {
        "abbey": "answered",
        "birch": "refused: models",
        "castle": "refused: failed",
        "dunes": "refused: max_bytes",
    }
    left = study.with_suffix(".result")
    assert json.loads((left / "adaptation.json").read_text())["status"] == "no model"
    assert "Do not use it" in (left / "report.html").read_text(encoding="utf-8")
    for folder in (left, calm.state("new") / "results"):
        assert not [path for path in folder.rglob("*.fcsa") if study.stem in str(path)]
    assert calm.said("castle", "MARKER-4711"), "the person at the site is told"
    for place in (calm.kit("localhost"), calm.kit("lead@demo.org"), left):
        files = [path for path in place.rglob("*") if path.is_file()]
        assert [path for path in files if b"MARKER-4711" in path.read_bytes()] == []


@pytest.mark.usefixtures("finished")
def test_a_tampered_ledger_is_found_and_stops_the_site(calm):
    path = calm.state("dunes") / LOG
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("model-report", "model-rapport", 1), encoding="utf-8")
    with pytest.raises(LedgerError, match="Line"):
        assert SiteLog(calm.state("dunes")).sent
    told = calm.run(calm.study("after-tampering", sources=("abbey", "dunes")), deadline=30)
    assert told["sources"] == {"abbey": "answered", "dunes": "missing"}  # nothing is let out
    mended = path.read_text(encoding="utf-8").replace("model-rapport", "model-report")
    path.write_text(mended, encoding="utf-8")
    assert len(SiteLog(calm.state("dunes")).sent) > 2


def test_a_replayed_question_is_refused_by_the_state_that_a_real_run_left(calm, finished):
    study, _ = finished["ridge"]
    agreed = AgreedStudy(study.read_text(encoding="utf-8"))
    log = SiteLog(calm.state("abbey"))
    nonce = next(
        x["nonce"] for x in log.events if x["event"] == "asked" and x["study"] == agreed.id
    )
    brief = log.find("accepted", study=study.stem, target="new", phase="risk")["request"]
    again = Envelope(agreed.id, "risk", "new", "abbey", nonce, digest=brief)
    desk = SourceDesk("abbey", SiteFile.load(calm.folder / "abbey" / "site.toml"), agreed, "new")
    refusal = decode(desk.answer(again.to_bytes(), log.payload(brief))[1])
    assert refusal.rule == "replayed"


# Those who may not ---------------------------------------------------------------------------


SUBMIT = """
import sys, time
from pathlib import Path
from fedcsa.federation.flare.kits import Kit
from fedcsa.federation.flare.session import _session, _status
kit, job = Path(sys.argv[1]), sys.argv[2]
with _session(kit, Kit.load(kit), 60.0) as session:
    try:
        job_id = session.submit_job(job)
    except Exception as error:
        print("REFUSED", type(error).__name__)
    else:
        end = time.monotonic() + 150.0
        while time.monotonic() < end and not _status(session, job_id).startswith("FINISHED"):
            time.sleep(0.3)
        print(_status(session, job_id))
"""


LOOK_AROUND = """
import sys
from pathlib import Path
from fedcsa.federation.flare.kits import Kit
from fedcsa.federation.flare.session import _session
kit, secret = Path(sys.argv[1]), sys.argv[2]
with _session(kit, Kit.load(kit), 60.0) as session:
    for target in ("server", "abbey"):
        for call in (
            lambda: session.cat_target(target, file=secret),
            lambda: session.grep_target(target, pattern="study", file=secret),
            lambda: session.ls_target(target),
            lambda: session.tail_target(target, file=secret),
            lambda: session.get_working_directory(target),
        ):
            try:
                print("GOT", call())
            except Exception as error:
                print(type(error).__name__)
"""


def in_a_process(script, *arguments):
    """What a script prints, line by line: the engine's session does not bear our warnings."""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def submitted(live, tmp_path, study, change):
    """How a job folder ends that was changed before it was submitted."""
    from fedcsa.federation.flare.seal import KitSeal
    from fedcsa.federation.flare.session import Submission, write_job

    agreed = AgreedStudy(study.read_text(encoding="utf-8"))
    seal = KitSeal(live.kit("lead@demo.org") / "startup")
    start = ask(agreed.id, "start", "lead@demo.org", "new", seal)
    folder = write_job(Submission(agreed, "new", 1, 30, start, seal), tmp_path / "job")
    change(folder)
    return in_a_process(SUBMIT, live.kit("lead@demo.org"), folder)[-1].split()


def test_nobody_looks_around_at_a_site_or_the_server(calm):
    printed = in_a_process(LOOK_AROUND, calm.kit("lead@demo.org"), "log.txt")
    assert printed[-10:] == ["AuthorizationError"] * 10


def test_a_user_without_the_right_cannot_submit(calm):
    told = calm.run(calm.study("viewer"), user="viewer@demo.org", code=4)
    assert "'viewer@demo.org' may not submit studies; a lead may." in told["error"]["message"]


def test_a_job_that_carries_code_is_not_run(calm, tmp_path):
    def smuggle(folder):
        custom = folder / "app_site" / "custom"
        custom.mkdir()
        (custom / "evil.py").write_text("raise SystemExit\n")

    ended = submitted(calm, tmp_path, calm.study("smuggled", sources=("abbey",)), smuggle)
    assert ended[-1] != "FINISHED:COMPLETED"
    assert ended[0] == "REFUSED" or ended[-1].startswith("FINISHED"), ended
    assert not any(calm.said(name, "computing", "smuggled") for name in SOURCES)


def test_a_job_that_names_another_class_is_not_run(calm, tmp_path):
    trainer = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}

    def other_class(folder):
        path = folder / "app_site" / "config" / "config_fed_client.json"
        content = json.loads(path.read_text())
        content["executors"][0]["executor"] = trainer
        path.write_text(json.dumps(content))

    ended = submitted(calm, tmp_path, calm.study("other-class", sources=("abbey",)), other_class)
    assert ended[-1].startswith("FINISHED"), ended
    assert ended[-1] != "FINISHED:COMPLETED"
    assert not any(calm.said(name, "computing", "other-class") for name in SOURCES)


def test_a_connection_without_a_certificate_or_in_plain_text_gets_nothing(calm):
    with socket.create_connection(("localhost", calm.port), timeout=30) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        plain.settimeout(30)
        assert b"HTTP" not in plain.recv(1024)
    with pytest.raises((ssl.SSLError, ConnectionError), match=r"certificate|reset|EOF|alert"):
        greet_without_certificate(calm)


def greet_without_certificate(live):
    root = live.kit("abbey") / "startup" / "rootCA.pem"
    context = ssl.create_default_context(cafile=str(root))
    with (
        socket.create_connection(("localhost", live.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if not wrapped.recv(1024):
            raise ConnectionResetError("reset")


# The command ---------------------------------------------------------------------------------


@pytest.fixture
def locked(calm, tmp_path):
    """Castle, with a renewed kit whose key is locked, and the file of its password."""
    from fedcsa.federation.flare.keys import locked_path
    from fedcsa.federation.flare.kits import renew

    calm.kill("castle")
    word, kits = tmp_path / "password.txt", calm.folder / "kits"
    word.write_text("correct horse\n")
    renew(calm.federation, kits, "castle", password="correct horse")  # noqa: S106 - of a test
    yield word
    locked_path(kits / "castle", "source").unlink()  # a locked key is not renewed without a lock
    renew(calm.federation, kits, "castle")


def test_a_site_that_is_started_by_its_command_says_so_and_ends_with_its_processes(calm, locked):
    """With a kit that was renewed while all others stayed, and a key that a password locks."""
    command = [sys.executable, "-m", "fedcsa", "site", "start", str(calm.kit("castle")),
               "--data", str(calm.folder / "castle" / "site.toml"),
               "--password-file", str(locked)]  # fmt: skip
    said = calm.lines("castle").count(CONNECTED)
    site = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        until(lambda: calm.lines("castle").count(CONNECTED) > said, "castle connects")
        again = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        assert (again.returncode, "in use by another" in again.stderr) == (3, True)
        children = psutil.Process(site.pid).children(recursive=True)
        assert children
        told = calm.run(calm.study("renewed", sources=TWO), min_sources=2)
        assert set(told["sources"].values()) == {"answered"}
    finally:
        site.send_signal(signal.SIGTERM)
        out, _ = site.communicate(timeout=120)
    assert site.returncode == 0
    assert CONNECTED in out
    assert not [child for child in children if child.is_running()]
    assert not (calm.kit("castle") / "startup" / "client.key").is_symlink()
