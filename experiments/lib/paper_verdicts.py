"""Verdicts on claims, from intervals in the result files: none is typed by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lib.page import Line, Results

OPPOSITE = "does not hold, the opposite is clear"


@dataclass(frozen=True)
class Claim:
    """One claim, what we find, and why."""

    where: str
    text: str
    verdict: str
    figure: str
    reason: str


def side(line: Line, key: str, null: float = 0.0) -> str:
    """On which side of the null the interval lies."""
    if float(line[f"{key}_upper"]) < null:
        return "below"
    return "above" if float(line[f"{key}_lower"]) > null else "unclear"


def judge(lines: Sequence[Line], key: str, null: float = 0.0) -> str:
    """Of intervals that a claim wants below the null in every line."""
    if all(side(line, key, null) == "below" for line in lines):
        return "holds"
    if all(float(line[key]) < null for line in lines):
        return "holds in the means, not clearly"
    if all(side(line, key, null) == "above" for line in lines):
        return OPPOSITE
    return "does not hold"


def tally(lines: Sequence[Line], key: str, null: float = 0.0) -> str:
    """How many intervals lie below, above, or on neither side of the null."""
    count = Counter(side(line, key, null) for line in lines)
    return f"{count['below']} / {count['above']} / {count['unclear']}"


def under_readings(results: Results, verdict: str, name: str) -> tuple[str, str]:
    """The verdict widened by the readings, and their shares in words."""
    line = results.one("readings_claims", claim=name)
    n = int(line["readings"])
    clearly, holds, refuted = (
        round(n * float(line[key])) for key in ("clearly", "holds", "refuted")
    )
    told = (
        f"{n} readings: clear under {clearly}, in the means under {holds}, refuted under {refuted}"
    )
    if clearly and verdict in ("does not hold", OPPOSITE):
        shared = shared_choices([x for x in results("readings") if x[name] == "clearly"])
        verdict = f"holds under {clearly} of {n} readings{shared}"
    return verdict, told


def shared_choices(readings: Sequence[Line]) -> str:
    """What all these readings have in common."""
    choices = ("intercept", "penalty", "folds", "grid", "clip")
    values = {choice: {line[choice] for line in readings} for choice in choices}
    told = [f"{choice} {min(one)}" for choice, one in values.items() if len(one) == 1]
    return f", all with {', '.join(told)}" if told else ""


def unless(verdict: str, reason: str) -> str:
    """A claim that holds needs no reason."""
    return "" if verdict == "holds" else reason
