"""A study between desks: the numbers of one process, one disclosure, and ordinary failures."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from fedcsa.cli.run import carry_out as run_in_process
from fedcsa.errors import ProtocolError, ResultError
from fedcsa.protocol.chain import verify
from fedcsa.protocol.codec import decode, digest, encode
from fedcsa.protocol.envelope import Envelope
from fedcsa.protocol.messages import Conclusion, ModelReport, RiskReport
from fedcsa.result import load_result, save_result, summary
from fedcsa.site.state import Approvals, Status

SIZES = ("abbey", "birch", "castle")


def conclusion(board):
    message = decode(board.conclusion)
    assert isinstance(message, Conclusion)
    return message


def in_process(federation, without=()):
    study = federation.study
    kept = {name: path for name, path in study.sources.items() if name not in without}
    return run_in_process(dataclasses.replace(study, sources=kept), quiet=True)


def numbers(adaptation):
    """Everything but the ledgers, which hold times and each site's own part."""
    plain = json.loads(json.dumps(summary(adaptation)))
    for report in plain["reports"].values():
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
    return [(item.kind, item.entry.message) for item in verify(federation.state(name))]


def forget(federation, name):
    """Take away all that a site knows of the past, as whoever controls its machine could."""
    shutil.rmtree(federation.state(name))


@pytest.mark.parametrize("kind", ["ridge", "classifier", "pipeline"])
def test_a_federated_study_equals_the_one_in_process_to_the_bit(make_federation, kind):
    federation = make_federation(kind)
    board = federation.attempt(min_sources=3)
    told = conclusion(board)
    assert (told.outcome, set(told.sources.values())) == ("done", {"answered"})
    assert board.step == "done"
    same(federation)


@pytest.mark.parametrize("kind", ["ridge", "classifier", "pipeline"])
def test_the_targets_folder_is_that_of_a_run_in_one_process(make_federation, tmp_path, kind):
    federation = make_federation(kind)
    federation.attempt()
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
    expected = run_in_process(federation.study, quiet=True, stream=True)
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


def test_every_message_that_left_is_in_the_ledger_of_its_site(federation):
    federation.attempt()
    for name in SIZES:
        assert sent(federation, name) == [("sent", "risk-report"), ("sent", "model-report")]
    left = sent(federation, "new")
    assert left == [("sent", "brief")] * 3 + [("sent", "model-request")] * 3 + [
        ("sent", "conclusion")
    ]


def test_a_study_submitted_again_sends_the_same_bytes_and_nothing_new(federation):
    federation.attempt()
    first = {name: {e.entry.sha256 for e in verify(federation.state(name))} for name in SIZES}
    for name in SIZES:  # the data are gone: whatever is sent was sent before
        (federation.folder / name / "table.csv").unlink()
    board = federation.attempt()
    assert conclusion(board).outcome == "done"
    for name in SIZES:
        assert sent(federation, name)[2:] == [("resent", "risk-report"), ("resent", "model-report")]
        assert {e.entry.sha256 for e in verify(federation.state(name))} == first[name]


@pytest.mark.parametrize("name", SIZES)
def test_a_source_that_is_missing_from_the_start_is_as_if_it_were_not_there(federation, name):
    federation.absent = {("risk", name)}
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources[name] == "missing"
    same(federation, without=[name])


def test_a_source_that_dies_before_its_model_is_as_if_it_were_not_there(federation):
    federation.absent = {("model", "abbey")}
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources == {"abbey": "missing", "birch": "answered", "castle": "answered"}
    same(federation, without=["abbey"])


def test_a_choice_that_was_told_stands_even_if_a_source_dies_before_its_model(make_federation):
    federation = make_federation("close")
    federation.absent = {("model", "abbey")}
    told = conclusion(federation.attempt())
    found = load_result(federation.target.result_folder)
    assert told.sources["abbey"] == "missing"
    assert in_process(federation, ["abbey"]).candidate != found.candidate  # hence
    assert [f.source for f in found.findings if f.code == "source-refused"] == ["abbey"]
    assert set(found.source_weights) == {"birch", "castle"}


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
    federation.absent = {("conclude", "new")}
    with pytest.raises(ProtocolError, match="The target 'new' must answer"):
        federation.attempt()
    before = federation.target._request
    federation.absent = {("risk", "birch")}  # another set of sources must not change the choice
    told = conclusion(federation.attempt())
    assert federation.target._request == before
    assert told.sources["birch"] == "answered"
    same(federation)


def test_a_source_restarted_between_the_phases_sends_its_model(federation):
    federation.absent = {("model", name) for name in SIZES}
    federation.attempt()
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


