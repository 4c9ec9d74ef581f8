"""Every sentence of the page is said where it is true, and is not said where it is not."""

import inspect
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedcsa.answer import sentences
from fedcsa.answer.sentences import SECTIONS, by_kind, examined_sentence, said, whom_sentence
from fedcsa.answer.view import View, view_of
from fedcsa.findings import Finding
from fedcsa.target.adaptation import Concluded
from fedcsa.target.backtest_result import Backtest, BacktestRow
from fedcsa.target.per_patient import IntervalCheck
from fedcsa.target.promised_measures import Calibration, MeasurePromise
from fedcsa.target.verdict import Verdict
from fedcsa.target.with_outcomes import MeasureUpdate
from fedcsa.update import Update, UpdateLook
from fedcsa.words import number

ALL = re.findall(r'yield\s*\(?\s*"(\w+)"', inspect.getsource(sentences))


def entry(n_fields):
    """A message that left a site, as far as a page asks."""
    return SimpleNamespace(sha256="0", fields=range(n_fields))


@pytest.fixture
def result(making):
    """A function that makes the view of an ordinary result, changed as asked."""

    def make(*, answer=None, beside=None, measured=None, **options):
        if measured is not None:
            options = {"classes": ("no", "yes"), "loss": "brier", **options}
            beside = {**making.measured(), **measured}
        names, options = options.pop("names", "abc"), {"ledgers": False, **options}
        answer = answer or making.adaptation_of(names, options.pop("features", ["x"]), **options)
        return replace(view_of(answer), **(beside or {}))

    return make


def row(source="a", realised=1.0, reference=0.9, held_for=()):
    return BacktestRow(source, 40, "use it", 1.0, 0.8, 1.3, realised, 0.1, reference, held_for)


def played(*rows):
    return {"backtest": Backtest(rows, 0.95)}


def beyond(*found):
    """An AUROC of 0.8, where the sources found something else."""
    by_source = {name: (x, x, x) for name, x in zip("abc", found, strict=False)}
    return MeasurePromise("auroc", "", None, None, 0.8, 0.7, 0.9, 0.1, by_source)


