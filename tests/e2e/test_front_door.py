"""Messy tables go from `study init` to predictions without an edit, from files and in Python."""

import csv
import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

from fedcsa import Columns, FedCSA, Study, load_result
from fedcsa.cli.app import app

DAY = datetime.date(2024, 1, 1)
SOURCES = ("leeds", "turin", "zagreb")


def clinic(seed, rows, *, outcomes=True):
    """Text, dates, flags, missing cells, an id, and patients who come twice."""
    rng = np.random.default_rng(seed)
    patient = np.sort(rng.integers(0, int(rows / 1.3), rows))
    sex = rng.choice(["F", "M"], rows)
    stage = rng.choice(["I", "II", "III"], rows, p=[0.5, 0.3, 0.2])
    glucose = np.round(rng.normal(7.0, 1.5, rows), 1)
    smoker = rng.uniform(size=rows) < 0.3
    seen = rng.integers(0, 365, rows)
    lost = rng.uniform(size=rows) < 0.1
    logit = 0.6 * (glucose - 7.0) * ~lost + 0.8 * (stage == "III") + 0.5 * smoker - 0.7
    died = rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(-logit))
    table = {
        "visit": [f"v{seed}-{i}" for i in range(rows)],
        "patient": [f"p{seed}-{i}" for i in patient],
        "seen": [(DAY + datetime.timedelta(int(d))).isoformat() for d in seen],
        "sex": sex.tolist(),
        "stage": stage.tolist(),
        "smoker": ["true" if flag else "false" for flag in smoker],
        "glucose": ["" if gone else str(value) for gone, value in zip(lost, glucose, strict=True)],
    }
    return {**table, "died": np.where(died, "yes", "no").tolist()} if outcomes else table


TABLES = {
    **{name: clinic(seed, 260) for seed, name in enumerate(SOURCES)},
    "new": clinic(9, 150, outcomes=False),
}


def write(path, table):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def succeed(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, f"{words}: {result.output} {result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which everything was done from the command line."""
    folder = tmp_path_factory.mktemp("clinic")
    for name, table in TABLES.items():
        write(folder / f"{name}.csv", table)
    study, files = folder / "study.toml", [folder / f"{name}.csv" for name in TABLES]
    succeed("study", "init", *files, "--target", folder / "new.csv", "-o", study)
    succeed("check", study)
    succeed("run", study, "--out", folder / "result")
    succeed("report", folder / "result", "--out", folder / "report.html")
    succeed("predict", folder / "result", folder / "new.csv", "--out", folder / "predicted.csv")
    return folder


def test_every_kind_is_recognised(folder):
    study = Study.load(folder / "study.toml")
    kinds = {feature.name: feature.kind for feature in study.features}
    assert kinds == {
        "visit": "id",
        "patient": "group",
        "seen": "date",
        "sex": "levels",
        "stage": "levels",
        "smoker": "flag",
        "glucose": "number",
    }
    glucose = next(f for f in study.features if f.name == "glucose")
    assert glucose.missing == "indicator"
    assert (study.outcome.name, study.outcome.levels) == ("died", ("no", "yes"))
    assert [*study.sources] == list(SOURCES)


def test_the_predictions_carry_the_id(folder):
    with (folder / "predicted.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["visit"] for row in rows] == TABLES["new"]["visit"]
    assert all(0.0 < float(row["probability=yes"]) < 1.0 for row in rows)
    assert "AUROC" in (folder / "report.html").read_text(encoding="utf-8")


def typed(table):
    """The columns as a frame holds them: dates, flags and numbers of their own types."""
    own = {name: list(cells) for name, cells in table.items()}
    own["seen"] = [datetime.date.fromisoformat(cell) for cell in own["seen"]]
    own["smoker"] = [cell == "true" for cell in own["smoker"]]
    own["glucose"] = [float(cell) if cell else None for cell in own["glucose"]]
    return own


def as_pandas(own):
    frame = pd.DataFrame(own)
    frame["seen"] = pd.to_datetime(frame["seen"])
    return frame


FRAMES = {"pandas": as_pandas, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_give_the_same_bits_as_files(folder, kind):
    frames = {name: FRAMES[kind](typed(table)) for name, table in TABLES.items()}
    columns = Columns.infer(frames, outcome="died")
    assert columns.described == Study.load(folder / "study.toml").coding.described
    sources = {}
    for name in SOURCES:
        y = np.array(TABLES[name]["died"])
        frame = frames[name]
        rows = (
            frame.drop(columns="died")
            if kind == "pandas"
            else (frame.drop("died") if kind == "polars" else frame.drop_columns(["died"]))
        )
        sources[name] = (rows, y)
    ours = FedCSA(
        LogisticRegression(solver="newton-cholesky"),
        candidates={"C": [0.01, 0.1, 1.0, 10.0]},
        columns=columns,
        loss="brier",
        random_state=1,
    ).fit(sources, frames["new"])
    theirs = load_result(folder / "result")
    assert ours.target_risk_ == theirs.target_risk
    with (folder / "predicted.csv").open(encoding="utf-8") as file:
        told = [float(row["probability=yes"]) for row in csv.DictReader(file)]
    np.testing.assert_array_equal(ours.predict_proba(frames["new"])[:, 1], told)


def test_nothing_is_written_over(folder):
    study = folder / "study.toml"
    before = study.read_bytes()
    words = ["study", "init", str(folder / "leeds.csv"), "--target", str(folder / "new.csv")]
    refused = CliRunner().invoke(app, [*words, "-o", str(study)])
    assert (refused.exit_code, study.read_bytes()) == (3, before)
    assert "--force" in refused.stderr
    told = json.loads(succeed(*words, "-o", study, "--force", "--json"))
    assert [*told["sources"]] == ["leeds"]
    study.write_bytes(before)
