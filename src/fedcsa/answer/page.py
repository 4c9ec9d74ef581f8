"""The answer as one HTML file: which sections it has, in which order."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from fedcsa.answer import tables
from fedcsa.answer.sentences import SECTIONS, about_left_out, by_kind, said
from fedcsa.answer.tables import Table
from fedcsa.answer.view import View, view_of
from fedcsa.errors import FedCSAError, MissingExtraError, ResultError
from fedcsa.words import counted, printable

REPORT = "report.html"
VERSION = version("fedcsa")
_FORMULAS = {
    "validated": (
        "w(x) ∝ exp(λᵀC(x)), Σ w = 1: weights under which a source's rows match the target's table",
        "fⱼ(θ) = Σ w L(θ; x, y), on rows that the model has not seen",
        "mⱼ = 1/(1/ESSⱼ + ιⱼ + ιⱼ²/2), with ESSⱼ the effective rows and ιⱼ the imbalance",
        "f(θ) = Σ mⱼ fⱼ(θ) / Σ mⱼ; θ̂ minimises f + ½ γ · standard error, for training weights w^γ",
        "log fⱼ of the others' mixture ~ N(μ + uⱼ, vⱼ), uⱼ ~ N(0, τ²), τ half-normal(0.2)",
        "promise: the distribution of exp(μ + u) at a new site",
    ),
    "naive": ("f(θ) = Σ nⱼ mean(L)ⱼ / Σ nⱼ",),
    "fediwe": ("f(θ) = Σ nⱼ mean(r L)ⱼ / Σ nⱼ, the paper's eq. (04)",),
    "feddae": (
        "fⱼ(θ) = mean(r L + η (r − 1)), the paper's eq. (07)",
        "f(θ) = Σ αⱼ fⱼ(θ) with αⱼ ∝ nⱼ / Divⱼ(θ), the paper's eq. (09) and (10)",
    ),
    "fedle": ("f(θ) = Σ αⱼ fⱼ(θ) with weights αⱼ given",),
}
_PAPER = (
    "Y. Xu, W. Cui, J. Xu, H. Cheng: Federated Covariate Shift Adaptation for Missing Target "
    "Output Values."
)
_CITE = (
    _PAPER,
    f"The fedcsa developers: fedcsa {VERSION}, federated covariate shift adaptation.",
)


@dataclass(frozen=True)
class Section:
    """A heading, a chart, the same as a table, and more tables; the sentences follow its name."""

    name: str
    title: str
    svg: str = ""
    table: Table | None = None
    folded: tuple[Table, ...] = ()


def require_report() -> None:
    """Raise a `MissingExtraError` unless a report can be made here."""
    for package in ("jinja2", "matplotlib"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "report", "A report")


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a result folder: one file that needs nothing else.

    Parameters
    ----------
    folder : path
        A result folder; its models are not needed.
    out : path, optional
        By default ``report.html`` in the folder.
    """
    require_report()
    folder = Path(folder)
    view = view_of(folder)
    try:
        text = render(view)
    except FedCSAError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise ResultError(
            f"The result in {str(folder)!r} is damaged: something is missing or was changed. "
            "Run the study again, or restore it from a backup."
        ) from None
    path = folder / REPORT if out is None else Path(out)
    path.write_text(text, encoding="utf-8")
    return path


def sections(view: View) -> Iterator[Section]:
    """The sections of the page, in their order."""
    from fedcsa.answer.charts import forest_plot, kept_promises, love_plot, risk_curve
    from fedcsa.answer.svg import inline

    plan, has_model = view.plan, bool(view.points)
    svg = inline(forest_plot.draw(view), "sources") if has_model else ""
    title = "What the sources found" if has_model else "Sources"
    yield Section("sources", title, svg, tables.source_table(view))
    if view.findings:
        yield Section("findings", "Findings")
    if len(view.methods) > 1:
        yield Section("compared", "Beside other methods", table=tables.method_table(view))
    if plan is not None and view.sources:
        svg = inline(love_plot.draw(view, plan.features), "balance")
        shown, *every = tables.balance_tables(view, plan.features)
        yield Section("balance", "Balance", svg, shown, tuple(every))
    if view.backtest is not None:
        svg = inline(kept_promises.draw(view.backtest), "backtest")
        yield Section("backtest", "Back-test", svg, tables.backtest_table(view.backtest))
    elif has_model:
        yield Section("backtest", "Back-test")
    if has_model:
        svg = inline(risk_curve.draw(view), "candidates")
        title = "Risk against the candidates"
        yield Section("candidates", title, svg, tables.candidate_table(view))
    sent, *folded = tables.ledger_tables(view) if view.ledgers else (None,)
    told = (*tables.told_table(view), *folded)
    yield Section("ledger", "What left each site", table=sent, folded=told)
    yield Section("making", "How it was made", table=tables.design_table(view, VERSION))


def render(view: View) -> str:
    """The page as text."""
    import jinja2
    from markupsafe import Markup

    style, script = _asset("style.css"), _asset("script.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    advice, word, sign = view.heading
    return environment.from_string(_asset("page.html.jinja")).render(
        title=printable(view.study),
        subtitle=_subtitle(view),
        advice=advice,
        word=word,
        sign=sign,
        legs=view.legs,
        said={name: said(name, view) for name in SECTIONS},
        sections=tuple(sections(view)),
        reasons=by_kind([item for item in view.findings if item not in view.apart]),
        apart=about_left_out(view.apart) if view.apart else "",
        reasons_apart=by_kind(view.apart),
        formulas=() if view.plan is None else _FORMULAS[view.plan.method],
        cite=_CITE,
        style=Markup(style),  # noqa: S704 - files of this package
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
        version=VERSION,
    )


def _subtitle(view: View) -> str:
    if view.table is None:
        return "A study over a federation"
    target, answered = counted(view.table.n_rows, "row"), counted(len(view.sources), "source")
    return f"A target of {target} without outcomes; {answered} with outcomes answered."


def _policy(style: str, script: str) -> str:
    """No request to anywhere; the one style sheet and the one script, by their hashes."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("fedcsa.answer").joinpath(name).read_text(encoding="utf-8")
