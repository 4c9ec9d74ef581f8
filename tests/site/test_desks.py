"""A study between desks: the numbers of one process, one disclosure, and ordinary failures."""

import dataclasses
import functools
import itertools
import json
import shutil
from collections import Counter

import numpy as np
import pytest

from fedcsa.answer.store import load_result, save_result, summary
from fedcsa.data.table1 import write_table1
from fedcsa.errors import ProtocolError, ResultError
from fedcsa.messages import codec
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Envelope, ask, close
from fedcsa.messages.messages import Conclusion, ExaminationReport, ModelReport, RiskReport
from fedcsa.site.log import open_log
from fedcsa.site.opening import Opener
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import one_of_phase
from fedcsa.site.state import Status
from fedcsa.study import Study

SIZES = ("abbey", "birch", "castle")
REPORTS = ("risk-report", "model-report", "examination-report")
#: phase -> what comes before a trouble in a source's fate
PHASES = {"risk": "", "model": "model ", "examine": "examination "}


def with_array(model, name, numbers):
    """A model report with other numbers in one of its arrays."""
    return dataclasses.replace(model, arrays={**model.arrays, name: numbers})


def conclusion(board):
    message = decode(board.conclusion)
    assert isinstance(message, Conclusion)
    return message


#: What was run in one process, by all that it depends on: most tests ask for the same study.
RUN = {}


def in_process(federation, without=()):
    study = federation.study
    tables = [path.read_bytes() for path in sorted(federation.folder.glob("*/table.csv"))]
    asked = (federation.agreed.text, bool(study.table1), tuple(without), *tables)
    if asked not in RUN:
        kept = {name: path for name, path in study.sources.items() if name not in without}
        RUN[asked] = dataclasses.replace(study, sources=kept).run()
    return RUN[asked]


def numbers(adaptation):
    """Everything but the ledgers, which hold times and each site's own part."""
    plain = json.loads(json.dumps(summary(adaptation)))
    for report in (*plain["reports"].values(), *plain["examinations"].values()):
        report.pop("in_reply_to", None)
    plain.pop("sites")
    models = {
        n: encode(dataclasses.replace(m, in_reply_to=""))
        for n, m in adaptation.model_reports.items()
    }
    return plain, models


def same(federation, without=()):
    found = load_result(federation.target.result_folder)
    expected = in_process(federation, without)
    assert numbers(found) == numbers(expected)


def sent(federation, name):
    return [(item.kind, item.entry.message) for item in federation.log(name).sent]


def forget(federation, name):
    """Take away all that a site knows of the past, as whoever controls its machine could."""
    shutil.rmtree(federation.state(name))
    open_log.cache_clear()


@pytest.fixture(scope="module")
def done(tmp_path_factory, federation_in):
    """Federations by kind of study, once through it; only to look at."""

    @functools.cache
    def get(kind="ridge"):
        federation = federation_in(tmp_path_factory.mktemp(kind), kind)
        federation.attempt(min_sources=3)
        return federation

    return get


@pytest.mark.parametrize("kind", ["ridge", "classifier", "pipeline", "trees"])
def test_a_federated_study_equals_the_one_in_process_to_the_bit(done, kind):
    federation = done(kind)
    told = conclusion(federation.board)
    assert (told.outcome, set(told.sources.values())) == ("done", {"answered"})
    assert federation.board.step == "done"
    same(federation)
    found = load_result(federation.target.result_folder)
    assert set(found.examinations) == set(SIZES)
    assert found.promise.examined_by == tuple(SIZES)


