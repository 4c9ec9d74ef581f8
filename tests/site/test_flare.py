"""Controller, executors and filter of the engine, over a communicator of a few lines."""

import base64
import dataclasses
import functools
import json
import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, TaskCompletionStatus
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.wf_comm_spec import WFCommSpec
from nvflare.fuel.utils import fobs

from fedcsa.answer import page
from fedcsa.errors import BindingError, MessageError, OpeningError, StudyError
from fedcsa.federation.flare import controller as controller_module
from fedcsa.federation.flare import executors as executors_module
from fedcsa.federation.flare import seal as seal_module
from fedcsa.federation.flare.controller import PROGRESS, StudyController
from fedcsa.federation.flare.egress import EgressFilter
from fedcsa.federation.flare.executors import SiteExecutor
from fedcsa.federation.flare.letters import pack, unpack
from fedcsa.federation.flare.seal import KitSeal, open_seal
from fedcsa.federation.flare.session import Submission, open_conclusion, write_job
from fedcsa.federation.flare.settings import SETTINGS
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.envelope import Envelope, ask, close, greeting, reply
from fedcsa.messages.messages import BacktestReport, Conclusion, Refusal
from fedcsa.site.log import HEAD, LOG, open_log
from fedcsa.site.opening import Opener

SOURCES = ["abbey", "birch", "castle"]
LEAD = "lead@demo.org"
#: phase -> what comes before a trouble in a source's fate
PHASES = {"risk": "", "model": "model ", "examine": "examination "}


class Workspace:
    """As much of the engine's as our classes ask for."""

    def __init__(self, folder):
        self.folder = folder

    def get_site_config_dir(self):
        return str(self.folder)

    def get_startup_kit_dir(self):
        return str(self.folder / "startup")

    def get_run_dir(self, job_id):
        return str(self.folder / job_id)


class Engine:
    def __init__(self, names):
        self.names = names
        self.commands = {}

    def get_clients(self):
        return [Client(name, "") for name in self.names]

    def register_app_command(self, topic, function):
        self.commands[topic] = function

    def fire_event(self, *_):
        pass


def context(name, folder, engine=None):
    fl_ctx = FLContext()
    for key, value in (
        (ReservedKey.IDENTITY_NAME, name),
        (ReservedKey.RUN_NUM, "job"),
        (ReservedKey.ENGINE, engine),
        (FLContextKey.WORKSPACE_OBJECT, Workspace(folder)),
    ):
        fl_ctx.set_prop(key, value, private=True, sticky=False)
    return fl_ctx


class Communicator(WFCommSpec):
    """Runs a site's executor and filter where the engine would send the task."""

    def __init__(self, sites):
        self.sites = sites  # name -> (executor, context)
        self.silent = set()
        self.filter = EgressFilter()

    def broadcast(self, task, fl_ctx, targets, *_):
        (name,) = targets
        if name in self.silent:
            return
        client_task = ClientTask(Client(name, ""), task)
        client_task.result = self.answer(name, task)
        task.result_received_cb(client_task, fl_ctx)
        task.completion_status = TaskCompletionStatus.OK

    def answer(self, name, task):
        executor, site = self.sites[name]
        data = fobs.loads(fobs.dumps(task.data))
        reply = executor.execute(task.name, data, site, Signal())
        try:
            reply = self.filter.process(reply, site)
        except ContentBlockedException:
            return make_reply(ReturnCode.TASK_RESULT_FILTER_ERROR)
        return fobs.loads(fobs.dumps(reply))

    def cancel_task(self, task, completion_status=TaskCompletionStatus.CANCELLED, *_):
        task.completion_status = completion_status

    def _nothing(self, *_args, **_kwargs):
        return None

    broadcast_and_wait = broadcast_forever = send = send_and_wait = relay = relay_and_wait = (
        _nothing
    )
    get_num_standing_tasks = cancel_all_tasks = check_tasks = process_task_request = _nothing
    handle_exception = process_submission = get_client_disconnect_time = _nothing
    process_dead_client_report = client_is_active = process_task_check = _nothing
    initialize_run = finalize_run = _nothing


