"""What a source remembers of one study between its messages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fedcsa.errors import PolicyError
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import Brief, Examination, MoreCandidates
from fedcsa.source.measure import Work


@dataclass
class Remembered:
    """One study.

    Attributes
    ----------
    brief : Brief
    rounds : list of MoreCandidates
        What came after the brief in a search, in order.
    work : Work or None
        Of the brief's candidates, or after a restart or a search of the chosen one.
    asked : dict of str to Message
        Place of a question -> the question that was taken up; another for that place is refused.
    sent : dict of str to (Message, Message)
        Place of a question -> question and answer.
    """

    brief: Brief
    rounds: list[MoreCandidates] = field(default_factory=list)
    work: Work | None = field(default=None, repr=False)
    asked: dict[str, Message] = field(default_factory=dict)
    sent: dict[str, tuple[Message, Message]] = field(default_factory=dict)

    @property
    def design(self) -> Brief:
        """The brief with the candidates of all rounds."""
        if not self.rounds:
            return self.brief
        more = [candidate for asked in self.rounds for candidate in asked.candidates]
        return replace(self.brief, candidates=(*self.brief.candidates, *more))

    def with_round(self, more: MoreCandidates) -> Remembered:
        """The same after the next round, or a `PolicyError` if another is due."""
        before = self.rounds[: more.round - 2]
        over = bool(self.asked)  # a model was asked for, or a mixture shown
        if len(before) != more.round - 2 or not self.brief.candidates or over:
            raise PolicyError("phase_order", "The rounds of a search must come one by one.")
        if self.rounds[len(before) :] not in ([], [more]):
            raise PolicyError(
                "one_round",
                "This site answers one question a round; give another study another name.",
            )
        return replace(self, rounds=[*before, more])


def remembered_as(question: Message) -> str:
    """Under which a question is remembered: one of every kind, round and examination."""
    if isinstance(question, MoreCandidates):
        return f"{question.name} {question.round}"
    second = isinstance(question, Examination) and question.again
    return f"{question.name} again" if second else question.name
