"""The site's own command that runs when a study begins to wait for a person."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Seconds for the command: enough to send a mail, and no study waits for it for long.
SECONDS = 20
#: How a command ended that did what it should.
RAN = "done"


def run_command(command: Sequence[str], about: Mapping[str, str], folder: Path) -> str:
    """Run a command without a shell; ``"done"``, or what went wrong in a few words.

    Whatever it prints is lost: it is no part of the study.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, as they are in the site's file.
    about : mapping of str to str
        Variables of its environment, beside those of this process.
    folder : Path
        In which it runs.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the site's own file names it
            list(command), cwd=folder, env={**os.environ, **about}, timeout=SECONDS,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} seconds"
    except (OSError, ValueError) as error:
        return f"could not be started ({type(error).__name__})"
    return RAN if done.returncode == 0 else f"ended with code {done.returncode}"
