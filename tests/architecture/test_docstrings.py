"""Every function of the arithmetic and the roles says what its parameters are."""

import ast
import re
from pathlib import Path

import pytest

import fedcsa

SOURCE = Path(fedcsa.__file__).parent
PACKAGES = ("core", "models", "source", "target")


@pytest.fixture(scope="module")
def ours(trees):
    """The modules of the four packages."""
    return {place: tree for place, tree in trees.items() if place.split("/")[0] in PACKAGES}


def parameters(function):
    given = function.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def functions(trees):
    """Functions with two parameters or more, also inside others, and the docstring of each."""
    for place, tree in trees.items():
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        owner = {id(method): node for node in classes for method in node.body}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or len(parameters(node)) < 2:
                continue
            home = owner.get(id(node))
            text = ast.get_docstring(home if home and node.name == "__init__" else node)
            name = f"{home.name}.{node.name}" if home else node.name
            yield f"{place}:{name}:{node.lineno}", parameters(node), text


def unexplained(names, text):
    """The parameters that a docstring's numpydoc section does not name."""
    rest = (text or "").partition("Parameters\n----------\n")[2]
    section = re.split(r"\n\n[A-Z][a-z]+\n-+\n", rest)[0]
    heads = [line.split(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    return sorted(set(names) - {name.strip(" *") for head in heads for name in head.split(",")})


def test_every_parameter_is_explained(ours):
    found = list(functions(ours))
    assert {place.split("/")[0] for place, *_ in found} == set(PACKAGES)
    missing = {place: unexplained(names, text) for place, names, text in found}
    assert {place: names for place, names in missing.items() if names} == {}


def test_a_parameter_without_a_word_is_found():
    text = "Sum.\n\nParameters\n----------\na : int\n    One.\n\nReturns\n-------\nb : int"
    assert unexplained(["a", "b"], text) == ["b"]
    assert unexplained(["a", "b"], None) == ["a", "b"]


def is_number(value):
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float)
    return isinstance(value, ast.BinOp | ast.UnaryOp)


def test_every_constant_has_its_reason_beside_it(ours):
    found, bare = 0, []
    for place, tree in ours.items():
        lines = (SOURCE / place).read_text(encoding="utf-8").splitlines()
        for node in tree.body:
            if not isinstance(node, ast.Assign) or not is_number(node.value):
                continue
            names = [t.id for t in node.targets if isinstance(t, ast.Name) and t.id.isupper()]
            at = node.lineno
            found += len(names)
            if not (lines[at - 2].startswith("#:") or "#" in lines[at - 1]):
                bare += [f"{place}:{name}" for name in names]
    assert found > 100
    assert bare == []
