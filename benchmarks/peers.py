"""Our uLSIF against that of others, on the same arrays and the same grid of 9 × 9.

The others are installed into an environment of their own, build/peers-venv, with the versions of
peers-constraints.txt. One that cannot be installed or run is named and left out.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    ROOT,
    Taken,
    blas_threads,
    exponent,
    options,
    timed,
    write_provenance,
    write_table,
)
from benchmarks.ratio import floor, two_samples
from fedcsa import ULSIF

HERE = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / "build" / "peers-venv"
PEERS = ("densratio", "adapt")


@dataclass(frozen=True)
class Settings:
    """Sizes; the last number of rows is the one that bars are about.

    One thread for everybody, and ratios of the work done on it: they do not depend on what else
    the machine does. A peer is timed once, ours before and after it.
    """

    rows: tuple[int, ...] = (1_000, 3_000, 10_000)
    features: int = 10
    centres: int = 100
    threads: int = 1


QUICK = Settings(rows=(200, 400))


def installed() -> Path | None:
    """The environment's interpreter; made and filled where it is not there yet."""
    python = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = ENVIRONMENT / ".ready"
    wanted = HERE / "peers-constraints.txt"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return python
    print(f"Installing {', '.join(PEERS)} into {ENVIRONMENT.relative_to(ROOT)}")
    venv.create(ENVIRONMENT, with_pip=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for peer in PEERS:
        done = subprocess.run([*command, "-c", wanted, peer], check=False)
        if done.returncode:
            print(f"{peer} could not be installed and is left out.")
    stamp.write_text(wanted.read_text())
    return python


def peer_times(python: Path, peer: str, folder: str, threads: int) -> dict[str, Any] | None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONPATH", None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        environment[name] = str(threads)
    command = [python, HERE / "peer_worker.py", peer, folder, "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{peer} could not be run and is left out: {last[:200]}")
        return None
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def measure(settings: Settings, rows: int, python: Path | None) -> list[dict[str, Any]]:
    source, target = two_samples(rows, settings.features)
    ours = ULSIF(random_state=0).fit(source, target)  # also the grid that all are given
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (
            ("source", source),
            ("target", target),
            ("bandwidths", ours.bandwidths_),
            ("regularizations", ours.regularizations_),
        ):
            np.save(Path(folder) / f"{name}.npy", array)

        def ours_timed() -> dict[str, Taken]:
            def fit(score_rows: int | None) -> Taken:
                ratio = ULSIF(
                    ours.bandwidths_, ours.regularizations_, score_rows=score_rows, random_state=0
                )
                return timed(lambda: ratio.fit(source, target))

            base = timed(lambda: floor(source, target, target[: settings.centres]))
            return {"floor": base, "fedcsa": fit(ours.score_rows), "fedcsa-exact": fit(None)}

        rounds, peers = [ours_timed()], {}
        for peer in PEERS if python else ():
            told = peer_times(python, peer, folder, settings.threads) if python else None
            rounds.append(ours_timed())
            if told:
                peers[peer] = told
    lines: list[dict[str, Any]] = [
        {
            "rows": rows,
            "what": name,
            "version": "",
            "import_seconds": None,
            "seconds": statistics.median(r[name].wall for r in rounds),
            "cpu_seconds": statistics.median(r[name].cpu for r in rounds),
        }
        for name in rounds[0]
    ]
    own = {line["what"]: line["cpu_seconds"] for line in lines}
    for peer, told in peers.items():
        line = {key: told[key] for key in ("version", "import_seconds")}
        times = {key: min(told[key]) for key in ("seconds", "cpu_seconds")}
        lines.append({"rows": rows, "what": peer, **line, **times})
    for line in lines:
        line["times_ours"] = line["cpu_seconds"] / own["fedcsa"]
        line["times_exact"] = line["cpu_seconds"] / own["fedcsa-exact"]
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        __doc__,
        arguments,
        alone={"action": "store_true", "help": "install nothing, ours only"},
        rows={"type": int, "nargs": "+", "help": "numbers of rows"},
    )
    settings = QUICK if given.quick else Settings()
    if given.rows:
        settings = replace(settings, rows=tuple(given.rows))
    python = None if given.alone else installed()
    lines: list[dict[str, Any]] = []
    for rows in settings.rows:  # written after each size: the next may take minutes
        with blas_threads(settings.threads):
            lines += measure(settings, rows, python)
        write_table(given.out, "peers", [{**line, **_exponent(line, lines)} for line in lines])
        told = {**asdict(settings), "python_of_peers": ".".join(map(str, sys.version_info[:2]))}
        write_provenance(given.out, "peers", told, quick=given.quick)


def _exponent(line: dict[str, Any], lines: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    same = [other for other in lines if other["what"] == line["what"]]
    if len(same) < 2:
        return {"exponent": None}
    return {"exponent": exponent([o["rows"] for o in same], [o["cpu_seconds"] for o in same])}


if __name__ == "__main__":
    main()
