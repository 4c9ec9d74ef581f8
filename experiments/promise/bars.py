"""Every bar of the promise study beside what was measured, under the old and the new default.

Reads the packed runs of both. Where an interval is given, whole families (or real sites) were drawn
anew by a bootstrap. Comparisons are paired: the same family, seed and rows.

Tables: ``promise_bars`` (what was asked, the bar, both defaults, whether it is met),
``promise_sets`` (coverage, width and score by set of families and verdict), ``promise_families``
(one line a family), ``promise_sources`` (by number of sources), ``promise_sites`` (real data sets)
and ``promise_cases`` (the paper's cases).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

from lib.common import ROOT, geometric_mean, write_table
from lib.promise_measures import (
    CARE,
    RIVALS,
    USE,
    Run,
    answered,
    coverage,
    family_of,
    half_width,
    pairs,
    score,
    score_difference,
)
from lib.promise_runs import CODES
from lib.promise_tables import (
    SETS,
    Evidence,
    case_lines,
    family_lines,
    risk_ratios,
    set_lines,
    share_of,
    site_lines,
    source_lines,
)

# What was asked before the study was run
EXCHANGEABLE = (0.92, 0.98)
SHARED_RULE = 0.93
UNDER_A_VERDICT = 0.92
FRIENDLY_SCORE = 1.5
CLEAR, NONE = 0.80, 0.02
SEEN = 0.80
WORST, AVERAGE = 1.10, 0.99
STROKE_GAP, STROKE_COVERAGE = 0.40, (0.90, 1.00)
FAR_WEIGHT, REFUSALS = 0.05, 0.95
#: Families whose sites differ so much that the agreement leg must say so.
DISAGREEING = ("levels-8x400", "logits-10-8x400", "logits-30-8x400")


@dataclass(frozen=True)
class Bar:
    """One thing that must be shown."""

    asked: str
    bar: str
    old: str
    new: str
    met: str

    @classmethod
    def of(cls, asked: str, bar: str, old: str, new: str, *, good: bool | None) -> Bar:
        """With `good` None it is reported only."""
        return cls(asked, bar, old, new, "reported" if good is None else "yes" if good else "no")


def bars(old: Evidence, new: Evidence) -> list[Bar]:
    """All of them, in the order in which they were asked."""
    return [
        *coverage_bars(old, new),
        *score_bars(old, new),
        *verdict_bars(new),
        *risk_bars(old, new),
        *real_bars(old, new),
        *case_bars(old, new),
    ]


def _coverage_text(runs: Sequence[Run]) -> str:
    told = answered(runs)
    if not told:
        return f"none of {len(runs)} answered"
    found = coverage(told)
    ends = f"{found.lower:.3f} to {found.upper:.3f}"
    return f"{found.value:.3f} ({ends}), × {half_width(told):.2f}, {len(told)} of {len(runs)} runs"


def _coverage_bar(
    asked: str, old: Sequence[Run], new: Sequence[Run], low: float | None, high: float = 1.0
) -> Bar:
    found = coverage(answered(new)).value
    bar = "reported" if low is None else f"≥ {low:.2f}" if high == 1.0 else f"{low:.2f}–{high:.2f}"
    good = None if low is None else low <= found <= high
    return Bar.of(asked, bar, _coverage_text(old), _coverage_text(new), good=good)


def coverage_bars(old: Evidence, new: Evidence) -> list[Bar]:
    """Coverage of the 95 % interval where it is promised, and under every verdict."""
    found = []
    for label, name, low, high in (
        ("sites exchangeable", "sites exchangeable", *EXCHANGEABLE),
        ("shared rule, any K", "shared rule", SHARED_RULE, 1.0),
        ("heavy tails", "heavy tails", None, 1.0),
    ):
        both = old.of(SETS[name]), new.of(SETS[name])
        found.append(_coverage_bar(f"coverage, {label}", *both, low, high))
    those = SETS["no label shift, no drift"]
    ok = [run for run in old.of(those) if run.verdict == "ok"]
    flagged = [run for run in old.of(those) if run.verdict not in ("ok", "failed")]
    for verdict, before in ((USE, ok), (CARE, flagged)):
        under = [run for run in new.of(those) if run.verdict == verdict]
        label = f'coverage under "{verdict}" (old: {"ok" if verdict == USE else "any other"})'
        found.append(_coverage_bar(label, before, under, UNDER_A_VERDICT))
    return found


def score_bars(old: Evidence, new: Evidence) -> list[Bar]:
    """The interval score against the old default, on pairs that both answered."""
    found = []
    both = pairs(old.of(SETS["violates something"]), new.of(SETS["violates something"]))
    found.append(_difference_bar("families that violate something", both, "lower, excludes 0"))
    both = pairs(old.real, new.real)
    found.append(_difference_bar("real sites, own sampling error allowed for", both, "not higher"))
    for line in source_lines(old, new):
        if line["pairs"]:
            found.append(
                Bar.of(
                    f"interval score, nothing violated, K = {line['n_sources']}",
                    f"≤ {FRIENDLY_SCORE} ×",
                    f"{line['score_old']:.2f}",
                    f"{line['score_new']:.2f}: × {line['ratio']:.2f}, {line['pairs']} pairs",
                    good=line["ratio"] <= FRIENDLY_SCORE,
                )
            )
    return found


def _difference_bar(label: str, both: Sequence[tuple[Run, Run]], bar: str) -> Bar:
    asked = f"interval score, {label}"
    if not both:
        return Bar.of(asked, bar, "", "no pairs", good=None)
    found = score_difference(both)
    good = found.upper < 0.0 if "excludes" in bar else found.value <= 0.0
    before, after = score([run for run, _ in both]), score([run for _, run in both])
    ends = f"{found.lower:+.2f} to {found.upper:+.2f}"
    told = f"{after:.2f}: {found.value:+.2f} ({ends}), {len(both)} pairs"
    return Bar.of(asked, bar, f"{before:.2f}", told, good=good)


def verdict_bars(new: Evidence) -> list[Bar]:
    """How often it says "use it" where it should and should not, and sees that sites differ."""
    found = []
    for signal, bar, good in (
        ("clear", f"≥ {CLEAR:.0%}", lambda share: share >= CLEAR),
        ("none", f"≤ {NONE:.0%}", lambda share: share <= NONE),
    ):
        runs = [run for run in new.studies if family_of(run).signal == signal]
        share = share_of(runs, lambda run: run.verdict == USE)
        told = f"{share:.1%} of {len(runs)} runs"
        asked = f'"{USE}", signal {signal}'
        found.append(Bar.of(asked, bar, "", told, good=good(share) if runs else None))
    for name in DISAGREEING:
        runs = [run for run in new.studies if run.family == name]
        share = share_of(runs, lambda run: run.line.get("agreement_passed") == "False")
        told = f"{share:.0%} of {len(runs)} runs"
        asked = f"agreement leg fails, `{name}`"
        found.append(Bar.of(asked, f"≥ {SEEN:.0%}", "", told, good=share >= SEEN if runs else None))
    return found


def risk_bars(old: Evidence, new: Evidence) -> list[Bar]:
    """True risk over that of the best of four rivals, family by family, where it answers."""
    both = [risk_ratios(each, old, RIVALS) for each in (old, new)]
    told = []
    for ratios in both:
        if not ratios:
            return []
        worst = max(ratios, key=lambda name: ratios[name])
        told.append((ratios[worst], worst, geometric_mean(ratios.values()), len(ratios)))
    texts = [f"{worst:.3f} (`{name}`)" for worst, name, _, _ in told]
    means = [f"{mean:.3f} ({count} families)" for _, _, mean, count in told]
    worst, _, mean, _ = told[1]
    best = "risk over the best of four"
    return [
        Bar.of(f"{best}, worst family", f"≤ {WORST:.2f}", *texts, good=worst <= WORST),
        Bar.of(f"{best}, geometric mean", f"≤ {AVERAGE:.2f}", *means, good=mean <= AVERAGE),
    ]


def real_bars(old: Evidence, new: Evidence) -> list[Bar]:
    """The stroke trial: how far the promise is off, over naive's; coverage."""
    lines = {line["data_set"]: line for line in site_lines(old, new)}
    line = lines.get("stroke")
    if line is None:
        return []
    low, high = STROKE_COVERAGE
    return [
        Bar.of(
            "stroke trial: distance of promised from realised loss, over naive's",
            f"≤ {STROKE_GAP:.2f}",
            f"{line['gap_old']:.2f}",
            f"{line['gap_new']:.2f}",
            good=line["gap_new"] <= STROKE_GAP,
        ),
        Bar.of(
            "stroke trial: coverage, own sampling error allowed for",
            f"{low:.2f}–{high:.2f}",
            f"{line['coverage_old']:.2f} of {line['answered_old']}",
            f"{line['coverage_new']:.2f} of {line['answered_new']}",
            good=low <= line["coverage_new"] <= high,
        ),
    ]


