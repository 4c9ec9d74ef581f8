"""A site's state on disk: approvals, and what it is doing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedcsa.errors import StudyError, unknown
from fedcsa.protocol.envelope import PHASES
from fedcsa.protocol.ledger import Clock, utc_now
from fedcsa.protocol.lines import append_line, locked, read_records

_APPROVALS, _STATUS = "approvals.jsonl", "status.jsonl"


class Approvals:
    """Which studies wait for a person, and what that person said."""

    def __init__(self, folder: Path, clock: Clock = utc_now) -> None:
        self._folder = folder
        self._clock = clock

    def decision(self, study: str, phase: str) -> str:
        """``"approved"``, ``"refused"``, ``"asked"``, or nothing if nobody asked."""
        said = [x["decision"] for x in self._lines() if (x["study"], x["phase"]) == (study, phase)]
        return said[-1] if said else ""

    def waiting(self) -> list[tuple[str, str]]:
        """Studies and phases that wait, oldest first."""
        asked = dict.fromkeys((line["study"], line["phase"]) for line in self._lines())
        return [(study, phase) for study, phase in asked if self.decision(study, phase) == "asked"]

    def ask(self, study: str, phase: str) -> None:
        """Put a study on the list of those that wait."""
        if not self.decision(study, phase):
            self._write(study, phase, "asked")

    def decide(self, study: str, decision: str, phases: tuple[str, ...] = PHASES) -> str:
        """Write down what a person said of `study`, by its full id or the name of one that waits.

        Returns
        -------
        str
            The study's full id.
        """
        known: list[str] = list(dict.fromkeys(line["study"] for line in self._lines()))
        named = [item for item in known if study in (item, item.rpartition("@")[0])]
        if "@" in study and not named:
            named = [study]  # approved beforehand
        if not named:
            raise StudyError(unknown("study that waits here", study, known))
        if len(named) > 1:
            raise StudyError(f"Several studies have this name; say which: {', '.join(named)}.")
        for phase in phases:
            self._write(named[0], phase, decision)
        return named[0]

    def _lines(self) -> list[dict[str, Any]]:
        return read_records(self._folder / _APPROVALS)

    def _write(self, study: str, phase: str, decision: str) -> None:
        time = self._clock().isoformat(timespec="seconds")
        line = {"decision": decision, "phase": phase, "study": study, "time": time}
        with locked(self._folder):
            append_line(self._folder / _APPROVALS, json.dumps(line))


class Status:
    """What a site is doing, one line a step, for the person who sits beside it."""

    def __init__(self, folder: Path, clock: Clock = utc_now) -> None:
        self._folder = folder
        self._clock = clock

    def say(self, text: str, study: str = "") -> None:
        """Write a line."""
        time = self._clock().isoformat(timespec="seconds")
        with locked(self._folder):
            line = {"study": study, "text": text, "time": time}
            append_line(self._folder / _STATUS, json.dumps(line), lasting=False)

    def lines(self, start: int = 0) -> list[dict[str, str]]:
        """The lines so far, after the first `start`."""
        return read_records(self._folder / _STATUS, start)
