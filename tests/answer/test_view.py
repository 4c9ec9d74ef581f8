"""One view of the answer: terminal, notebook and page print the same words and the same digits."""

import io
import re
from dataclasses import fields, is_dataclass, replace
from html import unescape
from types import SimpleNamespace

import pytest
from rich.console import Console

from fedcsa.answer.charts.drawing import Dot, Note, Stroke
from fedcsa.answer.charts.forest_plot import draw_forest_plots
from fedcsa.answer.charts.kept_promises import draw_kept_promises
from fedcsa.answer.charts.risk_curve import draw_search
from fedcsa.answer.checklist_answers import prediction_rule
from fedcsa.answer.forests import drawn, first_forest, source_forest, subgroup_forests
from fedcsa.answer.measure_words import WORDS, risk_name, spread_text
from fedcsa.answer.page import render, subtitle, write_report
from fedcsa.answer.result_tables import (
    PlayedRisks,
    backtest_table,
    design_table,
    measure_table,
    path_table,
    search_table,
    source_table,
    update_table,
)
from fedcsa.answer.sentences import (
    backtest_numbers,
    examined_sentence,
    level_sentence,
    promise_sentence,
    ratio_sentence,
    whom_sentence,
)
from fedcsa.answer.store import save_result
from fedcsa.answer.terminal import print_backtest, print_update, print_view
from fedcsa.answer.updated import ShownUpdate
from fedcsa.answer.view import MOST_SOURCES, View, view_of
from fedcsa.cli.common import console
from fedcsa.core.losses import CLASSIFICATION, REGRESSION
from fedcsa.core.measures import MEASURES
from fedcsa.findings import Finding
from fedcsa.models.correction import Correction
from fedcsa.outcomes import History
from fedcsa.target.adaptation import Concluded
from fedcsa.target.backtest_result import Backtest, BacktestRow, MeasureOutcome
from fedcsa.target.estimate import Reported, estimates
from fedcsa.target.promised_measures import MeasurePromise
from fedcsa.target.search import NUMBERS, RULE, USED_UP
from fedcsa.target.verdict import Leg, Verdict
from fedcsa.target.with_outcomes import MeasureUpdate
from fedcsa.update import UpdateLook
from fedcsa.words import candidate_text, count, number, percent, sentence

KINDS = ("small", "one source", "two sources", "paper", "no overlap", "100 sources", "all refused")
#: What only the page shows: tables and charts of their own.
ON_THE_PAGE = {"rounds",
    "points", "methods", "backtest", "table", "before", "after", "ledgers", "calibration",
    "risk_distributions", "recalibration", "decision_curve", "by_source", "half_widths",
}  # fmt: skip
#: What is not shown as a number, but as a sentence, an order or a colour.
NOT_SHOWN = {"plan", "findings", "value", "bar", "level", "power", "examined_by"}
#: Numbers of the promise that the legs tell in their own words.
IN_LEGS = {"skill", "differs_risk", "differs_level", "between_levels", "between_sites"}
#: What stands in the measure of the study's loss, in units that people use.
IN_MEASURES = {"promise"}


