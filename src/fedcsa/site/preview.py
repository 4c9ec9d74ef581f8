"""What would leave a site in a study, before anything does.

``python -m fedcsa.site.preview SITE_FILE`` takes a study's text and gives the preview as JSON.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.core.table import Table1
from fedcsa.errors import FedCSAError, MessageError, PolicyError
from fedcsa.messages.codec import digest_of, encode
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import (
    TARGET,
    Brief,
    Examination,
    ModelReport,
    ModelRequest,
    MoreCandidates,
    Refusal,
)
from fedcsa.messages.policy import Policy, entries_of
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import GIVEN, given_column, thaw
from fedcsa.models.fitted import FittedModel
from fedcsa.models.linear_format import LinearModel
from fedcsa.models.registry import checked_candidate
from fedcsa.models.space import corners
from fedcsa.plan import Plan
from fedcsa.site.agreed import AgreedStudy, numbers_about_rows
from fedcsa.site.log import SiteLog
from fedcsa.site.meanings import meaning_of
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import check_rows, one_of_phase
from fedcsa.site.told import Cohort, check_briefs, check_together
from fedcsa.source.certificate import Certificate
from fedcsa.source.source import Source
from fedcsa.target.estimate import Reported, examinations, score_design
from fedcsa.target.judge_given import Given
from fedcsa.target.target import Target

#: Who gets what the target tells or asks all of them alike.
EVERY_SOURCE = "every source"


@dataclass
class _Look:
    """What was found so far: messages that would leave, and refusals.

    Attributes
    ----------
    messages : list of (Message, str, bool)
        With the recipient, and whether it is to the bit what would leave.
    certificate : Certificate or None
        What attacks on the model reached, whether it may leave or not.
    """

    agreed: AgreedStudy
    site: SiteFile
    log: SiteLog
    messages: list[tuple[Message, str, bool]] = field(default_factory=list)
    certificate: Certificate | None = None
    refusals: list[FedCSAError] = field(default_factory=list)
    numbers: int = 0

    def add(self, message: Message, recipient: str, *, exact: bool) -> bool:
        """Add a message, unless the site's file calls it too large.

        Parameters
        ----------
        message : Message
        recipient : str
        exact : bool
            Whether it is to the bit what would leave.
        """
        try:
            self.site.check_size(encode(message))
        except PolicyError as error:
            self.refusals.append(error)
            return False
        self.messages.append((message, recipient, exact))
        return True

    def refuse(self, rule: str, why: str) -> None:
        """Note a rule that would refuse.

        Parameters
        ----------
        rule, why : str
        """
        self.refusals.append(PolicyError(rule, why))

    def target(self, rows: Array | Table1, plan: Plan, told: Table1 | None = None) -> Target:
        """A target with these rows, or a table told before, that lets everything out.

        Parameters
        ----------
        rows : array of shape (rows, features), or Table1
        plan : Plan
        told : Table1, optional
        """
        own = self.site.policy
        policy = replace(
            Policy.open(), min_level_rows=own.min_level_rows, max_candidates=own.max_candidates
        )
        return Target(rows, plan, policy=policy, told=told)


def preview(text: str, site: SiteFile) -> dict[str, Any]:
    """Every number of every message as it would leave, and every rule that would refuse.

    A site with outcomes plays the source, a site without is the target. What a source sends
    depends on the target's questions: if one has come, because it waits for approval or was
    answered, the numbers are those that would leave, to the bit. Else a question on this site's
    own rows stands in for it, and only names, counts and rules are as they will be.

    Parameters
    ----------
    text : str
        Of the study file.
    site : SiteFile
    """
    look = _Look(AgreedStudy(text), site, SiteLog(site.state_folder))
    is_source = site.has_outcomes(look.agreed.study)
    (_as_source if is_source else _as_target)(look)
    return {
        "study": look.agreed.id,
        "role": "source" if is_source else "target",
        "messages": [_described(*item) for item in look.messages],
        "numbers_about_rows": look.numbers,
        "search": _most_asked(look),
        "certificate": None if look.certificate is None else look.certificate.to_plain(),
        "max_membership_auc": site.policy.max_membership_auc,
        "refusals": [f"{error.rule}: {error}" for error in look.refusals],
        "approval": site.approve,
    }


def _most_asked(look: _Look) -> dict[str, int]:
    """The limits of a search: what was agreed, and no more candidates than this site answers."""
    agreed, own = dict(look.agreed.plan.limits), look.site.policy.max_candidates
    if agreed and own is not None:
        agreed["candidates"] = min(agreed["candidates"], own)
    return agreed


# A target -----------------------------------------------------------------------------------


def _as_target(look: _Look) -> None:
    site = look.site
    cohort = Cohort(site, look.log, look.agreed)
    said = {x["event"]: x for x in look.log.events if x.get("study") == look.agreed.name}
    try:
        role = look.target(cohort.rows, look.agreed.plan, cohort.earlier[1])
        if "announced" not in said:
            cohort.check(role.table)
    except PolicyError as error:
        look.refusals.append(error)
        return
    brief = role.brief([])
    if "announced" not in said:
        look.refusals += site.policy.announcement_refusals(brief)
    elif said["announced"]["brief"] != digest_of(brief):
        look.refuse("one_brief", "Another brief was announced by this name.")
    if look.refusals or not look.add(brief, EVERY_SOURCE, exact=True):
        return
    look.numbers = numbers_about_rows(brief)
    _later_questions(look, _request(brief), said)


def _later_questions(look: _Look, request: ModelRequest, said: Mapping[str, Any]) -> None:
    """What the target asks after its brief: for models, unless one is given, and examinations.

    Parameters
    ----------
    look : _Look
    request : ModelRequest
        Stands in for the one that is not chosen yet.
    said : mapping of str to Event
        What the log says of the study, by the kind of event.
    """
    plan = look.agreed.plan
    fits = plan.method != GIVEN
    for line in look.log.lines("searched", study=look.agreed.name):
        look.add(look.log.message(line["request"]), EVERY_SOURCE, exact=True)
    if fits and "chosen" in said:
        look.add(look.log.message(said["chosen"]["request"]), EVERY_SOURCE, exact=True)
    elif fits:
        look.add(request, EVERY_SOURCE, exact=False)
    if "mixed" in said:
        for event in ("mixed", "mixed again"):
            for name, sha256 in said.get(event, {}).get("examinations", {}).items():
                look.add(look.log.message(sha256), name, exact=True)
    elif not fits:
        given = _given_model(look.site.given(look.agreed.study))
        look.add(_mixture(request, plan, given), EVERY_SOURCE, exact=False)
    elif plan.examined:
        zero = _zero_models(plan, _n_others(look))
        look.add(_mixture(request, plan, zero), EVERY_SOURCE, exact=False)


# A source -----------------------------------------------------------------------------------


def _as_source(look: _Look) -> None:
    asked = {x["phase"]: x for x in look.log.lines("waiting", "accepted", id=look.agreed.id)}
    name = asked["risk"]["site"] if "risk" in asked else "this site"
    source, plan = look.site.source(name, look.agreed.study), look.agreed.plan
    came = {phase: look.log.message(line["request"]) for phase, line in asked.items()}
    brief = came.get("risk") or _stand_in(look)
    assert isinstance(brief, Brief)  # noqa: S101 - for the type checker
    for phase, line in asked.items():
        _check_question(look, source, line, came, phase)
    look.refusals += source.refusals(brief)
    if look.refusals or not _answer(look, source, brief, exact="risk" in came):
        return
    for question in sorted(_rounds_of(came), key=lambda question: question.round):
        if not _answer(look, source, question, exact=True):
            return
    request, others = _request(brief), dict[str, FittedModel]()
    model = None
    if plan.method != GIVEN:
        model = _answer(look, source, came.get("model", request), exact="model" in came)
    else:
        others = _given_model(look.agreed.study.given())
        if not (others or given_column(plan.model) or "examine" in came):
            return  # only its digest was agreed on
    if not plan.examined:
        return
    if isinstance(model, ModelReport):
        others = _like_own(look, model, brief, _rounds_of(came))
    examination = came.get("examine") or _mixture(request, plan, others)
    _answer(look, source, examination, exact="examine" in came)
    if "again" in came:
        _answer(look, source, came["again"], exact=True)


def _like_own(
    look: _Look, model: ModelReport, brief: Brief, rounds: Sequence[MoreCandidates]
) -> dict[str, FittedModel]:
    """The site's own model stands in for the others', so that it is of the kind agreed on.

    Parameters
    ----------
    look : _Look
    model : ModelReport
    brief : Brief
    rounds : sequence of MoreCandidates
        Of a search, after the first.
    """
    more = [candidate for asked in rounds for candidate in asked.candidates]
    design = replace(brief, candidates=(*brief.candidates, *more))
    opened = open_agreed(model.form, model.arrays, design, model.candidate, brief.sd, model.held)
    names = [f"source {k}" for k in range(_n_others(look))]
    return dict.fromkeys(names, opened)


def _n_others(look: _Look) -> int:
    """How many other sources a study has, as far as a mixture is concerned."""
    return max(len(look.agreed.sources) - 1, 1)


def _rounds_of(came: Mapping[str, Message]) -> list[MoreCandidates]:
    return [message for message in came.values() if isinstance(message, MoreCandidates)]


def _check_question(
    look: _Look, source: Source, line: dict[str, Any], came: Mapping[str, Message], place: str
) -> None:
    """What the desk would say of a question that came, beside the policy.

    Parameters
    ----------
    look : _Look
    source : Source
    line : Event
        The line of the log about the question.
    came : mapping of str to Message
        Every question that came, by its place.
    place : str
        Of this one: its phase, and in a search its round.
    """
    message = came[place]
    budget = {key: line[key] for key in ("study", "target")}
    answered = look.log.find("answered", **budget, phase="risk")
    try:
        look.log.check_site(line["site"])
        look.agreed.check(message, came.get("risk"), _rounds_of(came))
        if answered is not None and isinstance(message, Brief):
            check_rows(answered, source)
        elif answered is None:
            check_together(look.log, look.site, source, message, line["target"])
            if line["event"] == "waiting":
                check_briefs(look.log, look.site.policy, line["target"], message)
    except FedCSAError as error:
        look.refusals.append(error)
    accepted = look.log.find("accepted", **budget, phase=line["phase"])
    if accepted is not None and accepted["request"] != line["request"]:
        one = one_of_phase(line["phase"])
        look.refuse(one, "Another question of this phase and study came before.")


def _answer(look: _Look, source: Source, question: Message, *, exact: bool) -> Message | None:
    """What would be answered; none if it may not leave.

    Parameters
    ----------
    look : _Look
    source : Source
    question : Message
    exact : bool
        Whether it is the target's own.
    """
    answer = source.answer(question)
    look.certificate = source.certificate
    if isinstance(answer, Refusal):
        why = "This site's file does not let the answer leave."
        look.refusals.append(source.refusal or PolicyError(answer.rule, why))
        return None
    return answer if look.add(answer, TARGET, exact=exact) else None


# Questions that have not come ---------------------------------------------------------------


def _stand_in(look: _Look) -> Brief:
    """A brief on this site's own rows, of the first batch if it does not hold its table."""
    study = look.agreed.study
    plan = with_stand_ins(look.agreed.plan)
    if not look.site.stream:
        return look.target(look.site.read_target(study), plan).brief([])
    batch = next(iter(look.site.batches(study)))[0]
    return look.target(batch[:, : len(study.coding.columns)], plan).brief([])  # a group stands last


