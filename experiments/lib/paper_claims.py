"""Every claim of the paper in its order, judged from the result files."""

from __future__ import annotations

from collections.abc import Sequence

from lib.page import Line, Results, interval, number
from lib.paper_claims_theorems import theorems
from lib.paper_verdicts import Claim, judge, side, tally, under_readings, unless

RIVALS = {"naive": "Naive", "fediwe": "FedIW", "reference": "Reference"}


# Table 1 ------------------------------------------------------------------------------------


def table1(results: Results) -> list[Claim]:
    """The claims made about Table 1."""
    found = [_best(results), _steadiest(results)]
    reasons = {
        "naive": "where the far source takes the weight, FedDA's error is several times Naive's",
        "fediwe": "the same collapse; a smaller variance of the risk estimate is no better model",
        "reference": "the outcomes that Reference learns from are worth more than the shifted rows",
    }
    for rival, name in RIVALS.items():
        lines = _rows(results, rival)
        text = f"FedDA is better than {name} in each row"
        verdict, told = under_readings(
            results, judge(lines, "difference"), f"table 1: better than {rival} in each row"
        )
        mean = interval(results.one("table1_paired", row="all", rival=rival), "difference")
        figure = f"{mean} over all rows; {tally(lines, 'difference')} rows; {told}"
        found.append(Claim("Table 1", text, verdict, figure, unless(verdict, reasons[rival])))
    return found


def _rows(results: Results, rival: str) -> list[Line]:
    return [x for x in results("table1_paired", rival=rival) if x["row"] != "all"]


def _best(results: Results) -> Claim:
    lines = [line for rival in RIVALS for line in _rows(results, rival)]
    rows = results("table1")
    best = sum(
        all(float(x["feddae_mean"]) < float(x[f"{rival}_mean"]) for rival in RIVALS) for x in rows
    )
    verdict, told = under_readings(
        results, judge(lines, "difference"), "table 1: best mean in each row"
    )
    figure = f"best mean in {best} of {len(rows)} rows; {told}"
    reason = "zero-ratio collapse: the far source's Div is near 0, so that it takes the weight"
    text = "FedDA has the best mean in each row"
    return Claim("Table 1", text, verdict, figure, unless(verdict, reason))


def _steadiest(results: Results) -> Claim:
    by_rival = {rival: _rows(results, rival) for rival in RIVALS}
    lines = [line for own in by_rival.values() for line in own]
    verdict, told = under_readings(
        results, judge(lines, "spread_ratio", 1.0), "table 1: smallest spread in each row"
    )
    tallies = ", ".join(
        f"{name} {tally(by_rival[rival], 'spread_ratio', 1.0)}" for rival, name in RIVALS.items()
    )
    figure = f"ratio of spreads below / above / around 1, rows: {tallies}; {told}"
    reason = "some runs collapse and others do not, which is a spread that no rival has"
    text = "FedDA has the smallest spread in each row"
    return Claim("Table 1", text, verdict, figure, unless(verdict, reason))


# Figure 2 -----------------------------------------------------------------------------------


def figure2(results: Results) -> list[Claim]:
    """The claims made about Figure 2."""
    lines = results("figure2")
    keys = [f"feddae_minus_{rival}" for rival in RIVALS]
    verdicts = [judge(lines, key) for key in keys]
    verdict = verdicts[0] if len(set(verdicts)) == 1 else "does not hold"
    verdict, told = under_readings(
        results, verdict, "figure 2: better than naive and fediwe at each c"
    )
    tallies = ", ".join(
        f"{name} {tally(lines, key)}" for name, key in zip(RIVALS.values(), keys, strict=True)
    )
    reason = "no source resembles the target: there is no good weight to find"
    text = "FedDA significantly outperforms the others for every c"
    found = [
        Claim(
            "Figure 2a",
            text,
            verdict,
            f"difference below / above / around 0, values of c: {tallies}; {told}",
            unless(verdict, reason),
        )
    ]
    trends = {line["advantage"]: line for line in results("figure2_trend")}
    pairs = ("naive - feddae", "fediwe - feddae")
    verdict = _grows([trends[name] for name in pairs])
    verdict, told = under_readings(results, verdict, "figure 2a: advantage grows with c")
    slopes = ", ".join(f"{name} {interval(trends[name], 'slope')}" for name in pairs)
    reason = "as c grows every ratio tends to zero, and weights carry no information"
    text = "FedDA's advantage grows with the shift"
    figure = f"slope of the advantage over c: {slopes}; {told}"
    found.append(Claim("Figure 2a", text, verdict, figure, unless(verdict, reason)))
    ratio = trends["fediwe / feddae"]
    verdict, told = under_readings(
        results, _grows([ratio]), "figure 2b: FedIW / FedDA grows with c"
    )
    figure = f"slope of the ratio over c: {interval(ratio, 'slope', 3)}; {told}"
    text = "FedIW / FedDA grows with the shift"
    found.append(Claim("Figure 2b", text, verdict, figure, unless(verdict, reason)))
    return found