@functools.cache
def key_of(name):  # noqa: ARG001 - one key a name
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@functools.cache
def certificate(name, authority="root", role="", days=1):
    """A certificate of `name`, as provisioning makes it."""
    now = datetime.now(UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (name, authority)]
    if role:
        attributes = [*names[0], x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role)]
        names[0] = x509.Name(attributes)
    builder = x509.CertificateBuilder(
        names[1], names[0], key_of(name).public_key(), x509.random_serial_number(),
        now - timedelta(days=9), now + timedelta(days=days),
    )  # fmt: skip
    return builder.sign(key_of(authority), SHA256()).public_bytes(Encoding.PEM)


@functools.cache
def private_key(name):
    traditional = PrivateFormat.TraditionalOpenSSL
    return key_of(name).private_bytes(Encoding.PEM, traditional, NoEncryption())


def write_keys(folder, name, authority="root", **options):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "client.key").write_bytes(private_key(name))
    (folder / "client.crt").write_bytes(certificate(name, authority, **options))
    (folder / "rootCA.pem").write_bytes(certificate(authority, authority))


class Bench:
    """A federation whose messages go through the engine's containers and serialiser."""

    def __init__(self, federation, deadline=60, min_sources=1, wait=True):
        self.federation = federation
        open_log.cache_clear()  # as in new processes
        open_seal.cache_clear()
        study = base64.b64encode(federation.study_file.read_bytes()).decode()
        self.contexts = {}
        for name in ("new", *SOURCES):
            folder = federation.folder / name
            write_keys(folder / "startup", name)
            (folder / SETTINGS).write_text(json.dumps({"site_file": str(folder / "site.toml")}))
            self.contexts[name] = context(name, folder)
        write_keys(federation.folder / "lead" / "startup", LEAD, role="lead")
        seal = KitSeal(federation.folder / "lead" / "startup")
        start = ask(federation.agreed.id, "start", LEAD, "new", seal)
        self.submission = Submission(federation.agreed, "new", min_sources, deadline, start, seal)
        wire = base64.b64encode(start.sealed(seal)).decode()
        job = (study, "new", min_sources, wait, wire)
        self.communicator = Communicator(
            {name: (SiteExecutor(*job), self.contexts[name]) for name in ("new", *SOURCES)}
        )
        self.engine = Engine(["new", *SOURCES])
        self.fl_ctx = context("server", federation.folder / "server", self.engine)
        self.controller = StudyController("new", SOURCES, deadline)
        self.controller.set_communicator(self.communicator)
        self.controller.start_controller(self.fl_ctx)

    def run(self, abort=None):
        self.controller.control_flow(abort or Signal(), self.fl_ctx)
        return self.engine.commands[PROGRESS](PROGRESS, {"fetched": True}, self.fl_ctx)

    def conclusion(self):
        return open_conclusion(self.run(), self.submission)

    def seal(self, name):
        """The seal of a site in this process."""
        return open_seal(self.federation.folder / name / "startup")


#: The engine's sites read their key once; here they do so for every test.
read_key = functools.cache(seal_module.load_pem_private_key)


def hurry(monkeypatch):
    monkeypatch.setattr(controller_module, "LINGER", 0.0)
    monkeypatch.setattr(controller_module, "_POLL", 0.001)
    monkeypatch.setattr(seal_module, "load_pem_private_key", read_key)
    monkeypatch.setattr(page, "write_report", lambda _: None)  # other tests are about the report


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    hurry(monkeypatch)


@pytest.fixture
def bench(federation):
    return Bench(federation)


@pytest.fixture(scope="module")
def done(tmp_path_factory, federation_in):
    """A bench after its study, to look at; `board` tells how it ended."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        hurry(monkeypatch)
        made = Bench(federation_in(tmp_path_factory.mktemp("done")))
        made.board = made.run()
        return made


@pytest.fixture
def letter(bench):
    """A letter that abbey may send, and abbey's context."""
    refusal = Refusal("small", "abbey", "0" * 64, "models")
    return sealed(bench, refusal), bench.contexts["abbey"]


