"""The ledger says what left a site, completely and without a value, before it leaves."""

import dataclasses
import hashlib
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fedcsa.errors import MessageError
from fedcsa.messages.codec import encode
from fedcsa.messages.fields import thaw
from fedcsa.messages.ledger import FieldRecord, Gate, Ledger, LedgerEntry, utc_now
from fedcsa.messages.policy import Policy

NOON = datetime(2024, 5, 6, 12, 0, 0, 123456, tzinfo=UTC)


def ticking(start=NOON):
    times = iter(start + timedelta(minutes=i) for i in range(1000))
    return lambda: next(times)


def test_an_entry_describes_the_message(message):
    entry = Ledger("mainz", lambda: NOON).record(message, "ulm")
    wire = encode(message)
    assert (entry.site, entry.recipient) == ("mainz", "ulm")
    assert (entry.message, entry.study) == (message.name, message.study)
    assert entry.n_bytes == len(wire)
    assert entry.sha256 == hashlib.sha256(wire).hexdigest()
    assert entry.time == "2024-05-06T12:00:00.123+00:00"


def test_an_entry_names_every_field_of_the_message_in_order(message):
    entry = Ledger("mainz").record(message, "ulm")
    assert [record.name for record in entry.fields] == [
        item.name for item in dataclasses.fields(message)
    ]


def test_an_entry_has_the_shape_size_and_hash_of_every_field(message):
    entry = Ledger("mainz").record(message, "ulm")
    for record in entry.fields:
        value = getattr(message, record.name)
        if isinstance(value, np.ndarray):
            content, shape = value.tobytes(), value.shape
        else:
            plain = thaw(value)
            content = json.dumps(plain, separators=(",", ":")).encode()
            shape = (len(plain),) if isinstance(plain, list | dict) else ()
        assert record.shape == shape
        assert record.n_bytes == len(content)
        assert record.sha256 == hashlib.sha256(content).hexdigest()


def test_n_numbers_counts_elements_and_single_values(messages):
    request = Ledger("t").record(messages["model-request"], "a")
    assert request.n_numbers == len(request.fields)
    report = Ledger("a").record(messages["risk-report"], "t")
    shapes = [record.shape for record in report.fields]
    assert report.n_numbers == sum(int(np.prod(shape, dtype=int)) for shape in shapes)


def test_an_entry_holds_no_value(messages):
    for message in messages.values():
        line = Ledger("mainz", lambda: NOON).record(message, "ulm").to_json()
        for item in dataclasses.fields(message):
            value = getattr(message, item.name)
            numbers = np.ravel(value).tolist() if isinstance(value, np.ndarray) else [value]
            for number in numbers:
                if isinstance(number, float) and number not in (0.0, 1.0, 2.0):
                    assert repr(number)[:7] not in line


def test_an_entry_survives_json(message):
    entry = Ledger("Köln \U0001f3e5", lambda: NOON).record(message, "ulm\n")
    line = entry.to_json()
    assert "\n" not in line
    assert LedgerEntry.from_json(line) == entry
    assert LedgerEntry.from_json(line).to_json() == line
    assert all(isinstance(record, FieldRecord) for record in LedgerEntry.from_json(line).fields)


@pytest.fixture
def line(messages):
    return Ledger("mainz", lambda: NOON).record(messages["refusal"], "ulm").to_json()


def test_a_line_cut_off_anywhere_is_refused(line):
    for length in range(len(line)):
        with pytest.raises(MessageError, match="A ledger line must be an entry that fedcsa wrote"):
            LedgerEntry.from_json(line[:length])


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: [],
        lambda _: None,
        lambda _: 5,
        lambda _: "text",
        lambda _: {},
        lambda entry: {**entry, "more": 1},
        lambda entry: {key: value for key, value in entry.items() if key != "sha256"},
        lambda entry: {key: value for key, value in entry.items() if key != "fields"},
        lambda entry: {**entry, "fields": 5},
        lambda entry: {**entry, "fields": None},
        lambda entry: {**entry, "fields": [5]},
        lambda entry: {**entry, "fields": ["name"]},
        lambda entry: {**entry, "fields": [{}]},
        lambda entry: {**entry, "fields": [{"name": "x", "shape": [1]}]},
        lambda entry: {**entry, "fields": [{**entry["fields"][0], "shape": 3}]},
        lambda entry: {**entry, "fields": [{**entry["fields"][0], "more": 3}]},
    ],
)
def test_a_damaged_line_is_refused(line, damage):
    with pytest.raises(MessageError, match="A ledger line must be an entry that fedcsa wrote"):
        LedgerEntry.from_json(json.dumps(damage(json.loads(line))))


