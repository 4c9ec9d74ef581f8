"""The theorems, judged: with known ratios, and with estimated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lib.page import Line, Results, interval, number
from lib.paper_verdicts import Claim, side

#: A Monte Carlo value counts as the theory's limit within this share of it.
CLOSE = 0.10


def theorems(results: Results) -> list[Claim]:
    """The theorems, with known ratios and with estimated ones."""
    known = _last(results, "known")
    found = [
        _limit(known, ("iw_near", "iw_far"), "Theorem 1", "f_IW is unbiased; n · variance → limit"),
        _ordered(known, "cv_far", "iw_far", "Corollary 1", "f_CV varies no more than f_IW"),
        _limit(known, ("feddae",), "Theorem on FedDAE", "FedDAE is unbiased; n · variance → limit"),
        _ordered(known, "feddae", "equal", "Theorem on FedDAE", "FedLE (equal) varies no less"),
        _ordered(known, "feddae", "fediwe", "Corollary 3", "FedDAE varies no more than FedIWE"),
    ]
    for kind, words in (("estimated", "one feature"), ("estimated-ten", "ten features")):
        claim = _limit(
            _last(results, kind), ("feddae",), "The same, estimated ratios", f"FedDAE, {words}"
        )
        if claim.verdict != "holds":
            reason = f"{claim.reason}; the error of uLSIF does not vanish faster than the rest"
            claim = replace(claim, verdict=f"{claim.verdict} at that n", reason=reason)
        found.append(claim)
    return found


def _last(results: Results, kind: str) -> dict[str, Line]:
    lines = results("theorems_runs", ratios=kind)
    largest = max(int(line["n"]) for line in lines)
    return {line["estimate"]: line for line in lines if int(line["n"]) == largest}


def _limit(last: dict[str, Line], names: Sequence[str], where: str, text: str) -> Claim:
    lines = [last[name] for name in names]
    n = lines[0]["n"]
    unbiased = all(side(x, "bias") == "unclear" or abs(float(x["bias"])) < 0.01 for x in lines)
    close = all(_close(x) for x in lines)
    told = "; ".join(
        f"{x['estimate'].replace('_', ', ')}: bias {interval(x, 'bias', 3)}, "
        f"n · variance {number(x['n_variance'])}, limit {number(x['limit'])}"
        for x in lines
    )
    failed = [word for word, fine in (("unbiasedness", unbiased), ("the limit", close)) if not fine]
    if failed:
        told_why = f"missed: {' and '.join(failed)}"
        return Claim(where, text, "does not hold", f"n = {n}, {told}", told_why)
    slip = "the printed (ii) lacks the factor 1/n, which the appendix has"
    return Claim(where, text, "holds", f"n = {n}, {told}", slip if where == "Theorem 1" else "")


def _close(line: Line) -> bool:
    limit = float(line["limit"])
    held = float(line["n_variance_lower"]) <= limit <= float(line["n_variance_upper"])
    return held or abs(float(line["n_variance"]) / limit - 1.0) <= CLOSE


def _ordered(last: dict[str, Line], small: str, large: str, where: str, text: str) -> Claim:
    low, high = last[small], last[large]
    apart = float(low["n_variance_upper"]) < float(high["n_variance_lower"])
    smaller = float(low["n_variance"]) <= float(high["n_variance"]) * (1.0 + CLOSE)
    verdict = "holds" if apart or smaller else "does not hold"
    figure = (
        f"n = {low['n']}, n · variance {interval(low, 'n_variance')} against "
        f"{interval(high, 'n_variance')}"
    )
    return Claim(where, text, verdict, figure, "" if apart else "equal within the error here")