def with_stand_ins(plan: Plan) -> Plan:
    """A plan in which candidates at the corners of a space stand in for its first round.

    As many as that round has: a source has no package to draw them with.
    """
    if not plan.space:
        return plan
    size = math.ceil(plan.limits["candidates"] / plan.limits["rounds"])
    ends = itertools.islice(itertools.cycle(corners(plan.space)), size)
    listed = tuple(checked_candidate(str(plan.model["name"]), end) for end in ends)
    return replace(plan, space=(), search=None, budget=None, candidates=listed)


def _request(brief: Brief) -> ModelRequest:
    """A request for the first candidate."""
    return ModelRequest(brief.study, digest_of(brief), 0)


def _mixture(request: ModelRequest, plan: Plan, models: Mapping[str, FittedModel]) -> Examination:
    """A mixture of `models` in equal parts; of none, the recipient's own.

    Parameters
    ----------
    request : ModelRequest
    plan : Plan
    models : mapping of str to FittedModel
    """
    models = models or {"": LinearModel(np.zeros(len(plan.features)), 0.0)}  # it is not shown
    weights = dict.fromkeys(models, 1.0 / len(models))
    outcome = np.full(max(len(plan.classes), 1), 1.0 / max(len(plan.classes), 1))
    means, design = dict.fromkeys(weights, outcome), score_design(plan, Reported.of({}))
    [(_, asked)] = examinations([""], request, plan, weights, models, means, design)
    if isinstance(asked, MessageError):
        raise asked
    return asked


