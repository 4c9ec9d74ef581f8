"""A message checks itself, cannot be changed, and shows no data."""

import dataclasses
import math

import numpy as np
import pytest
from sklearn.svm import SVR

from fedcsa.errors import MessageError
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.fields import wire_field
from fedcsa.messages.messages import MESSAGES, REASONS, ModelRequest, Refusal
from fedcsa.messages.policy import LedgerEntry, entries_of
from fedcsa.models.description import thaw
from fedcsa.models.fitted import EstimatorModel


def arrays_of(message):
    return dict(message.buffers())


# What every message is -------------------------------------------------------------------------


def test_every_kind_of_message_is_known_by_its_name():
    assert set(MESSAGES) == {
        "brief", "risk-report", "more-candidates", "model-request", "model-report",
        "examination", "examination-report", "refusal", "backtest-report", "conclusion",
    }  # fmt: skip
    assert all(cls.name == name for name, cls in MESSAGES.items())


def test_every_field_of_every_message_has_a_known_kind():
    known = {"text", "whole", "number", "flag", "plain", "vector", "matrix", "blob", "arrays"}
    for cls in MESSAGES.values():
        assert set(cls.kinds.values()) <= known
        # Only an object of this process is no field of the wire.
        assert {item.name for item in dataclasses.fields(cls)} - cls.kinds.keys() <= {"held"}


#: None of them has a row a patient: cells hold several, the others are of agreed size.
MATRICES = {
    "examination-report": {"scores", "score_sums", "measure_variance", "residuals"},
    "backtest-report": {"measures"},
}


def test_no_other_field_of_a_source_is_a_matrix():
    for name in set(MESSAGES) - {"brief", "model-request", "examination"}:
        kinds = MESSAGES[name].kinds
        found = {field for field, kind in kinds.items() if kind == "matrix"}
        assert found == MATRICES.get(name, set())


def test_arrays_are_read_only(message):
    for array in arrays_of(message).values():
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):  # nor can anybody make it writable
            array.flags.writeable = True


def test_a_masked_array_hides_nothing_that_is_not_finite(messages):
    hidden = np.ma.array([1.0, np.nan], mask=[False, True])
    with pytest.raises(MessageError, match="must be finite"):
        dataclasses.replace(messages["model-report"], arrays={"coefficients": hidden})


def test_fields_cannot_be_set(message):
    for item in dataclasses.fields(message):
        with pytest.raises(dataclasses.FrozenInstanceError, match=item.name):
            setattr(message, item.name, getattr(message, item.name))


