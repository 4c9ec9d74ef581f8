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
TWO = ("abbey", "birch")
#: Bytes of a page of memory.
PAGE = os.sysconf("SC_PAGE_SIZE")
APPROVE = "approve = true"
REPORTS = ["risk-report", "model-report", "examination-report"]
CONNECTED = "connected, waiting for a study"
#: What becomes of castle's models: see `POISONED` of the fixtures.
CRASHED = "model rejected: opening_crashed"


def numbers(adaptation):
    """All but the ledgers, which hold times and each site's own part."""
    plain = json.loads(json.dumps(summary(adaptation)))
    for report in (*plain["reports"].values(), *plain["examinations"].values()):
        report.pop("in_reply_to")
    plain.pop("sites")
    models = adaptation.model_reports
    return plain, {n: encode(dataclasses.replace(m, in_reply_to="")) for n, m in models.items()}


def in_process(study, without=()):
    """The result of a run in one process, without some sources."""
    described = Study.load(study)
    kept = {name: path for name, path in described.sources.items() if name not in without}
    return dataclasses.replace(described, sources=kept).run()


def assert_same(live, study, without=()):
    """The target's result equals, to the bit, the run in one process without some sources."""
    assert numbers(live.result(study)) == numbers(in_process(study, without))


def left(live, name, study):
    """The messages that left a site in a study, in their order; a repeated one counts once."""
    return [message for kind, message in live.sent(name, study) if kind == "sent"]


# Equal results -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(live):
    """A search for a frame's pipeline that ran to its end: its file, and what the lead was told."""
    study = live.study("equal", "classes")
    return study, live.run(study, min_sources=3)


