"""A21: a target asks a source twice, before and after one patient came, and subtracts.

(n + 1) times the new means less n times the old ones would be the patient's row. A source's rows
count in whole tens, the first ones of its table, so the second report is the first one, to the bit.
When ten have come, they come together.
"""

import numpy as np
import pytest

from fedcsa.messages.messages import RiskReport
from fedcsa.messages.policy import Policy
from fedcsa.target.target import Target

N, D = 300, 4
NAMES = [f"x{k}" for k in range(D)]
FEATURES = dict.fromkeys(NAMES, "{ sd = 1.0 }")
#: All that a report tells of rows.
TOLD = (
    "n_rows", "effective_rows", "largest_share", "difference_before", "difference_after",
    "outcome_mean", "outcome_sd", "risk", "variance",
)  # fmt: skip


def reports(site, came):
    """What a source says before and after `came` patients were appended, and all its rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + came, D))
    y = X.sum(axis=1) + rng.normal(size=len(X))
    found = []
    for name, n in (("first", N), ("second", N + came)):
        site.write(X[:n], NAMES, outcome=y[:n])
        agreed = site.study(name, FEATURES)
        rows = np.random.default_rng(2).normal(size=(200, D))
        brief = Target(rows, agreed.study.plan(), policy=Policy.open()).brief(["abbey"])
        found.append(site.answer(agreed, brief))
        assert isinstance(found[-1], RiskReport)
    return *found, brief, X


def test_the_second_report_tells_nothing_of_the_patient_who_came(make_site):
    first, second, *_ = reports(make_site(), 1)
    for name in TOLD:
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def test_ten_who_came_are_told_together(make_site):
    first, second, brief, X = reports(make_site(), 10)
    learnt = (N + 10) * second.difference_before - N * first.difference_before
    together = ((X[N:] - brief.mean) / brief.sd).sum(axis=0)
    assert learnt == pytest.approx(together, abs=0.3)  # so the subtraction itself is right
    nearest = np.abs(learnt / 10.0 - (X[N:] - brief.mean) / brief.sd).max(axis=1).min()
    assert nearest > 0.5  # their mean is no patient's row