PAPER = {"method": "feddae", "exchange": "rows"}
ROWS = {**PAPER, "compare": ("naive",)}
EDGE = {"findings": [Finding("grid-edge", evidence={"parameter": "penalty", "value": 1.0})]}
MANY = {"names": [f"h{index:03}" for index in range(40)]}
FINE = {"candidates": [index / 2000 for index in range(2000)]}
#: A study with the three candidates of others, drawn in two rounds.
SEARCHED = {"answer": "searched"}
LEDGERS = {"beside": {"ledgers": {"a": (entry(9),)}}}
MANY_FIELDS = {"beside": {"ledgers": {"a": (entry(5000),)}}}
NOTHING = {"answer": "nothing"}
ENDED = {"answer": "ended"}
_RISK = MeasureUpdate(
    "risk", "", None, None, (1.0, 0.8, 1.3), (1.0, 0.9, 1.1), (1.0, 0.9, 1.1), (0.7, 1.4), 200.0,
    0.5, 0.9,
)  # fmt: skip
OUTCOMES = Update(
    90, 90.0, 0.95, (_RISK,), 0.9, 0.9, None, None, "of a reason", None, None,
    Verdict("use", "before"), Verdict("use", "after"), "nothing changes",
    path=(UpdateLook(90, 1.0, 0.7, 1.4, (0.6, 1.6), 0.9),),
)  # fmt: skip
CAME = {"beside": {"update": OUTCOMES}}
MEASURED = {"measured": {}}
FIVE_CLASSES = {"measured": {"calibration": (Calibration("x", (), (), (), (), ()),) * 5}}
#: sentence -> what makes it true, what makes it false, and words that it must then say
CASES = {
    "realised": (CAME, {}, "RMSE 1 (0.949 to 1.05) with 90 outcomes; the promise was 1 ("),
    "changed": (CAME, {}, "nothing changes"),
    "corrected": (CAME, {}, "the model stays as it is: of a reason"),
    "worth": (CAME, {}, "90 outcomes are worth 200 alone"),
    "looks": (CAME, {}, "right in 95 % of sites that differ"),
    "older": (CAME, {}, "from before outcomes came"),
    "stopped": (ENDED, {}, "there is no model. Nobody is near."),
    "kept_away": (NOTHING, {}, "keeps its result to itself"),
    "why": ({}, ENDED, "the sources reach the target, agree, and beat a constant"),
    "promised": ({}, ENDED, "if it differs from these as they differ from each other"),
    "ratio": ({}, PAPER, "of that of a constant prediction"),
    "level": (MEASURED, {}, "events per 100 patients 7 (5 to 9); events for 100 predicted 95 ("),
    "whom": (MEASURED, PAPER, "clearly worse for over 80 (AUROC 0.6 (0.5 to 0.7)); not enough "),
    "unit": ({"loss": "absolute"}, ENDED, "MAE: mean absolute error, in units of the outcome"),
    "headline": (MEASURED, {}, "AUROC: chance that the prediction is higher"),
    "event": (MEASURED, {}, "the event is the second class, yes"),
    "new_site": (MEASURED, {}, "each number is what a new site may expect"),
    "outside": (
        {"measured": {"measures": (beyond(0.7), beyond(0.81))}},
        {"measured": {"measures": (beyond(0.7, 0.9), beyond(0.8, 0.9))}},
        "may lie outside what the sources found",
    ),
    "patients": (
        {"measured": {"half_widths": (1.5, 1.6, 1.7, 2.25)}}, MEASURED,
        "90 % of patients have an outcome within ± 1.5, ± 1.6, ± 1.7, ± 2.25 of the prediction",
    ),
    "diagonal": (MEASURED, {}, "on the diagonal, observed equals predicted"),
    "classes_left": (FIVE_CLASSES, MEASURED, "the chart shows the first 3 of 5 classes"),
    "recalibration": (MEASURED, {}, "not applied: log-odds become -0.2 + 0.9 × log-odds"),
    "benefit": (MEASURED, {}, "net benefit counts true positives"),
    "declared": ({**MEASURED, "thresholds": (0.1,)}, MEASURED, "large dots are at the declared"),
    "differences_of": (MEASURED, {}, "a difference is the subgroup less all other patients"),
    "examined": ({"silent": "a"}, PAPER, "2 of 3 sources examined the others' models"),
    "reach": ({}, NOTHING, "at least 10 effective rows and an imbalance of at most 0.06"),
    "far": ({"far": "c"}, {}, "is not reached by c, and no promise rests on it"),
    "hidden": (MANY, {}, "16 sources more in the table"),
    "no_reports": (NOTHING, {}, "no numbers of the sources are here"),
    "table_weights": ({"compare": ("naive",)}, ROWS, "of the paper on the table's weights"),
    "ratio_weights": (ROWS, {"compare": ("naive",)}, "messages and density ratios"),
    "chosen": ({"candidates": (0.5,)}, ENDED, "1 candidate tried; chosen: penalty 0.5"),
    "edge": (EDGE, {}, "at the edge of the grid"),
    "dropped": ({"kept": (0, 2)}, {}, "1 candidate could not be fitted at enough sources"),
    "band": ({}, ENDED, "one standard error to either side"),
    "single_models": ({}, PAPER, "the promise is about their mixture"),
    "handicap": (
        {"candidates": {"penalty": [0.1], "ratio_power": [0.0, 1.0]}}, {}, "γ/2 standard errors",
    ),
    "drawn": (SEARCHED, {}, "3 candidates in 2 rounds, drawn where earlier ones did well"),
    "took_part": (SEARCHED, {}, "took part in this choice"),
    "best_only": (FINE, {}, "the best 1,000 are in the table"),
    "unprinted": (FINE, {}, "a printed page leaves out their table"),
    "differences": ({}, NOTHING, "within ±0.25"),
    "largest": (
        {"features": [f"gene {index}" for index in range(25)]}, {}, "leaves out 5 features",
    ),
    "no_backtest": ({}, played(row()), "no back-test was run"),
    "nothing_to_test": (PAPER, {}, "there is nothing to back-test"),
    "risk_is": (played(row()), {}, "risk is the RMSE"),
    "backtest": (played(row(realised=9.0)), {}, "failed: the risk at 'a' was 9 times"),
    "kept": (played(row()), played(row(realised=None)), "1 of 1 promise"),
    "coverage": (played(row()), played(row(realised=None)), "100 % of the intervals"),
    "calibration": (played(row(realised=0.5)), {}, "promised over realised risk is 2 on average"),
    "regret": (played(row()), played(row(reference=None)), "1.11 times that of a site's own"),
    "held_for": (
        played(row(held_for=(0.9, 0.9, 0.9, 0.7))), played(row()),
        "for 90 % of patients held for 85 %, and for 70 % of the quarter farthest",
    ),
    "left_out": (
        played(*(row(f"h{index:03}") for index in range(40))), played(row()),
        "leaves out 10 sources",
    ),
    "recorded": (LEDGERS, {}, "ledger before it left"),
    "no_row": (LEDGERS, {**LEDGERS, **PAPER}, "no field can hold a row"),
    "target_rows": (PAPER, {}, "the target's brief holds its rows"),
    "fields": (LEDGERS, MANY_FIELDS, "the folded tables list every field"),
    "no_fields": (MANY_FIELDS, LEDGERS, "fedcsa ledger RESULT --fields"),
    "no_ledger": ({}, LEDGERS, "this folder holds no ledger"),
}  # fmt: skip


