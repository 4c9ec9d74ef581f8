"""The study as every site of a federation gets it: what was agreed, without anyone's paths."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from fedcsa.core.embedding import MAX_FEATURES, SD_FLOOR
from fedcsa.core.kernels import BANDWIDTH_FACTOR
from fedcsa.errors import PolicyError, StudyError
from fedcsa.protocol.envelope import study_id
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.messages import Brief
from fedcsa.roles.plan import Plan
from fedcsa.study import Study
from fedcsa.study.toml import format_toml, parse_toml

#: Stands where a simulation has the path of a table.
ELSEWHERE = "at the site"
#: Names of studies stand in commands to copy, in names of folders, and before the @ of an id.
_NAME = re.compile(r"\w[\w .(),-]{0,99}")


class AgreedStudy:
    """What was agreed, and its id.

    Parameters
    ----------
    text : str
        Of a study file.
    """

    def __init__(self, text: str) -> None:
        document = parse_toml(text, "study.toml")
        document.pop("policy", None)  # a site has its own
        for name, table in {"target": document.get("target")}.items():
            if isinstance(table, dict):
                document[name] = {"table": ELSEWHERE}
        sources = document.get("sources")
        if isinstance(sources, dict):
            document["sources"] = {name: {"table": ELSEWHERE} for name in sources}
        self.text = format_toml(document, nested=["sources"])
        self.study = Study.parse(self.text)
        if not _NAME.fullmatch(self.study.name):
            raise StudyError(
                "A study between sites must be named by at most 100 letters, digits, blanks and "
                "any of _-.,() after the first. Give it such a name."
            )
        self.id = study_id(self.study.name, self.text)

    @property
    def name(self) -> str:
        """The study's name, under which a site's budget is counted."""
        return self.study.name

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources, sorted."""
        return tuple(sorted(self.study.sources))

    def check(self, brief: Brief) -> None:
        """Raise a `PolicyError` unless `brief` asks for what was agreed, and nothing else."""
        plan = self.study.plan()
        kept = {name: thaw(getattr(brief, name)) == value for name, value in _design(plan).items()}
        kept["shares"] = np.array_equal(brief.shares, plan.shares)
        if plan.exchange == "embedding":
            kept |= _embedding_kept(plan, brief)
        for name, as_agreed in kept.items():
            if not as_agreed:
                raise PolicyError("not_as_agreed", f"The brief must be as agreed; {name} is not.")


def _embedding_kept(plan: Plan, brief: Brief) -> dict[str, bool]:
    """What a target may say of its rows: how wide a kernel, how many numbers, how small an sd."""
    kind = plan.ratio.get("basis", "bumps")
    usual = BANDWIDTH_FACTOR[kind] * float(np.sqrt(len(plan.features)))
    most = plan.ratio.get("n_features") or MAX_FEATURES
    floor = 0.0 if plan.public_sd is None else SD_FLOOR * plan.public_sd
    return {
        "basis": brief.basis == kind,
        "basis_seed": brief.basis_seed == plan.seed,
        "bandwidth": brief.bandwidth == (plan.ratio.get("bandwidth") or usual),
        "embedding": len(brief.embedding) <= most,
        "sd": bool((brief.sd >= floor).all()),
    }


def _design(plan: Plan) -> dict[str, Any]:
    hidden = ("basis", "n_features", "bandwidth")  # said otherwise in a brief
    return {
        "features": list(plan.features),
        "classes": list(plan.classes),
        "model": thaw(plan.model),
        "candidates": thaw(plan.candidates),
        "loss": plan.loss,
        "scheme": plan.scheme,
        "n_folds": plan.n_folds,
        "refit": plan.refit,
        "scale": plan.scale,
        "seed": plan.seed,
        "exchange": plan.exchange,
        "ratio": {k: thaw(v) for k, v in plan.ratio.items() if k not in hidden},
    }