def test_numbers_about_the_same_rows_add_up_over_studies(federation):
    for name in ("small", "second", "third"):
        text = federation.study_file.read_text(encoding="utf-8")
        federation.study_file.write_text(
            text.replace(f'name = "{federation.study.name}"', f'name = "{name}"'), encoding="utf-8"
        )
        outcome = conclusion(federation.attempt()).outcome
    assert outcome == "max_release_share"


# Refusals ------------------------------------------------------------------------------------


def test_a_refusal_by_policy_is_an_ordinary_outcome_under_its_name(federation):
    federation.configure("abbey", "[policy]\nmin_fold_rows = 100")
    told = conclusion(federation.attempt())
    assert told.outcome == "done"
    assert told.sources["abbey"] == "refused: min_fold_rows"
    assert federation.board.sites["abbey"] == "risk: refused, min_fold_rows"


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        ('features = ["age"]', "features"),
        ('models = ["weighted-least-squares"]', "models"),
        ("exchanges = []", "exchanges"),
        ("min_target_rows = 101", "min_target_rows"),
        ("max_parameters_per_row = 0.001", "max_parameters_per_row"),
        ("min_bandwidth = 50.0", "min_bandwidth"),
    ],
)
def test_every_rule_of_a_site_refuses_by_its_name(federation, rules, rule):
    federation.configure("abbey", f"[policy]\n{rules}")
    assert conclusion(federation.attempt()).sources["abbey"] == f"refused: {rule}"


def test_a_target_does_not_announce_its_rows_unless_its_own_file_says_so(federation):
    text = federation.study_file.read_text(encoding="utf-8")
    rows = text.replace("seed = 3", 'seed = 3\nmethod = "feddae"\nexchange = "rows"')
    federation.study_file.write_text(rows.replace("ratio_power = [0.0]\n", ""), encoding="utf-8")
    assert conclusion(federation.attempt()).outcome == "exchanges"
    assert sent(federation, "new") == [("sent", "conclusion")]
    federation.configure("new", '[policy]\nexchanges = ["rows"]')
    assert set(conclusion(federation.attempt()).sources.values()) == {"refused: exchanges"}


def test_a_failure_inside_is_told_by_no_more_than_a_word(federation):
    federation.configure("abbey", 'missing_values = ["x"]\n[columns]\nage = "MARKER"')
    told = conclusion(federation.attempt())
    assert told.sources["abbey"] == "refused: failed"
    assert b"MARKER" not in federation.board.conclusion


def test_a_target_sends_nothing_larger_than_its_own_file_says(federation):
    federation.configure("new", "max_bytes = 100")
    assert conclusion(federation.attempt()).outcome == "max_bytes"
    assert sent(federation, "new") == [("sent", "conclusion")]


def test_a_source_sends_nothing_larger_than_its_own_file_says(make_federation):
    federation = make_federation("close")
    federation.attempt()
    (brief, *_), (report, *_) = (verify(federation.state(name)) for name in ("new", "abbey"))
    assert brief.entry.n_bytes < report.entry.n_bytes
    for name in ("new", *SIZES):
        forget(federation, name)
    federation.configure("abbey", f"max_bytes = {report.entry.n_bytes - 1}")
    assert conclusion(federation.attempt()).sources["abbey"] == "refused: max_bytes"
    assert sent(federation, "abbey") == [("sent", "refusal")]


def test_a_study_waits_for_approval_and_goes_on_with_it(federation):
    federation.configure("abbey", 'approve = ["risk"]')
    assert conclusion(federation.attempt()).sources["abbey"] == "refused: not_approved"
    approvals = Approvals(federation.state("abbey"))
    assert approvals.waiting() == [(federation.agreed.id, "risk")]
    approvals.decide("small", "approved")
    assert approvals.waiting() == []


def test_a_steward_may_refuse_the_model_alone(federation):
    federation.configure("abbey", 'approve = ["risk", "model"]')
    approvals = Approvals(federation.state("abbey"))
    approvals.decide(federation.agreed.id, "approved", ("risk",))
    approvals.decide(federation.agreed.id, "refused", ("model",))
    told = conclusion(federation.attempt())
    assert told.sources["abbey"] == "refused: approval"
    assert sent(federation, "abbey") == [("sent", "risk-report"), ("sent", "refusal")]


def test_a_brief_that_is_not_as_agreed_is_refused(federation):
    original = federation.agreed

    def ask_for_more(task, _name, letter):
        if task != "announce":
            return letter
        brief = dataclasses.replace(decode(letter["payload"]), n_folds=4)
        payload = encode(brief)
        from fedcsa.protocol.envelope import ask

        envelopes = {n: ask(original.id, "risk", "new", n, payload).to_bytes() for n in SIZES}
        return {"payload": payload, "envelopes": envelopes}

    federation.tamper = ask_for_more
    board = federation.attempt()
    assert set(board.sites.values()) >= {"risk: refused, not_as_agreed"}


