"""A15: one patient at a source alone has a flag; the target wants that patient's other features.

Where a target does not tell its correlations, because it has flags or many columns, a source tells
its own, weighted. Those with a flag that one patient alone has are, up to scale, that patient's
other columns: in an honest study they gave all eleven to 0.014 sd, 20 times of 20.
"""

import dataclasses

import numpy as np
import pytest

from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

NAMES = (*"abcdefghijk", "rare")
OTHERS, ROWS, STUDIES = len(NAMES) - 1, 300, 5


def table(rng, n, share):
    return np.column_stack([rng.normal(size=(n, OTHERS)), rng.uniform(size=n) < share]) * 1.0


def reported(seed, patients, policy):
    """The source's report, the brief, and the rows in the target's units."""
    rng = np.random.default_rng(seed)
    told, X = table(rng, 200, 0.03), table(rng, ROWS, 0.0)
    X[:patients, -1] = 1.0
    candidates = expand_candidates("ridge", [0.1])
    plan = Plan(features=NAMES, model=model_description("ridge"), candidates=candidates)
    brief = Target(told, plan).brief(["s"])
    y = X[:, 0] + rng.normal(size=ROWS)
    report = Source("s", X, y, features=NAMES, policy=policy).answer(brief)
    assert report.name == "risk-report"
    return report, brief, (X - brief.mean) / brief.sd


def solved(report, brief):
    """The other features of whoever has the flag, in the target's units."""
    R = np.zeros((OTHERS + 1, OTHERS + 1))
    R[np.triu_indices(OTHERS + 1, 1)] = report.correlations
    mean = report.difference_after
    share = mean[-1] * brief.sd[-1] + brief.mean[-1]
    return mean[:-1] + R[:-1, -1] * np.sqrt(share * (1.0 - share)) / share


def test_without_the_rule_a_row_leaves():
    """The attack works where a site switches the rule off: the test below tests something."""
    policy = dataclasses.replace(Policy(), max_row_share=1.0)
    for seed in range(STUDIES):
        report, brief, seen = reported(seed, 1, policy)
        assert np.median(np.abs(solved(report, brief) - seen[0, :-1])) < 0.05


@pytest.mark.parametrize("patients", [1, 2, 4])
def test_correlations_of_a_flag_that_few_have_are_not_told(patients):
    for seed in range(STUDIES):
        report, _, _ = reported(seed, patients, Policy())
        assert report.correlations.size == 0


def test_what_many_have_tells_no_row():
    found = []
    for seed in range(STUDIES):
        report, brief, seen = reported(seed, 30, Policy())
        assert report.correlations.size
        found.append(solved(report, brief) - seen[0, :-1])
    assert np.sqrt(np.mean(np.square(found))) > 0.8  # guessing the mean misses by 1


# The same at the target -------------------------------------------------------------------------


def told_by_the_target(seed, policy):
    """What a source solves for the only one with a 1 in a column that is not called a flag."""
    rng = np.random.default_rng(seed)
    n, names = 500, tuple("abcdr")
    X = np.column_stack([rng.normal(size=(n, 4)), np.arange(n) == 0]) * 1.0
    candidates = expand_candidates("ridge", [0.1])
    plan = Plan(features=names, model=model_description("ridge"), candidates=candidates)
    brief = Target(X, plan, policy=policy).brief(["s"])
    if not brief.correlations.size:
        return None
    share = 1.0 / n
    solution = brief.correlations[4, :4] * np.sqrt(share * (1.0 - share)) / share
    return solution - ((X[0] - brief.mean) / brief.sd)[:4]


def test_a_target_tells_no_correlations_of_a_column_that_one_patient_makes():
    off = dataclasses.replace(Policy(), min_level_rows=0)
    for seed in range(STUDIES):
        assert np.abs(told_by_the_target(seed, off)).max() < 0.25  # the attack works without
        assert told_by_the_target(seed, Policy()) is None