def text_of(html):
    """What a reader of a page sees, without tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


@pytest.fixture
def shown(making, tmp_path, capsys, monkeypatch):
    """A function that gives a view, and what terminal, notebook and page show of it."""

    def show(kind):
        monkeypatch.setenv("COLUMNS", "400")
        monkeypatch.setenv("NO_COLOR", "1")
        a = making.made(kind)
        view = view_of(a)
        print_view(console(), view)
        terminal = " ".join(capsys.readouterr().out.split())
        page = write_report(save_result(a, tmp_path / "r")).read_text(encoding="utf-8")
        return view, {
            "terminal": terminal, "notebook": text_of(view._repr_html_()), "page": text_of(page),
        }  # fmt: skip

    return show


def numbers(value, name=""):
    """Every number of a view that all three show: the name of its field, and its text."""
    if name in ON_THE_PAGE | NOT_SHOWN | IN_LEGS | IN_MEASURES:
        return
    if isinstance(value, MeasurePromise):
        words = WORDS[value.name]
        yield value.name, words.text(value.estimate)
        yield value.name, words.between(value.lower, value.upper)
        return
    if is_dataclass(value):
        for item in fields(value):
            yield from numbers(getattr(value, item.name), item.name)
    elif isinstance(value, tuple):
        for item in value[:20]:  # more sources are only counted in a notebook
            yield from numbers(item, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        how = {"weight": percent, "n_rows": count}.get(name, number)
        yield name, how(value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_the_view_stands_in_all_three_in_the_same_digits(kind, shown):
    view, seen = shown(kind)
    found = set(numbers(view))
    for name, text in found:
        for where, told in seen.items():
            assert re.search(rf"(?<![\d.]){re.escape(text)}(?![\d])", told), (where, name, text)
    if view.promise is not None:
        expected = {"rmse", "weight", "n_rows", "imbalance"}
        assert expected <= {name for name, _ in found}


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_notebook_and_page_say_the_same_words(kind, shown):
    view, seen = shown(kind)
    told = [view.heading[1], view.why, ratio_sentence(view), examined_sentence(view)]
    told += [promise_sentence(view), level_sentence(view), whom_sentence(view)]
    told = told if view.has_model else told[:2]
    told += [text for leg in view.legs for text in (leg.sentence, leg.advice)]
    for line in view.sources[:20]:  # more are only counted in a notebook
        told += [line.name, line.found_text, line.weight_text]
    for text in filter(None, told):
        large = sentence(text).removesuffix(".")
        for where, words in seen.items():
            assert text in words or large in words, (where, text)
    if view.chosen is not None:
        assert f"chosen {candidate_text(view.chosen)}" in seen["terminal"]
        assert f"chosen: {candidate_text(view.chosen)}" in seen["page"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_gives_the_view_of_its_adaptation(kind, making, results):
    fresh, stored = view_of(making.made(kind)), view_of(results(kind))
    assert not fresh.hashes
    assert stored.hashes
    for item in fields(View):
        if item.name not in ("hashes", "made_with", "table", "plan"):  # arrays do not compare
            assert getattr(fresh, item.name) == getattr(stored, item.name), item.name


def test_the_back_test_has_the_same_digits_on_terminal_and_page(making, results, capsys):
    print_backtest(console(), making.made("small").backtest, "RMSE")
    terminal = capsys.readouterr().out
    page = text_of((results("small") / "report.html").read_text(encoding="utf-8"))
    for row in making.made("small").backtest.rows:
        for value in (row.promised, row.lower, row.upper, row.realised, row.reference):
            assert number(value**0.5) in terminal
            assert number(value**0.5) in page


@pytest.mark.parametrize(("scale", "told"), [("root", "3"), ("sum", "18"), ("loss", "9")])
def test_every_number_of_a_back_test_is_told_on_one_scale(scale, told):
    row = BacktestRow("a", 40, "use it", 1.0, 0.8, 1.3, 9.0, 0.0, 9.0)
    found = Backtest((row,), 0.95, scale)
    risks = PlayedRisks.of(row, found)
    assert [number(x) for x in (risks.realised, risks.own_model)] == [told, told]
    assert number(found.findings[0].evidence["realised"]) == told
    risk, times = ("RMSE", "3") if scale == "root" else ("risk", "9")
    assert f"the {risk} at 'a' was {times} times" in found.sentence
    assert found.findings[0].evidence["factor"] == float(times)
    assert risk in draw_kept_promises(found).panels[0].x.label
    said = dict(backtest_numbers(found, "RMSE"))
    average = "0.333" if scale == "root" else "0.111"
    assert said["calibration"] == f"promised over realised {risk} is {average} on average"
    assert (found.verdict, found.calibration) == ("failed", pytest.approx(1 / 9))


def test_an_update_has_its_numbers_and_its_advice(make, capsys):
    found = make.updated(
        90, (1.21, 0.8, 1.25), (9.0, 8.9, 9.1), against=99.0, findings=(Finding("beyond-list"),),
        verdict=Verdict("no", "outcomes follow another rule"), changed="it becomes another",
        path=(UpdateLook(20, 4.0, 2.0, 9.0, (1.0, 16.0), 1.0),
              UpdateLook(90, 9.0, 8.0, 10.0, (4.0, 25.0), 99.0)),
    )  # fmt: skip
    plan = SimpleNamespace(loss="squared", classes=(), model={"name": "ridge"})
    print_update(console(), ShownUpdate(found, plan))
    told = capsys.readouterr().out
    assert told.startswith("✕ Do not use it — outcomes follow another rule")
    for text in (
        "RMSE 3 (2.98 to 3.02) with 90 outcomes; the promise was 1.1 (0.894 to 1.12)",
        "far worse than promised", "90 outcomes are worth 180 alone", "it becomes another",
        "intercept 0.1, slope 0.9. Its RMSE is expected to be 0.949 of what it was. The",
        "The RMSE was 0.975 of what it was on these rows",
        "for all looks", "RMSE as outcomes came in", "(beyond-list)",
    ):  # fmt: skip
        assert text in " ".join(told.split())
    bars = [line for line in told.splitlines() if "●" in line]
    assert [line.split()[0] for line in bars] == ["promised", "20", "90"]
    # The dots stand in the order of their numbers: 1.1, 2 and 3.
    assert bars[0].index("●") < bars[1].index("●") < bars[2].index("●")
    # Thick is the interval of every look, thin what only that for all looks has.
    assert "──●" not in bars[2]
    assert [set(bar) >= {"━", "─"} for bar in bars] == [False, True, True]
    assert bars[2].endswith("3 (2.83 to 3.16)")


def test_later_looks_have_the_same_interval_and_that_for_all_looks_beside_it(make):
    plan = SimpleNamespace(loss="absolute", classes=(), model={"name": "ridge"})
    first = make.updated()
    item = replace(first.risk, anytime=(0.5, 1.7))
    looks = (UpdateLook(20, 1.0, 0.9, 1.1, (0.4, 3.0), 1.0), *first.path)
    later = replace(first, measures=(item,), path=looks)
    assert update_table(ShownUpdate(first, plan)).headings[3:] == ("now, with both", "worth")
    told = update_table(ShownUpdate(later, plan))
    assert told.headings[3:] == ("now, with both", "for all looks", "worth")
    assert told.rows[0][3:5] == ("1.1 (0.9 to 1.3)", "0.5 to 1.7")
    assert update_table(ShownUpdate(first, plan)).rows[0][3] == told.rows[0][3]
    assert path_table(ShownUpdate(later, plan)).rows[0] == ("20", "1", "0.9 to 1.1", "0.4 to 3")
    assert (
        "whenever one stops looking. The interval 'for all looks'"
        in ShownUpdate(later, plan).intervals
    )
    assert "all looks" not in ShownUpdate(first, plan).intervals


def test_one_source_alone_cannot_tell_how_sites_differ(making):
    one, two = (view_of(making.adaptation_of(n, ["x"])) for n in ("a", "ab"))
    [told], [known] = ([row[2] for row in measure_table(view).rows] for view in (one, two))
    assert told.endswith(" log scale, assumed")
    assert known.endswith(" log scale")
    assert "how much sites differ is assumed" in examined_sentence(one)
    assert "assumed" not in examined_sentence(two)


def test_the_page_counts_the_outcomes_that_are_in(make, making):
    view = view_of(making.made("one source"))
    assert "without outcomes" in subtitle(view)
    came = subtitle(replace(view, update=make.updated(12)))
    assert "12 outcomes in by now" in came
    assert "without" not in came


def test_a_promise_that_is_doubted_is_not_just_called_kept(make):
    leg = Leg("agreement", False, 0.9, 0.5, "the risk here probably lies off")
    doubted = make.updated(verdict=Verdict("care", leg.sentence, (leg,)))
    assert (doubted.conclusion, doubted.kept) == ("as promised", True)
    plan = SimpleNamespace(loss="squared", classes=(), model={"name": "ridge"})
    assert ShownUpdate(doubted, plan).sentence.endswith(": as promised, though " + leg.sentence)
    assert ShownUpdate(make.updated(), plan).sentence.endswith(": as promised")
    risk = make.updated().risk
    for middle, told in ((1.3, "probably worse"), (0.7, "probably better")):
        off = replace(risk, after=(middle, 0.6, 1.4), anytime=(0.6, 1.4))
        found = make.updated(verdict=doubted.verdict)
        found = replace(found, measures=(off,))
        assert (found.conclusion, found.kept) == (f"{told} than promised", True)
        assert ShownUpdate(found, plan).sentence.endswith(f": {told} than promised")


def test_a_correction_that_these_rows_do_not_reward_is_not_praised(make):
    plan = SimpleNamespace(model={"name": "logistic"}, loss="brier", classes=(0, 1))
    told = ShownUpdate(make.updated(gain=1.01, expected_gain=0.97), plan).model
    assert "Its risk is expected to be 0.97 of what it was. These outcomes do not show" in told
    assert "do not show" not in ShownUpdate(make.updated(gain=0.97, expected_gain=None), plan).model


def test_one_look_has_the_interval_of_one_look(make, capsys):
    plan = SimpleNamespace(loss="squared", classes=(), model={"name": "ridge"})
    print_update(console(), ShownUpdate(make.updated(), plan))
    told = capsys.readouterr().out
    lines = " ".join(told.split())
    assert "looking. Numbers describe the model before its correction" in lines
    assert "as outcomes came in" not in told


def test_a_model_that_stays_says_why(make):
    found = make.updated(correction=None, gain=None, why_same_model="there are three classes")
    plan = SimpleNamespace(loss="squared", classes=(), model={"name": "ridge"})
    assert ShownUpdate(found, plan).model == "the model stays as it is: there are three classes"
    moved = make.updated(
        correction=Correction(0.0, 1.0, (0.2, 0.0001)), gain=None, expected_gain=None
    )
    assert "1 coefficient moved. Predictions use it" in ShownUpdate(moved, plan).model
    given = {"name": "given", "column": "score"}
    column = SimpleNamespace(loss="squared", classes=(), model=given)
    assert ShownUpdate(moved, column).model.endswith("1 coefficient moved")


def test_outcomes_that_are_worth_no_more_are_not_praised(make):
    found = make.updated()
    risk = replace(found.risk, worth_rows=None)
    for same in (risk, replace(risk, worth_rows=12.0)):
        assert ShownUpdate(replace(found, measures=(same,)), None).worth == ""


def test_a_chart_of_many_sources_has_the_heaviest_and_the_farthest(making):
    view = view_of(making.made("100 sources"))
    assert len(view.in_chart) == MOST_SOURCES
    assert view.in_chart[:18] == view.sources[:18]
    left = [line for line in view.sources if line not in view.in_chart]
    assert min(x.imbalance for x in view.in_chart[18:]) >= max(x.imbalance for x in left)


def test_a_result_that_the_target_keeps_is_asked_for_there():
    view = View("s", "no", "", outcome="done")
    assert view.heading == ("care", "Ask the target", "?")
    assert replace(view, outcome="min_sources").heading[0] == "no"


def test_a_view_holds_no_dictionary_of_unknown_keys():
    for item in fields(View):
        assert "Any" not in str(item.type), item.name


def changed(name, subgroup="", threshold=None, why_not=""):
    numbers = (0.8, 0.7, 0.9), (0.5, 0.45, 0.55), (0.6, 0.5, 0.66), (0.4, 0.7), 77.0, 0.2, 3.0
    return MeasureUpdate(name, subgroup, threshold, None, *numbers, why_not)


def test_what_outcomes_change_of_every_measure_stands_on_terminal_and_page(
    making, make, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "120")
    others = (
        changed("auroc"), changed("sensitivity", "old", 0.2), changed("rmse"),
        changed("r2", why_not="too few outcomes"),
    )  # fmt: skip
    found = make.updated(measures=others)
    item = MeasureOutcome("auroc", "", None, None, 0.8, 0.7, 0.9, 0.75, 0.65, 0.85)
    row = replace(making.made("small").backtest.rows[0], measures=(item,))
    played = Backtest((row,), 0.95)
    whole = replace(making.made("two sources"), backtest=played)
    folder = save_result(whole, tmp_path / "r", history=History(last=found))
    page = text_of(write_report(folder).read_text(encoding="utf-8"))
    print_update(console(), ShownUpdate(found, whole.plan))
    print_backtest(console(), played, "RMSE")
    terminal = " ".join(capsys.readouterr().out.split())
    for told in (page, terminal):
        assert "AUROC 0.8 (0.7 to 0.9) 0.5 (0.45 to 0.55) 0.6 (0.5 to 0.66) 77" in told
        assert "sensitivity at 20 %, old 80 % (70 to 90 %) 50 % (45 to 55 %) 60 %" in told
        assert "R² 0.8 (0.7 to 0.9) 0.5" not in told
        assert "RMSE 0.8 (0.7 to 0.9) 0.5" not in told  # the study's loss stands first, once
        assert "AUROC 1 of 1 1 of 1" in told
    assert "RMSE as outcomes came in" in write_report(folder).read_text(encoding="utf-8")


def test_outcomes_have_two_lines_in_every_forest(making, make):
    found = make.updated(90, (0.06, 0.04, 0.08), (0.07, 0.06, 0.08), (changed("auroc"),))
    whole = making.adaptation_of("abc", ["x"], classes=("no", "yes"), loss="brier")
    view = replace(view_of(whole), **making.measured(), update=found)
    last = {item.name: source_forest(view, item).lines[-2:] for item in drawn(view)}
    told = {name: [(line.name, line.value) for line in lines] for name, lines in last.items()}
    assert told["auroc"] == [("outcomes here", 0.5), ("here, with both", 0.6)]
    assert told["brier"] == [("outcomes here", 0.07), ("here, with both", 0.07)]
    assert told["observed_expected"] == [("outcomes here", None), ("here, with both", None)]


def test_a_measure_of_which_outcomes_say_nothing_says_so_in_its_lines(making, make):
    found = make.updated(measures=(changed("auroc", why_not="too few outcomes"),))
    whole = making.adaptation_of("abc", ["x"], classes=("no", "yes"), loss="brier")
    view = replace(view_of(whole), **making.measured(), update=found)
    [auroc] = [item for item in drawn(view) if item.name == "auroc"]
    for forest in (source_forest(view, auroc), first_forest(view, auroc)):
        came = [line for line in forest.lines if line.kind == "came"]
        assert {line.value for line in came} == {None}
        assert {line.said.rpartition(": ")[2] for line in came} == {"too few outcomes"}


def test_every_panel_has_the_lines_that_its_names_say(making, make):
    found = make.updated(90, (0.06, 0.04, 0.08), (0.07, 0.06, 0.08), (changed("brier"),))
    whole = making.adaptation_of("abc", ["x"], classes=("no", "yes"), loss="brier")
    view = replace(view_of(whole), **making.measured(), update=found)
    for forests in ([source_forest(view, item) for item in drawn(view)], [*subgroup_forests(view)]):
        names = {tuple(line.name for line in forest.lines) for forest in forests}
        assert len(names) == 1
        for panel in draw_forest_plots(forests).panels:
            at = [mark.y for mark in panel.marks if isinstance(mark, Dot | Note)]
            assert max(at) < len(panel.y.names)


def test_a_value_outside_the_chart_is_an_arrow_and_outcomes_here_never_are(making, make):
    whole = making.adaptation_of("abc", ["x"], classes=("no", "yes"), loss="brier")
    far = replace(changed("auroc"), alone=(0.1, 0.05, 0.15), after=(0.2, 0.15, 0.25))
    auroc = making.promised("auroc", 0.8, 0.05)
    lies = replace(auroc, by_source={**auroc.by_source, "a": (0.3, 0.25, 0.35)})
    fields = making.measured() | {"measures": (lies,)}
    view = replace(view_of(whole), **fields, update=make.updated(measures=(far,)))
    [panel] = draw_forest_plots([source_forest(view, lies)]).panels
    shown = {mark.text.partition(":")[0]: mark for mark in panel.marks if isinstance(mark, Dot)}
    assert (shown["here, with both"].x, shown["here, with both"].shape) == (0.2, "D")
    assert (shown["outcomes here"].x, shown["outcomes here"].shape) == (0.1, "D")
    [panel] = draw_forest_plots([source_forest(replace(view, update=None), lies)]).panels
    shown = {mark.text.partition(":")[0]: mark for mark in panel.marks if isinstance(mark, Dot)}
    assert (shown["a"].x, shown["a"].shape) == (pytest.approx(0.6), "<")


@pytest.mark.parametrize("alone", [(25.0, 16.0, 36.0), (9.0, 0.0, 100.0), (1.0, 1e-6, 1e6)])
def test_an_interval_with_outcomes_is_drawn_to_both_its_ends(making, make, alone):
    whole = making.adaptation_of("abc", ["x"])
    view = replace(view_of(whole), update=make.updated(alone=alone))
    for forest in (source_forest(view, view.loss), first_forest(view, view.loss)):
        [panel] = draw_forest_plots([forest]).panels
        for y, line in enumerate(forest.lines):
            if line.kind == "came":
                marks = [mark for mark in panel.marks if isinstance(mark, Dot) and mark.y == y]
                assert [mark.shape for mark in marks] == ["D"]
                [bar] = [m for m in panel.marks if isinstance(m, Stroke) and m.ys == [y, y]]
                assert bar.xs == pytest.approx([alone[1] ** 0.5, alone[2] ** 0.5])
                assert panel.x.ends[0] <= bar.xs[0] < bar.xs[1] <= panel.x.ends[1]


def test_a_constant_from_before_outcomes_is_not_drawn_beside_them(making, make):
    whole = making.adaptation_of("abc", ["x"])
    before = view_of(whole)
    after = replace(before, update=make.updated())
    for tell in (source_forest, first_forest):
        then, now = (tell(view, view.loss) for view in (before, after))
        assert then.beside is not None
        assert then.label == "95 % interval; grey: a constant"
        assert now.beside is None
        assert now.label == "95 % interval"
    r2 = making.promised("r2", 0.4, 0.1)  # its line is right at any time
    assert source_forest(after, r2).beside == 0.0
    assert source_forest(after, r2).label == "95 % interval; grey: a constant"


def test_a_subgroup_is_drawn_as_updated_only_if_it_was(making, make):
    whole = making.adaptation_of("abc", ["x"], classes=("no", "yes"), loss="brier")
    before = replace(view_of(whole), **making.measured())
    same = replace(before, update=make.updated(measures=(changed("auroc"),)))
    came = replace(before, update=make.updated(measures=(changed("auroc", "over 80"),)))
    for view, kind, upper in ((before, "group", 0.7), (same, "group", 0.7), (came, "came", 0.66)):
        [line] = [x for x in first_forest(view, view.headline).lines if x.name == "over 80"]
        assert (line.kind, round(line.upper, 9)) == (kind, upper)
    assert not draw_forest_plots([first_forest(before, before.headline)]).below
    assert "blue: promised" in draw_forest_plots([first_forest(same, same.headline)]).below


def test_once_outcomes_came_a_promise_says_that_it_is_older(making, make):
    whole = making.adaptation_of("abc", ["x"], classes=("no", "yes"), loss="brier")
    before = replace(view_of(whole), **making.measured())
    view = replace(before, update=make.updated())
    for tell in (promise_sentence, level_sentence, ratio_sentence, whom_sentence):
        assert tell(view) == f"before outcomes came: {tell(before)}"


def test_own_models_are_beside_a_back_test_only_where_there_are_any(making):
    played = making.made("small").backtest
    bare = replace(played, rows=tuple(replace(row, reference=None) for row in played.rows))
    with_own, without = backtest_table(played, "RMSE"), backtest_table(bare, "RMSE")
    assert [heading for heading in with_own.headings if heading not in without.headings] == [
        "own model"
    ]
    assert {len(row) for row in without.rows} == {len(without.headings)}
    assert [without.headings[index] for index in without.text] == ["source", "promise", "verdict"]


def test_the_page_names_the_model_that_was_judged(making):
    view = view_of(making.made("small"))
    plan = replace(view.plan)
    object.__setattr__(plan, "method", "given")
    object.__setattr__(plan, "model", {"name": "given", "title": "Mayo", "column": "score"})
    judged = replace(view, plan=plan)
    assert subtitle(judged).startswith("Judged: Mayo, at a target of ")
    assert subtitle(view).startswith("A target of ")
    assert ("model", "Mayo") in design_table(judged, "1").rows


@pytest.mark.parametrize(
    ("loss", "classes", "name"),
    [
        ("squared", (), "RMSE"),
        ("brier", ("a", "b"), "Brier score"),
        ("brier", ("a", "b", "c"), "Brier score"),
    ],
)
def test_a_risk_has_a_name(loss, classes, name):
    assert risk_name(SimpleNamespace(loss=loss, classes=classes)) == name


def test_a_source_that_reported_and_then_refused_stands_once_under_sources(making):
    whole = making.adaptation_of("abc", ["x"])
    told = (*whole.findings, Finding("source-refused", "b", {"rule": "models"}))
    found = {name: item for name, item in whole.examinations.items() if name != "b"}
    view = view_of(replace(whole, concluded=Concluded(whole.promise, told), examinations=found))
    rows = source_table(view).rows
    assert sorted(row[0] for row in rows) == ["a", "b", "c"]
    assert {row[0]: row[1] for row in rows}["b"] == "refused: models"
    assert view.absent == {}


def searched(making):
    """A result of a search of two rounds, one of whose candidates failed."""
    whole = making.adaptation_of("ab", ["x"], candidates=(0.0, 0.1, 1.0, 0.5))
    plan = replace(whole.plan, space=({"penalty": {"low": 0.0, "high": 1.0}},))
    found = estimates(plan, Reported.of(whole.reports), (0, 1, 3))
    return replace(whole, plan=plan, rounds=(3, 1), kept=(0, 1, 3), estimates=found)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("", "then its budget was used up"),
        (NUMBERS, "then the agreed limit on numbers was reached"),
        (RULE, "then a site's rule (max_candidates) allowed no more"),
        (USED_UP, "then the space had no further candidates"),
    ],
)
def test_a_terminal_says_how_long_a_search_was_and_why_it_ended(making, capsys, reason, words):
    ended = [Finding("search-ended", evidence={"reason": reason})] if reason else []
    whole = searched(making)
    view = view_of(replace(whole, concluded=Concluded(whole.promise, tuple(ended))))
    print_view(console(), view)
    told = " ".join(capsys.readouterr().out.split())
    assert " searched 4 candidates in 2 rounds" in told
    assert words in told


def test_a_search_is_shown_in_its_order(making):
    whole = making.adaptation_of("ab", ["x"], candidates=(0.0, 0.1, 1.0, 0.5))
    listed = view_of(whole)
    assert listed.round_ends == ()
    view = view_of(searched(making))
    assert view.round_ends == (3, 4)
    assert [point.place for point in view.points] == [1, 2, 4]
    risks = [point.risk for point in view.told_points]
    assert list(view.smallest_so_far) == [min(risks[: k + 1]) for k in range(3)]
    table = search_table(view)
    assert [row[0] for row in table.rows] == ["1", "1", "2"]
    assert min(row[3] for row in table.rows) == "0 %"
    [panel] = draw_search(view).panels
    assert [rule.at for rule in panel.rules] == [3.5]
    dots = [mark for mark in panel.marks if isinstance(mark, Dot)]
    assert [(dot.x, dot.y) for dot in dots] == list(zip([1, 2, 4], risks, strict=True))


def test_sentences_beside_labels_are_folded_at_the_edge_of_the_screen(making, make):
    a = making.made("small")
    screen = Console(width=80, record=True, file=io.StringIO())
    print_view(screen, view_of(a))
    print_update(screen, ShownUpdate(make.updated(), a.plan))
    lines = screen.export_text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    for label in ("promised", "now"):
        [at] = [k for k, line in enumerate(lines) if line.startswith(f"{label:>14}  ")]
        assert lines[at + 1].startswith(" " * 16)
        assert lines[at + 1][16] != " "


@pytest.mark.parametrize("name", sorted(WORDS))
def test_every_measure_tells_its_sd_between_sites(name):
    link = {measure.name: measure.link for measure in MEASURES}.get(name, "log")
    scaled = {"log": "0.5 log scale", "logit": "0.5 log-odds", "rest": "0.5 log of 1−x"}
    told = spread_text(MeasurePromise(name, between_sites=0.5))
    assert told == scaled.get(link, WORDS[name].text(0.5))


@pytest.mark.parametrize(
    ("loss", "classes"),
    [(loss, ()) for loss in (*REGRESSION, "own:mine")] + [(c, "ab") for c in CLASSIFICATION],
)
def test_every_loss_has_its_line_among_the_measures(loss, classes, making):
    view = view_of(making.adaptation_of("abc", ["x"], loss=loss, classes=tuple(classes)))
    told = {row[0]: row[2] for row in measure_table(view).rows}
    assert told[view.loss_words.title].endswith(" log scale")


def test_a_weight_rule_of_ones_own_has_a_page_without_formulas(making):
    view = view_of(making.adaptation_of("abc", ["x"]))
    assert "<h3>Formulas</h3>" in render(view)
    object.__setattr__(view.plan, "method", "alike")  # a plan knows only what is in the table
    assert "<h3>Formulas</h3>" not in render(view)


def test_the_model_card_says_whether_outcomes_corrected_the_model(making, make):
    view = view_of(making.adaptation_of("abc", ["x"]))
    corrected = replace(view, update=make.updated(12))
    same = replace(view, update=make.updated(12, correction=None))
    assert ", corrected by 12 outcomes from here;" in prediction_rule(corrected)
    assert prediction_rule(same) == prediction_rule(view)
