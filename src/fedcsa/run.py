"""The only loop: a courier takes messages to the sources and brings their answers back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from fedcsa.errors import CandidatesError, ProtocolError, must
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import TARGET, MoreCandidates
from fedcsa.models.space import MOST_ROUNDS
from fedcsa.source.processes import watched

if TYPE_CHECKING:
    from fedcsa.source.source import Source
    from fedcsa.target.adaptation import Adaptation
    from fedcsa.target.target import Target

#: The target's step, and the phase in which the sources answer what it asks then. Most studies end
#: with the first conclusion: only if a model was found useless, the rest is examined again. A step
#: is taken again after every round of a search.
TARGET_STEPS = (
    ("announce", "risk"),
    ("choose", "model"),
    ("mix", "examine"),
    ("conclude", "again"),
)
#: The phase in which sources answer on more candidates.
SEARCH = "search"
#: Called with the phase, the source's name, and "started" or "done", or in between how many of its
#: fits are done: "12 of 400 fits". In a search the phase says how far it has come, after a colon.
Progress = Callable[[str, str, str], None]
#: One message on its way, and how a study ends.
Letter = TypeVar("Letter")
Result = TypeVar("Result")


class InProcess:
    """All sites in one process: the sources are asked one after the other.

    A message has checked itself and cannot change, so it is handed over as it is. It would come
    out of its bytes as the same message; only a model that has no format of ours has no bytes.

    Parameters
    ----------
    sources : sequence of Source
    progress : function, optional
    ask_source : function, optional
        Called with a source and a message in place of ``source.answer(message)``.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        progress: Progress | None = None,
        ask_source: Callable[[Source, Message], Message] | None = None,
    ) -> None:
        #: Who can be asked.
        self.sources: dict[str, Source] = {}
        for source in sources:
            if source.name in self.sources:
                raise must("sources", "sources with distinct names", source.name)
            self.sources[source.name] = source
        if not self.sources:
            raise must("sources", "at least one source", 0)
        if TARGET in self.sources:
            raise must("sources", "sources with other names than the target's", TARGET)
        self._progress = progress
        self._ask_source = ask_source
        #: How far a search has come, in words: told with its phase.
        self.far = ""

    def ask(self, messages: Mapping[str, Message], phase: str) -> dict[str, Message]:
        """Send every source its message and return their answers by name."""
        answers, told = {}, f"{phase}: {self.far}" if phase == SEARCH else phase
        for name, message in messages.items():
            source = self.sources[name]
            with _told(self._progress, told, name) if self._progress else nullcontext():
                ask = self._ask_source
                answers[name] = ask(source, message) if ask else source.answer(message)
        return answers


@contextmanager
def _told(progress: Progress, phase: str, source: str) -> Iterator[None]:
    """Tell when a source is asked, how far it is with fits that take long, and when it is done."""
    progress(phase, source, "started")
    with watched(lambda n_done, n_fits: progress(phase, source, f"{n_done} of {n_fits} fits")):
        yield
    progress(phase, source, "done")


def run_study(target: Target, courier: InProcess) -> Adaptation:
    """Carry a study through its phases in one process.

    Numbers for every candidate, one model at the chosen one, and what the sources find of the
    others' mixture; once more if they find a model useless.

    Parameters
    ----------
    target : Target
    courier : InProcess
    """
    names = sorted(courier.sources)

    def ask_target(step: str, answers: Mapping[str, Message]) -> TargetTurn[Message, Adaptation]:
        if step == "announce":
            return TargetTurn(dict.fromkeys(names, target.brief(names)))
        if step == "choose":
            request = target.choose(answers)
            more = isinstance(request, MoreCandidates)
            courier.far = target.progress if more else ""
            return TargetTurn(dict.fromkeys(target.asked, request), more=more)
        if step == "mix":
            return TargetTurn(target.mix(answers))
        again = target.examine_again(answers)
        return TargetTurn(again, None if again else target.conclude(answers))

    adaptation = carry_messages(ask_target, courier.ask)
    ledgers = dict(adaptation.ledgers)
    for name, source in courier.sources.items():
        ledgers[name] = tuple(source.ledger.entries)
    return replace(adaptation, ledgers=ledgers)


def with_texts(error: CandidatesError, sources: Sequence[Source]) -> CandidatesError:
    """The error with what a user's own model says where it fails.

    Parameters
    ----------
    error : CandidatesError
    sources : sequence of Source
    """
    texts = sorted({text for source in sources for text in source.failures.values()})
    return CandidatesError(f"{error}\nThe model says: {'; '.join(texts[:3])}") if texts else error


@dataclass(frozen=True)
class TargetTurn(Generic[Letter, Result]):
    """What the target says to a step.

    Attributes
    ----------
    questions : mapping of str to Letter
        By source.
    result : Result or None
        At the end.
    more : bool
        Whether the questions are another round of a search, after which the step is taken again.
    """

    questions: Mapping[str, Letter]
    result: Result | None = None
    more: bool = False


def carry_messages(
    ask_target: Callable[[str, Mapping[str, Letter]], TargetTurn[Letter, Result]],
    ask_sources: Callable[[Mapping[str, Letter], str], Mapping[str, Letter]],
) -> Result:
    """Carry messages between the target and the sources until the target has a result.

    The only loop. It opens no letter: in one process they are messages, between sites sealed
    bytes.

    Parameters
    ----------
    ask_target : function
        Called with a step of `TARGET_STEPS`, at last with ``"conclude"`` again, and the sources'
        answers.
    ask_sources : function
        Called with questions by source and their phase. It returns the answers by
        source; whoever is late or gone is not among them.
    """
    answers: Mapping[str, Letter] = {}
    left = MOST_ROUNDS
    for step, phase in TARGET_STEPS:
        turn = ask_target(step, answers)
        while turn.more and left:
            left -= 1
            turn = ask_target(step, ask_sources(turn.questions, SEARCH))
        if turn.more:
            raise ProtocolError(f"A search must end after {MOST_ROUNDS} rounds; this one does not.")
        if turn.result is not None:
            return turn.result
        answers = ask_sources(turn.questions, phase)
    last = ask_target("conclude", answers).result
    if last is None:
        raise ProtocolError("The target must conclude the study after the last phase.")
    return last
