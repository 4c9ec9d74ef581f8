"""One name, one thing: no module and no public name twice, no word for three things."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest


def is_command(node):
    """A command of the command line has the name of its word, whatever it calls."""
    first = node.args.args[:1] if isinstance(node, ast.FunctionDef) else []
    return [ast.unparse(one) for one in first] == ["output: Output"]


def defined(tree):
    """The names that a module defines at its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not is_command(node):
                yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def more_than_one(pairs):
    found = defaultdict(list)
    for name, home in pairs:
        found[name].append(home)
    return {name: homes for name, homes in found.items() if len(homes) > 1}


def test_no_two_modules_have_one_name(trees):
    modules = [(Path(path).stem, path) for path in trees if not path.endswith("__init__.py")]
    assert len(modules) > 50
    assert more_than_one(modules) == {}


def test_no_public_name_is_defined_twice(trees):
    names = {
        (name, path)
        for path, tree in trees.items()
        for name in defined(tree)
        if not name.startswith("_")
    }
    assert ("Target", "target/target.py") in names
    assert ("MAX_IMBALANCE", "target/estimate.py") in names
    assert more_than_one(sorted(names)) == {}


@pytest.mark.parametrize("word", ["face", "swept", "judged", "ending", "rehearsal", "noise"])
def test_a_word_that_meant_several_things_is_gone_from_names(word, trees):
    ours = re.compile(rf"(^|_){word}s?($|_)")
    names = {name for tree in trees.values() for name in defined(tree)}
    modules = {Path(path).stem for path in trees}
    assert [name for name in sorted(names | modules) if ours.search(name.lower())] == []
