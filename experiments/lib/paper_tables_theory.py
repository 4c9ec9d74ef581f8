"""Tables of the theorems and of the bound, for docs/reproduction-tables.md."""

from __future__ import annotations

from collections.abc import Sequence

from lib.page import Line, Results, interval, number, table
from lib.paper_tables import Section

ESTIMATES = {"iw_far": "f_IW, far", "fediwe": "FedIWE", "equal": "FedLE, equal", "feddae": "FedDAE"}


def theorems_runs(results: Results) -> str:
    """Bias and variance at the smallest and the largest n."""
    rows = [
        (
            line["ratios"],
            line["validation"],
            line["n"],
            ESTIMATES[line["estimate"]],
            interval(line, "bias", 3),
            interval(line, "n_variance"),
            number(line["limit"]),
            number(line["excess_kurtosis"], 1),
        )
        for line in results("theorems_runs")
        if line["estimate"] in ESTIMATES
        and int(line["n"]) in _ends(results("theorems_runs", ratios=line["ratios"]))
    ]
    head = ("ratios", "validation rows", "n", "estimate", "bias", "n^val · variance")
    return table((*head, "its limit", "excess kurtosis"), rows)


def _ends(lines: Sequence[Line]) -> tuple[int, int]:
    sizes = [int(line["n"]) for line in lines]
    return min(sizes), max(sizes)


def theorems_rates(results: Results) -> str:
    """How fast every bias vanishes."""
    rows = [
        (line["ratios"], line["validation"], ESTIMATES[line["estimate"]], *_rate(line))
        for line in results("theorems_rates")
        if line["estimate"] in ESTIMATES
    ]
    return table(("ratios", "validation rows", "estimate", *RATE), rows)


def theorems_choice(results: Results) -> str:
    """Learnt models and a chosen θ."""
    rows = [
        (line["truth"], ESTIMATES[line["estimate"]], line["what"], *_rate(line))
        for line in results("theorems_choice")
    ]
    return table(("truth", "estimate", "what", *RATE), rows)


RATE = (
    "smallest n",
    "largest n",
    "slope of the log of its size over log n",
    "over sd, smallest and largest n",
)


def _rate(line: Line) -> tuple[str, ...]:
    """Both ends, the slope, and what is left beside the sd."""
    ends = [
        f"{interval(line, f'bias_{word}', 3)} (n = {line[f'n_{word}']})"
        for word in ("first", "last")
    ]
    slope = interval(line, "slope") if line["slope"] != "" else "–"
    left = ", ".join(number(line[f"over_sd_{word}"]) for word in ("first", "last"))
    return *ends, slope, left


def theorems_models(results: Results) -> str:
    """The target risk of every line in the limit."""
    rows = [(x["model"], number(x["target_risk"])) for x in results("theorems_models")]
    return table(("line", "target risk"), rows)


def bound_terms(results: Results) -> str:
    """Every term of (13)."""
    keys = ("empirical_error", "half_divergence", "optimal_error", "last_term", "bound")
    rows = [
        (
            f"{x['example']}, {x['target']}",
            x["weights"],
            x["n"],
            *(number(x[key]) for key in (*keys, "true_error", "constant_error")),
            *(number(x[key]) for key in ("half_divergence_fitted", "last_term_vc")),
            x["rows_for_one"] or "none",
        )
        for x in results("bound_terms")
    ]
    head = ("example, target", "weights", "n", "empirical error", "½ divergence", "optimal model")
    middle = (
        "last term",
        "bound",
        "true error",
        "a constant's error",
        "½ divergence in the sample",
    )
    return table((*head, *middle, "last term, d = features + 1", "rows for a bound below 1"), rows)


SECTIONS: dict[str, Section] = {
    "theorems_runs": Section(
        "Theorems: bias and variance",
        "One feature, normal populations, bounded ratios, a fixed model: all limits are integrals. "
        "Validation rows grow with n, or are 100 (200 at the far source). Variances have bootstrap "
        "intervals: with estimated ratios the tails are heavy.",
        theorems_runs,
        {
            "theorems_known": "Bias and n times variance with known ratios",
            "theorems_estimated": "Bias and n times variance with estimated ratios",
        },
    ),
    "theorems_rates": Section(
        "Theorems: rates",
        "A limit is judged by how fast the bias falls. One that falls no faster than the sd "
        "spoils intervals at every n.",
        theorems_rates,
    ),
    "theorems_choice": Section(
        "Theorems: learnt models and the choice of θ",
        "Ratios are known; every source fits ridge lines on rows of its own for eleven θ.",
        theorems_choice,
    ),
    "theorems_models": Section(
        "Theorems: one risk or several",
        "The theorems speak of one f_T(θ). For a line fitted to a bent truth each source has its "
        "own, and their weighted mean is not the risk of the mixture.",
        theorems_models,
    ),
    "bound_terms": Section(
        "The bound (13), term by term",
        "The share of wrong answers lies between 0 and 1; a bound above 1 says nothing. The "
        "divergence is that of a cross-fitted logistic regression between a source's rows and the "
        "target's: an estimate from below.",
        bound_terms,
    ),
}