def test_every_sentence_has_a_case():
    assert len(ALL) == len(set(ALL)) > 30
    assert set(CASES) == set(ALL)


def made(case, making, result):
    case, kind = dict(case), case.get("answer")
    if kind == "nothing":
        return View("s", "no", "", outcome="done")
    if kind == "searched":
        whole = making.adaptation_of("ab", ["x"])
        space = ({"penalty": {"low": 0.0, "high": 1.0}},)
        case["answer"] = replace(whole, plan=replace(whole.plan, space=space), rounds=(2, 1))
    if kind == "ended":
        whole = making.adaptation_of("ab", ["x"])
        case["answer"] = making.without_model(whole.plan, reports=whole.reports)
    return result(**case)


def everything(view):
    """All that a page says, by name."""
    told = [pair for section in SECTIONS for pair in said(section, view)]
    assert len(dict(told)) == len(told)
    return dict(told)


@pytest.mark.parametrize("name", ALL)
def test_a_sentence_is_said_where_it_is_true_and_only_there(name, making, result):
    true, false, says = CASES[name]
    text = everything(made(true, making, result))[name]
    assert says[1:] in text
    assert text[0] == text[0].upper()
    assert text.endswith(".")
    assert ".." not in text
    assert name not in everything(made(false, making, result))


@pytest.mark.parametrize(
    ("effective", "contradicted", "wider", "says"),
    [
        (3.0, False, 0.0, "90 % of patients"),
        (3.0, True, 0.0, None),
        (30.0, True, 0.0, None),
        (3.0, True, 0.5, "3 of 4 patients"),
        (4.7, True, 0.5, "4 of 5 patients"),
        (8.99, True, 0.5, "8 of 9 patients"),
        (9.0 - 1e-14, True, 0.5, "90 % of patients"),
        (30.0, True, 0.5, "90 % of patients"),
    ],
)
def test_half_widths_hold_for_as_many_patients_as_outcomes_allow(
    effective, contradicted, wider, says, result
):
    check = IntervalCheck(None, 90, 20, contradicted, wider)
    came = replace(OUTCOMES, effective_rows=effective, intervals=(check,))
    told = everything(replace(result(measured={"half_widths": (1.5, 2.0)}), update=came))
    if says is None:
        assert "patients" not in told
    else:
        lead = f"After the outcomes, {says} have an outcome within ± 1.5, ± 2 of the pred"
        assert told["patients"].startswith(lead)


MOSTLY_OWN = (
    ", with more than half of the weight, examined the whole mixture, its own part by held-out "
    "predictions"
)


# Who examined what --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        ("a", {}, "nothing was examined: there was one model"),
        ("ab", {"weights": {"a": 0.5, "b": 0.5}}, "each examined the other's model"),
        (
            "ab",
            {"weights": {"a": 0.4, "b": 0.6}},
            f"each examined the other's model; b{MOSTLY_OWN}",
        ),
        ("ab", {"silent": "b"}, "1 of 2 sources examined the others' models"),
        ("abc", {}, "3 of 3 sources examined the others' models on their weighted rows"),
        ("abcdef", {"far": "f", "silent": "a"}, "4 of 6 sources examined the others' models"),
        ("ab", {"far": "ab"}, ""),
        ("ab", PAPER, ""),
    ],
)
def test_it_is_said_who_examined_what(names, options, says, making):
    equal = dict.fromkeys(names, 1.0 / len(names))
    options = {"weights": None if "far" in options else equal, **options}
    told = examined_sentence(view_of(making.adaptation_of(names, ["x"], **options)))
    assert told.startswith(says)
    assert bool(told) == bool(says)
    assert ("held-out" in told) == ("held-out" in says)


