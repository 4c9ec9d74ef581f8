"""A3: one source of three sends what crashes, swells or hangs; the study must go on without it.

Before, such a message ended the target's own process: the study failed four times of four, nobody
was named, and the honest sources sent their models four times for nothing. The figures now: one
submission, the bad source by name, the numbers of a study without it to the bit, and every honest
message once.
"""

import dataclasses
import json

import pytest

from fedcsa.answer.store import load_result, summary
from fedcsa.messages.codec import decode
from fedcsa.site import opening
from fedcsa.site.desk import MOST_INTERRUPTED
from fedcsa.site.opening import UNSAFE, Opener
from fedcsa.site.state import Status

HONEST = ("birch", "castle")
REPORTS = ("risk-report", "model-report", "examination-report")
#: phase -> the message that is opened at the target, and what comes before its fate
PHASES = {
    "risk": ("risk-report", ""),
    "model": ("model-report", "model "),
    "examine": ("examination-report", "examination "),
}
#: One of every rule; `tests/site/test_opening.py` has all that a message can do to its opener, and
#: what the desk hears of it is the rule alone.
ENDINGS = {
    "segfault": "opening_crashed",
    "allocate": "opening_memory",
    "spin": "opening_time",
}


def conclude(federation, **options):
    return decode(federation.attempt(**options).conclusion)


def numbers(adaptation):
    """Everything but the ledgers, and but the digests of messages that name all the sources."""
    plain = json.loads(json.dumps(summary(adaptation)))
    for report in (*plain["reports"].values(), *plain["examinations"].values()):
        report.pop("in_reply_to", None)
    plain.pop("sites")
    return plain


def is_as_without_abbey(federation):
    study = federation.study
    kept = {name: path for name, path in study.sources.items() if name != "abbey"}
    expected = dataclasses.replace(study, sources=kept).run()
    found = load_result(federation.target.result_folder)
    return numbers(found) == numbers(expected)


def lines(federation, event, sender="abbey", site="new"):
    events = federation.log(site).events
    return [x for x in events if x["event"] == event and x["sender"] == sender]


def sent(federation, name):
    return tuple(item.entry.message for item in federation.log(name).sent)


@pytest.mark.parametrize(("action", "rule"), ENDINGS.items())
def test_a_model_that_ends_whoever_opens_it_costs_its_source_alone(
    federation, poison, monkeypatch, action, rule
):
    monkeypatch.setattr(opening, "CPU_SECONDS", 1)
    poison("model-report", "abbey", action)
    told = conclude(federation, min_sources=2)
    assert told.outcome == "done"
    assert told.sources == {"abbey": f"model rejected: {rule}", **dict.fromkeys(HONEST, "answered")}
    assert is_as_without_abbey(federation)
    assert all(sent(federation, name) == REPORTS for name in HONEST)
    said = [line["text"] for line in Status(federation.state("new")).lines()]
    assert any("'abbey'" in text and UNSAFE[rule] in text for text in said)


@pytest.mark.parametrize(("phase", "of"), PHASES.items())
def test_it_is_named_in_every_phase_and_after_a_restart_without_being_opened_again(
    federation, poison, phase, of
):
    kind, prefix = of
    poison(kind, "abbey", "crash")
    first = conclude(federation, min_sources=2)
    assert first.sources["abbey"] == f"{prefix}rejected: opening_crashed"
    tried = [x["sha256"] for x in lines(federation, "opening") if x["phase"] == phase]
    again = conclude(federation, min_sources=2)
    assert (again.outcome, again.sources) == ("done", first.sources)
    assert [x["sha256"] for x in lines(federation, "opening") if x["phase"] == phase] == tried
    assert len(tried) == 1
    assert all(sent(federation, name) == REPORTS for name in HONEST)


@pytest.mark.parametrize("kind", ["brief", "model-request", "examination"])
def test_a_target_that_sends_such_a_question_is_refused_by_name(federation, poison, kind):
    poison(kind, "any", "crash")
    told = conclude(federation)
    phase, prefix = {
        "brief": ("risk", ""),
        "model-request": ("model", "model "),
        "examination": ("examine", "examination "),
    }[kind]
    assert set(told.sources.values()) == {f"{prefix}refused: opening_crashed"}
    for name in federation.names:
        [line] = [x for x in lines(federation, "opened", "new", name) if x["phase"] == phase]
        assert line["rule"] == "opening_crashed"
        assert "accepted" not in {
            x["event"] for x in federation.log(name).events if x.get("phase") == phase
        }


# When this very process is ended ---------------------------------------------------------------


class PowerCut(BaseException):
    """What no code expects."""


@pytest.fixture
def power_cuts(monkeypatch, federation):
    """Ends the process whenever a message of abbey's model phase is opened at the target."""
    try_out, cuts = Opener.try_out, []

    def cut(self, payload, *bounds):
        opened = federation.log("new").events[-1]
        if (opened.get("sender"), opened.get("phase")) == ("abbey", "model"):
            assert opened["event"] == "opening"  # the log says whose message it is, before
            cuts.append(opened["sha256"])
            raise PowerCut
        return try_out(self, payload, *bounds)

    monkeypatch.setattr(Opener, "try_out", cut)
    return cuts


def test_a_power_cut_is_not_the_senders_doing(federation, power_cuts, monkeypatch):
    with pytest.raises(PowerCut):
        federation.attempt(min_sources=3)
    monkeypatch.undo()
    monkeypatch.setattr("fedcsa.answer.page.write_report", lambda _: None)
    told = conclude(federation, min_sources=3)
    assert set(told.sources.values()) == {"answered"}
    assert len(power_cuts) == 1


def test_a_message_that_ends_this_process_itself_is_named_after_two_restarts(
    federation, power_cuts
):
    for _ in range(MOST_INTERRUPTED):
        with pytest.raises(PowerCut):
            federation.attempt(min_sources=2)
    for _ in range(2):
        told = conclude(federation, min_sources=2)
        assert told.outcome == "done"
        assert told.sources["abbey"] == "model rejected: opening_interrupted"
    assert len(power_cuts) == MOST_INTERRUPTED
    assert is_as_without_abbey(federation)
    left = {name: federation.log(name).sent for name in HONEST}
    for name, items in left.items():
        assert [item.entry.message for item in items if item.kind == "sent"] == list(REPORTS), name