def sealed(bench, message, *, sender="abbey", recipient="new", record=True):
    """A letter of abbey, closed for `recipient`; the ledger says that it goes to new."""
    question = ask(bench.federation.agreed.id, "risk", recipient, sender)
    if record:
        log = bench.federation.log("abbey")
        log.record("abbey", message, "new", envelope_bytes=0)
    seal, key = bench.seal("abbey"), bench.seal("new").key
    wire, closed = close(reply(question), encode(message), key, seal)
    return {"envelope": wire, "payload": closed}


def answered(desk, phase):
    """What a source's desk answered."""
    line = desk._log.find("answered", study="small", target="new", phase=phase)
    return decode(desk._log.payload(line["reply"]))


# A study -------------------------------------------------------------------------------------


def test_a_study_goes_through_the_engines_containers(bench):
    board = bench.run()
    told = open_conclusion(board, bench.submission)
    assert (board["step"], told.outcome) == ("done", "done")
    assert dict(told.sources) == dict.fromkeys(SOURCES, "answered")
    steps = ["greet", "announce", "risk", "choose", "model", "mix", "examine", "conclude"]
    assert list(board["seconds"]) == list(board["bytes"]) == steps
    assert all(size > 0 for size in board["bytes"].values())
    assert {board["sites"][name] for name in SOURCES} == {"examine: replied"}


def test_the_coordinator_writes_where_it_ended_and_keeps_nothing_else(done):
    written = [path for path in (done.federation.folder / "server").rglob("*") if path.is_file()]
    assert [path.name for path in written] == ["fedcsa.json"]
    assert json.loads(written[0].read_text())["conclusion"] == ""


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_a_site_that_stops_answering_costs_its_own_answer(federation, monkeypatch, phase, fate):
    bench = Bench(federation, deadline=0.2)
    broadcast = bench.communicator.broadcast

    def fall_silent(task, *args):
        if task.name == phase:
            bench.communicator.silent = {"castle"}
        broadcast(task, *args)

    monkeypatch.setattr(bench.communicator, "broadcast", fall_silent)
    told = bench.conclusion()
    assert (told.outcome, told.sources["castle"]) == ("done", f"{fate}missing")


def test_a_missing_target_ends_the_study_by_name(federation):
    bench = Bench(federation, deadline=0.2)
    bench.communicator.silent = {"new"}
    board = bench.run()
    assert (board["step"], board["conclusion"]) == ("failed", "")
    assert "The target 'new' did not answer" in board["problem"]


def test_an_ended_job_is_no_study_with_missing_sources(bench):
    abort = Signal()
    abort.trigger("aborted")
    board = bench.run(abort)
    assert board["conclusion"] == ""
    assert "aborted from outside" in board["problem"]


def test_an_error_inside_the_coordinator_tells_its_kind_only(bench, monkeypatch):
    def fail(*_):
        raise ValueError("MARKER")

    monkeypatch.setattr(controller_module.Coordinator, "run", fail)
    assert bench.run()["problem"] == "ValueError came inside the coordinator."


def test_a_malformed_answer_is_not_a_missing_one(bench, monkeypatch):
    """Birch has lost its file, castle is not connected."""
    (bench.federation.folder / "birch" / SETTINGS).unlink()
    bench.engine.names.remove("castle")
    answer = bench.communicator.answer

    def garbage(name, task):
        return Shareable({"fedcsa": {"row": b"1"}}) if name == "abbey" else answer(name, task)

    monkeypatch.setattr(bench.communicator, "answer", garbage)
    assert bench.conclusion().sources == {
        "abbey": "rejected: malformed",
        "birch": "missing",
        "castle": "missing",
    }


def test_below_the_minimum_there_is_no_model(federation):
    bench = Bench(federation, min_sources=3)
    bench.engine.names.remove("castle")
    assert bench.conclusion().outcome == "min_sources"


