"""A7: two briefs of a table that has grown by one patient, subtracted.

(n + 1) times the new means less n times the old ones are the new patient's features: all ten to
5e-15 before, in 20 of 20, and rounding alone leaves them at a third of an sd. Now the second brief
says the first one's numbers again, to the bit, and the difference says nothing.
"""

import numpy as np
import pytest

N, D, TIMES = 50, 10, 20
NAMES = [f"x{k}" for k in range(D)]
FEATURES = dict.fromkeys(NAMES, "{ sd = 1.0 }")


def newcomer(first, second):
    """The attack, by somebody who knows how many rows there are."""
    return (N + 1) * second.mean - N * first.mean


def two_briefs(site, seed, extra=""):
    X = np.random.default_rng(seed).normal(size=(N + 1, D))
    site.configure(extra)
    site.write(X[:N], NAMES)
    first = site.announce(site.study("first", FEATURES))
    site.write(X, NAMES)
    return first, site.announce(site.study("second", FEATURES)), X[N]


def test_the_second_brief_tells_nothing_of_the_patient_who_came(make_site):
    equal, learnt, from_first = 0, [], []
    for seed in range(TIMES):
        first, second, patient = two_briefs(make_site(f"site{seed}"), seed)
        told = ("n_rows", "mean", "sd", "correlations")
        equal += all(np.array_equal(getattr(first, x), getattr(second, x)) for x in told)
        learnt.append(newcomer(first, second) - patient)
        from_first.append(first.mean - patient)
    assert equal == TIMES  # 20 of 20
    # As far off as the first table alone leaves a patient whom it does not hold.
    assert np.allclose(learnt, from_first, rtol=0.0, atol=1e-12)
    assert np.std(learnt) > 0.9


def test_rounding_alone_would_not_be_enough(make_site):
    """So the attack works where the rule is off: a third of an sd instead of one."""
    off = "[policy]\nmin_changed_rows = 0\nmin_changed_share = 0.0\n"
    errors = []
    for seed in range(5):
        first, second, patient = two_briefs(make_site(f"site{seed}"), seed, off)
        errors.append(newcomer(first, second) - patient)
    assert np.median(np.abs(errors)) < 0.5


@pytest.mark.parametrize("change", ["one leaves", "one is corrected", "nineteen come"])
def test_neither_does_any_other_small_change_of_the_rows(make_site, change):
    X = np.random.default_rng(0).normal(size=(N + 19, D))
    site = make_site()
    site.write(X[:N], NAMES)
    first = site.announce(site.study("first", FEATURES))
    later = {"one leaves": X[: N - 1], "nineteen come": X}.get(change, X[:N].copy())
    if change == "one is corrected":
        later[3, 2] += 1.0
    site.write(later, NAMES)
    assert site.announce(site.study("second", FEATURES)).table == first.table


def test_other_columns_of_nearly_the_same_rows_are_refused(make_site):
    """A column less, and the numbers of the others would tell of the patient all the same."""
    X = np.random.default_rng(0).normal(size=(N + 1, D))
    site = make_site()
    site.write(X[:N], NAMES)
    site.announce(site.study("first", FEATURES))
    site.write(X, NAMES)
    fewer = dict.fromkeys(NAMES[1:], "{ sd = 1.0 }")
    assert site.announce(site.study("second", fewer)) == "cohort_changed"


def test_another_name_of_the_cohort_does_not_help(make_site):
    first, second, _ = two_briefs(make_site(), 0, 'cohort = "a"')
    assert first.table == second.table
    site = make_site("renamed")
    X = np.random.default_rng(0).normal(size=(N + 1, D))
    site.write(X[:N], NAMES)
    first = site.announce(site.study("first", FEATURES))
    site.configure('cohort = "another"')
    site.write(X, NAMES)
    assert site.announce(site.study("second", FEATURES)).table == first.table
