"""What is loaded only when it is needed."""

import json
import subprocess
import sys

HEAVY = (
    "sklearn",
    "matplotlib",
    "pyarrow",
    "duckdb",
    "adbc_driver_manager",
    "pandas",
    "polars",
    "click",
    "rich",
    "nvflare",
    "starlette",
    "uvicorn",
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


def test_arithmetic_and_roles_need_numpy_and_scipy_only():
    names = "ULSIF, RiskMoments, Table1, estimate, Source, Target, Plan, Policy, InProcess"
    assert not loaded_by(f"from fedcsa import {names}, run_study") & set(HEAVY)


def test_the_arithmetic_and_the_protocol_load_neither_models_nor_tables(trees):
    modules = [
        f"fedcsa.{place.removesuffix('.py').replace('/', '.')}"
        for place in trees
        if place.startswith(("core/", "messages/")) and not place.endswith("__init__.py")
    ]
    loaded = loaded_by("import " + ", ".join(modules))
    assert "numpy" in loaded
    assert not loaded & {"scipy", *HEAVY}


def test_whoever_opens_a_message_or_carries_one_loads_no_arithmetic():
    """Every site starts a process to open messages, and the server one for every study."""
    assert "scipy" not in loaded_by("import fedcsa.site.opening, fedcsa.federation.coordinator")


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
    assert "pandas" not in loaded_by("\n".join(steps))


def test_the_command_line_and_a_sites_desk_load_no_engine():
    assert "nvflare" not in loaded_by("import fedcsa.cli.app, fedcsa.site.source_desk")


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
    assert "click" in loaded
    assert not loaded & {"numpy", "scipy", *HEAVY} - {"click", "rich"}


def test_a_check_of_a_plain_study_loads_no_library_that_computes_or_reads(tmp_path):
    loaded = loaded_by_command("check", "study.toml", folder=tmp_path)
    assert not loaded & {"numpy", "scipy", *HEAVY} - {"click", "rich"}


def test_a_closer_check_loads_what_reads_its_tables_and_no_library_that_computes(tmp_path):
    loaded = loaded_by_command("check", "study.toml", "--set", "level=0.9", folder=tmp_path)
    assert "pyarrow" in loaded
    assert not loaded & {"scipy", *HEAVY} - {"click", "rich", "pyarrow"}


def test_a_run_of_the_default_study_loads_no_model_library_and_draws_with_none(tmp_path):
    loaded = loaded_by_command("run", "study.toml", folder=tmp_path)
    assert (tmp_path / "study-result" / "report.html").exists()
    assert not loaded & set(HEAVY) - {"click", "rich", "pyarrow"}
