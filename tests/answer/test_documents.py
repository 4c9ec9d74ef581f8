"""Checklists, model card and CSV files say what the result says, and name what it does not know."""

import csv
import inspect
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedcsa.answer import checklist_answers as answers
from fedcsa.answer.checklists import (
    CARD,
    CHECKLISTS,
    card_markdown,
    card_table,
    checklist_lines,
    checklist_tables,
    checklists_markdown,
    fill,
    summary_table,
)
from fedcsa.answer.csv_tables import CSV_TABLES, write_csv_tables
from fedcsa.answer.page import write_report
from fedcsa.answer.result_tables import design_table
from fedcsa.answer.store import save_result
from fedcsa.answer.updated import ShownUpdate
from fedcsa.answer.view import View, view_of
from fedcsa.findings import Finding
from fedcsa.models.registry import model_description
from fedcsa.target.backtest_result import Backtest, BacktestRow, MeasureOutcome
from fedcsa.target.promised_measures import (
    Calibration,
    DecisionCurve,
    MeasurePromise,
    Recalibration,
    RiskDistribution,
)

ITEMS = [(checklist.name, item) for checklist in CHECKLISTS for item in checklist.items]
ALL = [*ITEMS, *(("card", item) for item in CARD.items)]
NOTHING = View("s", "no", "")
FOUND = {"a": (0.81, 0.7, 0.9), "b": (0.74, 0.6, 0.83)}
OUTCOME = MeasureOutcome("auroc", "", None, None, 0.78, 0.7, 0.85, 0.9, 0.8, 0.95)
ROW = BacktestRow("a", 40, "use it", 1.0, 0.8, 1.3, 1.0, 0.1, 0.9, measures=(OUTCOME,))


def measure(name, value=0.78, **options):
    return MeasurePromise(
        name, estimate=value, lower=0.7, upper=0.85, between_sites=0.2, by_source=FOUND, **options
    )


@pytest.fixture(scope="module")
def rich(making):
    """A study of two classes that tells all it can."""
    a = making.adaptation_of(
        "abc", ["age", "sex=F"], loss="brier", classes=("no", "yes"),
        backtest=Backtest((ROW,), 0.95), findings=[Finding("heavy-row", "b", {"share": 0.3})],
    )  # fmt: skip
    cut = measure("sensitivity", threshold=0.25)
    return replace(
        view_of(a),
        measures=(measure("auroc"), measure("event_rate"), cut, measure("auroc", subgroup="old")),
        differences=(measure("auroc", -0.031, subgroup="old"),),
        calibration=(
            Calibration(None, (0.1, 0.3), (0.2, 0.4), (0.1, 0.3), (0.3, 0.5), (0.5, 0.5)),
        ),
        decision_curve=DecisionCurve((0.1, 0.2), (0.3, 0.2), (0.2, 0.1), (0.4, 0.3), (0.1, 0.0)),
        risk_distributions=(RiskDistribution(None, (0.0, 0.5, 1.0), (0.2, 0.8), (0.9, 0.1)),),
        recalibration=Recalibration(None, -0.12, 0.93, (measure("brier"),), (measure("brier"),)),
        hashes={"study.toml": "0123456789abcdef"},
        made_with="1.2",
    )


@pytest.fixture(scope="module")
def given(rich):
    """The same of a model that was made elsewhere."""
    plan = replace(rich.plan)
    object.__setattr__(plan, "method", "given")
    object.__setattr__(plan, "model", {"name": "given", "title": "The score", "column": "score"})
    return replace(rich, plan=plan, points=(), methods=())


# Every item ---------------------------------------------------------------------------------


def test_the_lists_have_the_published_numbers_of_items():
    tripod, cluster, probast = CHECKLISTS
    main = [len({re.match(r"\d+", item.number)[0] for item in x.items}) for x in (tripod, cluster)]
    assert main == [27, 19]
    assert [len(x.items) for x in CHECKLISTS] == [52, 37, 34]
    letters = [item.number[0] for item in probast.items]
    assert [letters.count("D"), letters.count("E")] == [16, 18]
    for checklist in CHECKLISTS:
        assert len({item.number for item in checklist.items}) == len(checklist.items)
        assert checklist.doi.startswith("10.1136/bmj-")


