"""Claims of the paper: every script writes a line for each that it judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lib.common import read_table, write_table


@dataclass(frozen=True)
class Claim:
    """One claim, and what was found.

    Parameters
    ----------
    where : str
        Its place in the paper: "Theorem 1", "Table 1".
    claim : str
        One short clause.
    verdict : str
        A few words: "holds", "does not hold", "comes out under 3 of 384 readings".
    sentence : str
        One plain sentence with the figure.
    table : str
        Name of the result table that it rests on, without its ending.
    """

    where: str
    claim: str
    verdict: str
    sentence: str
    table: str


def write_claims(folder: Path, script: str, claims: Sequence[Claim]) -> None:
    """Write ``claims_<script>.csv``, a line a claim.

    Parameters
    ----------
    folder : Path
        Where the script writes its tables.
    script : str
        The script's path (`__file__`) or its name.
    claims : sequence of Claim
        In the order of the page.
    """
    write_table(folder, f"claims_{Path(script).stem}", [asdict(claim) for claim in claims])


def read_claims(folder: Path, script: str) -> list[Claim]:
    """The claims that a script has judged.

    Parameters
    ----------
    folder : Path
        Of the tables.
    script : str
        Its name.
    """
    return [Claim(**line) for line in read_table(folder / f"claims_{script}.csv")]
