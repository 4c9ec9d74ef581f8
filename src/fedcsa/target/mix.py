"""What a source is asked to examine: the mixture of the others' models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcsa.messages.messages import Examination, ModelRequest, RiskReport
from fedcsa.models.fitted import EstimatorModel, FittedModel, LinearModel
from fedcsa.plan import Plan
from fedcsa.target.promise import MOSTLY_OWN


def examination_for(
    name: str,
    request: ModelRequest,
    brief: str,
    *,
    plan: Plan,
    weights: Mapping[str, float],
    models: Mapping[str, FittedModel],
    reports: Mapping[str, RiskReport],
) -> Examination:
    """The mixture without the model of `name`, or the whole of it where most is its own.

    Parameters
    ----------
    name : str
        Of the source.
    request : ModelRequest
        Which candidate the models are of.
    brief : str
        Digest of the brief.
    plan : Plan
    weights : mapping of str to float
        a_j of every model.
    models : mapping of str to FittedModel
    reports : mapping of str to RiskReport
        Their mean outcomes make the constant that the mixture must beat.
    """
    others = {n: a for n, a in weights.items() if n != name and a > 0.0}
    rest = sum(others.values())
    shares = {n: a / rest for n, a in others.items()} if rest > 0.0 else {name: 1.0}
    constant = sum(a * reports[n].outcome_mean for n, a in shares.items())
    own = weights.get(name, 0.0)
    own = own if own > MOSTLY_OWN else 0.0
    taken = others if own else shares
    a = np.array(list(taken.values()))
    linear = [m for n in taken if isinstance(m := models[n], LinearModel)]
    packed = [m.pack() for n in taken if isinstance(m := models[n], EstimatorModel)]
    link = linear[0].link if linear else "identity"
    if not taken:  # nothing but the source's own: as a model of the study would be
        link = "logistic" if len(plan.classes) == 2 else "identity"
    d = len(plan.features)
    coefficients = np.array([m.coefficients for m in linear]).reshape(len(linear), d)
    intercepts = np.array([m.intercept for m in linear])
    if linear and plan.combine == "mean" and link == "identity":
        # A mean of lines is a line: one vector says all.
        share = a / a.sum()
        coefficients, intercepts = (share @ coefficients)[None], np.array([share @ intercepts])
        a = np.array([a.sum()])
    return Examination(
        study=plan.study,
        brief=brief,
        candidate=request.candidate,
        combine=plan.combine,
        own_weight=own,
        weights=a,
        format="skops" if packed else "linear",
        link=link,
        intercepts=intercepts,
        coefficients=coefficients,
        sizes=np.array([float(len(blob)) for blob in packed]),
        packed=np.concatenate(packed) if packed else np.empty(0, np.uint8),
        constant=np.atleast_1d(constant),
    )