# Executors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["abbey", "new"])
def test_an_executor_answers_garbage_with_a_code_and_nothing_else(bench, name):
    executor, site = bench.communicator.sites[name]
    for task in ("choose", "mix", "conclude", "risk", "model", "examine"):
        for garbage in (
            Shareable(),
            Shareable({"fedcsa": {"envelope": "text"}}),
            pack({"payload": b""}),
        ):
            reply = executor.execute(task, garbage, site, Signal())
            assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
            assert set(reply) == {"__headers__"}


def test_an_executor_logs_the_kind_of_an_error_and_not_its_text(bench, monkeypatch, caplog):
    def fail(_):
        raise ValueError("MARKER")

    monkeypatch.setattr(executors_module, "unpack", fail)
    for name in ("abbey", "new"):
        executor, site = bench.communicator.sites[name]
        executor.execute("risk", pack({}), site, Signal())
    assert caplog.text.count("risk failed: ValueError") == 2
    assert "MARKER" not in caplog.text


def test_a_study_that_waits_for_a_person_holds_no_job(federation):
    federation.configure("abbey", "approve = true")
    told = Bench(federation).conclusion()
    assert (told.outcome, told.sources["abbey"], len(told.summary)) == ("waiting", "waiting", 0)
    told = Bench(federation, wait=False).conclusion()  # its lead's patience is over
    assert (told.outcome, told.sources["abbey"]) == ("done", "waiting")


# Signatures ----------------------------------------------------------------------------------


def resigned(bench, monkeypatch, name, phase, change):
    """Let the coordinator change what `name` sends in `phase` before it goes on."""
    answer = bench.communicator.answer

    def forge(site, task):
        reply = answer(site, task)
        if site == name and task.name == phase:
            reply["fedcsa"] = {**reply["fedcsa"], "envelope": change(reply["fedcsa"]["envelope"])}
        return reply

    monkeypatch.setattr(bench.communicator, "answer", forge)


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_a_coordinator_cannot_write_in_a_sources_name_or_with_another_sites_key(
    bench, monkeypatch, phase, fate
):
    other = KitSeal(bench.federation.folder / "castle" / "startup")
    resigned(bench, monkeypatch, "abbey", phase, lambda wire: wire.partition(b"\n")[0])
    resigned(
        bench, monkeypatch, "birch", phase,
        lambda wire: Envelope.from_bytes(wire).sealed(other),
    )  # fmt: skip
    assert bench.conclusion().sources == {
        "abbey": f"{fate}rejected: signature",
        "birch": f"{fate}rejected: signature",
        "castle": "answered",
    }


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_a_coordinator_cannot_write_in_the_targets_name(bench, monkeypatch, phase, fate):
    answer = bench.communicator.answer

    def forge(site, task):
        if task.name == phase:
            letter = task.data["fedcsa"]
            plain = Envelope.from_bytes(letter["envelope"])
            letter["envelope"] = plain.sealed(
                KitSeal(bench.federation.folder / "birch" / "startup")
            )
        return answer(site, task)

    monkeypatch.setattr(bench.communicator, "answer", forge)
    assert set(bench.conclusion().sources.values()) == {f"{fate}missing"}  # nobody to answer


@pytest.mark.parametrize("proof", [b"", b"\x00", b"\xff\xff" + b"x" * 400, b"\x05\x00abcde"])
def test_garbage_is_no_signature(bench, proof):
    seal = KitSeal(bench.federation.folder / "abbey" / "startup")
    with pytest.raises(BindingError, match="not signed by 'abbey'"):
        seal.check(b"content", proof, "abbey")


def test_a_certificate_of_another_federation_proves_nothing(bench, tmp_path):
    write_keys(tmp_path / "other", "abbey", authority="elsewhere")
    proof = KitSeal(tmp_path / "other").sign(b"content")
    ours = KitSeal(bench.federation.folder / "new" / "startup")
    ours.check(
        b"content", KitSeal(bench.federation.folder / "abbey" / "startup").sign(b"content"), "abbey"
    )
    with pytest.raises(BindingError, match="is not signed by"):
        ours.check(b"content", proof, "abbey")