# Bound messages ------------------------------------------------------------------------------


def question(federation):
    """A brief as it would come to abbey, with fresh desks."""
    federation.attempt()
    federation.target.brief()
    post = federation.target.brief()
    return post.envelopes["abbey"], post.payload


def refused(federation, envelope, payload):
    return decode(federation.sources["abbey"].answer(envelope, payload)[1]).rule


def test_a_replayed_question_is_refused_by_name(federation):
    envelope, payload = question(federation)
    assert isinstance(decode(federation.sources["abbey"].answer(envelope, payload)[1]), RiskReport)
    assert refused(federation, envelope, payload) == "replayed"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"study": "other@0"}, "other_study"),
        ({"sender": "birch"}, "wrong_sender"),
        ({"recipient": "birch"}, "wrong_recipient"),
        ({"phase": "model"}, "phase_order"),
        ({"digest": "0" * 64}, "digest"),
    ],
)
def test_a_question_bound_to_something_else_is_refused_by_name(federation, change, rule):
    envelope, payload = question(federation)
    forged = dataclasses.replace(Envelope.from_bytes(envelope), **change).to_bytes()
    assert refused(federation, forged, payload) == rule


def test_a_model_is_not_sent_before_a_report(federation):
    federation.attempt()
    post = federation.target._post("model", federation.target._request, ["abbey"])
    forget(federation, "abbey")
    assert refused(federation, post.envelopes["abbey"], post.payload) == "phase_order"


def test_replies_that_are_exchanged_between_sources_are_rejected_by_name(federation):
    kept = {}

    def swap(task, name, letter):
        if task == "risk":
            kept[name] = letter
            return kept["abbey"]
        return letter

    federation.tamper = swap
    told = conclusion(federation.attempt())
    assert told.sources["birch"] == told.sources["castle"] == "rejected: wrong_sender"
    assert told.sources["abbey"] == "answered"


def test_a_reply_of_an_earlier_attempt_is_rejected_as_replayed(federation):
    kept = {}

    def record(task, name, letter):
        return kept.setdefault(name, letter) if task == "risk" else letter

    federation.tamper = record
    federation.attempt()
    # No journaled choice: a fresh target must judge the stale replies themselves.
    forget(federation, "new")
    told = conclusion(federation.attempt())
    assert set(told.sources.values()) == {"rejected: replayed"}
    assert told.outcome == "min_sources"


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


def test_a_billion_rows_and_a_negative_risk_are_rejected_by_name(federation):
    billion = 10**9

    def many_rows(report):
        effective = report.effective_rows / report.n_validation * billion
        grown = report.ratio_m2 / report.n_validation * billion
        return encode(dataclasses.replace(
            report, n_rows=billion, n_validation=billion, effective_rows=effective,
            ratio_m2=grown, largest_share=2.0 / effective, variance=report.spread / effective,
        ))  # fmt: skip

    lie(federation, "risk", many_rows)
    assert conclusion(federation.attempt()).sources["abbey"] == "rejected: malformed"

    def negative(report):
        return encode(dataclasses.replace(report, loss_mean=-report.loss_mean))

    forget(federation, "new")
    lie(federation, "risk", negative)
    assert conclusion(federation.attempt()).sources["abbey"] == "rejected: malformed"


def test_numbers_that_are_not_finite_are_rejected_by_name(federation):
    def not_finite(report):
        wire = encode(report)
        loss = report.loss_mean.tobytes()
        return wire.replace(loss, np.full(len(report.loss_mean), np.nan).tobytes())

    lie(federation, "risk", not_finite)
    assert conclusion(federation.attempt()).sources["abbey"] == "rejected: malformed"


def test_parameters_of_a_million_are_rejected_by_name(federation):
    def wild(model):
        assert isinstance(model, ModelReport)
        return encode(dataclasses.replace(model, coefficients=np.full(2, 1e6)))

    lie(federation, "model", wild)
    told = conclusion(federation.attempt(min_sources=2))
    assert told.sources["abbey"] == "rejected: wild_model"
    same(federation, without=["abbey"])


def test_a_divergence_of_nearly_nothing_buys_no_weight(federation):
    def tiny(report):
        shrink = 1e-12
        return encode(dataclasses.replace(report,
            spread=report.spread * shrink, variance=report.variance * shrink,
            explained=report.explained * shrink, product_m2=report.product_m2 * shrink,
            co_moment=report.co_moment * 1e-6))  # fmt: skip

    lie(federation, "risk", tiny)
    honest = in_process(federation).source_weights["abbey"]
    told = conclusion(federation.attempt())
    assert told.sources["abbey"] == "answered"  # possible, so believed; its weight is what it was
    weights = json.loads(bytes(told.summary))["source_weights"]
    assert abs(weights["abbey"] - honest) < 0.05
