"""What travels does not grow with the rows, and holds no cell of a table."""

import dataclasses
import json
import re
import struct

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from fedcsa.core.batches import HeldBatches
from fedcsa.errors import ModelError
from fedcsa.messages.codec import digest, encode
from fedcsa.messages.messages import ModelRequest
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.source.source import Source
from fedcsa.target.target import Target

FEATURES = ("age", "pressure", "dose")


def plan_of(model="ridge", candidates=(0.0, 0.1, 1.0), **options):
    description = model_description(model)
    if candidates is not None:
        candidates = list(candidates)
    return Plan(
        features=FEATURES,
        model=description,
        candidates=expand_candidates(description["name"], candidates),
        **options,
    )


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [10.0, 20.0, 0.5] + [50.0, 120.0, 2.0]
    return X, X @ [0.1, 0.02, 1.0] + rng.normal(size=n)


def answers(brief, X, y, policy=None):
    """The source's report and its model of the second candidate."""
    source = Source("a", X, y, features=FEATURES, policy=policy or Policy.open())
    report = source.answer(brief)
    model = source.answer(ModelRequest(brief.study, digest(encode(brief)), 0))
    return report, model


def skeleton(message, tools):
    """The wire without the digits of its numbers."""
    wire = encode(message)
    header, payload = tools.split(wire)
    values = json.dumps(header["values"])
    in_words = re.sub(r"(?<=[\[ ,:])-?\d+(\.\d+)?([eE][-+]?\d+)?(?=[,}\]])", "0", values)
    return header["kind"], header["shapes"], in_words, len(payload)


