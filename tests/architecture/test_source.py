"""The shape of the source: layers, small files, nothing unpickled, no hidden randomness."""

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedcsa

ROOT = Path(__file__).parents[2]
FILES = sorted(Path(fedcsa.__file__).parent.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
UNPICKLERS = {"pickle", "cPickle", "joblib", "cloudpickle", "dill", "marshal", "shelve"}
MAX_LINES = 600  # one stage of the picture, its docstrings included
#: Modules in the longest chain that loading one of these begins; a reader holds no more in mind.
DEPTHS = {"fedcsa.estimator": 12, "fedcsa.answer.page": 17, "fedcsa.federation.flare.executors": 16}


def named(path):
    return str(path.relative_to(Path(fedcsa.__file__).parent))


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_import_contracts_hold():
    program = Path(sys.executable).with_name("lint-imports")
    if not program.is_file():
        pytest.skip("import-linter is not installed here")
    result = subprocess.run(  # noqa: S603 - a tool of the project
        [str(program), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
    )
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


def offenders(rule, files=FILES):
    return [named(path) for path in files if not rule(path)]


def calls(path):
    """What is called, as it is written, and the node."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def roots(path):
    return {name.split(".")[0] for name in imported(TREES[path])}


def module_of(path):
    parts = path.relative_to(Path(fedcsa.__file__).parents[1]).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): tree for path, tree in TREES.items()}


def loaded_with(module):
    """What its own lines import when it is loaded: neither for types alone, nor in a function."""
    lines = MODULES[module].body
    nodes = [node for line in lines if not isinstance(line, ast.If) for node in outside(line)]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def outside(line):
    """`line` and its parts, functions left out."""
    if not isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef):
        yield line
        for part in ast.iter_child_nodes(line):
            yield from outside(part)


@functools.cache
def chain(module):
    """The longest chain of imports that begins with `module`."""
    following = [
        chain(name) for name in set(loaded_with(module)) & set(MODULES) - {"fedcsa", module}
    ]
    return (module, *max(following, key=len, default=()))


@pytest.mark.parametrize(("module", "depth"), DEPTHS.items())
def test_imports_are_not_deeper_than_a_reader_can_follow(module, depth):
    assert len(chain(module)) <= depth, " <- ".join(chain(module))


def test_no_chain_of_imports_is_longer_than_the_pages():
    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= max(DEPTHS.values()), " <- ".join(longest)


def test_no_file_is_too_long_to_read():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert offenders(lambda path: lengths[path] <= MAX_LINES) == []


def test_nothing_is_unpickled_or_evaluated():
    assert offenders(lambda path: not roots(path) & UNPICKLERS) == []
    evaluators = {"eval", "exec", "compile", "__import__", "np.load", "numpy.load"}
    assert offenders(lambda path: not evaluators & {name for name, _ in calls(path)}) == []


def test_randomness_is_an_argument():
    allowed = {"Generator", "RandomState", "SeedSequence", "default_rng"}

    def asks(path):
        used = {
            node.attr
            for node in ast.walk(TREES[path])
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random"
        }
        # A state of its own only where a user may leave the seed open.
        open_seed = any(n == "np.random.default_rng" and not c.args for n, c in calls(path))
        return used <= allowed and not (open_seed and named(path) != "estimator.py")

    assert offenders(asks) == []
    assert offenders(lambda path: "random" not in roots(path)) == []


def test_only_the_command_line_prints():
    files = [path for path in FILES if "cli" not in path.parts]
    assert offenders(lambda path: "print" not in {name for name, _ in calls(path)}, files) == []


def test_the_arithmetic_opens_no_file_and_reads_no_clock():
    allowed = {
        "__future__", "collections", "dataclasses", "fedcsa", "functools", "hashlib", "math",
        "numpy", "scipy", "typing",
    }  # fmt: skip
    threads = {
        "concurrent",
        "contextlib",
        "itertools",
        "os",
        "threading",
        "threadpoolctl",
    }  # how many cores
    files = [path for path in FILES if "core" in path.parts]
    assert len(files) > 5

    def is_arithmetic(path):
        return roots(path) <= (allowed | threads if path.name == "batches.py" else allowed)

    assert offenders(is_arithmetic, files) == []
    assert offenders(lambda path: "open" not in {name for name, _ in calls(path)}, files) == []
