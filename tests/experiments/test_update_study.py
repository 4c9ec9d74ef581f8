"""The study of a few outcomes: families, tables and bars, and that one study runs."""

import numpy as np
import pytest
from lib.common import RESULTS, ROOT
from lib.page import Results
from lib.update_families import FAMILIES, RULE, site, world
from lib.update_tables import bars_of, often_table, simulated_table, stroke_table
from update import interval_outcomes, simulated_outcomes, write_few_outcomes


def test_a_family_is_the_rule_it_says():
    rng = np.random.default_rng(0)
    for family in FAMILIES.values():
        drawn = family.target(rng)
        X, y = site("numbers", 4_000, np.zeros(4), 1.0, drawn, rng)
        mean = float((y - X @ RULE).mean())
        if not family.differs:
            assert mean == pytest.approx(0.0, abs=0.06)
        if family.name == "drift":
            assert mean == pytest.approx(0.5, abs=0.1)
        if family.name == "label shift":
            assert y.mean() > 0.3
        if family.name == "miscalibrated device":
            assert (X[:, 0].mean(), X[:, 0].std()) == pytest.approx((0.5, 0.8), abs=0.05)


def test_a_world_is_the_same_for_the_same_seed():
    one, two = (world(FAMILIES["drift"], "classes", 3) for _ in range(2))
    assert np.array_equal(one[1][0], two[1][0])
    assert set(np.unique(one[1][1])) == {0, 1}


def test_one_study_runs_and_its_tables_are_made():
    settings = simulated_outcomes.Settings(0, 1, (10,), often=2)
    found = simulated_outcomes.run_one("numbers", "shared rule", 1, settings)
    [line] = simulated_table([found])
    assert (line["studies"], line["outcomes"]) == (1, 10)
    assert line["width_ratio"] < 1.0
    assert often_table([found]) == []
    assert (
        often_table([{**found, "ever": {"missed": 0, "once": 1, "unlike": 0}}])[0]["studies"] == 1
    )


def test_what_outcomes_are_worth_is_told_by_their_error():
    draw = {"quantity": "Brier", "n": 25, "covered": 1.0, "width": 1.0, "worth": 90.0}
    draw |= {"error": 0.1, "alone_error": 0.2, "promised_error": 0.3, "one_row": 1.0}
    [line] = stroke_table([{"site": "a", "draws": [draw, {**draw, "error": -0.1}]}])
    assert line["as_good_as"] == pytest.approx(100.0)
    assert (line["countries"], line["draws"]) == (1, 2)


def test_every_bar_can_be_met_and_missed():
    def lines(coverage, width, gain):
        return [
            {
                "kind": kind, "family": family, "outcomes": str(n), "studies": "9",
                "coverage": coverage, "width_ratio": width, "gain": gain, "best": gain,
            }
            for kind in ("numbers", "classes")
            for family in FAMILIES
            for n in (10, 20, 50, 100)
        ]  # fmt: skip

    often = [{"family": "shared rule", "studies": "9", "anytime_missed": "0", "called_unlike": "0"}]
    often_bad = [{**often[0], "anytime_missed": "0.5", "called_unlike": "0.5"}]
    stroke = [{"quantity": "Brier", "outcomes": "25", "as_good_as": "100"}]
    good = bars_of(lines("0.95", "0.5", "0.8"), often, stroke)
    bad = bars_of(lines("0.5", "0.9", "1.2"), often_bad, [{**stroke[0], "as_good_as": "30"}])
    assert all(bar[3] for bar in good)
    assert not any(bar[3] for bar in bad)


@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        ("few-outcomes.md", write_few_outcomes.BLOCKS),
        ("per-patient.md", interval_outcomes.BLOCKS),
    ],
)
def test_the_page_is_what_the_results_say(page, blocks):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name, block in blocks.items():
        assert block(Results(RESULTS)) in text, name


def test_three_times_the_noise_widens_intervals_of_numbers():
    [found] = interval_outcomes.run_one(("numbers", "one rule", "noise 3 times as large", 0, (25,)))
    [row] = interval_outcomes.summary([found, {**found, "refused": 1}])
    assert (row["studies"], row["refused"], row["finding"]) == (1, 1, 1.0)
    assert row["before"] < 0.6 < 0.8 < row["now"]
    assert row["times"] > 2.0
