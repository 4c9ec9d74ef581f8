"""A result saved in Python predicts tables with texts, dates and gaps as the live one does."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

from fedcsa import Columns, FedCSA, load_result
from fedcsa.cli.app import app

COLUMNS = {
    "visit": "id",
    "age": {"missing": "indicator", "fill": 60.0},
    "sex": ["F", "M"],
    "admitted": {"kind": "date", "since": "2024-01-01"},
}


def frame(n, seed):
    rng = np.random.default_rng(seed)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.normal(60.0, 10.0, n).round(2))
    day = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    sex = np.where(rng.random(n) < 0.5, "M", "F")
    return pd.DataFrame(
        {"admitted": day, "sex": sex, "age": age, "visit": [f"v{k}" for k in range(n)]}
    )


def outcome(rows, seed):
    level = np.nan_to_num(rows["age"].to_numpy(), nan=60.0) / 10.0 + (rows["sex"] == "M")
    return level.to_numpy() + np.random.default_rng(seed).normal(size=len(rows))


def command(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code in (0, 5, 6), done.output
    return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """By kind: the live estimator, and the folder of its result."""
    root, found = tmp_path_factory.mktemp("saved"), {}
    sites = {name: frame(150, k) for k, name in enumerate("abc")}
    cases = {
        "number": (FedCSA(columns=COLUMNS, candidates=[0.1], random_state=0), None),
        "class": (
            FedCSA(LogisticRegression(), columns=Columns(COLUMNS), random_state=0),
            np.array(["no", "yes"]),
        ),
    }
    for kind, (study, labels) in cases.items():
        ys = {name: outcome(rows, k) for k, (name, rows) in enumerate(sites.items())}
        if labels is not None:
            ys = {name: labels[(y > 6.5).astype(int)] for name, y in ys.items()}
        study.fit({name: (sites[name], ys[name]) for name in sites}, frame(120, 9))
        study.save(root / kind)
        found[kind] = study, root / kind
    return found


@pytest.mark.parametrize("kind", ["number", "class"])
def test_the_saved_result_predicts_what_the_live_one_predicts(saved, tmp_path, kind):
    study, folder = saved[kind]
    rows, again = frame(40, 11), load_result(folder)
    assert again.columns == study.adaptation_.columns
    np.testing.assert_array_equal(again.predict(rows), study.predict(rows))
    rows.to_csv(tmp_path / "later.csv", index=False)
    told = json.loads(command("predict", folder, tmp_path / "later.csv", "--json"))
    assert told["visit"] == rows["visit"].tolist()
    assert told["prediction"] == study.predict(rows).tolist()
    if kind == "class":
        np.testing.assert_array_equal(again.predict_proba(rows), study.predict_proba(rows))
        assert told["probability=yes"] == study.predict_proba(rows)[:, 1].tolist()


@pytest.mark.parametrize("kind", ["number", "class"])
def test_outcomes_of_a_saved_result_come_from_tables(saved, tmp_path, kind):
    _, folder = saved[kind]
    frame(80, 12).to_csv(tmp_path / "rows.csv", index=False)
    drawn = tmp_path / "charts.csv"
    command("followup", folder, tmp_path / "rows.csv", "--n", "12", "--out", drawn)
    charts = pd.read_csv(drawn)
    y = outcome(charts, 13)
    charts["outcome"] = y if kind == "number" else np.where(y > 6.5, "yes", "no")
    charts.to_csv(drawn, index=False)
    told = json.loads(command("update", folder, drawn, "--json"))
    assert told["n_rows"] == 12


def test_a_saved_result_of_plain_numbers_finds_them_by_name(tmp_path):
    rng = np.random.default_rng(3)
    sites = {}
    for name in "ab":
        X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["p", "q"])
        sites[name] = X, (X["p"] > 0).astype(float)
    new = pd.DataFrame(rng.normal(size=(30, 2)), columns=["p", "q"])
    study = FedCSA(LogisticRegression(), random_state=0).fit(sites, new)
    study.save(tmp_path / "r")
    again = load_result(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(new[["q", "p"]]), study.predict(new))
    np.testing.assert_array_equal(again.predict(new.to_numpy()), study.predict(new))
    new[["q", "p"]].to_csv(tmp_path / "t.csv", index=False)
    told = json.loads(command("predict", tmp_path / "r", tmp_path / "t.csv", "--json"))
    assert told["prediction"] == study.predict(new).tolist()


def test_columns_that_are_not_those_of_the_features_are_damage(saved, tmp_path):
    import shutil

    from fedcsa.errors import ResultError

    shutil.copytree(saved["number"][1], tmp_path / "r")
    path = tmp_path / "r" / "adaptation.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["columns"]["features"].pop("sex")
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ResultError, match="damaged"):
        load_result(tmp_path / "r")


def test_saving_warns_where_the_folder_will_hold_no_models(tmp_path):
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(4)
    sites = {name: (rng.normal(size=(40, 2)), rng.normal(size=40)) for name in "ab"}
    study = FedCSA(KNeighborsRegressor(3), random_state=0).fit(sites, rng.normal(size=(30, 2)))
    with pytest.warns(UserWarning, match="The result keeps no models, so nothing can be predicted"):
        study.save(tmp_path / "r")
