"""A search between sites: every round once, to the bit as in one process, whoever is killed."""

import dataclasses
import json

import pytest

from fedcsa.answer import page
from fedcsa.errors import PolicyError
from fedcsa.messages.codec import decode, digest, digest_of, encode
from fedcsa.messages.envelope import Envelope, ask, close
from fedcsa.messages.messages import MoreCandidates
from fedcsa.site.account import search_sentence
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.preview import preview
from fedcsa.site.source_desk import SourceDesk
from fedcsa.target.search import Search

pytest.importorskip("optuna")
SPACE = "penalty = { low = 1e-3, high = 10, log = true }\nratio_power = [0.0, 0.5]"


class Killed(BaseException):
    """Ends a process at once: nobody catches it."""


def as_search(federation):
    """Let the study of a federation be a search of three rounds."""
    text = federation.study_file.read_text(encoding="utf-8")
    text = text.replace("penalty = [0.01, 10.0]\nratio_power = [0.0]", SPACE)
    top = "seed = 3\nbudget = { candidates = 6, rounds = 3 }"
    federation.study_file.write_text(text.replace("seed = 3", top), encoding="utf-8")
    return federation


@pytest.fixture
def searching(federation):
    return as_search(federation)


def result(federation):
    return json.loads((federation.target.result_folder / "adaptation.json").read_text())


def answered(federation, name):
    """The answers of a source, in order, each with the question's digest."""
    events = federation.log(name).events
    return [(x["phase"], x["reply"]) for x in events if x["event"] == "answered"]


def questions(federation):
    return [x["request"] for x in federation.log("new").events if x["event"] == "searched"]


def test_a_search_between_sites_is_that_of_one_process(whole):
    searching = whole
    assert decode(whole.board.conclusion).outcome == "done"
    there, here = result(searching), searching.study.run()
    assert there["rounds"] == list(here.rounds) == [2, 2, 2]
    assert there["plan"]["candidates"] == [dict(c) for c in here.plan.candidates]
    assert there["promise"]["risk"] == here.promise.risk
    for name in searching.names:
        assert [phase for phase, _ in answered(searching, name)] == [
            "risk", "search 2", "search 3", "model", "examine",
        ]  # fmt: skip
        sent = [x["message"] for x in searching.log(name).events if x["event"] == "sent"]
        assert sent.count("risk-report") == 3
    lines = [line["text"] for line in searching.target._status.lines()]
    assert any("round 3 of 3, candidate 6 of 6, smallest risk so far" in line for line in lines)
    assert "search" in searching.board.seconds


@pytest.fixture(scope="module")
def whole(federation_in, tmp_path_factory):
    """The same federation after a search that nobody has interrupted."""
    other = federation_in(tmp_path_factory.mktemp("whole"))
    as_search(other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "write_report", lambda _: None)  # it takes longer than the study
        other.attempt()
    return other


@pytest.mark.parametrize(
    ("where", "number"), [("target", 2), ("source before", 2), ("source after", 3)]
)
def test_an_interrupted_search_goes_on_without_a_second_disclosure(searching, whole, where, number):
    """The target dies between rounds, or a source while it answers; then the study comes again."""
    seen = []

    def tamper(task, name, letter):
        if (task, name) == (("choose", "new") if where == "target" else ("search", "birch")):
            seen.append(task)
            if len(seen) == number - 1:
                raise Killed
        return letter

    searching.tamper = tamper
    if where == "source before":  # it has accepted the question, and has computed nothing
        compute, left = SourceDesk._compute, [True]

        def killed(self, message, payload, place):
            if self.name == "birch" and place == "search 2" and left.pop():
                raise Killed
            return compute(self, message, payload, place)

        searching.tamper = lambda _task, _name, letter: letter
        SourceDesk._compute = killed
    try:
        with pytest.raises(Killed):
            searching.attempt()
    finally:
        if where == "source before":
            SourceDesk._compute = compute
    searching.tamper = lambda _task, _name, letter: letter
    before = {name: answered(searching, name) for name in searching.names}
    searching.attempt()
    mine, other = result(searching), result(whole)
    for name in ("plan", "reports", "promise", "source_weights", "rounds", "candidate"):
        assert mine[name] == other[name], name
    assert questions(searching) == questions(whole)
    for name in searching.names:
        now = answered(searching, name)
        assert now == answered(whole, name)  # every round once, to the bit
        assert now[: len(before[name])] == before[name]


