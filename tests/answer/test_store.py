"""A result as a folder: back with equal bits, and never an odd exception for a damaged one."""

import contextlib
import dataclasses
import functools
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from fedcsa import (
    Adaptation,
    FedCSA,
    MessageError,
    ModelError,
    ResultError,
    Table1,
    load_result,
    save_result,
)
from fedcsa.answer.store import FORMAT, load_history, load_ledgers, read_json, restore, summary
from fedcsa.outcomes import History

DAMAGED = (ResultError, MessageError, ModelError)
ROWS = np.random.default_rng(9).normal(size=(13, 2))
NEVER = [HealthCheck.function_scoped_fixture]


def consortium(seed=0):
    rng = np.random.default_rng(seed)

    def hospital(mean, rows):
        X = rng.normal(mean, 1.0, (rows, 2))
        return X, X.sum(axis=1) + rng.normal(size=rows)

    return {"a": hospital(0.0, 40), "b é": hospital(0.3, 30), "c": hospital(0.1, 50)}, rng.normal(
        size=(30, 2)
    )


def framed(X, y=None):
    """A frame with a flag and two rows a patient."""
    numbers = np.arange(len(X))
    columns = {"x": X[:, 0], "sex": X[:, 1] > 0.0, "age": 50.0 + 9.0 * X[:, 1], "id": numbers // 2}
    frame = pd.DataFrame({**columns, "sex": columns["sex"].astype(float)})
    return frame.drop(columns="id" if y is None else []), y


def labelled(sources, cut=0.0):
    return {name: (X, np.where(y > cut, "ill", "well")) for name, (X, y) in sources.items()}


@functools.cache
def adaptation(kind):
    """One finished study of every kind; computed once."""
    sources, target = consortium()
    own = {"candidates": [0.0, 0.5], "random_state": 1}
    if kind == "linear":
        estimator = FedCSA(**own).fit(sources, target)
        estimator.backtest(sources)
    elif kind == "described":
        columns = {"x": {"kind": "number", "sd": 1.0}, "sex": "flag", "age": "number"}
        estimator = FedCSA(**own, columns={**columns, "id": "group"}, level=0.8)
        estimator.fit({name: framed(*pair) for name, pair in sources.items()}, framed(target)[0])
    elif kind == "typed":
        numbers = {"mean": [0.1, 0.2], "sd": [1.0, 1.1], "correlations": [[1.0, 0.3], [0.3, 1.0]]}
        told = Table1.typed(120, ["x0", "x1"], [False, False], **numbers)
        estimator = FedCSA(**own, compare=["naive", "feddae"]).fit(sources, told)
    elif kind == "one source":
        estimator = FedCSA(**own).fit({"a": sources["a"]}, target)
    elif kind == "not all examined":
        sources["c"] = sources["c"][0], np.zeros(len(sources["c"][1]))
        estimator = FedCSA(**own).fit(sources, target)
    elif kind == "no overlap":
        estimator = FedCSA(**own, on_no_overlap="predict").fit(sources, target + 40.0)
    elif kind == "feddae":
        shares = {"exchange": "rows", "folds": (0.2, 0.5, 0.3)}
        estimator = FedCSA(**own, method="feddae", **shares).fit(sources, target)
    elif kind == "fedle":
        weights = {"a": 1.0, "b é": 2.0, "c": 1.0}
        estimator = FedCSA(**own, method="fedle", fedle_weights=weights, exchange="rows")
        estimator.fit(sources, target)
    elif kind == "logistic":
        model = LogisticRegression()
        estimator = FedCSA(model, [{"ratio_power": 0.5}], random_state=1)
        estimator.fit(labelled(sources), target)
    elif kind == "pipeline":
        model = make_pipeline(StandardScaler(), LogisticRegression())
        estimator = FedCSA(model, [{"ratio_power": 0.0}], loss="log", random_state=1)
        estimator.fit(labelled(sources), target)
    else:
        model = RandomForestClassifier(n_estimators=3, max_depth=3)
        estimator = FedCSA(model, [{"ratio_power": 0.0}], random_state=1)
        estimator.fit(labelled(sources), target)
    return estimator.adaptation_


KINDS = [
    "linear", "described", "typed", "one source", "not all examined", "no overlap", "feddae",
    "fedle", "logistic", "pipeline", "forest",
]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Pristine folders, by kind."""
    root = tmp_path_factory.mktemp("results")
    return functools.cache(lambda kind: save_result(adaptation(kind), root / kind))


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of a result that may be damaged."""
    return shutil.copytree(saved("linear"), tmp_path / "copy")


def equal(first, second):
    """Equality to the bit, through dataclasses, mappings and arrays."""
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        return type(first) is type(second) and all(
            equal(getattr(first, item.name), getattr(second, item.name))
            for item in dataclasses.fields(first)
        )
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second, equal_nan=True)
    if hasattr(first, "items"):
        return sorted(first) == sorted(second) and all(equal(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(equal, first, second))
    return first == second


# There and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_result_predicts_the_same_bits(kind, saved):
    before, after = adaptation(kind), load_result(saved(kind))
    rows = np.resize(ROWS, (len(ROWS), len(before.plan.features)))
    assert np.array_equal(after.output(rows), before.output(rows))
    assert np.array_equal(after.predict(rows), before.predict(rows))
    assert after.predict(rows).dtype == before.predict(rows).dtype
    if before.plan.classes:
        assert np.array_equal(after.predict_proba(rows), before.predict_proba(rows))


#: Models are compared by what they predict; how tables are read, by the columns that follow;
#: what was noted and concluded, by the findings and the promise.
APART = ("models", "described", "by_name", "noted", "concluded")
PARTS = (
    *(item.name for item in dataclasses.fields(Adaptation) if item.name not in APART),
    "promise", "findings", "n_target_rows", "candidate", "target_risk", "interval", "verdict",
    "status", "sources", "reaching", "refused", "columns",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_result_is_the_same_in_every_part(kind, saved):
    before, after = adaptation(kind), load_result(saved(kind))
    other = [part for part in PARTS if not equal(getattr(before, part), getattr(after, part))]
    assert other == []


def test_the_kinds_of_this_file_cover_what_can_be_saved():
    assert adaptation("linear").backtest is not None
    assert adaptation("linear").promise is not None
    assert adaptation("described").plan.group == "id"
    assert adaptation("described").plan.flags == (False, True, False)
    assert np.isnan(adaptation("described").plan.public_sd).tolist() == [False, False, True]
    assert adaptation("described").table.correlations is None
    assert adaptation("typed").table.correlations is not None
    assert set(adaptation("typed").estimates) == {"validated", "naive", "feddae"}
    assert adaptation("one source").verdict.advice == "care"
    assert adaptation("not all examined").examinations["c"].reason == "outcomes_alike"
    assert adaptation("no overlap").refused
    assert adaptation("no overlap").promise is None
    assert any(f.severity == "danger" for f in adaptation("no overlap").findings)
    assert adaptation("feddae").promise is None
    assert {m.form["kind"] for m in adaptation("logistic").model_reports.values()} == {"linear"}
    assert {m.form["kind"] for m in adaptation("forest").model_reports.values()} == {"trees"}


def test_saving_what_was_loaded_writes_the_same_bytes(saved, tmp_path):
    again = save_result(load_result(saved("linear")), tmp_path / "again")
    originals = sorted(p for p in saved("linear").rglob("*") if p.is_file())
    assert len(originals) == 1 + 3 + 4
    for path in originals:
        copy = again / path.relative_to(saved("linear"))
        assert copy.read_bytes() == path.read_bytes()


def test_the_folder_is_returned_made_and_may_be_a_text(tmp_path):
    folder = save_result(adaptation("linear"), str(tmp_path / "deep" / "er"))
    assert (folder / "adaptation.json").is_file()
    assert sorted(p.name for p in folder.iterdir()) == ["adaptation.json", "ledgers", "models"]


def test_the_study_is_kept_beside_the_result_if_there_is_one(tmp_path):
    folder = save_result(adaptation("linear"), tmp_path / "r", "name = 'é'\n")
    assert (folder / "study.toml").read_text(encoding="utf-8") == "name = 'é'\n"
    save_result(adaptation("linear"), folder)
    assert not (folder / "study.toml").exists()


def test_an_older_result_is_replaced_with_all_its_files(tmp_path):
    folder = save_result(adaptation("linear"), tmp_path / "r")
    sources, target = consortium()
    one = FedCSA(candidates=[0.0], random_state=0).fit({"a": sources["a"]}, target).adaptation_
    save_result(one, folder)
    assert sorted(p.name for p in (folder / "models").iterdir()) == ["0.fcsa"]
    assert sorted(p.name for p in (folder / "ledgers").iterdir()) == ["0.jsonl", "1.jsonl"]
    assert load_result(folder).sources == ("a",)


def test_ledgers_are_read_without_any_model(folder):
    shutil.rmtree(folder / "models")
    assert load_ledgers(folder) == dict(adaptation("linear").ledgers)


# The content --------------------------------------------------------------------------------


def no_constant(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_strict_json(kind, saved):
    text = (saved(kind) / "adaptation.json").read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=no_constant)
    assert content == json.loads(json.dumps(summary(adaptation(kind))))
    assert content["format"] == FORMAT


def test_the_file_says_what_the_adaptation_says(saved):
    content = json.loads((saved("linear") / "adaptation.json").read_text(encoding="utf-8"))
    result = adaptation("linear")
    assert content["target_risk"] == result.target_risk
    assert content["interval"] == list(result.interval)
    assert content["status"] == result.status
    assert content["source_weights"] == dict(result.source_weights)
    assert content["candidate"] == dict(result.candidate)
    assert content["verdict"]["advice"] == result.verdict.advice
    assert content["verdict"]["words"] == result.status
    assert content["verdict"]["sentence"] == result.verdict.sentence
    for told, leg in zip(content["verdict"]["legs"], result.verdict.legs, strict=True):
        assert told == dataclasses.asdict(leg)
    promised = dataclasses.asdict(result.promise)
    assert content["promise"] == {**promised, "examined_by": list(promised["examined_by"])}
    assert {n: e["risk"] for n, e in content["examinations"].items()} == {
        n: e.risk for n, e in result.examinations.items()
    }
    assert content["table"]["mean"] == result.table.mean.tolist()
    assert set(content["estimates"]) == {"validated"}
    assert [f["text"] for f in content["findings"]] == [str(f) for f in result.findings]
    assert content["backtest"]["verdict"] == result.backtest.verdict
    assert "b é" in content["reports"]


@pytest.mark.parametrize("kind", ["linear", "fedle"])
def test_no_row_of_any_site_is_in_the_folder(kind, saved):
    sources, target = consortium()
    cells = [target, *(X for X, _ in sources.values())]
    text = "".join(
        path.read_bytes().decode("utf-8", "replace")
        for path in saved(kind).rglob("*")
        if path.is_file()
    )
    for X in cells:
        assert not any(repr(float(cell)) in text for cell in X.ravel())


# What may not be overwritten ----------------------------------------------------------------


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it", encoding="utf-8")
    with pytest.raises(ResultError, match="holds something other than a result"):
        save_result(adaptation("linear"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "all of it"


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "result"
    path.write_text("mine", encoding="utf-8")
    for place in (path, path / "inside"):
        with pytest.raises(ResultError, match="folder"):
            save_result(adaptation("linear"), place)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_stranger_in_the_folder_of_a_result_survives_its_replacement(tmp_path):
    folder = save_result(adaptation("linear"), tmp_path / "r")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    save_result(adaptation("linear"), folder)
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"


# Missing and damaged files ------------------------------------------------------------------


def test_a_folder_without_a_result_says_how_to_make_one(tmp_path):
    places = {tmp_path: "must hold adaptation.json", tmp_path / "nowhere": "does not exist"}
    for place, problem in places.items():
        with pytest.raises(ResultError, match=rf"{problem}.*fedcsa run"):
            load_result(place)
        with pytest.raises(ResultError, match=rf"{problem}.*fedcsa run"):
            load_ledgers(place)


@pytest.mark.parametrize(
    "name", ["models/0.fcsa", "models/2.fcsa", "ledgers/0.jsonl", "ledgers/3.jsonl"]
)
@pytest.mark.parametrize("how", ["missing", "a folder", "empty"])
def test_a_file_that_is_not_whole_is_damage(name, how, folder):
    path = folder / name
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how == "empty":
        path.write_bytes(b"")
        if name.startswith("ledgers"):
            assert load_result(folder).ledgers  # a site from which nothing left
            return
    with pytest.raises(DAMAGED, match=r"damaged|must have at least"):
        load_result(folder)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"format": 3}',
        b'{"a": NaN}',
    ],
    ids=["empty", "cut off", "a list", "null", "not text", "deep", "nothing else", "no format"],
)
def test_a_file_that_is_not_json_is_damage(content, folder):
    (folder / "adaptation.json").write_bytes(content)
    with pytest.raises(ResultError, match=r"damaged|is not of format"):
        load_result(folder)
    with pytest.raises(ResultError, match="damaged"):
        load_ledgers(folder)


@pytest.mark.parametrize("version", [0, 2, 4, "3", None, [3]])
def test_another_format_is_refused_with_advice(version, folder):
    edit(folder, lambda content: content.update(format=version))
    with pytest.raises(ResultError, match="Read it with the version of fedcsa that wrote it"):
        load_result(folder)


def test_models_that_were_swapped_are_noticed(folder):
    first, second = folder / "models" / "0.fcsa", folder / "models" / "1.fcsa"
    first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_bytes)
    second.write_bytes(first_bytes)
    with pytest.raises(ResultError, match="models are mixed up"):
        load_result(folder)