def test_a_kit_without_its_key_is_named(tmp_path):
    with pytest.raises(StudyError, match="lacks the kit's key or certificates"):
        KitSeal(tmp_path)


def test_the_lead_believes_the_target_only(done):
    board, submission = done.board, done.submission
    seal = KitSeal(done.federation.folder / "birch" / "startup")
    assert open_conclusion(board, submission).outcome == "done"
    forged = {**board, "envelope": base64.b64encode(
        Envelope.from_bytes(base64.b64decode(board["envelope"])).sealed(seal)
    )}  # fmt: skip
    with pytest.raises(BindingError, match="not signed by 'new'"):
        open_conclusion(forged, submission)
    changed = encode(Conclusion("small", "done", {}, "", np.empty(0, np.uint8)))
    with pytest.raises(BindingError, match="ended another study"):
        open_conclusion({**board, "conclusion": base64.b64encode(changed)}, submission)


@pytest.mark.parametrize(
    "change",
    [{"study": "small@0"}, {"phase": "risk"}, {"sender": "abbey"}, {"recipient": "abbey"}],
)
def test_the_end_of_something_else_is_not_taken_for_the_end_of_this_study(done, change):
    envelope = Envelope.from_bytes(base64.b64decode(done.board["envelope"]))
    other = dataclasses.replace(envelope, **change).sealed(done.seal("new"))
    with pytest.raises(BindingError, match="ended another study"):
        open_conclusion({**done.board, "envelope": base64.b64encode(other)}, done.submission)


@pytest.mark.parametrize("name", [*SOURCES, "new"])
@pytest.mark.parametrize("forge", ["another key", "another target", "another study", "no lead"])
def test_a_site_takes_no_part_in_a_study_for_which_no_lead_has_signed(bench, name, forge):
    start, seal = bench.submission.start, bench.submission.seal
    wire = {
        "another key": start.sealed(seal).replace(start.key.encode(), b"0" * 64),
        "another target": dataclasses.replace(start, recipient="birch").sealed(seal),
        "another study": dataclasses.replace(start, study="small@0").sealed(seal),
        "no lead": dataclasses.replace(start, sender="castle").sealed(bench.seal("castle")),
    }[forge]
    executor, site = bench.communicator.sites[name]
    executor._wire = base64.b64encode(wire).decode()
    task = "announce" if name == "new" else "greet"
    answer = executor.execute(task, pack({"replies": {}} if name == "new" else {}), site, Signal())
    assert answer.get_return_code() == ReturnCode.EXECUTION_EXCEPTION


def test_the_end_of_an_earlier_submission_is_not_taken_for_the_end_of_this_one(done):
    later = dataclasses.replace(
        done.submission, start=dataclasses.replace(done.submission.start, nonce="0" * 32)
    )
    with pytest.raises(BindingError, match="an earlier submission") as caught:
        open_conclusion(done.board, later)
    assert caught.value.rule == "replayed"


def test_a_conclusion_that_ends_whoever_opens_it_names_the_target(done, monkeypatch):
    monkeypatch.setattr(Opener, "try_out", lambda *_: "opening_crashed")
    with pytest.raises(OpeningError, match="'new'"):
        open_conclusion(done.board, done.submission)


# The filter ----------------------------------------------------------------------------------


def test_the_filter_lets_a_written_down_message_through(letter):
    content, site = letter
    assert unpack(EgressFilter().process(pack(content), site)) == content


def blocked(content, site):
    shareable = content if isinstance(content, Shareable) else pack(content)
    with pytest.raises(ContentBlockedException, match=r"\w") as caught:
        EgressFilter().process(shareable, site)
    return str(caught.value)


def test_the_filter_blocks_what_is_not_in_the_ledger(bench):
    message = Refusal("small", "abbey", "1" * 64, "models")
    content = sealed(bench, message, record=False)
    assert "in the ledger before it leaves" in blocked(content, bench.contexts["abbey"])