@pytest.mark.parametrize("kind", ["ridge", "classifier", "pipeline", "trees"])
def test_the_targets_folder_is_that_of_a_run_in_one_process(done, tmp_path, kind):
    federation = done(kind)
    found = federation.target.result_folder
    expected = save_result(in_process(federation), tmp_path / "run", federation.agreed.text)
    contents = [json.loads((f / "adaptation.json").read_text()) for f in (found, expected)]
    assert contents[0].pop("sites") == ["target"]  # the others' ledgers are theirs
    assert contents[1].pop("sites") == ["abbey", "birch", "castle", "target"]
    assert contents[0] == contents[1]
    for name in ("study.toml", "models/0.fcsa", "models/1.fcsa", "models/2.fcsa"):
        assert (found / name).read_bytes() == (expected / name).read_bytes()
    rows = federation.study.read_target()
    ours, theirs = (load_result(f).predict(rows) for f in (found, expected))
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("own", ["", '[columns]\nage = "AGE"\noutcome = "Y"'])
def test_a_site_that_reads_in_batches_sends_the_bits_of_a_streamed_run(federation, own):
    """And the names of its columns are its own."""
    expected = federation.study.run(stream=True)
    for name in SIZES:
        federation.configure(name, f"stream = true\n{own}")
        path = federation.folder / name / "table.csv"
        if own:
            path.write_text(path.read_text().replace("age,", "AGE,").replace("outcome", "Y"))
    assert conclusion(federation.attempt(min_sources=3)).outcome == "done"
    assert numbers(load_result(federation.target.result_folder)) == numbers(expected)


def test_a_site_that_cannot_be_streamed_says_so_at_home_and_refuses(make_federation):
    federation = make_federation("classifier")
    federation.configure("abbey", "stream = true")
    told = conclusion(federation.attempt())
    assert told.sources["abbey"] == "refused: failed"
    said = [line["text"] for line in Status(federation.state("abbey")).lines()]
    assert any("memory" in text for text in said)


def test_every_message_that_left_is_in_the_ledger_of_its_site(done):
    federation = done()
    for name in SIZES:
        assert sent(federation, name) == [("sent", message) for message in REPORTS]
    asked = [m for m in ("brief", "model-request", "examination") for _ in SIZES]
    assert sent(federation, "new") == [("sent", message) for message in (*asked, "conclusion")]


def test_a_study_submitted_again_asks_nobody_again(federation):
    first = conclusion(federation.attempt())
    again = conclusion(federation.attempt())
    assert (again.outcome, again.sources, again.result) == ("done", first.sources, first.result)
    for name in SIZES:
        assert sent(federation, name) == [("sent", message) for message in REPORTS]
    asked = [item.entry.message for item in federation.log("new").sent]
    assert [asked.count(m) for m in ("brief", "model-request", "examination")] == [3, 3, 3]


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_a_study_submitted_again_asks_only_whoever_has_not_answered(federation, phase, fate):
    federation.absent = {(phase, "birch")}
    told = conclusion(federation.attempt(min_sources=3))
    assert told.sources["birch"] == f"{fate}missing"
    federation.absent = set()
    told = conclusion(federation.attempt(min_sources=3))
    assert (told.outcome, set(told.sources.values())) == ("done", {"answered"})
    for name in SIZES:
        assert sent(federation, name) == [("sent", message) for message in REPORTS]
    same(federation)


def test_a_target_that_asks_again_gets_the_same_bytes_and_nothing_new(federation):
    federation.attempt()
    first = {name: {e.entry.sha256 for e in federation.log(name).sent} for name in SIZES}
    for name in SIZES:  # the data are gone: whatever is sent was sent before
        (federation.folder / name / "table.csv").unlink()
    forget(federation, "new")
    board = federation.attempt()
    assert conclusion(board).outcome == "done"
    for name in SIZES:
        assert sent(federation, name)[3:] == [("resent", message) for message in REPORTS]
        assert {e.entry.sha256 for e in federation.log(name).sent} == first[name]


@pytest.mark.parametrize("name", SIZES)
def test_a_source_that_is_missing_from_the_start_is_as_if_it_were_not_there(federation, name):
    federation.absent = {("risk", name)}
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources[name] == "missing"
    same(federation, without=[name])


