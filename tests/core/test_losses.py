"""Losses against values worked out by hand."""

import math

import numpy as np
import pytest

from fedcsa.core.losses import (
    CLASSIFICATION,
    LOG_FLOOR,
    REGRESSION,
    absolute,
    brier,
    log,
    loss_named,
    row_losses,
    squared,
    zero_one,
)
from fedcsa.errors import DataError, ModelError, ParameterError

PREDICTION = np.array([1.0, -2.0, 0.5, 3.0])
Y = np.array([1.0, 1.0, 0.0, 5.0])
#: Rows of probabilities over three classes, and the class that was seen.
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
CLASSES = np.array([0.0, 1.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("loss", "prediction", "y", "expected"),
    [
        (squared, PREDICTION, Y, [0.0, 9.0, 0.25, 4.0]),
        (absolute, PREDICTION, Y, [0.0, 3.0, 0.5, 2.0]),
        (log, PROBABILITIES, CLASSES, [-math.log(0.7), -math.log(0.3), -math.log(0.25), 0.0]),
        # ½(0.09 + 0.04 + 0.01), ½(0.01 + 0.49 + 0.36), ½(0.0625 + 0.25 + 0.5625), 0
        (brier, PROBABILITIES, CLASSES, [0.07, 0.43, 0.4375, 0.0]),
        (zero_one, PROBABILITIES, CLASSES, [0.0, 1.0, 1.0, 0.0]),
    ],
)
def test_losses_equal_hand_computed_values(loss, prediction, y, expected):
    np.testing.assert_allclose(loss(prediction, y), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("loss", [squared, absolute, log, brier, zero_one])
def test_losses_leave_their_arguments_alone(loss):
    regression = loss in (squared, absolute)
    prediction = (PREDICTION if regression else PROBABILITIES).copy()
    y = (Y if regression else CLASSES).copy()
    loss(prediction, y)
    np.testing.assert_array_equal(prediction, PREDICTION if regression else PROBABILITIES)
    np.testing.assert_array_equal(y, Y if regression else CLASSES)


def test_brier_for_two_classes_is_the_squared_error_of_the_probability():
    p = np.array([0.0, 0.2, 0.5, 0.9, 1.0, 1.0])
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(brier(np.column_stack([1 - p, p]), y), (p - y) ** 2, atol=1e-15)


def test_brier_of_a_certain_wrong_class_is_one():
    assert brier(np.array([[0.0, 1.0, 0.0]]), np.array([2.0])).tolist() == [1.0]


def test_log_loss_of_an_impossible_class_is_the_floor_and_not_infinite():
    assert log(np.array([[1.0, 0.0]]), np.array([1.0])).tolist() == [-math.log(LOG_FLOOR)]


@pytest.mark.parametrize("p", [1e-15, 1e-14, 1e-3])
def test_log_loss_is_exact_down_to_the_floor(p):
    assert log(np.array([[1 - p, p]]), np.array([1.0]))[0] == pytest.approx(-math.log(p), rel=1e-14)


@pytest.mark.parametrize("name", [*REGRESSION, *CLASSIFICATION])
def test_every_loss_is_found_by_its_name(name):
    assert loss_named(name) is {**REGRESSION, **CLASSIFICATION}[name]


def test_regression_and_classification_losses_have_different_names():
    assert sorted(REGRESSION) == ["absolute", "squared"]
    assert sorted(CLASSIFICATION) == ["brier", "log", "zero-one"]


def test_an_unknown_loss_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"'loss' .*'absolute'.*'zero-one'.*Got 'hinge'"):
        loss_named("hinge")


@pytest.mark.parametrize("name", [*REGRESSION, *CLASSIFICATION])
def test_evaluate_returns_what_the_loss_returns(name):
    prediction, y = (PREDICTION, Y) if name in REGRESSION else (PROBABILITIES, CLASSES)
    values = row_losses(loss_named(name), prediction, y)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, loss_named(name)(prediction, y))


@pytest.mark.parametrize(
    "returned", [[0, 1, 0, 2], (0.0, 1.0, 0.0, 2.0), np.array([0, 1, 0, 2], dtype=np.float32)]
)
def test_a_users_loss_may_return_anything_that_is_one_number_a_row(returned):
    values = row_losses(lambda _prediction, _y: returned, PREDICTION, Y)
    assert values.dtype == np.float64
    assert values.tolist() == [0.0, 1.0, 0.0, 2.0]


def test_a_users_loss_may_return_booleans():
    assert row_losses(lambda p, y: p != y, PREDICTION, Y).tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (lambda p, y: np.mean((p - y) ** 2), r"shape \(4,\); it returned shape \(\) of type"),
        (lambda p, y: ((p - y) ** 2)[:, None], r"it returned shape \(4, 1\)"),
        (lambda p, y: (p - y)[:-1], r"it returned shape \(3,\)"),
        (lambda _p, y: np.full(len(y), "bad"), r"shape \(4,\) of type <U3"),
        (lambda _p, y: np.full(len(y), None), r"shape \(4,\) of type object"),
        (lambda p, y: (p - y) * 1j, r"of type complex128"),
        (lambda _p, _y: None, r"shape \(\) of type object"),
    ],
)
def test_a_users_loss_must_return_one_number_a_row(loss, text):
    with pytest.raises(ModelError, match=text):
        row_losses(loss, PREDICTION, Y)


def test_a_column_of_predictions_against_a_vector_is_caught():
    # (n, 1) − (n,) broadcasts to (n, n) without a word
    with pytest.raises(ModelError, match=r"shape \(4,\); it returned shape \(4, 4\)"):
        row_losses(squared, PREDICTION[:, None], Y)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_loss_must_be_finite_and_the_text_quotes_no_value(bad):
    losses = np.array([123456.789, bad, 0.0, 0.0])
    with pytest.raises(DataError, match="must be finite on every row") as caught:
        row_losses(lambda _p, _y: losses, PREDICTION, Y)
    assert "123456" not in str(caught.value)


def test_a_loss_of_ones_own_cannot_change_the_outcomes():
    def careless(prediction, y):
        y[:] = 0.0
        return prediction**2

    with pytest.raises(ValueError, match="read-only"):
        row_losses(careless, PREDICTION, Y)