def test_a_model_without_a_format_stays_in_its_process(tmp_path):
    sources, target = consortium()
    study = FedCSA(SVR(), [{"ratio_power": 0.0}], random_state=1).fit(sources, target)
    folder = save_result(study.adaptation_, tmp_path / "objects")
    assert list((folder / "models").iterdir()) == []
    with pytest.raises(ResultError, match=r"keeps no models\. .*SVR"):
        load_result(folder)
    assert restore(read_json(folder / "adaptation.json"), folder).promise is not None


def test_models_that_were_too_large_to_be_written_are_not_called_damage(folder):
    for path in (folder / "models").iterdir():
        path.unlink()
    with pytest.raises(ResultError, match=r"keeps no models\. They were too large .* or were rem"):
        load_result(folder)


# Edited files -------------------------------------------------------------------------------


def edit(folder, change):
    path = folder / "adaptation.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


#: What only tells a reader; it is computed again when a result is loaded.
TOLD = {"fedcsa", "study", "method", "candidate", "target_risk", "interval", "status", "rounds"}
TOLD |= {"columns"}  # without it, only tables and frames cannot be read
KEYS = [
    "source_weights", "promise", "verdict", "examinations", "table", "n_target_rows", "backtest",
    "findings", "kept", "plan", "reports", "sites", "estimates", "own_scores",
]  # fmt: skip