BY_ROWS = {"regularizations": [0.1], "bandwidths": [2.0]}  # one value: no edge to report
CASES = [
    {},
    {"compare": ("feddae",)},
    {"method": "feddae"},
    {"method": "feddae", "scheme": "split"},
    {"method": "feddae", "exchange": "rows", "ratio": BY_ROWS},
    {"scale": False},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_doubling_the_rows_of_a_source_changes_no_shape_and_no_byte_but_digits(tools, options):
    plan = plan_of(**options)
    brief = Target(rows(30, 1)[0], plan, policy=Policy.open()).brief(["a"])
    X, y = rows(36)
    once = answers(brief, X, y)
    twice = answers(brief, np.vstack([X, X]), np.concatenate([y, y]))
    for before, after in zip(once, twice, strict=True):
        assert skeleton(before, tools) == skeleton(after, tools)
        arrays = [len(tools.split(encode(message))[1]) for message in (before, after)]
        assert arrays[0] == arrays[1]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_no_field_of_a_source_has_a_shape_that_depends_on_its_rows(tools, options):
    plan = plan_of(**options)
    brief = Target(rows(30, 1)[0], plan, policy=Policy.open()).brief(["a"])
    seen = set()
    for n in (18, 30, 75, 301):
        seen.add(str([tools.split(encode(m))[0]["shapes"] for m in answers(brief, *rows(n, n))]))
    assert len(seen) == 1


@pytest.mark.parametrize("n", [[100, 4000], [20, 30]])  # with correlations, and without
def test_no_shape_of_a_table_depends_on_the_rows_of_the_target(tools, n):
    briefs = [Target(rows(k)[0], plan_of(), policy=Policy.open()).brief([]) for k in n]
    assert skeleton(briefs[0], tools) == skeleton(briefs[1], tools)


def cells_found(wire, *tables):
    """How many cells of the tables are in the wire, as bytes in either order or as text."""
    found = 0
    for table in tables:
        for cell in np.ravel(table).tolist():
            patterns = (struct.pack("<d", cell), struct.pack(">d", cell), repr(cell).encode())
            found += any(pattern in wire for pattern in patterns)
    return found


@pytest.mark.parametrize("n", [2, 7, 200])
def test_a_table_contains_no_cell_of_the_target(n):
    X, _ = rows(n)
    wire = encode(Target(X, plan_of(), policy=Policy.open()).brief(["a"]))
    assert cells_found(wire, X) == 0


@pytest.mark.parametrize("n", [2, 7, 200])
def test_a_brief_by_rows_contains_every_cell_of_the_target(n):
    X, _ = rows(n)
    wire = encode(
        Target(X, plan_of(method="feddae", exchange="rows"), policy=Policy.open()).brief(["a"])
    )
    assert cells_found(wire, X) == X.size


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("model", ["ridge", "weighted-least-squares"])
def test_no_answer_of_a_source_contains_a_cell_of_its_table(options, model):
    plan = plan_of(model, **options)
    brief = Target(rows(30, 1)[0], plan, policy=Policy.open()).brief(["a"])
    X, y = rows(36)
    for message in answers(brief, X, y):
        assert cells_found(encode(message), X, y, (X - brief.mean) / brief.sd) == 0


@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsRegressor(1),
        SVR(C=100.0),
        GaussianProcessRegressor(alpha=0.1),
        DecisionTreeRegressor(),
        RandomForestRegressor(3),
        make_pipeline(StandardScaler(), BaggingRegressor(SVR(), 2)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_under_the_strict_policy_no_model_carries_the_rows_it_was_fitted_on(estimator):
    plan = plan_of(estimator, None, scale=False)
    brief = Target(rows(60, 1)[0], plan, policy=Policy.open()).brief(["a"])
    X, y = rows(120)
    for message in answers(brief, X, y, policy=Policy()):
        assert cells_found(encode(message), X, y) == 0


@pytest.mark.parametrize(
    "alias",
    [
        "sklearn.svm._classes.SVR",
        "sklearn.svm._classes.NuSVR",
        "sklearn.neighbors._regression.KNeighborsRegressor",
        "sklearn.gaussian_process._gpr.GaussianProcessRegressor",
    ],
)
def test_a_model_that_keeps_rows_is_refused_under_any_name(alias):
    brief = Target(rows(60, 1)[0], plan_of(), policy=Policy.open()).brief(["a"])
    forged = dataclasses.replace(
        brief,
        model={"name": "sklearn", "estimator": {"class": alias, "parameters": {}}},
        candidates=[{}],
    )
    source = Source("a", *rows(120), features=FEATURES, policy=Policy())
    with pytest.raises(ModelError, match="by its own name"):
        source.answer(forged)


@pytest.mark.parametrize("compare", [(), ("feddae",)])
def test_a_report_has_no_more_numbers_than_a_few_per_candidate_and_feature(tools, compare):
    plan = plan_of(candidates=np.linspace(0.0, 1.0, 50), compare=compare)
    brief = Target(rows(30, 1)[0], plan, policy=Policy.open()).brief(["a"])
    report, model = answers(brief, *rows(300))
    shapes = tools.split(encode(report))[0]["shapes"]
    moments = {"loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment"}
    count = len(brief.candidates)
    for name, shape in shapes.items():
        told = {"risk": count, "variance": count, "outcome_mean": 1}
        told |= dict.fromkeys(moments, count if compare else 0)
        assert shape == [told.get(name, 3)], name  # three features, and three pairs of them
    assert tools.split(encode(model))[0]["shapes"] == {
        "arrays": {"coefficients": ["f8", 3], "intercept": ["f8", 1]}
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_within_a_band_no_byte_tells_how_many_rows_there_are(streamed):
    X, y = rows(210)
    brief = Target(rows(100, seed=1)[0], plan_of()).brief(["a"])

    def told(n):
        if streamed:
            source = Source.streaming("a", HeldBatches(FEATURES, X[:n], y[:n]))
        else:
            source = Source("a", X[:n], y[:n], features=FEATURES)
        report = source.answer(brief)
        model = source.answer(ModelRequest(brief.study, digest(encode(brief)), 1))
        assert report.n_rows == model.n_rows
        return encode(report), encode(model), report.n_rows

    assert told(200) == told(201) == told(209)
    assert told(209)[2] == 200
    assert told(210)[2] == 210
