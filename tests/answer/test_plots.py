"""The charts from Python, and a result in a notebook."""

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import fedcsa
from fedcsa import FedCSA
from fedcsa.answer.charts import figure
from fedcsa.answer.charts import risk_curve as risk
from fedcsa.answer.charts.drawing import ACCENT, INK, Dot
from fedcsa.answer.charts.forest_plot import draw_forest_plots
from fedcsa.answer.charts.over_time import draw_over_time
from fedcsa.answer.forests import source_forest
from fedcsa.answer.measure_words import WORDS
from fedcsa.answer.notebook import view_html
from fedcsa.answer.sentences import promise_sentence
from fedcsa.answer.view import Point, view_of
from fedcsa.errors import ParameterError
from fedcsa.update import UpdateLook
from fedcsa.words import number, percent, printable

PLOTS = ["plot_risk", "plot_forest", "plot_balance", "plot_backtest"]


@pytest.mark.parametrize("name", PLOTS)
def test_a_chart_takes_a_result_or_an_estimator(making, name):
    estimator = making.small_study()
    plot = getattr(fedcsa, name)
    for given in (estimator, estimator.adaptation_):
        display = plot(given)
        assert isinstance(display.figure_, Figure)
        assert display.ax_ is display.axes_[0]
        drawn = display._repr_svg_()
        assert drawn.count("<path") > 5
        assert re.search(r"<path[^>]*fill: #ffffff", drawn)  # dark ink needs light paper


@pytest.mark.parametrize("name", PLOTS)
def test_a_chart_refuses_anything_else(name):
    with pytest.raises(ParameterError, match="an Adaptation or a fitted FedCSA"):
        getattr(fedcsa, name)(FedCSA())


def test_a_chart_of_no_back_test_is_refused(making):
    with pytest.raises(ParameterError, match="one with a back-test"):
        fedcsa.plot_backtest(making.made("one source"))


def test_outcomes_are_drawn_from_the_promise_on(making, make):
    estimator = making.small_study()
    with pytest.raises(ParameterError, match="after an update"):
        fedcsa.plot_outcomes(estimator)
    looks = tuple(UpdateLook(n, 1.0, 0.5, 2.0, (0.4, 3.0), 1.0) for n in (10, 30))
    given = SimpleNamespace(adaptation_=estimator.adaptation_, update_=make.updated(path=looks))
    [line, *others] = fedcsa.plot_outcomes(given).ax_.get_lines()
    assert line.get_xdata().tolist() == [0, 10, 30]
    bars = [x for x in others if x.get_xdata()[:1] == [30] and len(x.get_xdata()) == 2]
    thin, thick = sorted(bars, key=lambda x: x.get_linewidth())
    assert thin.get_ydata()[0] < thick.get_ydata()[0] < thick.get_ydata()[1] < thin.get_ydata()[1]


def test_a_promise_is_blue_and_outcomes_are_black_in_every_chart(making, make):
    adaptation = making.small_study().adaptation_
    view = replace(view_of(adaptation), update=make.updated(90))
    forest = draw_forest_plots([source_forest(view, view.loss)])
    over_time = draw_over_time(view.came)
    assert "blue: promised" in forest.below
    assert "blue: promised" in over_time.panels[0].x.label
    lines = (("a new site", "outcomes here"), ("promised", "with 90 outcomes"))
    for chart, names in zip((forest, over_time), lines, strict=True):
        dots = [mark for mark in chart.panels[0].marks if isinstance(mark, Dot)]
        tones = {dot.text.partition(":")[0]: dot.colour for dot in dots}
        assert [tones[name] for name in names] == [ACCENT, INK]


