"""The public names: sorted, importable, documented, and cheap to import."""

import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedcsa

ROOT = Path(__file__).parents[2]
INIT = Path(fedcsa.__file__)
NAMES = [name for name in fedcsa.__all__ if name != "__version__"]
MODULES = ["fedcsa", *(m.name for m in pkgutil.walk_packages(fedcsa.__path__, "fedcsa."))]
ENGINE = "fedcsa.federation.flare."
HEAVY = {
    "nvflare",
    "sklearn",
    "pyarrow",
    "duckdb",
    "adbc_driver_manager",
    "typer",
    "rich",
    "pandas",
    "polars",
    "scipy",
    "starlette",
    "uvicorn",
}


def as_linters_sort(name):
    """CONSTANTS, then Classes, then functions, each alphabetically."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_all_is_sorted_and_without_repetition():
    assert fedcsa.__all__ == sorted(set(fedcsa.__all__), key=as_linters_sort)


def test_all_names_have_a_home_and_all_homes_a_name():
    assert set(fedcsa._HOMES) == set(NAMES)
    assert list(fedcsa._HOMES) == sorted(fedcsa._HOMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_found_in_its_home(name):
    home = importlib.import_module(f"fedcsa.{fedcsa._HOMES[name]}")
    value = getattr(fedcsa, name)
    assert value is getattr(home, name)
    assert f"{value.__module__}.".startswith(f"{home.__name__}.")


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


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_for(module):
    if module.startswith(ENGINE):
        pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")
    assert documented(importlib.import_module(module))


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


# What an import costs -----------------------------------------------------------------------


def loaded_after(statement):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.split(".")[0] for name in json.loads(result.stdout)}


def test_importing_fedcsa_loads_nothing_heavy():
    assert not loaded_after("import fedcsa") & (HEAVY | {"numpy"})


def test_the_command_line_computes_nothing_before_it_knows_what():
    assert not loaded_after("import fedcsa.cli.app") & ((HEAVY | {"numpy"}) - {"typer", "rich"})


def test_whoever_opens_a_message_or_carries_one_loads_no_arithmetic():
    """Every site starts a process to open messages, and the server one for every study."""
    assert "scipy" not in loaded_after("import fedcsa.site.opening_child")
    assert "scipy" not in loaded_after("import fedcsa.federation.coordinator")


def test_numbers_are_read_and_written_without_pandas(tmp_path):
    """Pyarrow loads it at many a step, and that takes as long as a small study."""
    rows = tmp_path / "rows.csv"
    rows.write_text("x\n1.5\n2.5\n", encoding="utf-8")
    steps = [
        "from fedcsa.data.coding import Columns",
        "from fedcsa.data.streams import read_rows",
        "from fedcsa.data.tables import open_table, write_table",
        f"table = open_table({str(rows)!r})",
        "X, _ = read_rows(table, Columns({'x': 'number'}), 'a', with_outcome=False)",
        f"write_table({str(tmp_path / 'p.parquet')!r}, {{'x': X[:, 0]}})",
    ]
    assert "pandas" not in loaded_after("\n".join(steps))


def test_the_command_line_and_a_sites_desk_load_no_engine():
    assert "nvflare" not in loaded_after("import fedcsa.cli.app, fedcsa.site.source_desk")


def test_the_arithmetic_and_the_protocol_load_neither_models_nor_tables():
    core = [m for m in MODULES if m.startswith(("fedcsa.core", "fedcsa.messages"))]
    loaded = loaded_after("import " + ", ".join(core))
    assert not loaded & HEAVY
    assert "numpy" in loaded
