"""The ledger says what left a site, completely and without a value, before it leaves."""

import dataclasses
import hashlib
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fedcsa.errors import MessageError
from fedcsa.messages.codec import encode
from fedcsa.messages.policy import FieldRecord, Ledger, LedgerEntry, Policy, entries_of, utc_now
from fedcsa.models.description import thaw

NOON = datetime(2024, 5, 6, 12, 0, 0, 123456, tzinfo=UTC)


def entry_of(message, site, recipient, clock=lambda: NOON):
    [entry] = entries_of(message, site, [recipient], clock=clock)
    return entry


def ticking(start=NOON):
    times = iter(start + timedelta(minutes=i) for i in range(1000))
    return lambda: next(times)


def test_an_entry_describes_the_message(message):
    entry = entry_of(message, "mainz", "ulm")
    wire = encode(message)
    assert (entry.site, entry.recipient) == ("mainz", "ulm")
    assert (entry.message, entry.study) == (message.name, message.study)
    assert entry.n_bytes == len(wire)
    assert entry.sha256 == hashlib.sha256(wire).hexdigest()
    assert entry.time == "2024-05-06T12:00:00.123+00:00"


def test_an_entry_names_every_field_of_the_message_in_order(message):
    entry = entry_of(message, "mainz", "ulm")
    names = []
    for name, kind in message.kinds.items():
        keys = getattr(message, name) if kind == "arrays" else ()
        names += [f"{name}.{key}" for key in keys] if kind == "arrays" else [name]
    assert [record.name for record in entry.fields] == names


def test_an_entry_has_the_shape_size_and_hash_of_every_field(message):
    entry = entry_of(message, "mainz", "ulm")
    values = {name: getattr(message, name) for name in message.kinds}
    values |= dict(message.buffers())
    for record in entry.fields:
        value = values[record.name]
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
    request = entry_of(messages["model-request"], "t", "a")
    assert request.n_numbers == len(request.fields)
    report = entry_of(messages["risk-report"], "a", "t")
    shapes = [record.shape for record in report.fields]
    assert report.n_numbers == sum(int(np.prod(shape, dtype=int)) for shape in shapes)


def test_an_entry_holds_no_value(messages):
    for message in messages.values():
        line = entry_of(message, "mainz", "ulm").to_json()
        for item in dataclasses.fields(message):
            value = getattr(message, item.name)
            numbers = np.ravel(value).tolist() if isinstance(value, np.ndarray) else [value]
            for number in numbers:
                if isinstance(number, float) and number not in (0.0, 1.0, 2.0):
                    assert repr(number)[:7] not in line


def test_an_entry_survives_json(message):
    entry = entry_of(message, "Köln \U0001f3e5", "ulm\n")
    line = entry.to_json()
    assert "\n" not in line
    assert LedgerEntry.from_json(line) == entry
    assert LedgerEntry.from_json(line).to_json() == line
    assert all(isinstance(record, FieldRecord) for record in LedgerEntry.from_json(line).fields)


@pytest.fixture
def line(messages):
    return entry_of(messages["refusal"], "mainz", "ulm").to_json()


def test_a_line_cut_off_anywhere_is_refused(line):
    for length in range(len(line)):
        with pytest.raises(MessageError, match="not as fedcsa wrote it"):
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
    with pytest.raises(MessageError, match="not as fedcsa wrote it"):
        LedgerEntry.from_json(json.dumps(damage(json.loads(line))))


@pytest.mark.parametrize("text", ["", "{", "not json", "[" * 200_000, '{"fields":' + "[" * 200_000])
def test_a_line_that_is_not_json_is_refused(text):
    with pytest.raises(MessageError, match="not as fedcsa wrote it"):
        LedgerEntry.from_json(text)


def test_entries_are_kept_in_the_order_in_which_messages_left(messages):
    ledger = Ledger("mainz", Policy.open(), ticking())
    for message in messages.values():
        ledger.release(message, ["ulm"])
    assert [entry.message for entry in ledger.entries] == [m.name for m in messages.values()]
    times = [entry.time for entry in ledger.entries]
    assert times == sorted(times)
    assert len(set(times)) == len(times)


def test_the_clock_is_utc_unless_another_is_given(messages):
    before = datetime.now(UTC)
    [entry] = entries_of(messages["refusal"], "mainz", ["ulm"])
    written = datetime.fromisoformat(entry.time)
    assert before - timedelta(milliseconds=1) <= written <= datetime.now(UTC)
    assert utc_now().utcoffset() == timedelta(0)


def test_two_ledgers_share_no_entry(messages):
    one, two = Ledger("one", Policy()), Ledger("two", Policy())
    one.release(messages["refusal"], ["ulm"])
    assert two.entries == []


# What leaves -------------------------------------------------------------------------------------


def test_the_ledger_writes_one_entry_per_recipient(message):
    ledger = Ledger("mainz", Policy.open(), lambda: NOON)
    assert ledger.release(message, ["ulm", "bonn", "kiel"]) == message
    assert [entry.recipient for entry in ledger.entries] == ["ulm", "bonn", "kiel"]
    assert len({entry.sha256 for entry in ledger.entries}) == 1


def test_the_ledger_writes_down_what_leaves_and_not_what_was_computed(messages):
    report = messages["risk-report"]
    ledger = Ledger("mainz", Policy(significant_digits=3))
    released = ledger.release(report, ["ulm"])
    assert released != report
    [entry] = ledger.entries
    assert entry.sha256 == hashlib.sha256(encode(released)).hexdigest()
    assert entry.sha256 != hashlib.sha256(encode(report)).hexdigest()


class FullDiskError(Exception):
    pass


def test_nothing_leaves_that_could_not_be_written_down(messages):
    def clock():
        raise FullDiskError("no time")

    ledger = Ledger("mainz", Policy.open(), clock)
    with pytest.raises(FullDiskError, match="no time"):
        ledger.release(messages["risk-report"], ["ulm"])
    assert ledger.entries == []


def test_an_entry_names_the_rules_that_its_message_passed(messages):
    ledger = Ledger("mainz", Policy())
    ledger.release(messages["model-report"], ["ulm"])
    [entry] = ledger.entries
    assert entry.rules == (
        "portable_models True, max_parameters_per_row 0.33, min_rows_per_leaf 10, "
        "no_own_values True, max_row_leverage 0.5, max_membership_auc 0.6, count_band 10, "
        "significant_digits 4"
    )
    open_ledger = Ledger("mainz", Policy.open())
    open_ledger.release(messages["model-report"], ["ulm"])
    assert open_ledger.entries[0].rules == ""


def test_a_line_from_before_rules_were_written_is_still_read(messages):
    entry = entry_of(messages["refusal"], "mainz", "ulm")
    content = json.loads(entry.to_json())
    del content["rules"]
    assert LedgerEntry.from_json(json.dumps(content)) == entry
