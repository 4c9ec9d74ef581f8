"""From CSV files that a clinic would export to predictions, by the command line alone."""

import csv
import gzip
import io
import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fedcsa import FedCSA, load_result
from fedcsa.cli.app import app

STUDY = """
name = "stroke"
seed = 4
missing_values = ["?"]

[outcome]
name = "bad"
levels = ["no", "yes"]

[features]
age = "number"
sex = { levels = ["F", "M"] }
pressure = { kind = "number", missing = "indicator", fill = 140 }

[model]
name = "sklearn.linear_model.LogisticRegression"
parameters = { max_iter = 1000 }

[candidates]
C = [0.1, 10.0]

[target]
table = "tables/new.csv"

[sources.Leeds]
table = "tables/leeds.csv"

[sources.Turin]
table = "tables/turin.csv.gz"

[sources."St. Élie"]
table = "tables/elie.csv"
"""


def patients(rng, age, rows, offset=0.0):
    """Rows of a clinic's table, and the chance of a bad outcome of each."""
    years = np.round(rng.normal(age, 9.0, rows), 1)
    sex = rng.choice(["F", "M"], rows)
    pressure = np.round(rng.normal(140.0, 20.0, rows))
    lost = rng.uniform(size=rows) < 0.1
    logit = 0.12 * (years - 65.0) + 0.8 * (sex == "M") + 0.02 * (pressure - 140.0) * ~lost
    chance = 1.0 / (1.0 + np.exp(-(logit + offset)))
    bad = np.where(rng.uniform(size=rows) < chance, "yes", "no")
    cells = ["?" if gone else str(value) for gone, value in zip(lost, pressure, strict=True)]
    return {
        "id": [f"p{i}" for i in range(rows)],
        "age": years.tolist(),
        "sex": sex.tolist(),
        "pressure": cells,
        "bad": bad.tolist(),
    }, chance


def write(path, columns):
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    data = text.getvalue().encode("utf-8-sig")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def by_hand(columns):
    """What the study file says of the columns, done by hand."""
    rows = []
    for age, sex, pressure in zip(columns["age"], columns["sex"], columns["pressure"], strict=True):
        gone = pressure == "?"
        value = 140.0 if gone else float(pressure)
        rows.append([age, float(sex == "M"), value, float(gone)])
    return np.array(rows)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "tables").mkdir()
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    rng = np.random.default_rng(12)
    tables = {
        "leeds.csv": patients(rng, 62.0, 220),
        "turin.csv.gz": patients(rng, 70.0, 160),
        "elie.csv": patients(rng, 66.0, 190),
        "later.csv": patients(rng, 67.0, 240),
        "moved.csv": patients(rng, 67.0, 240, offset=-7.0),
    }
    for name, (columns, _) in tables.items():
        write(folder / "tables" / name, columns)
    new, chance = patients(rng, 67.0, 110)
    new.pop("bad")
    write(folder / "tables" / "new.csv", new)
    return folder, tables, new, chance


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.stderr or result.stdout
    assert result.stderr == ""
    return result.stdout


