"""The numbers of an answer as CSV files, unrounded, for whoever computes on."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedcsa.answer.checklists import CHECKLISTS
from fedcsa.core.scores import BANDS
from fedcsa.target.backtest_result import MeasureOutcome
from fedcsa.target.promised_measures import MeasurePromise
from fedcsa.words import printable

if TYPE_CHECKING:
    from fedcsa.answer.view import View
    from fedcsa.target.with_outcomes import MeasureUpdate

Cell = str | float | int | bool | None
_Rows = Iterator[Sequence[Cell]]
#: Headings of what identifies a measure, and of its promise.
_MEASURE, _ENDS = "measure subgroup class threshold", "estimate lower upper"
#: Texts that begin so are formulas to a spreadsheet.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv_tables(view: View, folder: Path) -> None:
    """Write every table of which the answer has a row; an older one is removed.

    Parameters
    ----------
    view : View
    folder : Path
    """
    folder.mkdir(exist_ok=True)
    for name, (headings, rows_of) in CSV_TABLES.items():
        path, rows = folder / f"{name}.csv", list(rows_of(view))
        path.unlink(missing_ok=True)
        if rows:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(headings.split())
                writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Cell) -> str:
    """A cell: every digit of a number, nothing for what is not known, no formula."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return repr(float(value)) if isinstance(value, float) else str(value)


# The tables ---------------------------------------------------------------------------------


def _of(item: MeasurePromise | MeasureOutcome | MeasureUpdate) -> tuple[Cell, ...]:
    return item.name, item.subgroup, item.of_class, item.threshold


def _promises(items: Iterable[MeasurePromise]) -> _Rows:
    for item in items:
        yield (*_of(item), item.estimate, item.lower, item.upper, item.between_sites, item.why_not)


def _by_source(view: View) -> _Rows:
    for item in (*view.measures, *view.differences):
        kind = "difference" if item in view.differences else "value"
        for name, ends in item.by_source.items():
            yield (kind, *_of(item), name, *ends)


def _calibration(view: View) -> _Rows:
    for curve in view.calibration:
        columns = (curve.predicted, curve.observed, curve.lower, curve.upper, curve.share)
        for row in zip(*columns, strict=True):
            yield curve.of_class, *row


def _decision_curve(view: View) -> _Rows:
    curve = view.decision_curve
    if curve is not None:
        columns = (curve.thresholds, curve.model, curve.lower, curve.upper, curve.treat_all)
        yield from zip(*columns, strict=True)


def _risks(view: View) -> _Rows:
    for found in view.risk_distributions:
        bins = zip(found.edges[:-1], found.edges[1:], strict=True)
        shares = zip(found.with_event, found.without_event, strict=True)
        for (lower, upper), (having, lacking) in zip(bins, shares, strict=True):
            yield found.of_class, lower, upper, having, lacking


def _recalibration(view: View) -> _Rows:
    found = view.recalibration
    if found is None:
        return
    for when, items in (("before", found.before), ("after", found.after)):
        for item in items:
            ends = (item.estimate, item.lower, item.upper)
            yield found.intercept, found.slope, when, item.name, *ends


def _sources(view: View) -> _Rows:
    for line in view.sources:
        yield (
            line.name, line.n_rows, line.effective_rows, line.imbalance, line.reaches, line.weight,
            None,
        )  # fmt: skip
    for name, fate in view.absent.items():
        yield name, None, None, None, False, None, fate


def _balance(view: View) -> _Rows:
    for line in view.sources:
        for row in zip(view.features, line.before, line.after, strict=True):
            yield line.name, *row


def _target(view: View) -> _Rows:
    told = view.table
    if told is None or view.tells_rows:
        return
    for name, flag, mean, sd in zip(
        told.features, told.flags, told.mean.tolist(), told.sd.tolist(), strict=True
    ):
        yield name, "share" if flag else "mean", mean, None if flag else sd, told.n_rows


def _candidates(view: View) -> _Rows:
    for point in view.points:
        told = (point.risk, point.error, point.chosen, view.round_of(point))
        yield _json(point.candidate), *told


def _backtest(view: View) -> _Rows:
    for row in view.backtest.rows if view.backtest is not None else ():
        yield (
            row.source, row.n_rows, row.promised, row.lower, row.upper, row.realised,
            row.standard_error, row.reference, row.status,
            *(row.held_for or (None,) * BANDS),
        )  # fmt: skip


def _backtest_measures(view: View) -> _Rows:
    for row in view.backtest.rows if view.backtest is not None else ():
        for item in row.measures:
            promised = (item.promised, item.lower, item.upper)
            came = (item.realised, item.realised_lower, item.realised_upper)
            yield row.source, *_of(item), *promised, *came, item.covered, item.kept


def _updated(view: View) -> _Rows:
    for item in view.update.measures if view.update is not None else ():
        threes = (item.before, item.alone, item.after)
        yield (
            *_of(item),
            *(value for three in threes for value in three or (None, None, None)),
            *item.anytime, item.worth_rows, item.p_value, item.against, item.why_not,
        )  # fmt: skip


def _looks(view: View) -> _Rows:
    for look in view.update.path if view.update is not None else ():
        yield look.n_rows, look.estimate, look.lower, look.upper, *look.anytime, look.against


def _findings(view: View) -> _Rows:
    for item in view.findings:
        yield item.code, item.severity, item.source, _json(item.evidence)


def _checklists(view: View) -> _Rows:
    for checklist in CHECKLISTS:
        for f in checklist.filled(view):
            left = f.item.left if f.state == "in part" else ""
            yield checklist.name, f.item.number, f.item.topic, f.state, f.text, left


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(dict(value), default=str, ensure_ascii=False)


#: File name -> its headings, and what makes its rows. A new table is one entry.
CSV_TABLES: Mapping[str, tuple[str, Callable[[View], _Rows]]] = {
    "measures": (
        f"{_MEASURE} {_ENDS} between_sites why_not",
        lambda view: _promises(view.measures),
    ),
    "differences": (
        f"{_MEASURE} {_ENDS} between_sites why_not",
        lambda view: _promises(view.differences),
    ),
    "measures_by_source": (f"kind {_MEASURE} source value lower upper", _by_source),
    "calibration": ("class predicted observed lower upper share_of_rows", _calibration),
    "decision_curve": ("threshold model lower upper treat_all", _decision_curve),
    "risks": ("class from to with_event without_event", _risks),
    "recalibration": (f"intercept slope when measure {_ENDS}", _recalibration),
    "sources": ("source rows effective_rows imbalance reaches weight became", _sources),
    "balance": ("source feature difference_before difference_after", _balance),
    "target": ("feature kind value sd rows", _target),
    "candidates": ("candidate risk standard_error chosen round", _candidates),
    "backtest": (
        "source rows promised lower upper realised standard_error own_model verdict "
        + " ".join(f"patients_covered_quarter_{quarter + 1}" for quarter in range(BANDS)),
        _backtest,
    ),
    "backtest_measures": (
        (
            f"source {_MEASURE} promised lower upper realised realised_lower realised_upper "
            "covered kept"
        ),
        _backtest_measures,
    ),
    "outcomes": (
        (
            f"{_MEASURE} promised promised_lower promised_upper alone alone_lower alone_upper "
            "after after_lower after_upper anytime_lower anytime_upper worth_outcomes p_value "
            "against why_not"
        ),
        _updated,
    ),
    "looks": ("outcomes risk lower upper anytime_lower anytime_upper against", _looks),
    "findings": ("code severity source evidence", _findings),
    "checklists": ("checklist item topic state answer left_to_say", _checklists),
}