def test_a_source_that_dies_before_its_model_is_as_if_it_were_not_there(federation):
    federation.absent = {("model", "abbey")}
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources == {"abbey": "model missing", "birch": "answered", "castle": "answered"}
    same(federation, without=["abbey"])


def test_the_promise_rests_on_the_others_if_a_source_dies_in_the_examination(federation):
    federation.absent = {("examine", "abbey")}
    told = conclusion(federation.attempt(min_sources=3))
    assert told.sources["abbey"] == "examination missing"
    found, whole = load_result(federation.target.result_folder), in_process(federation)
    assert found.source_weights == whole.source_weights  # its model stays in the mixture
    assert found.promise.examined_by == ("birch", "castle")
    findings = [(f.source, f.evidence["reason"]) for f in found.findings]
    assert findings == [("abbey", "missing")]
    others = {name: whole.examinations[name] for name in ("birch", "castle")}
    assert {n: encode(m) for n, m in found.examinations.items()} == {
        n: encode(m) for n, m in others.items()
    }


def test_without_any_examination_there_is_a_model_and_no_promise(federation):
    federation.absent = {("examine", name) for name in SIZES}
    told = conclusion(federation.attempt(min_sources=3))
    assert (told.outcome, set(told.sources.values())) == ("done", {"examination missing"})
    found = load_result(federation.target.result_folder)
    assert (found.promise, found.verdict.advice) == (None, "care")
    assert set(found.source_weights) == set(SIZES)


def test_a_choice_that_was_told_stands_even_if_a_source_dies_before_its_model(make_federation):
    federation = make_federation("close")
    federation.absent = {("model", "abbey")}
    told = conclusion(federation.attempt())
    found = load_result(federation.target.result_folder)
    assert told.sources["abbey"] == "model missing"
    assert in_process(federation, ["abbey"]).candidate != found.candidate  # hence
    assert [f.source for f in found.findings if f.code == "model-withheld"] == ["abbey"]
    assert set(found.source_weights) == set(found.examinations) == {"birch", "castle"}


def test_below_the_minimum_there_is_no_model(federation):
    federation.absent = {("risk", "abbey")}
    told = conclusion(federation.attempt(min_sources=3))
    whole = bytes(told.summary)
    assert (told.outcome, told.result) == ("min_sources", digest(whole))
    left = json.loads(whole)
    assert (left["ended"]["rule"], sorted(left["reports"])) == ("min_sources", ["birch", "castle"])
    folder = federation.target.result_folder
    assert (folder / "adaptation.json").read_bytes() == whole
    assert list((folder / "models").iterdir()) == []
    with pytest.raises(ResultError, match="ended without one"):
        load_result(folder)
    federation.absent = {("model", "abbey")}
    assert conclusion(federation.attempt(min_sources=3)).outcome == "min_sources"


def test_a_target_that_dies_between_the_phases_resumes_with_the_same_choice(federation):
    federation.absent = {("mix", "new")}
    with pytest.raises(ProtocolError, match="The target 'new' did not answer"):
        federation.attempt()
    before = federation.target._role._request
    federation.absent = {("risk", "birch")}  # another set of sources must not change the choice
    told = conclusion(federation.attempt())
    assert federation.target._role._request == before
    assert told.sources["birch"] == "answered"
    same(federation)


@pytest.mark.parametrize("lost", ["examine", "conclude"])
@pytest.mark.parametrize("without", [(), ("abbey",)])
def test_a_target_that_dies_after_mixing_lets_the_same_mixture_be_examined(
    federation, lost, without
):
    """Were it another one, no source would examine it: each examines one a study."""
    gone = {("model", name) for name in without}
    everyone = {("examine", name) for name in SIZES} if lost == "examine" else set()
    federation.absent = {("conclude", "new"), *gone, *everyone}
    with pytest.raises(ProtocolError, match="The target 'new' did not answer"):
        federation.attempt()
    # Whoever is there or not now must not change the mixture.
    federation.absent = set() if without else {("model", "birch"), ("risk", "castle")}
    told = conclusion(federation.attempt())
    fates = {name: "model missing" if name in without else "answered" for name in SIZES}
    assert told.sources == fates
    same(federation, without)
    for name in without:
        assert ("sent", "model-report") not in sent(federation, name)  # nobody would use it