@pytest.mark.parametrize(("of", "item"), ALL, ids=lambda x: getattr(x, "number", x))
def test_an_item_is_filled_where_the_study_knows_and_blank_where_not(of, item, rich):
    assert of
    assert fill(item, NOTHING).state == "blank"
    found = fill(item, rich)
    if not item.answer:
        assert found.state == "blank"
        assert not item.left
    else:
        assert found.state == ("in part" if item.left else "filled")
        assert found.text[0] == found.text[0].upper()
        assert found.text.endswith((".", "…."))
        assert ".." not in found.text.removesuffix("….")


@pytest.mark.parametrize(("of", "item"), ITEMS, ids=lambda x: getattr(x, "number", x))
def test_of_a_given_model_nothing_was_developed(of, item, given):
    state = fill(item, given).state
    assert (state == "not applicable") == (item.part == "D")
    assert item.part == "D" or of != "PROBAST+AI" or item.number.startswith("E")


def test_every_answer_is_asked_for_by_some_item():
    public = {
        name
        for name, value in inspect.getmembers(answers, inspect.isfunction)
        if value.__module__ == answers.__name__ and not name.startswith("_")
    }
    asked = {item.answer for _, item in ALL if item.answer}
    assert public - asked == {"events"}


def test_what_is_left_is_named(rich):
    for checklist, line in zip(CHECKLISTS, checklist_lines(rich), strict=True):
        for item in checklist.items:
            named = f" {item.number} {item.topic}" in line
            assert named == (not item.answer)
    assert "34 of" not in line
    assert line.startswith("PROBAST+AI: ")


def test_counts_of_filled_items_are_those_of_the_items(rich):
    rows = summary_table(rich).rows
    for checklist, line, row in zip(CHECKLISTS, checklist_lines(rich), rows, strict=True):
        states = [filled.state for filled in checklist.filled(rich)]
        told = [states.count(state) for state in ("filled", "in part", "blank", "not applicable")]
        assert [int(cell) for cell in row[1:5]] == told
        assert f"{told[0]} of {len(states)} items are filled, {told[1]} in part" in line


def test_a_table_has_a_row_for_every_item_with_what_is_left(rich):
    for checklist, table in zip(CHECKLISTS, checklist_tables(rich), strict=True):
        for filled, row in zip(checklist.filled(rich), table.rows, strict=True):
            assert row[:2] == (f"{filled.item.number} {filled.item.topic}", filled.item.asks)
            assert (row[2] == "To fill in.") == (filled.state == "blank")
            assert (f" Left to say: {filled.item.left}." in row[2]) == (filled.state == "in part")


# What the answers say -----------------------------------------------------------------------


def changed(view, **options):
    plan = replace(view.plan)
    for name, value in options.items():
        object.__setattr__(plan, name, value)
    return replace(view, plan=plan)


#: answer -> what changes the view, words of the answer then, and as it is
CASES = {
    "title": ({"method": "given"}, "evaluation of a given", "development and evaluation of a"),
    "objective": ({"method": "given"}, "to judge a given model", "internal–external"),
    "outcome": ({"classes": ()}, "a number", "one of 2 classes, agreed by all sites: no, yes"),
    "missing_data": (
        {"features": ("age", "age=missing")}, "a column of its own says so, for age;",
        "no cell of a feature may be missing",
    ),
    "kept_apart": ({"group": "patient"}, "rows with the same patient stay together", "no row"),
    "data_use": ({"refit": False}, "a part of its rows", "cross-fit, 5 folds"),
    "predictor_handling": ({"scale": False}, "their own units", "the target's standard"),
    "prediction_rule": ({"combine": "median"}, "weighted median", "weighted mean"),
    "imbalance": (
        {"candidates": ({"class_weight": "balanced"},)}, "class_weight", "keep their shares",
    ),
    "evaluated_without_correction": ({"classes": ()}, "not applicable", "never by class"),
    "model_output": ({"classes": ()}, "a number", "declared thresholds: 0.25"),
    "data_sharing": ({"exchange": "rows"}, "the target's rows left it", "no row left a site"),
    "characteristics": ({"exchange": "rows"}, "the sources' rows are in", "tables/target.csv"),
    "beyond_apparent": (
        {"method": "given"}, "3 of 3 sources judged the given model on their weighted rows",
        "3 of 3 sources examined the others' models",
    ),
    "prediction_rule ": (
        {"method": "given", "model": {"column": "risk"}}, "from the column risk", "weighted mean",
    ),
    "feature_columns": ({"model": {"column": "risk"}}, "its owner knows", "2 columns, agreed by"),
    "specification": ({"model": {"column": "risk"}}, "with its owner", "models/ of the target's"),
    "model_type": (
        {"method": "given", "model": {"name": "given", "sha256": "f" * 64}},
        "a given model, a formula or trees with the digest ffffffffffff", "the mixture of 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (LogisticRegression(), "LogisticRegression"),
        (make_pipeline(StandardScaler(), Ridge()), "Pipeline with Ridge"),
        ("ridge", "ridge"),
    ],
)
def test_a_model_is_called_by_its_own_name(model, name, rich):
    told = changed(rich, model=model_description(model))
    assert answers.model_type(told) == f"{name}; the mixture of 3 sources' models"
    assert ("model", name) in design_table(told, "0").rows


