"""Previews for a page: computed one at a time beside it, and kept until something changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

import fedcsa

#: Previews that are kept: more studies than these seldom wait at once.
_MOST_KEPT = 20


class Previews:
    """Previews at one site; a fit of minutes neither stops a page nor outlives it.

    Parameters
    ----------
    site_file : Path
    """

    def __init__(self, site_file: Path) -> None:
        self._site_file = site_file.absolute()
        self._found: dict[str, dict[str, Any]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._key = ""
        self._out: IO[bytes] | None = None

    def look(self, key: str, text: str) -> dict[str, Any] | None:
        """The preview of a study; None while it is being computed.

        Parameters
        ----------
        key : str
            Of everything that the preview depends on: another key is another preview.
        text : str
            Of the agreed study.
        """
        self._collect()
        if key not in self._found and self._child is None:
            self._start(key, text)
        return self._found.get(key)

    def forget(self, key: str) -> None:
        """Compute a preview anew when it is asked for again."""
        self._found.pop(key, None)

    def end(self) -> None:
        """End what is being computed."""
        if self._child is not None and self._out is not None:
            self._child.kill()
            self._child.wait()
            self._out.close()
            self._child = self._out = None

    def _start(self, key: str, text: str) -> None:
        self._key, self._out = key, tempfile.TemporaryFile()  # noqa: SIM115 - closed when read
        with tempfile.TemporaryFile() as study:
            study.write(text.encode())
            study.seek(0)
            # In our own folder: nothing that lies where this process runs can pose as a module.
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-m", "fedcsa.site.preview_child", str(self._site_file)],
                stdin=study, stdout=self._out, stderr=subprocess.DEVNULL,
                cwd=Path(fedcsa.__file__).parents[1], start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            )  # fmt: skip

    def _collect(self) -> None:
        """Keep what a child that has ended wrote."""
        if self._child is None or self._out is None or self._child.poll() is None:
            return
        self._out.seek(0)
        try:
            found = json.loads(self._out.read())
        except ValueError:
            found = {"error": f"The preview ended with code {self._child.returncode}."}
        self.end()
        self._found[self._key] = found
        for old in list(self._found)[:-_MOST_KEPT]:
            del self._found[old]