@pytest.mark.parametrize("text", ["", "{", "not json", "[" * 200_000, '{"fields":' + "[" * 200_000])
def test_a_line_that_is_not_json_is_refused(text):
    with pytest.raises(MessageError, match="A ledger line must be an entry that fedcsa wrote"):
        LedgerEntry.from_json(text)


def test_entries_are_kept_in_the_order_in_which_messages_left(messages):
    ledger = Ledger("mainz", ticking())
    for message in messages.values():
        ledger.record(message, "ulm")
    assert [entry.message for entry in ledger.entries] == [m.name for m in messages.values()]
    times = [entry.time for entry in ledger.entries]
    assert times == sorted(times)
    assert len(set(times)) == len(times)


def test_the_clock_is_utc_unless_another_is_given(messages):
    before = datetime.now(UTC)
    entry = Ledger("mainz").record(messages["refusal"], "ulm")
    written = datetime.fromisoformat(entry.time)
    assert before - timedelta(milliseconds=1) <= written <= datetime.now(UTC)
    assert utc_now().utcoffset() == timedelta(0)


def test_two_ledgers_share_no_entry(messages):
    one, two = Ledger("one"), Ledger("two")
    one.record(messages["refusal"], "ulm")
    assert two.entries == []


# The gate ----------------------------------------------------------------------------------------


def test_the_gate_writes_one_entry_per_recipient(message):
    gate = Gate(Policy.open(), Ledger("mainz", lambda: NOON))
    assert gate.release(message, ["ulm", "bonn", "kiel"]) == message
    assert [entry.recipient for entry in gate.ledger.entries] == ["ulm", "bonn", "kiel"]
    assert len({entry.sha256 for entry in gate.ledger.entries}) == 1


def test_the_gate_writes_down_what_leaves_and_not_what_was_computed(messages):
    report = messages["risk-report"]
    gate = Gate(Policy(significant_digits=3), Ledger("mainz"))
    released = gate.release(report, ["ulm"])
    assert released != report
    [entry] = gate.ledger.entries
    assert entry.sha256 == hashlib.sha256(encode(released)).hexdigest()
    assert entry.sha256 != hashlib.sha256(encode(report)).hexdigest()


class FullDiskError(Exception):
    pass


def test_nothing_leaves_that_could_not_be_written_down(messages):
    def clock():
        raise FullDiskError("no time")

    gate = Gate(Policy.open(), Ledger("mainz", clock))
    with pytest.raises(FullDiskError, match="no time"):
        gate.release(messages["risk-report"], ["ulm"])
    assert gate.ledger.entries == []


def test_the_entry_is_there_by_the_time_the_message_is_returned(messages):
    seen = []

    class Watched(Ledger):
        def record(self, message, recipient, rules=""):
            seen.append("record")
            return super().record(message, recipient, rules)

    gate = Gate(Policy.open(), Watched("mainz"))
    released = gate.release(messages["refusal"], ["ulm"])
    seen.append("released")
    assert seen == ["record", "released"]
    assert gate.ledger.entries[0].sha256 == hashlib.sha256(encode(released)).hexdigest()


def test_one_ledger_tells_several_messages_and_recipients_apart(messages):
    ledger = Ledger("mainz", lambda: NOON)
    sent = [messages["refusal"], messages["refusal"], messages["brief"], messages["refusal"]]
    for message, recipient in zip(sent, "abcd", strict=True):
        ledger.record(message, recipient)
    alone = [
        Ledger("mainz", lambda: NOON).record(message, recipient)
        for message, recipient in zip(sent, "abcd", strict=True)
    ]
    assert ledger.entries == alone


def test_an_entry_names_the_rules_that_its_message_passed(messages):
    ledger = Ledger("mainz")
    Gate(Policy(), ledger).release(messages["model-report"], ["ulm"])
    [entry] = ledger.entries
    assert entry.rules == (
        "row_keeping_models False, max_parameters_per_row 0.33, count_band 10, significant_digits 4"
    )
    open_ledger = Ledger("mainz")
    Gate(Policy.open(), open_ledger).release(messages["model-report"], ["ulm"])
    assert open_ledger.entries[0].rules == ""


def test_a_line_from_before_rules_were_written_is_still_read(messages):
    entry = Ledger("mainz").record(messages["refusal"], "ulm")
    content = json.loads(entry.to_json())
    del content["rules"]
    assert LedgerEntry.from_json(json.dumps(content)) == entry
