"""The desk of a source: questions in, answers out, every one bound, budgeted and written down."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fedcsa.errors import BindingError, PolicyError
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import (
    Envelope,
    Seal,
    check_question,
    check_seal,
    greeting,
    open_closed,
    reply,
)
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    WAITING,
    Brief,
    Examination,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
    RiskReport,
)
from fedcsa.messages.policy import told_rule
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.briefs import check_briefs, check_together
from fedcsa.site.desk import Desk, tell_apart
from fedcsa.site.log import Allow
from fedcsa.site.notify import RAN, run_command
from fedcsa.site.site_file import SiteFile
from fedcsa.source.source import Source

_KINDS: dict[str, type[Message]] = {
    "risk": Brief, "search": MoreCandidates, "model": ModelRequest, "examine": Examination,
    "again": Examination,
}  # fmt: skip
#: The rules of the budget: a site answers one question a phase, round and study.
ONE = {
    "risk": "one_brief", "search": "one_round", "model": "one_model",
    "examine": "one_examination", "again": "one_examination",
}  # fmt: skip
_ONE_QUESTION = "This site answers one question a phase, round and study."
#: The rule of a steward's refusal.
_APPROVAL = "approval"
_STEPS = {
    "risk": "phase 1 of 3", "search": "phase 1 of 3", "model": "phase 2 of 3",
    "examine": "phase 3 of 3", "again": "phase 3 of 3, once more",
}  # fmt: skip


def logged_as(phase: str, message: Message) -> str:
    """Under which a question is logged: its phase, and in a search its round.

    Parameters
    ----------
    phase : str
    message : Message
    """
    return f"{phase} {message.round}" if isinstance(message, MoreCandidates) else phase


def phase_of(place: str) -> str:
    """The phase of a question, from where it is logged.

    >>> phase_of("search 2"), phase_of("model")
    ('search', 'model')
    """
    return place.partition(" ")[0]


def _step(place: str) -> str:
    """Where a study is, in words.

    >>> _step("search 2"), _step("model")
    ('phase 1 of 3, round 2', 'phase 2 of 3')
    """
    phase, _, number = place.partition(" ")
    return f"{_STEPS[phase]}, round {number}" if number else _STEPS[phase]


def check_rows(answered: dict[str, Any], source: Source) -> None:
    """Raise a `PolicyError` unless `source` still has the rows that it `answered` a brief on.

    A model or an examination on others, beside the report, would tell about those that differ.

    Parameters
    ----------
    answered : dict
        The event of the log about the brief's answer.
    source : Source
    """
    if answered.get("rows") != source.fingerprint:
        raise PolicyError(
            "rows_changed",
            "This site's rows have changed since its first answer in this study. "
            "Give the study another name.",
        )


def _refused() -> PolicyError:
    return PolicyError(_APPROVAL, "This site's steward refused the study.")


class SourceDesk(Desk):
    """Answers for one source in one study.

    Parameters
    ----------
    name, site, agreed, seal
        As for `Desk`.
    target : str
        Name of the target's site.
    """

    def __init__(
        self,
        name: str,
        site: SiteFile,
        agreed: AgreedStudy,
        target: str,
        seal: Seal | None = None,
    ) -> None:
        super().__init__(name, site, agreed, seal)
        self._target = target
        self._lead = ""

    def greet(self, start: Envelope) -> bytes:
        """The signed envelope that tells the target the key for its questions.

        Parameters
        ----------
        start : Envelope
            The lead's.
        """
        self._lead = start.sender
        return greeting(start, self.name, self.seal).sealed(self.seal)

    def answer(self, wire: bytes, closed: bytes) -> tuple[bytes, bytes]:
        """The envelope and the message that leave; a refusal says which rule, and no more.

        A question that the target did not sign raises a `BindingError`: there is nobody to answer.

        Parameters
        ----------
        wire : bytes
            The envelope of the question.
        closed : bytes
            The question, closed for this site.
        """
        question, payload = Envelope.from_bytes(wire), closed
        check_seal(wire, self._target, self.seal)
        try:
            self._check(question, closed)
            payload = open_closed(question, closed, self.seal)
            message = self._reply(question, payload)
        except Exception as error:  # what went wrong stays here; the rule alone leaves
            rule, text = tell_apart(error)
            if rule != WAITING:
                self.say(f"refused under the rule {rule}: {text}")
            reason = self._reason_to_tell() if rule == _APPROVAL else ""
            asked, told = digest(payload), told_rule(rule)
            message = Refusal(self.agreed.name, self.name, asked, told, reason)
        return self.send(reply(question), message, question.key)

    def _check(self, question: Envelope, closed: bytes) -> None:
        """Raise unless this is a fresh question of the target in this study; it counts once."""
        log = self._log
        log.check_site(self.name)
        check_question(question, closed, study=self.agreed.id, me=self.name, target=self._target)
        asked = {"nonce": question.nonce, "study": self.agreed.id, "phase": question.phase}
        asked["time"] = log.time
        if not log.claim_first("asked", **asked):
            raise BindingError("replayed", "A question must be new; this one came before.")

    def _reply(self, question: Envelope, payload: bytes) -> Message:
        log, phase = self._log, question.phase
        self.check_size(payload)
        if self._waits(digest(payload)):  # it was opened when it came first
            raise self._undecided()
        message = self.open_message(question, payload)
        second = isinstance(message, Examination) and message.again
        if not isinstance(message, _KINDS[phase]) or second != (phase == "again"):
            raise BindingError("phase_order", f"Phase {phase!r} must begin with its own question.")
        if message.study != self.agreed.name:
            raise BindingError("other_study", "This message belongs to another study.")
        place = logged_as(phase, message)
        accepted = log.find("accepted", **self._budget(place))
        if accepted and accepted["request"] != digest(payload):
            raise PolicyError(ONE[phase], _ONE_QUESTION)
        answered = log.find("answered", **self._budget(place))
        if answered:
            self.say(f"{_step(place)}: sending the same answer again")
        else:
            answered = self._compute(message, payload, place)
        self._check_unsent(answered["reply"])
        return decode(log.payload(answered["reply"]))

    def _compute(self, message: Message, payload: bytes, place: str) -> dict[str, Any]:
        """The event of the log about the answer, which is kept there."""
        rounds = [asked for asked, _ in self._rounds()]
        self.agreed.check(message, self._asked("risk"), rounds)
        before = None if place == "risk" else self._before()
        request = self._log.keep(payload)
        if self.site.approve:
            self._ask_steward(place, request)
        agreed = self._log.keep(self.agreed.text.encode())
        self._claim(
            "accepted", place, request, lambda: self._check_briefs(message),
            agreed=agreed, time=self._log.time,
        )  # fmt: skip
        self.say(f"{_step(place)}: computing")
        if before is not None:
            self._recall(before)
        answer = self._source.answer(message)
        self.check_size(encode(answer))
        if isinstance(answer, Refusal):
            raise self._source.refusal or PolicyError(answer.rule, "This site refuses.")
        kept = {"reply": self._log.keep(encode(answer)), "rows": self._source.fingerprint}
        if isinstance(answer, ModelReport) and self._source.certificate is not None:
            found = self._source.certificate.to_plain()
            self._log.claim("certified", sha256=kept["reply"], certificate=found)
        return self._log.claim(
            "answered", lambda: self._check_together(message), **self._budget(place), **kept
        )

    def _budget(self, place: str) -> dict[str, str]:
        """What this site answers one question of."""
        return {"study": self.agreed.name, "target": self._target, "phase": place}

    def _claim(
        self,
        step: str,
        place: str,
        request: str,
        allow: Allow = lambda: None,
        **beside: str,
    ) -> None:
        """Take the one place that a phase or round has; another question may hold it.

        Parameters
        ----------
        step : {"waiting", "accepted"}
        place : str
        request : str
            Digest of the question.
        allow, **beside
            As for `claim_once`.
        """
        self.claim_once(
            step, self._budget(place), {"request": request}, ONE[phase_of(place)], _ONE_QUESTION,
            allow,
            id=self.agreed.id, site=self.name, **beside,
        )  # fmt: skip

    def _check_briefs(self, question: Message) -> None:
        if isinstance(question, Brief):
            check_briefs(self._log, self.site.policy, self._target)

    def _check_together(self, question: Message) -> None:
        if isinstance(question, Brief):  # while no other brief is answered
            check_together(self._log, self.site, self._source, question, self._target)

    def _before(self) -> dict[str, Any]:
        """The event of the log about the report that must come before."""
        answered = self._log.find("answered", **self._budget("risk"))
        if answered is None:
            raise PolicyError(
                "phase_order", "A site goes on only with a study on whose brief it has reported."
            )
        return answered

    def _recall(self, answered: dict[str, Any]) -> None:
        """Remind the source of what it answered; its rows must be the same."""
        fresh = self.site.stream  # its rows are read anew for every pass, from this one on
        check_rows(answered, self._new_source() if fresh else self._source)
        report = decode(self._log.payload(answered["reply"]))
        brief = self._asked("risk")
        assert isinstance(brief, Brief)  # noqa: S101 - for the type checker
        assert isinstance(report, RiskReport)  # noqa: S101 - for the type checker
        others = [
            asked
            for phase in ("model", "examine")
            if isinstance(asked := self._asked(phase), ModelRequest | Examination)
        ]
        self._source.recall(brief, report, self._rounds(), others)

    def _rounds(self) -> list[tuple[MoreCandidates, RiskReport]]:
        """The rounds of a search after the first that this site has answered."""
        found: list[tuple[MoreCandidates, RiskReport]] = []
        while True:
            place = f"search {len(found) + 2}"
            asked, answered = self._asked(place), self._log.find("answered", **self._budget(place))
            if answered is None or not isinstance(asked, MoreCandidates):
                return found
            report = decode(self._log.payload(answered["reply"]))
            assert isinstance(report, RiskReport)  # noqa: S101 - for the type checker
            found.append((asked, report))

    def _asked(self, place: str) -> Message | None:
        """The question of a phase or round that was accepted."""
        line = self._log.find("accepted", **self._budget(place))
        return None if line is None else decode(self._log.payload(line["request"]))

    # A person decides -------------------------------------------------------------------------

    def _ask_steward(self, place: str, request: str) -> None:
        """Raise a `PolicyError` unless a person here approved the study; nobody is waited for.

        What a steward looks at is what is answered then, and not what came in the meantime.
        """
        agreed = self._log.keep(self.agreed.text.encode())
        known = self._waiting(place) is not None
        self._claim("waiting", place, request, agreed=agreed, lead=self._lead, time=self._log.time)
        decision = self._log.decision(self.agreed.id)
        if decision == "refused":
            raise _refused()
        if not decision:
            if not known:
                self.say(f"{_step(place)}: waiting for fedcsa site approve {self.agreed.name}")
            raise self._undecided()

    def _check_unsent(self, reply: str) -> None:
        """Raise a `PolicyError` if an answer has not left yet and a person refused meanwhile."""
        sent = self._log.all("sent", sha256=reply)
        if any(line["recipient"] == self._target for line in sent) or not self.site.approve:
            return
        if self._log.decision(self.agreed.id) == "refused":
            raise _refused()

    def _waiting(self, place: str) -> dict[str, Any] | None:
        """The line of the log about the question of a place that waits, or waited, for a person."""
        return self._log.find("waiting", **self._budget(place), id=self.agreed.id)

    def _waits(self, request: str) -> bool:
        """Whether this very question waits for a person; in which round it is asked, it tells."""
        return self.site.approve and any(
            line.id == self.agreed.id and line.request == request for line in self._log.waiting()
        )

    def _undecided(self) -> PolicyError:
        """What is answered while nobody has decided; the site's own command was run before."""
        key = {"id": self.agreed.id}
        if self.site.notify and self._log.find("notified", **key) is None:
            about = {
                "FEDCSA_STUDY": self.agreed.name, "FEDCSA_STUDY_ID": self.agreed.id,
                "FEDCSA_SITE": self.name, "FEDCSA_TARGET": self._target,
                "FEDCSA_LEAD": self._lead,
            }  # fmt: skip
            ended = run_command(self.site.notify, about, self.site.folder)
            self._log.append("notified", **key, ended=ended, time=self._log.time)
            if ended != RAN:
                self.say(f"the command 'notify' of this site's file {ended}")
        return PolicyError(WAITING, "Nobody at this site has decided on the study yet.")

    def _reason_to_tell(self) -> str:
        """What the steward wrote beside a refusal, if target and lead shall hear it."""
        said = self._log.all("decided", id=self.agreed.id)[-1]
        return str(said.get("reason", "")) if said.get("tell") else ""

    @cached_property
    def _source(self) -> Source:
        return self._new_source()

    def _new_source(self) -> Source:
        return self.site.source(self.name, self.agreed.study)
