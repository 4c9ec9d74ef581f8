"""What is loaded only when it is needed."""

import json
import subprocess
import sys

import pytest

HEAVY = (
    "sklearn",
    "matplotlib",
    "pyarrow",
    "duckdb",
    "adbc_driver_manager",
    "pandas",
    "polars",
    "typer",
    "rich",
    "flwr",
)


def loaded_by(statement):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_importing_the_package_loads_no_library():
    loaded = loaded_by("import fedcsa")
    assert "fedcsa" in loaded
    assert not loaded & {"numpy", "scipy", *HEAVY}


@pytest.mark.parametrize(
    "statement",
    [
        "from fedcsa import ULSIF, RiskMoments, Table1, estimate",
        "from fedcsa import Source, Target, Plan, Policy, InProcess, run_study",
        "import fedcsa.core.ulsif, fedcsa.messages.codec",
    ],
)
def test_arithmetic_roles_and_messages_need_numpy_and_scipy_only(statement):
    assert not loaded_by(statement) & set(HEAVY)


def loaded_by_command(*arguments, folder):
    """The libraries that a command of `fedcsa` loads, in a folder with a small study."""
    code = (
        "import json, sys\nfrom fedcsa.cli.app import main\n"
        f"sys.argv = ['fedcsa', *{list(arguments)!r}]\n"
        "try:\n    main()\nfinally:\n    print()\n    print(json.dumps(sorted(sys.modules)))"
    )
    for number, name in enumerate(("a", "b", "c", "new")):
        rows = [f"{(7 * i + number) % 11},{i % 5}.5,{i % 7}" for i in range(80)]
        (folder / f"{name}.csv").write_text("\n".join(["age,bmi,y", *rows]), encoding="utf-8")
    tables = "".join(f"[sources.{name}]\ntable = '{name}.csv'\n" for name in "abc")
    (folder / "study.toml").write_text(
        "name = 'study'\n[outcome]\nname = 'y'\n[features]\nage = 'number'\nbmi = 'number'\n"
        f"[model]\nname = 'ridge'\n[target]\ntable = 'new.csv'\n{tables}",
        encoding="utf-8",
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)  # noqa: S603
    assert "Traceback" not in done.stderr.replace("SystemExit", "")
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_help_loads_no_library_that_computes_or_reads(tmp_path):
    loaded = loaded_by_command("--help", folder=tmp_path)
    assert "typer" in loaded
    assert not loaded & {"numpy", "scipy", *HEAVY} - {"typer", "rich"}


def test_a_check_loads_what_reads_its_tables_and_no_library_that_computes(tmp_path):
    loaded = loaded_by_command("check", "study.toml", folder=tmp_path)
    assert "pyarrow" in loaded
    assert not loaded & {"scipy", *HEAVY} - {"typer", "rich", "pyarrow"}


def test_a_run_of_the_default_study_loads_no_model_library_and_draws_with_none(tmp_path):
    loaded = loaded_by_command("run", "study.toml", folder=tmp_path)
    assert (tmp_path / "study-result" / "report.html").exists()
    assert not loaded & set(HEAVY) - {"typer", "rich", "pyarrow"}
