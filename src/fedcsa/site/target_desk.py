"""The desk of the target: it announces, chooses, mixes and concludes, come what may.

What it has once told stands: a study that is submitted again goes on with the same brief, the
same choice and the same mixture, so that no source is asked for anything else, nor a second time
for what it has sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fedcsa.errors import BindingError, FedCSAError, PolicyError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.envelope import END, Envelope, Seal, ask, reply
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    WAITING,
    Brief,
    Conclusion,
    MoreCandidates,
    Refusal,
)
from fedcsa.models.description import Candidate
from fedcsa.run import SEARCH
from fedcsa.site.agreed import AgreedStudy, numbers_about_rows
from fedcsa.site.desk import Desk, SiteLetter
from fedcsa.site.inbox import MISSING, Inbox, Reply
from fedcsa.site.log import Event
from fedcsa.site.site_file import SiteFile
from fedcsa.site.told import Cohort
from fedcsa.target.adaptation import WITHOUT_MODEL, Adaptation
from fedcsa.target.target import Target

#: The outcome of a study that has a result.
DONE = "done"
#: What is said of a second one of what is told or asked once: of a brief, of a choice, and of a
#: mixture, by its event.
_ONE_BRIEF = (
    "This site announces one brief per study; its rows or the study have changed since. "
    "Give the study another name."
)
_ONE_CHOICE = (
    "This site chooses once per study, and another job of the same study did so meanwhile. "
    "Submit it again."
)
_ONE_MIXTURE = {
    "mixed": "This site lets one mixture be examined per study, and another one was meanwhile. "
    "Submit it again.",
    "mixed again": "This site lets the remaining models be examined once per study, and it has "
    "let another mixture be examined since. Submit it again.",
}


def _place_after(number: int) -> str:
    """Where the round after this one stands in logs, there and here."""
    return f"{SEARCH} {number + 1}"


class TargetDesk(Desk):
    """Speaks for the target in one study.

    Parameters
    ----------
    name, site, agreed, start, seal
        As for `Desk`; the conclusion answers the lead's envelope, for the key in it.
    min_sources : int
        With fewer there is no model.
    wait : bool
        Whether the study waits for sources at which nobody has decided yet; else it goes on
        without them.
    """

    def __init__(
        self,
        name: str,
        site: SiteFile,
        agreed: AgreedStudy,
        start: Envelope,
        seal: Seal | None = None,
        *,
        min_sources: int,
        wait: bool = True,
    ) -> None:
        super().__init__(name, site, agreed, start, seal)
        self._min_sources = min_sources
        self._wait = wait
        self._study = {"study": agreed.name}
        self._inbox = Inbox(agreed.sources, self.open_message, self.say, seal)
        #: source -> the key for which its questions are closed; without a seal there is none
        self._keys = dict.fromkeys(agreed.sources, "")

    @property
    def fates(self) -> dict[str, str]:
        """What became of every source: answered, or what was missing, refused or rejected."""
        return self._inbox.fates

    # The four steps -------------------------------------------------------------------------

    def take(self, step: str, letter: SiteLetter) -> SiteLetter:
        """Take the next step of the study; envelopes and closed messages by source leave then.

        A source that did not tell its key before the first step is not asked.

        Parameters
        ----------
        step : {"announce", "choose", "mix", "conclude"}
        letter : SiteLetter
            The answers to the questions of the step before.
        """
        replies = {
            name: (item.get("envelope", b""), item.get("payload", b""))
            for name, item in letter["replies"].items()
        }
        try:
            if step == "announce":
                if self.seal is not None:
                    self._keys = self._inbox.greeted(replies, self.start)
                return self.announce()
            if step == "choose":
                return self.choose(replies)
            if step == "mix":
                return self.mix(replies)
            again = {} if self._inbox.phase == "again" else self.mix_again(replies)
            if again:
                return again
            conclusion = self.conclude(replies)
        except FedCSAError as error:
            conclusion = self.failed(error)
        wire, closed = self.send(reply(self.start, END), conclusion, self.start.key)
        return {"envelope": wire, "conclusion": closed}

    def announce(self) -> SiteLetter:
        """What this site announces; the same bytes whenever it is asked again."""
        self.say("phase 1 of 3: announcing")
        self._log.check_site(self.name)
        told = {"brief": self._log.keep(encode(self._brief)), "rows": self._cohort.sketch()}
        self.claim_once(
            "announced", self._study, told, "one_brief", _ONE_BRIEF,
            lambda: self._cohort.account(self._role.table),
            numbers=numbers_about_rows(self._brief),
        )  # fmt: skip
        return self._ask("risk", dict.fromkeys(self.agreed.sources, self._brief), self._left(1))

    def choose(self, replies: Mapping[str, Reply]) -> SiteLetter:
        """Ask for more candidates or the best one's models; a question, once asked, stands."""
        self.say("phase 1 of 3: choosing")
        number = self._role.n_rounds
        reports = self._answers(replies, self._left(number), "reports")
        asked = self._role.choose(reports)
        more = isinstance(asked, MoreCandidates)
        if self._role.progress:
            self.say(f"phase 1 of 3: {self._role.progress}")
        told = {"request": self._log.keep(encode(asked)), "reports": self._kept_of(reports)}
        place = {"phase": _place_after(number)} if more else {}
        self.claim_once(
            "searched" if more else "chosen", {**self._study, **place}, told, "one_choice",
            _ONE_CHOICE, fates=self._inbox.fates_now,
        )  # fmt: skip
        questions = dict.fromkeys(self._role.asked, asked)
        if more:
            letter = self._ask(SEARCH, questions, self._left(number + 1))
            return {**letter, "phase": SEARCH.encode()}
        return self._ask("model", questions, self._log.find("mixed", **self._study))

    def _left(self, number: int) -> Event | None:
        """With what an earlier submission left a round: for the next one, or with its choice.

        Parameters
        ----------
        number : int
            Of the round, from 1.
        """
        on = self._log.find("searched", **self._study, phase=_place_after(number))
        return on or self._log.find("chosen", **self._study)

    def mix(self, replies: Mapping[str, Reply]) -> SiteLetter:
        """Let every source examine the others' mixture; a mixture, once told, stands."""
        self.say("phase 2 of 3: mixing")
        models = self._answers(replies, self._log.find("mixed", **self._study), "models")
        self._inbox.miss(set(self._role.asked) - set(models))
        examinations = self._role.mix(models)
        if examinations:
            self._claim_mixture("mixed", {"models": models}, examinations)
        return self._ask("examine", examinations, self._log.find("mixed again", **self._study))

    def mix_again(self, replies: Mapping[str, Reply]) -> SiteLetter:
        """Let what is left be examined if models were found useless; nothing where none was."""
        again = self._log.find("mixed again", **self._study)
        self._found = self._answers(replies, again, "found")
        examinations = self._role.examine_again(self._found)
        if not examinations:
            return {}
        self.say("phase 3 of 3: mixing again, without models that were found useless")
        self._claim_mixture("mixed again", {"found": self._found}, examinations)
        return self._ask("again", examinations)

    def _claim_mixture(
        self, step: str, came: Mapping[str, Mapping[str, Message]], asked: Mapping[str, Message]
    ) -> None:
        """Write down what led to a mixture, and the questions about it.

        Parameters
        ----------
        step : {"mixed", "mixed again"}
        came : mapping of str to mapping of str to Message
            The answers that led to it, by source, under the name that the line gives them.
        asked : mapping of str to Message
            The questions, by source.
        """
        told = {key: self._kept_of(answers) for key, answers in came.items()}
        told["examinations"] = self._kept(asked)
        why, fates = _ONE_MIXTURE[step], self._inbox.fates_now
        self.claim_once(step, self._study, told, "one_mixture", why, fates=fates)

    def conclude(self, replies: Mapping[str, Reply]) -> Conclusion:
        """Make the promise, keep the result here, and say how it ended."""
        self.say("phase 3 of 3: concluding")
        second = self._inbox.phase == "again"
        adaptation = self._role.conclude(self._opened(replies) if second else self._found)
        conclusion = self._keep(adaptation, DONE)
        self._log.append("concluded", **self._study, result=conclusion.result)
        self.say(f"done: {adaptation.status}, the result is in {self.result_folder}")
        return conclusion

    def failed(self, error: FedCSAError) -> Conclusion:
        """How a study ended that came to nothing, or waits."""
        waits = error.rule == WAITING
        self.say(str(error) if waits else f"ended without a model: {error}")
        done = self._log.find("concluded", **self._study)
        if done is None and isinstance(error, WITHOUT_MODEL):
            return self._keep(self._role.without_model(error.rule, str(error)), error.rule)
        nothing = np.empty(0, np.uint8)
        return Conclusion(self.agreed.name, error.rule, self.fates, "", nothing)

    # The pieces -----------------------------------------------------------------------------

    @cached_property
    def _cohort(self) -> Cohort:
        return Cohort(self.site, self._log, self.agreed)

    @cached_property
    def _role(self) -> Target:
        return Target(
            self._cohort.rows, self.agreed.plan, told=self._cohort.earlier[1],
            policy=self.site.policy, given=self.site.given(self.agreed.study),
            min_sources=self._min_sources, refuse=self._inbox.reject, earlier=self._earlier(),
        )  # fmt: skip

    def _earlier(self) -> list[list[Candidate]]:
        """The candidates of every round of a search that an earlier submission asked for."""
        found: list[list[Candidate]] = []
        line, key = self._log.find("announced", **self._study), "brief"
        while line is not None:
            asked = self._log.message(line[key])
            assert isinstance(asked, Brief | MoreCandidates)  # noqa: S101 - for the type checker
            found.append([dict(candidate) for candidate in asked.candidates])
            line = self._log.find("searched", **self._study, phase=_place_after(len(found)))
            key = "request"
        return found

    @cached_property
    def _brief(self) -> Brief:
        return self._role.brief(self.agreed.sources)

    def _answers(
        self, replies: Mapping[str, Reply], line: Event | None, key: str
    ) -> dict[str, Message]:
        """What came, or the answers with which an earlier submission took the next step.

        Parameters
        ----------
        replies : mapping of str to Reply
        line : Event or None
            Of the log, about that step.
        key : str
            Under which it has the answers.
        """
        if line is None:
            return self._opened(replies)
        self._inbox.open(replies)
        self._inbox.restore(line["fates"])
        return {name: self._log.message(sha) for name, sha in line[key].items()}

    def _opened(self, replies: Mapping[str, Reply]) -> dict[str, Message]:
        """What came, or a `PolicyError` if the study waits for a person at a source.

        A source that said so before and is out of reach now is waited for, too.
        """
        came = self._inbox.open(replies)
        fates = self._inbox.fates_now
        gone = [n for n, fate in fates.items() if fate == MISSING and self._waited(n)]
        self._inbox.restore(dict.fromkeys(gone, WAITING))
        names = sorted(n for n, fate in self._inbox.fates_now.items() if fate == WAITING)
        if names and self._wait:
            raise PolicyError(WAITING, f"waiting for approval at {', '.join(names)}")
        return came

    def _waited(self, name: str) -> bool:
        """Whether the last answer of a source in this phase was that it waits for a person."""
        lines = self._log.all("opened", **self.of_sender(name, self._inbox.phase))
        if not lines or lines[-1]["message"] != Refusal.name:
            return False
        last = self._log.message(lines[-1]["sha256"])
        return isinstance(last, Refusal) and last.waits

    def _kept_of(self, answers: Mapping[str, Message]) -> dict[str, str]:
        """Digests of the answers that were not taken for none."""
        return self._kept(self._inbox.without_rejected(answers))

    def _kept(self, messages: Mapping[str, Message]) -> dict[str, str]:
        """Digests of messages by source, their bytes beside the log."""
        return {name: self._log.keep(encode(message)) for name, message in messages.items()}

    def _keep(self, result: Adaptation, outcome: str) -> Conclusion:
        """Keep a result and its report here; what the lead is told of it.

        Parameters
        ----------
        result : Adaptation
        outcome : str
            ``"done"``, or the rule that ended the study.
        """
        from fedcsa.answer.page import write_report  # at the end: sites wait for the start
        from fedcsa.answer.store import save_result

        result = replace(result, described=self.agreed.study.target_columns)
        folder = save_result(result, self.result_folder, self.agreed.text)
        (folder / "sources.json").write_text(json.dumps(self.fates, indent=1) + "\n", "utf-8")
        try:
            write_report(folder)
        except Exception as error:  # whatever it is, the result stands without it
            known = isinstance(error, FedCSAError | OSError)  # another's text may quote a cell
            self.say(f"wrote no report: {error if known else type(error).__name__}")
        whole = (folder / "adaptation.json").read_bytes()
        told = np.frombuffer(whole if self.site.share_result else b"", np.uint8)
        return Conclusion(self.agreed.name, outcome, self.fates, digest(whole), told)

    @property
    def result_folder(self) -> Path:
        """Where the result of this study is kept."""
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in self.agreed.id)
        folder = self.site.state_folder / "results"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def _ask(
        self, phase: str, messages: Mapping[str, Message], taken: Event | None = None
    ) -> SiteLetter:
        """Ask every source for what it has not sent before.

        Parameters
        ----------
        phase : {"risk", "search", "model", "examine", "again"}
        messages : mapping of str to Message
            By source.
        taken : Event or None
            After which an answer comes too late.
        """
        if taken is not None:
            return self._post(phase, {})
        known = {}
        for name, message in messages.items():
            asked = digest(encode(message))
            for line in self._log.all("opened", **self.of_sender(name, phase)):
                if line["question"] == asked and line["message"] not in ("", Refusal.name):
                    known[name] = self._log.message(line["sha256"])
        return self._post(phase, {n: m for n, m in messages.items() if n not in known}, known)

    def _post(
        self,
        phase: str,
        messages: Mapping[str, Message],
        known: Mapping[str, Message] = MappingProxyType({}),
    ) -> SiteLetter:
        """A letter with one question for every source that told its key.

        Parameters
        ----------
        phase : str
        messages : mapping of str to Message
            Questions by source.
        known : mapping of str to Message
            Answers of an earlier submission, by source.
        """
        questions = {}
        for name, message in messages.items():
            payload = encode(message)
            self.site.check_size(payload)
            question = ask(self.agreed.id, phase, self.name, name, self.seal)
            questions[name] = replace(question, digest=digest(payload))  # it stays here
        self._inbox.expect(phase, questions, known)
        sent = {}
        for name in sorted(messages.keys() & self._keys.keys()):
            try:
                sent[name] = self.send(questions[name], messages[name], self._keys[name])
            except BindingError as error:  # nothing can be closed for the key that it told
                self._inbox.reject(name, error)
        return {
            "envelopes": {name: wire for name, (wire, _) in sent.items()},
            "payloads": {name: closed for name, (_, closed) in sent.items()},
        }

    #: What the first examination found.
    _found: dict[str, Message]
