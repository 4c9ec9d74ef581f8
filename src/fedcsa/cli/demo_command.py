"""``fedcsa demo``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fedcsa.cli.common import NoReport, Output, Screen, Seed, out_option, unbroken
from fedcsa.cli.report_command import report_line
from fedcsa.errors import ResultError
from fedcsa.words import interval, listed, number, percent

if TYPE_CHECKING:
    from fedcsa.core.arrays import Array
    from fedcsa.data.synthetic import Consortium
    from fedcsa.run import Progress
    from fedcsa.study import Study
    from fedcsa.target.adaptation import Adaptation

#: Rows of the new hospital whose outcomes arrive later.
LATER_ROWS = 2000
#: The default first, then the paper's three, each as the paper has it.
METHODS: Mapping[str, Mapping[str, str]] = {
    "validated": {},
    **{method: {"preset": "paper", "method": method} for method in ("naive", "fediwe", "feddae")},
}


def demo(
    output: Output,
    out: Annotated[
        Path | None,
        out_option("DIR", "Also write the tables, a study file and the result into this folder."),
    ] = None,
    seed: Seed = 1,
    no_report: NoReport = False,
) -> None:
    """Show the method on five simulated hospitals with outcomes and a new one without.

    They are simulated, so the true risk is known; it stands beside every estimate. Reads
    nothing; writes only the folder that --out names, with a study to play with.

    Examples
    --------
    fedcsa demo
    fedcsa demo --out demo    # then: fedcsa run demo/study.toml --out demo/again
    """
    from fedcsa.answer.view import view_of
    from fedcsa.data.synthetic import consortium

    if out is not None:
        with unbroken():
            _refuse_other_files(out)
            (out / "tables").mkdir(parents=True, exist_ok=True)  # before anything is computed
    drawn = consortium(seed)
    study = demo_study(drawn, seed)
    results: dict[str, Adaptation] = {}
    with output.progress(len(METHODS) * len(drawn.sources)) as progress:
        for method, options in METHODS.items():
            results[method] = _adapt(study, drawn, options, progress)
    truth = {method: _true_risk(result, drawn) for method, result in results.items()}
    if out is not None:
        with unbroken():
            _write(out, study, drawn, results["validated"])
            line = report_line(out / "result", unwanted=no_report)

    def show(screen: Screen) -> None:
        _print(screen, drawn, results, truth)
        if out is not None:
            _print_next(screen, out, line)

    content = {m: {**view_of(results[m]).to_json(), "true_risk": truth[m]} for m in METHODS}
    output.answer(content, show, out)


def _refuse_other_files(out: Path) -> None:
    """Write into an empty folder or an older demo's; what somebody else wrote is not replaced."""
    study = out / "study.toml"
    told = study.read_text(encoding="utf-8", errors="replace") if study.is_file() else ""
    if 'name = "demo"' not in told and any(path.is_file() for path in out.rglob("*")):
        raise ResultError(
            f"The folder {str(out)!r} holds something other than a demo. Choose an empty one."
        )


def _print_next(screen: Screen, out: Path, report: str) -> None:
    written = f"\nWritten to {out}: a study file, the tables, a result. {report}. Now try:"
    screen.say(written)
    for line in (
        f"run {out}/study.toml --out {out}/again",
        f"backtest {out}/study.toml --result {out}/result",
        f"predict {out}/result {out}/tables/new.csv",
        f"update {out}/result {out}/outcomes-later.csv",
        f"report {out}/result --open",
        f"ledger {out}/result",
    ):
        screen.say(f"  {_program()} {line}", style="bold")


def _program() -> str:
    """How to call this program from here: it may not be on the path."""
    return "fedcsa" if shutil.which("fedcsa") else sys.argv[0]


def demo_study(drawn: Consortium, seed: int) -> Study:
    """The study file of the demo."""
    from fedcsa.data.columns import Feature, Outcome
    from fedcsa.data.synthetic import FEATURES
    from fedcsa.study import Study

    return Study(
        name="demo",
        features=tuple(Feature(name) for name in FEATURES),
        outcome=Outcome("days"),
        model={"name": "ridge"},
        target="tables/new.csv",
        sources={name: _path_of(name) for name in drawn.sources},
        options={"seed": seed},
    )


