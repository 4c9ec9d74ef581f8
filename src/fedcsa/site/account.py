"""What left a site, and what would, counted and in sentences: for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fedcsa.messages.policy import Policy
from fedcsa.site.log import Sent, SiteLog
from fedcsa.words import number, printable

#: Of a preview, where a question has not come.
STAND_IN = (
    "Where a question has not come yet, this site's own rows, the first candidate and a model "
    "that is zero stand in for it: names and counts are as they will be, values are not."
)


def without_repeats(sent: Iterable[Sent]) -> list[tuple[Sent, str]]:
    """Every message that left once, with what it is and how often: repeats are the same bytes.

    Parameters
    ----------
    sent : iterable of Sent
        Of repeats the first one stands for all.
    """
    lines: dict[tuple[str, str], list[Sent]] = {}
    for line in sent:
        lines.setdefault((line.entry.sha256, line.entry.recipient), []).append(line)
    return [
        (same[0], same[0].what + (f" ({len(same)} times)" if len(same) > 1 else ""))
        for same in lines.values()
    ]


def search_sentence(budget: Mapping[str, int]) -> str:
    """How often and about how much a target may ask in a search; empty without one.

    Examples
    --------
    >>> search_sentence({"candidates": 60, "rounds": 6})
    'In a search, the target asks in up to 6 rounds about up to 60 candidates in all; ...'
    """
    if not budget:
        return ""
    numbers = f" and for up to {budget['numbers']} numbers" if "numbers" in budget else ""
    return (
        f"In a search, the target asks in up to {budget['rounds']} rounds about up to "
        f"{budget['candidates']} candidates{numbers} in all; with every round a report as the "
        "first one leaves, on other candidates and the same rows."
    )


def cohort_accounts(log: SiteLog, days: int) -> list[dict[str, Any]]:
    """What a target told of each of its cohorts in the last `days`.

    How many studies got a table, how many tables were different ones, since the same numbers told
    again are none, and how many numbers about the cohort's rows these hold.

    Parameters
    ----------
    log : SiteLog
    days : int
    """
    told: dict[str, dict[str, Any]] = {}
    for line in log.recent("announced", days):
        nothing = {"cohort": line["cohort"], "studies": 0, "tables": 0, "numbers": 0}
        account = told.setdefault(line["cohort"], nothing)
        account["studies"] += 1
        account["tables"] += not line["repeats"]
        account["numbers"] += 0 if line["repeats"] else line["numbers"]
    return list(told.values())


def briefs_by_target(log: SiteLog, days: int) -> dict[str, int]:
    """How many briefs of each target a source took up in the last `days`, refused ones too.

    Parameters
    ----------
    log : SiteLog
    days : int
    """
    return dict(Counter(x["target"] for x in log.recent("accepted", days, phase="risk")))


def told_sentences(log: SiteLog, policy: Policy) -> list[str]:
    """How many tables of a cohort, and how many briefs of a target, count in the period.

    Parameters
    ----------
    log : SiteLog
    policy : Policy
        The site's.
    """
    days = policy.period_days
    tables = [
        f"Cohort {printable(told['cohort'])}: {told['tables']} of {_most(policy.max_tables)} "
        f"tables in {days} days, {told['numbers']} numbers, in {told['studies']} studies."
        for told in cohort_accounts(log, days)
    ]
    return tables + [
        f"Target {printable(target)}: {count} of {_most(policy.max_briefs)} briefs in {days} days."
        for target, count in briefs_by_target(log, days).items()
    ]


def _most(limit: int | None) -> str:
    return "any number of" if limit is None else str(limit)


def attack_sentences(found: Mapping[str, Any] | None, most: float | None = None) -> list[str]:
    """What attacks on a model reached, in words.

    Parameters
    ----------
    found : mapping or None
        As `fedcsa.source.certificate.Certificate.to_plain` gives it, if there is one.
    most : float, optional
        The AUC above which the site's file keeps a model.
    """
    if found is None:
        return []
    limit = "" if most is None else f"; above {most:g} a model stays"
    told = [
        f"{attack['auc']:.3f} ± {attack['error']:.3f} {words}"
        for name, words in (("loss", "by the loss"), ("reference", "with reference models"))
        if (attack := found[name]) is not None
    ]
    tried = "Whether an attack can tell who was in it was not tried: too few folds could be fitted."
    if told:
        auc, rows = " and ".join(told), found["n_rows"]
        chance = f"0.5 is chance{limit}"
        tried = (
            f"An attack tells who was in it with an AUC of {auc} ({chance}), tried on {rows} rows."
        )
    share, per_row = number(found["outcome_share"]), number(found["parameters_per_row"])
    leaf = found["smallest_leaf"]
    leaves = "" if leaf is None else f"; {leaf} rows behind its smallest leaf or mean"
    where = ", ".join(found["own_values"])
    return [
        tried,
        f"One patient's own outcome makes up {share} of a prediction at most.",
        f"It holds {per_row} fitted numbers per row{leaves}.",
        f"It holds cells or outcomes: {where}." if where else "It holds no cell and no outcome.",
    ]
