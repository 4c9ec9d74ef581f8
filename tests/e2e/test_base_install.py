"""What a base install can do: no package of an extra may be loaded."""

import functools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Finds none of the packages that a base install lacks; runs the demo, then what it recommends.
RUN = """
import contextlib, io, shlex, sys, webbrowser
absent = set({absent!r})
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError("not in a base install: " + name, name=name)
sys.meta_path.insert(0, Absent())
webbrowser.open = print
from fedcsa.cli.app import main
def run(*command):
    sys.argv = ["fedcsa", *command]
    told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(told):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
    return told.buffer.getvalue().decode()
for line in run("demo", "--out", "demo").partition("Now try:")[2].splitlines()[1:]:
    run(*shlex.split(line)[1:])
    print(line)
"""


@functools.cache
def absent() -> set[str]:
    """What is installed here, and would not be after `pip install .` alone."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = {"fedcsa", *re.findall(r"^([a-z0-9-]+)==", text, re.M)}
    owned = packages_distributions().items()
    return {
        package
        for package, owners in owned
        if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & pinned
    }


def test_every_command_that_the_demo_recommends_works_after_a_base_install(tmp_path):
    command = [sys.executable, "-c", RUN.format(absent=sorted(absent()))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    worked = [line.split()[1] for line in done.stdout.splitlines()]
    assert worked == ["run", "backtest", "predict", "update", "report", "ledger"]
    assert "<svg" in (tmp_path / "demo" / "result" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", ["duckdb", "nvflare", "starlette", "pandas", "pytest"])
def test_the_base_has_no_package_of_an_extra(package):
    assert package in absent()


def test_extras_are_named_where_they_are_missing_and_exist():
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"MissingExtraError\(\s*[^,()]+,\s*\"(\w+)\"", text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"sql", "federation"} <= named <= set(project["optional-dependencies"])
