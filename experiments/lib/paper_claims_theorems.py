"""The theorems, judged: limits by their rate, variances by bootstraps, and what "0 ≤ 0" says."""

from __future__ import annotations

from lib.claims import Claim
from lib.page import Line, Results, interval, number

#: A Monte Carlo value counts as the theory's limit within this share of it.
CLOSE = 0.10
#: A bias above this share of the sd costs a 95 % interval about a point of coverage, or more.
SEEN = 0.25
#: Where ratios are estimated, in words.
RATIOS = {
    "consistent": "the proof's uLSIF",
    "practical": "practical uLSIF",
    "practical-ten": "practical uLSIF, ten features",
}


def claims(results: Results) -> list[Claim]:
    """Every claim about expectations and variances, in the order of the paper."""
    known = _last(results, "known")
    found = [
        _unbiased(results),
        _limit_of_variance(known),
        _ordered(known, "cv_far", "iw_far", "Corollary 1", "f_CV varies no more than f_IW"),
        _biased_weights(results),
        _ordered(known, "feddae", "equal", "Theorem 2", "FedDAE varies no more than FedLE", True),
        _ordered(known, "feddae", "fediwe", "Corollary 3", "nor than FedIWE", True),
    ]
    found += [_estimated(results, kind) for kind in RATIOS]
    return [
        *found,
        _variance_estimated(results),
        *(_learnt(results, x) for x in ("straight", "bent")),
    ]


def _last(results: Results, kind: str, validation: str = "grows") -> dict[str, Line]:
    """By estimate, at the largest n."""
    lines = results("theorems_runs", ratios=kind, validation=validation)
    largest = max(int(line["n"]) for line in lines)
    return {line["estimate"]: line for line in lines if int(line["n"]) == largest}


def _clear(line: Line, key: str = "bias") -> bool:
    return float(line[f"{key}_lower"]) > 0.0 or float(line[f"{key}_upper"]) < 0.0


# Known ratios -------------------------------------------------------------------------------


def _unbiased(results: Results) -> Claim:
    lines = [
        results.one("theorems_rates", ratios="known", validation="grows", estimate=name)
        for name in ("iw_near", "iw_far")
    ]
    clear, sizes = (sum(int(line[key]) for line in lines) for key in ("clear", "sizes"))
    # one 95 % interval in twenty misses by chance
    verdict = "holds" if clear <= max(1, round(0.1 * sizes)) else "does not hold"
    told = (
        f"Known ratios: the bias is clear in {clear} of {sizes} cases, "
        f"n = {lines[0]['n_first']} to {lines[0]['n_last']}."
    )
    return Claim("Theorem 1 (i)", "f_IW is unbiased in the limit", verdict, told, "theorems_rates")


def _limit_of_variance(known: dict[str, Line]) -> Claim:
    lines = [known[name] for name in ("iw_near", "iw_far")]
    close = all(_close(line) for line in lines)
    verdict = "holds, times 1/n" if close else "does not hold"
    told = " and ".join(
        f"{interval(line, 'n_variance')} (limit {number(line['limit'])})" for line in lines
    )
    text = f"n · variance at n = {lines[0]['n']}: {told}; the printed limit lacks 1/n."
    return Claim("Theorem 1 (ii)", "variance of f_IW", verdict, text, "theorems_runs")


def _close(line: Line) -> bool:
    limit = float(line["limit"])
    held = float(line["n_variance_lower"]) <= limit <= float(line["n_variance_upper"])
    return held or abs(float(line["n_variance"]) / limit - 1.0) <= CLOSE


def _ordered(
    known: dict[str, Line], small: str, large: str, where: str, text: str, nought: bool = False
) -> Claim:
    """One variance against another; `nought` where the printed limits are both 0."""
    low, high = known[small], known[large]
    apart = float(low["n_variance_upper"]) < float(high["n_variance_lower"])
    below = float(low["limit"]) <= float(high["limit"])
    wrong = float(low["n_variance_lower"]) > float(high["n_variance_upper"])
    verdict = "does not hold" if wrong or not below else "holds"
    if nought:
        verdict = f"0 ≤ 0 as printed; times n it {verdict}" if verdict == "holds" else verdict
    told = (
        f"n · variance {interval(low, 'n_variance')} against {interval(high, 'n_variance')}; "
        f"limits {number(low['limit'])} and {number(high['limit'])}"
        f"{'' if apart else ', too near to be told apart'}."
    )
    return Claim(
        f"{where} (ii)" if where != "Corollary 3" else where, text, verdict, told, "theorems_runs"
    )


