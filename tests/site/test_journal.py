"""What a site remembers over a restart."""

import pytest

from fedcsa.errors import ResultError
from fedcsa.site.journal import Journal


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "state")


def again(journal):
    return Journal(journal._folder)


def test_steps_are_found_again_after_a_restart(journal):
    journal.note("asked", study="demo", nonce="1")
    journal.note("accepted", study="demo", target="new", phase="risk", request="a")
    found = again(journal).find("accepted", study="demo", target="new", phase="risk")
    assert found["request"] == "a"
    assert again(journal).find("accepted", study="other") is None
    assert again(journal).nonces == {"1"}


def test_payloads_come_back_to_the_bit(journal):
    name = journal.keep(b"\x00\x01")
    assert journal.keep(b"\x00\x01") == name
    assert again(journal).payload(name) == b"\x00\x01"


def test_a_changed_or_missing_payload_is_never_sent(journal):
    name = journal.keep(b"report")
    path = journal._folder / "payloads" / f"{name}.fcsa"
    path.write_bytes(b"another")
    with pytest.raises(ResultError, match="missing or was changed"):
        journal.payload(name)
    path.unlink()
    with pytest.raises(ResultError, match="missing or was changed"):
        journal.payload(name)


def test_a_line_that_a_crash_cut_off_is_as_if_never_written(journal):
    journal.note("asked", nonce="1")
    with (journal._folder / "journal.jsonl").open("a") as file:
        file.write('{"step": "ans')
    assert len(again(journal).lines) == 1
    journal.note("asked", nonce="2")
    assert again(journal).nonces == {"1", "2"}


def test_a_damaged_line_stops_the_site(journal):
    journal.note("asked", nonce="1")
    path = journal._folder / "journal.jsonl"
    path.write_text("{broken\n" + path.read_text())
    with pytest.raises(ResultError, match="without it, a disclosure could be made twice"):
        journal.lines  # noqa: B018 - the access is the test


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="must be writable"):
        Journal(tmp_path / "file" / "state")