def test_the_filter_blocks_everything_once_the_ledger_was_tampered_with(letter, bench):
    content, site = letter
    path = bench.federation.state("abbey") / LOG
    path.write_text(path.read_text().replace("models", "modules"))
    path.write_text(path.read_text().replace('"sent"', '"Sent"'))
    assert "LedgerError" in blocked(content, site)


def test_the_filter_blocks_a_further_key_or_header(letter):
    content, site = letter
    for key in ("rows", "DXO"):
        shareable = pack(content)
        shareable[key] = [1.0, 2.0]
        assert "nothing else" in blocked(shareable, site)
    shareable = pack(content)
    shareable.set_header("note", "a patient")
    assert "nothing else" in blocked(shareable, site)


@pytest.mark.parametrize(
    "change",
    [
        {"envelopes": {}}, {"payloads": {}}, {"conclusion": b""}, {"row": b""}, {"phase": b"x"},
        {"payload": b"FCSA"}, {"envelope": b"{}"}, {"payload": "text"}, {"payload": {}},
        {"payload": encode(Refusal("small", "abbey", "0" * 64, "models"))},
    ],
)  # fmt: skip
def test_the_filter_blocks_a_letter_of_another_shape(letter, change):
    content, site = letter
    blocked({**content, **change}, site)


@pytest.mark.parametrize("parts", [{"envelopes": b"", "payloads": b""}, {"payload": b""}, {}])
def test_the_filter_blocks_a_letter_that_is_not_whole(letter, parts):
    assert "one message for every envelope" in blocked(parts, letter[1])


def test_the_filter_blocks_another_sites_envelope(bench):
    message = Refusal("small", "abbey", "2" * 64, "models")
    assert "this site's" in blocked(sealed(bench, message, sender="birch"), bench.contexts["abbey"])


def test_the_filter_blocks_a_message_for_somebody_else_than_the_ledger_says(bench):
    letter = sealed(bench, Refusal("small", "abbey", "2" * 64, "models"), recipient="birch")
    assert "in the ledger" in blocked(letter, bench.contexts["abbey"])


def test_the_filter_lets_nothing_through_that_this_process_did_not_close(bench):
    content, site = sealed(bench, Refusal("small", "abbey", "0" * 64, "models")), "abbey"
    again = KitSeal(bench.federation.folder / "abbey" / "startup")
    wire = Envelope.from_bytes(content["envelope"])
    message = encode(Refusal("small", "abbey", "0" * 64, "models"))
    envelope, closed = close(wire, message, bench.seal("new").key, again)
    elsewhere = {"envelope": envelope, "payload": closed}
    assert "BindingError" in blocked(elsewhere, bench.contexts[site])
    EgressFilter().process(pack(content), bench.contexts[site])
    assert "BindingError" in blocked(content, bench.contexts[site])  # it leaves once


def test_the_filter_lets_a_greeting_through_that_is_this_sites_and_nothing_else(bench):
    site, start = bench.contexts["abbey"], bench.submission.start
    told = greeting(start, "abbey", bench.seal("abbey"))
    letter = {"envelope": told.sealed(bench.seal("abbey"))}
    assert unpack(EgressFilter().process(pack(letter), site)) == letter
    for change in ({"sender": "birch"}, {"phase": "risk"}, {"digest": "0" * 64}):
        wire = dataclasses.replace(told, **change).to_bytes()
        assert "this site's" in blocked({"envelope": wire}, site)


def test_the_filter_blocks_an_envelope_of_another_message(bench):
    first, second = (sealed(bench, Refusal("small", "abbey", d * 64, "models")) for d in "34")
    mixed = {"envelope": first["envelope"], "payload": second["payload"]}
    assert "of this message" in blocked(mixed, bench.contexts["abbey"])