def test_nested_values_cannot_be_changed(messages):
    brief = messages["brief"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        brief.model["name"] = "other"
    with pytest.raises(TypeError, match="does not support item assignment"):
        brief.candidates[0]["penalty"] = 3.0
    with pytest.raises(TypeError, match="does not support item assignment"):
        brief.features[0] = "other"


def test_messages_are_unhashable(message):
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_a_message_equals_its_copy_and_nothing_else(message):
    assert message == dataclasses.replace(message)
    assert message != dataclasses.replace(message, study="another")
    assert message != "message"
    assert not message == object()  # noqa: SIM201 - __eq__ itself


def test_messages_of_different_kinds_differ(messages):
    assert messages["model-request"] != messages["refusal"]


def test_messages_that_differ_in_one_array_element_differ(messages):
    report = messages["risk-report"]
    moved = report.difference_after.copy()
    moved[-1] = np.nextafter(moved[-1], np.inf)
    assert report != dataclasses.replace(report, difference_after=moved)


def test_repr_names_shapes_and_holds_no_value(message):
    text = repr(message)
    assert text.startswith(type(message).__name__)
    for name, array in arrays_of(message).items():
        assert f"{name}{array.shape}" in text
        for value in np.ravel(array).tolist():
            if value not in (0.0, 1.0, 2.0) and isinstance(value, float):
                assert repr(value)[:6] not in text
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        if isinstance(value, float) and value != 0.0:
            assert repr(value)[:6] not in text


def test_thaw_gives_plain_lists_and_dictionaries(messages):
    thawed = thaw(messages["brief"].candidates)
    assert thawed == [{"penalty": 0.0}, {"penalty": 1.0}]
    assert type(thawed) is list
    assert type(thawed[0]) is dict


# Kinds of fields ---------------------------------------------------------------------------------

WHOLE = "must be a whole number from 0 up"
NUMBER = "must be a finite number"
TEXT = "must be a text of at most 200 characters"


@pytest.mark.parametrize("value", [None, 5, b"x", ["x"], "x" * 201])
def test_a_text_is_a_short_string(value):
    with pytest.raises(MessageError, match=f"refusal.rule {TEXT}"):
        Refusal("study", "a", "digest", value)


def test_a_text_of_two_hundred_characters_passes():
    assert len(Refusal("study", "a", "digest", "é" * 200).rule) == 200


@pytest.mark.parametrize("reason", ["two\nlines", "\x1b[2J", "\u202egnorw", "x" * 201])
def test_a_reason_that_could_do_harm_where_it_is_shown_is_no_message(reason):
    with pytest.raises(MessageError):
        Refusal("study", "a", "digest", "approval", reason)
    assert Refusal("study", "a", "digest", "approval", "nicht geprüft: §3").reason


@pytest.mark.parametrize("value", [-1, 2**63, 1.0, True, "1", None, np.int64(-1), np.float64(1)])
def test_a_whole_number_is_an_integer_from_zero_up(value):
    with pytest.raises(MessageError, match=f"model-request.candidate {WHOLE}"):
        ModelRequest("study", "digest", value)


@pytest.mark.parametrize("value", [0, 2**63 - 1, np.int64(7), np.uint8(7)])
def test_a_whole_number_becomes_an_int(value):
    request = ModelRequest("study", "digest", value)
    assert request.candidate == value
    assert type(request.candidate) is int


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1.0", None, 1j])
def test_a_number_is_finite_and_real(messages, value):
    with pytest.raises(MessageError, match=f"risk-report.ratio_mean {NUMBER}"):
        dataclasses.replace(messages["risk-report"], ratio_mean=value)


def test_a_whole_number_too_large_for_a_float_is_not_a_number(messages):
    with pytest.raises(MessageError, match=NUMBER):
        dataclasses.replace(messages["risk-report"], ratio_mean=10**400)


@pytest.mark.parametrize("value", [1, np.float32(1.0), np.float64(1.0)])
def test_a_number_becomes_a_float(messages, value):
    asked = dataclasses.replace(messages["examination"], own_weight=value, weights=np.zeros(1))
    assert type(asked.own_weight) is float
    assert asked.own_weight == 1.0


@pytest.mark.parametrize("value", [0, 1, None, "true", np.bool_(True)])
def test_a_flag_is_true_or_false(messages, value):
    with pytest.raises(MessageError, match=r"brief.scale must be true or false"):
        dataclasses.replace(messages["brief"], scale=value)


@pytest.mark.parametrize(
    "value",
    [
        [0.0, 1.0],
        None,
        np.zeros((2, 1)),
        np.array(1.0),
        np.zeros(2, dtype=np.float32),
        np.zeros(2, dtype=int),
        np.zeros(2, dtype=">f8"),
        np.array(["a", "b"]),
        np.zeros(2, dtype=object),
    ],
)
def test_a_vector_is_one_dimension_of_float64(messages, value):
    with pytest.raises(MessageError, match=r"mean must be an array of 1 dimension\(s\) of float64"):
        dataclasses.replace(messages["brief"], mean=value)


@pytest.mark.parametrize("value", [np.zeros(2), np.zeros((1, 1, 1)), np.zeros((0, 2), dtype=int)])
def test_a_matrix_is_two_dimensions_of_float64(messages, value):
    with pytest.raises(MessageError, match=r"rows must be an array of 2 dimension\(s\) of float64"):
        dataclasses.replace(messages["brief"], rows=value)


@pytest.mark.parametrize("value", [b"abc", np.zeros(3), np.zeros(3, dtype=np.int8)])
def test_a_blob_is_an_array_of_bytes(messages, value):
    with pytest.raises(
        MessageError, match=r"summary must be an array of 1 dimension\(s\) of uint8"
    ):
        dataclasses.replace(messages["conclusion"], summary=value)


ARRAYS_BY_NAME = [
    (None, "at most 1000 arrays by name"),
    ([np.zeros(1)], "at most 1000 arrays by name"),
    ({f"a{k}": np.zeros(1) for k in range(1001)}, "at most 1000 arrays by name"),
    ({1: np.zeros(1)}, "short names of small letters"),
    ({"": np.zeros(1)}, "short names of small letters"),
    ({"Alice Müller": np.zeros(1)}, "short names of small letters"),
    ({"a" * 61: np.zeros(1)}, "short names of small letters"),
    ({"a": [1.0]}, "float64 or int32"),
    ({"a": np.zeros(1, np.float32)}, "float64 or int32"),
    ({"a": np.zeros(1, np.int64)}, "float64 or int32"),
    ({"a": np.zeros(1, np.uint8)}, "float64 or int32"),
    ({"a": np.zeros(1, object)}, "float64 or int32"),
    ({"a": np.zeros(1, "datetime64[s]")}, "float64 or int32"),
    ({"a": np.zeros(1, ">f8")}, "float64 or int32"),
    ({"a": np.zeros((1, 1, 1))}, "at most 2 dimensions"),
    ({"a": np.array([np.nan])}, "a must be finite"),
    ({"a": np.array([np.inf])}, "a must be finite"),
    ({"a": np.broadcast_to(0.0, (1 << 23) + 1)}, "at most 67108864 bytes in all"),
]


@pytest.mark.parametrize(("value", "rule"), ARRAYS_BY_NAME)
def test_arrays_by_name_are_short_names_and_small_arrays(messages, value, rule):
    with pytest.raises(MessageError, match=rule):
        dataclasses.replace(messages["model-report"], arrays=value)


def test_arrays_by_name_cannot_be_changed_and_stand_in_alphabetical_order(messages):
    mine = {"b": np.zeros((2, 2)), "a": np.array([1], np.int32), "c": np.array(1.5)}
    report = dataclasses.replace(messages["model-report"], arrays=mine)
    mine["b"][0, 0] = 7.0
    assert list(report.arrays) == ["a", "b", "c"]
    assert not report.arrays["b"].any()
    for array in report.arrays.values():
        assert not array.flags.writeable
    with pytest.raises(TypeError):
        report.arrays["d"] = np.zeros(1)


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.zeros(3)},
        {"a": np.ones(2)},
        {"a": np.zeros(2, np.int32)},
        {"b": np.zeros(2)},
        {"a": np.zeros(2), "b": np.zeros(2)},
    ],
)
def test_arrays_by_name_are_compared_by_name_type_and_value(messages, other):
    report = dataclasses.replace(messages["model-report"], arrays={"a": np.zeros(2)})
    assert report == dataclasses.replace(report, arrays={"a": np.zeros(2)})
    assert report != dataclasses.replace(report, arrays=other)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_arrays_are_finite(messages, value):
    for name in ("loss_mean", "difference_after"):
        report = messages["risk-report"]
        spoilt = getattr(report, name).copy()
        spoilt[-1] = value
        with pytest.raises(MessageError, match=f"risk-report.{name} must be finite"):
            dataclasses.replace(report, **{name: spoilt})