def test_drawing_leaves_pyplot_and_the_settings_alone():
    code = (
        "import sys, matplotlib; before = matplotlib.rcParams['axes.spines.top']\n"
        "import numpy as np; from fedcsa import FedCSA, plot_risk\n"
        "rng = np.random.default_rng(0); X = rng.normal(size=(40, 1))\n"
        "plot_risk(FedCSA(candidates=[0.1], random_state=0).fit({'a': (X, X[:, 0])}, X))"
        "._repr_svg_()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams['axes.spines.top'] is before is True\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own interpreter


# Which axis ---------------------------------------------------------------------------------


def points(candidates):
    return [Point(candidate, float(i), 0.1, i == 0) for i, candidate in enumerate(candidates)]


def grid(**values):
    names = list(values)
    return [
        dict(zip(names, [a, b], strict=True)) for a in values[names[0]] for b in values[names[1]]
    ]


@pytest.mark.parametrize(
    ("candidates", "axis"),
    [
        ([{"penalty": 0.1}], None),
        ([{"penalty": 0.1}, {"penalty": 1}], "penalty"),
        (grid(penalty=[0.0, 0.1, 1.0], ratio_power=[0.0, 1.0]), "penalty"),
        (grid(kernel=["rbf", "poly"], C=[1.0, 10.0]), "C"),
        ([{"kernel": "rbf"}, {"kernel": "poly"}], None),
        ([{"warm": True}, {"warm": False}], None),
        (grid(C=[1.0, 2.0, 3.0], kind=[f"{'same ' * 10}{i}" for i in range(7)]), None),
        (grid(a=list(range(9)), b=[float(i) for i in range(8)]), None),
    ],
)
def test_the_axis_is_the_parameter_with_most_values_and_few_lines(candidates, axis):
    assert risk.axis_of(points(candidates)) == axis


@pytest.mark.parametrize(
    ("penalties", "scale"),
    [
        ([0.01, 0.1, 1.0, 10.0], "log"),
        ([0.0, 0.01, 0.1, 1.0], "symlog"),
        (np.linspace(0.0, 1.0, 21).tolist(), "linear"),
        ([1.0, 2.0, 3.0], "linear"),
    ],
)
def test_the_axis_is_logarithmic_where_the_values_are(making, penalties, scale):
    adaptation = making.adaptation_of("ab", ["x"], candidates=penalties)
    assert risk.draw_risk_curve(view_of(adaptation)).panels[0].x.scale == scale
    assert fedcsa.plot_risk(adaptation).ax_.get_xscale() == scale


def test_candidates_that_are_only_numbered_have_whole_numbers(making):
    adaptation = making.adaptation_of("ab", ["x"], candidates=(0.5,))
    axis = risk.draw_risk_curve(view_of(adaptation)).panels[0].x
    assert axis.ends == (0.5, 1.5)
    assert axis.ticks() == [(1.0, "1")]


def test_the_band_is_one_standard_error(making):
    adaptation = making.adaptation_of("ab", ["x"], candidates=(0.0, 0.1, 1.0))
    [band] = fedcsa.plot_risk(adaptation).ax_.collections
    found = adaptation.estimate
    edges = {tuple(np.round(vertex, 9)) for vertex in band.get_paths()[0].vertices}
    for penalty, value, error in zip(
        (0.0, 0.1, 1.0), found.risk, found.standard_errors, strict=True
    ):
        half = (np.sqrt(value + error) - np.sqrt(value - error)) / 2.0  # the chart shows the root
        for sign in (-1.0, 1.0):
            assert (round(penalty, 9), round(np.sqrt(value) + sign * half, 9)) in edges


# The forest plot ----------------------------------------------------------------------------


def segments(axes):
    """Horizontal lines by height: the ends, and what marks them."""
    return [
        (float(line.get_ydata()[0]), sorted(map(float, line.get_xdata())))
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]
    ]


def forest_of(adaptation):
    """The chart of the loss, and its one panel as matplotlib draws it."""
    view = view_of(adaptation)
    chart = draw_forest_plots([source_forest(view, view.loss)])
    return chart, figure.figure_of(chart)[1][0]


def test_the_forest_has_a_line_a_source_and_the_promise_at_the_bottom(making):
    adaptation = making.adaptation_of("abc", ["x"], far=["c"])
    _, forest = forest_of(adaptation)
    promise, found = adaptation.promise, adaptation.examinations
    drawn = segments(forest)
    for y, name in enumerate("ab"):
        half = 1.959963984540054 * np.sqrt(found[name].risk_variance)
        ends = np.sqrt(found[name].risk * np.exp([-half, half]))  # roots: in the outcome's units
        assert any(at == y and np.allclose(told, ends) for at, told in drawn)
    assert (3.0, [np.sqrt(promise.lower), np.sqrt(promise.upper)]) in drawn
    names = [text.get_text() for text in forest.get_yticklabels()]
    assert names == ["a", "b", "c", "a new site"]
    assert forest.get_xlabel() == "95 % interval; grey: a constant"
    assert forest.get_title(loc="left") == "RMSE"
    constant = np.sqrt(promise.risk / promise.ratio)
    assert any(np.allclose(line.get_xdata(), constant) for line in forest.lines)
    assert "does not reach the target" in [text.get_text() for text in forest.texts]


def test_a_mark_of_the_forest_says_what_the_table_says(making):
    adaptation = making.adaptation_of("abc", ["x"])
    marks = forest_of(adaptation)[0].panels[0].marks
    told = " ".join(getattr(mark, "text", "") for mark in marks)
    for line in view_of(adaptation).sources:
        assert f"RMSE: {line.found_text}" in told
        assert f"weight {percent(line.weight)}" in told
    p = adaptation.promise
    risk, lower, upper = (number(np.sqrt(x)) for x in (p.risk, p.lower, p.upper))
    assert f"a new site: {risk} ({lower} to {upper})" in told


