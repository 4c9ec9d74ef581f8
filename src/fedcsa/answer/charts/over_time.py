"""How the study's loss became known as outcomes came in: the promise, then every look."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from fedcsa.answer.charts.drawing import ACCENT, FAINT, INK, MUTED, STYLE, Chart
from fedcsa.answer.measure_words import loss_words_of
from fedcsa.plan import Plan
from fedcsa.target.realised_measures import in_units
from fedcsa.update import Update
from fedcsa.words import counted


@mpl.rc_context(STYLE)
def draw_over_time(found: Update, plan: Plan) -> Chart:
    """The estimate after every update: thick its interval, thin that for all looks.

    Parameters
    ----------
    found : Update
    plan : Plan
    """
    words = loss_words_of(plan)
    chart = Chart(f"{words.title} as outcomes came in", 2.6)
    axes = chart.panels[0]
    before = found.risk.before
    looks = [(x.n_rows, (x.estimate, x.lower, x.upper, *x.anytime)) for x in found.path]
    if before is not None:
        looks.insert(0, (0, (*before, *before[1:])))
    shown = [(n, [in_units(plan, value) for value in five]) for n, five in looks]
    n, often = [outcomes for outcomes, _ in shown], len(found.path) > 1
    estimates, lower, upper, *_ = (
        list(column) for column in zip(*(x for _, x in shown), strict=True)
    )
    axes.fill_between(n, lower, upper, color=ACCENT, alpha=0.10, linewidth=0.0)
    axes.plot(n, estimates, color=ACCENT, linewidth=1.3)
    for outcomes, (estimate, low, high, *ends) in shown:
        told = f"{words.text(estimate)} ({words.between(low, high)})"
        told += f", for all looks {words.between(*ends)}" if outcomes and often else ""
        text = f"with {counted(outcomes, 'outcome')}: {told}" if outcomes else f"promised: {told}"
        tone = ACCENT if outcomes else INK
        if often:
            axes.plot([outcomes, outcomes], ends, color=tone, linewidth=0.7)
        axes.plot([outcomes, outcomes], [low, high], color=tone, linewidth=2.2)
        chart.dot(axes, outcomes, estimate, text, color=tone, marker="o" if outcomes else "D")
    thin = "; thin: the interval for all looks" if often else ""
    axes.set_xlabel(f"outcomes so far; ◆ the promise, before any{thin}")
    axes.set_ylabel(words.title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.04)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.tick_params(axis="y", labelcolor=MUTED)
    return chart