REASONS = {
    "outcomes_alike": "not estimable: its outcomes are all alike",
    "no_loss": "not estimable: no loss on any of its rows",
    "loss_not_positive": "not estimable: a loss is negative",
    "mixture_failed": "not estimable: the mixture cannot predict its rows",
    "missing": "no answer came",
    "max_row_share": "max_row_share",
}


def test_every_reason_of_a_source_is_put_into_words():
    from fedcsa.messages.messages import REASONS as KNOWN

    assert {*KNOWN, "missing", "max_row_share"} == {"", *REASONS}


@pytest.mark.parametrize(("reason", "says"), REASONS.items())
def test_a_source_that_found_nothing_says_why(reason, says, making):
    adaptation = making.adaptation_of("abc", ["x"])
    examined = {name: found for name, found in adaptation.examinations.items() if name != "b"}
    findings = (Finding("not-examined", "b", {"reason": reason}),)
    told = view_of(replace(adaptation, examinations=examined, concluded=Concluded(None, findings)))
    assert {line.name: line.found_text for line in told.sources}["b"] == says


def test_a_bounded_loss_is_found_to_be_at_most_one(making):
    for loss, most in (("brier", 1.0), ("log", np.inf)):
        classes = {"classes": ("no", "yes"), "loss": loss}
        adaptation = making.adaptation_of("abc", ["x"], **classes)
        wide = replace(adaptation.examinations["a"], risk=0.9, risk_variance=1.0)
        adaptation = replace(adaptation, examinations={**adaptation.examinations, "a": wide})
        found = view_of(adaptation).loss.by_source["a"]
        end = min(most, 0.9 * np.exp(1.959963984540054))
        assert found[2] == pytest.approx(end, rel=1e-15)


# Why the verdict is what it is --------------------------------------------------------------


def promised(**changes):
    """An adaptation whose promise is changed."""
    return lambda a: replace(a, concluded=Concluded(replace(a.promise, **changes), a.findings))


#: what changes an ordinary answer -> its advice, and why
VERDICTS = {
    "all three legs": (promised(), "use", "the sources reach the target, agree"),
    "below a constant": (promised(ratio=0.999), "use", "the sources reach the target, agree"),
    "equal to a constant": (promised(ratio=1.0), "no", "it is no better than a constant"),
    "above a constant": (promised(ratio=1.001), "no", "it is no better than a constant"),
    "little skill": (promised(skill=0.89), "care", "better than a constant at a new site with"),
    "risks differ": (promised(differs_risk=0.5), "care", "sites probably differ in their risk"),
    "levels differ": (promised(differs_level=0.5), "care", "sites probably differ in their level"),
    "nobody examined": (lambda a: replace(a, concluded=Concluded()), "care", "nobody could"),
    "failed back-test": (
        lambda a: a.with_backtest(Backtest((row(realised=9.0),), 0.95)), "no", "the back-test",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_the_first_screen_says_why_and_says_it_only_where_it_is_so(name, making):
    change, advice, why = VERDICTS[name]
    view = view_of(change(making.adaptation_of("abc", ["x"])))
    told = dict(said("verdict", view))["why"]
    assert view.heading[0] == view.advice == advice
    assert told.startswith(why[0].upper() + why[1:])
    for other in {text for _, _, text in VERDICTS.values()} - {why}:
        assert not told.startswith(other[0].upper() + other[1:])


# For whom -----------------------------------------------------------------------------------


def groups(making, *, rmse=False, **told):
    """A view with subgroups: what is promised to each, and its difference from all others."""
    name = "rmse" if rmse else "auroc"
    whole = making.adaptation_of("abc", ["x"], **({} if rmse else CLASSES))
    view = view_of(whole)
    everybody = () if rmse else (making.promised("auroc", 0.8, 0.05),)
    measures = [
        making.promised(name, 0.7 if known else np.nan, 0.1, subgroup=group)
        for group, (known, _) in told.items()
    ]
    differences = tuple(
        making.promised(name, difference, 0.1, subgroup=group)
        for group, (_, difference) in told.items()
        if difference is not None
    )
    return replace(view, measures=(*view.measures, *everybody, *measures), differences=differences)


CLASSES = {"classes": ("no", "yes"), "loss": "brier"}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({}, "no subgroup was declared"),
        ({"old": (True, -0.05)}, "not clearly worse in 1 subgroup"),
        ({"old": (True, -0.2)}, "clearly worse for old (AUROC 0.7 (0.6 to 0.8))"),
        ({"old": (True, 0.2)}, "not clearly worse in 1 subgroup"),
        ({"old": (False, None)}, "not enough patients to say for old"),
        (
            {"old": (True, None), "ill": (False, None)},
            "not clearly worse in 1 subgroup; not enough patients to say for ill",
        ),
        ({"rmse": True, "old": (True, 0.2)}, "clearly worse for old (RMSE 0.7 (0.6 to 0.8))"),
        ({"rmse": True, "old": (True, -0.2)}, "not clearly worse in 1 subgroup"),
    ],
)
def test_it_is_said_for_whom_the_model_is_worse(told, says, making):
    assert whom_sentence(groups(making, **told)).startswith(says)


