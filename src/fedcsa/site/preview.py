"""What would leave a site in a study, before anything does."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcsa.core.arrays import Array
from fedcsa.errors import FedCSAError, PolicyError
from fedcsa.messages.codec import decode, digest, encode
from fedcsa.messages.fields import Message, thaw
from fedcsa.messages.ledger import records_of
from fedcsa.messages.messages import (
    TARGET,
    Brief,
    Examination,
    ModelReport,
    ModelRequest,
    Refusal,
    RiskReport,
)
from fedcsa.messages.policy import Policy
from fedcsa.plan import Plan
from fedcsa.site.agreed import AgreedStudy, numbers_about_rows
from fedcsa.site.log import SiteLog
from fedcsa.site.meanings import MEANINGS
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import ONE, check_rows
from fedcsa.source.source import Source
from fedcsa.target.target import Target

EVERY_SOURCE = "every source"


@dataclass
class _Look:
    """What was found so far: messages that would leave, and refusals.

    Attributes
    ----------
    messages : list of (Message, str, bool)
        With the recipient, and whether it is to the bit what would leave.
    """

    agreed: AgreedStudy
    site: SiteFile
    log: SiteLog
    messages: list[tuple[Message, str, bool]] = field(default_factory=list)
    refusals: list[FedCSAError] = field(default_factory=list)
    numbers: int = 0

    def add(self, message: Message, recipient: str, *, exact: bool) -> bool:
        """Add a message, unless the site's file calls it too large."""
        most = self.site.max_bytes
        if len(encode(message)) > most:
            text = f"A message here must have at most {most} bytes."
            self.refusals.append(PolicyError("max_bytes", text))
            return False
        self.messages.append((message, recipient, exact))
        return True

    def stored(self, sha256: str) -> Message:
        """A message that came or left."""
        return decode(self.log.payload(sha256))


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
        "refusals": [f"{error.rule}: {error}" for error in look.refusals],
        "approval": site.approve,
    }


# A target -----------------------------------------------------------------------------------


def _as_target(look: _Look) -> None:
    site, plan = look.site, look.agreed.study.plan()
    role = Target(
        site.read_target(look.agreed.study), plan, policy=Policy.open(), trusted_types=site.trust
    )
    brief = role.brief([])
    said = {x["event"]: x for x in look.log.events if x.get("study") == look.agreed.name}
    if "announced" not in said:
        look.refusals += site.policy.announcement_refusals(brief, role.fewest)
    elif said["announced"]["brief"] != digest(encode(brief)):
        look.refusals.append(PolicyError("one_brief", "Another brief was announced by this name."))
    if look.refusals or not look.add(brief, EVERY_SOURCE, exact=True):
        return
    look.numbers = numbers_about_rows(brief)
    chosen, mixed = said.get("chosen"), said.get("mixed")
    request = look.stored(chosen["request"]) if chosen else _request(brief)
    look.add(request, EVERY_SOURCE, exact=chosen is not None)
    for name, sha256 in (mixed or {"examinations": {}})["examinations"].items():
        look.add(look.stored(sha256), name, exact=True)
    if mixed is None and plan.method == "validated":
        n_others = max(len(look.agreed.sources) - 1, 1)
        look.add(_examination(brief, plan, n_others), EVERY_SOURCE, exact=False)


# A source -----------------------------------------------------------------------------------


def _as_source(look: _Look) -> None:
    events = [x for x in look.log.events if x["event"] in ("waiting", "accepted")]
    asked = {x["phase"]: x for x in events if x["id"] == look.agreed.id}
    name = asked["risk"]["site"] if "risk" in asked else "this site"
    source, plan = look.site.source(name, look.agreed.study), look.agreed.study.plan()
    came = {phase: look.stored(line["request"]) for phase, line in asked.items()}
    brief = came.get("risk") or _stand_in(look)
    assert isinstance(brief, Brief)  # noqa: S101 - for the type checker
    _check_questions(look, source, asked, came)
    look.refusals += source.refusals(brief)
    if look.refusals:
        return
    report = _answer(look, source, brief, exact="risk" in came)
    if not isinstance(report, RiskReport):
        return
    model = _answer(look, source, came.get("model") or _request(brief), exact="model" in came)
    examination = came.get("examine")
    if plan.method != "validated":
        return
    packed = isinstance(model, ModelReport) and model.format != "linear"
    if examination is None and packed and not look.site.policy.packed_models:
        why = "Only linear models are forwarded between sites, so nobody examines this one."
        look.refusals.append(PolicyError("packed_models", why))
        return
    stand_in = _examination(brief, plan, 1)
    _answer(look, source, examination or stand_in, exact=examination is not None)


