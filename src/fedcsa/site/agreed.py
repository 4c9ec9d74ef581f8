"""The study as every site of a federation gets it: what was agreed, without anyone's paths."""

from __future__ import annotations

from typing import Any

from fedcsa.errors import PolicyError
from fedcsa.protocol.envelope import study_id
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.messages import Brief
from fedcsa.roles.plan import Plan
from fedcsa.study import Study
from fedcsa.study.toml import format_toml, parse_toml

#: Stands where a simulation has the path of a table.
ELSEWHERE = "at the site"


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
        agreed = _design(self.study.plan())
        for name, value in agreed.items():
            if thaw(getattr(brief, name)) != value:
                raise PolicyError("not_as_agreed", f"The brief must be as agreed; {name} is not.")


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
