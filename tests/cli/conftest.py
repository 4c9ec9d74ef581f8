"""A small study on disk, and the command line without a terminal."""

import csv
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedcsa.cli.app import app

SIZES = {"a": 50, "b": 64, "c": 58}
FEATURES = ("age", "bmi")


def _write(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _hospital(rng, mean, rows, sign, labels):
    X = rng.normal(mean, 1.0, (rows, 2))
    y = sign * X.sum(axis=1) + rng.normal(size=rows)
    outcome = [labels[int(value > 0.0)] for value in y] if labels else y.tolist()
    return {"age": X[:, 0].tolist(), "bmi": X[:, 1].tolist(), "outcome": outcome}


@pytest.fixture(scope="session")
def make_study():
    """A function that writes tables and a study file, and returns the file's path."""

    def make(
        folder, *, top="", model='name = "ridge"', candidates="penalty = [0.0, 0.1]", extra="",
        sizes=SIZES, shift=0.0, n_target=40, flipped=(), labels=(), edit=None,
    ):  # fmt: skip
        rng = np.random.default_rng(5)
        folder.mkdir(parents=True, exist_ok=True)
        for index, (name, rows) in enumerate(sizes.items()):
            sign = -1.0 if name in flipped else 1.0
            table = _hospital(rng, 0.1 * index, rows, sign, labels)
            _write(folder / f"{name}.csv", edit(name, table) if edit else table)
        target = _hospital(rng, 0.1 + shift, n_target, 1.0, labels)
        target.pop("outcome")
        _write(folder / "new.csv", target)
        _write(folder / "later.csv", _hospital(rng, 0.1, 90, 1.0, labels))
        _write(folder / "other.csv", _hospital(rng, 0.1, 90, -1.0, labels))
        levels = f"levels = [{', '.join(map(repr, labels))}]\n" if labels else ""
        chosen = f"[candidates]\n{candidates}\n" if candidates else ""
        sources = "".join(f'[sources.{name}]\ntable = "{name}.csv"\n' for name in sizes)
        (folder / "study.toml").write_text(
            f'name = "small"\nseed = 3\n{top}\n[outcome]\nname = "outcome"\n{levels}'
            f'[features]\nage = "number"\nbmi = "number"\n[model]\n{model}\n{chosen}{extra}\n'
            f'[target]\ntable = "new.csv"\n{sources}',
            encoding="utf-8",
        )
        return folder / "study.toml"

    return make


@pytest.fixture(scope="session")
def invoke():
    """Call the command line; anything but a named exit is raised here."""

    def call(*arguments, **environment):
        result = CliRunner().invoke(
            app,
            [str(argument) for argument in arguments],
            env={"NO_COLOR": "1", "COLUMNS": "200", **environment},
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture(scope="session")
def finished(make_study, invoke, tmp_path_factory):
    """Pristine study and result folders, by kind; computed once. Copy before you change one."""

    @functools.cache
    def finish(kind="plain"):
        folder = tmp_path_factory.mktemp(kind)
        options = {
            "plain": {},
            "classes": {
                "labels": ("ill", "well"),
                "model": 'name = "sklearn.linear_model.LogisticRegression"',
                "candidates": "ratio_power = [0.0]",
            },
            "paper": {"top": 'method = "feddae"'},
        }[kind]
        study = make_study(folder, **options)
        assert invoke("run", study, "--out", folder / "result").exit_code == 0
        return folder

    return finish


@pytest.fixture
def study_folder(finished, tmp_path):
    """A study with its result, free to be changed."""
    return shutil.copytree(finished(), tmp_path / "study")


@pytest.fixture(scope="session")
def script():
    """Run the installed program, or the module, in a process of its own."""
    program = Path(sys.executable).with_name("fedcsa")
    command = [str(program)] if program.is_file() else [sys.executable, "-m", "fedcsa"]

    def call(*arguments, module=False, text=True, **environment):
        start = [sys.executable, "-m", "fedcsa"] if module else command
        kept = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
        return subprocess.run(  # noqa: S603 - our own program
            [*start, *map(str, arguments)],
            capture_output=True,
            encoding="utf-8" if text else None,
            timeout=600,
            check=False,
            env={**kept, "PYTHONIOENCODING": "utf-8", **environment},
        )

    return call
