"""Statistical dangers, as named findings on a result rather than as exceptions.

A source sends a finding as a code and a few numbers, never as free text; the words are added
on the receiving side from the table below, so that no sentence written elsewhere is shown here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fedcsa.errors import MessageError
from fedcsa.words import number

Severity = Literal["note", "warning", "danger"]
#: The gravest first, as they are shown.
SEVERITIES: tuple[Severity, ...] = ("danger", "warning", "note")
Advice = Literal["use", "care", "none", "no"]

#: what to do with a model -> the same in words, and a sign beside its colour
ADVICE: Mapping[Advice, tuple[str, str]] = {
    "use": ("Use it", "✓"),
    "care": ("Use it with care", "!"),
    "none": ("Not judged", "?"),
    "no": ("Do not use it", "✕"),
}
#: code -> (severity, what it means, what to do)
CATALOGUE: dict[str, tuple[Severity, str, str]] = {
    "no-overlap": (
        "danger",
        "the source's rows do not reach the target's population, even after weighting",
        "do not rely on it; look for a source whose patients resemble the target's",
    ),
    "not-examined": (
        "warning",
        "the source could not examine the others' mixture",
        "the promise rests on the other sources; the evidence names the reason",
    ),
    "only-one-class": (
        "warning",
        "all its outcomes are of one class, so it could not examine; the others expect several",
        "ask the site whether outcomes are recorded; if they are, the model may not hold there",
    ),
    "nothing-examined": (
        "warning",
        "there was only one source, so nobody examined its model",
        "the promise rests on its own held-out rows; look for further sources",
    ),
    "no-promise": (
        "warning",
        "nobody could examine the mixture, so there is no promise of its risk",
        "see the reason at each source; between sites a model needs a format that may travel",
    ),
    "ranks-backwards": (
        "warning",
        "patients with the event have lower scores than those without",
        "check which level of the outcome is the event, and the signs of the model",
    ),
    "model-not-shown": (
        "note",
        "the site does not let other sources see its model, so the model has no weight",
        "ask its data steward whether the others may examine it",
    ),
    "useless-model": (
        "warning",
        "at least half of the other sources find its model useless, so the model has no weight",
        "ask the site which rows and outcomes it used, and look at its numbers",
    ),
    "stands-out": (
        "warning",
        "the source reports a risk unlike the others', and it counts only up to a bound",
        "find out what differs there; if the target resembles it, do not rely on the promise",
    ),
    "rows-claimed": (
        "warning",
        "the source claims far more rows than the others, and they count only up to a bound",
        "ask the site how many rows it has",
    ),
    "report-moves-choice": (
        "warning",
        "alone it would choose a candidate that others find much worse, so its risks do not count",
        "ask the site how it measured them",
    ),
    "weight-bounded": (
        "warning",
        "sites differ and many rows do not make up for it, so its model gets a third of the weight",
        "find out what differs between the sites, and whether it has those rows",
    ),
    "correlations-differ": (
        "warning",
        "features are correlated differently at another source, and a Table 1 does not show that",
        "weights cannot repair that; see which of the two the target resembles",
    ),
    "narrow-table": (
        "warning",
        "the target's table is so narrow here that a few rows carry the weight",
        "between sites it would be refused; agree on public sds",
    ),
    "heavy-row": (
        "warning",
        "a single row carries a fifth of the weight, or half of its variance",
        "between sites the report would be refused; expect a noisy contribution",
    ),
    "small-level": (
        "warning",
        "fewer than five of the target's patients have a flag or level",
        "between sites it counts as having none; merge levels, or leave it out",
    ),
    "backtest-failed": (
        "danger",
        "promises made to sources that played the target were broken, too often or by too much",
        "sites differ by more than the promise allows for; find out which, and do not rely on it",
    ),
    "promise-broken": (
        "warning",
        "the realised risk lies outside what was promised when the source played the target",
        "one may break by chance; if the factor is far from 1, find out what differs at that site",
    ),
    "backtest-untested": (
        "warning",
        "too few sources could play the target",
        "the promise could not be tested; treat the interval with caution",
    ),
    "unlike-sources": (
        "danger",
        "outcomes at the target do not follow the rule of the sources",
        "go by the numbers with outcomes, not by the promise; find out what differs here",
    ),
    "outcomes-worse": (
        "warning",
        "the risk at the target lies above the promised interval, repeated looks allowed for",
        "go by the numbers with outcomes; ask what changed: patients, devices, or treatment",
    ),
    "intervals-narrow": (
        "warning",
        "fewer outcomes lie in their intervals per patient, or in their sets, than was promised",
        (
            "use the intervals of fedcsa predict from now on; they are wider if the evidence says "
            "so, and too narrow if it does not"
        ),
    ),
    "outcomes-same": (
        "warning",
        "all outcomes that came are the same",
        "wait for more outcomes; ask whether those that came were selected by outcome",
    ),
    "few-outcomes": (
        "note",
        "fewer than ten outcomes came, so most of the answer is still the promise",
        "follow up more patients; fewer than ten outcomes say little by themselves",
    ),
    "zero-ratio": (
        "danger",
        "the density ratio is zero on every validation row",
        "the source says nothing about the target; leave it out",
    ),
    "constant-ratio": (
        "note",
        "the density ratio does not vary, so the control variate is switched off",
        "nothing to do if the populations are alike; otherwise check the bandwidths",
    ),
    "zero-divergence": (
        "warning",
        "the divergence is zero, which gives this source all the weight under FedDAE",
        "compare with method='fediwe' and look at the source's mean ratio",
    ),
    "ratio-mean-off": (
        "warning",
        "the mean density ratio is far from 1, but a good ratio has a mean near 1",
        "treat the weight of this source with suspicion; compare the methods",
    ),
    "few-effective-rows": (
        "warning",
        "few of the source's rows resemble the target",
        "expect a noisy contribution from this source",
    ),
    "imbalance": (
        "warning",
        "weighting does not bring the source's means onto the target's",
        "the source does not reach the target; look at the features named",
    ),
    "other-unit": (
        "warning",
        "a column looks as if it were in another unit than the target's",
        "ask the site for its unit; if it differs, convert its column and run again",
    ),
    "dominant-source": (
        "note",
        "one source carries most of the weight",
        "check that it deserves it: its overlap numbers should be the best",
    ),
    "grid-edge": (
        "note",
        "the best value lies at the edge of its grid",
        "widen the grid in that direction",
    ),
    "search-ended": (
        "note",
        "the search ended before it had used up its budget of candidates",
        "the evidence names the reason; to go on, raise that limit or widen the space",
    ),
    "left-search": (
        "warning",
        "the site answered an earlier round of the search, but not a later one",
        "the study went on without it; ask the site why",
    ),
    "candidate-failed": (
        "warning",
        "candidates could not be fitted, and were left out at this source",
        "check the candidate, or the size of the source",
    ),
    "no-training-weights": (
        "note",
        "the model takes no sample weights, so it was fitted to the sources as they are",
        "use a model that takes sample_weight, so that weighted training is tried too",
    ),
    "fit-warning": (
        "note",
        "the model library warned while fitting",
        "more iterations or scaled features usually help",
    ),
    "model-withheld": (
        "warning",
        "the site reported on its rows, but its model did not come",
        "its model has no weight; ask its data steward about the rule",
    ),
    "source-refused": (
        "warning",
        "the site's policy refused to take part",
        "ask its data steward about the rule",
    ),
    "outcomes-selective": (
        "warning",
        "the rows with outcomes differ from the target's Table 1, and were weighted to match it",
        "find out why these were known first; fedcsa followup draws a list at random",
    ),
    "answers-missing": (
        "note",
        "some outcomes of the list are still missing; similar rows stand in for them",
        "go on with the list; if they are missing for a reason, report it beside the number",
    ),
    "beyond-list": (
        "note",
        "some outcomes are of rows that are not on the list, so its weights do not hold",
        "all rows count alike; to use the weights, give only the outcomes of the list",
    ),
    "outcome-unit": (
        "warning",
        "the outcomes look as if they were in another unit than the sources'",
        "check the unit of the outcome column, convert it, and update again with --anew",
    ),
    "outcomes-far": (
        "danger",
        "single outcomes lie absurdly far from their predictions, so the model is not corrected",
        "look for typing errors and codes of missing cells such as -999, then update with --anew",
    ),
}

#: Findings that a site refused something, under the rule that is their evidence.
REFUSALS = ("source-refused", "model-withheld")

#: What a source finds itself and may send: code -> names of its evidence.
FROM_SOURCES: Mapping[str, tuple[str, ...]] = {
    "grid-edge": ("parameter", "value"),
    "fit-warning": ("warning", "count"),
    "narrow-table": ("features",),
    "other-unit": ("column", "conversion", "direction"),
}

#: They bring others about, at the same source, and stand before them.
CAUSES = ("other-unit",)

#: A source with less weight was left out in effect; among many, less than a tenth of its share.
_NO_WEIGHT = 0.01


def rules_named(findings: Iterable[Finding]) -> str:
    """Which rules of the sources refuse a study, in a sentence.

    >>> rules_named([Finding("source-refused", "north", {"rule": "min_target_rows"})])
    'Rules that refused: min_target_rows. Change the study, or ask the sites.'
    """
    rules = {
        str(item.evidence["rule"])
        for item in findings
        if item.code in REFUSALS and str(item.evidence["rule"]).isidentifier()
    }
    if not rules:
        return "Ask the sources why they did not answer."
    return f"Rules that refused: {', '.join(sorted(rules))}. Change the study, or ask the sites."


def left_out(weights: Mapping[str, float]) -> tuple[str, ...]:
    """The sources on which the answer does not rest: they have hardly any weight.

    >>> left_out({"north": 0.7, "south": 0.2999, "far": 0.0001})
    ('far',)
    """
    bound = min(_NO_WEIGHT, 0.1 / max(len(weights), 1))
    return tuple(name for name, weight in weights.items() if weight < bound)


@dataclass(frozen=True)
class Finding:
    """One named danger, with its evidence.

    Attributes
    ----------
    code : str
        A key of `CATALOGUE`.
    source : str
        The source concerned, or ``""`` when the finding is about the whole study.
    evidence : mapping of str to float or str
        Numbers, and names of features, parameters or rules; never a data value.
    """

    code: str
    source: str = ""
    evidence: Mapping[str, float | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.code not in CATALOGUE:
            raise MessageError(f"A finding must have a known code; {self.code[:40]!r} is not one.")

    @property
    def severity(self) -> Severity:
        """``"note"``, ``"warning"`` or ``"danger"``."""
        return CATALOGUE[self.code][0]

    @property
    def advice(self) -> str:
        """One sentence on what to do."""
        return CATALOGUE[self.code][2]

    @property
    def facts(self) -> str:
        """The evidence in words, for example ``"effective rows 2.78, of 300"``."""
        return ", ".join(
            f"{key} {number(value)}" if isinstance(value, float) else f"{key} {value}"
            for key, value in self.evidence.items()
        )

    def __str__(self) -> str:
        where = f" at source {self.source!r}" if self.source else ""
        facts = f" ({self.facts})" if self.evidence else ""
        return f"{self.code}{where}: {CATALOGUE[self.code][1]}{facts}; {self.advice}"
