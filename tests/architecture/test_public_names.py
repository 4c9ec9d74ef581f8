"""The public names: sorted, importable and documented."""

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import fedcsa

ROOT = Path(__file__).parents[2]
INIT = Path(fedcsa.__file__)
NAMES = [name for name in fedcsa.__all__ if name != "__version__"]


def as_linters_sort(name):
    """CONSTANTS, then Classes, then functions, each alphabetically."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_all_is_sorted_and_without_repetition():
    assert fedcsa.__all__ == sorted(set(fedcsa.__all__), key=as_linters_sort)


def test_all_names_have_a_home_and_all_homes_a_name():
    assert set(fedcsa._HOMES) == set(NAMES)
    assert list(fedcsa._HOMES) == sorted(fedcsa._HOMES)


def test_every_name_is_found_in_its_home():
    for name in NAMES:
        home = importlib.import_module(f"fedcsa.{fedcsa._HOMES[name]}")
        value = getattr(fedcsa, name)
        assert value is getattr(home, name), name
        assert f"{value.__module__}.".startswith(f"{home.__name__}."), name


def test_type_checkers_are_told_of_the_same_homes():
    told = {}
    for node in ast.walk(ast.parse(INIT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for item in node.body:
                for alias in item.names:
                    told[alias.name] = item.module.removeprefix("fedcsa.")
    assert told == fedcsa._HOMES


def test_dir_lists_all_and_nothing_else_is_found():
    assert dir(fedcsa) == sorted(fedcsa.__all__)
    with pytest.raises(AttributeError, match="module 'fedcsa' has no attribute 'FedAvg'"):
        fedcsa.FedAvg  # noqa: B018 - the access is the test


def test_a_star_import_brings_every_name():
    space = {}
    exec("from fedcsa import *", space)  # noqa: S102 - nothing but our own names
    assert set(fedcsa.__all__) <= set(space)


def documented(thing):
    text = inspect.getdoc(thing)
    return bool(text) and text.strip().splitlines()[0].rstrip().endswith((".", ":", "…"))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_docstring_of_its_own(name):
    value = getattr(fedcsa, name)
    assert value.__doc__
    assert documented(value)
    if not inspect.isclass(value):
        return
    assert not value.__doc__.startswith(f"{name}("), "the signature that a dataclass writes itself"
    for key, member in vars(value).items():
        public = not key.startswith("_")
        callable_ = inspect.isroutine(member) or isinstance(member, property | classmethod)
        if public and callable_:
            assert documented(getattr(value, key)), f"{name}.{key}"


def test_every_module_says_what_it_is_for(trees):
    found = {place: (ast.get_docstring(tree) or "").split("\n")[0] for place, tree in trees.items()}
    assert [place for place, line in found.items() if not line.endswith((".", ":", "…"))] == []


def test_every_error_is_public_and_drawn_in_the_tree():
    from fedcsa import errors

    classes = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.FedCSAError)
    ]
    assert set(classes) <= set(fedcsa.__all__)
    assert all(name in errors.__doc__ for name in classes)


def test_the_version_is_that_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    from importlib.metadata import version

    assert fedcsa.__version__ == version("fedcsa")
    if "version" in project:
        assert fedcsa.__version__ == project["version"]
