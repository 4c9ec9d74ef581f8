"""The child process that opens messages first: what it survives, and what it says of the rest."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedcsa.errors import FedCSAError, ModelError
from fedcsa.messages.codec import encode
from fedcsa.messages.messages import Conclusion, Examination, ModelReport, Refusal
from fedcsa.models.linear_format import LinearModel
from fedcsa.site import opening
from fedcsa.site.log import SiteLog
from fedcsa.site.opening import (
    UNSAFE,
    Opener,
    agreed_rows,
    open_wholly,
    opener,
    unsafe_message,
)

BOUNDS = {"max_bytes": 1 << 28, "features": 2}
GOOD = encode(Refusal("demo", "abbey", "0" * 64, "models"))
POISON = Path(__file__).parents[1] / "attacks" / "poison"


@pytest.fixture
def child():
    made = Opener()
    yield made
    made.end()


@pytest.fixture(scope="module")
def lasting():
    """A child for messages that none of the children dies of: to start one takes longest."""
    made = Opener()
    yield made
    made.end()


@pytest.fixture
def poison(monkeypatch):
    """Lets every refusal do something to the child that opens it."""

    def give(action):
        path = os.pathsep.join(filter(None, [str(POISON), os.environ.get("PYTHONPATH")]))
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.setenv("FEDCSA_TEST_POISON", f"refusal any {action}")

    return give


def large(megabytes):
    summary = np.zeros(megabytes << 20, np.uint8)
    return encode(Conclusion("demo", "done", {}, "", summary))


@pytest.mark.parametrize("payload", [GOOD, b"", b"junk", GOOD[:-1], GOOD * 2])
def test_one_child_opens_messages_and_what_is_none_one_after_the_other(lasting, payload):
    assert lasting.try_out(GOOD, **BOUNDS) == ""
    first = lasting._child.pid
    assert [lasting.try_out(payload, **BOUNDS) for _ in range(3)] == [""] * 3
    assert lasting._child.pid == first


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        ("crash", "opening_crashed"),
        ("segfault", "opening_crashed"),
        ("foreign", "opening_crashed"),
        ("chatter", "opening_crashed"),
        ("allocate", "opening_memory"),
        ("spin", "opening_time"),
        ("sleep", "opening_time"),
    ],
)
def test_whatever_a_message_does_ends_one_child_and_not_the_next(
    child, poison, monkeypatch, action, rule
):
    monkeypatch.setattr(opening, "CPU_SECONDS", 1 if action == "spin" else 60)
    monkeypatch.setattr(opening, "WALL_SECONDS", 0.5 if action == "sleep" else 600.0)
    poison(action)
    assert child.try_out(GOOD, **BOUNDS) == rule
    monkeypatch.delenv("FEDCSA_TEST_POISON")
    monkeypatch.setattr(opening, "WALL_SECONDS", 600.0)
    assert child.try_out(GOOD, **BOUNDS) == ""


def test_a_child_that_somebody_else_ends_accuses_nobody(child, monkeypatch):
    answer, ended = Opener._answer, []

    def end_it_first(self, frame, seconds):
        if frame and not ended:
            ended.append(self._child.pid)
            self._child.kill()
            self._child.wait()
        return answer(self, frame, seconds)

    monkeypatch.setattr(Opener, "_answer", end_it_first)
    assert child.try_out(GOOD, **BOUNDS) == ""
    assert len(ended) == 1


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system tells no memory")
def test_memory_is_limited_beside_the_message_and_not_below_what_honest_ones_need(child, poison):
    assert child.try_out(large(100), **BOUNDS) == ""  # held three times: as bytes, frame and array
    child.end()
    poison("a-little-memory")
    assert child.try_out(GOOD, **BOUNDS) == ""
    assert opening.MEMORY_BYTES == 300 << 20


def test_seconds_are_counted_for_every_message_anew(child, poison, monkeypatch):
    poison("half-a-second")
    monkeypatch.setattr(opening, "CPU_SECONDS", 1)
    assert [child.try_out(GOOD, **BOUNDS) for _ in range(4)] == [""] * 4


def test_nothing_in_the_folder_where_a_site_runs_poses_as_a_module(child, tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert child.try_out(GOOD, **BOUNDS) == ""


def test_a_site_that_cannot_start_a_child_blames_nobody(federation, monkeypatch):
    opener().end()
    monkeypatch.setattr(opening.sys, "executable", "/bin/false")
    with pytest.raises(FedCSAError, match="could not start"):
        opener().start()
    federation.attempt()
    for name in (*federation.names, "new"):
        assert "opening" not in {line["event"] for line in SiteLog(federation.state(name)).events}


def test_a_child_ends_with_the_process_that_started_it():
    code = (
        "from fedcsa.site.opening import opener; import os\n"
        "opener().start(); print(opener()._child.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    out = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=600
    )
    pid = int(out.stdout)
    for _ in range(600):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if stat == "Z":
            return
        opening.threading.Event().wait(0.1)
    pytest.fail("it still runs")


# What the child looks at ---------------------------------------------------------------------

LINE = LinearModel(np.array([1.0, 2.0]), 0.5)
BROKEN = {"coefficients": np.ones(3), "intercept": np.zeros(1)}  # of another study


def model_report(form, arrays):
    return ModelReport("demo", "abbey", "0" * 64, 0, 100, True, form, arrays)


def examination(*members):
    arrays = {f"{k}.{name}": a for k, (_, own) in enumerate(members) for name, a in own.items()}
    return Examination(
        "demo", "0" * 64, 0, "mean", 0.0, np.full(len(members), 1.0 / len(members)),
        [form for form, _ in members], arrays, np.zeros(1), False,
    )  # fmt: skip


GOOD_LINE, BAD_LINE = (LINE.form, LINE.arrays), (LINE.form, BROKEN)
TASK = {**BOUNDS, "classes": 0, "memory": 1 << 30, "seconds": 60}


@pytest.mark.parametrize(
    "message", [model_report(*GOOD_LINE), examination(GOOD_LINE), examination(GOOD_LINE, GOOD_LINE)]
)
def test_every_model_predicts_the_agreed_rows(monkeypatch, message):
    seen = []
    monkeypatch.setattr(LinearModel, "predict", lambda _, X: seen.append(X))
    open_wholly(encode(message), TASK)
    assert len(seen) == len(getattr(message, "weights", [1.0]))
    assert all((rows == agreed_rows(2)).all() for rows in seen)


@pytest.mark.parametrize(
    "message", [model_report(*BAD_LINE), examination(BAD_LINE), examination(GOOD_LINE, BAD_LINE)]
)
def test_a_damaged_model_is_refused_and_no_crash(lasting, message):
    with pytest.raises(ModelError):
        open_wholly(encode(message), TASK)
    assert lasting.try_out(encode(message), **BOUNDS) == ""  # the process that asked says why


def test_a_model_that_fails_on_the_agreed_rows_may_do_at_the_site(monkeypatch):
    monkeypatch.setattr(LinearModel, "predict", lambda *_: [].pop())
    with pytest.raises(ModelError, match="IndexError"):
        open_wholly(encode(model_report(*GOOD_LINE)), TASK)


def test_a_model_that_runs_out_of_memory_is_not_taken_for_damaged(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(LinearModel, "predict", full)
    with pytest.raises(MemoryError):
        open_wholly(encode(model_report(*GOOD_LINE)), TASK)


@pytest.mark.parametrize("rule", UNSAFE)
def test_every_unsafe_message_names_the_sender_and_says_what_to_do(rule):
    error = unsafe_message(rule, "abbey")
    assert error.rule == rule
    assert "'abbey'" in str(error)
    assert "leave it out" in str(error)


@pytest.mark.parametrize("features", [1, 2, 200])
def test_the_agreed_rows_are_the_same_everywhere_and_lie_within_three_sds(features):
    rows = agreed_rows(features)
    assert rows.shape == (64, features)
    assert np.abs(rows).max() == 3.0
    assert (rows == agreed_rows(features)).all()
