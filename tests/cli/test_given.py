"""The commands about given models."""

import json

import numpy as np
import pytest

from fedcsa import load_formula
from fedcsa.models.given import read_file_model

STUDY = """
name = "score"
seed = 1
[outcome]
name = "y"
levels = [0, 1]
[features]
x0 = "number"
x1 = "number"
[model]
name = "given"
column = "risk"
[target]
table = "target.csv"
predictions = "risk"
"""
FORMULA = 'link = "logit"\nintercept = -1.0\n[terms]\nx0 = 1.0\nx1 = 0.5\n'


@pytest.fixture
def study(tmp_path):
    rng, text = np.random.default_rng(0), STUDY
    for k, name in enumerate(("a", "b", "c", "target")):
        X = rng.normal(0.1 * k, 1.0, (200, 2))
        p = 1.0 / (1.0 + np.exp(1.0 - X @ [1.0, 0.5]))
        rows = zip(*X.T.tolist(), p.tolist(), (rng.random(200) < p).astype(int), strict=True)
        lines = [f"{x0!r},{x1!r},{risk!r},{y}" for x0, x1, risk, y in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x0,x1,risk,y", *lines]))
        text += f'[sources.{name}]\ntable = "{name}.csv"\n' if name != "target" else ""
    (tmp_path / "study.toml").write_text(text)
    (tmp_path / "score.toml").write_text(FORMULA)
    return tmp_path / "study.toml"


def test_evaluate_says_what_run_says(invoke, study, tmp_path):
    ran = invoke("run", study, "--out", tmp_path / "r1", "--json")
    judged = invoke("evaluate", study, "--out", tmp_path / "r2", "--json")
    assert (judged.exit_code, judged.stdout) == (ran.exit_code, ran.stdout)
    assert judged.exit_code == 0
    assert (tmp_path / "r2" / "report.html").is_file()
    shown = invoke("evaluate", study, "--out", tmp_path / "r2")
    assert "Result in" in shown.stdout


def test_another_model_is_judged_on_the_same_tables(invoke, study, tmp_path):
    given = (
        "evaluate",
        study,
        "--model",
        tmp_path / "score.toml",
        "--out",
        tmp_path / "r",
        "--json",
    )
    assert invoke(*given).exit_code == 0
    kept = [json.loads((tmp_path / name / "adaptation.json").read_text()) for name in ("r",)]
    assert "sha256" in kept[0]["plan"]["model"]
    told = invoke("convert", tmp_path / "r", "--out", tmp_path / "back.toml")
    assert "2 columns" in told.stdout
    assert load_formula(tmp_path / "back.toml") == load_formula(tmp_path / "score.toml")


def test_a_study_that_fits_its_model_is_not_evaluated(invoke, study):
    text = study.read_text().replace(
        '"given"\ncolumn = "risk"', '"sklearn.linear_model.LogisticRegression"'
    )
    study.write_text(text)
    result = invoke("evaluate", study)
    assert result.exit_code == 3
    assert "this one fits one" in result.stderr


def test_convert_writes_what_studies_read(invoke, tmp_path, request):
    booster = request.path.parents[1] / "models" / "foreign" / "xgboost-two.json"
    out = tmp_path / "model.json"
    result = invoke("convert", booster, "--columns", "age, sex=M, crp", "--out", out, "--json")
    assert json.loads(result.stdout) == {"file": str(out), "columns": 3}
    assert read_file_model(out).columns == ("age", "sex=M", "crp")
    again = invoke("convert", booster, "--out", out)
    assert again.exit_code == 3
    assert "already exists" in again.stderr