def _biased_weights(results: Results) -> Claim:
    """Theorem 2 (i) is printed for any number of validation rows."""
    fixed = results.one("theorems_runs", ratios="known", n="100", estimate="feddae")
    line = results.one("theorems_rates", ratios="known", validation="grows", estimate="feddae")
    falls = line["slope"] != "" and float(line["slope_upper"]) < 0.0
    verdict = "holds"
    if _clear(fixed):
        verdict = "only as n^val grows, too" if falls else "does not hold"
    told = (
        f"Known ratios, 100 validation rows: bias {interval(fixed, 'bias', 3)}, as weights and "
        f"risks share rows; it falls like n to the {interval(line, 'slope')}."
    )
    return Claim(
        "Theorem 2 (i)", "FedDAE is unbiased in the limit", verdict, told, "theorems_rates"
    )


# Estimated ratios ---------------------------------------------------------------------------


def _estimated(results: Results, kind: str) -> Claim:
    line = results.one("theorems_rates", ratios=kind, validation="grows", estimate="feddae")
    text = f"FedDAE → f_T, {RATIOS[kind]}"
    if line["slope"] == "":
        verdict, falls = "holds", "no bias is seen"
    else:
        good = float(line["slope_upper"]) < 0.0
        verdict = "holds, by its rate" if good else "open: no rate can be told"
        falls = f"it falls like n to the {interval(line, 'slope')}"
        if good and abs(float(line["over_sd_last"])) > SEEN:
            verdict = "holds by its rate, hardly faster than the sd"
    told = (
        f"Bias {number(line['bias_first'], 3)} at n = {line['n_first']}, "
        f"{number(line['bias_last'], 3)} at {line['n_last']}; {falls}; bias / sd "
        f"{number(line['over_sd_first'])}, then {number(line['over_sd_last'])}."
    )
    return Claim("Theorem 2 (i)", text, verdict, told, "theorems_rates")


def _variance_estimated(results: Results) -> Claim:
    """Validation rows fixed, as printed: rows for the ratio grow alone."""
    parts = []
    for kind in ("consistent", "practical"):
        lines = results("theorems_runs", ratios=kind, validation="fixed", estimate="iw_far")
        ends = [min(lines, key=lambda x: int(x["n"])), max(lines, key=lambda x: int(x["n"]))]
        parts.append((kind, ends))
    reached = [_close(ends[1]) for _, ends in parts]
    nearer = all(_off(ends[1]) <= _off(ends[0]) for _, ends in parts)
    verdict = "holds" if all(reached) else "approached" if nearer else "does not hold"
    told = "; ".join(
        f"{RATIOS[kind]} {number(first['n_variance'], 1)} at n = {first['n']}, "
        f"{interval(last, 'n_variance', 1)} at {last['n']}"
        for kind, (first, last) in parts
    )
    text = (
        f"n^val · variance of the far source: {told}; limit {number(parts[0][1][0]['limit'], 1)}."
    )
    return Claim("Theorem 1 (ii)", "the same, ratios estimated", verdict, text, "theorems_runs")


def _off(line: Line) -> float:
    return abs(float(line["n_variance"]) - float(line["limit"]))


# Learnt models ------------------------------------------------------------------------------


def _learnt(results: Results, truth: str) -> Claim:
    line = results.one(
        "theorems_choice", truth=truth, estimate="feddae", what="promised less true, θ chosen"
    )
    falls = line["slope"] == "" or float(line["slope_upper"]) < 0.0
    gone = not _clear(line, "bias_last") or abs(float(line["over_sd_last"])) <= SEEN
    verdict = "holds, by its rate" if falls and (gone or truth == "straight") else "does not hold"
    told = (
        f"Promised less true {interval(line, 'bias_first', 3)} at n = {line['n_first']}, "
        f"{interval(line, 'bias_last', 3)} at {line['n_last']}"
    )
    told += (
        f"; slope {interval(line, 'slope')}."
        if truth == "straight" and line["slope"] != ""
        else ": each source converges to a line of its own."
        if truth == "bent"
        else "."
    )
    text = f"f(θ̂) → risk of the mixture, models learnt, truth {truth}"
    return Claim("Theorem 2 (i)", text, verdict, told, "theorems_choice")