def _check_questions(
    look: _Look, source: Source, asked: dict[str, dict[str, Any]], came: dict[str, Message]
) -> None:
    """What the desk would say of the questions that came, beside the policy."""
    for phase, line in asked.items():
        budget = {key: line[key] for key in ("study", "target")}
        answered = look.log.find("answered", **budget, phase="risk")
        message = came[phase]
        try:
            if isinstance(message, Brief):
                look.log.check_site(line["site"])
                look.agreed.check(message)
                if answered is not None:
                    check_rows(answered, source)
            if isinstance(message, Examination):
                look.agreed.check_examination(message)
        except FedCSAError as error:
            look.refusals.append(error)
        accepted = look.log.find("accepted", **budget, phase=phase)
        if accepted is not None and accepted["request"] != line["request"]:
            text = "Another question of this phase and study came before."
            look.refusals.append(PolicyError(ONE[phase], text))


def _answer(look: _Look, source: Source, question: Message, *, exact: bool) -> Message | None:
    answer = source.answer(question)
    if isinstance(answer, Refusal):
        text = "This site's file does not let the answer leave."
        look.refusals.append(PolicyError(answer.rule, text))
        return None
    return answer if look.add(answer, TARGET, exact=exact) else None


# Questions that have not come ---------------------------------------------------------------


def _stand_in(look: _Look) -> Brief:
    """A brief on this site's own rows, of the first batch if it does not hold its table."""
    study = look.agreed.study
    rows = look.site.read_target(study) if not look.site.stream else _first_batch(look)
    return Target(
        rows, study.plan(), policy=Policy.open(), trusted_types=look.site.trust
    ).brief([])  # fmt: skip


def _first_batch(look: _Look) -> Array:
    study = look.agreed.study
    X: Array = next(iter(look.site.batches(study)))[0]
    return X[:, : len(study.coding.columns)]  # a group stands last


def _request(brief: Brief) -> ModelRequest:
    """A request for the first candidate."""
    return ModelRequest(brief.study, digest(encode(brief)), 0)


def _examination(brief: Brief, plan: Plan, n_others: int) -> Examination:
    """A mixture of linear models that are zero everywhere; of more classes, the source's own."""
    own = len(plan.classes) > 2
    link = "logistic" if len(plan.classes) == 2 else "identity"
    merged = link == "identity" and plan.combine == "mean"
    n = 0 if own else 1 if merged else n_others
    return Examination(
        study=brief.study,
        brief=digest(encode(brief)),
        candidate=0,
        combine=plan.combine,
        own_weight=float(own),
        weights=np.full(n, 1.0 / max(n, 1)),
        format="linear",
        link=link,
        intercepts=np.zeros(n),
        coefficients=np.zeros((n, len(brief.features))),
        sizes=np.empty(0),
        packed=np.empty(0, np.uint8),
        constant=np.full(max(len(plan.classes), 1), 1.0 / max(len(plan.classes), 1)),
    )


# In words -----------------------------------------------------------------------------------


def _described(message: Message, recipient: str, exact: bool) -> dict[str, Any]:
    fields = []
    for item in records_of(message):
        plain = _plain(getattr(message, item.name))
        if plain not in ("", [], {}):
            about = {"meaning": MEANINGS[message.name][item.name], "value": plain}
            fields.append({"name": item.name, "numbers": item.numbers, **about})
    return {
        "message": message.name, "to": recipient, "exact": exact,
        "sha256": digest(encode(message)), "fields": fields,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Numbers as they leave; the bytes of a packed model in base64."""
    if not isinstance(value, np.ndarray):
        return thaw(value)
    if value.dtype == np.uint8:
        return base64.b64encode(value.tobytes()).decode()
    return value.tolist()