def test_an_array_that_is_not_contiguous_is_kept_by_value(messages):
    brief = messages["brief"]
    strided = np.zeros((2, 2))[:, 0]
    strided[:] = brief.mean
    assert dataclasses.replace(brief, mean=strided) == brief


def nested(depth):
    value = 0.0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({"a": math.nan}, "must hold finite numbers"),
        ({"a": math.inf}, "must hold finite numbers"),
        ({"a": 2**63}, "must hold finite numbers"),
        ({"a": -(2**63)}, "must hold finite numbers"),
        ({"a": 10**400}, "must hold finite numbers"),
        ({1: "a"}, "must have short texts as keys"),
        ({"k" * 201: 1}, "must have short texts as keys"),
        ({"a": "t" * 2001}, "must hold texts of at most 2000 characters"),
        ({"a": {1, 2}}, "must hold plain values only"),
        ({"a": b"bytes"}, "must hold plain values only"),
        ({"a": np.zeros(2)}, "must hold plain values only"),
        ({"a": print}, "must hold plain values only"),
        ({"a": nested(100)}, "must not be nested more than"),
    ],
)
def test_plain_values_are_json_and_nothing_more(messages, value, rule):
    with pytest.raises(MessageError, match=f"brief.model {rule}"):
        dataclasses.replace(messages["brief"], model=value)


