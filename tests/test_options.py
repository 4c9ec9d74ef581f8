"""An option is declared once: Python, the study file and the command line say the same of it."""

import inspect
from dataclasses import fields

import pytest
from click import UsageError

from fedcsa.cli.app import app
from fedcsa.cli.common import load_study
from fedcsa.errors import ParameterError
from fedcsa.estimator import FedCSA
from fedcsa.plan import OPTIONS, Plan, make_plan
from fedcsa.study import Study
from fedcsa.study.toml import format_toml

PAPER = {"method": "feddae", "exchange": "rows"}
#: option -> (another value than the default, what else it takes, a wrong value)
VALUES = {
    "seed": (3, {}, -1),
    "loss": ("absolute", {}, 1),
    "preset": ("paper", {}, "pape"),
    "method": ("naive", {}, "nave"),
    "compare": (["naive"], {}, ["nave"]),
    "fedle_weights": ({"a": 1.0, "b": 2.0}, {}, {"a": -1.0}),
    "exchange": ("rows", {"method": "naive"}, "row"),
    "scheme": ("cross-fit", PAPER, "cros-fit"),
    "folds": (4, {}, 1),
    "refit": (True, PAPER, "yes"),
    "scale": (False, {}, "no"),
    "ratio": ({"n_centres": 5}, PAPER, 3),
    "combine": ("median", {}, "medan"),
    "on_no_overlap": ("predict", {}, "predit"),
    "level": (0.9, {}, 2),
    "search": ("random", {}, "randm"),
    "budget": (60, {}, 0),
    "thresholds": ([0.2], {}, [2.0]),
    "subgroups": ([{"feature": "x", "cut": 1.0}], {}, 3),
}
#: Options that a plain study has not, and what is said then.
UNLESS = {
    "thresholds": "unless the outcome has two classes",
    "search": "unless candidates are a space",
    "budget": "unless candidates are a space",
}
MINIMAL = """
name = "s"
outcome = { name = "y" }
features = { x = "number" }
model = { name = "ridge" }
target = { table = "t.csv" }
"""
SOURCES = "".join(f'sources.{name}.table = "{name}.csv"\n' for name in "abcd")


def in_python(options):
    """The plan that `FedCSA` makes."""
    given = {"random_state" if name == "seed" else name: value for name, value in options.items()}
    rows = [[float(k), float(k % 3)] for k in range(12)]
    data = {name: (rows, range(12)) for name in "abcd"}
    return FedCSA(**given)._prepare(data, (), features=("x", "x1")).plan


def in_a_file(options, tmp_path):
    """The plan of a study file."""
    path = tmp_path / "study.toml"
    tables = {name: value for name, value in options.items() if isinstance(value, dict)}
    tables |= {name: options[name] for name in options if name == "subgroups"}
    top = {name: value for name, value in options.items() if name not in tables}
    path.write_text(format_toml(top) + MINIMAL + SOURCES + format_toml(tables), encoding="utf-8")
    return Study.load(path).plan()


def on_the_command_line(options, tmp_path):
    """The plan of a study file that says nothing, and ``--set``."""
    path = tmp_path / "empty.toml"
    path.write_text(MINIMAL + SOURCES, encoding="utf-8")
    texts = {
        name: str(value) if isinstance(value, str) else format_toml({"v": [[value]]})[6:-3]
        for name, value in options.items()
    }
    return load_study(path, [f"{name}={text}" for name, text in texts.items()]).plan()


def everywhere(options, tmp_path):
    return [
        lambda: in_python(options),
        lambda: in_a_file(options, tmp_path),
        lambda: on_the_command_line(options, tmp_path),
    ]


def test_every_option_is_tried():
    assert set(VALUES) == set(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_accepted_everywhere(name, tmp_path):
    value, others, _ = VALUES[name]
    if name == "fedle_weights":
        value = dict.fromkeys("abcd", 1.0)
    if name in UNLESS:  # here there is none, and every way says so
        for make in everywhere({name: value}, tmp_path):
            with pytest.raises(ParameterError, match=UNLESS[name]):
                make()
        return
    expected = make_plan("ridge", None, {**others, name: value}, features=("x",))
    for make in everywhere({**others, name: value}, tmp_path):
        assert getattr(make(), name) == getattr(expected, name)
    silent = make_plan("ridge", None, others, features=("x",))
    assert getattr(expected, name) != getattr(silent, name)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_value_is_named_everywhere_with_the_same_words(name, tmp_path):
    wrong = {name: VALUES[name][2]}
    expected = str(OPTIONS[name].problem(name, VALUES[name][2]))
    assert repr(name) in expected
    for make in everywhere(wrong, tmp_path):
        with pytest.raises(ParameterError) as caught:
            make()
        lines = str(caught.value).replace("'random_state'", "'seed'").splitlines()
        assert expected in lines


@pytest.mark.parametrize("name", OPTIONS)
def test_a_misspelt_name_is_answered_everywhere_with_the_right_one(name, tmp_path):
    own = "random_state" if name == "seed" else name
    with pytest.raises(ParameterError, match=f"Did you mean '{own}'"):
        FedCSA(**{f"{own}x": 1})
    for make in everywhere({f"{name}x": 1}, tmp_path)[1:]:
        with pytest.raises((ParameterError, UsageError), match=f"Did you mean '{name}'"):
            make()


@pytest.mark.parametrize("name", OPTIONS)
def test_default_and_help_are_the_plans(name):
    default = next(item.default for item in fields(Plan) if item.name == name)
    if name != "seed":
        assert inspect.signature(FedCSA).parameters[name].default == default
        assert f"\n    {name} : {OPTIONS[name].words}, " in FedCSA.__doc__
    assert f"\n    {name} : {OPTIONS[name].words}, " in Plan.__doc__


def test_all_wrong_options_are_named_at_once(tmp_path):
    wrong = {name: bad for name, (_, _, bad) in VALUES.items()}
    for make in everywhere(wrong, tmp_path)[1:]:
        with pytest.raises(ParameterError) as caught:
            make()
        for name in OPTIONS:
            assert any(repr(name) in line for line in str(caught.value).splitlines()), name


def test_what_is_left_out_is_sound():
    for name, rule in OPTIONS.items():
        assert rule.problem(name, getattr(Plan, name)) is None, name


def test_a_sound_plan_has_no_problems_until_it_knows_the_sources():
    plan = make_plan("ridge", None, {"combine": "median"}, features=("x",))
    assert plan.source_problems([]) == []
    [few] = plan.source_problems(["a", "b"])
    assert few.startswith("The 'combine' parameter must be 'mean' with fewer than 4 sources")
    assert plan.source_problems("abcd") == []


@pytest.mark.parametrize("name", ["run", "check", "backtest"])
def test_commands_that_read_a_study_take_options(name):
    command = app.commands[name]
    assert "--set" in [option for item in command.params for option in item.opts]
