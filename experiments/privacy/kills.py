"""Sites killed at random moments (kill -9): nothing is disclosed twice, no number is another.

Every site of a federation is a process of its own with its own folder on the disk. While a study
runs, one of the processes is killed at a random moment, the target as often as all sources
together, and its folder stays as it is. Then the study is submitted again, until every source
has answered.

Of every study: how often it was submitted and killed, whether a source sent two different
messages where one is due, whether an honest site was accused, whether the logs are whole, and
whether the result is, to the bit, that of a run in one process. Table: ``kills.csv``.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import options, write_provenance, write_table

from fedcsa.answer import page
from fedcsa.answer.store import load_result, summary
from fedcsa.cli.federation_demo import write_sites
from fedcsa.errors import ProtocolError
from fedcsa.federation.coordinator import Coordinator
from fedcsa.messages.codec import decode
from fedcsa.messages.envelope import START, Envelope
from fedcsa.messages.messages import Conclusion
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.desk import Desk
from fedcsa.site.log import SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.target_desk import TargetDesk
from fedcsa.study import Study

TARGET = "new"
#: A study that is not done after so many submissions never will be.
MOST_ATTEMPTS = 30
#: A site that starts loads all its packages.
START_SECONDS = 120.0


@dataclass(frozen=True)
class Settings:
    """What the experiment fixes."""

    studies: int = 10
    kills: int = 20
    seed: int = 15


FULL = Settings()
QUICK = Settings(studies=1, kills=2)


# One site: a process -------------------------------------------------------------------------


def serve(line: Connection) -> None:
    """Answer for one site until this process is killed; a new submission opens a new desk."""
    page.write_report = lambda folder: folder  # takes longer than the study itself
    desk: Any = None
    line.send("ready")
    while True:
        task, content = line.recv()
        if task == "open":
            desk = _desk(**content)
            line.send("ready")
        else:
            line.send(desk.take(task, content))


def _desk(folder: str, name: str, n_sources: int) -> Desk:
    site = SiteFile.load(Path(folder) / name / "site.toml")
    agreed = AgreedStudy((Path(folder) / "study.toml").read_text("utf-8"))
    start = Envelope(agreed.id, START, "lead", TARGET, "")
    if name == TARGET:
        return TargetDesk(name, site, agreed, start, min_sources=n_sources)
    return SourceDesk(name, site, agreed, start)


class Site:
    """The process of one site, and the line to it."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the process, again if it was killed."""
        context = multiprocessing.get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,))
        self.process.start()
        other.close()

    def answered(self) -> Any:
        """What it says, or None if it dies."""
        try:
            return self.line.recv() if self.line.poll(START_SECONDS) else None
        except (EOFError, OSError):
            return None

    def ask(self, task: str, content: Mapping[str, Any]) -> None:
        """Say something to it; nothing happens if it is dead."""
        try:
            self.line.send((task, dict(content)))
        except OSError:
            return

    def kill(self) -> None:
        """End it as a power cut would: kill -9."""
        self.process.kill()
        self.process.join()


# One study -----------------------------------------------------------------------------------


class Federation:
    """A study of real processes, one of which may be killed while it runs."""

    def __init__(self, folder: Path, sites: dict[str, Site], names: list[str]) -> None:
        self.folder, self.sites, self.names = folder, sites, names

    def attempt(self, victim: str | None, delay: float) -> tuple[dict[str, str], str]:
        """Submit once; what became of every source, and the step in which the victim died."""
        for name, site in self.sites.items():
            if not site.process.is_alive():
                site.start()
                site.answered()
            where = {"folder": str(self.folder), "name": name, "n_sources": len(self.names)}
            site.ask("open", where)
            site.answered()
        board, hit = Coordinator(TARGET, self.names), []

        def kill() -> None:
            hit.append(board.step)
            self.sites[str(victim)].kill()

        timer = threading.Timer(delay, kill)
        if victim:
            timer.start()
        try:
            board.run(self._deliver)
            told = decode(board.conclusion)
            assert isinstance(told, Conclusion)  # noqa: S101 - for the type checker
            fates = dict(told.sources)
        except ProtocolError:  # the target died
            fates = dict.fromkeys(self.names, "no conclusion")
        timer.cancel()
        if victim:
            timer.join()
        return fates, hit[0] if hit else ""

    def _deliver(self, step: str, letters: Mapping[str, Any], arrived: Any) -> dict[str, Any]:
        for name, letter in letters.items():
            self.sites[name].ask(step, letter)
        came = {}
        for name in letters:
            reply = self.sites[name].answered()
            if reply is not None:
                came[name] = reply
                arrived(name, reply)
        return came


