"""What would leave a site in a study, before anything does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from fedcsa.errors import FedCSAError, PolicyError
from fedcsa.protocol.fields import Message, thaw
from fedcsa.protocol.messages import Brief, Refusal
from fedcsa.roles.source import Source
from fedcsa.roles.target import Target
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.file import SiteFile

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


def preview(text: str, site: SiteFile) -> dict[str, Any]:
    """Fields and counts of every message, and the rules that would refuse.

    A site with outcomes plays the source, with its own rows in the place of the target's, which
    it does not know; a site without is the target.
    """
    agreed = AgreedStudy(text)
    refusals: list[str] = []
    messages: list[Message] = []
    plan = agreed.study.plan()
    try:
        X, y = site.read_outcomes(agreed.study)
    except FedCSAError:
        rows = site.read_rows(agreed.study)
        _try(refusals, messages, lambda: _brief(rows, plan, site))
    else:
        brief = Target(X, plan, policy=dataclasses.replace(site.policy, max_release_share=None),
                       trusted_types=site.trust).brief([])  # fmt: skip
        source = Source(
            "this site", X, y, features=agreed.study.coding.columns,
            policy=site.policy, trusted_types=site.trust,
        )  # fmt: skip
        _try(refusals, messages, lambda: source.answer(brief))
        if messages:
            from fedcsa.protocol.codec import digest, encode
            from fedcsa.protocol.messages import ModelRequest

            request = ModelRequest(plan.study, digest(encode(brief)), 0)
            _try(refusals, messages, lambda: source.answer(request))
    return {
        "study": agreed.id,
        "messages": [_described(message) for message in messages],
        "refusals": refusals,
        "approval": list(site.approve),
    }


def _brief(rows: Any, plan: Any, site: SiteFile) -> Brief:
    return Target(rows, plan, policy=site.policy, trusted_types=site.trust).brief([])


def _try(refusals: list[str], messages: list[Message], make: Callable[[], Message]) -> None:
    try:
        message = make()
    except PolicyError as error:
        refusals.append(f"{error.rule}: {error}")
        return
    if isinstance(message, Refusal):
        refusals.append(f"{message.rule}: this site's policy does not let it leave")
    else:
        messages.append(message)


def _described(message: Message) -> dict[str, Any]:
    fields = []
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        if isinstance(value, np.ndarray):
            count = " × ".join(map(str, value.shape))
            empty = value.size == 0
        else:
            plain = thaw(value)
            empty = isinstance(plain, list | dict | str) and not plain
            count = str(len(plain)) if isinstance(plain, list | dict) else "1"
        if not empty:
            meaning = _MEANING.get(item.name, "as agreed in the study")
            fields.append({"name": item.name, "numbers": count, "meaning": meaning})
    return {"message": message.name, "fields": fields}
