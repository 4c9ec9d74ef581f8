"""Every function of the arithmetic and the roles says what its parameters are."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fedcsa"
PACKAGES = ("core", "models", "source", "target")
TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for package in PACKAGES
    for path in sorted((SOURCE / package).glob("*.py"))
}


def parameters(function):
    given = function.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def documented():
    """Functions with two parameters or more, also inside others, and the docstring of each."""
    for place, tree in TREES.items():
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        owner = {id(method): node for node in classes for method in node.body}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            home = owner.get(id(node))
            text = ast.get_docstring(home if home and node.name == "__init__" else node)
            name = f"{home.name}.{node.name}" if home else node.name
            yield f"{place}:{name}:{node.lineno}", parameters(node), text


FUNCTIONS = [pytest.param(names, text, id=at) for at, names, text in documented() if len(names) > 1]


def test_there_are_functions_in_every_package():
    assert {str(case.id).split("/")[0] for case in FUNCTIONS} == set(PACKAGES)


@pytest.mark.parametrize(("names", "text"), FUNCTIONS)
def test_every_parameter_is_explained(names, text):
    _, found, rest = (text or "").partition("Parameters\n----------\n")
    assert found, "a docstring with a numpydoc section Parameters"
    section = re.split(r"\n\n[A-Z][a-z]+\n-+\n", rest)[0]
    heads = [line.split(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    explained = {name.strip(" *") for head in heads for name in head.split(",")}
    assert set(names) <= explained


def is_number(value):
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float)
    return isinstance(value, ast.BinOp | ast.UnaryOp)


CONSTANTS = [
    pytest.param(place, node.lineno, id=f"{place}:{target.id}")
    for place, tree in TREES.items()
    for node in tree.body
    if isinstance(node, ast.Assign)
    for target in node.targets
    if isinstance(target, ast.Name) and target.id.isupper() and is_number(node.value)
]


@pytest.mark.parametrize(("place", "line"), CONSTANTS)
def test_every_constant_has_its_reason_beside_it(place, line):
    lines = (SOURCE / place).read_text(encoding="utf-8").splitlines()
    assert lines[line - 2].startswith("#:") or "#" in lines[line - 1]