def test_every_key_of_the_file_is_known_to_the_tests_below(saved):
    content = json.loads((saved("linear") / "adaptation.json").read_text(encoding="utf-8"))
    assert set(content) == {"format", *TOLD, *KEYS}


@pytest.mark.parametrize("key", KEYS)
def test_a_file_without_one_of_its_keys_is_damage(key, folder):
    edit(folder, lambda content: content.pop(key))
    with pytest.raises(DAMAGED, match="damaged"):
        load_result(folder)


@pytest.mark.parametrize("key", sorted(TOLD))
def test_what_is_only_told_may_be_lost(key, folder):
    edit(folder, lambda content: content.pop(key))
    assert load_result(folder).target_risk == adaptation("linear").target_risk


STRANGE = [None, True, -1, 0.5, 1e308, math.inf, math.nan, "x", [], [1.0], {}, {"x": 1}, [[None]]]


@pytest.mark.parametrize("key", [*KEYS, "columns"])
def test_a_strange_value_is_damage_or_nothing_at_all(key, folder):
    for value in STRANGE:
        edit(folder, lambda content, value=value: content.update({key: value}))
        with contextlib.suppress(DAMAGED):
            load_result(folder)


def walk(content, path=()):
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from walk(value, (*path, key))


def set_at(content, path, value):
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