def test_rare_events_are_never_told_by_a_brier_score_alone(making):
    view = view_of(making.adaptation_of("abc", ["x"], **CLASSES))
    view = replace(view, **making.measured())
    verdict = dict(said("verdict", view))
    assert verdict["promised"].startswith("AUROC 0.8, 0.75 to 0.85 for a new site")
    assert "Brier" not in " ".join(verdict.values())
    assert "of that of a constant" in dict(said("measure", view))["ratio"]


def test_a_brier_score_of_three_classes_is_the_sum_over_classes(making):
    three = {"classes": ("a", "b", "c"), "loss": "brier"}
    adaptation = making.adaptation_of("abc", ["x"], **three)
    told = dict(said("verdict", view_of(adaptation)))["promised"]
    assert told.startswith(f"Brier score {number(2.0 * adaptation.promise.risk)}, ")


def test_a_squared_loss_is_told_by_its_root(making):
    adaptation = making.adaptation_of("abc", ["x"])
    told = dict(said("verdict", view_of(adaptation)))["promised"]
    assert told.startswith(f"RMSE {number(np.sqrt(adaptation.promise.risk))}, ")


# Findings by kind -----------------------------------------------------------------------------


def test_findings_at_sixty_sources_take_one_line_a_kind():
    names = [f"site-{i:02}" for i in range(60)]
    few = [
        Finding("few-effective-rows", name, {"effective rows": 2.0 + i / 10, "of": 300.0})
        for i, name in enumerate(names)
    ]
    units = [Finding("other-unit", name, {"crea": "looks like µmol/L"}) for name in names[:5]]
    units += [Finding("other-unit", "site-09", {"glucose": "looks like mg/dL"})]
    second, first = by_kind([*few, *units])
    assert first.places == (
        "60 sources, site-00, site-01, site-02 and 57 more: effective rows 2 to 7.9, of 300",
    )
    assert second.places == (
        "5 sources, site-00, site-01, site-02 and 2 more: crea looks like µmol/L",
        "site-09: glucose looks like mg/dL",
    )


def test_a_unit_stands_before_what_follows_from_it_and_after_graver_things_elsewhere():
    unit, far = Finding("other-unit", "a"), Finding("no-overlap", "a")
    few, elsewhere = Finding("few-effective-rows", "a"), Finding("no-overlap", "b")
    told = [reason.code for reason in by_kind([few, far, unit])]
    assert told == ["other-unit", "no-overlap", "few-effective-rows"]
    told = [reason.code for reason in by_kind([few, elsewhere, unit])]
    assert told == ["no-overlap", "other-unit", "few-effective-rows"]


def test_a_few_findings_are_told_one_by_one_and_many_shapes_are_counted():
    three = [Finding("heavy-row", name, {"share": 0.5}) for name in "abc"]
    assert by_kind(three)[0].places == ("a: share 0.5", "b: share 0.5", "c: share 0.5")
    words = [Finding("other-unit", f"s{i}", {"x": f"looks like {i}"}) for i in range(20)]
    [reason] = by_kind(words)
    assert len(reason.places) == 7
    assert reason.places[-1] == "and 14 more"


def test_features_that_many_findings_name_are_told_by_how_often():
    features = ["age", "age", "sex", "age", "sex", "bmi"]
    many = [
        Finding("imbalance", f"s{i}", {"imbalance": 1.0 + i, name: 0.5})
        for i, name in enumerate(features)
    ]
    assert by_kind(many)[0].places == (
        "6 sources, s0, s1, s2 and 3 more: imbalance 1 to 6, most often age, sex, bmi",
    )
