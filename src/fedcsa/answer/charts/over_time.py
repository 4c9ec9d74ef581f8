"""How the study's loss became known as outcomes came in: the promise, then every look."""

from __future__ import annotations

from fedcsa.answer.charts.drawing import ACCENT, INK, Chart
from fedcsa.answer.measure_words import loss_words_of
from fedcsa.plan import Plan
from fedcsa.target.risk_units import in_units
from fedcsa.update import Update
from fedcsa.words import counted


def draw_over_time(found: Update, plan: Plan) -> Chart:
    """The estimate after every update: thick its interval, thin that for all looks.

    Parameters
    ----------
    found : Update
    plan : Plan
    """
    words = loss_words_of(plan)
    chart = Chart(f"{words.title} as outcomes came in", 187.0)
    panel = chart.add()
    before = found.risk.before
    looks = [(x.n_rows, (x.estimate, x.lower, x.upper, *x.anytime)) for x in found.path]
    if before is not None:
        looks.insert(0, (0, (*before, *before[1:])))
    shown = [(n, [in_units(plan, value) for value in five]) for n, five in looks]
    n, often = [outcomes for outcomes, _ in shown], len(found.path) > 1
    estimates, lower, upper, *_ = (
        list(column) for column in zip(*(x for _, x in shown), strict=True)
    )
    panel.band(n, lower, upper, opacity=0.10)
    panel.line(n, estimates)
    for outcomes, (estimate, low, high, *ends) in shown:
        told = f"{words.text(estimate)} ({words.between(low, high)})"
        told += f", for all looks {words.between(*ends)}" if outcomes and often else ""
        text = f"with {counted(outcomes, 'outcome')}: {told}" if outcomes else f"promised: {told}"
        tone = ACCENT if outcomes else INK
        if often:
            panel.line([outcomes, outcomes], ends, colour=tone, width=0.7)
        panel.line([outcomes, outcomes], [low, high], colour=tone, width=2.2)
        panel.dot(outcomes, estimate, text, colour=tone, shape="o" if outcomes else "D")
    thin = "; thin: the interval for all looks" if often else ""
    panel.x.label = f"outcomes so far; ◆ the promise, before any{thin}"
    panel.y.label = words.title
    panel.x.whole, panel.x.margin, panel.y.grid = True, 0.04, True
    return chart