@pytest.mark.parametrize(
    "value",
    [{"a": None, "b": [True, False, 1, -1, 2**63 - 1, 1e308, 5e-324, "t" * 2000]}, {"": {}}, {}],
)
def test_plain_values_survive_unchanged(messages, value):
    assert thaw(dataclasses.replace(messages["brief"], model=value).model) == value


# Rules of the brief ------------------------------------------------------------------------------

TWO = np.array([1.0, 2.0])
NONE = np.empty((0, 0))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"features": [], "mean": np.empty(0), "sd": np.empty(0)}, "distinct features"),
        ({"features": ["x", "x"]}, "distinct features"),
        ({"features": ["x", 1]}, "features that are texts"),
        ({"features": ["x", None]}, "features that are texts"),
        ({"classes": ["no", "no"]}, "distinct classes"),
        ({"model": ["ridge"]}, "a model description"),
        ({"model": "ridge"}, "a model description"),
        ({"ratio": [1.0]}, "options of the ratio by name"),
        ({"candidates": []}, "candidates, unless the model is given"),
        ({"model": {"name": "given"}}, "candidates, unless the model is given"),
        ({"model": {"name": "given"}, "candidates": []}, "raw units for a given model"),
        ({"candidates": [0.1]}, "candidates by name"),
        ({"candidates": [{}, "penalty"]}, "candidates by name"),
        ({"flags": [False]}, "a flag, true or false, per feature"),
        ({"flags": [False, 1]}, "a flag, true or false, per feature"),
        ({"group": "x0"}, "a group that is not a feature"),
        ({"exchange": "pigeon"}, "exchange 'table' or 'rows'"),
        ({"n_rows": 1}, "at least 2 target rows"),
        ({"n_rows": 0}, "at least 2 target rows"),
        ({"mean": np.zeros(3)}, "one mean and one sd per feature"),
        ({"sd": np.ones(1)}, "one mean and one sd per feature"),
        ({"sd": np.array([1.0, 0.0])}, "positive standard deviations"),
        ({"sd": np.array([1.0, -1.0])}, "positive standard deviations"),
        ({"shares": TWO}, "three fold shares"),
        ({"shares": np.ones(4)}, "three fold shares"),
        ({"rows": np.zeros((1, 2))}, "rows if and only if they are exchanged"),
        ({"rows": np.zeros((0, 3))}, "rows if and only if they are exchanged"),
        ({"correlations": np.eye(3)}, "correlations of its features, or none"),
        ({"correlations": np.zeros((0, 2))}, "correlations of its features, or none"),
        ({"correlations": 9.0 * np.eye(2) - 8.0}, "a table that does not contradict itself"),
        ({"flags": [True, False], "correlations": NONE}, "a table that does not contradict"),
        ({"n_rows": 10}, "a table that does not contradict itself"),
    ],
)
def test_a_brief_whose_parts_contradict_each_other_is_refused(messages, changes, rule):
    with pytest.raises(MessageError, match=f"A brief message must have .*{rule}"):
        dataclasses.replace(messages["brief"], **changes)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"n_rows": 199}, "rows if and only if they are exchanged"),
        ({"rows": np.zeros((200, 3))}, "rows if and only if they are exchanged"),
        ({"rows": np.zeros((0, 2))}, "rows if and only if they are exchanged"),
        ({"correlations": np.eye(2)}, "correlations of its features, or none"),
    ],
)
def test_a_brief_with_rows_holds_the_rows_and_no_correlations(messages, changes, rule):
    with pytest.raises(MessageError, match=f"A brief message must have {rule}"):
        dataclasses.replace(messages["brief-rows"], **changes)


@pytest.mark.parametrize("classes", [[], ["no", "yes"], [0, 1, 2], [0, "0"], [None, False, 0]])
def test_classes_are_told_apart_by_type_and_value(messages, classes):
    assert list(dataclasses.replace(messages["brief"], classes=classes).classes) == classes


# Rules of the risk report ------------------------------------------------------------------------

RATIOS = np.array([0.2, 0.5, 0.8, 1.0, 1.0, 1.2, 1.5, 1.8])
LOSSES = np.column_stack([RATIOS[::-1], 1.0 + RATIOS**2, np.arange(8.0)])


@pytest.fixture
def report(tools):
    """Eight judged rows of twenty-four, three candidates."""
    return tools.crafted(RATIOS, LOSSES)


