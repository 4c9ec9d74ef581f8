"""The public names: sorted, importable and documented."""

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import fedcsa

ROOT = Path(__file__).parents[2]
STUB = Path(fedcsa.__file__).with_suffix(".pyi")
NAMES = [name for name in fedcsa.__all__ if name != "__version__"]


def test_all_is_sorted_and_without_repetition():
    assert fedcsa.__all__ == sorted(set(fedcsa.__all__))


def test_every_name_is_found_in_its_home():
    for name in NAMES:
        home = importlib.import_module(fedcsa._HOMES[name])
        value = getattr(fedcsa, name)
        assert value is getattr(home, name), name
        assert f"{value.__module__}.".startswith(f"{home.__name__}."), name


def test_type_checkers_are_told_of_the_same_names_and_homes():
    told = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert alias.asname == alias.name, "without it, a checker takes it for private"
                told[alias.name] = node.module
        else:
            assert ast.unparse(node) == "__version__: str"
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
