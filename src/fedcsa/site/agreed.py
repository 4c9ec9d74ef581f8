"""The study as every site of a federation gets it: what was agreed, without anyone's paths."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fedcsa.core.table import Table1
from fedcsa.errors import DataError, PolicyError, StudyError
from fedcsa.messages.codec import digest_of
from fedcsa.messages.envelope import study_id
from fedcsa.messages.fields import Message
from fedcsa.messages.messages import Brief, Examination, MoreCandidates
from fedcsa.models.description import thaw
from fedcsa.models.space import is_inside
from fedcsa.plan import Plan
from fedcsa.study import Study
from fedcsa.study.model_section import is_given
from fedcsa.study.toml import format_toml, parse_toml
from fedcsa.target.search import numbers_of_rounds

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
        if isinstance(document.get("target"), dict):
            document["target"] = {"table": ELSEWHERE}
        sources = document.get("sources")
        if isinstance(sources, dict):
            document["sources"] = {name: {"table": ELSEWHERE} for name in sources}
        if isinstance(document.get("model"), dict):
            document["model"] = _without_paths(document["model"])
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

    @cached_property
    def plan(self) -> Plan:
        """The design that was agreed, made and checked once."""
        return self.study.plan()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources, sorted."""
        return tuple(sorted(self.study.sources))

    def check(
        self,
        question: Message,
        brief: Message | None = None,
        rounds: Sequence[MoreCandidates] = (),
    ) -> None:
        """Raise a `PolicyError` unless `question` asks for what was agreed, and nothing else.

        Parameters
        ----------
        question : Message
        brief : Brief, optional
            That was answered before.
        rounds : sequence of MoreCandidates
            Of a search, that were answered before.
        """
        plan = self.plan
        if isinstance(question, MoreCandidates):
            due = brief is not None and digest_of(brief) == question.brief
            if not due or question.round > len(rounds) + 2:
                raise PolicyError("phase_order", "The rounds of a search must come one by one.")
            asked = [brief, *(item for item in rounds if item.round < question.round), question]
            _check_drawn(plan, [getattr(item, "candidates", ()) for item in asked])
        if isinstance(question, Examination):
            _check_same(question, {"combine": plan.combine})
        if isinstance(question, Brief):
            design = plan.design()
            if plan.space:
                _check_drawn(plan, [question.candidates])
                del design["candidates"]
            _check_same(question, design)
            if plan.exchange == "table":
                _check_rounded(question.table, plan)


def _without_paths(model: Mapping[str, Any]) -> dict[str, Any]:
    """The section of a model without the path of its file; a formula must be written out.

    A path is of the machine that the study was written on. At another one it names another file.
    """
    if is_given(model) and isinstance(model.get("formula"), str):
        raise StudyError(
            "A study between sites must hold its formula, not the path of one. Write it out in "
            "[model.formula], or submit the study with: fedcsa study submit"
        )
    return {key: value for key, value in model.items() if key != "file" or not is_given(model)}


def _check_rounded(told: Table1, plan: Plan) -> None:
    """Raise a `PolicyError` unless a table is rounded and floored as agreed, and can be.

    Parameters
    ----------
    told : Table1
    plan : Plan
    """
    try:
        rounded = Table1.typed(
            told.n_rows, told.features, told.flags, told.mean, told.sd, plan.public_sd,
            told.correlations,
        )  # fmt: skip
    except DataError as error:
        raise PolicyError("not_as_agreed", f"The target's table is impossible. {error}") from None
    names = ("n_rows", "sd", "mean", "correlations")  # a mean is told in sds
    _check_same(told, {name: getattr(rounded, name) for name in names})


def _check_drawn(plan: Plan, rounds: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Raise a `PolicyError` unless candidates lie in the agreed space and within its budget.

    Parameters
    ----------
    plan : Plan
    rounds : sequence of sequence of mapping
        Candidates of all rounds so far.
    """
    sizes = list(map(len, rounds))
    asked = {
        "candidates": sum(sizes), "rounds": len(sizes), "numbers": numbers_of_rounds(plan, sizes)
    }  # fmt: skip
    for name, count in asked.items():
        most = plan.limits.get(name, math.inf if plan.limits else 0)
        if count > most:
            text = f"A search of this study has at most {most} {name} in all."
            raise PolicyError("not_as_agreed", text)
    candidates = [thaw(candidate) for asked in rounds for candidate in asked]
    if not all(is_inside(candidate, plan.space) for candidate in candidates):
        raise PolicyError("not_as_agreed", "Every candidate must lie in the agreed space.")


def _check_same(told: object, agreed: Mapping[str, Any]) -> None:
    """Raise a `PolicyError` at the first field that is not as agreed.

    Parameters
    ----------
    told : object
    agreed : mapping
        By the names of its attributes.
    """
    for name, value in agreed.items():
        field = getattr(told, name)
        if isinstance(field, np.ndarray):
            same = np.array_equal(field, np.asarray(value))
        else:
            same = thaw(field) == thaw(value)
        if not same:
            raise PolicyError("not_as_agreed", f"The question is not as agreed: {name} differs.")


def numbers_about_rows(brief: Brief) -> int:
    """How many numbers about the target's rows a brief tells."""
    return brief.rows.size or brief.table.n_numbers