@pytest.mark.parametrize("name", CASES)
def test_an_answer_follows_the_plan(name, rich):
    options, then, before = CASES[name]
    assert before in getattr(answers, name.strip())(rich)
    assert then in getattr(answers, name.strip())(changed(rich, **options))


def test_answers_quote_the_numbers_of_the_result(rich, make):
    assert answers.performance(rich).startswith(
        "for a new site (95 %): AUROC 0.78 (0.7 to 0.85); events per 100 patients 78 (70 to 85); "
        "1 at thresholds in tables/measures.csv"
    )
    [cut] = [item for item in rich.measures if item.threshold]
    assert "sensitivity at 25 % 78 % (70 to 85 %)" in answers.performance(
        replace(rich, measures=(cut,))
    )
    assert "old: AUROC -0.031" in answers.performance_in_subgroups(rich)
    assert answers.performance_by_source(rich).startswith(
        "AUROC: 0.74 (b) to 0.81 (a), between-site sd 0.2 log-odds; "
    )
    assert "intercept -0.12, slope 0.93" in answers.updated(rich)
    assert "Differences from all others: old: AUROC" in answers.all_performance(rich)
    quiet = replace(rich, differences=())
    assert answers.all_performance(quiet).endswith("No difference is known for any subgroup")
    quiet = replace(quiet, measures=quiet.measures[:2])
    assert answers.all_performance(quiet).endswith("No subgroup was declared")
    assert "a 81, b 74" in answers.events(rich)
    assert answers.interpretation(rich).endswith(rich.why)
    assert "fedcsa update" in answers.next_steps(rich)
    came = make.updated()
    assert answers.next_steps(replace(rich, update=came)) == ShownUpdate(came, rich.plan).sentence


def test_a_measure_that_is_not_known_is_not_told(rich):
    nobody = MeasurePromise("auroc", why_not="not enough events")
    view = replace(rich, measures=(nobody,), differences=(nobody,))
    assert answers.performance(view) is None
    assert answers.performance_by_source(view) is None
    assert answers.performance_in_subgroups(view) is None


def test_limitations_name_warnings_and_what_an_interval_assumes(rich, making):
    assert "if it differs from these as they differ from each other" in answers.limitations(rich)
    quiet = view_of(making.without_model(making.plan_of(["x"])))
    assert answers.limitations(quiet) == "no warning and no danger was found"
    assert answers.next_steps(quiet) is None


def test_who_did_not_answer_is_named(rich):
    told = answers.participants(replace(rich, absent={"far": "refused: min_fold_rows"}))
    assert told.startswith("3 of 4 sources answered, with 120 rows; 3 resemble the target")
    assert told.endswith("Without an answer: far: refused: min_fold_rows")


# Markdown and CSV ---------------------------------------------------------------------------


def test_names_from_elsewhere_mean_nothing_in_markdown(making):
    view = view_of(making.made("nasty names"))
    for text in (card_markdown(view), checklists_markdown(view)):
        assert not re.search(r"<(script|img|b)\b", text)
        tables = re.findall(r"(?:^\|.*\n?)+", text, re.M)
        assert tables
        for table in tables:
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(widths) == 1


