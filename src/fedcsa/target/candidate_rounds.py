"""Which candidates the target asks for, round by round; a grid or list is the case of one round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import CandidatesError, must
from fedcsa.findings import Finding
from fedcsa.messages.messages import RiskReport
from fedcsa.messages.policy import Policy
from fedcsa.models.description import Candidate
from fedcsa.models.space import SpaceFunction
from fedcsa.target.estimate import eligible, estimates
from fedcsa.target.joined import numbers_of_rounds
from fedcsa.target.search import Search
from fedcsa.words import number

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: Why a search ends before its budget: a limit on numbers, a site's rule, nothing new to draw.
NUMBERS, RULE, USED_UP = "numbers", "max_candidates", "space_used_up"


class CandidateRounds:
    """The rounds of one study.

    Parameters
    ----------
    plan : Plan
        With candidates, or with a space from which they are drawn.
    policy : Policy
        The target's own: it asks for no more candidates than it would answer for.
    own : function, optional
        The space, if it is a function.
    earlier : sequence of lists of candidates
        The rounds that were asked for before the search was interrupted: they stand, whatever
        Optuna draws by now.

    Attributes
    ----------
    plan : Plan
        With the candidates of all rounds so far.
    sizes : list of int
        Candidates of every round.
    ended : str
        Why the search ended before its budget; empty if it did not.
    """

    def __init__(
        self,
        plan: Plan,
        policy: Policy,
        own: SpaceFunction | None = None,
        earlier: Sequence[list[Candidate]] = (),
    ) -> None:
        self.plan, self._policy, self.ended = plan, policy, ""
        self._earlier = earlier
        self._refused: Sequence[str] = ()
        self.sizes: list[int] = [] if plan.space else [len(plan.candidates)]
        self._search: Search | None = None
        if plan.space:
            name, how = str(plan.model["name"]), str(plan.search)
            self._search = Search(plan.space, name, how, plan.seed, plan.limits, own)

    def begin(self) -> Plan:
        """The plan with the candidates of the first round."""
        if self._search is not None and not self.sizes:
            if self._most() < 1:
                least = numbers_of_rounds(self.plan, [1])
                rule = f"so many numbers that one candidate can be told, at least {least}"
                raise must("budget", rule, self.plan.limits.get("numbers"))
            self._take(self._asked(self._search, (), self._most()))
        return self.plan

    def more(self, reports: Mapping[str, RiskReport]) -> list[Candidate]:
        """The candidates of the next round; none if there is no other.

        Parameters
        ----------
        reports : mapping of str to RiskReport
            On all candidates so far.
        """
        if self._search is None or self.ended:
            return []
        left, most = self._search.left, self._most()
        found = self._asked(self._search, risks_so_far(self.plan, reports), most)
        if not found and left > 0:
            self.ended = USED_UP if most > 0 else self._limit()
        self._take(found)
        return found

    def undo(self, refused: Sequence[str]) -> None:
        """Take the last round back: without the sources that `refused` it there are too few."""
        self.ended, self._refused = RULE, refused
        size = self.sizes.pop()
        self.plan = replace(self.plan, candidates=self.plan.candidates[:-size])

    def without(self, left: Mapping[str, str]) -> list[Finding]:
        """That sources answered an earlier round and not this one, with the rule of each."""
        number = float(len(self.sizes))
        return [
            Finding("left-search", name, {"round": number, "rule": rule})
            for name, rule in left.items()
        ]

    def words(self, reports: Mapping[str, RiskReport]) -> str:
        """How far a search has come; empty if candidates are listed.

        Parameters
        ----------
        reports : mapping of str to RiskReport
            On all candidates so far, or on those of all rounds but the last.
        """
        limits = self.plan.limits
        if not limits or not self.sizes:
            return ""
        told = min((len(report.risk) for report in reports.values()), default=0)
        risks = risks_so_far(replace(self.plan, candidates=self.plan.candidates[:told]), reports)
        best = float(np.nanmin(risks)) if np.isfinite(risks).any() else None
        so_far = "" if best is None else f", smallest risk so far {number(best)}"
        return (
            f"round {len(self.sizes)} of {limits['rounds']}, candidate "
            f"{len(self.plan.candidates)} of {limits['candidates']}{so_far}"
        )

    def findings(self) -> list[Finding]:
        """That the search ended before its budget, if so; because of whom, if sites refused."""
        if not self.ended:
            return []
        tried, of = float(len(self.plan.candidates)), float(self.plan.limits["candidates"])
        evidence: dict[str, float | str] = {"candidates": tried, "of": of, "reason": self.ended}
        return [Finding("search-ended", name, evidence) for name in self._refused or ("",)]

    def _asked(self, search: Search, risks: Sequence[float] | Array, most: int) -> list[Candidate]:
        """The candidates of the next round: those of before the interruption, or new ones.

        Parameters
        ----------
        search : Search
        risks : sequence of float
            Of every candidate so far.
        most : int
            That the round may have.
        """
        found = search.ask(risks, most)
        told = next(iter(self._earlier[len(self.sizes) :]), found)
        if told != found:
            search.replace(len(found), told)
        return told

    def _take(self, found: list[Candidate]) -> None:
        if found:
            self.sizes.append(len(found))
            self.plan = replace(self.plan, candidates=(*self.plan.candidates, *found))

    def _most(self) -> int:
        """Candidates that the next round may have."""
        by_policy = math.inf
        if self._policy.max_candidates is not None:
            by_policy = self._policy.max_candidates - len(self.plan.candidates)
        return int(max(min(by_policy, self._most_by_numbers(), 2**31), 0))

    def _most_by_numbers(self) -> float:
        limit = self.plan.limits.get("numbers")
        if limit is None:
            return math.inf
        none, one = (numbers_of_rounds(self.plan, [*self.sizes, n]) for n in (0, 1))
        return (limit - none) // (one - none)

    def _limit(self) -> str:
        return NUMBERS if self._most_by_numbers() < 1 else RULE


def risks_so_far(plan: Plan, reports: Mapping[str, RiskReport]) -> Array:
    """The risk of every candidate by the study's own method; NaN of those that cannot be chosen.

    Parameters
    ----------
    plan : Plan
        With the candidates that the reports are on.
    reports : mapping of str to RiskReport
    """
    risks = np.full(len(plan.candidates), np.nan)
    try:
        kept = eligible(plan, reports)
    except CandidatesError:  # the next may do better
        return risks
    risks[list(kept)] = estimates(plan, reports, kept)[plan.method].risk
    return risks