@pytest.mark.parametrize("phase", ["model", "examine"])
def test_a_source_restarted_between_the_phases_answers_to_the_bit_the_same(federation, phase):
    def restart(task, name, letter):
        if task == ("risk" if phase == "model" else "model"):
            federation.sources[name] = federation.desk(name)
        return letter

    federation.tamper = restart
    told = conclusion(federation.attempt(min_sources=3))
    assert set(told.sources.values()) == {"answered"}
    same(federation)


def test_a_study_whose_sources_sent_no_model_goes_on_when_they_do(federation):
    federation.absent = {("model", name) for name in SIZES}
    assert conclusion(federation.attempt()).outcome == "min_sources"
    federation.absent = set()
    assert conclusion(federation.attempt(min_sources=3)).outcome == "done"
    same(federation)


def test_changed_target_rows_are_another_brief_and_refused(federation):
    federation.attempt()
    path = federation.folder / "new" / "table.csv"
    path.write_text(path.read_text(encoding="utf-8") + "1.0,1.0\n", encoding="utf-8")
    assert conclusion(federation.attempt()).outcome == "one_brief"


def test_a_changed_study_of_the_same_name_gets_no_second_brief(federation):
    federation.attempt()
    text = federation.study_file.read_text(encoding="utf-8")
    federation.study_file.write_text(text.replace("seed = 3", "seed = 4"), encoding="utf-8")
    assert conclusion(federation.attempt()).outcome == "one_brief"
    # And a target that forgot what it announced finds that the sources have not.
    forget(federation, "new")
    told = conclusion(federation.attempt())
    assert set(told.sources.values()) == {"refused: one_brief"}


def test_the_log_counts_the_numbers_about_the_targets_rows(done):
    announced = done().log("new").find("announced", study="small")
    assert announced["numbers"] == 1 + 2 + 2 + 1  # rows, means, sds, one correlation


@pytest.fixture
def upgraded(monkeypatch):
    """Called, every site has a version of fedcsa with another protocol."""

    def upgrade():
        monkeypatch.setattr(Opener, "try_out", lambda *_: "")  # its child is of this version
        monkeypatch.setattr(codec, "PROTOCOL_VERSION", codec.PROTOCOL_VERSION + 1)

    return upgrade


def test_after_an_upgrade_a_new_study_runs_and_the_older_ones_still_count(
    federation, write_study, upgraded
):
    federation.attempt()
    first = federation.target.result_folder
    before = load_result(first)
    wire = encode(before.model_reports["abbey"])
    upgraded()
    write_study(federation.folder, name="second")
    again = conclusion(federation.attempt())
    assert (again.outcome, set(again.sources.values())) == ("done", {"answered"})
    after = load_result(first)
    assert encode(after.model_reports["abbey"])[6:] == wire[6:]  # behind the version
    # Of nearly the same rows no second table is told, whichever version told the first one.
    path = federation.folder / "new" / "table.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    write_study(federation.folder, name="third")
    federation.attempt()
    assert load_result(federation.target.result_folder).table == before.table


# A target that has only its Table 1 ----------------------------------------------------------


def with_table1(federation):
    """The target's own Table 1 in place of its rows."""
    study = federation.study
    write_table1(federation.folder / "new" / "table1.csv", study.read_target_table(), study.coding)
    (federation.folder / "new" / "site.toml").write_text('table1 = "table1.csv"\n')
    text = federation.study_file.read_text(encoding="utf-8")
    federation.study_file.write_text(
        text.replace('table = "new/table.csv"', 'table1 = "new/table1.csv"'), encoding="utf-8"
    )