def test_the_federated_result_equals_the_one_in_process_to_the_bit(live, finished):
    """Though one source's model crashes whoever opens it: it is named, and the study goes on."""
    study, told = finished
    assert (told["outcome"], told["attempts"]) == ("done", 1)
    assert told["sources"] == {**dict.fromkeys(SOURCES, "answered"), "castle": CRASHED}
    assert_same(live, study, without=["castle"])
    result = live.result(study)
    assert tuple(result.examinations) == ("abbey", "birch", "dunes")
    shared = json.loads((study.with_suffix(".result") / "adaptation.json").read_text())
    assert shared["target_risk"] == result.target_risk
    assert not (study.with_suffix(".result") / "models").exists()
    for name in ("abbey", "birch", "dunes"):
        # On a loaded machine the server asks twice and the same bytes are sent again.
        assert left(live, name, study) == ["risk-report", *REPORTS]  # one a round
    assert result.rounds == (2, 1)
    assert "search" in told["seconds"]


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
    """What another process of this test holds in memory, piece by piece; some end meanwhile.

    Only pages that are there are read: gigabytes are reserved and empty, and while a slow machine
    looked through them the study would end.
    """
    with (
        contextlib.suppress(FileNotFoundError, ProcessLookupError),
        Path(f"/proc/{pid}/mem").open("rb", 0) as memory,
        Path(f"/proc/{pid}/pagemap").open("rb", 0) as pagemap,
    ):
        for region in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            places, allowed = region.split()[:2]
            first, last = (int(place, 16) // PAGE for place in places.split("-"))
            if allowed.startswith("rw"):
                pagemap.seek(8 * first)
                flags = np.frombuffer(pagemap.read(8 * (last - first)), np.uint64)
                there = np.flatnonzero(flags >> 62)  # in memory, or swapped out
                for run in np.split(there, np.flatnonzero(np.diff(there) > 1) + 1):
                    with contextlib.suppress(OSError):
                        memory.seek(PAGE * (first + int(run[0] if len(run) else 0)))
                        yield memory.read(PAGE * len(run))


def memory_at(live, name):
    """What the processes of a participant hold in memory, piece by piece."""
    pids = (live.processes[name].pid, *live.processes[name].workers())
    return (piece for pid in pids for piece in memory_of(pid))


def test_the_server_stores_no_byte_of_a_message(live, finished):
    files = [path for path in live.kit("localhost").rglob("*") if path.is_file()]
    assert len(files) > 10
    whole = b"\n".join(path.read_bytes() for path in files)
    assert [shape for shape in known_shapes(live, finished[0]) if shape in whole] == []


# Whatever dies -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lossy(live):
    """A study that loses a source in every phase, and memory before the last one went.

    Of the target, whether a number of a message is there; of the server, all.

    Castle sleeps from its first phase on, birch is killed in its second, abbey in its third.
    Each phase ends with its deadline, so nothing depends on who is faster.
    """
    study = live.study("lossy")
    for site in ("abbey", "birch", "castle"):
        live.hold(site, study)
    submission = live.submit(study, min_sources=1, deadline=25)
    for site in ("abbey", "birch", "castle"):
        live.until_held(site, study, 1)
    asleep = live.worker("castle")
    os.kill(asleep, signal.SIGSTOP)
    try:
        for site in TWO:
            live.let_through(site, study, "risk-report")
        for site in TWO:
            live.until_held(site, study, 2)
        live.kill("birch")
        live.let_through("abbey", study, "model-report")
        live.until_held("abbey", study, 3)
        shapes = known_shapes(live, study)
        target = any(shape in piece for piece in memory_at(live, "new") for shape in shapes)
        server = b"\n".join(memory_at(live, "localhost"))
        live.kill("abbey")
        told = live.finish(submission)
    finally:
        live.release("castle", study)
        with contextlib.suppress(ProcessLookupError):
            os.kill(asleep, signal.SIGCONT)
    return study, told, target, server, shapes


def test_a_source_that_sleeps_or_dies_is_named_with_its_phase_and_the_study_goes_on(live, lossy):
    study, told, *_ = lossy
    assert told["sources"] == {
        "abbey": "examination missing", "birch": "model missing", "castle": "missing",
        "dunes": "answered",
    }  # fmt: skip
    found = live.result(study)
    assert set(found.source_weights) == {"abbey", "dunes"}
    assert found.promise.examined_by == ("dunes",)
    expected = in_process(study, without=["birch", "castle"])
    assert found.source_weights == expected.source_weights
    assert numbers(found)[1] == numbers(expected)[1]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no /proc here")
def test_the_servers_memory_holds_no_byte_of_a_message_and_the_targets_does(lossy):
    _, _, target, server, shapes = lossy
    assert target  # so the search finds what is there
    assert len(server) > 50 << 20  # two processes that have loaded the engine
    assert [shape for shape in shapes if shape in server] == []


def test_whatever_dies_costs_a_resubmission_and_no_second_disclosure(calm):
    """A source waits for its steward, so the lead's command ends, and another takes the study up.

    Then a source's worker is killed, then the server and the target at once.
    """
    calm.configure("abbey", APPROVE)
    study = calm.study("resumed", sources=TWO)
    waiting = calm.run(study, "--no-wait", min_sources=2, code=8)
    assert waiting["outcome"] == "waiting"
    assert {site["name"]: site["waits"] for site in waiting["sites"]} == {
        "abbey": True, "birch": False,
    }  # fmt: skip
    assert calm.sent("abbey", study) == [("waiting", "refusal")]
    [item] = SiteLog(calm.state("abbey")).waiting()
    assert (item["lead"], item["target"]) == ("lead@demo.org", "new")
    SiteLog(calm.state("abbey")).decide(item["id"], "approved")
    for site in TWO:
        calm.hold(site, study)
    submission = calm.command_of("watch", study.stem, "--kit", str(calm.kit("lead@demo.org")))
    calm.until_held("abbey", study, 1)
    calm.release("abbey", study)
    calm.until_held("birch", study, 2)
    os.kill(calm.worker("birch"), signal.SIGKILL)
    calm.until_sent("abbey", study, "model-report")
    calm.hold("abbey", study)
    calm.release("birch", study)
    calm.until_held("abbey", study, 3)
    before = {event: SiteLog(calm.state("new")).find(event, study=study.stem) for event in KEPT}
    assert None not in before.values()
    calm.kill("localhost")
    calm.kill("new")
    calm.release("abbey", study)
    calm.start_and_wait("localhost", "new")
    told = calm.finish(submission)
    assert told["attempts"] >= 3
    assert set(told["sources"].values()) == {"answered"}
    log = SiteLog(calm.state("new"))
    assert {event: log.find(event, study=study.stem) for event in KEPT} == before
    sent = left(calm, "new", study)
    assert [sent.count(m) for m in ("brief", "model-request", "examination")] == [2, 2, 2]
    assert_same(calm, study)
    for name in TWO:
        assert sorted(left(calm, name, study)) == sorted(REPORTS)


#: What the target may not decide a second time.
KEPT = ("chosen", "mixed")


def test_refusals_are_told_by_name_no_text_leaves_and_too_few_sources_give_no_model(calm, tampered):
    calm.configure("birch", '[policy]\nmodels = ["weighted-least-squares"]')
    calm.configure("castle", '[columns]\nage = "MARKER-4711"')
    study = calm.study("mixed")
    told = calm.run(study, min_sources=2, deadline=30, code=4)
    assert told["outcome"] == "min_sources"
    assert told["sources"] == {
        "abbey": "answered",
        "birch": "refused: models",
        "castle": "refused: failed",
        tampered: "missing",  # nothing is let out
    }
    result = study.with_suffix(".result")
    assert json.loads((result / "adaptation.json").read_text())["status"] == "no model"
    assert "Do not use it" in (result / "report.html").read_text(encoding="utf-8")
    for folder in (result, calm.state("new") / "results"):
        assert not [path for path in folder.rglob("*.fcsa") if study.stem in str(path)]
    assert calm.said("castle", "MARKER-4711"), "the person at the site is told"
    for place in (calm.kit("localhost"), calm.kit("lead@demo.org"), result):
        files = [path for path in place.rglob("*") if path.is_file()]
        assert [path for path in files if b"MARKER-4711" in path.read_bytes()] == []


@pytest.fixture
def tampered(calm, finished):  # noqa: ARG001 - the log must hold something
    """A site whose log somebody edited."""
    path = calm.state("dunes") / LOG
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("model-report", "model-rapport", 1), encoding="utf-8")
    with pytest.raises(LedgerError, match="Line"):
        assert SiteLog(calm.state("dunes")).sent
    yield "dunes"
    mended = path.read_text(encoding="utf-8").replace("model-rapport", "model-report")
    path.write_text(mended, encoding="utf-8")
    assert len(SiteLog(calm.state("dunes")).sent) > 2