@settings(max_examples=150, deadline=None, suppress_health_check=NEVER)
@given(data=st.data())
def test_a_strange_value_anywhere_is_damage_or_nothing_at_all(data, saved, folder):
    content = json.loads((saved("linear") / "adaptation.json").read_text(encoding="utf-8"))
    paths = [path for path in walk(content) if path[0] in KEYS]
    path = data.draw(st.sampled_from(paths))
    set_at(content, path, data.draw(st.sampled_from(STRANGE)))
    (folder / "adaptation.json").write_text(json.dumps(content), encoding="utf-8")
    try:
        load_result(folder)
    except DAMAGED:
        return


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("table", "mean"), [0.0]),
        (("table", "mean"), [0.0, math.nan]),
        (("table", "mean"), [0.0, math.inf]),
        (("table", "sd"), [1.0, 1.0, 1.0]),
        (("table", "sd"), [1.0, 0.0]),
        (("table", "sd"), [1.0, -1.0]),
        (("table", "features"), ["x0", "stranger"]),
        (("table", "flags"), [True]),
        (("table", "n_rows"), 50),
        (("rounds",), [1000]),
        (("rounds",), [-1, 3]),
        (("kept",), []),
        (("kept",), [0, 1, 99]),
        (("kept",), [-1]),
        (("kept",), [math.inf]),
        (("source_weights",), {}),
        (("source_weights", "a"), math.nan),
        (("source_weights", "a"), -5.0),
        (("reports", "a", "difference_after"), [1e308]),
        (("source_weights", "stranger"), 0.1),
        (("n_target_rows",), math.inf),
        (("promise", "risk"), "small"),
        (("promise", "risk"), -1.0),
        (("promise", "lower"), math.nan),
        (("promise", "lower"), 1e9),
        (("promise", "upper"), 1e-9),
        (("promise", "examined_by"), []),
        (("promise", "examined_by"), ["stranger"]),
        (("promise", "unknown"), 1.0),
        (("verdict", "advice"), "splendid"),
        (("examinations", "a", "risk_variance"), -1.0),
        (("examinations", "a", "reason"), "tired"),
        (("examinations", "stranger"), {}),
        (("plan", "flags"), [True]),
        (("plan", "compare"), ["validated"]),
        (("plan", "method"), "magic"),
        (("plan", "candidates"), []),
        (("plan", "features"), ["x0"]),
        (("plan", "loss"), 7),
        (("plan", "seed"), -1),
        (("plan", "unknown"), 1),
        (("reports",), {}),
        (("reports", "a", "effective_rows"), 1e9),
        (("reports", "a", "risk"), [1.0]),
        (("reports", "a", "unknown"), 1.0),
        (("findings",), [{"code": "all-is-well", "source": "", "evidence": {}}]),
        (("backtest", "level"), "high"),
        (("backtest", "rows"), [{"source": "a"}]),
        (("sites",), ["a"] * 50),
        (("estimates", "validated"), {}),
        (("estimates", "validated", "risk"), [1.0]),
        (("estimates", "validated", "candidate"), {"penalty": 7.0}),
        (("estimates", "validated", "source_weights", "a"), -1.0),
        (("estimates", "validated", "standard_errors"), [math.nan]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_edit_that_cannot_be_true_is_refused(path, value, folder):
    edit(folder, lambda content: set_at(content, path, value))
    with pytest.raises(DAMAGED, match=r"damaged|must"):
        load_result(folder)


@pytest.mark.parametrize(("kind", "examples"), [("linear", 200), ("pipeline", 40)])
def test_random_bytes_never_raise_anything_else(kind, examples, saved, tmp_path):
    folder = shutil.copytree(saved(kind), tmp_path / "damaged")
    names = ["adaptation.json", "models/0.fcsa", "models/2.fcsa", "ledgers/1.jsonl"]
    originals = {name: (folder / name).read_bytes() for name in names}

    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(data=st.data())
    def damage(data):
        name = data.draw(st.sampled_from(names))
        content = bytearray(originals[name])
        for _ in range(data.draw(st.integers(1, 4))):
            position = data.draw(st.integers(0, len(content) - 1))
            content[position] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            cut = data.draw(st.integers(0, len(content)))
            del content[cut : cut + data.draw(st.integers(1, 40))]
        (folder / name).write_bytes(bytes(content))
        try:
            load_result(folder)
        except DAMAGED as error:
            assert str(error)  # noqa: PT017 - it may also load
        finally:
            (folder / name).write_bytes(originals[name])

    damage()


def test_an_error_about_a_damaged_result_shows_no_number_of_it(folder):
    edit(folder, lambda content: content["reports"]["a"].update(effective_rows=424242.125))
    with pytest.raises(DAMAGED, match="effective rows") as caught:
        load_result(folder)
    assert "424242" not in str(caught.value)


def test_a_result_says_what_it_said_whatever_this_version_would_say(folder):
    """Another version may have had another rule; the file, not the rule, is what was promised."""

    def older(content):
        for told in content["estimates"].values():
            told["risk"] = [2.0 * risk for risk in told["risk"]]
            weights = told["source_weights"]
            told["source_weights"] = dict(zip(weights, (0.5, 0.25, 0.25), strict=True))

    before = load_result(folder)
    edit(folder, older)
    after = load_result(folder)
    assert set(after.estimates) == set(before.estimates)
    for method, found in after.estimates.items():
        np.testing.assert_array_equal(found.risk, 2.0 * before.estimates[method].risk)
        assert found.source_weights.tolist() == [0.5, 0.25, 0.25]
        assert found.chosen == before.estimates[method].chosen


def test_models_of_another_candidate_than_the_chosen_are_damage(folder):
    def other(content):
        told = content["estimates"]["validated"]
        tried = content["plan"]["candidates"]
        told["candidate"] = next(c for c in tried if c != told["candidate"])

    edit(folder, other)
    with pytest.raises(ResultError, match="not those of its candidate"):
        load_result(folder)


@pytest.mark.parametrize("method", ["validated", "naive", "feddae"])
def test_a_median_with_a_source_that_failed_is_the_same_in_every_part(method, tmp_path):
    rng = np.random.default_rng(0)
    sources = {}
    for name, rows in (("a", 60), ("b", 200), ("c", 200), ("d", 200), ("e", 200)):
        X = rng.normal(size=(rows, 2))
        sources[name] = X, X.sum(axis=1) + rng.normal(size=rows)
    model = KNeighborsRegressor(algorithm="brute")
    tried = {"n_neighbors": [1, 60]}  # too many for the folds of a
    estimator = FedCSA(model, tried, method=method, combine="median", random_state=0)
    estimator.fit(sources, rng.normal(size=(60, 2)))
    made = estimator.adaptation_
    assert made.reports["a"].failed
    folder = save_result(made, tmp_path / "r")
    loaded = restore(read_json(folder / "adaptation.json"), folder)
    assert equal(loaded.estimates, made.estimates)
    assert loaded.target_risk == made.target_risk
    assert loaded.candidate == made.candidate


def test_a_new_result_does_not_inherit_older_outcomes(folder, make):
    adaptation, history = load_result(folder), History(last=make.updated())
    save_result(adaptation, folder, history=history)
    assert load_history(folder, adaptation) == history
    assert load_result(folder).correction == history.last.correction
    save_result(adaptation, folder)
    assert load_history(folder, adaptation).last is None