@pytest.mark.parametrize("kind", ["ridge", "classifier"])
def test_a_target_may_have_only_its_table(make_federation, kind):
    federation = make_federation(kind)
    federation.attempt()
    rows = federation.target._brief
    with_table1(federation)
    for name in ("new", *SIZES):
        forget(federation, name)
    told = conclusion(federation.attempt(min_sources=3))
    assert (told.outcome, set(told.sources.values())) == ("done", {"answered"})
    assert encode(federation.target._brief) == encode(rows)
    same(federation)
    found = load_result(federation.target.result_folder)
    assert found.promise.examined_by == SIZES


def test_a_wild_model_is_rejected_by_a_target_without_rows(federation):
    with_table1(federation)
    lie(federation, "model", lambda m: encode(with_array(m, "intercept", np.full(1, 1e6))))
    assert conclusion(federation.attempt()).sources["abbey"] == "model rejected: wild_model"


# Refusals ------------------------------------------------------------------------------------


def test_a_refusal_by_policy_is_an_ordinary_outcome_under_its_name(federation):
    federation.configure("abbey", "[policy]\nmin_fold_rows = 100")
    told = conclusion(federation.attempt())
    assert told.outcome == "done"
    assert told.sources["abbey"] == "refused: min_fold_rows"


#: Rules of a site, and the name under which each refuses.
RULES = (
    ('features = ["age"]', "features"),
    ('models = ["weighted-least-squares"]', "models"),
    ("exchanges = []", "exchanges"),
    ("min_target_rows = 101", "min_target_rows"),
    ("max_parameters_per_row = 0.001", "max_parameters_per_row"),
    ("min_sd_share = 50.0", "row_floors"),
    ("min_penalty = 1.0", "min_penalty"),
    ("min_effective_rows = 1000.0", "row_floors"),
    ("max_row_share = 0.0001", "row_floors"),
    ("max_row_leverage = 0.0001", "row_floors"),
)


@pytest.mark.parametrize("first", range(0, len(RULES), len(SIZES)))
def test_every_rule_of_a_site_refuses_by_its_name(federation, first):
    """Each source has another rule."""
    fates = {}
    for name, (rules, rule) in zip(SIZES, itertools.islice(RULES, first, None), strict=False):
        federation.configure(name, f"[policy]\n{rules}")
        fates[name] = f"refused: {rule}"
    told = conclusion(federation.attempt()).sources
    assert {name: told[name] for name in fates} == fates


def test_a_site_that_sends_no_model_examines_all_the_same(federation):
    federation.configure("abbey", '[policy]\nmodels = "never"')
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources["abbey"] == "model refused: models"
    assert sent(federation, "abbey") == [
        ("sent", "risk-report"), ("sent", "refusal"), ("sent", "examination-report"),
    ]  # fmt: skip
    found = load_result(federation.target.result_folder)
    assert set(found.source_weights) == {"birch", "castle"}
    assert found.promise.examined_by == SIZES


def test_a_model_that_may_not_be_shown_is_sent_marked_and_has_no_weight(federation):
    federation.configure("abbey", "[policy]\nshow_model = false")
    told = conclusion(federation.attempt(min_sources=3))
    assert told.sources["abbey"] == "answered"
    found = load_result(federation.target.result_folder)
    assert {n: m.show for n, m in found.model_reports.items()} == {
        "abbey": False, "birch": True, "castle": True,
    }  # fmt: skip
    assert found.source_weights["abbey"] == 0.0
    assert found.promise.examined_by == SIZES
    assert [f.source for f in found.findings if f.code == "model-not-shown"] == ["abbey"]
    other = federation.target._role._examinations["birch"]  # of castle alone
    [(_, arrays)] = other.members
    assert np.array_equal(arrays["coefficients"], found.models["castle"].coefficients)