def test_a_replayed_question_is_refused_by_the_state_that_a_real_run_left(calm, finished):
    study, _ = finished
    agreed = AgreedStudy(study.read_text(encoding="utf-8"))
    log = SiteLog(calm.state("abbey"))
    nonce = next(
        x["nonce"] for x in log.events if x["event"] == "asked" and x["study"] == agreed.id
    )
    brief = log.find("accepted", study=study.stem, target="new", phase="risk")["request"]
    again = Envelope(agreed.id, "risk", "new", "abbey", nonce, digest=brief)
    site = SiteFile.load(calm.folder / "abbey" / "site.toml")
    desk = SourceDesk("abbey", site, agreed, Envelope(agreed.id, "start", "lead", "new", ""))
    refusal = decode(desk.answer(again.to_bytes(), log.payload(brief))[1])
    assert refusal.rule == "replayed"


# Those who may not ---------------------------------------------------------------------------


LOOK_AROUND = """
import sys, time
from pathlib import Path
from fedcsa.federation.flare.kits import Kit
from fedcsa.federation.flare.session import _session, _status
kit, jobs = Path(sys.argv[1]), sys.argv[2:]
with _session(kit, Kit.load(kit), 60.0) as session:
    for target in ("server", "abbey"):
        for call in (
            lambda: session.cat_target(target, file="log.txt"),
            lambda: session.grep_target(target, pattern="study", file="log.txt"),
            lambda: session.ls_target(target),
            lambda: session.tail_target(target, file="log.txt"),
            lambda: session.get_working_directory(target),
        ):
            try:
                print("GOT", call())
            except Exception as error:
                print(type(error).__name__)
    for job in jobs:
        try:
            job_id = session.submit_job(job)
        except Exception as error:
            print("REFUSED", type(error).__name__)
            continue
        end = time.monotonic() + 150.0
        while time.monotonic() < end and not _status(session, job_id).startswith("FINISHED"):
            time.sleep(0.3)
        print(_status(session, job_id))
"""


