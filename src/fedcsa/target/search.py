"""The target's search: which candidates to ask for next, given the risks of the earlier ones.

Optuna's ask and tell, a round at a time. Every round begins anew: the candidates so far are told
with the risks of now, and a sampler is seeded by the study's seed and the round's number. So the
same answers give the same questions, whether or not a search was interrupted. Only the target
needs Optuna.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import CandidatesError, MessageError, MissingExtraError, ParameterError, must
from fedcsa.findings import Finding
from fedcsa.messages.messages import RiskReport
from fedcsa.messages.policy import Policy
from fedcsa.models.description import Candidate
from fedcsa.models.registry import checked_candidate, expand_candidates
from fedcsa.models.space import (
    Space,
    SpaceFunction,
    from_quantile,
    is_function,
    is_whole_range,
)
from fedcsa.target.estimate import Reported, eligible, estimates
from fedcsa.words import number

if TYPE_CHECKING:
    from fedcsa.plan import Plan

#: Of the candidates of a search, the part that is drawn before any risk is looked at: a quarter is
#: as many as Optuna takes by default of a budget of forty.
RANDOM_SHARE = 0.25
#: How often to draw again what was asked for before, where earlier candidates did well.
TRIES = 20
#: And then anywhere: the best of a few choices come over and over, though there are others. A
#: space without a new one after that is used up.
TRIES_ANYWHERE = 50
#: Quantiles nearer to 0 or 1 are not drawn: many distributions have no end there.
_TAIL = 1e-4


class Search:
    """One search through a space.

    Parameters
    ----------
    space : Space
    model : str
        Name of the model in its description, by which candidates are checked.
    how : {"tpe", "random"}
        How to draw: where earlier candidates did well, or anywhere.
    seed : int
    budget : mapping of str to int
        Most ``candidates``, and ``rounds`` over which they are spread.
    own : function, optional
        The space, if it is a function.
    """

    def __init__(
        self,
        space: Space,
        model: str,
        how: str,
        seed: int,
        budget: Mapping[str, int],
        own: SpaceFunction | None = None,
    ) -> None:
        if is_function(space) and own is None:
            raise ParameterError(
                "A space that is a function can only be searched in Python, where it is. "
                "Write it as ranges and choices."
            )
        self._space, self._model, self._own = space, model, own
        self._how, self._seed, self._budget = how, seed, budget
        self._optuna = _load_optuna()
        #: What Optuna drew for every candidate so far, None if another drew it, and the candidate.
        self._drawn: list[tuple[Any, dict[str, Any]]] = []
        self._rounds = 0

    @property
    def left(self) -> int:
        """How many candidates may still be asked for."""
        return self._budget["candidates"] - len(self._drawn)

    def ask(self, risks: Sequence[float] | Array = (), most: int | None = None) -> list[Candidate]:
        """The candidates of the next round; none at the end of the search.

        Parameters
        ----------
        risks : sequence of float
            Of every candidate so far, in their order; NaN of one that could not be fitted.
        most : int, optional
            That may be asked for, if fewer than the budget has left.
        """
        rounds = self._budget["rounds"] - self._rounds
        size = math.ceil(self.left / rounds) if rounds > 0 else 0
        size = size if most is None else min(size, most)
        if size <= 0:
            return []
        with _quietly(self._optuna):
            study, anywhere = self._told(risks), self._sampler("random", self._rounds, 1)
            found = (self._draw(study, anywhere) for _ in range(size))
            fresh = [drawn for drawn in found if drawn is not None]
        self._rounds += 1
        return [candidate for _, candidate in fresh]

    def replace(self, last: int, told: Sequence[Candidate]) -> None:
        """Let candidates that were asked for before take the place of the `last` that were drawn.

        Optuna did not draw them, so their risks do not guide it; they are not asked for again.

        Parameters
        ----------
        last : int
        told : sequence of candidates
        """
        del self._drawn[len(self._drawn) - last :]
        self._drawn += [(None, dict(candidate)) for candidate in told]

    def _told(self, risks: Sequence[float] | Array) -> Any:
        """An Optuna study that knows the risk of every candidate so far."""
        study = self._optuna.create_study(sampler=self._sampler(self._how, self._rounds))
        trial_of, state = self._optuna.trial.create_trial, self._optuna.trial.TrialState
        for (trial, _), risk in zip(self._drawn, risks, strict=True):
            if trial is None:
                continue
            known = math.isfinite(risk)
            study.add_trial(
                trial_of(
                    state=state.COMPLETE if known else state.FAIL,
                    value=float(risk) if known else None,
                    params=trial.params,
                    distributions=trial.distributions,
                )
            )
        return study

    def _sampler(self, how: str, *stream: int) -> Any:
        """A sampler with a stream of its own.

        Parameters
        ----------
        how : {"tpe", "random"}
        *stream : int
            Which it is.
        """
        seed = int(np.random.SeedSequence([self._seed, *stream]).generate_state(1)[0])
        if how == "random":
            return self._optuna.samplers.RandomSampler(seed=seed)
        first = math.ceil(RANDOM_SHARE * self._budget["candidates"])
        return self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=first)

    def _draw(self, study: Any, anywhere: Any) -> tuple[Any, dict[str, Any]] | None:
        """A candidate that was not asked for before, with what Optuna drew; None without one.

        Parameters
        ----------
        study : optuna.Study
        anywhere : sampler
            Takes the place of the study's own after `TRIES`.
        """
        known, usual, new = [candidate for _, candidate in self._drawn], study.sampler, None
        for k in range(TRIES + TRIES_ANYWHERE):
            study.sampler = usual if k < TRIES else anywhere
            trial = study.ask()
            candidate = self._candidate(trial)
            if candidate not in known:
                new = trial, candidate
                self._drawn.append(new)
                break
            study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        study.sampler = usual
        return new

    def _candidate(self, trial: Any) -> dict[str, Any]:
        if self._own is not None:
            drawn = self._own(trial)
            found = trial.params if drawn is None else drawn
            if not isinstance(found, Mapping) or not found:
                raise ParameterError(
                    "A space that is a function must return a candidate, a mapping of parameters "
                    f"to values; it returned {type(found).__name__}."
                )
            [candidate] = expand_candidates(self._model, [found])
            return candidate
        last, branch = len(self._space) - 1, 0
        if last:
            branch = trial.suggest_categorical("branch", list(range(last + 1)))
        drawn = {
            name: _suggested(trial, f"{branch}.{name}", told)
            for name, told in self._space[branch].items()
        }
        return checked_candidate(self._model, drawn)


def _suggested(trial: Any, label: str, told: Mapping[str, Any]) -> Any:
    """The value of one parameter that a trial draws.

    Parameters
    ----------
    trial : optuna.Trial
    label : str
        Of the parameter in this trial: branches of a space may share names.
    told : mapping
        What the space says of the parameter.
    """
    if "choices" in told:
        choices = told["choices"]
        if len(choices) == 1:
            return choices[0]
        return choices[trial.suggest_categorical(label, list(range(len(choices))))]
    if "distribution" in told:
        return from_quantile(told, trial.suggest_float(label, _TAIL, 1.0 - _TAIL))
    low, high, log, step = (told.get(key) for key in ("low", "high", "log", "step"))
    if is_whole_range(told):
        return trial.suggest_int(label, low, high, step=step or 1, log=bool(log))
    return trial.suggest_float(label, low, high, step=step, log=bool(log))


def _load_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("optuna", "search", "A search through a space") from None
    return optuna


@contextmanager
def _quietly(optuna: Any) -> Iterator[None]:
    """Let Optuna write no lines of its own."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


