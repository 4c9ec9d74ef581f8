"""A site's state on disk: approvals, and what it is doing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedcsa.errors import StudyError, unknown
from fedcsa.messages.ledger import Clock, utc_now
from fedcsa.site.lines import append_line, locked, read_records

_APPROVALS, _STATUS = "approvals.jsonl", "status.jsonl"


class Approvals:
    """Which studies wait for a person, and what that person said: once, for all its messages.

    Parameters
    ----------
    folder : Path
    clock : function, optional
    """

    def __init__(self, folder: Path, clock: Clock = utc_now) -> None:
        self._folder = folder
        self._clock = clock

    def decision(self, study: str) -> str:
        """``"approved"``, ``"refused"``, ``"asked"``, or nothing if nobody asked."""
        said = [line["decision"] for line in self._lines() if line["study"] == study]
        return said[-1] if said else ""

    def waiting(self) -> list[str]:
        """Studies that wait, oldest first."""
        asked = dict.fromkeys(line["study"] for line in self._lines())
        return [study for study in asked if self.decision(study) == "asked"]

    def ask(self, study: str) -> None:
        """Put a study on the list of those that wait."""
        if not self.decision(study):
            self._write(study, "asked")

    def decide(self, study: str, decision: str) -> str:
        """Write down what a person said of `study`.

        Parameters
        ----------
        study : str
            Its full id, or the name of one that waits.
        decision : {"approved", "refused"}
            The last one counts.

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
        self._write(named[0], decision)
        return named[0]

    def _lines(self) -> list[dict[str, Any]]:
        return read_records(self._folder / _APPROVALS)

    def _write(self, study: str, decision: str) -> None:
        time = self._clock().isoformat(timespec="seconds")
        line = {"decision": decision, "study": study, "time": time}
        with locked(self._folder):
            append_line(self._folder / _APPROVALS, json.dumps(line))


class Status:
    """What a site is doing, one line a step, for the person who sits beside it.

    Parameters
    ----------
    folder : Path
    clock : function, optional
    """

    def __init__(self, folder: Path, clock: Clock = utc_now) -> None:
        self._folder = folder
        self._clock = clock

    def say(self, text: str, study: str = "") -> None:
        """Write a line.

        Parameters
        ----------
        text : str
        study : str
            The study's id; empty if it is about the site itself.
        """
        time = self._clock().isoformat(timespec="seconds")
        with locked(self._folder):
            line = {"study": study, "text": text, "time": time}
            append_line(self._folder / _STATUS, json.dumps(line), lasting=False)

    def lines(self, start: int = 0) -> list[dict[str, str]]:
        """The lines so far, after the first `start`."""
        return read_records(self._folder / _STATUS, start)