def test_a_target_does_not_announce_its_rows_unless_its_own_file_says_so(federation):
    text = federation.study_file.read_text(encoding="utf-8")
    rows = text.replace("seed = 3", 'seed = 3\npreset = "paper"')
    federation.study_file.write_text(rows.replace("ratio_power = [0.0]\n", ""), encoding="utf-8")
    assert conclusion(federation.attempt()).outcome == "exchanges"
    assert sent(federation, "new") == [("sent", "conclusion")]
    federation.configure("new", '[policy]\nexchanges = ["rows"]')
    assert set(conclusion(federation.attempt()).sources.values()) == {"refused: exchanges"}


def test_the_papers_algorithm_runs_between_sites_that_allow_rows_as_in_one_process(federation):
    text = federation.study_file.read_text(encoding="utf-8")
    rows = text.replace("seed = 3", 'seed = 3\npreset = "paper"')
    rows = rows.replace("ratio_power = [0.0]\n", "")
    rows = rows.replace("[policy]\n", '[policy]\nexchanges = ["rows"]\n')
    federation.study_file.write_text(rows, encoding="utf-8")
    for name in ("new", *SIZES):
        federation.configure(name, '[policy]\nexchanges = ["rows"]')
    assert set(conclusion(federation.attempt()).sources.values()) == {"answered"}
    same(federation)
    found = load_result(federation.target.result_folder)
    assert (found.plan.preset, found.promise, found.verdict.advice) == ("paper", None, "none")


def test_a_failure_inside_is_told_by_no_more_than_a_word(federation):
    federation.configure("abbey", 'missing_values = ["x"]\n[columns]\nage = "MARKER"')
    told = conclusion(federation.attempt())
    assert told.sources["abbey"] == "refused: failed"
    assert b"MARKER" not in federation.board.conclusion


def test_a_target_sends_nothing_larger_than_its_own_file_says(federation):
    federation.configure("new", "max_bytes = 100")
    assert conclusion(federation.attempt()).outcome == "max_bytes"
    assert sent(federation, "new") == [("sent", "conclusion")]


def test_a_source_sends_nothing_larger_than_its_own_file_says(federation):
    federation.attempt()
    (brief, *_), (report, *_) = (federation.log(name).sent for name in ("new", "abbey"))
    assert brief.entry.n_bytes < report.entry.n_bytes
    for name in ("new", *SIZES):
        forget(federation, name)
    federation.configure("abbey", f"max_bytes = {report.entry.n_bytes - 1}")
    assert conclusion(federation.attempt()).sources["abbey"] == "refused: max_bytes"
    assert sent(federation, "abbey") == [("sent", "refusal")]


def test_a_study_waits_for_approval_and_goes_on_with_it(federation):
    federation.configure("abbey", "approve = true")
    told = conclusion(federation.attempt(min_sources=3))
    assert (told.outcome, told.sources["abbey"]) == ("waiting", "waiting")
    approvals = federation.log("abbey")
    assert [item["id"] for item in approvals.waiting()] == [federation.agreed.id]
    approvals.decide("small", "approved")
    assert approvals.waiting() == []
    assert conclusion(federation.attempt(min_sources=3)).sources["abbey"] == "answered"
    assert sent(federation, "abbey")[1:] == [("sent", message) for message in REPORTS]
    same(federation)


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_a_steward_may_refuse_what_has_not_left_yet(federation, phase, fate):
    federation.configure("abbey", "approve = true")
    approvals = federation.log("abbey")
    approvals.decide(federation.agreed.id, "approved")
    before = {"risk": "announce", "model": "risk", "examine": "model"}[phase]

    def refuse(task, name, letter):
        if task == before and name in ("new", "abbey"):
            approvals.decide("small", "refused")
        return letter

    federation.tamper = refuse
    fates = conclusion(federation.attempt()).sources["abbey"].split("; ")
    assert fates[0] == f"{fate}refused: approval"
    left = [message for _, message in sent(federation, "abbey") if message != "refusal"]
    assert left == list(REPORTS[: list(PHASES).index(phase)])


