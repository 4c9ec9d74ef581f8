"""``fedcsa federation demo``: a server, a target and four sources as processes of this machine."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from fedcsa.cli.common import Output, Screen
from fedcsa.cli.demo_command import demo_study, write_patients
from fedcsa.data.synthetic import consortium
from fedcsa.errors import ProtocolError
from fedcsa.federation.federation_file import Federation
from fedcsa.messages.messages import Conclusion
from fedcsa.site.log import Sent, SiteLog
from fedcsa.site.state import Status

#: The fifth hospital of the demo treats children; a federation of four is enough to see it work.
N_SOURCES = 4
_PATIENCE = 180.0
_CONCLUSION = (
    "— The conclusion is one text, closed for the lead: the answer above without the model, and "
    "what became of every source."
)


def run_demo(out: Path, output: Output, seed: int) -> int:
    """Set up, run the demo study, report what left each site, stop everything; the exit code."""
    from fedcsa.federation.flare.kits import provision

    sources = write_sites(out, seed)
    sites = {"new": "target", **dict.fromkeys(sources, "source")}
    federation = Federation("demo", "localhost", _free_port(), sites, {_LEAD: "lead"})
    provision(federation, out / "kits")
    output.say(f"{len(sites) + 2} kits made; starting a server and {len(sites)} sites")
    with contextlib.ExitStack() as stack:
        # Whoever ends this ends all that it started.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, before)
        _start(stack, "federation", "serve", str(out / "kits" / "localhost"), "--quiet")
        for name in sites:
            data = str(out / name / "site.toml")
            _start(stack, "site", "start", str(out / "kits" / name), "--data", data, "--quiet")
        _wait(out, list(sites), output)
        output.say("\n$ fedcsa study submit study.toml", style="bold")
        code = _submit(out, quiet=output.json or output.quiet)
    tell_what_left(out, list(sites), code, output)
    return code


def tell_what_left(out: Path, sites: list[str], code: int, output: Output) -> None:
    """The last part of what the demo prints."""
    rows = _what_left(out, sites)
    content = {"folder": str(out), "result": str(out / "result"), "exit_code": code, "left": rows}
    output.say("\nEverything is stopped. What left each site:", style="bold")
    output.answer(content, lambda screen: _print(screen, rows, out), out / "result")


def _print(screen: Screen, rows: list[dict[str, Any]], out: Path) -> None:
    table = Table("site", "message", "to")
    for heading in ("numbers", "kB"):
        table.add_column(heading, justify="right")
    for row in rows:
        *words, numbers, size = row.values()
        # The last digits of a number, and so the bytes of its text, differ between processors.
        table.add_row(*words, "—" if numbers is None else str(numbers), f"{size / 1000:.1f}")
    screen.print(table)
    screen.say(_CONCLUSION)
    screen.say(f"In full: fedcsa ledger {out}/abbey/site.toml --fields")


def _what_left(out: Path, sites: list[str]) -> list[dict[str, Any]]:
    """One row a site and kind of message, every chain verified."""
    rows: list[dict[str, Any]] = []
    for site in sites:
        by_kind: dict[str, list[Sent]] = {}
        for line in SiteLog(out / site / "state").sent:
            by_kind.setdefault(line.what, []).append(line)
        for message, lines in by_kind.items():
            to = ", ".join(sorted({line.entry.recipient for line in lines}))
            entry = lines[0].entry
            numbers = None if message == Conclusion.name else entry.n_numbers
            row = {"site": site, "message": message, "to": to, "numbers": numbers}
            rows.append({**row, "bytes": entry.n_bytes})
    return rows


_LEAD = "lead@demo.org"


def write_sites(out: Path, seed: int) -> list[str]:
    """A folder a site with its table and its file, and the study; names of the sources."""
    drawn = consortium(seed)
    names = {name: name.split()[0].lower() for name in list(drawn.sources)[:N_SOURCES]}
    for site in ("new", *names.values()):
        (out / site).mkdir(parents=True, exist_ok=True)
        (out / site / "site.toml").write_text('table = "patients.csv"\n', encoding="utf-8")
    for name, site in names.items():
        write_patients(out / site / "patients.csv", *drawn.sources[name])
    write_patients(out / "new" / "patients.csv", drawn.target)
    tables = {site: f"{site}/patients.csv" for site in names.values()}
    study = replace(demo_study(drawn, seed), target="new/patients.csv", sources=tables)
    (out / "study.toml").write_text(study.to_toml(), encoding="utf-8")
    return list(names.values())


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _start(stack: contextlib.ExitStack, *arguments: str) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "fedcsa", *arguments]
    )
    stack.callback(_stop, process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60.0)
    except subprocess.TimeoutExpired:
        process.kill()


def _wait(out: Path, sites: list[str], output: Output) -> None:
    end, waiting = time.monotonic() + _PATIENCE, list(sites)
    while waiting:
        if time.monotonic() > end:
            raise ProtocolError(
                f"These sites did not connect: {', '.join(waiting)}. "
                f"See engine.log in their folders of {out / 'kits'}."
            )
        for site in list(waiting):
            lines = Status(out / site / "state").lines()
            if any(line["text"].startswith("connected") for line in lines):
                output.say(f"{site}: connected, waiting for a study")
                waiting.remove(site)
        time.sleep(0.2)


def _submit(out: Path, *, quiet: bool) -> int:
    done = subprocess.run(  # noqa: S603 - our own program
        [
            sys.executable, "-m", "fedcsa", "study", "submit", str(out / "study.toml"),
            "--kit", str(out / "kits" / _LEAD), "--out", str(out / "result"),
            "--min-sources", "3", "--deadline", "120", *(["--quiet"] if quiet else []),
        ],
        check=False,
        timeout=900,
        stdout=subprocess.DEVNULL if quiet else None,
    )  # fmt: skip
    return done.returncode
