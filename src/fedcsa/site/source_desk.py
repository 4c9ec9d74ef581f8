"""The desk of a source: questions in, answers out, every one bound, budgeted and written down."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fedcsa.errors import BindingError, PolicyError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.envelope import (
    GREET,
    Envelope,
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
from fedcsa.site.desk import Desk, SiteLetter, tell_apart
from fedcsa.site.log import Allow
from fedcsa.site.told import check_briefs, check_together
from fedcsa.source.source import Source

#: phase -> its question, the rule by which one such question a study is answered, and in words
_PHASES: dict[str, tuple[type[Message], str, str]] = {
    "risk": (Brief, "one_brief", "phase 1 of 3"),
    "search": (MoreCandidates, "one_round", "phase 1 of 3"),
    "model": (ModelRequest, "one_model", "phase 2 of 3"),
    "examine": (Examination, "one_examination", "phase 3 of 3"),
    "again": (Examination, "one_examination", "phase 3 of 3, once more"),
}
#: What is said to a second question where one is answered.
_ONE_QUESTION = "This site answers one question per phase, round and study."
#: The rule of a steward's refusal.
_APPROVAL = "approval"
#: Seconds for the command: enough to send a mail, and no study waits for it for long.
NOTIFY_SECONDS = 20
#: How a command ended that did what it should.
_RAN = "done"


def one_of_phase(place: str) -> str:
    """The rule by which a site answers one question of a phase, from where it is logged.

    >>> one_of_phase("search 2"), one_of_phase("model")
    ('one_round', 'one_model')
    """
    return _PHASES[place.partition(" ")[0]][1]


def _step(place: str) -> str:
    """Where a study is, in words.

    >>> _step("search 2"), _step("model")
    ('phase 1 of 3, round 2', 'phase 2 of 3')
    """
    phase, _, number = place.partition(" ")
    return _PHASES[phase][2] + (f", round {number}" if number else "")


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


class SourceDesk(Desk):
    """Answers for one source in one study."""

    @property
    def _target(self) -> str:
        """Name of the target's site."""
        return self.start.recipient

    def take(self, step: str, letter: SiteLetter) -> SiteLetter:
        """Tell the target the key for its questions, or answer one of them.

        Parameters
        ----------
        step : str
            ``"greet"``, or the phase of the question.
        letter : SiteLetter
            The question, in its envelope.
        """
        if step == GREET:
            return {"envelope": greeting(self.start, self.name, self.seal).sealed(self.seal)}
        wire, closed = self.answer(letter["envelope"], letter["payload"])
        return {"envelope": wire, "payload": closed}

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
        """Raise unless this is a fresh question of the target in this study; it counts once.

        Parameters
        ----------
        question : Envelope
        closed : bytes
            What goes with it.
        """
        log = self._log
        log.check_site(self.name)
        check_question(question, closed, study=self.agreed.id, me=self.name, target=self._target)
        asked = {"nonce": question.nonce, "study": self.agreed.id, "phase": question.phase}
        asked["time"] = log.time
        if not log.claim_first("asked", **asked):
            raise BindingError("replayed", "A question must be new; this one came before.")

    def _reply(self, question: Envelope, payload: bytes) -> Message:
        """The answer to a question, computed now or before; an error where there is none.

        Parameters
        ----------
        question : Envelope
        payload : bytes
            The question, opened.
        """
        log, phase, request = self._log, question.phase, digest(payload)
        self.site.check_size(payload)
        if self._waits(request):  # it was opened when it came first
            raise self._undecided()
        message = self.open_message(question, payload)
        second = isinstance(message, Examination) and message.again
        if not isinstance(message, _PHASES[phase][0]) or second != (phase == "again"):
            raise BindingError("phase_order", f"Phase {phase!r} must begin with its own question.")
        if message.study != self.agreed.name:
            raise BindingError("other_study", "This message belongs to another study.")
        # Under which it is logged: its phase, and in a search its round.
        place = f"{phase} {message.round}" if isinstance(message, MoreCandidates) else phase
        accepted = log.find("accepted", **self._budget(place))
        if accepted and accepted["request"] != request:
            raise PolicyError(one_of_phase(phase), _ONE_QUESTION)
        answered = log.find("answered", **self._budget(place))
        if answered:
            self.say(f"{_step(place)}: sending the same answer again")
        else:
            answered = self._compute(message, payload, place)
        sent = log.all("sent", sha256=answered["reply"])
        if self.site.approve and all(line["recipient"] != self._target for line in sent):
            self._check_not_refused()  # while it was computed
        return log.message(answered["reply"])

    def _compute(self, message: Message, payload: bytes, place: str) -> dict[str, Any]:
        """The event of the log about the answer, which is kept there.

        Parameters
        ----------
        message : Message
            The question.
        payload : bytes
            Its bytes.
        place : str
            Under which it is logged.
        """
        rounds = [asked for asked, _ in self._rounds()]
        self.agreed.check(message, self._asked("risk"), rounds)
        before = None if place == "risk" else self._log.find("answered", **self._budget("risk"))
        if before is None and place != "risk":
            why = "A site goes on only with a study on whose brief it has reported."
            raise PolicyError("phase_order", why)
        request = self._log.keep(payload)
        if self.site.approve:
            self._ask_steward(place, request)
        self._claim(
            "accepted", place, request,
            lambda: check_briefs(self._log, self.site.policy, self._target, message),
        )  # fmt: skip
        self.say(f"{_step(place)}: computing")
        if before is not None:
            self._recall(before)
        return self._keep(message, self._source.answer(message), place)

    def _keep(self, message: Message, answer: Message, place: str) -> dict[str, Any]:
        """The event of the log about an answer, if it may leave.

        Parameters
        ----------
        message : Message
            The question.
        answer : Message
        place : str
            Under which it is logged.
        """
        written = encode(answer)
        self.site.check_size(written)
        if isinstance(answer, Refusal):
            raise self._source.refusal or PolicyError(answer.rule, "This site refuses.")
        kept = {"reply": self._log.keep(written), "rows": self._source.fingerprint}
        if isinstance(answer, ModelReport) and self._source.certificate is not None:
            found = self._source.certificate.to_plain()
            self._log.claim("certified", sha256=kept["reply"], certificate=found)
        return self._log.claim(  # while no other brief is answered
            "answered",
            lambda: check_together(self._log, self.site, self._source, message, self._target),
            **self._budget(place), **kept,
        )  # fmt: skip

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
        agreed = self._log.keep(self.agreed.text.encode())
        self.claim_once(
            step, self._budget(place), {"request": request}, one_of_phase(place), _ONE_QUESTION,
            allow,
            id=self.agreed.id, site=self.name, agreed=agreed, **beside, time=self._log.time,
        )  # fmt: skip

    def _recall(self, answered: dict[str, Any]) -> None:
        """Remind the source of what it answered; its rows must be the same."""
        fresh = self.site.stream  # its rows are read anew for every pass, from this one on
        check_rows(answered, self._new_source() if fresh else self._source)
        report, brief = self._log.message(answered["reply"]), self._asked("risk")
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
            report = self._log.message(answered["reply"])
            assert isinstance(report, RiskReport)  # noqa: S101 - for the type checker
            found.append((asked, report))

    def _asked(self, place: str) -> Message | None:
        """The question of a phase or round that was accepted."""
        line = self._log.find("accepted", **self._budget(place))
        return None if line is None else self._log.message(line["request"])

    # A person decides -------------------------------------------------------------------------

    def _ask_steward(self, place: str, request: str) -> None:
        """Raise a `PolicyError` unless a person here approved the study; nobody is waited for.

        What a steward looks at is what is answered then, and not what came in the meantime.

        Parameters
        ----------
        place : str
        request : str
            Digest of the question.
        """
        known = self._log.find("waiting", **self._budget(place), id=self.agreed.id)
        self._claim("waiting", place, request, lead=self.start.sender)
        self._check_not_refused()
        if not self._log.decision(self.agreed.id):
            if known is None:
                self.say(f"{_step(place)}: waiting for fedcsa site approve {self.agreed.name}")
            raise self._undecided()

    def _check_not_refused(self) -> None:
        if self._log.decision(self.agreed.id) == "refused":
            raise PolicyError(_APPROVAL, "This site's steward refused the study.")

    def _waits(self, request: str) -> bool:
        """Whether this very question waits for a person; in which round it is asked, it tells."""
        return self.site.approve and any(
            (line["id"], line["request"]) == (self.agreed.id, request)
            for line in self._log.waiting()
        )

    def _undecided(self) -> PolicyError:
        """What is answered while nobody has decided; the site's own command was run before."""
        key = {"id": self.agreed.id}
        if self.site.notify and self._log.find("notified", **key) is None:
            about = {
                "FEDCSA_STUDY": self.agreed.name, "FEDCSA_STUDY_ID": self.agreed.id,
                "FEDCSA_SITE": self.name, "FEDCSA_TARGET": self._target,
                "FEDCSA_LEAD": self.start.sender,
            }  # fmt: skip
            ended = run_command(self.site.notify, about, self.site.folder)
            self._log.append("notified", **key, ended=ended, time=self._log.time)
            if ended != _RAN:
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


def run_command(command: Sequence[str], about: Mapping[str, str], folder: Path) -> str:
    """Run a command without a shell; ``"done"``, or what went wrong in a few words.

    Whatever it prints is lost: it is no part of the study.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, as they are in the site's file.
    about : mapping of str to str
        Variables of its environment, beside those of this process.
    folder : Path
        In which it runs.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the site's own file names it
            list(command), cwd=folder, env={**os.environ, **about}, timeout=NOTIFY_SECONDS,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"did not end within {NOTIFY_SECONDS} seconds"
    except (OSError, ValueError) as error:
        return f"could not be started ({type(error).__name__})"
    return _RAN if done.returncode == 0 else f"ended with code {done.returncode}"