def _grows(lines: Sequence[Line]) -> str:
    turned = [
        {
            "slope": str(-float(line["slope"])),
            "slope_lower": str(-float(line["slope_upper"])),
            "slope_upper": str(-float(line["slope_lower"])),
        }
        for line in lines
    ]
    return judge(turned, "slope")


# Parkinson's --------------------------------------------------------------------------------


def parkinsons(results: Results) -> list[Claim]:
    """The claims made about Tables 2 and 3, where the printed level is reached."""
    found = []
    for table, name in (("table2", "Table 2"), ("table3", "Table 3")):
        own = {
            design: [
                results.one(
                    "parkinsons_paired", table=table, design=design, scaling="patient", rival=rival
                )
                for rival in RIVALS
            ]
            for design in ("splits of one patient", "all patients")
        }
        verdict = judge(own["all patients"], "difference")
        if (
            verdict.startswith("does not hold")
            and judge(own["splits of one patient"], "difference") == "holds"
        ):
            verdict = "holds under one patient as the target, not over all"
        told = "; ".join(
            f"{design}: "
            + ", ".join(
                f"− {label} {interval(line, 'difference', 3)}"
                for label, line in zip(RIVALS.values(), lines, strict=True)
            )
            for design, lines in own.items()
        )
        text = "FedDA is better than all others on Parkinson's in the mean"
        constant = results.one(
            "parkinsons_paired",
            table=table,
            design="all patients",
            scaling="patient",
            rival="constant",
        )
        beaten = side(constant, "difference")
        words = {
            "below": "beats", "above": "is worse than", "unclear": "cannot be told from",
        }[beaten]  # fmt: skip
        reason = (
            f"within a patient the voice carries little signal: FedDA {words} a constant, "
            f"{interval(constant, 'difference', 3)}"
        )
        found.append(Claim(name, text, verdict, f"difference, {told}", reason))
        found.append(_spread(results, table, name))
    return found


def _spread(results: Results, table: str, name: str) -> Claim:
    lines = {
        line["method"]: line for line in results("parkinsons_one", table=table, scaling="patient")
    }
    first = {
        key: min((*RIVALS, "feddae"), key=lambda m, key=key: float(lines[m][key]))  # type: ignore[misc]
        for key in ("sd", "worst")
    }
    ratios = [
        results.one(
            "parkinsons_paired",
            table=table,
            design="splits of one patient",
            scaling="patient",
            rival=rival,
        )
        for rival in RIVALS
    ]
    verdict = judge(ratios, "spread_ratio", 1.0)
    if verdict == "holds" and first["worst"] != "feddae":
        verdict = "does not hold"
    told = ", ".join(
        f"{label} {interval(line, 'spread_ratio')}"
        for label, line in zip(RIVALS.values(), ratios, strict=True)
    )
    names = {**RIVALS, "feddae": "FedDA"}
    figure = (
        f"ratio of spreads to {told}; smallest spread: {names[first['sd']]}, "
        f"smallest worst case: {names[first['worst']]}"
    )
    text = "FedDA has the smallest spread and the best worst case"
    reason = "the spread is that of the test rows, which all methods share"
    return Claim(name, text, verdict, figure, unless(verdict, reason))


# What is printed ----------------------------------------------------------------------------


def printed_below_floor(results: Results, floor: float) -> str:
    """How many printed means no method can have on fresh rows."""
    rows = results("table1")
    below = [x for x in rows if float(x["feddae_printed"]) < floor]
    lowest = min(float(x["feddae_printed"]) for x in rows)
    others = sum(
        float(x[f"{m}_printed"]) < floor for x in rows for m in ("naive", "fediwe", "reference")
    )
    return (
        f"{len(below)} of the {len(rows)} printed means of FedDA and {others} of the "
        f"{3 * len(rows)} others lie below {floor:.3f}, the smallest at {number(lowest, 4)}."
    )


def all_claims(results: Results) -> list[Claim]:
    """In the order of the paper."""
    return [*theorems(results), *table1(results), *figure2(results), *parkinsons(results)]