def _given_model(given: Given) -> dict[str, FittedModel]:
    """The given model; none for a column of predictions."""
    return {} if given is None or isinstance(given, np.ndarray) else {GIVEN: given}


def _zero_models(plan: Plan, n_others: int) -> dict[str, FittedModel]:
    """Linear models that are zero everywhere; of more classes there are none.

    Parameters
    ----------
    plan : Plan
    n_others : int
    """
    if len(plan.classes) > 2:
        return {}
    link = "logistic" if plan.classes else "identity"
    zero = LinearModel(np.zeros(len(plan.features)), 0.0, link)
    return {f"source {k}": zero for k in range(n_others)}


# In words -----------------------------------------------------------------------------------


def _described(message: Message, recipient: str, exact: bool) -> dict[str, Any]:
    """A message that would leave, as plain values.

    Parameters
    ----------
    message : Message
    recipient : str
    exact : bool
    """
    values = {name: thaw(getattr(message, name)) for name in message.kinds}
    values |= {name: array.tolist() for name, array in message.buffers()}
    [entry] = entries_of(message, "", [recipient])
    fields = []
    for item in entry.fields:
        plain = values[item.name]
        if plain not in ("", [], {}):
            what, computed_from = meaning_of(message.name, item.name)
            about = {"meaning": what, "computed_from": computed_from, "value": plain}
            fields.append({"name": item.name, "numbers": item.numbers, **about})
    return {
        "message": message.name, "to": recipient, "exact": exact,
        "sha256": entry.sha256, "fields": fields,
    }  # fmt: skip


def looked(text: str, site_file: str) -> dict[str, Any]:
    """The preview of a study at a site, or why there is none.

    Parameters
    ----------
    text : str
        Of the agreed study.
    site_file : str
        Path of the site's file.
    """
    try:
        return preview(text, SiteFile.load(site_file))
    except FedCSAError as error:
        return {"error": str(error)}
    except Exception as error:  # its text may quote anything
        return {"error": f"The preview failed ({type(error).__name__})."}


if __name__ == "__main__":
    json.dump(looked(sys.stdin.buffer.read().decode(), sys.argv[1]), sys.stdout)
