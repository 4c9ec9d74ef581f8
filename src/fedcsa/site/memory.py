"""Whether a site still remembers what it sent: its journal and its ledger vouch for each other."""

from __future__ import annotations

import json
from pathlib import Path

from fedcsa.errors import PolicyError
from fedcsa.messages.messages import (
    Brief,
    Examination,
    ExaminationReport,
    ModelReport,
    RiskReport,
)
from fedcsa.site.chain import HEAD, LEDGER, verify
from fedcsa.site.journal import Journal
from fedcsa.site.lines import read_lines, write_whole

#: What tells something about rows: a site's budget is counted in these.
COUNTED = (
    Brief.name, RiskReport.name, ModelReport.name, Examination.name, ExaminationReport.name,
)  # fmt: skip
_MEND = "Restore the state folder from a backup: nothing leaves before."


def check_memory(folder: Path, site: str) -> None:
    """Raise a `PolicyError` unless the state in `folder` is that of `site`, and whole.

    What is sent is in the journal, then in the ledger, then noted as recorded, and then leaves.
    So whichever of the two lacks what the other knows was lost, and the site's budget with it.

    Parameters
    ----------
    folder : Path
    site : str
    """
    entries = [item.entry for item in verify(folder)]
    lines = Journal(folder).lines
    sent = {line[key] for line in lines for key in ("reply", "brief") if key in line}
    sent |= {name for line in lines for name in line.get("examinations", {}).values()}
    recorded = {line["message"] for line in lines if line["step"] == "recorded"}
    if any(entry.site != site for entry in entries):
        raise PolicyError(
            "other_site", f"The state in {str(folder)!r} must be that of {site!r}; it is another's."
        )
    if any(entry.message in COUNTED and entry.sha256 not in sent for entry in entries):
        raise PolicyError(
            "journal_lost",
            f"The journal in {str(folder)!r} must know all that left; lines are missing. {_MEND}",
        )
    if not recorded <= {entry.sha256 for entry in entries}:
        raise PolicyError(
            "ledger_lost",
            f"The ledger in {str(folder)!r} must hold all that left; lines are missing. {_MEND}",
        )


def check_head(folder: Path, kit: Path) -> None:
    """Raise a `PolicyError` if the ledger in `folder` lacks the line that `kit` remembers.

    A state folder that was deleted as a whole, or put back to an older copy, is noticed so.

    Parameters
    ----------
    folder : Path
    kit : Path
    """
    copy = kit / HEAD
    if not copy.exists():
        return
    try:
        head = json.loads(copy.read_text(encoding="utf-8"))
        line = json.loads(read_lines(folder / LEDGER)[head["lines"] - 1])
        known = line["hash"] == head["hash"]
    except (OSError, ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise PolicyError(
            "state_lost",
            f"The state in {str(folder)!r} must be the one that this kit was used with; its "
            f"ledger lacks what {str(copy)!r} remembers. {_MEND}",
        )


def remember_head(folder: Path, kit: Path) -> None:
    """Keep a copy of the ledger's head in `kit`, for `check_head`.

    Parameters
    ----------
    folder : Path
    kit : Path
    """
    write_whole(kit / HEAD, (folder / HEAD).read_bytes())
