"""What a federated study costs against the number of sources: seconds of every step, megabytes.

Every site is a process of its own, with mutual TLS over loopback, as real sites are; only the
network between them is missing. The study is trivial, so that what is left is the engine's share.
It needs the extra `federation`. The columns:

- ``connect``: from the start of the server and all sites until the last one waits for a study;
- ``study``: from the lead's command to the result in the lead's folder;
- ``login`` and ``start``, by the lead's clock: to connect to the server, and until the job runs;
- ``greet`` to ``conclude``: the steps, by the server's clock; ``greet`` waits for every site's
  process to start;
- ``rest``: what is left of ``study``: the lead's own process before it connects, and at the end;
- ``empty_job``: the engine's own floor, the same processes with nothing of ours in them
  (`benchmarks.empty_job`), from the lead's command to the end of its only round;
- ``megabytes``: all messages that the server carried, both ways;
- ``in_process``: the same study in one process that has everything imported, without an engine;
- ``engine_share``: the part of ``study`` that ``in_process`` does not need.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.empty_job import bare
from benchmarks.harness import PACKAGES, ROOT, options, timed, write_provenance, write_table
from benchmarks.studies import outcomes, rows_of
from fedcsa.data.tables import write_table as write_rows
from fedcsa.federation.federation_file import Federation
from fedcsa.federation.flare.kits import Kit, provision
from fedcsa.federation.flare.process import EngineProcess
from fedcsa.federation.flare.settings import write_settings
from fedcsa.site.state import Status
from fedcsa.study import Study

SERVER, TARGET, LEAD = "localhost", "new", "lead@demo.org"
STEPS = ("greet", "announce", "risk", "choose", "model", "mix", "examine", "conclude")
PATIENCE = 900.0  # seconds for all sites to connect
SETTLED = 5.0  # seconds in which the processes of a study end, before the next begins


@dataclass(frozen=True)
class Settings:
    """Sizes; `rows` are those of each site."""

    sources: tuple[int, ...] = (4, 10)
    rows: int = 200
    features: int = 4
    penalties: tuple[float, ...] = (0.1, 1.0)


QUICK = Settings(sources=(1,))


def main(arguments: Sequence[str] | None = None) -> None:
    numbers = {"type": int, "nargs": "+", "help": "numbers of sources"}
    given = options(__doc__, arguments, sources=numbers)
    settings = QUICK if given.quick else Settings()
    if given.sources:
        settings = replace(settings, sources=tuple(given.sources))
    lines = [measure(count, settings) for count in settings.sources]
    write_table(given.out, "federation", lines)
    packages = (*PACKAGES, "nvflare")
    write_provenance(
        given.out, "federation", asdict(settings), quick=given.quick, packages=packages
    )


def measure(count: int, settings: Settings) -> dict[str, Any]:
    """Make a federation, start it, ask it once, and end it."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as running:
        folder = Path(scratch)
        sites = [TARGET, *names_of(count)]
        study = write_study(folder, count, settings)
        alone = [timed(lambda: Study.load(study).run()) for _ in range(2)]
        make_kits(folder, sites)
        connect = timed(lambda: start(running, folder, sites)).wall
        seconds = timed(lambda: submit(folder, study, count)).wall
        told = json.loads((folder / "result" / "federation.json").read_text(encoding="utf-8"))
        time.sleep(SETTLED)
        empty = timed(lambda: submit_empty(folder, sites)).wall
    return line_of(count, connect, seconds, told, alone[-1].wall, empty)  # the first may import


def line_of(
    count: int,
    connect: float,
    study: float,
    told: Mapping[str, Any],
    in_process: float,
    empty_job: float,
) -> dict[str, Any]:
    """A line of the table, from our clock and from what the lead was `told` about the study."""
    seconds = {step: float(told["seconds"][step]) for step in STEPS}
    lead = {"login": float(told["seconds"]["connect"]), "start": float(told["seconds"]["start"])}
    return {
        "sources": count,
        "connect": connect,
        "study": study,
        **lead,
        **seconds,
        "rest": study - sum(lead.values()) - sum(seconds.values()),
        "empty_job": empty_job,
        "megabytes": sum(told["bytes"].values()) / 1e6,
        "in_process": in_process,
        "engine_share": 1.0 - in_process / study,
    }


def names_of(count: int) -> list[str]:
    return [f"s{i}" for i in range(count)]


def write_study(folder: Path, count: int, settings: Settings) -> Path:
    """Every site's folder with its table and its own file, and the study of them all."""
    names = [f"x{i}" for i in range(settings.features)]
    for i, site in enumerate([TARGET, *names_of(count)]):
        (folder / site).mkdir()
        X = rows_of(settings.rows, settings.features, seed=2 * i)
        columns = dict(zip(names, X.T.tolist(), strict=True))
        if site != TARGET:
            columns["y"] = outcomes(X, seed=2 * i + 1).tolist()
        write_rows(folder / site / "table.csv", columns)
        (folder / site / "site.toml").write_text('table = "table.csv"\n', encoding="utf-8")
    lines = ['name = "bench"', "[outcome]", 'name = "y"', "[features]"]
    lines += [f'{name} = "number"' for name in names]
    lines += ["[model]", 'name = "ridge"']
    lines += ["[candidates]", f"penalty = {list(settings.penalties)}"]
    lines += ["[target]", f'table = "{TARGET}/table.csv"']
    for site in names_of(count):
        lines += [f"[sources.{site}]", f'table = "{site}/table.csv"']
    path = folder / "study.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def make_kits(folder: Path, sites: Sequence[str]) -> None:
    roles = {site: "target" if site == TARGET else "source" for site in sites}
    provision(Federation("bench", SERVER, free_port(), roles, {LEAD: "lead"}), folder / "kits")
    for site in sites:
        write_settings(folder / "kits" / site, folder / site / "site.toml")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(running: contextlib.ExitStack, folder: Path, sites: Sequence[str]) -> None:
    """Start the server and every site, and wait until all are connected."""
    os.environ["PYTHONPATH"] = str(ROOT)  # where their processes find the empty job
    for name in (SERVER, *sites):
        kit = folder / "kits" / name
        running.enter_context(EngineProcess(kit, Kit.load(kit)))
    end = time.monotonic() + PATIENCE
    while not all(Status(folder / site / "state").lines() for site in sites):
        if time.monotonic() > end:
            raise SystemExit(f"Every site must connect within {PATIENCE:g} s; not all did.")
        time.sleep(0.2)


def submit(folder: Path, study: Path, count: int) -> None:
    """Submit the study as a lead does, by the command line, and wait for its result."""
    command = [sys.executable, "-m", "fedcsa", "study", "submit", str(study), "--quiet"]
    command += ["--kit", str(folder / "kits" / LEAD), "--out", str(folder / "result")]
    command += ["--min-sources", str(count), "--deadline", "600"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)


def submit_empty(folder: Path, sites: Sequence[str]) -> None:
    """Submit a job without anything of ours, and wait until every site has replied."""
    for name in (SERVER, *sites):
        bare(folder / "kits" / name)
    kit = folder / "kits" / LEAD
    command = [sys.executable, "-m", "benchmarks.empty_job", str(kit), LEAD, *sites]
    # The engine walks the current folder for settings: a small one, as of a study.
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=kit, timeout=PATIENCE
    )
    if done.returncode:
        raise SystemExit(done.stderr)


if __name__ == "__main__":
    main()