def asked(federation, name, change, number=2):
    """What a source says to a round that was changed on its way."""
    line = federation.log("new").find("searched", study="small", phase=f"search {number}")
    message = change(decode(federation.log("new").payload(line["request"])))
    payload = encode(message)
    envelope, _ = close(ask(federation.agreed.id, "search", "new", name), payload, "", None)
    return decode(federation.sources[name].answer(envelope, payload)[1])


def test_a_hostile_target_that_asks_for_more_or_something_else_is_refused_by_name(searching):
    searching.absent = {("search", name) for name in searching.names}
    searching.attempt()
    [first, *_] = [x for x in searching.log("new").events if x["event"] == "searched"]
    good = decode(searching.log("new").payload(first["request"]))
    assert isinstance(good, MoreCandidates)

    def says(**change):
        return asked(searching, "abbey", lambda m: dataclasses.replace(m, **change)).rule

    outside = [{"penalty": 11.0, "ratio_power": 0.0}]
    assert says(candidates=outside) == "not_as_agreed"
    assert says(candidates=[{"penalty": 1.0, "ratio_power": 0.25}]) == "not_as_agreed"
    assert says(candidates=[{"penalty": 1.0, "model": "other"}]) == "not_as_agreed"
    assert says(candidates=[dict(good.candidates[0])] * 5) == "not_as_agreed"  # 2 + 5 of 6
    assert says(round=3) == "phase_order"
    assert says(brief="0" * 64) == "phase_order"
    assert says(study="other") == "other_study"
    assert asked(searching, "abbey", lambda m: m).name == "risk-report"
    other = [{"penalty": 0.5, "ratio_power": 0.0}]
    assert says(candidates=other) == "one_round"


def test_no_more_rounds_or_numbers_than_agreed_are_answered(whole):
    """Every round tells a few numbers; a source counts what the study allows, as the target."""
    log = whole.log("new")
    brief = decode(log.payload(log.find("announced", study="small")["brief"]))
    text = whole.study_file.read_text("utf-8")
    wide = text.replace("candidates = 6", "candidates = 60")

    def round_of(number, n_candidates=1):
        listed = [dict(brief.candidates[0])] * n_candidates
        return MoreCandidates("small", digest_of(brief), number, listed)

    second, third, fourth = map(round_of, (2, 3, 4))
    AgreedStudy(wide).check(third, brief, [second])
    with pytest.raises(PolicyError, match="at most 3 rounds in all"):
        AgreedStudy(wide).check(fourth, brief, [second, third])
    counted = AgreedStudy(wide.replace("rounds = 3", "rounds = 3, numbers = 100"))
    counted.check(second, brief)
    with pytest.raises(PolicyError, match="at most 100 numbers in all"):
        counted.check(round_of(2, 50), brief)


def test_a_preview_tells_the_smaller_limit_and_the_numbers(searching):
    searching.configure("abbey", "[policy]\nmax_candidates = 4")
    text = searching.study_file.read_text("utf-8").replace("rounds = 3", "rounds = 3, numbers = 90")
    found = preview(text, searching.site("abbey"))["search"]
    assert found == {"candidates": 4, "rounds": 3, "numbers": 90}
    assert "about up to 4 candidates and for up to 90 numbers in all" in search_sentence(found)


def test_a_preview_of_a_target_asks_for_no_more_than_its_own_limit(searching):
    searching.configure("new", "[policy]\nmax_candidates = 1")
    [brief, *_] = preview(searching.study_file.read_text("utf-8"), searching.site("new"))[
        "messages"
    ]
    [candidates] = [item for item in brief["fields"] if item["name"] == "candidates"]
    assert len(candidates["value"]) == 1


