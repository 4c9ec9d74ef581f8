"""Claims of the paper: every script writes a line for each that it judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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


# From intervals to a verdict -----------------------------------------------------------------


def side(line: Mapping[str, Any], key: str, null: float = 0.0) -> str:
    """On which side of the null the interval lies.

    Parameters
    ----------
    line : mapping
        With ``key``, ``key_lower`` and ``key_upper``, numbers or text.
    key : str
    null : float
    """
    if float(line[f"{key}_upper"]) < null:
        return "below"
    return "above" if float(line[f"{key}_lower"]) > null else "unclear"


def judge(lines: Sequence[Mapping[str, Any]], key: str, null: float = 0.0) -> str:
    """Of intervals that a claim wants below the null in every line.

    Parameters
    ----------
    lines : sequence of mappings
    key : str
    null : float
    """
    if all(side(line, key, null) == "below" for line in lines):
        return "holds"
    if all(float(line[key]) < null for line in lines):
        return "holds in the means, not clearly"
    if all(side(line, key, null) == "above" for line in lines):
        return "does not hold, the opposite is clear"
    return "does not hold"
