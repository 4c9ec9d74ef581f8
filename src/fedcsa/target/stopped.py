"""The end of a study that gave no model: what the sources said until then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedcsa.errors import CandidatesError, NoOverlapError, NoSourcesError
from fedcsa.findings import Finding
from fedcsa.messages.ledger import LedgerEntry
from fedcsa.messages.messages import RiskReport
from fedcsa.plan import Plan

#: These end a study, and are no mistake of whoever runs it.
WITHOUT_MODEL = (NoOverlapError, NoSourcesError, CandidatesError)


@dataclass(frozen=True)
class Ending:
    """What is left of a study without a model.

    Attributes
    ----------
    plan : Plan
    rule : str
        The word for why it ended, for example ``"no_overlap"``.
    text : str
        The same as a sentence.
    n_target_rows : int
    reports : mapping of str to RiskReport
        Of the sources that answered.
    findings : tuple of Finding
        Who refused under which rule among them.
    ledgers : mapping of str to tuple of LedgerEntry
    """

    plan: Plan
    rule: str
    text: str
    n_target_rows: int
    reports: Mapping[str, RiskReport] = field(repr=False)
    findings: tuple[Finding, ...] = ()
    ledgers: Mapping[str, tuple[LedgerEntry, ...]] = field(default_factory=dict, repr=False)

    @property
    def status(self) -> str:
        """``"no overlap"`` or ``"no model"``."""
        return "no overlap" if self.rule == "no_overlap" else "no model"
