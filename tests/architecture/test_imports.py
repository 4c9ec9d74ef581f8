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
