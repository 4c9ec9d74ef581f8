"""The only loop: a courier takes messages to the sources and brings their answers back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from fedcsa.errors import ProtocolError, must
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import TARGET, MoreCandidates
from fedcsa.messages.policy import LedgerEntry
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
#: Rounds that any study may have: no target can ask forever.
MOST_ROUNDS = 1000
#: Called with the phase, the source's name, and "started" or "done".
Progress = Callable[[str, str, str], None]
#: One message on its way, and how a study ends.
Letter = TypeVar("Letter")
Result = TypeVar("Result")


class InProcess:
    """All sites in one process: the sources are asked one after the other.

    Every message is really encoded and decoded on its way, so that what works here also works
    between sites. Only a model that has no format of ours is handed over as the object it is.
    """

    def __init__(self, sources: Sequence[Source], progress: Progress | None = None) -> None:
        names = [source.name for source in sources]
        if not names:
            raise must("sources", "at least one source", 0)
        doubled = sorted(name for name, times in Counter(names).items() if times > 1)
        if doubled:
            raise must("sources", "sources with distinct names", doubled[0])
        if TARGET in names:
            raise must("sources", "sources with other names than the target's", TARGET)
        self._sources = {source.name: source for source in sources}
        self._progress = progress

    @property
    def source_names(self) -> Sequence[str]:
        """The sources within reach."""
        return tuple(self._sources)

    def ask(self, messages: Mapping[str, Message], phase: str) -> dict[str, Message]:
        """Send every source its message and return their answers by name."""
        answers = {}
        for name, message in messages.items():
            if self._progress:
                self._progress(phase, name, "started")
            answers[name] = _carried(self._sources[name].answer(_carried(message)))
            if self._progress:
                self._progress(phase, name, "done")
        return answers

    def ledgers(self) -> dict[str, tuple[LedgerEntry, ...]]:
        """What left every source."""
        return {name: tuple(source.ledger.entries) for name, source in self._sources.items()}


def _carried(message: Message) -> Message:
    return message if message.is_held else decode(encode(message))


def run_study(target: Target, courier: InProcess) -> Adaptation:
    """Carry a study through its phases in one process.

    Numbers for every candidate, one model at the chosen one, and what the sources find of the
    others' mixture; once more if they find a model useless.

    Parameters
    ----------
    target : Target
    courier : InProcess
    """
    names = sorted(courier.source_names)

    def ask_target(step: str, answers: Mapping[str, Message]) -> TargetTurn[Message, Adaptation]:
        if step == "announce":
            return TargetTurn(dict.fromkeys(names, target.brief(names)))
        if step == "choose":
            request = target.choose(answers)
            more = isinstance(request, MoreCandidates)
            return TargetTurn(dict.fromkeys(target.asked, request), more=more)
        if step == "mix":
            return TargetTurn(target.mix(answers))
        again = target.examine_again(answers)
        return TargetTurn(again, None if again else target.conclude(answers))

    adaptation = carry_messages(ask_target, courier.ask)
    return replace(adaptation, ledgers={**adaptation.ledgers, **courier.ledgers()})


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