def test_an_interval_that_reaches_too_far_ends_in_an_arrow(making):
    adaptation = making.adaptation_of("abc", ["x"])
    wide = replace(adaptation.examinations["a"], risk_variance=100.0)
    adaptation = replace(adaptation, examinations={**adaptation.examinations, "a": wide})
    arrows = [line.get_marker() for line in forest_of(adaptation)[1].lines]
    assert "<" in arrows
    assert ">" in arrows


@pytest.mark.parametrize("kind", ["paper", "no overlap"])
def test_without_a_promise_there_is_no_forest(making, kind):
    with pytest.raises(ParameterError, match=r"one that is promised \(none\)"):
        fedcsa.plot_forest(making.made(kind))


def test_a_measure_that_is_not_promised_is_refused_with_those_that_are(making):
    with pytest.raises(ParameterError, match=r"one that is promised \(rmse"):
        fedcsa.plot_forest(making.made("small"), "AUC")


def test_a_chart_is_drawn_where_it_is_asked_to(making):
    own = Figure()
    ax = own.subplots()
    display = fedcsa.plot_forest(making.made("small"), ax=ax)
    assert (display.ax_, display.figure_) == (ax, own)
    assert ax.lines


@pytest.mark.parametrize("name", ["plot_calibration", "plot_decision_curve"])
def test_the_curves_of_two_classes_are_drawn_anywhere_and_of_no_other_study(making, name):
    plot, answer = getattr(fedcsa, name), making.made("two classes")
    ax = Figure().subplots()
    assert plot(answer, ax=ax).ax_ is ax
    assert len(plot(answer).axes_) == (2 if name == "plot_calibration" else 1)
    with pytest.raises(ParameterError, match="curve"):
        plot(making.made("paper"))


def test_the_calibration_plot_has_the_points_and_the_band_of_the_result(making):
    answer = making.made("two classes")
    [curve] = answer.calibration
    ax = fedcsa.plot_calibration(answer).ax_
    drawn = [tuple(line.get_xydata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]
    assert drawn == list(zip(curve.predicted, curve.observed, strict=True))
    edges = {tuple(vertex) for vertex in ax.collections[0].get_paths()[0].vertices}
    assert {*zip(curve.predicted, curve.lower, strict=True)} <= edges
    assert {*zip(curve.predicted, curve.upper, strict=True)} <= edges


def test_the_decision_curve_counts_per_hundred_patients(making):
    answer = making.made("two classes")
    curve, ax = answer.decision_curve, fedcsa.plot_decision_curve(answer).ax_
    lines = {line.get_label(): line for line in ax.lines}
    assert np.allclose(lines["the model"].get_ydata(), 100.0 * np.array(curve.model))
    assert np.allclose(lines["treat everybody"].get_ydata(), 100.0 * np.array(curve.treat_all))
    marked = {line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1}
    assert set(answer.plan.thresholds) <= marked


def test_a_measure_at_two_thresholds_has_two_panels(making):
    display = fedcsa.plot_forest(making.made("two classes"), "sensitivity")
    titles = [ax.get_title(loc="left") for ax in display.axes_]
    assert titles == ["sensitivity at 10 %", "sensitivity at 30 %"]


def test_every_measure_has_words():
    from fedcsa.core.measures import MEASURES

    assert {measure.name for measure in MEASURES} <= set(WORDS)


# A notebook ---------------------------------------------------------------------------------


class Texts(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def test_a_result_shows_verdict_risk_and_sources(making):
    estimator = making.small_study()
    view = view_of(estimator.adaptation_)
    html = view_html(view)
    text = Texts(html).text
    assert "Use it" in text
    assert promise_sentence(view) in text
    for leg in estimator.legs_.values():
        assert leg.sentence in text
    bare = re.sub(r' class="\w*"', "", html)
    for line in view.sources:
        cells = f"<td>{line.found_text}</td><td>{percent(line.weight)}</td>"
        assert f'<th scope="row">{line.name}</th>{cells}' in bare
    assert estimator._repr_html_() == html
    assert estimator._repr_mimebundle_()["text/html"] == html


def test_names_are_text_in_a_notebook_too(making):
    shown = Texts(view_of(making.made("nasty names"))._repr_html_())
    assert not {"script", "img"} & set(shown.tags)
    for name in making.NASTY[:4]:
        assert printable(name) in shown.text


def test_many_sources_are_counted(making):
    html = view_of(making.made("100 sources"))._repr_html_()
    assert html.count("<tr") == 21
    assert "and 80 more" in html


def test_an_estimator_that_is_not_fitted_shows_its_parameters():
    assert "FedCSA" in FedCSA()._repr_html_()
    assert "FedCSA" in FedCSA()._repr_mimebundle_()["text/html"]