def test_a_fresh_study_goes_from_files_to_predictions(clinic):
    folder, tables, new, chance = clinic
    study, result = folder / "study.toml", folder / "result"

    unused = "1 column of your tables is not used: id.\n"
    assert call("check", study).startswith(f"{unused}Nothing stands in the way. Next: fedcsa run ")
    told = call("run", study, "--out", result)
    assert "for a new site" in told

    # The same by hand, in Python.
    names = {"Leeds": "leeds.csv", "Turin": "turin.csv.gz", "St. Élie": "elie.csv"}
    sources = {
        name: (by_hand(tables[file][0]), np.array(tables[file][0]["bad"]))
        for name, file in names.items()
    }
    estimator = FedCSA(LogisticRegression(max_iter=1000), {"C": [0.1, 10.0]}, random_state=4)
    estimator.fit(sources, by_hand(new))
    stored = load_result(result)
    assert stored.plan.features == ("age", "sex=M", "pressure", "pressure=missing")
    assert stored.target_risk == estimator.target_risk_
    assert stored.verdict.words == estimator.verdict_ == "use it"
    for name, found in estimator.examinations_.items():
        assert stored.examinations[name].risk == found.risk
    assert dict(stored.source_weights) == estimator.source_weights_
    low, high = stored.interval
    assert low < float(np.mean(chance * (1.0 - chance))) < high  # the Bayes risk of these rows

    call("predict", result, folder / "tables" / "new.csv", "--out", folder / "p.csv")
    with (folder / "p.csv").open(encoding="utf-8", newline="") as file:
        predicted = list(csv.DictReader(file))
    p = np.array([float(row["probability=yes"]) for row in predicted])
    assert np.array_equal(p, estimator.predict_proba(by_hand(new))[:, 1])
    assert [row["prediction"] for row in predicted] == np.where(p > 0.5, "yes", "no").tolist()
    assert np.corrcoef(p, chance)[0, 1] > 0.9

    backtest = json.loads(call("backtest", study, "--result", result, "--json"))
    assert backtest["verdict"] == "passed"
    assert [row["source"] for row in backtest["rows"]] == ["Leeds", "St. Élie", "Turin"]
    assert load_result(result).status == "use it"

    later = folder / "tables" / "later.csv"
    kept = json.loads(call("update", result, later, "--json"))
    assert (kept["conclusion"], kept["n_rows"]) == ("as promised", 240)
    call("predict", result, later, "--out", folder / "later.parquet")
    labels = np.array(tables["later.csv"][0]["bad"]) == "yes"
    score = estimator.predict_proba(by_hand(tables["later.csv"][0]))[:, 1]
    assert roc_auc_score(labels, score) > 0.7
    realised, _, _ = kept["measures"][0]["alone"]
    assert realised == pytest.approx(np.mean((score - labels) ** 2), rel=0.1)  # weighted, if at all

    moved = folder / "tables" / "moved.csv"
    broken = json.loads(call("update", result, moved, "--anew", "--json", code=6))
    assert broken["conclusion"] == "worse than promised"
    assert broken["verdict"]["advice"] == "no"  # which says more than a broken promise

    ledger = json.loads(call("ledger", result, "--json"))
    assert set(ledger) == {"target", "Leeds", "Turin", "St. Élie"}
    for site, entries in ledger.items():
        shapes = [f["shape"] for e in entries for f in e["fields"]]
        rows = {110, 220, 160, 190}
        assert not any(set(shape) & rows for shape in shapes), site


def test_a_table_1_stands_for_the_targets_rows(clinic):
    folder, _, new, _ = clinic
    study, table1 = folder / "study.toml", folder / "table1.csv"
    rows = folder / "tables" / "new.csv"
    told = json.loads(call("table", rows, "--study", study, "--out", table1, "--json"))
    assert told["n_rows"] == 110
    text = STUDY.replace('table = "tables/new.csv"', 'table1 = "table1.csv"')
    (folder / "told.toml").write_text(text, encoding="utf-8")
    call("run", folder / "told.toml", "--out", folder / "told")
    if not (folder / "result").exists():
        call("run", study, "--out", folder / "result")
    stored, by_table = load_result(folder / "result"), load_result(folder / "told")
    for name, report in stored.reports.items():
        assert by_table.reports[name].risk.tolist() == report.risk.tolist()
    assert by_table.candidate == stored.candidate
    assert by_table.interval == pytest.approx(stored.interval, rel=0.1)
    call("predict", folder / "told", rows, "--out", folder / "q.csv")
    with (folder / "q.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(new["age"])


def test_no_patient_is_in_the_result(clinic):
    folder, tables, new, _ = clinic
    result = folder / "result"
    if not result.exists():
        call("run", folder / "study.toml", "--out", result)
    text = "".join(
        path.read_bytes().decode("utf-8", "replace") for path in result.rglob("*") if path.is_file()
    )
    for columns in (new, *(columns for columns, _ in tables.values())):
        lines = zip(columns["age"], columns["sex"], columns["pressure"], strict=True)
        assert not any(f"{age},{sex},{pressure}" in text for age, sex, pressure in lines)
    assert "p17" not in text