def _path_of(source: str) -> str:
    return f"tables/{source.split()[0].lower()}.csv"


def _adapt(
    study: Study, drawn: Consortium, options: Mapping[str, str], progress: Progress | None
) -> Adaptation:
    from fedcsa.data.synthetic import FEATURES
    from fedcsa.messages.policy import Policy
    from fedcsa.run import InProcess, run_study
    from fedcsa.source.source import Source
    from fedcsa.target.target import Target

    plan = replace(study, options={**study.options, **options}).plan()
    policy = Policy.open()
    sources = [
        Source(name, X, y, features=FEATURES, policy=policy)
        for name, (X, y) in drawn.sources.items()
    ]
    target = Target(drawn.target, plan, policy=policy)
    return replace(run_study(target, InProcess(sources, progress)), described=study.target_columns)


def _write(out: Path, study: Study, drawn: Consortium, result: Adaptation) -> None:
    from fedcsa.answer.store import save_result

    (out / "study.toml").write_text(study.to_toml(), encoding="utf-8")
    for name, (X, y) in drawn.sources.items():
        write_patients(out / _path_of(name), X, y)
    write_patients(out / "tables/new.csv", drawn.target)
    later, days = drawn.judge_rows[:LATER_ROWS], drawn.judge_outcomes[:LATER_ROWS]
    write_patients(out / "outcomes-later.csv", later, days)
    save_result(result, out / "result", study.to_toml())


def write_patients(path: Path, X: Array, y: Array | None = None) -> None:
    """Write a table of patients, with their days in hospital where these are known."""
    from fedcsa.data.synthetic import FEATURES
    from fedcsa.data.tables import write_table

    columns = dict(zip(FEATURES, X.T.tolist(), strict=True))
    write_table(path, columns if y is None else {**columns, "days": y.tolist()})


def _print(
    screen: Screen, drawn: Consortium, results: dict[str, Adaptation], truth: dict[str, float]
) -> None:
    from fedcsa.answer.result_tables import Table
    from fedcsa.answer.terminal import print_table, print_view
    from fedcsa.answer.view import view_of
    from fedcsa.target.risk_units import in_units
    from fedcsa.words import candidate_text

    rows = sum(len(y) for _, y in drawn.sources.values())
    screen.print(
        f"A new hospital has {len(drawn.target)} patients and no outcomes. Five others have {rows} "
        "patients\nwith outcomes (days in hospital), and none of their rows leaves its site.\n"
    )
    views = {method: view_of(result) for method, result in results.items()}
    print_view(screen, views["validated"])
    compared = [
        (
            f"{method} (default)" if method == "validated" else results[method].plan.titled(method),
            candidate_text(results[method].candidate),
            number(view.risk),
            "—" if view.loss is None else interval(view.loss.lower, view.loss.upper),
            number(in_units(results[method].plan, truth[method])),
        )
        for method, view in views.items()
    ]
    headings = ("method", "chosen", "estimated RMSE", "for a new site", "true RMSE")
    tones = ["own", *[""] * (len(METHODS) - 1)]
    screen.print()
    print_table(screen, Table("Beside the truth", headings, compared, (0, 1), tones=tones))
    screen.print(_about_the_paper(results["validated"], results["feddae"]))


def _about_the_paper(default: Adaptation, paper: Adaptation) -> str:
    """What the preset is, and how much weight its algorithm gives to sources that are far off."""
    far = [name for name in default.sources if name not in default.reaching]
    weight = percent(sum(paper.source_weights.get(name, 0.0) for name in far))
    given = f", and gives {weight} of the weight to {listed(far)}" if far else ""
    return (
        "Preset paper: the paper's method as printed, on a density ratio fitted on the new "
        f"hospital's rows; feddae is its Algorithm 1{given}. It has no interval and no verdict."
    )


def _true_risk(result: Adaptation, drawn: Consortium) -> float:
    missed = result.predict(drawn.judge_rows) - drawn.judge_outcomes
    return float((missed**2).mean())
