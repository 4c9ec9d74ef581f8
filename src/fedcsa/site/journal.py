"""What a site must remember over a restart: whom it answered what, and which nonces came.

::

    journal.jsonl         one line a step: asked, waiting, accepted, answered, recorded,
                          announced, chosen, mixed, concluded
    payloads/SHA256.fcsa  the bytes of the messages that the lines name

A study that is submitted again finds its answers here: the same bytes go out, and nothing that
was not disclosed before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcsa.errors import ResultError
from fedcsa.messages.codec import digest
from fedcsa.site.lines import append_line, locked, make_folder, read_lines, write_whole

_FILE, _PAYLOADS = "journal.jsonl", "payloads"


class Journal:
    """The journal of a site, in its own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder / _PAYLOADS)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every step so far, oldest first."""
        try:
            return [json.loads(line) for line in read_lines(self._folder / _FILE)]
        except ValueError:
            raise ResultError(
                f"The journal in {str(self._folder)!r} must be as fedcsa wrote it; it is damaged. "
                "Restore it from a backup: without it, a disclosure could be made twice."
            ) from None

    @property
    def nonces(self) -> set[str]:
        """Every nonce that this site was asked with."""
        return {line["nonce"] for line in self.lines if line["step"] == "asked"}

    def note(self, step: str, **content: Any) -> None:
        """Write a line; it is on the disk when this returns."""
        with locked(self._folder):
            self._append(step, content)

    def claim(
        self,
        step: str,
        key: Mapping[str, Any],
        content: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The line of `step` that stands for `key`: the first one written, by whatever process.

        Of two jobs that run at the same time, one writes its content and both get that.

        Parameters
        ----------
        step : str
        key : mapping
            What there is one such line of.
        content : mapping
            What else to write, if there is none yet.
        """
        with locked(self._folder):
            found = self.find(step, **key)
            if found is None:
                found = self._append(step, {**key, **content})
        return found

    def find(self, step: str, **content: Any) -> dict[str, Any] | None:
        """The first line of `step` with this content."""
        for line in self.lines:
            if line["step"] == step and all(line.get(k) == v for k, v in content.items()):
                return line
        return None

    def _append(self, step: str, content: Mapping[str, Any]) -> dict[str, Any]:
        line = {"step": step, **content}
        text = json.dumps(line, separators=(",", ":"), sort_keys=True)
        append_line(self._folder / _FILE, text)
        return line

    def keep(self, payload: bytes) -> str:
        """Store a message's bytes and return their digest."""
        name = digest(payload)
        path = self._folder / _PAYLOADS / f"{name}.fcsa"
        if not path.exists():
            write_whole(path, payload)
        return name

    def payload(self, name: str) -> bytes:
        """The bytes with this digest."""
        try:
            payload = (self._folder / _PAYLOADS / f"{name}.fcsa").read_bytes()
        except OSError:
            payload = b""
        if digest(payload) != name:
            raise ResultError(
                f"The journal in {str(self._folder)!r} must hold what was sent; a message is "
                "missing or was changed. Restore it from a backup."
            )
        return payload
