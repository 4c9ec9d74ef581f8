"""The ledger on disk: what left is there, and whoever touches a line is found out."""

import json
import multiprocessing

import pytest

from fedcsa.errors import LedgerError
from fedcsa.messages.messages import Refusal
from fedcsa.site.chain import HEAD, LEDGER, FileLedger, to_plain, verify


def refusal(rule="models"):
    return Refusal("demo", "abbey", "0" * 64, rule)


@pytest.fixture
def folder(tmp_path):
    ledger = FileLedger(tmp_path, "abbey")
    for rule in ("models", "exchanges", "one_brief"):
        ledger.record(refusal(rule), "target", envelope_bytes=300)
    return tmp_path


def edit(folder, change):
    path = folder / LEDGER
    path.write_text("".join(change(path.read_text(encoding="utf-8").splitlines(keepends=True))))


def test_every_message_is_there_with_its_bytes(folder):
    entries = verify(folder)
    assert [item.kind for item in entries] == ["sent"] * 3
    assert all(item.envelope_bytes == 300 and item.entry.n_bytes > 0 for item in entries)
    assert to_plain(entries[0])["recipient"] == "target"


def test_what_is_sent_again_is_called_so_and_has_the_same_digest(folder):
    FileLedger(folder, "abbey").record(refusal(), "target", envelope_bytes=300)
    entries = verify(folder)
    assert entries[-1].kind == "resent"
    assert entries[-1].entry.sha256 == entries[0].entry.sha256
    assert FileLedger(folder, "abbey").digests() == {item.entry.sha256 for item in entries}


def test_an_empty_ledger_is_sound(tmp_path):
    assert verify(tmp_path) == ()


def test_a_changed_line_is_found(folder):
    edit(folder, lambda lines: [lines[0], lines[1].replace("abbey", "birch"), lines[2]])
    with pytest.raises(LedgerError, match="line 2"):
        verify(folder)


def test_a_line_changed_with_its_own_hash_is_found_at_the_next(folder):
    def forge(lines):
        from fedcsa.site.chain import _canonical, _hash

        content = json.loads(lines[1])
        content["envelope_bytes"] = 1
        content["hash"] = _hash(content)
        return [lines[0], _canonical(content) + "\n", lines[2]]

    edit(folder, forge)
    with pytest.raises(LedgerError, match="line 3"):
        verify(folder)


def test_a_removed_line_is_found(folder):
    edit(folder, lambda lines: [lines[0], lines[2]])
    with pytest.raises(LedgerError, match="line 2"):
        verify(folder)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_lines_removed_at_the_end_are_found(folder, kept):
    edit(folder, lambda lines: lines[:kept])
    with pytest.raises(LedgerError, match="last lines were changed or removed"):
        verify(folder)


def test_a_missing_or_damaged_head_is_found(folder):
    (folder / HEAD).write_text("{")
    with pytest.raises(LedgerError, match="last lines"):
        verify(folder)
    (folder / HEAD).unlink()
    with pytest.raises(LedgerError, match="last lines"):
        verify(folder)


def test_a_crash_between_line_and_head_does_no_harm(folder):
    head = (folder / HEAD).read_bytes()
    FileLedger(folder, "abbey").record(refusal(), "target", envelope_bytes=300)
    (folder / HEAD).write_bytes(head)
    assert len(verify(folder)) == 4


def test_a_line_that_a_crash_cut_off_is_written_over(folder):
    with (folder / LEDGER).open("a") as file:
        file.write('{"entry": {"si')
    FileLedger(folder, "abbey").record(refusal(), "target", envelope_bytes=300)
    assert len(verify(folder)) == 4


def _write_some(folder):
    for _ in range(5):
        FileLedger(folder, "abbey").record(refusal(), "target", envelope_bytes=300)


def test_two_processes_do_not_break_the_chain(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_some, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert len(verify(tmp_path)) == 10