#: Why a search ends before its budget: a limit on numbers, a site's rule, nothing new to draw.
NUMBERS, RULE, USED_UP = "numbers", "max_candidates", "space_used_up"


class CandidateRounds:
    """The rounds of a search.

    Parameters
    ----------
    plan : Plan
        With a space from which candidates are drawn.
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
        self.sizes: list[int] = []
        name, how = str(plan.model["name"]), str(plan.search)
        self._search = Search(plan.space, name, how, plan.seed, plan.limits, own)

    def begin(self) -> Plan:
        """The plan with the candidates of the first round."""
        if not self.sizes:
            if self._most() < 1:
                least = numbers_of_rounds(self.plan, [1])
                rule = f"so many numbers that one candidate can be told, at least {least}"
                raise must("budget", rule, self.plan.limits.get("numbers"))
            self._take(self._asked((), self._most()))
        return self.plan

    def more(self, reported: Reported) -> list[Candidate]:
        """The candidates of the next round, after reports on all so far; none if that was all."""
        if self.ended:
            return []
        left, most = self._search.left, self._most()
        found = self._asked(risks_so_far(self.plan, reported), most)
        if not found and left > 0:
            self.ended = USED_UP if most > 0 else self._limit()
        self._take(found)
        return found

    def undo(self, refused: Sequence[str]) -> None:
        """Take the last round back: without the sources that `refused` it there are too few."""
        self.ended, self._refused = RULE, refused
        size = self.sizes.pop()
        self.plan = replace(self.plan, candidates=self.plan.candidates[:-size])

    def words(self, reported: Reported) -> str:
        """How far the search has come; empty before its first round.

        Reports are on all candidates so far, or on those of all rounds but the last.
        """
        limits = self.plan.limits
        if not self.sizes:
            return ""
        told = self.plan.candidates[: len(reported.risk)]
        risks = risks_so_far(replace(self.plan, candidates=told), reported)
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

    def _asked(self, risks: Sequence[float] | Array, most: int) -> list[Candidate]:
        """The candidates of the next round: those of before the interruption, or new ones.

        Parameters
        ----------
        risks : sequence of float
            Of every candidate so far.
        most : int
            That the round may have.
        """
        found = self._search.ask(risks, most)
        told = next(iter(self._earlier[len(self.sizes) :]), found)
        if told != found:
            self._search.replace(len(found), told)
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


def risks_so_far(plan: Plan, reported: Reported) -> Array:
    """The risk of every candidate by the study's own method; NaN of those that cannot be chosen.

    Parameters
    ----------
    plan : Plan
        With the candidates that the reports are on.
    reported : Reported
    """
    risks = np.full(len(plan.candidates), np.nan)
    try:
        kept = eligible(plan, reported)
    except CandidatesError:  # the next may do better
        return risks
    risks[list(kept)] = estimates(plan, reported, kept)[plan.method].risk
    return risks


#: Fields with a number a candidate; empty where they are not asked for.
PER_CANDIDATE = (
    "risk", "variance", "loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment",
)  # fmt: skip
#: Fields about a source's rows: they are the same in every round.
ABOUT_ROWS = (
    "n_rows", "n_judged", "n_folds", "effective_rows", "largest_share", "difference_before",
    "difference_after", "outcome_mean", "outcome_sd", "ratio_mean", "ratio_m2",
)  # fmt: skip


def check_same_rows(later: RiskReport, first: RiskReport) -> None:
    """Raise a `MessageError` unless a report of a later round is on the rows of the first.

    Parameters
    ----------
    later, first : RiskReport
        Of one source.
    """
    for name in ABOUT_ROWS:
        if not np.array_equal(getattr(later, name), getattr(first, name)):
            raise MessageError(
                f"Source {later.source!r} must say the same of its rows in every round of a "
                f"search; its {name} differs. Ask the site what has changed."
            )
    if len(later.correlations):
        raise MessageError(f"Source {later.source!r} must tell correlations once.")


def joined(first: RiskReport, later: RiskReport) -> RiskReport:
    """Both reports as one, candidates numbered through.

    Parameters
    ----------
    first, later : RiskReport
        Of one source, on the same rows.
    """
    before = len(first.risk)
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(later, name)]) for name in PER_CANDIDATE
    }
    moved = {str(int(index) + before): reason for index, reason in later.failed.items()}
    return replace(
        first,
        **arrays,
        failed={**first.failed, **moved},
        findings=_added_up([*first.findings, *later.findings]),
    )


def _added_up(findings: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Findings once each; how often a library warned is added up."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for item in findings:
        evidence = dict(item["evidence"])
        count = evidence.pop("count", None)
        known = found.setdefault((item["code"], *evidence.items()), evidence)
        if count is not None:
            known["count"] = known.get("count", 0.0) + count
    return tuple({"code": key[0], "evidence": evidence} for key, evidence in found.items())


def numbers_of_rounds(plan: Plan, sizes: Sequence[int]) -> int:
    """How many numbers the reports of a source hold at most, over all rounds of a search.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Candidates of every round.
    """
    d, moments = len(plan.features), bool(plan.compared)
    each = (numbers_told(size, d, len(plan.classes), moments=moments) for size in sizes)
    return d * (d - 1) // 2 + sum(each)  # correlations leave with the first, if the target has none


def numbers_told(n_candidates: int, n_features: int, n_classes: int, *, moments: bool) -> int:
    """How many numbers a report holds at most, correlations aside, which leave once.

    Parameters
    ----------
    n_candidates, n_features, n_classes : int
    moments : bool
        Whether the paper's formulas are compared.

    Examples
    --------
    >>> numbers_told(10, 4, 0, moments=False)
    37
    """
    single = 8  # rows, judged rows, folds, effective rows, largest share, two of the ratio, an sd
    each = 7 if moments else 2
    return single + 2 * n_features + max(n_classes, 1) + each * n_candidates