def test_a_brief_that_is_not_as_agreed_is_refused(federation):
    original = federation.agreed

    rules = set()

    def ask_for_more(task, _name, letter):
        if task == "risk":
            rules.add(decode(letter["payload"]).rule)
        if task != "announce":
            return letter
        payload = encode(dataclasses.replace(decode(letter["payloads"]["abbey"]), n_folds=4))
        envelopes = {
            n: close(ask(original.id, "risk", "new", n), payload, "", None)[0] for n in SIZES
        }
        return {"payloads": dict.fromkeys(SIZES, payload), "envelopes": envelopes}

    federation.tamper = ask_for_more
    federation.attempt()
    assert rules == {"not_as_agreed"}


# Bound messages ------------------------------------------------------------------------------


def test_a_study_makes_its_plan_once_and_opens_every_table_once(federation, monkeypatch):
    plan, open_rows, counts = Study.plan, SiteFile.open_rows, Counter()

    def made(study, *args, **kwargs):
        counts["plans"] += 1
        return plan(study, *args, **kwargs)

    def opened(site):
        counts[site.folder.name] += 1
        return open_rows(site)

    monkeypatch.setattr(Study, "plan", made)
    monkeypatch.setattr(SiteFile, "open_rows", opened)
    assert conclusion(federation.attempt()).outcome == "done"
    assert counts == {"plans": 1, "new": 1, **dict.fromkeys(federation.names, 1)}


def refused(federation, envelope, payload):
    return decode(federation.sources["abbey"].answer(envelope, payload)[1]).rule


def test_a_replayed_question_is_refused_by_name(federation):
    federation.attempt()
    kinds = {"risk": RiskReport, "model": ModelReport, "examine": ExaminationReport}
    for phase in PHASES:
        envelope, payload = federation.asked_again(phase)
        answer = decode(federation.sources["abbey"].answer(envelope, payload)[1])
        assert isinstance(answer, kinds[phase])
        assert refused(federation, envelope, payload) == "replayed"


#: What an envelope may be changed to, and the rule under which it is refused.
ELSEWHERE = (
    ({"study": "other@0"}, "other_study"),
    ({"sender": "birch"}, "wrong_sender"),
    ({"recipient": "birch"}, "wrong_recipient"),
    ({"phase": "end"}, "phase_order"),
    ({"digest": "0" * 64}, "digest"),
    *(({"phase": phase}, "phase_order") for phase in PHASES),
)


def test_a_question_bound_to_something_else_is_refused_by_name(federation):
    federation.attempt()
    for phase, (change, rule) in itertools.product(PHASES, ELSEWHERE):
        if change != {"phase": phase}:
            envelope, payload = federation.asked_again(phase)
            forged = dataclasses.replace(Envelope.from_bytes(envelope), **change).to_bytes()
            assert refused(federation, forged, payload) == rule, (phase, change)


def test_nothing_is_sent_before_a_report(federation):
    federation.attempt()
    for phase in ("model", "examine"):
        envelope, payload = federation.asked_again(phase)
        forget(federation, "abbey")
        federation.sources["abbey"] = federation.desk("abbey")
        assert refused(federation, envelope, payload) == "phase_order"


def test_a_second_question_of_a_phase_is_refused_by_name(federation):
    federation.attempt()
    for phase in PHASES:
        _, payload = federation.asked_again(phase)
        message = decode(payload)
        changes = {
            "risk": {"mean": message.mean + message.sd} if phase == "risk" else {},
            "model": {"candidate": 1 - getattr(message, "candidate", 0)},
            "examine": {"constant": np.array([0.123])},
        }
        other = encode(dataclasses.replace(message, **changes[phase]))
        envelope, _ = close(ask(federation.agreed.id, phase, "new", "abbey"), other, "", None)
        assert refused(federation, envelope, other) == one_of_phase(phase)