@pytest.fixture(scope="module")
def lines_of_a_lead(live, tmp_path_factory):
    """What a lead gets who looks around and submits two jobs that are not ours."""
    folder = tmp_path_factory.mktemp("jobs")
    jobs = [
        write(live, folder / "code", "smuggled", smuggle),
        write(live, folder / "class", "other-class", name_another_class),
    ]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "ignore", "-c", LOOK_AROUND, str(live.kit("lead@demo.org")),
         *map(str, jobs)],
        capture_output=True, text=True, timeout=400, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()[-12:]


def write(live, folder, name, change):
    """A job folder that was changed before it is submitted."""
    from fedcsa.federation.flare.seal import KitSeal
    from fedcsa.federation.flare.session import Submission, write_job

    agreed = AgreedStudy(live.study(name, sources=("abbey",)).read_text(encoding="utf-8"))
    seal = KitSeal(live.kit("lead@demo.org") / "startup")
    start = ask(agreed.id, "start", "lead@demo.org", "new", seal)
    write_job(Submission(agreed, "new", 1, 30, start, seal), folder)
    change(folder)
    return folder


def smuggle(folder):
    custom = folder / "app_site" / "custom"
    custom.mkdir()
    (custom / "evil.py").write_text("raise SystemExit\n")


def name_another_class(folder):
    path = folder / "app_site" / "config" / "config_fed_client.json"
    content = json.loads(path.read_text())
    trainer = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}
    content["executors"][0]["executor"] = trainer
    path.write_text(json.dumps(content))


def test_nobody_looks_around_at_a_site_or_the_server(lines_of_a_lead):
    assert lines_of_a_lead[:10] == ["AuthorizationError"] * 10


def test_a_job_that_carries_code_or_names_another_class_is_not_run(live, lines_of_a_lead):
    code, other_class = lines_of_a_lead[10:]
    assert code.startswith(("REFUSED", "FINISHED")), code
    assert other_class.startswith("FINISHED"), other_class
    assert "FINISHED:COMPLETED" not in (code, other_class)
    for study in ("smuggled", "other-class"):
        assert not any(live.said(name, "computing", study) for name in SOURCES)


def test_a_user_without_the_right_cannot_submit(calm):
    told = calm.run(calm.study("viewer"), user="viewer@demo.org", code=4)
    assert "'viewer@demo.org' may not submit studies; a lead may." in told["error"]["message"]


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


def test_a_site_that_is_started_by_its_command_says_so_and_ends_with_its_processes(calm, finished):
    """With a kit that was renewed while all others stayed, and a key that a password locks."""
    assert finished[1]["sources"]["dunes"] == "answered"
    site = calm.processes.pop("dunes")
    again = subprocess.run(site.command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (again.returncode, "in use by another" in again.stderr) == (3, True)
    children = [psutil.Process(pid) for pid in site.workers()]
    assert children
    assert site.stop() == 0
    assert CONNECTED in (calm.folder / "said.txt").read_text(encoding="utf-8")
    assert not [child for child in children if child.is_running()]
    assert not (calm.kit("dunes") / "startup" / "client.key").is_symlink()