CANDIDATES = "the same number of candidates throughout"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"variance": np.zeros(4)}, CANDIDATES),
        ({"risk": np.zeros(2)}, CANDIDATES),
        ({"risk": np.empty(0)}, "the same number of candidates throughout"),
        ({"risk": np.zeros(2), "variance": np.zeros(2)}, CANDIDATES),
        ({"loss_mean": np.zeros(4)}, "all moments or none"),
        ({"loss_m2": np.zeros(4)}, "all moments or none"),
        ({"product_mean": np.zeros(1)}, "all moments or none"),
        ({"product_m2": np.empty(0)}, "all moments or none"),
        ({"co_moment": np.zeros(2)}, "all moments or none"),
        ({"difference_before": np.zeros(3)}, "the same features throughout"),
        (
            {"difference_before": np.empty(0), "difference_after": np.empty(0)},
            "the same features throughout",
        ),
        ({"correlations": np.zeros(2)}, "a correlation for every pair, or none"),
        ({"correlations": np.array([-1.06])}, "correlations between -1 and 1"),
        ({"outcome_mean": np.empty(0)}, "a mean outcome"),
        ({"n_judged": 0}, "1 ≤ n_judged ≤ n_rows"),
        ({"n_judged": 25}, "1 ≤ n_judged ≤ n_rows"),
        ({"n_folds": 0}, "folds, unless every candidate failed"),
        ({"n_folds": 0, "failed": {"0": "a", "1": "b"}}, "folds, unless every candidate failed"),
        ({"ratio_mean": -1e-9}, "not negative"),
        ({"ratio_m2": -1e-9}, "not negative"),
        ({"effective_rows": -1.0}, "not negative"),
        ({"largest_share": -0.1}, "not negative"),
        ({"variance": np.array([1.0, -1e-9, 1.0])}, "second moments that are not negative"),
        ({"loss_m2": np.array([1.0, -1e-9, 1.0])}, "second moments that are not negative"),
        ({"product_m2": np.array([-1.0, 1.0, 1.0])}, "second moments that are not negative"),
        ({"effective_rows": 9.0}, "effective rows ≤ n_judged"),
        ({"effective_rows": 0.0}, "all or no zero weights"),
        ({"largest_share": 0.0}, "all or no zero weights"),
        ({"largest_share": 0.1}, "a largest share of at least 1 / effective rows"),
        ({"largest_share": 0.5}, "a largest share of at most 1 / √"),
        ({"largest_share": 1e200}, "a largest share of at most 1 / √"),
        ({"co_moment": np.array([0.0, 1e6, 0.0])}, "moments that obey Cauchy–Schwarz"),
        ({"co_moment": np.array([-1e6, 0.0, 0.0])}, "moments that obey Cauchy–Schwarz"),
        ({"product_m2": np.zeros(3)}, "moments that obey Cauchy–Schwarz"),
        ({"failed": ["0"]}, "failures by candidate"),
        ({"failed": "0"}, "failures by candidate"),
        ({"failed": {"3": "ValueError"}}, "failures of known candidates"),
        ({"failed": {"-1": "ValueError"}}, "failures of known candidates"),
        ({"failed": {"zero": "ValueError"}}, "failures of known candidates"),
        ({"failed": {"": "ValueError"}}, "failures of known candidates"),
        ({"failed": {"01": "ValueError"}}, "failures of known candidates"),
        ({"failed": {"\u0661": "ValueError"}}, "failures of known candidates"),
        ({"failed": {"0" * 12: "ValueError"}}, "failures of known candidates"),
        ({"failed": {"0": 5}}, "failures of known candidates"),
        ({"findings": ["grid-edge"]}, "findings as code and evidence"),
        ({"findings": [{"code": "grid-edge"}]}, "findings as code and evidence"),
        (
            {"findings": [{"code": "grid-edge", "evidence": {}, "advice": "trust me"}]},
            "findings as code and evidence",
        ),
        ({"findings": [{"code": "grid-edge", "evidence": None}]}, "findings as code and evidence"),
        ({"findings": [{"code": "grid-edge", "evidence": "x"}]}, "findings as code and evidence"),
        ({"findings": [{"code": "grid-edge", "evidence": [1.0]}]}, "findings as code and evidence"),
        ({"findings": [{"code": 5, "evidence": {}}]}, "findings as code and evidence"),
        ({"findings": [{"code": "x", "evidence": {"a": None}}]}, "numbers and names as evidence"),
    ],
)
def test_a_report_whose_numbers_contradict_each_other_is_refused(report, changes, rule):
    assert (report.n_rows, report.n_judged, len(report.risk)) == (24, 8, 3)
    with pytest.raises(MessageError, match=f"A risk-report message must have .*{rule}"):
        dataclasses.replace(report, **changes)


