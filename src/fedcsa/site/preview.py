"""What would leave a site in a study, before anything does."""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcsa.errors import FedCSAError, PolicyError
from fedcsa.protocol.codec import decode, digest, encode
from fedcsa.protocol.fields import Message, thaw
from fedcsa.protocol.journal import Journal
from fedcsa.protocol.messages import Brief, ModelRequest, Refusal
from fedcsa.protocol.policy import Policy
from fedcsa.roles.source import Source
from fedcsa.roles.target import Target
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.file import SiteFile
from fedcsa.site.memory import check_memory
from fedcsa.site.rules import rule_of
from fedcsa.site.source import ONE, check_rows
from fedcsa.site.target import released_in_all

_MEANING = {
    "features": "names of the columns, as agreed",
    "n_rows": "number of rows",
    "mean": "mean of every column",
    "sd": "standard deviation of every column",
    "embedding": "averages of agreed bumps over the rows",
    "trace": "how much the bumps vary over the rows",
    "rows": "the rows themselves",
    "n_validation": "number of rows that were judged",
    "ratio_mean": "mean density ratio",
    "ratio_m2": "variation of the density ratio",
    "loss_mean": "mean loss, per candidate",
    "loss_m2": "variation of the loss, per candidate",
    "product_mean": "mean weighted loss, per candidate",
    "product_m2": "variation of the weighted loss, per candidate",
    "co_moment": "how ratio and weighted loss vary together, per candidate",
    "spread": "weighted variation of the loss, per candidate",
    "variance": "of the estimate, per candidate",
    "explained": "part of the spread that the features explain, per candidate",
    "effective_rows": "rows that carry the weight",
    "largest_share": "weight of the heaviest row",
    "difference_before": "distance to the target, per column",
    "difference_after": "the same after weighting, per column",
    "coefficients": "of the one model at the chosen candidate",
    "intercept": "of the one model at the chosen candidate",
    "packed": "bytes of the one model at the chosen candidate",
}


@dataclass
class _Look:
    """What was found so far: messages, whether each is to the bit what would leave, refusals."""

    agreed: AgreedStudy
    site: SiteFile
    lines: list[dict[str, Any]]
    messages: list[tuple[Message, bool]] = field(default_factory=list)
    refusals: list[FedCSAError] = field(default_factory=list)


def preview(text: str, site: SiteFile) -> dict[str, Any]:
    """Every number of every message as it would leave, and every rule that would refuse.

    A site with outcomes plays the source, a site without is the target. What a source sends
    depends on the target's brief: if that has come, because it waits for approval or was
    answered, the numbers are those that would leave, to the bit. Else this site's own rows stand
    in for the target's, and only names, counts and rules are as they will be.
    """
    look = _Look(AgreedStudy(text), site, _remembered(site))
    is_source = site.has_outcomes(look.agreed.study)
    (_as_source if is_source else _as_target)(look)
    return {
        "study": look.agreed.id,
        "role": "source" if is_source else "target",
        "messages": [_described(message, exact) for message, exact in look.messages],
        "refusals": [f"{rule_of(error)}: {error}" for error in look.refusals],
        "approval": list(site.approve),
    }


def _as_target(look: _Look) -> None:
    site, plan = look.site, look.agreed.study.plan()
    rows = site.read_rows(look.agreed.study)
    brief = Target(rows, plan, policy=Policy.open(), trusted_types=site.trust).brief([])
    announced = [x for x in look.lines if x["step"] == "announced" and x["study"] == plan.study]
    if not announced:
        released = released_in_all(brief, rows, look.lines)
        look.refusals += site.policy.announcement_refusals(brief, released)
    elif announced[0]["brief"] != digest(encode(brief)):
        look.refusals.append(PolicyError("one_brief", "Another brief was announced by this name."))
    if not look.refusals and _fits(look, brief):
        look.messages.append((brief, True))


def _as_source(look: _Look) -> None:
    asked = {x["phase"]: x for x in look.lines if x.get("id") == look.agreed.id}
    name = asked["risk"]["site"] if "risk" in asked else "this site"
    source = look.site.source(name, look.agreed.study)
    brief = _message(look, asked["risk"]) if "risk" in asked else _stand_in(look)
    assert isinstance(brief, Brief)  # noqa: S101 - for the type checker
    if "risk" in asked:
        _check_question(look, source, brief, asked["risk"])
    look.refusals += source.refusals(brief)
    if look.refusals or not _answer(look, source, brief, exact="risk" in asked):
        return
    request = ModelRequest(brief.study, digest(encode(brief)), 0)
    chosen = _message(look, asked["model"]) if "model" in asked else request
    _answer(look, source, chosen, exact="model" in asked)


def _check_question(look: _Look, source: Source, brief: Brief, asked: dict[str, Any]) -> None:
    """What the desk would say of this brief, beside the policy."""
    journal = Journal(look.site.state_folder)
    budget = {key: asked[key] for key in ("study", "target", "phase")}
    answered = journal.find("answered", **budget)
    try:
        check_memory(look.site.state_folder, asked["site"])
        look.agreed.check(brief)
        if answered is not None:
            check_rows(answered, source)
    except FedCSAError as error:
        look.refusals.append(error)
    accepted = journal.find("accepted", **budget)
    if accepted is not None and accepted["request"] != asked["request"]:
        look.refusals.append(PolicyError(ONE["risk"], "Another brief of this study came before."))


def _stand_in(look: _Look) -> Brief:
    """A brief on this site's own rows, of the first batch if it does not hold its table."""
    study = look.agreed.study
    if look.site.in_batches:
        rows = next(iter(look.site.stream(study)))[0]
    else:
        rows = look.site.read_rows(study)
    return Target(
        rows, study.plan(), policy=Policy.open(), trusted_types=look.site.trust
    ).brief([])  # fmt: skip


def _answer(look: _Look, source: Source, question: Message, *, exact: bool) -> bool:
    answer = source.answer(question)
    if isinstance(answer, Refusal):
        text = "This site's policy does not let the answer leave."
        look.refusals.append(PolicyError(answer.rule, text))
        return False
    if _fits(look, answer):
        look.messages.append((answer, exact))
        return True
    return False


def _fits(look: _Look, message: Message) -> bool:
    most = look.site.max_bytes
    if len(encode(message)) <= most:
        return True
    text = f"A message here must have at most {most} bytes."
    look.refusals.append(PolicyError("max_bytes", text))
    return False


def _remembered(site: SiteFile) -> list[dict[str, Any]]:
    return Journal(site.state_folder).lines if site.state_folder.exists() else []


def _message(look: _Look, line: dict[str, Any]) -> Message:
    return decode(Journal(look.site.state_folder).payload(line["request"]))


def _described(message: Message, exact: bool) -> dict[str, Any]:
    fields = []
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        plain = _plain(value)
        if isinstance(value, np.ndarray):
            count = " × ".join(map(str, value.shape))
        else:
            count = str(len(plain)) if isinstance(plain, list | dict) else "1"
        if plain not in ("", [], {}):
            meaning = _MEANING.get(item.name, "as agreed in the study")
            fields.append({"name": item.name, "numbers": count, "meaning": meaning, "value": plain})
    sha256 = digest(encode(message))
    return {"message": message.name, "exact": exact, "sha256": sha256, "fields": fields}


def _plain(value: Any) -> Any:
    """Numbers as they leave; the bytes of a packed model in base64."""
    if not isinstance(value, np.ndarray):
        return thaw(value)
    if value.dtype == np.uint8:
        return base64.b64encode(value.tobytes()).decode()
    return value.tolist()
