"""A10: the server's operator reads whatever it carries, and puts keys of its own in their place.

Before, it read every brief, report and model in clear. Now the search below, which finds thousands
of numbers in the letters of a study without seals, finds 0 bytes of any message in the letters of
one with seals, and no key that the operator holds opens one.
"""

import base64
import dataclasses
import itertools
import json
import shutil
import struct
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="it comes with the engine, nvflare")

from cryptography.hazmat.primitives.serialization import Encoding

from fedcsa.errors import BindingError
from fedcsa.federation.flare.certificates import DENIED, Authority, write_key
from fedcsa.federation.flare.seal import BLOCK, KitSeal
from fedcsa.messages.codec import MAGIC, PROTOCOL_VERSION, decode, digest
from fedcsa.messages.envelope import (
    Envelope,
    ask,
    check_greeting,
    check_start,
    close,
    greeting,
    open_closed,
    reply,
)
from fedcsa.messages.messages import MESSAGES

LEAD, VIEWER, SERVER = "lead@demo.org", "viewer@demo.org", "localhost"
ROLES = {
    "new": "target", "abbey": "source", "birch": "source", "castle": "source",
    LEAD: "lead", VIEWER: "viewer", SERVER: "server",
}  # fmt: skip
PHASES = {"risk": "", "model": "model ", "examine": "examination "}


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    """A folder with a kit for everyone, as far as keys and certificates go."""
    folder = tmp_path_factory.mktemp("kits")
    authority = Authority(folder / "authority", "demo")
    for name, role in ROLES.items():
        startup = folder / name / "startup"
        startup.mkdir(parents=True)
        key, certificate = authority.issue(name, role, 1)
        write_key(folder / name, "", key, "")
        (startup / "client.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
        (startup / "rootCA.pem").write_bytes(authority.root.public_bytes(Encoding.PEM))
    return folder


@pytest.fixture(scope="module")
def seals(kits):
    """Everybody's, made once: to read a key takes longer than a study."""
    return {name: KitSeal(kits / name / "startup") for name in ROLES}


@pytest.fixture
def operator(federation, seals):
    """A study in which the operator writes down all it carries: bytes, by step and by whom."""
    federation.seals = dict(seals)
    lead = federation.seals[LEAD]
    federation.start = ask(federation.agreed.id, "start", LEAD, "new", lead)
    seen, deliver = [], federation.deliver

    def carry(task, letters, arrived):
        came = deliver(task, letters, arrived)
        seen.extend(pieces(letters) + pieces(came))
        seen.append(json.dumps(federation.board.to_plain()).encode())
        return came

    federation.deliver = carry

    def run():
        board = federation.attempt()
        seen.append(json.dumps(board.to_plain()).encode())
        envelope = Envelope.from_bytes(board.envelope)
        return decode(open_closed(envelope, board.conclusion, lead))

    return SimpleNamespace(federation=federation, seen=seen, run=run)


def pieces(value):
    """Every piece of bytes in what is carried."""
    if isinstance(value, bytes):
        return [value]
    return list(itertools.chain(*(pieces(item) for item in value.values())))


# What is known to have been sent -------------------------------------------------------------


def numbers_in(message):
    """The numbers of a message that are no round ones: those could be anywhere."""
    found = []

    def look(value):
        if isinstance(value, float | np.floating):
            found.append(float(value))
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            found.extend(value.ravel().tolist())
        elif dataclasses.is_dataclass(value):
            look(vars(value))
        elif isinstance(value, Mapping):
            look(list(value.values()))
        elif isinstance(value, list | tuple):
            for item in value:
                look(item)

    look(message)
    return {number for number in found if number != round(number, 2)}


def shapes_of(number):
    """A number as bytes, as text, and as both look in base64, wherever they begin there."""
    text = repr(number).encode()
    for raw in (struct.pack("<d", number), struct.pack(">d", number), text):
        if raw is text and len(text) < 7:  # 0.123 may be a second
            continue
        yield raw
        for before in range(3):
            coded = base64.b64encode(bytes(before) + raw)
            first, last = -(-before * 4 // 3), (before + len(raw)) * 4 // 3
            yield coded[first:last]


def known_of(federation):
    """Shapes of everything that the sites sent: their numbers, words and frames."""
    sites = ("new", *federation.names)
    files = itertools.chain(*((federation.state(s) / "payloads").glob("*.fcsa") for s in sites))
    payloads = [path.read_bytes() for path in files]
    messages = [decode(payload) for payload in payloads if payload.startswith(MAGIC)]
    numbers = set().union(*map(numbers_in, messages))
    assert len(numbers) > 30
    shapes = set(itertools.chain(*map(shapes_of, numbers)))
    digests = {digest(payload).encode() for payload in payloads}
    names = {"min_fold_rows", "kind", *MESSAGES} - {"conclusion"}  # as the board calls it
    words = {MAGIC + struct.pack("<H", PROTOCOL_VERSION), *(f'"{n}"'.encode() for n in names)}
    return shapes | words | digests


def bytes_found(known, seen):
    """How many bytes of what is known lie in what was seen, as it is or decoded from base64."""
    whole = b"\n".join(seen)
    for piece in seen:
        if piece.startswith(b"{") and b'"conclusion"' in piece:
            board = json.loads(piece)
            whole += b"\n" + base64.b64decode(board["conclusion"])
            whole += b"\n" + base64.b64decode(board["envelope"])
    return sum(len(shape) for shape in known if shape in whole)


def test_nothing_of_any_message_is_in_what_the_operator_carries(operator):
    pytest.importorskip("optuna")
    federation = operator.federation
    federation.configure("birch", "[policy]\nmin_fold_rows = 100")
    text = federation.study_file.read_text(encoding="utf-8")
    text = text.replace("seed = 3", "seed = 3\nbudget = { candidates = 3, rounds = 2 }")
    text = text.replace("penalty = [0.01, 10.0]", "penalty = { low = 0.01, high = 10.0 }")
    federation.study_file.write_text(text, encoding="utf-8")
    told = operator.run()
    assert dict(told.sources) == {
        "abbey": "answered", "birch": "refused: min_fold_rows", "castle": "answered",
    }  # fmt: skip
    left = {line.entry.message for name in ("new", *federation.names)
            for line in federation.log(name).sent}  # fmt: skip
    assert left == set(MESSAGES) - {"backtest-report"}  # all that ever cross, both ways
    assert sum(map(len, operator.seen)) > 100_000
    assert bytes_found(known_of(federation), operator.seen) == 0


def test_the_same_search_finds_everything_where_nothing_is_closed(operator):
    operator.federation.seals, operator.federation.start = {}, None
    operator.federation.attempt()
    assert bytes_found(known_of(operator.federation), operator.seen) > 1000


def test_a_refusal_looks_like_a_report(operator):
    sizes = {}

    def weigh(task, name, letter):
        if name != "new" and task == "risk":
            sizes[name] = len(letter["payload"])
        return letter

    operator.federation.configure("birch", "[policy]\nmin_fold_rows = 100")
    operator.federation.tamper = weigh
    operator.run()
    assert len(sizes) == 3
    assert set(sizes.values()) == {BLOCK + 48}  # a block, an ephemeral key and a tag


# Bound to its envelope -----------------------------------------------------------------------


@pytest.fixture
def closed(seals):
    """A question of the target to abbey, and its envelope."""
    question = ask("demo@1", "risk", "new", "abbey", seals["new"])
    wire, closed = close(question, b"brief", seals["abbey"].key, seals["new"])
    return Envelope.from_bytes(wire), closed


BOUND = [item.name for item in dataclasses.fields(Envelope) if item.name != "digest"]


@pytest.mark.parametrize("field", BOUND)
def test_a_message_opens_with_its_own_envelope_only(closed, seals, field):
    """Not in another study, phase or direction, to another recipient, or in reply to another."""
    envelope, content = closed
    assert open_closed(envelope, content, seals["abbey"]) == b"brief"
    other = dataclasses.replace(envelope, **{field: "another"})
    with pytest.raises(BindingError, match="cannot be opened here") as caught:
        open_closed(other, content, seals["abbey"])
    assert caught.value.rule == "closed"


def test_a_message_of_another_version_does_not_open(closed, seals, monkeypatch):
    envelope, content = closed
    monkeypatch.setattr("fedcsa.messages.envelope.PROTOCOL_VERSION", 0)
    with pytest.raises(BindingError, match="cannot be opened here"):
        open_closed(envelope, content, seals["abbey"])


@pytest.mark.parametrize("name", [name for name in ROLES if name != "abbey"])
def test_nobody_else_opens_a_message_not_even_who_sent_it(closed, seals, name):
    with pytest.raises(BindingError, match="cannot be opened here"):
        open_closed(*closed, seals[name])


def test_a_kit_that_is_stolen_later_opens_nothing_that_was_sent_before(closed, kits):
    with pytest.raises(BindingError, match="cannot be opened here"):
        open_closed(*closed, KitSeal(kits / "abbey" / "startup"))


@pytest.mark.parametrize("at", [0, 31, 32, 100, -1])
def test_a_message_that_was_changed_does_not_open(closed, seals, at):
    envelope, content = closed
    changed = bytearray(content)
    changed[at] ^= 1
    for wrong in (bytes(changed), content[:-1], content[:40], b""):
        with pytest.raises(BindingError, match="cannot be opened here"):
            open_closed(envelope, wrong, seals["abbey"])


def test_two_messages_of_the_same_content_have_nothing_in_common(seals):
    question = ask("demo@1", "risk", "new", "abbey", seals["new"])
    first, second = (
        close(question, b"brief", seals["abbey"].key, seals["new"])[1] for _ in range(2)
    )
    same = sum(a == b for a, b in zip(first, second, strict=True))
    assert same < 3 * len(first) / 256  # as many as chance gives: one in 256


@pytest.mark.parametrize("key", ["", "00" * 32, "zz", "01" + "00" * 31])
def test_nothing_is_closed_for_a_key_that_opens_everything(seals, key):
    question = ask("demo@1", "risk", "new", "abbey", seals["new"])
    with pytest.raises(BindingError, match="must be closed for a key"):
        close(question, b"brief", key, seals["new"])


# Keys of the operator's own ------------------------------------------------------------------


def with_key(wire, seals, signer):
    """An envelope with the operator's key in it: as it was signed, unsigned, or signed anew."""
    forged = dataclasses.replace(Envelope.from_bytes(wire), key=seals[SERVER].key)
    if signer == "as before":
        return forged.to_bytes() + b"\n" + wire.partition(b"\n")[2]
    return forged.to_bytes() if signer == "" else forged.sealed(seals[signer])


def opened_by(seals, seen):
    """What the operator opens with keys that it holds: the server's, and those of accomplices."""
    envelopes = [piece for piece in seen if piece.startswith(b'{"digest"')]
    for wire, content in itertools.product(envelopes, seen):
        for name in (SERVER, VIEWER):
            try:
                yield open_closed(Envelope.from_bytes(wire), content, seals[name])
            except BindingError:
                continue


def test_the_operator_cannot_put_its_key_in_the_place_of_a_sources(operator):
    federation = operator.federation
    swapped = dict(zip(federation.names, ("as before", SERVER, VIEWER), strict=True))

    def swap(task, name, letter):
        if task == "greet":
            wire = with_key(letter["envelope"], federation.seals, swapped[name])
            return {"envelope": wire}
        return letter

    federation.tamper = swap
    told = operator.run()
    assert set(told.sources.values()) == {"rejected: signature"}
    for name in federation.names:  # nobody is asked, and nobody answers
        assert [line for line in federation.log(name).events if line["event"] == "sent"] == []
    assert list(opened_by(federation.seals, operator.seen)) == []


def test_a_source_that_tells_a_key_that_opens_everything_costs_its_own_answer(operator):
    federation = operator.federation

    def tell(task, name, letter):
        if (task, name) == ("greet", "abbey"):
            told = dataclasses.replace(Envelope.from_bytes(letter["envelope"]), key="00" * 32)
            return {"envelope": told.sealed(federation.seals["abbey"])}
        return letter

    federation.tamper = tell
    told = operator.run()
    assert dict(told.sources) == {
        "abbey": "rejected: key", "birch": "answered", "castle": "answered",
    }  # fmt: skip


@pytest.mark.parametrize("signer", ["as before", "", SERVER, "birch", VIEWER])
def test_a_key_is_as_good_as_the_signature_of_the_site_whose_it_is(seals, signer):
    start = ask("demo@1", "start", LEAD, "new", seals[LEAD])
    wire = greeting(start, "abbey", seals["abbey"]).sealed(seals["abbey"])
    assert check_greeting(wire, start, "abbey", seals["new"]) == seals["abbey"].key
    with pytest.raises(BindingError, match="not signed by 'abbey'"):
        check_greeting(with_key(wire, seals, signer), start, "abbey", seals["new"])


def test_the_operator_cannot_put_its_key_in_the_place_of_the_targets(operator):
    federation, deliver = operator.federation, operator.federation.deliver
    tried = []

    def swap(task, letters, arrived):
        for name, letter in letters.items() if task in PHASES else ():
            for signer in ("as before", "", SERVER, "birch"):
                wire = with_key(letter["envelope"], federation.seals, signer)
                with pytest.raises(BindingError, match="not signed by 'new'"):
                    federation.sources[name].answer(wire, letter["payload"])
                tried.append((task, name, signer))
        return deliver(task, letters, arrived)

    federation.deliver = swap
    assert set(operator.run().sources.values()) == {"answered"}
    assert len(tried) == len(PHASES) * len(federation.names) * 4


@pytest.mark.parametrize("name", [name for name in ROLES if name != LEAD])
def test_only_a_lead_says_for_whom_the_conclusion_is_closed(seals, name):
    start = ask("demo@1", "start", LEAD, "new", seals[LEAD])
    assert check_start(start.sealed(seals[LEAD]), "demo@1", "new", seals["abbey"]) == start
    own = dataclasses.replace(start, sender=name, key=seals[name].key)
    for forged in (own, dataclasses.replace(start, key=seals[name].key)):
        for wire in (forged.sealed(seals[name]), forged.to_bytes()):
            with pytest.raises(BindingError, match="not signed by"):
                check_start(wire, "demo@1", "new", seals["abbey"])


def test_a_conclusion_is_the_leads_alone(operator):
    operator.run()
    board = operator.federation.board
    envelope = Envelope.from_bytes(board.envelope)
    assert (envelope.recipient, envelope.phase) == (LEAD, "end")
    for name in set(ROLES) - {LEAD}:
        with pytest.raises(BindingError, match="cannot be opened here"):
            open_closed(envelope, board.conclusion, operator.federation.seals[name])


# Certificates that no longer count -----------------------------------------------------------


def deny(kits, name, at):
    """Let the sites `at` know that the certificates of `name` no longer count."""
    path = kits / f"list-{name}"
    Authority(kits / "authority", "demo").deny(name, path)
    for site in at:
        shutil.copy(path, kits / site / DENIED)


@pytest.fixture
def listed(kits):
    """Takes the lists back."""
    yield lambda name, at: deny(kits, name, at)
    for site in ROLES:
        (kits / site / DENIED).unlink(missing_ok=True)


def test_a_denied_source_takes_no_part_though_the_server_lets_it_in(operator, listed):
    listed("abbey", ["new"])
    told = operator.run()
    assert operator.federation.board.sites["abbey"] == "greet: replied"  # it was let in
    assert dict(told.sources) == {
        "abbey": "rejected: denied", "birch": "answered", "castle": "answered",
    }  # fmt: skip


@pytest.mark.parametrize("phase", ["risk", "examine"])
def test_a_source_that_is_denied_meanwhile_is_refused_at_its_next_message(operator, listed, phase):
    def meanwhile(task, name, letter):
        if (task, name) == (phase, "abbey"):
            listed("abbey", ["new"])
        return letter

    operator.federation.tamper = meanwhile
    told = operator.run()
    assert told.sources["abbey"].startswith(f"{PHASES[phase]}rejected: denied")


def test_a_denied_target_is_answered_by_nobody(operator, listed):
    listed("new", ["abbey", "birch", "castle"])
    federation, answers = operator.federation, []
    deliver = federation.deliver

    def carry(task, letters, arrived):
        if task != "risk":
            return deliver(task, letters, arrived)
        for name, letter in letters.items():
            with pytest.raises(BindingError, match="on the deny-list"):
                answers.append(federation.sources[name].answer(*letter.values()))
        return {}

    federation.deliver = carry
    operator.run()
    assert answers == []


def test_a_denied_lead_starts_nothing(seals, listed):
    start = ask("demo@1", "start", LEAD, "new", seals[LEAD])
    listed(LEAD, ["abbey"])
    with pytest.raises(BindingError, match="on the deny-list"):
        check_start(start.sealed(seals[LEAD]), "demo@1", "new", seals["abbey"])


def test_a_certificate_that_has_ended_proves_nothing(kits, seals, tmp_path):
    authority = Authority(kits / "authority", "demo")
    key, certificate = authority.issue("abbey", "source", -1)
    shutil.copytree(kits / "abbey", tmp_path / "abbey")
    write_key(tmp_path / "abbey", "", key, "")
    ended = certificate.public_bytes(Encoding.PEM)
    (tmp_path / "abbey" / "startup" / "client.crt").write_bytes(ended)
    old = KitSeal(tmp_path / "abbey" / "startup")
    with pytest.raises(BindingError, match="has expired") as caught:
        seals["new"].check(b"content", old.sign(b"content"), "abbey")
    assert caught.value.rule == "expired"


def test_an_answer_is_not_taken_from_the_question_it_was_closed_for(seals):
    """A reply carried back under the question's own envelope, or to another question."""
    question = ask("demo@1", "risk", "new", "abbey", seals["new"])
    wire, content = close(reply(question), b"report", question.key, seals["abbey"])
    assert open_closed(Envelope.from_bytes(wire), content, seals["new"]) == b"report"
    for other in (question, reply(dataclasses.replace(question, nonce="0" * 32))):
        with pytest.raises(BindingError, match="cannot be opened here"):
            open_closed(other, content, seals["new"])