def test_a_report_of_failures_alone_needs_no_folds(report):
    failed = {str(k): "TooFewOutcomes" for k in range(3)}
    assert dataclasses.replace(report, n_folds=0, failed=failed).n_folds == 0


@pytest.mark.parametrize("findings", [5, None, {}, "x", {"code": "grid-edge", "evidence": {}}])
def test_findings_are_a_list(report, findings):
    with pytest.raises(MessageError, match="finding"):
        dataclasses.replace(report, findings=findings)


def test_the_ratios_of_an_honest_report_may_all_be_zero(tools):
    report = tools.crafted(np.zeros(8), LOSSES)
    assert report.effective_rows == report.largest_share == report.ratio_mean == 0.0


def test_the_ratios_of_an_honest_report_may_be_all_the_same(tools):
    report = tools.crafted(np.full(8, 0.25), LOSSES)
    assert report.ratio_m2 == 0.0
    assert report.effective_rows == pytest.approx(8.0)


def test_one_row_may_carry_all_the_weight(tools):
    report = tools.crafted([0.0, 0.0, 0.0, 7.0], LOSSES[:4])
    assert report.largest_share == 1.0


@pytest.mark.parametrize("scale", [1e-200, 1e-170, 1e-150, 1e-120, 1e-99, 1e-80, 1e-9, 1e9, 1e80])
def test_the_ratios_of_an_honest_report_may_be_tiny_or_huge(tools, scale):
    # A far source: r is 1e-100 at sixteen standard deviations.
    assert tools.crafted(scale * RATIOS, LOSSES).largest_share == pytest.approx(0.225)


@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e-75, 1e75, 1e140])
def test_the_losses_of_an_honest_report_may_be_tiny_or_huge(tools, scale):
    assert tools.crafted(RATIOS, scale * LOSSES).largest_share == pytest.approx(0.225)


def test_rounding_may_push_a_share_or_a_count_just_over_its_bound(tools):
    report = tools.crafted(np.ones(8), LOSSES)
    pushed = dataclasses.replace(report, effective_rows=8.05, largest_share=0.1242)
    assert pushed.effective_rows == 8.05


def test_moments_beyond_cauchy_schwarz_are_refused_however_small(tools):
    report = tools.crafted(1e-60 * RATIOS, LOSSES)
    with pytest.raises(MessageError, match="Cauchy–Schwarz"):
        dataclasses.replace(report, co_moment=np.full(3, 1e-100))


def test_squares_that_underflow_do_not_make_an_honest_report_a_lie(tools):
    report = tools.crafted(RATIOS, 1e-200 * LOSSES)
    assert (report.product_m2 == 0.0).all()
    assert (report.co_moment != 0.0).any()


def test_the_imbalance_is_the_mean_square_of_the_differences_after_weighting(report):
    moved = dataclasses.replace(report, difference_after=np.array([3.0, -4.0]))
    assert moved.imbalance == 12.5


def test_the_moments_of_a_report_are_its_fields(report):
    moments = report.moments
    assert moments.n_rows == report.n_judged
    for name in ("ratio_mean", "ratio_m2"):
        assert getattr(moments, name) == getattr(report, name)
    for name in ("loss_mean", "loss_m2", "product_mean", "product_m2", "co_moment"):
        assert getattr(moments, name).tobytes() == getattr(report, name).tobytes()


# Rules of the model report -----------------------------------------------------------------------

#: A model that has no format, as an object.
OBJECT = EstimatorModel(SVR())


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"form": {}}, "one model, by its form"),
        ({"form": ["linear"]}, "one model, by its form"),
        ({"form": {"kind": 3}}, "one model, by its form"),
        ({"form": {"kind": "held", "class": "sklearn.svm.SVR"}}, "one model, by its form"),
        ({"held": OBJECT}, "one model, by its form"),
        ({"form": OBJECT.form, "held": OBJECT}, "the model's arrays, or an object"),
        ({"arrays": {}}, "the model's arrays, or an object"),
    ],
)
def test_a_model_report_holds_exactly_one_model(messages, changes, rule):
    with pytest.raises(MessageError, match=f"A model-report message must have {rule}"):
        dataclasses.replace(messages["model-report"], **changes)


