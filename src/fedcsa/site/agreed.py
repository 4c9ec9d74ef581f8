"""The study as every site of a federation gets it: what was agreed, without anyone's paths."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from fedcsa.core.table import Table1
from fedcsa.errors import PolicyError, StudyError
from fedcsa.messages.envelope import study_id
from fedcsa.messages.fields import Message, thaw
from fedcsa.messages.messages import Brief, Examination
from fedcsa.plan import Plan
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
        if isinstance(document.get("target"), dict):
            document["target"] = {"table": ELSEWHERE}
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

    def check(self, question: Message) -> None:
        """Raise a `PolicyError` unless a question asks for what was agreed, and nothing else."""
        plan = self.study.plan()
        if isinstance(question, Examination) and question.combine != plan.combine:
            raise _not_as_agreed("examination", "combine")
        if isinstance(question, Brief):
            self._check_brief(question, plan)

    def _check_brief(self, brief: Brief, plan: Plan) -> None:
        """Compare every field of the design, and how finely the table is told."""
        for name, value in plan.design().items():
            told = getattr(brief, name)
            same = (
                np.array_equal(told, value)
                if isinstance(value, np.ndarray)
                else thaw(told) == thaw(value)
            )
            if not same:
                raise _not_as_agreed("brief", name)
        for name in _sharper_than_told(plan, brief):
            raise _not_as_agreed("brief", name)


def _sharper_than_told(plan: Plan, brief: Brief) -> Iterator[str]:
    """Fields of the target's table that are not rounded and floored as a Table 1 is."""
    if plan.exchange != "table":
        return
    table = brief.table
    rounded = Table1.typed(
        table.n_rows, table.features, table.flags, table.mean, table.sd, plan.public_sd,
        table.correlations,
    )  # fmt: skip
    for name in ("n_rows", "sd", "mean", "correlations"):
        if not np.array_equal(np.asarray(getattr(table, name)), np.asarray(getattr(rounded, name))):
            yield name


def _not_as_agreed(what: str, name: str) -> PolicyError:
    return PolicyError("not_as_agreed", f"The {what} must be as agreed; {name} is not.")


def numbers_about_rows(brief: Brief) -> int:
    """How many numbers about the target's rows a brief tells."""
    return brief.rows.size or brief.table.n_numbers
