"""Seconds and megabytes of a federated study against the number of sources, on this machine.

Every site is a process of its own, with mutual TLS over loopback; the study is trivial, so that
what is left is the engine's share.

    python benchmarks/federation.py --sources 3 10 20 --out benchmarks/federation.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedcsa.cli.run import carry_out
from fedcsa.data.tables import write_table
from fedcsa.site.federation import Federation
from fedcsa.site.state import Status
from fedcsa.study import Study
from fedcsa.transport.flare.kits import Kit, provision
from fedcsa.transport.flare.process import EngineProcess
from fedcsa.transport.flare.settings import write_settings

LEAD = "lead@demo.org"
ROWS, FEATURES = 200, 4
STEPS = ("announce", "risk", "choose", "model", "conclude")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, nargs="+", default=[3, 10, 20])
    parser.add_argument(
        "--patience", type=float, default=900.0, help="seconds for sites to connect"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [measure(count, options.patience) for count in options.sources]
    print(
        "sources  connect  study  "
        + "  ".join(f"{s:>8}" for s in STEPS)
        + "     MB  in process  engine"
    )
    for row in rows:
        steps = "  ".join(f"{row['seconds'][step]:8.2f}" for step in STEPS)
        print(
            f"{row['sources']:7d} {row['connect']:8.1f} {row['study']:6.1f}  {steps} "
            f"{row['megabytes']:6.2f} {row['in_process']:11.2f} {row['engine_share']:7.0%}"
        )
    if options.out:
        machine = {"cores": os.cpu_count(), "python": platform.python_version()}
        machine["load"] = round(os.getloadavg()[1], 1)
        options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def measure(count: int, patience: float) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        study = write_sites(folder, count)
        sites = {"new": "target", **{f"s{i}": "source" for i in range(count)}}
        provision(
            Federation("bench", "localhost", free_port(), sites, {LEAD: "lead"}), folder / "kits"
        )
        started = time.monotonic()
        start(stack, folder, "localhost")
        for name in sites:
            write_settings(folder / "kits" / name, folder / name / "site.toml")
            start(stack, folder, name)
        wait(folder, list(sites), patience)
        connect = time.monotonic() - started
        started = time.monotonic()
        told = submit(folder, study, count)
        seconds = time.monotonic() - started
        started = time.monotonic()
        carry_out(Study.load(study), quiet=True)
        in_process = time.monotonic() - started
    return {
        "sources": count,
        "connect": round(connect, 1),
        "study": round(seconds, 1),
        "seconds": told["seconds"],
        "megabytes": round(sum(told["bytes"].values()) / 1e6, 3),
        "in_process": round(in_process, 2),
        "engine_share": round(1.0 - in_process / seconds, 3),
    }


def write_sites(folder: Path, count: int) -> Path:
    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(FEATURES)]
    for site in ("new", *(f"s{i}" for i in range(count))):
        (folder / site).mkdir()
        X = rng.normal(size=(ROWS, FEATURES))
        columns = dict(zip(names, X.T.tolist(), strict=True))
        if site != "new":
            columns["y"] = (X.sum(axis=1) + rng.normal(size=ROWS)).tolist()
        write_table(folder / site / "table.csv", columns)
        (folder / site / "site.toml").write_text('table = "table.csv"\n')
    sources = "".join(f'[sources.s{i}]\ntable = "s{i}/table.csv"\n' for i in range(count))
    features = "".join(f'{name} = "number"\n' for name in names)
    path = folder / "study.toml"
    path.write_text(
        f'name = "bench"\n[outcome]\nname = "y"\n[features]\n{features}[model]\nname = "ridge"\n'
        f'[candidates]\npenalty = [0.1, 1.0]\n[target]\ntable = "new/table.csv"\n{sources}'
    )
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(stack: contextlib.ExitStack, folder: Path, name: str) -> None:
    kit = folder / "kits" / name
    stack.enter_context(EngineProcess(kit, Kit.load(kit)))


def wait(folder: Path, sites: list[str], patience: float) -> None:
    end = time.monotonic() + patience
    while not all(Status(folder / site / "state").lines() for site in sites):
        if time.monotonic() > end:
            raise SystemExit("not every site connected in time")
        time.sleep(0.2)


def submit(folder: Path, study: Path, count: int) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        [sys.executable, "-m", "fedcsa", "study", "submit", str(study), "--json", "--kit",
         str(folder / "kits" / LEAD), "--min-sources", str(count), "--deadline", "600",
         "--out", str(folder / "result")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    told: dict[str, dict[str, float]] = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    main()