def test_an_examination_of_another_combination_than_agreed_is_refused(federation):
    federation.absent = {("examine", "abbey")}
    federation.attempt()
    message = federation.target._role._examinations["abbey"]
    payload = encode(dataclasses.replace(message, combine="median"))
    envelope, _ = close(ask(federation.agreed.id, "examine", "new", "abbey"), payload, "", None)
    assert refused(federation, envelope, payload) == "not_as_agreed"


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_replies_that_are_exchanged_between_sources_are_rejected_by_name(federation, phase, fate):
    kept = {}

    def swap(task, name, letter):
        if task == phase:
            kept[name] = letter
            return kept["abbey"]
        return letter

    federation.tamper = swap
    told = conclusion(federation.attempt())
    assert told.sources["birch"] == told.sources["castle"] == f"{fate}rejected: wrong_sender"
    assert told.sources["abbey"] == "answered"
    assert told.outcome == "done"


@pytest.mark.parametrize(("phase", "fate"), PHASES.items())
def test_a_reply_of_an_earlier_attempt_is_rejected_as_replayed(federation, phase, fate):
    kept = {}

    def record(task, name, letter):
        return kept.setdefault(name, letter) if task == phase else letter

    federation.tamper = record
    federation.attempt()
    # No choice in its log: a fresh target must judge the stale replies themselves.
    forget(federation, "new")
    told = conclusion(federation.attempt())
    assert set(told.sources.values()) == {f"{fate}rejected: replayed"}
    assert told.outcome == ("done" if phase == "examine" else "min_sources")


# Lies ----------------------------------------------------------------------------------------


def lie(federation, task, change):
    def tamper(step, name, letter):
        if (step, name) != (task, "abbey"):
            return letter
        message = decode(letter["payload"])
        payload = change(message)
        envelope = dataclasses.replace(
            Envelope.from_bytes(letter["envelope"]),
            digest=digest(payload),
        )
        return {"envelope": envelope.to_bytes(), "payload": payload}

    federation.tamper = tamper


@pytest.mark.parametrize(
    ("phase", "field"), [("risk", "risk"), ("model", "coefficients"), ("examine", "level")]
)
def test_numbers_that_are_not_finite_are_rejected_by_name(federation, phase, field):
    def not_finite(report):
        numbers = report.arrays[field] if phase == "model" else getattr(report, field)
        forged = encode(report).replace(numbers.tobytes(), np.full_like(numbers, np.nan).tobytes())
        assert forged != encode(report)
        return forged

    lie(federation, phase, not_finite)
    told = conclusion(federation.attempt())
    assert (told.outcome, told.sources["abbey"]) == ("done", f"{PHASES[phase]}rejected: malformed")


def test_an_impossible_examination_costs_its_source_and_not_the_study(federation):
    lie(federation, "examine", lambda report: encode(dataclasses.replace(report, risk=0.0)))
    told = conclusion(federation.attempt(min_sources=3))
    assert told.outcome == "done"
    assert told.sources["abbey"] == "examination rejected: malformed"
    found = load_result(federation.target.result_folder)
    assert found.promise.examined_by == ("birch", "castle")


def test_parameters_of_a_million_are_rejected_by_name(federation):
    def wild(model):
        assert isinstance(model, ModelReport)
        return encode(with_array(model, "coefficients", np.full(2, 1e6)))

    lie(federation, "model", wild)
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources["abbey"] == "model rejected: wild_model"
    same(federation, without=["abbey"])


def test_a_variance_of_nearly_nothing_buys_no_weight(federation):
    def tiny(report):
        return encode(dataclasses.replace(report, variance=report.variance * 1e-12))

    lie(federation, "risk", tiny)
    honest = in_process(federation).source_weights["abbey"]
    told = conclusion(federation.attempt())
    assert told.sources["abbey"] == "answered"  # possible, so believed; its weight is what it was
    weights = json.loads(bytes(told.summary))["source_weights"]
    assert abs(weights["abbey"] - honest) < 0.05