def case_bars(old: Evidence, new: Evidence) -> list[Bar]:
    """The paper's Case 1: weight of the far source. Case 2: refusals."""
    found = []
    lines = case_lines(old, new)
    for case, asked, bar, key, worst in (
        ("case1", "weight of Case 1's far source, largest", f"< {FAR_WEIGHT:.0%}", "weight", max),
        ("case2", "refusals in Case 2, c ≥ 2, least", f"≥ {REFUSALS:.0%}", "refused", min),
    ):
        members = [line for line in lines if line["family"].startswith(case)]
        if members:
            before, after = (worst(line[f"{key}_{code}"] for line in members) for code in CODES)
            good = after < FAR_WEIGHT if case == "case1" else after >= REFUSALS
            found.append(Bar.of(asked, bar, f"{before:.1%}", f"{after:.1%}", good=good))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "experiments" / "results")
    parser.add_argument("--out", type=Path, help="folder for the tables; that of the results")
    parser.add_argument("--development", action="store_true", help="the new default's other seeds")
    given = parser.parse_args(arguments)
    out = given.out or given.results
    phase = "_development" if given.development else ""
    old, new = (Evidence.read(given.results, code, phase) for code in CODES)
    found = bars(old, new)
    tables = {
        "bars": [vars(bar) for bar in found],
        "sets": set_lines(old, new),
        "families": family_lines(old, new),
        "sources": source_lines(old, new),
        "sites": site_lines(old, new),
        "cases": case_lines(old, new),
    }
    for name, lines in tables.items():
        if lines:
            write_table(out, f"promise_{name}", lines)
    for bar in found:
        print(f"{bar.met:9} {bar.asked}: {bar.bar}; old {bar.old or '–'}; new {bar.new}")


if __name__ == "__main__":
    main()