def run_study(
    folder: Path, sites: dict[str, Site], seed: int, kills: int, rng: random.Random
) -> dict[str, Any]:
    """One study, killed up to `kills` times; what is asked of it."""
    names = write_sites(folder, seed)
    federation = Federation(folder, sites, names)
    start, died, accused, attempts = time.monotonic(), list[str](), set[str](), 0
    while attempts < MOST_ATTEMPTS:
        victim = rng.choice([TARGET, rng.choice(names)]) if len(died) < kills else None
        fates, step = federation.attempt(victim, rng.uniform(0.0, _SECONDS[0]))
        attempts += 1
        if step:
            died.append(f"{'target' if victim == TARGET else 'source'} in {step}")
        accused |= {n for n, word in fates.items() if "rejected" in word}
        if set(fates.values()) == {"answered"}:
            break
    if not died:
        _SECONDS[0] = 0.5 * _SECONDS[0] + 0.5 * (time.monotonic() - start)
    logs = {name: SiteLog(folder / name / "state") for name in (*names, TARGET)}
    return {
        "seed": seed,
        "submissions": attempts,
        "kills": len(died),
        "killed": "; ".join(died),
        "answered": set(fates.values()) == {"answered"},
        "accused": len(accused),
        "disclosed_twice": sum(_twice(log) for log in logs.values()),
        "resent": sum(item.kind == "resent" for log in logs.values() for item in log.sent),
        "interrupted_openings": sum(_interrupted(log) for log in logs.values()),
        "equal_to_the_bit": _equal(folder),
    }


#: About how long a submission takes, learnt from those that nobody killed.
_SECONDS = [2.0]


def _twice(log: SiteLog) -> int:
    """Kinds of message of which a site sent one recipient two different ones."""
    seen: dict[tuple[str, str], set[str]] = {}
    for item in log.sent:
        entry = item.entry
        if entry.message not in ("refusal", "conclusion"):
            seen.setdefault((entry.message, entry.recipient), set()).add(entry.sha256)
    return sum(len(messages) > 1 for messages in seen.values())


def _interrupted(log: SiteLog) -> int:
    events = [line["event"] for line in log.events]
    return events.count("opening") - events.count("opened")


def _equal(folder: Path) -> bool:
    study = Study.load(folder / "study.toml")
    [result] = (folder / TARGET / "state" / "results").iterdir()
    strict = dataclasses.replace(study, policy_rules={"preset": "site"})  # as at the sites
    return _numbers(load_result(result)) == _numbers(strict.run())


def _numbers(adaptation: Any) -> dict[str, Any]:
    """Everything but the ledgers, and the digests that name messages."""
    plain: dict[str, Any] = json.loads(json.dumps(summary(adaptation)))
    for report in (*plain["reports"].values(), *plain["examinations"].values()):
        report.pop("in_reply_to", None)
    plain.pop("sites")
    return plain


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    rng = random.Random(settings.seed)  # noqa: S311 - no secret
    each = -(-settings.kills // settings.studies)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        sites = {TARGET: Site()} | {n: Site() for n in write_sites(Path(folder) / "names", 0)}
        for site in sites.values():
            site.answered()
        try:
            run_study(Path(folder) / "first", sites, settings.seed, 0, rng)  # how long it takes
            while len(rows) < settings.studies or sum(r["kills"] for r in rows) < settings.kills:
                seed = settings.seed + 1 + len(rows)
                rows.append(run_study(Path(folder) / str(seed), sites, seed, each, rng))
                print(rows[-1], flush=True)
        finally:
            for site in sites.values():
                site.kill()
    write_table(given.out, "kills", rows)
    write_provenance(given.out, __file__, settings, quick=given.quick)
    wrong = [r for r in rows if r["accused"] or r["disclosed_twice"] or not r["equal_to_the_bit"]]
    print(f"{len(rows)} studies, {sum(r['kills'] for r in rows)} kills, {len(wrong)} wrong")


if __name__ == "__main__":
    main()