def test_the_card_has_every_line_and_says_what_to_fill_in(rich):
    text = card_markdown(rich)
    for item in CARD.items:
        assert f"- **{item.topic}.** " in text
    assert "To fill in: Who uses it, for whom, for which decision." in text
    assert [row[1] for row in card_table(rich).rows] == [item.topic for item in CARD.items]


@pytest.mark.parametrize("name", CSV_TABLES)
def test_a_table_has_rows_where_there_is_something_to_tell_and_only_there(name, rich, make):
    headings, rows_of = CSV_TABLES[name]
    rows = list(rows_of(replace(rich, update=make.updated())))
    assert rows
    assert all(len(row) == len(headings.split()) for row in rows)
    assert name == "checklists" or not list(rows_of(NOTHING))


def test_csv_files_hold_every_digit_and_no_formula(rich, tmp_path):
    third = replace(rich.measures[0], estimate=1.0 / 3.0, lower=float("nan"))
    line = replace(rich.sources[0], name="=HYPERLINK(1)")
    view = replace(rich, measures=(third,), sources=(line,), absent={"@x": "missing"})
    write_csv_tables(view, tmp_path)
    with (tmp_path / "measures.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    assert float(row["estimate"]) == 1.0 / 3.0
    assert (row["lower"], row["class"], row["threshold"]) == ("", "", "")
    with (tmp_path / "sources.csv").open(encoding="utf-8") as file:
        first, last = csv.DictReader(file)
    assert (first["source"], first["reaches"]) == ("'=HYPERLINK(1)", "true")
    assert (last["source"], last["rows"], last["became"]) == ("'@x", "", "missing")


def test_what_came_true_of_a_measure_stands_beside_its_promise(rich, make, tmp_path):
    write_csv_tables(replace(rich, update=make.updated()), tmp_path)
    with (tmp_path / "backtest_measures.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    told = [row[key] for key in ("measure", "promised", "realised", "covered", "kept")]
    assert told == ["auroc", "0.78", "0.9", "false", "true"]
    with (tmp_path / "outcomes.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    told = [row[key] for key in ("measure", "promised", "alone", "after_upper", "worth_outcomes")]
    assert told == ["risk", "1.0", "1.1", "1.3", "60.0"]
    with (tmp_path / "looks.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    assert list(row.values()) == ["30", "1.1", *["0.9", "1.3"] * 2, "0.7"]


# The folder ---------------------------------------------------------------------------------


def test_a_report_brings_card_checklists_and_tables_that_a_new_result_removes(making, tmp_path):
    folder = save_result(making.made("small"), tmp_path / "r")
    write_report(folder, tmp_path / "elsewhere.html")
    assert (folder / "model-card.md").read_text("utf-8").startswith("# Model card: study")
    assert "## TRIPOD-Cluster" in (folder / "checklists.md").read_text("utf-8")
    names = {path.name for path in (folder / "tables").iterdir()}
    assert {"sources.csv", "balance.csv", "target.csv", "backtest.csv", "checklists.csv"} <= names
    with (folder / "tables" / "sources.csv").open(encoding="utf-8") as file:
        rows = {row["source"]: float(row["weight"]) for row in csv.DictReader(file)}
    told = json.loads((folder / "adaptation.json").read_text("utf-8"))["source_weights"]
    assert rows == pytest.approx(told, rel=0, abs=0)
    save_result(making.made("one source"), folder)
    assert not (folder / "model-card.md").exists()
    assert not (folder / "checklists.md").exists()
    assert not list((folder / "tables").iterdir())


def test_a_table_that_has_no_rows_any_more_is_gone(rich, tmp_path):
    write_csv_tables(rich, tmp_path / "tables")
    assert (tmp_path / "tables" / "backtest.csv").is_file()
    write_csv_tables(replace(rich, backtest=None), tmp_path / "tables")
    assert not (tmp_path / "tables" / "backtest.csv").exists()


def test_numbers_of_numpy_are_written_as_numbers(rich, tmp_path):
    shown = replace(rich.measures[0], estimate=np.float64(0.25))
    write_csv_tables(replace(rich, measures=(shown,)), tmp_path)
    assert ",0.25,0.7," in (tmp_path / "measures.csv").read_text(encoding="utf-8")
