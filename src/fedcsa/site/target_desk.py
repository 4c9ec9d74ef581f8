"""The desk of the target: it announces, chooses, mixes and concludes, come what may.

What it has once told stands: a study that is submitted again goes on with the same brief, the
same choice and the same mixture, so that no source is asked for anything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedcsa.answer.page import write_report
from fedcsa.answer.store import save_result
from fedcsa.core.arrays import Array
from fedcsa.core.table import Table1
from fedcsa.core.weights import MEDIAN_SOURCES
from fedcsa.errors import FedCSAError, NoSourcesError, PolicyError
from fedcsa.findings import Finding
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.envelope import Seal, ask
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    Brief,
    Conclusion,
    Examination,
    ExaminationReport,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
)
from fedcsa.site.agreed import AgreedStudy, numbers_about_rows
from fedcsa.site.inbox import Inbox, Reply
from fedcsa.site.log import open_log
from fedcsa.site.rules import rule_of
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status
from fedcsa.target.accept import accept_examination, accept_model, accept_models, accept_report
from fedcsa.target.adaptation import WITHOUT_MODEL, Adaptation
from fedcsa.target.target import Target

DONE = "done"
#: Stands in an envelope for the phase after the last.
END = "end"
_NOTHING = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Post:
    """Messages for sources.

    Attributes
    ----------
    payloads : mapping of str to bytes
        By digest.
    envelopes : mapping of str to bytes
        One for every source; it names its payload by digest.
    """

    payloads: Mapping[str, bytes]
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
        self._log = open_log(site.state_folder)
        self._status = Status(site.state_folder)
        self._inbox = Inbox(agreed.name, agreed.sources, site.max_bytes, self._say, seal)
        self._reports: dict[str, Message] = {}
        self._heard: dict[str, RiskReport] = {}

    @property
    def fates(self) -> dict[str, str]:
        """What became of every source: answered, or what was missing, refused or rejected."""
        return self._inbox.fates

    # The four steps -------------------------------------------------------------------------

    def brief(self) -> Post:
        """What this site announces; the same bytes whenever it is asked again."""
        self._say("phase 1 of 3: announcing")
        self._log.check_site(self.name)
        announced = {
            "brief": self._log.keep(encode(self._brief)),
            "numbers": numbers_about_rows(self._brief),
        }
        self._stand_by(
            "announced", announced, "one_brief",
            "This site announces one brief per study; its rows or the study have changed since. "
            "Give the study another name.",
        )  # fmt: skip
        return self._post("risk", dict.fromkeys(self._agreed.sources, self._brief))

    def choose(self, replies: Mapping[str, Reply]) -> Post:
        """Ask for the models of the best candidate; the choice, once made, stands."""
        self._say("phase 1 of 3: choosing")
        came = self._inbox.open(replies, self._accept)
        self._heard = {n: m for n, m in came.items() if isinstance(m, RiskReport)}
        stored = self._stored("chosen", "reports")
        self._reports = came if stored is None else stored
        self._require(sum(isinstance(m, RiskReport) for m in self._reports.values()))
        self._request = self._role.choose(self._reports)
        chosen = {"request": self._log.keep(encode(self._request))}
        self._stand_by(
            "chosen", {**chosen, "reports": self._kept(self._reports)}, "one_choice",
            "This site chooses once per study, and another job of the same study did so "
            "meanwhile. Submit it again.",
        )  # fmt: skip
        mixed = self._log.find("mixed", study=self._agreed.name)
        asked = [n for n in self._role.asked if mixed is None or n in mixed["models"]]
        return self._post("model", dict.fromkeys(asked, self._request))

    def mix(self, replies: Mapping[str, Reply]) -> Post:
        """Let every source examine the others' mixture; a mixture, once told, stands."""
        self._say("phase 2 of 3: mixing")
        came = self._believed(self._inbox.open(replies, self._accept))
        stored = self._stored("mixed", "models")
        models = came if stored is None else stored
        self._require(sum(isinstance(m, ModelReport) for m in models.values()))
        self._inbox.miss(set(self._role.asked) - set(models))
        examinations = self._without_the_missing(models)
        if examinations:
            mixed = {"models": self._kept(models), "examinations": self._kept(examinations)}
            self._stand_by(
                "mixed", mixed, "one_mixture",
                "This site lets one mixture be examined per study, and another one was meanwhile. "
                "Submit it again.",
            )  # fmt: skip
        return self._post("examine", examinations)

    def conclude(self, replies: Mapping[str, Reply]) -> Conclusion:
        """Make the promise, keep the result here, and say how it ended."""
        self._say("phase 3 of 3: concluding")
        return self._keep(self._role.conclude(self._inbox.open(replies, self._accept)))

    def failed(self, error: FedCSAError) -> Conclusion:
        """How a study ended that came to nothing."""
        self._say(f"ended without a model: {error}")
        rule = rule_of(error)
        done = self._log.find("concluded", study=self._agreed.name)
        if done is not None or not isinstance(error, WITHOUT_MODEL):
            return Conclusion(self._agreed.name, rule, self.fates, "", _NOTHING)
        whole = self._write(self._without_model(rule, str(error)))
        told = np.frombuffer(whole, np.uint8) if self._site.share_result else _NOTHING
        return Conclusion(self._agreed.name, rule, self.fates, digest(whole), told)

    def send(self, message: Message, recipient: str, nonce: str = "") -> Reply:
        """Write down a message that leaves outside of the three phases; its envelope and bytes.

        Parameters
        ----------
        message : Message
        recipient : str
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
    def _data(self) -> Array | Table1:
        return self._site.read_target(self._agreed.study)

    def _new_role(self) -> Target:
        return Target(
            self._data, self._agreed.study.plan(),
            policy=self._site.policy, trusted_types=self._site.trust,
        )  # fmt: skip

    @cached_property
    def _role(self) -> Target:
        return self._new_role()

    @cached_property
    def _brief(self) -> Brief:
        return self._role.brief(self._agreed.sources)

    def _kept(self, messages: Mapping[str, Message]) -> dict[str, str]:
        """Digests of messages by source, their bytes beside the log."""
        return {name: self._log.keep(encode(message)) for name, message in messages.items()}

    def _stored(self, step: str, key: str) -> dict[str, Message] | None:
        """The answers with which an earlier submission took `step`; those of now do not count."""
        line = self._log.find(step, study=self._agreed.name)
        if line is None:
            return None
        stored = {name: decode(self._log.payload(sha)) for name, sha in line[key].items()}
        self._inbox.count_instead(stored)
        return stored

    def _stand_by(self, step: str, content: dict[str, Any], rule: str, why: str) -> None:
        """Write down what is about to be told; a `PolicyError` if something else was told."""
        told = self._log.claim(step, study=self._agreed.name, **content)
        if any(told.get(key) != value for key, value in content.items()):
            raise PolicyError(rule, why)

    def _accept(self, message: Message) -> None:
        """Raise a `MessageError` unless an honest source could have sent this."""
        if isinstance(message, RiskReport):
            accept_report(message, self._brief)
        if isinstance(message, ModelReport):
            said = self._reports[message.source]
            assert isinstance(said, RiskReport)  # noqa: S101 - else it was not asked
            accept_model(message, self._brief, said, self._request.candidate)
        if isinstance(message, ExaminationReport):
            accept_examination(message, self._brief)

    def _believed(self, came: Mapping[str, Message]) -> dict[str, Message]:
        """Without the models that cannot be opened, or predict what no model would."""
        models = {n: m for n, m in came.items() if isinstance(m, ModelReport)}
        reports = {n: m for n, m in self._reports.items() if isinstance(m, RiskReport)}
        plan, brief = self._role.plan, self._brief
        rows = brief.mean[None] if isinstance(self._data, Table1) else self._data
        seen = (rows - brief.mean) / brief.sd if plan.scale else rows
        rejected = accept_models(models, reports, plan, seen, self._site.trust)
        for name, rule in rejected.items():
            self._inbox.reject(name, rule, f"its model is not accepted ({rule}).")
        return {name: message for name, message in came.items() if name not in rejected}

    def _require(self, n_sources: int) -> None:
        least = self._min_sources
        if n_sources < least:
            raise NoSourcesError(f"At least {least} source(s) must answer; {n_sources} did.")

    def _without_the_missing(self, answers: Mapping[str, Message]) -> dict[str, Examination]:
        """The mixtures as if sources that sent neither model nor refusal had never been there.

        Only if without them another candidate would have been chosen, they count as asked.
        """
        missing = [name for name in self._role.asked if name not in answers]
        kept = {n: m for n, m in self._reports.items() if n not in missing}
        enough = sum(isinstance(m, RiskReport) for m in kept.values()) >= MEDIAN_SOURCES
        if missing and (enough or self._role.plan.combine == "mean"):
            role = self._new_role()
            role.brief(sorted(kept))
            if role.choose(kept).candidate == self._request.candidate:
                self._role = role
                return role.mix(answers)
        asked = digest(encode(self._request))
        silent = {n: Refusal(self._agreed.name, n, asked, "no_answer") for n in missing}
        asked_of = self._role.mix({**answers, **silent})
        return {name: message for name, message in asked_of.items() if name not in silent}

    def _keep(self, adaptation: Adaptation) -> Conclusion:
        whole = self._write(adaptation)
        told = np.frombuffer(whole, np.uint8) if self._site.share_result else _NOTHING
        self._log.append("concluded", study=self._agreed.name, result=digest(whole))
        self._say(f"done: {adaptation.status}, the result is in {self.result_folder}")
        return Conclusion(self._agreed.name, DONE, self.fates, digest(whole), told)

    def _without_model(self, rule: str, text: str) -> Adaptation:
        """What is left of a study without a model."""
        left = self._role.without_model(rule, text)
        known = {finding.source for finding in left.findings if finding.code == "source-refused"}
        refused = tuple(
            Finding("source-refused", name, {"rule": fate.removeprefix("refused: ")})
            for name, fate in sorted(self.fates.items())
            if fate.startswith("refused: ") and name not in known
        )
        reports = {**self._heard, **left.reports}
        return replace(left, reports=reports, findings=(*refused, *left.findings))

    def _write(self, result: Adaptation) -> bytes:
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

    def _post(self, phase: str, messages: Mapping[str, Message]) -> Post:
        payloads = {name: encode(message) for name, message in messages.items()}
        if any(len(payload) > self._site.max_bytes for payload in payloads.values()):
            raise PolicyError(
                "max_bytes", f"A message here must have at most {self._site.max_bytes} bytes."
            )
        questions = {
            name: ask(self._agreed.id, phase, self.name, name, payload)
            for name, payload in payloads.items()
        }
        self._inbox.expect(phase, questions)
        envelopes = {name: item.sealed(self._seal) for name, item in questions.items()}
        for name, wire in envelopes.items():
            self._record(messages[name], name, len(wire))
        return Post({digest(payload): payload for payload in payloads.values()}, envelopes)

    def _record(self, message: Message, recipient: str, envelope_bytes: int) -> None:
        rules = self._site.policy.rules(message)
        line = self._log.record(
            self.name, message, recipient, envelope_bytes=envelope_bytes, rules=rules
        )
        self._say(f"{line.kind} {line.entry.n_numbers} numbers ({message.name}) to {recipient}")

    def _say(self, text: str) -> None:
        self._status.say(text, self._agreed.id)

    _request: ModelRequest
