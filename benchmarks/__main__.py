"""Run every benchmark, one after the other, each within its budget; then write the pages.

    python -m benchmarks                  # half an hour, kept in benchmarks/results
    python -m benchmarks --quick          # three minutes, tiny sizes, kept in results/bench
    python -m benchmarks --only stream    # only this one

One that fails or takes longer than its budget is named at the end; the others still run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import ROOT, options, write_table
from benchmarks.render import main as render

#: Seconds for each script, about twice what it takes on two free cores; together half an hour.
BUDGETS = {
    "commands": 100,
    "source": 65,
    "stream": 260,
    "wide": 80,
    "many_sources": 70,
    "fits": 160,
    "backtest": 90,
    "federation": 150,
    "predict": 60,
    "long_tables": 75,
    "trees": 60,
    "peers": 440,  # of which half is to install them, the first time
    "profiles": 180,  # last: it looks which bars are missed
}
#: A quick run needs a tenth of it for one script; a busy machine may need all.
QUICK_BUDGET = 120
#: Seconds for a script to end what it started.
GRACE = 10.0


def stolen_seconds() -> float:
    """Seconds of all cores so far in which a host ran something else; 0 where nobody tells."""
    try:
        cores = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
        return float(cores[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def ended(command: Sequence[str], seconds: float) -> str:
    """Run a command; "" if it ended well, otherwise why not. What it started ends with it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True) as process:
        try:
            code = process.wait(seconds)
            return f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            return f"longer than {seconds:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGINT)  # so that it ends its own processes
                process.wait(GRACE)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def main(arguments: Sequence[str] | None = None) -> None:
    names = {"nargs": "+", "choices": list(BUDGETS), "help": "these scripts; otherwise all"}
    given = options(__doc__, arguments, only=names)
    chosen = {name: BUDGETS[name] for name in given.only or BUDGETS}
    if not given.only:  # one run, one page: no figure of an earlier one stays beside the new
        for path in [*given.out.glob("*.csv"), *given.out.glob("*.provenance.json")]:
            path.unlink()
    begun, lines = time.monotonic(), []
    for at, (name, budget) in enumerate(chosen.items(), 1):
        seconds = min(budget, QUICK_BUDGET) if given.quick else budget
        rest = list(chosen)[at:]
        print(f"[{at} of {len(chosen)}] {name}, at most {seconds} s; then {rest}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(given.out)]
        start, before = time.monotonic(), stolen_seconds()
        why = ended([*command, "--quick"] if given.quick else command, seconds)
        taken = time.monotonic() - start
        stolen = (stolen_seconds() - before) / taken / (os.cpu_count() or 1)
        line = {"script": name, "seconds": taken, "budget": seconds, "stolen": stolen}
        lines.append({**line, "problem": why})
        print(f"[{at} of {len(chosen)}] {name}: {why or 'done'} after {taken:.0f} s", flush=True)
    write_table(given.out, "runs", lines)
    if not given.quick:
        render([])
    print(f"All after {time.monotonic() - begun:.0f} s")
    failed = [f"{line['script']} ({line['problem']})" for line in lines if line["problem"]]
    if failed:
        sys.exit(f"Not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