def handed_over(messages):
    """A report and an examination that hand over an object."""
    report = dataclasses.replace(messages["model-report"], form=OBJECT.form, arrays={}, held=OBJECT)
    asked = messages["examination"]
    [(form, arrays)] = asked.members
    return report, dataclasses.replace(
        asked,
        weights=np.array([0.5, 0.5]),
        forms=[form, OBJECT.form],
        arrays={f"0.{name}": array for name, array in arrays.items()},
        held=(None, OBJECT),
    )


def test_a_message_that_hands_over_an_object_has_no_bytes_to_leave_in(messages):
    for message in handed_over(messages):
        with pytest.raises(MessageError, match="hands over an object cannot leave this process"):
            encode(message)


def test_a_ledger_names_the_class_that_was_handed_over(messages):
    for message in handed_over(messages):
        [entry] = entries_of(message, "a", ["target"])
        assert "held.sklearn.svm._classes.SVR" in [item.name for item in entry.fields]
        assert LedgerEntry.from_json(entry.to_json()) == entry


def test_messages_that_hand_over_different_objects_differ(messages):
    for message in handed_over(messages):
        other = EstimatorModel(SVR())
        held = other if message.name == "model-report" else (None, other)
        assert message == dataclasses.replace(message)
        assert message != dataclasses.replace(message, held=held)


# Rules of the examination ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"combine": "mode"}, "combine 'mean' or 'median'"),
        ({"own_weight": -0.1}, "an own weight between 0 and 1"),
        ({"own_weight": 1.1}, "an own weight between 0 and 1"),
        ({"own_weight": 0.5}, "weights that sum to one"),
        ({"weights": np.array([0.9])}, "weights that sum to one"),
        ({"weights": np.empty(0)}, "weights that sum to one"),
        ({"weights": np.array([1.5, -0.5])}, "weights that are not negative"),
        ({"weights": np.array([0.5, 0.5])}, "one row per member where one form is for all"),
        (
            {"weights": np.array([0.5, 0.5]), "arrays": {"0.value": np.zeros((3, 1))}},
            "one row per member where one form is for all",
        ),
        (
            {
                "weights": np.array([0.5, 0.5]),
                "arrays": {"0.value": np.zeros((2, 1)), "0.other": np.zeros((1, 2))},
            },
            "one row per member where one form is for all",
        ),
        (
            {"weights": np.array([0.5, 0.5]), "arrays": {"1.value": np.zeros((2, 1))}},
            "arrays of every member, and no others",
        ),
        (
            {"weights": np.full(3, 1 / 3), "forms": [{"kind": "linear"}] * 2},
            "one form per member, or one for all",
        ),
        ({"forms": {"kind": "linear"}}, "one form per member, or one for all"),
        ({"forms": [{"kind": "held"}]}, "members by their form"),
        ({"forms": [{}]}, "members by their form"),
        ({"held": (None, None)}, "no object, or one per member"),
        ({"arrays": {}}, "arrays of every member, and no others"),
        ({"arrays": {"1.value": np.zeros(1)}}, "arrays of every member, and no others"),
        ({"arrays": {"value": np.zeros(1)}}, "arrays of every member, and no others"),
        ({"arrays": {"00.value": np.zeros(1)}}, "arrays of every member, and no others"),
        ({"constant": np.empty(0)}, "a constant to compare with"),
    ],
)
def test_an_examination_holds_whole_members_with_weights(messages, changes, rule):
    asked = messages["examination"]
    assert (len(asked.weights), asked.own_weight) == (1, 0.0)
    with pytest.raises(MessageError, match=f"An examination message must have {rule}"):
        dataclasses.replace(asked, **changes)


def test_the_members_of_an_examination_are_told_apart_by_their_number(messages):
    report, asked = messages["model-report-trees"], messages["examination-trees"]
    assert len(asked.members) == 2
    for form, arrays in asked.members:
        assert form == report.form
        assert arrays.keys() == report.arrays.keys()
        assert all(np.array_equal(arrays[name], report.arrays[name]) for name in arrays)