@pytest.mark.parametrize("part", ["envelopes", "payloads"])
def test_the_filter_looks_at_every_part_of_a_letter_for_several(done, part):
    """One message in it that is not in the ledger, or one envelope of another, blocks it all."""
    desk = done.communicator.sites["new"][0]._desk
    told = desk._log.find("mixed", study="small")["examinations"]
    messages = {name: desk._log.payload(sha) for name, sha in told.items()}
    site = done.contexts["new"]

    def letter(**others):
        sent = {
            name: close(
                ask(desk.agreed.id, "examine", "new", name),
                others.get(name, message), done.seal(name).key, done.seal("new"),
            )
            for name, message in messages.items()
        }  # fmt: skip
        return {
            "envelopes": {name: wire for name, (wire, _) in sent.items()},
            "payloads": {name: closed for name, (_, closed) in sent.items()},
        }

    whole = letter()
    assert unpack(EgressFilter().process(pack(whole), site)) == whole
    first = decode(messages["castle"])
    other = encode(dataclasses.replace(first, constant=first.constant + 1.0))
    assert "in the ledger" in blocked(letter(castle=other), site)
    for strange in ("text", b"bytes"):
        assert blocked({**whole, part: whole[part] | {"x": strange}}, site)
    swapped = letter()
    swapped[part]["abbey"], swapped[part]["birch"] = (
        swapped[part]["birch"], swapped[part]["abbey"],
    )  # fmt: skip
    assert "of this message" in blocked(swapped, site)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('models = "never"', "sends no model"),
        ("show_model = false", "shows no model"),
        ("max_membership_auc = 0.5", "PolicyError"),
    ],
)
def test_the_filter_keeps_a_model_that_the_policy_keeps(bench, rule, words):
    bench.run()
    desk = bench.communicator.sites["abbey"][0]._desk
    content = sealed(bench, answered(desk, "model"))
    bench.federation.configure("abbey", f"[policy]\n{rule}")
    assert words in blocked(content, bench.contexts["abbey"])


def test_the_filter_keeps_a_model_that_was_not_attacked(bench):
    bench.run()
    desk = bench.communicator.sites["abbey"][0]._desk
    model = answered(desk, "model")
    arrays = {**model.arrays, "intercept": -model.arrays["intercept"]}
    other = dataclasses.replace(model, arrays=arrays)
    assert "attacks must be tried" in blocked(sealed(bench, other), bench.contexts["abbey"])


def test_the_filter_blocks_rows_that_the_policy_keeps(done):
    log = done.communicator.sites["new"][0]._desk._log
    brief = decode(log.payload(log.find("announced", study="small")["brief"]))
    rows = np.zeros((brief.n_rows, len(brief.features)))
    none = np.empty((0, 0))
    told = dataclasses.replace(brief, exchange="rows", rows=rows, correlations=none)
    assert "allow this exchange" in blocked(sealed(done, told), done.contexts["abbey"])


def test_the_filter_blocks_a_message_that_has_no_business_there(bench):
    message = BacktestReport("small", "abbey", 1.0, 1.0, 1.0)
    assert "does not leave a site" in blocked(sealed(bench, message), bench.contexts["abbey"])


def test_the_filter_rounds_as_the_policy_does_or_blocks(done):
    desk = done.communicator.sites["abbey"][0]._desk
    finer = {
        "risk": {"effective_rows": 123.456789},
        "model": {"arrays": {"coefficients": np.array([0.123456789, 1.0])}},
        "examine": {"risk": 0.123456789},
    }
    for phase, change in finer.items():
        report = answered(desk, phase)
        content = sealed(done, dataclasses.replace(report, **change))
        assert "would round" in blocked(content, done.contexts["abbey"])


def test_the_filter_blocks_a_count_of_rows_that_is_not_in_bands(done):
    desk = done.communicator.sites["abbey"][0]._desk
    report = answered(desk, "risk")
    exact = dataclasses.replace(report, n_rows=report.n_rows + 1)
    assert "in bands" in blocked(sealed(done, exact), done.contexts["abbey"])


def forget_at_the_target(federation):
    """So that it asks again."""
    shutil.rmtree(federation.state("new"))
    (federation.folder / "new" / HEAD).unlink()


