"""The shape of the source: small files, nothing unpickled, no hidden randomness."""

import ast
from pathlib import Path

import pytest

import fedcsa

HOME = Path(fedcsa.__file__).parent
UNPICKLERS = {"pickle", "cPickle", "joblib", "cloudpickle", "dill", "marshal", "shelve"}
MAX_LINES = 600  # one stage of the picture, its docstrings included
#: Modules in the longest chain that loading one of these begins; a reader holds no more in mind.
DEPTHS = {"fedcsa.estimator": 12, "fedcsa.answer.page": 17, "fedcsa.federation.flare.executors": 16}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def roots(tree):
    return {name.split(".")[0] for name in imported(tree)}


def calls(tree):
    """What is called, as it is written, and the node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.fixture(scope="module")
def called(trees):
    """The names of everything that a module calls, by the module's path."""
    return {place: {name for name, _ in calls(tree)} for place, tree in trees.items()}


# Chains of imports ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chains(trees):
    """The longest chain of imports that begins with each module."""
    modules = {module_of(place): tree for place, tree in trees.items()}
    found = {}

    def chain(module):
        if module not in found:
            others = set(loaded_with(modules, module)) & set(modules) - {"fedcsa", module}
            found[module] = (module, *max(map(chain, others), key=len, default=()))
        return found[module]

    return {module: chain(module) for module in modules}


def module_of(place):
    parts = ["fedcsa", *place.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def loaded_with(modules, module):
    """What its own lines import when it is loaded: neither for types alone, nor in a function."""
    lines = modules[module].body
    nodes = [node for line in lines if not isinstance(line, ast.If) for node in outside(line)]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def outside(line):
    """`line` and its parts, functions left out."""
    if not isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef):
        yield line
        for part in ast.iter_child_nodes(line):
            yield from outside(part)


@pytest.mark.parametrize(("module", "depth"), DEPTHS.items())
def test_imports_are_not_deeper_than_a_reader_can_follow(module, depth, chains):
    assert len(chains[module]) <= depth, " <- ".join(chains[module])


def test_no_chain_of_imports_is_longer_than_the_pages(chains):
    longest = max(chains.values(), key=len)
    assert len(longest) <= max(DEPTHS.values()), " <- ".join(longest)


# Habits ---------------------------------------------------------------------------------------


def test_no_file_is_too_long_to_read(trees):
    lengths = {
        place: len((HOME / place).read_text(encoding="utf-8").splitlines()) for place in trees
    }
    assert [place for place, length in lengths.items() if length > MAX_LINES] == []


def test_nothing_is_unpickled_or_evaluated(trees, called):
    assert [place for place, tree in trees.items() if roots(tree) & UNPICKLERS] == []
    evaluators = {"eval", "exec", "compile", "__import__", "np.load", "numpy.load"}
    assert [place for place, names in called.items() if names & evaluators] == []


def test_randomness_is_an_argument(trees):
    allowed = {"Generator", "RandomState", "SeedSequence", "default_rng"}
    for place, tree in trees.items():
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random"
        }
        assert used <= allowed, place
        # A state of its own only where a user may leave the seed open.
        open_seed = any(n == "np.random.default_rng" and not c.args for n, c in calls(tree))
        assert not open_seed or place == "estimator.py", place
        assert "random" not in roots(tree), place


def test_only_the_command_line_prints(called):
    printing = [place for place, names in called.items() if "print" in names]
    assert [place for place in printing if not place.startswith("cli/")] == []


def test_the_arithmetic_opens_no_file_and_reads_no_clock(trees, called):
    allowed = {
        "__future__", "collections", "dataclasses", "fedcsa", "functools", "hashlib", "itertools",
        "math", "numpy", "scipy", "statistics", "typing",
    }  # fmt: skip
    threads = {"concurrent", "contextlib", "os", "threading", "threadpoolctl"}  # cores
    core = {place: tree for place, tree in trees.items() if place.startswith("core/")}
    assert len(core) > 5
    for place, tree in core.items():
        extra = threads if place == "core/batches.py" else set()
        assert roots(tree) <= allowed | extra, place
        assert "open" not in called[place], place
