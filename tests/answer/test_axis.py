"""Where the values of a chart lie, and which of them are written, beside matplotlib's answer."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from fedcsa.answer.charts.axis import Axis
from fedcsa.answer.charts.drawing import Chart
from fedcsa.answer.charts.figure import figure_of
from fedcsa.answer.svg import inline

VALUES = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({"low": -2.0, "high": 3.0}, ("linear", {})),
        ({"low": 3.0, "high": -2.0}, ("linear", {})),
        ({"low": 0.01, "high": 30.0, "scale": "log"}, ("log", {})),
        (
            {"low": 0.0, "high": 30.0, "scale": "symlog", "threshold": 0.1},
            ("symlog", {"linthresh": 0.1, "linscale": 0.5}),
        ),
    ],
)
def test_a_value_lies_where_matplotlib_puts_it(options, scale):
    ours, theirs = Axis(**options).placing(), Figure().subplots()
    theirs.set_xscale(scale[0], **scale[1])
    theirs.set_xlim(options["low"], options["high"])
    for value in (0.02, 0.1, 0.5, 1.0, 2.5):
        [there, _] = theirs.transAxes.inverted().transform(theirs.transData.transform((value, 0)))
        assert ours(value) == pytest.approx(there, abs=1e-9)


@example([421053.0], 2)
@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(2, 9))
def test_every_shown_value_is_on_the_axis_and_few_round_numbers_are_written(values, most):
    axis = Axis(values=values, most=most)
    low, high = axis.ends
    place = axis.placing()
    assert low < high
    assert all(-1e-9 <= place(value) <= 1.0 + 1e-9 for value in values)
    ticks = [value for value, _ in axis.ticks()]
    assert len(ticks) <= most + 1
    assert ticks == sorted(ticks)
    if high - low > 1e-6 * max(map(abs, (low, high))):
        assert len(ticks) >= 1
        steps = {round((b - a) / (ticks[1] - ticks[0]), 6) for a, b in pairwise(ticks)}
        assert steps <= {1.0}


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (Axis(low=0.0, high=1.0, most=5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (Axis(low=-1.0, high=1.0, most=4), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        (Axis(low=0.5, high=3.5, most=9, whole=True), ["1", "2", "3"]),
        (Axis(low=0.5, high=40.0, scale="log"), ["1", "3", "10", "30"]),
        (Axis(low=1e-90, high=1e90, scale="log", most=3), ["1e−90", "1e−29", "1e+32"]),
        (Axis(low=0.0, high=20.0, scale="symlog", threshold=0.1), ["0", "0.1", "1", "10"]),
        (Axis(low=0.0, high=1.0, bare=True), []),
        (Axis(names=(("north", "#000000"), ("south", "#000000"))), ["north", "south"]),
    ],
)
def test_the_numbers_of_an_axis(axis, texts):
    assert [text for _, text in axis.ticks()] == texts


@pytest.mark.parametrize("value", [0.0, 1.0, -5.0, 1e-150, 1e150])
def test_one_value_alone_lies_in_the_middle(value):
    axis = Axis(values=[value])
    assert axis.placing()(value) == pytest.approx(0.5)
    assert all(map(math.isfinite, axis.ends))


def test_the_page_and_matplotlib_draw_one_chart():
    chart = Chart("a chart", 200.0)
    panel = chart.add("title")
    panel.line([0.0, 1.0], [0.0, 2.0], label="a line")
    panel.band([0.0, 1.0], [0.0, 1.0], [1.0, 2.0])
    panel.rule(0.5)
    for x, shape in enumerate(("o", "s", "D", "<", ">")):
        panel.dot(x / 4.0, 1.0, f"mark <{shape}>", shape=shape)
    panel.note("words", 0.5, 0.5)
    [drawn] = figure_of(chart)[1]
    html = inline(chart, "here")
    assert len([line for line in drawn.lines if line.get_marker() != "None"]) == 5
    assert html.count('class="mark"') == 5
    assert len(drawn.collections) == html.count("<polygon") == 1
    assert [text.get_text() for text in drawn.get_legend().get_texts()] == ["a line"]
    for _, text in panel.x.ticks():
        assert f">{text}</text>" in html
    assert "mark &lt;o&gt;" in html
    assert re.findall(r'id="([^"]*mark[^"]*)"', html) == [f"here-mark-{i}" for i in range(5)]
    assert html.count('tabindex="0"') == 1


def test_what_lies_beyond_an_axis_is_cut_and_a_mark_at_the_edge_is_whole():
    chart = Chart("a chart", 200.0)
    panel = chart.add()
    panel.y.low, panel.y.high = 0.0, 1.0
    panel.line([0.0, 1.0], [0.0, -9.0])
    panel.dot(0.0, 0.0, "at the edge")
    _, _, html = inline(chart, "c").partition('<g clip-path="url(#c-panel-0)">')
    cut, _, whole = html.partition("</g>")
    assert "<path" in cut
    assert "<circle" in whole
    assert "<circle" not in cut
