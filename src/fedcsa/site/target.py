"""The desk of the target: it announces, chooses and concludes, once per study, come what may."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.medians import MIN_SOURCES
from fedcsa.errors import (
    BindingError,
    FedCSAError,
    MessageError,
    NoSourcesError,
    PolicyError,
    ProtocolError,
)
from fedcsa.findings import Finding
from fedcsa.protocol.chain import FileLedger
from fedcsa.protocol.codec import decode, digest, encode
from fedcsa.protocol.envelope import Envelope, Seal, ask, check_reply, check_seal
from fedcsa.protocol.fields import Message
from fedcsa.protocol.journal import Journal
from fedcsa.protocol.messages import (
    Brief,
    Conclusion,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
)
from fedcsa.report.page import write_report
from fedcsa.result import save_result
from fedcsa.roles.acceptance import accept_models, accept_report
from fedcsa.roles.adaptation import Adaptation
from fedcsa.roles.ending import WITHOUT_MODEL, Ending
from fedcsa.roles.judgement import check_model
from fedcsa.roles.target import Target
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.file import SiteFile
from fedcsa.site.memory import check_memory
from fedcsa.site.rules import rule_of
from fedcsa.site.state import Status

#: Envelope and payload, as they came.
Reply = tuple[bytes, bytes]
DONE = "done"
#: Stands in an envelope for the phase after the last.
END = "end"
_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Post:
    """One message for several sources: the payload, and an envelope for each."""

    payload: bytes
    envelopes: Mapping[str, bytes]


class TargetDesk:
    """Speaks for the target in one study.

    Parameters
    ----------
    name : str
        Of the site, as in its certificate.
    site : SiteFile
    agreed : AgreedStudy
    min_sources : int
        With fewer there is no model.
    seal : Seal, optional
        Signs for this site; without one, envelopes are believed as they come.
    """

    def __init__(
        self,
        name: str,
        site: SiteFile,
        agreed: AgreedStudy,
        min_sources: int,
        seal: Seal | None = None,
    ) -> None:
        self._seal = seal
        self.name = name
        self._site = site
        self._agreed = agreed
        self._min_sources = min_sources
        self._journal = Journal(site.state_folder)
        self._ledger = FileLedger(site.state_folder, name)
        self._status = Status(site.state_folder)
        self._questions: dict[str, Envelope] = {}
        self._reports: dict[str, Message] = {}
        self._used: set[str] = set()
        self._heard: dict[str, RiskReport] = {}
        #: What became of every source: answered, missing, refused: RULE, rejected: RULE.
        self.fates: dict[str, str] = dict.fromkeys(agreed.sources, "missing")

    # The three steps ------------------------------------------------------------------------

    def brief(self) -> Post:
        """What this site announces; the same bytes whenever it is asked again."""
        self._say("phase 1 of 2: announcing")
        check_memory(self._site.state_folder, self.name)
        payload = encode(self._brief)
        announcement = {
            "brief": self._journal.keep(payload),
            "rows": digest(self._rows.tobytes()),
            "numbers": _released(self._brief),
        }
        key = {"study": self._agreed.name}
        announced = self._journal.claim("announced", key, announcement, self._check_budget)
        if announced["brief"] != announcement["brief"]:
            raise PolicyError(
                "one_brief",
                "This site announces one brief per study; its rows or the study have changed "
                "since. Give the study another name.",
            )
        return self._post("risk", self._brief, self._agreed.sources)

    def choose(self, replies: Mapping[str, Reply]) -> Post:
        """Ask for the models of the best candidate; the choice, once made, stands."""
        self._say("phase 1 of 2: choosing")
        came = self._open(replies, RiskReport, digest(encode(self._brief)))
        self._heard = {n: m for n, m in came.items() if isinstance(m, RiskReport)}
        chosen = self._journal.find("chosen", study=self._agreed.name)
        if chosen is None:
            reports = came
            self._require(sum(isinstance(m, RiskReport) for m in reports.values()))
            request = self._role.choose(reports)
            self._note_choice(request, reports)
        else:
            names = chosen["reports"]
            reports = {n: decode(self._journal.payload(names[n])) for n in names}
            request = self._role.choose(reports)
        self._reports, self._request = reports, request
        return self._post("model", request, self._role.asked)

    def conclude(self, replies: Mapping[str, Reply]) -> Conclusion:
        """Combine the models, keep the result here, and say how it ended."""
        self._say("phase 2 of 2: combining")
        came = self._open(replies, ModelReport, digest(encode(self._request)))
        models = {n: m for n, m in came.items() if isinstance(m, ModelReport)}
        reports = {n: m for n, m in self._reports.items() if isinstance(m, RiskReport)}
        plan, brief = self._role.plan, self._brief
        seen = (self._rows - brief.mean) / brief.sd if plan.scale else self._rows
        for name, rule in accept_models(models, reports, plan, seen, self._site.trust).items():
            self.fates[name] = f"rejected: {rule}"
            del models[name]
        self._require(len(models))
        refusals = {n: m for n, m in came.items() if isinstance(m, Refusal)}
        adaptation = self._without_the_missing({**models, **refusals})
        return self._keep(adaptation)

    def failed(self, error: FedCSAError) -> Conclusion:
        """How a study ended that came to nothing."""
        self._say(f"ended without a model: {error}")
        rule = rule_of(error)
        done = self._journal.find("concluded", study=self._agreed.name)
        if done is not None or not isinstance(error, WITHOUT_MODEL):
            return Conclusion(self._agreed.name, rule, dict(self.fates), "", _NOTHING)
        whole = self._write(self._ending(rule, str(error)))
        told = np.frombuffer(whole, np.uint8) if self._site.share_result else _NOTHING
        return Conclusion(self._agreed.name, rule, dict(self.fates), digest(whole), told)

    def send(self, message: Message, recipient: str, nonce: str = "") -> Reply:
        """Write down a message that leaves outside of the two phases; its envelope and bytes.

        Parameters
        ----------
        nonce : str
            Of whatever it answers.
        """
        payload = encode(message)
        envelope = ask(self._agreed.id, END, self.name, recipient, payload)
        wire = replace(envelope, in_reply_to=nonce).sealed(self._seal)
        self._record(message, recipient, len(wire))
        return wire, payload

    # The pieces -----------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> Array:
        return self._site.read_rows(self._agreed.study)

    def _new_role(self) -> Target:
        return Target(
            self._rows, self._agreed.study.plan(),
            policy=self._site.policy, trusted_types=self._site.trust,
        )  # fmt: skip

    @cached_property
    def _role(self) -> Target:
        return self._new_role()

    @cached_property
    def _brief(self) -> Brief:
        return self._role.brief(self._agreed.sources)

    def _check_budget(self, lines: list[dict[str, Any]]) -> None:
        self._site.policy.announce(self._brief, released_in_all(self._brief, self._rows, lines))

    def _note_choice(self, request: ModelRequest, reports: Mapping[str, Message]) -> None:
        keep = self._journal.keep
        choice = {
            "request": keep(encode(request)),
            "reports": {name: keep(encode(message)) for name, message in reports.items()},
        }
        chosen = self._journal.claim("chosen", {"study": self._agreed.name}, choice)
        if chosen["request"] != choice["request"]:
            raise PolicyError(
                "one_choice",
                "This site chooses once per study, and another job of the same study did so "
                "meanwhile. Submit it again.",
            )

    def _open(
        self, replies: Mapping[str, Reply], kind: type[Message], asked: str
    ) -> dict[str, Message]:
        """The replies that answer this site's questions, each source's fate noted."""
        came: dict[str, Message] = {}
        for name in sorted(self._questions):
            if name not in replies:
                self.fates[name] = "missing"
                continue
            try:
                message = self._opened(name, *replies[name], kind, asked)
            except ProtocolError as error:
                self.fates[name] = f"rejected: {rule_of(error)}"
                self._say(f"did not accept the answer of {name}: {error}")
                continue
            refused = isinstance(message, Refusal)
            self.fates[name] = f"refused: {message.rule[:60]}" if refused else "answered"  # type: ignore[attr-defined]
            came[name] = message
        return came

    def _opened(
        self, name: str, wire: bytes, payload: bytes, kind: type[Message], asked: str
    ) -> Message:
        envelope, question = Envelope.from_bytes(wire), self._questions[name]
        check_seal(wire, name, self._seal)
        check_reply(envelope, payload, question, self._used)
        self._used.add(question.nonce)
        message = decode(payload, self._site.max_bytes)
        if not isinstance(message, kind | Refusal):
            raise BindingError("phase_order", f"Source {name!r} must answer with a {kind.name}.")
        if message.study != self._agreed.name or message.source != name:  # type: ignore[attr-defined]
            raise BindingError("wrong_sender", f"The answer of source {name!r} must be its own.")
        if message.in_reply_to != asked:  # type: ignore[attr-defined]
            raise BindingError("replayed", f"Source {name!r} must answer this very question.")
        if isinstance(message, RiskReport):
            accept_report(message, self._brief)
        if isinstance(message, ModelReport) and message.candidate != self._request.candidate:
            raise MessageError(f"Source {name!r} must send the candidate asked for.")
        said = self._reports.get(name)
        if isinstance(message, ModelReport) and isinstance(said, RiskReport):
            check_model(message, self._brief, said)
        return message

    def _require(self, n_sources: int) -> None:
        if n_sources < self._min_sources:
            raise NoSourcesError(
                f"At least {self._min_sources} source(s) must answer; {n_sources} did."
            )

    def _without_the_missing(self, answers: Mapping[str, Message]) -> Adaptation:
        """As if the sources that sent neither model nor refusal had never been there.

        Only if without them another candidate would have been chosen, they count as asked.
        """
        missing = [
            name
            for name, report in self._reports.items()
            if isinstance(report, RiskReport) and name not in answers and name in self._role.asked
        ]
        kept = {n: m for n, m in self._reports.items() if n not in missing}
        enough = sum(isinstance(m, RiskReport) for m in kept.values()) >= MIN_SOURCES
        if missing and (enough or self._role.plan.combine == "mean"):
            role = self._new_role()
            role.brief(sorted(kept))
            if role.choose(kept).candidate == self._request.candidate:
                self._role = role
                return role.conclude(answers)
        asked = digest(encode(self._request))
        silent = {n: Refusal(self._agreed.name, n, asked, "no_answer") for n in missing}
        return self._role.conclude({**answers, **silent})

    def _keep(self, adaptation: Adaptation) -> Conclusion:
        whole = self._write(adaptation)
        told = np.frombuffer(whole, np.uint8) if self._site.share_result else _NOTHING
        self._journal.note("concluded", study=self._agreed.name, result=digest(whole))
        self._say(f"done: {adaptation.status}, the result is in {self.result_folder}")
        return Conclusion(self._agreed.name, DONE, dict(self.fates), digest(whole), told)

    def _ending(self, rule: str, text: str) -> Ending:
        """What is left of a study without a model."""
        ending = self._role.ending(rule, text)
        known = {finding.source for finding in ending.findings if finding.code == "source-refused"}
        refused = tuple(
            Finding("source-refused", name, {"rule": fate.removeprefix("refused: ")})
            for name, fate in sorted(self.fates.items())
            if fate.startswith("refused: ") and name not in known
        )
        reports = {**self._heard, **ending.reports}
        return replace(ending, reports=reports, findings=(*refused, *ending.findings))

    def _write(self, result: Adaptation | Ending) -> bytes:
        """Keep a result and its report here; the bytes of what it says."""
        folder = save_result(result, self.result_folder, self._agreed.text)
        (folder / "sources.json").write_text(json.dumps(self.fates, indent=1) + "\n", "utf-8")
        try:
            write_report(folder)
        except (FedCSAError, OSError) as error:  # the result stands without it
            self._say(f"wrote no report: {error}")
        return (folder / "adaptation.json").read_bytes()

    @property
    def result_folder(self) -> Path:
        """Where the result of this study is kept."""
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in self._agreed.id)
        folder = self._site.state_folder / "results"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def _post(self, phase: str, message: Message, recipients: tuple[str, ...] | list[str]) -> Post:
        payload = encode(message)
        if len(payload) > self._site.max_bytes:
            raise PolicyError(
                "max_bytes", f"A message here must have at most {self._site.max_bytes} bytes."
            )
        self._questions = {
            name: ask(self._agreed.id, phase, self.name, name, payload) for name in recipients
        }
        envelopes = {name: item.sealed(self._seal) for name, item in self._questions.items()}
        for name, wire in envelopes.items():
            self._record(message, name, len(wire))
        return Post(payload, envelopes)

    def _record(self, message: Message, recipient: str, envelope_bytes: int) -> None:
        line = self._ledger.record(
            message,
            recipient,
            envelope_bytes=envelope_bytes,
            rules=self._site.policy.rules(message),
        )
        self._journal.note("recorded", message=line.entry.sha256)
        self._say(f"{line.kind} {line.entry.n_numbers} numbers ({message.name}) to {recipient}")

    def _say(self, text: str) -> None:
        self._status.say(text, self._agreed.id)

    _request: ModelRequest


def released_in_all(brief: Brief, rows: Array, lines: list[dict[str, Any]]) -> int:
    """Numbers about `rows` in `brief` and, after the journal's `lines`, in briefs before it."""
    known = digest(rows.tobytes())
    before = [x["numbers"] for x in lines if x["step"] == "announced" and x["rows"] == known]
    return int(sum(before)) + _released(brief)


def _released(brief: Brief) -> int:
    return len(brief.embedding) + len(brief.mean) + len(brief.sd) + 1 + brief.rows.size