def test_a_state_folder_that_was_deleted_or_put_back_lets_nothing_out(federation, tmp_path):
    state = federation.state("abbey")
    answered = Refusal("small", "abbey", "1" * 64, "models")
    first = Bench(federation)
    EgressFilter().process(pack(sealed(first, answered)), first.contexts["abbey"])
    shutil.copytree(state, tmp_path / "older")
    assert Bench(federation).conclusion().sources["abbey"] == "answered"
    # Not even its key is let out, so it is asked nothing.
    shutil.rmtree(state)
    forget_at_the_target(federation)
    assert Bench(federation).conclusion().sources["abbey"] == "missing"
    assert not state.exists()
    shutil.copytree(tmp_path / "older", state)
    forget_at_the_target(federation)
    assert Bench(federation).conclusion().sources["abbey"] == "missing"
    assert "PolicyError" in blocked(sealed(first, answered), first.contexts["abbey"])


def test_the_filter_blocks_a_result_that_the_site_keeps_to_itself(bench):
    told = Conclusion("small", "done", {}, "", np.ones(3, np.uint8))

    def letter():
        content = sealed(bench, told)
        return {"envelope": content["envelope"], "conclusion": content["payload"]}

    content = letter()
    passed = EgressFilter().process(pack(content), bench.contexts["abbey"])
    assert unpack(passed) == content
    bench.federation.configure("abbey", "share_result = false")
    content = letter()
    assert "keeps its results" in blocked(content, bench.contexts["abbey"])


def test_the_filter_blocks_a_message_larger_than_the_sites_file_says(bench):
    bench.run()
    desk = bench.communicator.sites["abbey"][0]._desk
    report = encode(answered(desk, "risk"))
    content = sealed(bench, decode(report))
    bench.federation.configure("abbey", "max_bytes = 100")
    assert "larger than" in blocked(content, bench.contexts["abbey"])


def test_the_filter_strips_a_failure_of_whatever_came_with_it(letter):
    failure = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    failure["text"] = "a patient's name"
    failure.set_header("__error__", "a patient's name")
    passed = EgressFilter().process(failure, letter[1])
    assert passed.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert "patient" not in repr(dict(passed))


# Letters and jobs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        {"envelope": b"x" * 9000}, {"payload": 1.0}, {"envelopes": {"a": b"x" * 9000}},
        {"payloads": {"a": "text"}},
        {"replies": {"a" * 300: {}}}, {"sources": ["a" * 300]},
        {"replies": {"a": {"b": {"c": {}}}}},
    ],
)  # fmt: skip
def test_a_letter_that_is_too_large_or_of_another_shape_is_refused(content):
    with pytest.raises(MessageError, match=r"A letter must|of a letter must"):
        unpack(pack(content))


def test_an_oversized_message_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr("fedcsa.federation.flare.letters.MAX_BYTES", 10)
    monkeypatch.setattr("fedcsa.federation.flare.letters._AROUND", 1)
    for letter in ({"payload": b"x" * 12}, {"payloads": {"0": b"x" * 12}}):
        with pytest.raises(MessageError, match="at most 11 bytes"):
            unpack(pack(letter))


def test_a_job_holds_names_of_our_classes_and_no_code(federation, tmp_path):
    folder = write_job(Bench(federation).submission, tmp_path / "job")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json"}
    text = "".join(path.read_text() for path in files if "config" in path.name)
    paths = {part.split('"')[0] for part in text.split('"path": "')[1:]}
    assert all(path.startswith("fedcsa.federation.flare.") for path in paths)
    assert len(paths) == 2
    config = json.loads((folder / "app_site" / "config" / "config_fed_client.json").read_text())
    assert config["executors"][0]["tasks"] == [
        "greet", "announce", "choose", "mix", "conclude", "risk", "search", "model", "examine",
        "again",
    ]  # fmt: skip
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["min_clients"], meta["mandatory_clients"]) == (2, ["new"])