def test_the_own_model_may_take_the_rest_of_the_weight(messages):
    asked = dataclasses.replace(messages["examination"], own_weight=0.75, weights=np.array([0.25]))
    assert asked.own_weight + asked.weights.sum() == 1.0


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"risk_variance": -1e-9}, "'risk_variance' that is not negative"),
        ({"explained": -1e-9}, "'explained' that is not negative"),
        ({"ratio_variance": -1e-9}, "'ratio_variance' that is not negative"),
        ({"level_variance": np.array([-1e-9])}, "variances that are not negative"),
        ({"level": np.zeros(2)}, "a variance for every level"),
        ({"reason": "tired"}, "a known reason"),
        ({"reason": "no_loss"}, "a reason or an estimate"),
        ({"level": np.empty(0), "level_variance": np.empty(0)}, "a reason or an estimate"),
    ],
)
def test_what_was_found_is_an_estimate_or_a_reason(messages, changes, rule):
    with pytest.raises(MessageError, match=f"An examination-report message must have {rule}"):
        dataclasses.replace(messages["examination-report"], **changes)


@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason])
def test_every_reason_stands_in_for_an_estimate(messages, reason):
    empty = dataclasses.replace(messages["examination-report-empty"], reason=reason)
    assert len(empty.level) == 0


# Every field damaged -----------------------------------------------------------------------------


def damaged(kind, value):
    """Values that a field may hold after an accident or a lie, of its own kind and of others."""
    yield from (
        None,
        "",
        "x" * 201,
        -1,
        10**400,
        2.5,
        math.nan,
        math.inf,
        True,
        b"\0",
        [],
        {},
        [None],
    )
    if kind == "text":
        yield from (value + "!", value[:-1], "\0", "\ud7ff")
    elif kind == "whole":
        yield from (value + 1, max(value - 1, 0), 0, 2**63 - 1, 2**63, np.int64(7))
    elif kind == "number":
        yield from (-value, value + 1.0, 0.0, -0.0, 1e200, -1e200, 5e-324, np.float32(1.5))
    elif kind == "flag":
        yield from (not value, 0, np.bool_(value))
    elif kind == "plain":
        yield from ([*value, *value], {"0": "a", "": [1]}, [[], {}], [{"code": "a"}], "ab", 5)
    elif kind == "arrays":
        yield from ({}, [*value.values()], {f"{name}!": array for name, array in value.items()})
        for name in value:
            whole = value[name].dtype == np.int32
            changes = damaged("blob" if whole else "vector", value[name])
            yield from ({**value, name: changed} for changed in changes)
            yield {key: value[key] for key in value if key != name}
    else:
        yield from (value.tolist(), value[:0], np.concatenate([value, value]), value[..., None])
        yield from (value.astype(np.float32), value.astype(object), value[:-1])
        filled = (0, 1, 255) if kind == "blob" else (0.0, 1.0, -1.0, 0.5, 1e200, -1e300, math.nan)
        yield from (np.full_like(value, number) for number in filled)
        yield from (np.full(shape, value.dtype.type(1)) for shape in ((1, 1), (3,), (0, 2), (2, 2)))


EVERY_FIELD = [(name, field) for name, cls in MESSAGES.items() for field in cls.kinds]


@pytest.mark.no_cover
@pytest.mark.parametrize(("name", "field"), EVERY_FIELD, ids=".".join)
def test_a_damaged_field_is_a_message_error_or_survives_its_bytes(messages, name, field):
    for message in (m for m in messages.values() if m.name == name):
        kind = message.kinds[field]
        refused = 0
        for value in damaged(kind, getattr(message, field)):
            try:
                changed = dataclasses.replace(message, **{field: value})
            except MessageError:
                refused += 1
                continue
            assert decode(encode(changed)) == changed
        assert refused


def test_a_message_derived_from_another_has_its_fields_too():
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class Longer(ModelRequest):
        name = "longer"
        reason: str = wire_field("text", str)

    assert list(Longer.kinds.items()) == [*ModelRequest.kinds.items(), ("reason", "text")]
    with pytest.raises(TypeError, match="does not support item assignment"):
        Longer.kinds["candidate"] = "text"
