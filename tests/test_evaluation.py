"""A given model is judged alike however it is given; nothing is fitted and no model leaves."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import fedcsa
from fedcsa import (
    DataError,
    FedCSA,
    Formula,
    ModelError,
    ParameterError,
    Policy,
    Source,
    Study,
    StudyError,
    Table1,
    Target,
    Term,
    convert,
    evaluate,
    load_result,
    save_result,
)
from fedcsa.backtest import run_backtest
from fedcsa.errors import MessageError, NoSourcesError
from fedcsa.messages.codec import digest_of
from fedcsa.messages.messages import ModelRequest
from fedcsa.models.description import given_description
from fedcsa.models.given import model_digest
from fedcsa.plan import make_plan
from fedcsa.run import InProcess, run_study
from fedcsa.study.formula_file import formula_text
from fedcsa.study.model_section import agreed_text

NAMES = ("a", "b", "c", "d")
HEAD = """
name = "score"
seed = 1
[outcome]
name = "y"
levels = [0, 1]
[features]
x0 = "number"
x1 = "number"
"""


def hospital(mean, rows, rng):
    X = rng.normal(mean, 1.0, (rows, 2))
    return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(1.0 - X @ [1.0, 0.5]))).astype(int)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    sources = {name: hospital(0.1 * k, 250, rng) for k, name in enumerate(NAMES)}
    return sources, hospital(0.2, 200, rng)[0], LogisticRegression().fit(*hospital(0.0, 400, rng))


@pytest.fixture(scope="module")
def judged(made):
    sources, X_target, model = made
    return evaluate(model, sources, X_target, random_state=1)


def typed_in(model):
    terms = [Term(f"x{k}", float(b)) for k, b in enumerate(model.coef_.ravel())]
    return Formula(tuple(terms), float(model.intercept_[0]), "logit", title="typed in")


def assert_same(found, wanted):
    assert found.verdict.words == wanted.verdict.words
    for name, value in vars(wanted.promise).items():
        if name == "examined_by":
            assert found.promise.examined_by == value
        else:
            assert getattr(found.promise, name) == pytest.approx(value, rel=1e-9, abs=1e-12), name
    for name, report in wanted.examinations.items():
        own = found.examinations[name]
        for field in ("risk", "risk_variance", "constant_risk", "ratio_variance"):
            assert getattr(own, field) == pytest.approx(getattr(report, field), rel=1e-9)
        np.testing.assert_allclose(own.level, report.level, rtol=1e-9)
        np.testing.assert_allclose(own.scores, report.scores, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(own.score_sums, report.score_sums, rtol=1e-9, atol=1e-12)


def write_tables(folder, made, named):
    """The tables of a study; `named` is what every site calls its column of predictions."""
    sources, X_target, model = made
    for name, (X, y) in {**sources, "target": (X_target, None)}.items():
        columns = {"x0": X[:, 0], "x1": X[:, 1], named[name]: model.predict_proba(X)[:, 1]}
        columns |= {} if y is None else {"y": y}
        with (folder / f"{name}.csv").open("w") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    named = {name: f"RISK_{name}" for name in (*NAMES, "target")} | {"a": "risk"}
    write_tables(folder, made, named)
    (folder / "score.toml").write_text(formula_text(typed_in(made[2])))
    convert(made[2], folder / "score.json", ["x0", "x1"])
    tables = "".join(
        f'[sources.{n}]\ntable = "{n}.csv"\n'
        + (f'predictions = "{named[n]}"\n' if n != "a" else "")
        for n in NAMES
    )
    ways = {"formula": 'formula = "score.toml"', "file": 'file = "score.json"',
            "column": 'column = "risk"'}  # fmt: skip
    for way, line in ways.items():
        target = 'table = "target.csv"\n' + (
            'predictions = "RISK_target"' if way == "column" else ""
        )
        model = f'[model]\nname = "given"\n{line}\n[target]\n{target}\n'
        (folder / f"{way}.toml").write_text(HEAD + model + tables)
    return folder


def test_typed_in_as_a_column_and_as_an_estimator_it_is_judged_alike(made, judged):
    sources, X_target, model = made
    p = {name: model.predict_proba(X)[:, 1] for name, (X, _) in sources.items()}
    triples = {name: (X, y, p[name]) for name, (X, y) in sources.items()}
    own = model.predict_proba(X_target)[:, 1]
    assert_same(evaluate(typed_in(model), sources, X_target, random_state=1), judged)
    column = evaluate(None, triples, X_target, predictions=own, random_state=1)
    assert_same(column, judged)
    without = evaluate(None, triples, X_target, random_state=1)
    assert without.promise == column.promise, "whether or not the target has predictions itself"


@pytest.mark.parametrize("way", ["formula", "file", "column"])
def test_a_study_file_judges_a_model_given_in_any_way(folder, judged, way):
    study = Study.load(folder / f"{way}.toml")
    assert study.problems() == []
    assert Study.parse(study.to_toml(), folder=folder) == study
    found = study.run()
    assert_same(found, judged)
    assert_same(study.run(stream=True), judged)
    assert set(found.models) == (set() if way == "column" else {"given"})


def test_no_model_leaves_a_source_and_none_is_fitted(judged):
    told = {site: [entry.message for entry in entries] for site, entries in judged.ledgers.items()}
    for name in NAMES:
        assert told[name] == ["risk-report", "examination-report"]
    assert set(told["target"]) == {"brief", "examination"}
    assert (judged.kept, judged.estimates, dict(judged.candidate)) == ((), {}, {})
    assert sum(judged.source_weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("way", ["formula", "file", "column"])
def test_a_result_is_kept_and_read_again(folder, way, made, tmp_path):
    study = Study.load(folder / f"{way}.toml")
    found = study.run()
    again = load_result(save_result(found, tmp_path / "result", study.to_toml()))
    assert (again.promise, again.verdict) == (found.promise, found.verdict)
    if way == "column":
        with pytest.raises(ModelError, match="judged a column of predictions"):
            again.predict(made[1])
    else:
        wanted = made[2].predict_proba(made[1])
        np.testing.assert_allclose(again.predict_proba(made[1]), wanted, rtol=1e-9)


def test_an_estimator_finds_its_columns_and_classes_by_name(made):
    pd = pytest.importorskip("pandas")
    sources, X_target, _ = made
    frames = {
        name: (pd.DataFrame({"p": X[:, 0], "q": X[:, 1]}), np.array(["no", "yes"])[y])
        for name, (X, y) in sources.items()
    }
    turned = pd.concat([f[["q", "p"]] for f, _ in frames.values()])
    labels = np.concatenate([y for _, y in frames.values()])
    tree = DecisionTreeClassifier(max_depth=3).fit(turned, labels)
    target = pd.DataFrame({"p": X_target[:, 0], "q": X_target[:, 1]})
    found = evaluate(tree, frames, target, random_state=0)
    assert found.plan.classes == ("no", "yes")
    np.testing.assert_array_equal(
        found.predict_proba(X_target), tree.predict_proba(target[["q", "p"]])
    )
    with pytest.raises(ModelError, match="Unknown column 'q'"):
        evaluate(tree, sources, X_target)


def test_a_number_is_judged_too(made):
    rng = np.random.default_rng(3)
    sources = {n: (X, X @ [1.0, 2.0] + rng.normal(size=len(X))) for n, (X, _) in made[0].items()}
    model = LinearRegression().fit(*sources["a"])
    found = evaluate(model, sources, made[1], random_state=0)
    triples = {n: (X, y, model.predict(X)) for n, (X, y) in sources.items()}
    assert_same(evaluate(None, triples, made[1], random_state=0), found)
    path_free = Formula(
        tuple(Term(f"x{k}", b) for k, b in enumerate(model.coef_)), model.intercept_
    )
    assert_same(FedCSA(random_state=0).evaluate(path_free, sources, made[1]), found)


@pytest.mark.parametrize(
    ("model", "kind", "words"),
    [
        ("nonsense", StudyError, "no converted model|does not exist|cannot be read"),
        (3, ParameterError, "a fitted estimator, a formula, a path"),
        (LogisticRegression, ParameterError, "a fitted estimator"),
        (Formula((Term("x9"),), link="logit"), ModelError, "Unknown column 'x9'"),
        (Formula((Term("x0", log=True),), link="logit"), ModelError, "does not predict a finite"),
    ],
    ids=range(5),
)
def test_what_is_no_model_for_the_study_is_refused(made, model, kind, words):
    kinds = (kind, ModelError)
    with pytest.raises(kinds, match=words):
        evaluate(model, made[0], made[1])


def test_predictions_that_are_none_are_refused(made):
    sources, X_target, _ = made
    with pytest.raises(DataError, match=r"must be \(X, y, predictions\)"):
        evaluate(None, sources, X_target)
    short = {n: (X, y, y[1:] * 0.5) for n, (X, y) in sources.items()}
    rowless = {n: (X[1:], y, y * 0.5) for n, (X, y) in sources.items()}
    with pytest.raises(DataError, match="one prediction for every row of X"):
        evaluate(None, rowless, X_target)
    with pytest.raises(DataError, match="one prediction for every outcome"):
        evaluate(None, short, X_target)
    percent = {n: (X, y, y * 50.0) for n, (X, y) in sources.items()}
    with pytest.raises(DataError, match="Divide percentages by 100"):
        evaluate(None, percent, X_target)
    good = {n: (X, y, y * 0.5) for n, (X, y) in sources.items()}
    with pytest.raises(DataError, match="one per row"):
        evaluate(None, good, X_target, predictions=np.zeros(3))
    with pytest.raises(DataError, match="Divide percentages by 100"):
        evaluate(None, good, X_target, predictions=np.full(len(X_target), 50.0))
    words = {n: (X, y, ["high"] * len(y)) for n, (X, y) in sources.items()}
    with pytest.raises(DataError, match="predictions of source 'a' must be numbers"):
        evaluate(None, words, X_target)
    with pytest.raises(DataError, match="predictions of the target must be numbers"):
        evaluate(None, good, X_target, predictions="high")
    with pytest.raises(ParameterError, match="a list of triples"):
        evaluate(None, None, X_target)


class Probabilities:
    """A classifier that gives whatever `change` makes of good probabilities."""

    classes_ = np.array([0, 1])

    def __init__(self, model, change):
        self.predict, self.model, self.change = model.predict, model, change

    def predict_proba(self, X):
        return self.change(self.model.predict_proba(X))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p[:, 1], r"of shape \(200,\)"),
        (lambda p: p[:, 1:], "has 2 classes"),
        (lambda p: p[:-1], "for every row"),
        (lambda p: 100.0 * p, "sum to 1"),
        (lambda p: p * [-1.0, 1.0], "not negative"),
    ],
    ids=["one axis", "one column", "a row too few", "percent", "negative"],
)
def test_probabilities_that_are_none_are_refused(made, change, words):
    sources, X_target, model = made
    with pytest.raises(ModelError, match=words):
        evaluate(Probabilities(model, change), sources, X_target)
    # A target of a table alone does not ask the model itself.
    table = Table1.of(X_target, ("x0", "x1"), (False, False))
    found = evaluate(Probabilities(model, change), sources, table, random_state=0)
    assert found.promise is None
    assert found.verdict.words == "do not use it"
    assert "cannot predict the rows of any source" in found.verdict.sentence


def test_a_classifier_without_probabilities_is_told_what_to_do(made):
    sources, X_target, _ = made
    with pytest.raises(ModelError, match="CalibratedClassifierCV"):
        evaluate(LinearSVC().fit(*sources["a"]), sources, X_target)


@pytest.mark.parametrize("way", ["estimator", "formula", "column"])
def test_no_event_at_any_source_is_a_named_outcome(made, way):
    sources, X_target, model = made
    none = {name: (X, 0 * y) for name, (X, y) in sources.items()}
    given = {"estimator": model, "formula": typed_in(model), "column": None}[way]
    if way == "column":
        none = {n: (X, y, model.predict_proba(X)[:, 1]) for n, (X, y) in none.items()}
    found = evaluate(given, none, X_target, random_state=0, thresholds=[0.3])
    assert found.plan.classes == (0, 1)
    reasons = {f.evidence["reason"] for f in found.findings if f.code == "not-examined"}
    assert reasons == {"outcomes_alike"}
    assert not [f for f in found.findings if f.code == "only-one-class"]  # nobody has others
    assert found.verdict.words == "not judged"
    assert found.verdict.sentence == "nobody could examine the given model"
    assert found.promise is None


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_score_that_ranks_backwards_is_named(made, sign):
    sources, X, _ = made
    terms = tuple(Term(f"x{i}", sign * slope) for i, slope in enumerate((1.0, 0.5)))
    found = evaluate(Formula(terms, intercept=-1.0, link="logit"), sources, X)
    named = [f.evidence["auroc"] < 0.5 for f in found.findings if f.code == "ranks-backwards"]
    assert named == ([True] if sign < 0.0 else [])


def test_scores_that_are_the_same_everywhere_make_a_calibration_plot(made):
    sources, X_target, _ = made
    certain = {n: (X, y, (X[:, 0] > 0.5).astype(float)) for n, (X, y) in sources.items()}
    found = evaluate(None, certain, X_target, random_state=0)
    [curve] = found.calibration
    assert curve.predicted == pytest.approx((0.0, 1.0))
    assert sum(curve.share) == pytest.approx(1.0)


# The plan and the questions ----------------------------------------------------------------------


def plan_of(description, **changes):
    options = {"seed": 1, **changes.pop("options", {})}
    columns = {"features": ("x0", "x1"), "classes": (0, 1), **changes}
    return make_plan(description, columns.pop("candidates", None), options, **columns)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"method": "naive"}}, "left out with a given model"),
        ({"options": {"combine": "median"}}, "'mean' with a given model"),
        ({"options": {"compare": ["naive"]}}, "with a given model"),
        ({"options": {"exchange": "rows"}}, "exchange='table'"),
        ({"candidates": [{"penalty": 1.0}]}, "nothing is fitted"),
        ({"classes": (0, 1, 2)}, "a number or two classes"),
        ({"features": ("x0", "risk")}, "no feature"),
    ],
    ids=str,
)
def test_options_that_a_given_model_has_no_use_for_are_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        plan_of(given_description(column="risk"), **changes)


@pytest.mark.parametrize(
    "model",
    [{"name": "given"}, {"name": "given", "sha256": "0", "column": "x"}, {"name": "given", "a": 1}],
    ids=str,
)
def test_a_given_model_is_described_in_one_way(model):
    with pytest.raises(ParameterError):
        plan_of(model)


def test_the_method_given_needs_a_given_model():
    with pytest.raises(ParameterError, match="one for a model that is fitted"):
        plan_of("ridge", options={"method": "given"}, classes=())


def roles(made, description, given, **changes):
    sources, X_target, model = made
    plan = plan_of(description)
    names = ["x0", "x1", *filter(None, [description.get("column")])]
    policy = replace(Policy.open(), **changes)
    own = [
        Source(n, np.column_stack([X, model.predict_proba(X)[:, 1]])[:, : len(names)], y,
               features=names, policy=policy)
        for n, (X, y) in sources.items()
    ]  # fmt: skip
    return Target(X_target, plan, policy=Policy.open(), given=given), own


def test_a_target_without_the_agreed_model_announces_nothing(made):
    model = typed_in(made[2]).model(["x0", "x1"], 2)
    other = Formula((Term("x0", 1.0),), link="logit").model(["x0", "x1"], 2)
    agreed = given_description(sha256=model_digest(model))
    for given, words in ((None, "must have the given model"), (other, "its digest is another")):
        target, _ = roles(made, agreed, given)
        with pytest.raises(ModelError, match=words):
            target.brief(["a"])


def test_a_source_examines_the_agreed_model_only_and_once(made):
    model = typed_in(made[2]).model(["x0", "x1"], 2)
    other = Formula((Term("x0", 1.0),), link="logit").model(["x0", "x1"], 2)
    target, sources = roles(made, given_description(sha256=model_digest(model)), model)
    brief = target.brief(NAMES)
    reports = {source.name: source.answer(brief) for source in sources}
    assert all(len(report.risk) == 0 for report in reports.values())
    target.choose(reports)
    assert target.asked == []
    asked = target.mix({})["a"]
    wrong = replace(asked, forms=[other.form],
                    arrays={f"0.{k}": v for k, v in other.arrays.items()})  # fmt: skip
    with pytest.raises(MessageError, match="its digest is another"):
        sources[0].answer(wrong)
    beside = {f"0.{k}": np.stack([v, other.arrays[k]]) for k, v in asked.members[0][1].items()}
    smuggled = replace(asked, weights=np.full(2, 0.5), arrays=beside)  # the agreed one comes first
    with pytest.raises(MessageError, match="must hold one"):
        sources[0].answer(smuggled)
    own = replace(asked, forms=[], arrays={}, weights=np.empty(0), own_weight=1.0)
    with pytest.raises(MessageError, match="must hold it"):
        sources[0].answer(own)
    with pytest.raises(MessageError, match="must ask for no other"):
        sources[0].answer(ModelRequest(brief.study, digest_of(brief), 0))
    found = sources[0].answer(asked)
    assert len(found.member_risk) == 1
    assert sources[0].answer(replace(asked, again=True)).rule == "one_examination"
    assert sources[0].answer(asked).scores.tolist() == found.scores.tolist()


def test_a_column_is_examined_and_no_model_instead_of_it(made):
    target, sources = roles(made, given_description(column="risk"), None)
    brief = target.brief(NAMES)
    target.choose({source.name: source.answer(brief) for source in sources})
    asked = target.mix({})["a"]
    assert (asked.own_weight, len(asked.forms), len(asked.arrays)) == (1.0, 0, 0)
    model = typed_in(made[2]).model(["x0", "x1"], 2)
    wrong = replace(asked, forms=[model.form], weights=np.ones(1), own_weight=0.0,
                    arrays={f"0.{k}": v for k, v in model.arrays.items()})  # fmt: skip
    with pytest.raises(MessageError, match="the sites' own column"):
        sources[0].answer(wrong)


def test_a_list_of_models_and_a_rule_on_folds_are_no_matter_where_none_is_fitted(made):
    model = typed_in(made[2]).model(["x0", "x1"], 2)
    strict = {"models": ("ridge",), "min_fold_rows": 200, "max_parameters_per_row": 0.001,
              "min_penalty": 1.0, "portable_models": True}  # fmt: skip
    agreed = given_description(sha256=model_digest(model))
    target, sources = roles(made, agreed, model, **strict)
    assert run_study(target, InProcess(sources)).promise is not None
    target, sources = roles(made, agreed, model, min_fold_rows=251)
    with pytest.raises(NoSourcesError, match="min_fold_rows"):
        run_study(target, InProcess(sources))


# The study file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "must be one of 'formula'"),
        ('formula = "a"\ncolumn = "b"', "must be one of 'formula'"),
        ('colunm = "b"', "Did you mean 'column'"),
        ('formula = "none.toml"', "does not exist"),
        ('file = "none.json"', "cannot be read"),
        ("formula = 3", "'formula' must be a text"),
        ("formula = { terms = { x7 = 1 }, link = 'logit' }", "Unknown column 'x7'"),
        ("formula = { terms = { x0 = 1 } }", "does not suit the study's outcome"),
        ("formula = { terms = { x0 = 'a' } }", r"\[terms\] 'x0' must be a number"),
    ],
    ids=range(9),
)
def test_a_mistake_in_the_section_is_named(folder, line, words):
    text = (folder / "formula.toml").read_text().replace('formula = "score.toml"', line)
    with pytest.raises((StudyError, ModelError), match=words):
        Study.parse(text, folder=folder).plan()


def test_a_formula_of_another_study_is_named_with_its_file(folder):
    text = (folder / "formula.toml").read_text().replace('x1 = "number"', 'x2 = "number"')
    with pytest.raises(StudyError, match=r"score\.toml: In the formula: Unknown column 'x1'"):
        Study.parse(text, folder=folder)


@pytest.mark.parametrize("way", ["formula", "file", "column"])
def test_sites_agree_on_the_model_without_its_file(folder, way, tmp_path):
    text = agreed_text(folder / f"{way}.toml")
    alone = Study.parse(text, folder=tmp_path)
    assert alone.plan().model == Study.load(folder / f"{way}.toml").plan().model
    assert "formula" not in alone.model or alone.given() is not None


def test_a_study_that_fits_is_agreed_on_to_the_letter(folder):
    text = (folder / "column.toml").read_text().replace('"given"\ncolumn = "risk"', '"ridge"')
    (folder / "fits.toml").write_text(text)
    assert agreed_text(folder / "fits.toml") == text


def test_a_file_for_another_outcome_is_refused(folder):
    text = (folder / "file.toml").read_text().replace("levels = [0, 1]", "")
    with pytest.raises(ModelError, match="does not predict the study's outcome, a number"):
        Study.parse(text, folder=folder)


def test_the_public_names_are_there():
    for name in ("evaluate", "convert", "load_formula", "Formula", "Term"):
        assert name in fedcsa.__all__


# Export ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [True, False])
def test_a_final_linear_model_is_exported_in_raw_units(made, scale):
    rng = np.random.default_rng(4)
    sources = {
        n: (5.0 + 3.0 * X, X @ [1.0, 2.0] + rng.normal(size=len(X)))
        for n, (X, _) in made[0].items()
    }
    fitted = FedCSA(candidates=[0.1], random_state=0, scale=scale).fit(sources, 5.0 + 3.0 * made[1])
    formula, estimator = fitted.adaptation_.formula(), fitted.adaptation_.estimator()
    rows = rng.normal(5.0, 3.0, (50, 2))
    wanted = fitted.predict(rows)
    np.testing.assert_allclose(formula.model(["x0", "x1"], 0).predict(rows), wanted, rtol=1e-9)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_allclose(estimator.predict(rows), wanted, rtol=1e-9)
    again = evaluate(formula, sources, 5.0 + 3.0 * made[1], random_state=0)
    assert again.promise is not None


def test_a_mean_of_probabilities_is_exported_as_an_estimator(made):
    named = {n: (X, np.array(["no", "yes"])[y]) for n, (X, y) in made[0].items()}
    fitted = FedCSA(LogisticRegression(), random_state=0).fit(named, made[1])
    estimator = fitted.adaptation_.estimator()
    with pytest.warns(UserWarning, match="feature names"):
        found = estimator.predict_proba(made[1])
    np.testing.assert_allclose(found, fitted.predict_proba(made[1]), rtol=1e-9)
    with pytest.warns(UserWarning, match="feature names"):
        assert estimator.predict(made[1]).tolist() == fitted.predict(made[1]).tolist()
    with pytest.raises(ModelError, match="not a formula"):
        fitted.adaptation_.formula()


def test_a_given_formula_is_exported_as_it_was_typed_in(made):
    sources, X_target, model = made
    found = evaluate(typed_in(model), sources, X_target)
    assert replace(typed_in(model), title="") == found.formula()
    single = found.estimator()
    assert single.classes_.tolist() == [0, 1]


def test_what_is_no_line_is_not_exported(made):
    sources, X_target, _ = made
    X, y = sources["a"]
    found = evaluate(DecisionTreeClassifier(max_depth=2).fit(X, y), sources, X_target)
    with pytest.raises(ModelError, match="Only linear models can be exported"):
        found.formula()
    triples = {n: (X, y, y * 0.5 + 0.2) for n, (X, y) in sources.items()}
    with pytest.raises(ModelError, match="no model that could be exported"):
        evaluate(None, triples, X_target).estimator()


# Back-test ---------------------------------------------------------------------------------------


def test_every_source_plays_the_target_for_a_given_model(made, folder):
    found = {}
    for way in ("formula", "column"):
        study = Study.load(folder / f"{way}.toml")
        data = {name: study.read_source(name) for name in study.sources}
        found[way] = run_backtest(data, study.plan(), policy=study.policy(), given=study.given())
    assert [row.source for row in found["formula"].rows] == list(NAMES)
    for one, other in zip(found["formula"].rows, found["column"].rows, strict=True):
        for field in ("promised", "lower", "upper", "realised", "standard_error"):
            assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-9)
        assert one.reference is None, "nothing is fitted"
        X, y = made[0][one.source]
        p = made[2].predict_proba(X)[:, 1]
        assert one.realised == pytest.approx(np.mean((p - y) ** 2), rel=1e-9)
        assert len(one.measures) == len(other.measures) > 0


def test_the_unit_of_an_outcome_changes_no_measure(made):
    rng = np.random.default_rng(4)
    sources = {n: (X, X @ [1.0, 2.0] + rng.normal(size=len(X))) for n, (X, _) in made[0].items()}
    halves = [{"feature": "x0", "cut": 0.0}]

    def judged_in(unit):
        triples = {n: (X, y * unit, X @ [0.9, 1.8] * unit) for n, (X, y) in sources.items()}
        return evaluate(None, triples, made[1], random_state=0, subgroups=halves)

    whole, mole = judged_in(1.0), judged_in(1e-9)
    for name in ("measures", "differences"):
        for a, b in zip(getattr(whole, name), getattr(mole, name), strict=True):
            unit = 1e-9 if a.name in ("rmse", "mae", "calibration_intercept") else 1.0
            wanted = [unit * getattr(a, end) for end in ("estimate", "lower", "upper")]
            found = [getattr(b, end) for end in ("estimate", "lower", "upper")]
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * unit, err_msg=a.name)


@pytest.mark.parametrize("way", ["estimator", "formula", "column"])
def test_a_given_model_is_back_tested_as_it_is_judged(made, way):
    sources, _, model = made
    given = {"estimator": model, "formula": typed_in(model), "column": "predictions"}[way]
    beside = sources
    if way == "column":
        beside = {n: (X, y, model.predict_proba(X)[:, 1]) for n, (X, y) in sources.items()}
    judge = FedCSA(random_state=0)
    tested = judge.backtest(beside, given=given)
    assert not hasattr(judge, "adaptation_")
    first, *_ = tested.rows
    others = {name: pair for name, pair in beside.items() if name != first.source}
    X, y = sources[first.source]
    judged = None if way == "column" else given
    told = judge.evaluate(judged, others, X)
    assert first.promised == told.promise.risk
    losses = (y - model.predict_proba(X)[:, 1]) ** 2
    assert first.realised == pytest.approx(losses.mean(), rel=1e-9)
    assert first.reference is None  # nothing was fitted
