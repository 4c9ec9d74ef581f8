"""The validation study: truth, tables and bars, and that it runs."""

from types import SimpleNamespace

import numpy as np
import pytest
from lib.common import ROOT, read_table
from lib.promise_runs import read_packed, write_packed
from lib.validation_families import VALIDATED
from lib.validation_runs import (
    LOGITS,
    LOGS,
    RESTS,
    exploded,
    patient_lines,
    realised,
    sampling_errors,
    squeezed,
    stretched,
)
from lib.validation_tables import OVERALL, Told, exchangeable, measure_table
from validation import known_truth, stroke_countries, validation_bars, write_validation

from fedcsa.errors import DataError

DATA = ROOT.parent / "shared" / "data"


def line(measure="auroc", family="covariate shift", part="events", **more):
    told = {"part": part, "family": family, "seed": 0, "measure": measure, "threshold": None}
    told |= {"estimate": 0.8, "lower": 0.7, "upper": 0.9, "true": 0.75, "unweighted": 0.9}
    return {k: "" if v is None else str(v) for k, v in (told | more).items()}


def test_realised_measures_of_events_are_counted():
    y = np.array([0.0, 0.0, 1.0, 1.0, 0.0])
    p = np.array([0.1, 0.6, 0.6, 0.9, 0.2])
    found = realised(y, p, (0.5,))
    assert found["auroc", None] == pytest.approx(5.5 / 6)
    assert found["event_rate", None] == pytest.approx(0.4)
    assert found["observed_expected", None] == pytest.approx(2.0 / 2.4)
    assert found["brier", None] == pytest.approx(np.mean((p - y) ** 2))
    assert found["scaled_brier", None] == pytest.approx(1.0 - np.mean((p - y) ** 2) / 0.24)
    at = {name: found[name, 0.5] for name in ("sensitivity", "specificity", "ppv", "npv")}
    assert at == pytest.approx({"sensitivity": 1, "specificity": 2 / 3, "ppv": 2 / 3, "npv": 1})
    assert found["net_benefit", 0.5] == pytest.approx((2 - 1) / 5)


def test_what_cannot_be_taken_is_absent():
    assert realised(np.zeros(4), np.full(4, 0.5), (0.5,)) == {}
    found = realised(np.array([0.0, 1.0]), np.array([0.1, 0.2]), (0.5,))
    assert ("ppv", 0.5) not in found  # nobody is called
    assert found["sensitivity", 0.5] == 0.0


def test_realised_measures_of_numbers_and_their_sampling_errors():
    rng = np.random.default_rng(0)
    prediction = rng.normal(0.0, 1.0, 4_000)
    y = 0.5 + 1.5 * prediction + rng.normal(0.0, 1.0, 4_000)
    found = realised(y, prediction, None)
    assert found["calibration_slope", None] == pytest.approx(1.5, abs=0.1)
    assert found["calibration_intercept", None] == pytest.approx(0.5, abs=0.1)
    assert found["r2", None] == pytest.approx(1.0 - found["rmse", None] ** 2 / y.var())
    errors = sampling_errors(y, prediction, None, seed=0)
    assert errors["calibration_slope", None] == pytest.approx(1.0 / np.sqrt(4_000), rel=0.5)
    assert set(errors) == set(found)


@pytest.mark.parametrize("name", [*LOGS, *LOGITS, *RESTS, "calibration_slope", "net_benefit"])
def test_scales_without_walls_lead_back(name):
    assert squeezed(name, stretched(name, 0.3)) == pytest.approx(0.3)
    assert np.isfinite([stretched(name, value) for value in (0.0, 1.0)]).all()


class Steps:
    """Every row in [0, 1], and the event where the first feature is positive."""

    def __init__(self, promise=0.1):
        table = SimpleNamespace(mean=np.zeros(2), sd=np.ones(2))
        self.adaptation_ = SimpleNamespace(table=table, promise=promise)

    def predict_interval(self, X, _):
        return np.tile([0.0, 1.0], (len(X), 1))


class Sets(Steps):
    classes_ = (0, 1)

    def predict_set(self, X, _):
        return np.column_stack([X[:, 0] <= 0.0, np.ones(len(X), dtype=bool)])


def test_patients_are_counted_by_quarter_of_distance():
    X = np.column_stack([np.arange(1.0, 9.0), np.zeros(8)])
    y = np.array([0.5] * 6 + [2.0, 2.0])
    found = {each["part_of_rows"]: each for each in patient_lines(Steps(), X, y, 0.9)}
    assert [found[f"quarter {k}"]["covered"] for k in (1, 2, 3, 4)] == [1.0, 1.0, 1.0, 0.0]
    assert (found["all"]["covered"], found["all"]["half_width"]) == (0.75, 0.5)
    X[:4, 0] *= -1.0
    sets = {each["part_of_rows"]: each for each in patient_lines(Sets(), X, np.zeros(8), 0.9)}
    assert (sets["all"]["covered"], sets["all"]["half_width"]) == (0.5, 1.5)
    assert patient_lines(Sets(promise=None), X, np.zeros(8), 0.9) == []


def test_an_interval_is_widened_by_the_sampling_error_of_what_came_true():
    exact = Told.of(line("rmse", true=4.0, estimate=1.0, lower=0.5, upper=2.0))
    assert not exact.covered
    wider = Told.of(
        line("rmse", true=4.0, estimate=1.0, lower=0.5, upper=2.0, true_error=np.log(4.0))
    )
    assert wider.covered
    assert wider.half_width == exact.half_width == 0.75
    assert Told.of(line(estimate=float("nan"))) is None
    assert Told.of(line(measure=None)) is None  # a study that failed


