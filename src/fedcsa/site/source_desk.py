"""The desk of a source: questions in, answers out, every one bound, budgeted and written down."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from fedcsa.errors import BindingError, FedCSAError, PolicyError
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Envelope, Seal, check_question, check_seal, reply
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import Brief, Examination, ModelRequest, Refusal, RiskReport
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import open_log
from fedcsa.site.rules import FAILED
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status
from fedcsa.source.source import Source

_KINDS: dict[str, type[Message]] = {
    "risk": Brief, "model": ModelRequest, "examine": Examination,
}  # fmt: skip
#: The rules of the budget.
ONE = {"risk": "one_brief", "model": "one_model", "examine": "one_examination"}
_STEPS = {"risk": "phase 1 of 3", "model": "phase 2 of 3", "examine": "phase 3 of 3"}
#: Called while a person is waited for; false when there is no more time.
Patience = Callable[[], bool]


def check_rows(answered: dict[str, Any], source: Source) -> None:
    """Raise a `PolicyError` unless `source` still has the rows that it `answered` a brief on.

    A model or an examination on others, beside the report, would tell about those that differ.

    Parameters
    ----------
    answered : dict
        The event of the site's log about the brief's answer.
    source : Source
    """
    if answered.get("rows") != source.fingerprint:
        raise PolicyError(
            "rows_changed",
            "All answers in a study must be on the same rows; they have changed since the first. "
            "Give the study another name.",
        )


class SourceDesk:
    """Answers for one source in one study.

    Parameters
    ----------
    name : str
        Of the site, as in its certificate.
    site : SiteFile
    agreed : AgreedStudy
    target : str
        Name of the target's site.
    patience : function, optional
        By default nobody is waited for.
    seal : Seal, optional
        Signs for this site; without one, envelopes are believed as they come.
    """

    def __init__(
        self,
        name: str,
        site: SiteFile,
        agreed: AgreedStudy,
        target: str,
        patience: Patience = lambda: False,
        seal: Seal | None = None,
    ) -> None:
        self._seal = seal
        self.name = name
        self._site = site
        self._agreed = agreed
        self._target = target
        self._patience = patience
        self._log = open_log(site.state_folder)
        self._status = Status(site.state_folder)

    def answer(self, wire: bytes, payload: bytes) -> tuple[bytes, bytes]:
        """The envelope and the message that leave; a refusal says which rule, and no more.

        Parameters
        ----------
        wire : bytes
            The envelope of the question.
        payload : bytes
            The question.
        """
        question = Envelope.from_bytes(wire)
        try:
            check_seal(wire, self._target, self._seal)
            message = self._reply(question, payload)
        except (PolicyError, BindingError) as error:
            self._say(f"refused under the rule {error.rule}: {error}")
            message = self._refusal(payload, error.rule)
        except FedCSAError as error:
            self._say(f"could not answer: {error}")
            message = self._refusal(payload, FAILED)
        except Exception as error:  # its text may quote a cell; only its kind is told, and here
            self._say(f"could not answer: {type(error).__name__} came inside")
            message = self._refusal(payload, FAILED)
        return self._send(question, message)

    def _reply(self, question: Envelope, payload: bytes) -> Message:
        log, phase = self._log, question.phase
        log.check_site(self.name)
        check_question(
            question, payload,
            study=self._agreed.id, me=self.name, target=self._target,
            is_new=log.find("asked", nonce=question.nonce) is None,
        )  # fmt: skip
        log.append("asked", nonce=question.nonce, study=self._agreed.id, phase=phase)
        self._check_size(payload)
        message = decode(payload)
        if not isinstance(message, _KINDS[phase]):
            raise BindingError("phase_order", f"Phase {phase!r} must begin with its own question.")
        if message.study != self._agreed.name:
            raise BindingError("other_study", "A message must be of this study.")
        budget = {"study": self._agreed.name, "target": self._target, "phase": phase}
        accepted = log.find("accepted", **budget)
        if accepted:
            self._check_budget(accepted, question.digest)
        answered = log.find("answered", **budget)
        if answered:
            self._say(f"{_STEPS[phase]}: sending the same answer again")
            return decode(log.payload(answered["reply"]))
        return self._compute(message, payload, budget)

    def _compute(self, message: Message, payload: bytes, budget: dict[str, Any]) -> Message:
        log, phase = self._log, budget["phase"]
        if isinstance(message, Brief):
            self._agreed.check(message)
        if isinstance(message, Examination):
            self._agreed.check_examination(message)
        before = None if phase == "risk" else self._before()
        asked = {"request": log.keep(payload), "id": self._agreed.id, "site": self.name}
        self._await_approval(budget, asked)
        accepted = log.claim("accepted", **budget, **asked)
        self._check_budget(accepted, digest(payload))
        self._say(f"{_STEPS[phase]}: computing")
        if before is not None:
            self._recall(before)
        answer = self._source.answer(message)
        self._check_size(encode(answer))
        if isinstance(answer, Refusal):
            self._say(f"refused under the rule {answer.rule}")
            return answer
        kept = {"reply": log.keep(encode(answer)), "rows": self._source.fingerprint}
        answered = log.claim("answered", **budget, **kept)
        return decode(log.payload(answered["reply"]))

    def _check_budget(self, accepted: dict[str, Any], asked: str) -> None:
        if accepted["request"] != asked:
            rule = ONE[accepted["phase"]]
            raise PolicyError(rule, "This site answers one question a phase and study.")

    def _check_size(self, payload: bytes) -> None:
        if len(payload) > self._site.max_bytes:
            raise PolicyError(
                "max_bytes", f"A message here must have at most {self._site.max_bytes} bytes."
            )

    def _before(self) -> dict[str, Any]:
        """The event of the log about the report that must come before."""
        asked = {"study": self._agreed.name, "target": self._target, "phase": "risk"}
        answered = self._log.find("answered", **asked)
        if answered is None:
            raise PolicyError(
                "phase_order", "A site goes on only with a study on whose brief it has reported."
            )
        return answered

    def _recall(self, answered: dict[str, Any]) -> None:
        """Remind the source of what it answered; its rows must be the same."""
        fresh = self._site.in_batches  # its rows are read anew for every pass, from this one on
        check_rows(answered, self._new_source() if fresh else self._source)
        log, asked = self._log, {k: answered[k] for k in ("study", "target")}
        report = decode(log.payload(answered["reply"]))
        questions = {
            phase: decode(log.payload(line["request"]))
            for phase in ("risk", "model")
            if (line := log.find("accepted", **asked, phase=phase)) is not None
        }
        brief, request = questions.get("risk"), questions.get("model")
        assert isinstance(brief, Brief)  # noqa: S101 - for the type checker
        assert isinstance(report, RiskReport)  # noqa: S101 - for the type checker
        assert isinstance(request, ModelRequest | None)  # noqa: S101 - for the type checker
        self._source.recall(brief, report, request)

    def _await_approval(self, budget: dict[str, Any], asked: dict[str, Any]) -> None:
        if not self._site.approve:
            return
        # What a steward looks at is what is answered then, and not what came in the meantime.
        self._check_budget(self._log.claim("waiting", **budget, **asked), asked["request"])
        decision = self._log.decision(self._agreed.id)
        if not decision:
            step = _STEPS[budget["phase"]]
            self._say(f"{step}: waiting for fedcsa site approve {self._agreed.name}")
        while not decision and self._patience():
            decision = self._log.decision(self._agreed.id)
        if decision == "refused":
            raise PolicyError("approval", "This site's steward refused the study.")
        if decision != "approved":
            raise PolicyError("not_approved", "Nobody at this site approved the study in time.")

    @cached_property
    def _source(self) -> Source:
        return self._new_source()

    def _new_source(self) -> Source:
        return self._site.source(self.name, self._agreed.study)

    def _refusal(self, payload: bytes, rule: str) -> Refusal:
        return Refusal(self._agreed.name, self.name, digest(payload), rule)

    def _send(self, question: Envelope, message: Message) -> tuple[bytes, bytes]:
        payload = encode(message)
        wire = reply(question, payload).sealed(self._seal)
        line = self._log.record(
            self.name,
            message,
            self._target,
            envelope_bytes=len(wire),
            rules=self._site.policy.rules(message),
        )
        self._say(f"{line.kind} {line.entry.n_numbers} numbers ({message.name})")
        return wire, payload

    def _say(self, text: str) -> None:
        self._status.say(text, self._agreed.id)
