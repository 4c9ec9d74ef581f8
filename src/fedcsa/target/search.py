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
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import MissingExtraError, ParameterError
from fedcsa.models.description import Candidate
from fedcsa.models.registry import checked_candidate, expand_candidates
from fedcsa.models.space import (
    Space,
    SpaceFunction,
    from_quantile,
    is_function,
    is_whole_range,
)

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