def test_overall_leaves_out_the_target_that_alone_is_odd():
    odd = "label shift at the target alone"
    assert [name for name in VALIDATED if not exchangeable(name)] == [odd]
    lines = [line(), line(family=odd, true=0.5), line(estimate=None)]
    found = {each["family"]: each for each in measure_table(lines)}
    assert found[OVERALL]["coverage"] == 1.0
    assert (found[OVERALL]["answered"], found[OVERALL]["promises"]) == (1, 2)
    assert found[odd]["coverage"] == 0.0


@pytest.fixture
def results(tmp_path):
    measures = [line(), line("rmse", part="numbers", true=9.0), line("ppv", threshold=0.2)]
    rows = ("all", *(f"quarter {k}" for k in (1, 2, 3, 4)))
    patients = [
        {"part": part, "family": "label shift", "seed": 7, "part_of_rows": each}
        | {"covered": share, "half_width": 1.0}
        for part, share in (("events", 0.90), ("numbers", 0.80))
        for each in rows
    ]
    write_packed(tmp_path / "validation_measures.csv.gz", measures)
    write_packed(tmp_path / "validation_patients.csv.gz", patients)
    write_packed(tmp_path / "validation_stroke_measures.csv.gz", [line() | {"true_error": "0.1"}])
    write_packed(tmp_path / "validation_stroke_patients.csv.gz", patients[:5])
    validation_bars.main(["--results", str(tmp_path)])
    return tmp_path


def test_every_bar_is_asked(results):
    told = {each["asked"]: each["met"] for each in read_table(results / "validation_bars.csv")}
    assert told == {
        "coverage of every measure, events": "no",  # more than 0.99
        "coverage of every measure, numbers": "no",
        "error of AUROC over that without weights, covariate shift": "yes",
        "coverage of a patient's set of classes, nominal 0.9": "yes",
        "coverage of a patient's set of classes, farthest quarter": "yes",
        "coverage of a patient's interval, nominal 0.9": "no",
        "coverage of a patient's interval, farthest quarter": "no",
        "stroke trial: coverage of every measure": "yes",
    }


def test_a_bar_over_measures_names_those_that_miss_it():
    found = validation_bars.every("coverage", {"auroc": 0.95, "ppv": 0.85, "npv": 1.0}, 0.9, 0.99)
    assert found["found"] == "0.850 (`ppv`) to 1.000 (`npv`); outside: `ppv`, `npv`"
    assert found["met"] == "no"
    assert validation_bars.every("coverage", {"auroc": 1.0}, 0.88, 1.0)["met"] == "yes"


def test_the_page_is_written_from_the_tables(results):
    page = results / "page.md"
    marks = [f"<!-- begin:{b} --><!-- end:{b} -->" for b in write_validation.BLOCKS]
    page.write_text("\n".join(marks))
    write_validation.main(["--results", str(results), "--page", str(page)])
    assert "| `auroc` | 1.00; ± 0.1; 0.26 | 1.00; ± 0.1; 0.26 |" in page.read_text()
    assert "| numbers | label shift | 0.80 |" in page.read_text()
    assert "2 studies on 1 of 50 fresh seeds, 7 to 7; 0 ended without a model" in page.read_text()


def test_runs_become_one_line_a_measure_and_failed_ones_stay():
    runs = [{"seed": 1, "measures": [{"measure": "a"}, {"measure": "b"}]}, {"seed": 2}]
    expected = [{"seed": 1, "measure": "a"}, {"seed": 1, "measure": "b"}, {"seed": 2}]
    assert exploded(runs, "measures") == expected


def test_the_study_runs_and_knows_its_seeds(tmp_path):
    known_truth.main(["--quick", "--out", str(tmp_path)])
    lines = read_packed(tmp_path / "validation_measures.csv.gz")
    names = {(each["part"], each["measure"]) for each in lines}
    assert {("events", "auroc"), ("events", "net_benefit"), ("numbers", "rmse")} <= names
    assert all(float(each["lower"]) < float(each["upper"]) for each in lines)
    assert all(each["true"] and each["unweighted"] for each in lines)
    patients = read_packed(tmp_path / "validation_patients.csv.gz")
    assert len(patients) == 2 * 5
    assert all(0.8 < float(each["covered"]) <= 1.0 for each in patients)
    assert (known_truth.FULL.first_seed, known_truth.FULL.seeds) == (80_000, 50)
    assert known_truth.FULL.seeds == write_validation.PLANNED
    assert len(list(known_truth.tasks(known_truth.FULL))) == 50 * 11


def test_a_study_that_fails_says_so(monkeypatch):
    def fails(*_):
        raise DataError("Rows must be finite; they are not.")

    monkeypatch.setattr(known_truth, "run_default", fails)
    found = known_truth.run_one("numbers", "label shift", 0, known_truth.QUICK)
    assert found["error"] == "DataError: Rows must be finite; they are not."


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside the project")
def test_countries_are_targets_in_turn(tmp_path):
    stroke_countries.main(["--quick", "--out", str(tmp_path), "--data", str(DATA)])
    lines = read_packed(tmp_path / "validation_stroke_measures.csv.gz")
    assert len({each["site"] for each in lines}) == stroke_countries.QUICK.max_sites
    assert all(float(each["true_error"]) > 0.0 for each in lines if each["measure"] == "auroc")


def test_the_page_shows_the_results_as_they_are():
    write_validation.main(["--check"])