def test_a_brief_whose_candidates_lie_outside_the_agreed_space_is_refused(searching):
    def tamper(task, name, letter):
        if (task, name) != ("announce", "new"):
            return letter
        brief = decode(letter["payloads"]["abbey"])
        payload = encode(dataclasses.replace(brief, candidates=[{"penalty": 100.0}]))
        envelope = Envelope.from_bytes(letter["envelopes"]["abbey"])
        wire = dataclasses.replace(envelope, digest=digest(payload)).to_bytes()
        return {
            "envelopes": {**letter["envelopes"], "abbey": wire},
            "payloads": {**letter["payloads"], "abbey": payload},
        }

    searching.tamper = tamper
    searching.attempt()
    lines = [line["text"] for line in searching.sources["abbey"]._status.lines()]
    assert any("not_as_agreed: Every candidate must lie in the agreed space" in x for x in lines)
    assert answered(searching, "abbey") == []


def test_a_source_that_misses_a_round_is_named_and_the_study_goes_on(searching):
    searching.absent = {("search", "castle")}
    told = decode(searching.attempt().conclusion)
    assert told.outcome == "done"
    assert told.sources["castle"] == "search missing"
    assert [f["source"] for f in result(searching)["findings"] if f["code"] == "left-search"] == [
        "castle"
    ]
    first = result(searching)
    searching.absent = set()
    searching.attempt()  # what was asked once stands: nobody is asked for anything else
    assert result(searching)["plan"] == first["plan"]


def test_a_site_with_a_limit_of_its_own_leaves_the_search(searching):
    searching.configure("birch", "[policy]\nmax_candidates = 4")
    told = decode(searching.attempt().conclusion)
    assert told.outcome == "done"
    assert result(searching)["rounds"] == [2, 2, 2]
    assert told.sources["birch"] == "search refused: max_candidates"


def test_a_later_round_that_waits_for_a_person_is_opened_once(searching):
    """A steward is asked from a later round on: the question comes at every submission."""

    def tamper(task, name, letter):
        if (task, name) == ("search", "abbey"):
            raise Killed
        return letter

    searching.tamper = tamper
    with pytest.raises(Killed):
        searching.attempt()
    searching.tamper = lambda _task, _name, letter: letter
    searching.configure("birch", "approve = true")
    opened = []
    for _ in range(2):
        assert decode(searching.attempt().conclusion).outcome == "waiting"
        opened.append([x["event"] for x in searching.log("birch").events].count("opening"))
    assert [w["phase"] for w in searching.log("birch").waiting()] == ["search 2"]
    assert opened[0] == opened[1]


def test_a_study_that_comes_again_asks_what_it_asked_though_another_would_be_drawn(
    searching, monkeypatch
):
    searching.absent = {("search", name) for name in searching.names}
    searching.attempt()
    [before] = questions(searching)
    searching.absent = set()
    ask = Search.ask

    def drawn_otherwise(self, risks=(), most=None):
        return [dict(c, penalty=c["penalty"] * 0.9) for c in ask(self, risks, most)]

    monkeypatch.setattr(Search, "ask", drawn_otherwise)
    told = decode(searching.attempt().conclusion)
    assert told.outcome != "one_choice"
    assert questions(searching)[0] == before


def test_a_preview_says_how_much_may_be_asked_and_shows_the_rounds_that_came(searching):
    text = searching.study_file.read_text(encoding="utf-8")
    look = preview(text, searching.site("abbey"))
    assert look["search"] == {"candidates": 6, "rounds": 3}
    [report, *_] = look["messages"]
    risks = next(item for item in report["fields"] if item["name"] == "risk")
    assert (risks["numbers"], report["exact"]) == ("2", False)
    searching.attempt()
    look = preview(text, searching.site("abbey"))
    assert [m["message"] for m in look["messages"]].count("risk-report") == 3
    assert all(message["exact"] for message in look["messages"])
    shas = [reply for _, reply in answered(searching, "abbey")]
    assert [m["sha256"] for m in look["messages"]] == shas
    target = preview(text, searching.site("new"))
    assert [m["message"] for m in target["messages"]].count("more-candidates") == 2
