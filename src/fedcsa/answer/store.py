"""A result as a folder, and back with equal predictions to the bit.

::

    RESULT/
      adaptation.json    the design, the target's table, every report, what the sources found,
                         the promise, the verdict, the weights, the findings
      models/0.fcsa …    one model message per source, in alphabetical order
      ledgers/0.jsonl …  what left each site, one line a message
      study.toml         the study's file, if there was one
      updates.json       outcomes that came since: what they change, and who was to be followed up

A study that ended without a model leaves the same, with the reason in place of the answer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedcsa.answer.measure_words import WORDS
from fedcsa.core.arrays import Array
from fedcsa.core.scores import OwnScores
from fedcsa.core.table import Table1
from fedcsa.core.weights import Estimate
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Outcome
from fedcsa.errors import FedCSAError, MessageError, ModelError, ResultError
from fedcsa.findings import Finding
from fedcsa.messages.codec import decode_kept, encode
from fedcsa.messages.messages import ExaminationReport, ModelReport, RiskReport
from fedcsa.messages.policy import LedgerEntry
from fedcsa.models.allowed import refused_before_fitting
from fedcsa.models.arrivals import open_agreed
from fedcsa.models.description import GIVEN, thaw
from fedcsa.outcomes import History
from fedcsa.plan import Plan
from fedcsa.target.accept import score_rules
from fedcsa.target.adaptation import Adaptation, Concluded, Stopped
from fedcsa.target.backtest_result import Backtest, BacktestRow, MeasureOutcome
from fedcsa.target.estimate import estimates
from fedcsa.target.risk_units import risk_scale
from fedcsa.target.verdict import Promise
from fedcsa.update import Update

#: Of the file. Another one is refused: its numbers mean something else.
FORMAT = 3
#: What outcomes have changed since, and its format.
HISTORY, HISTORY_FORMAT = "updates.json", 2
#: Where a run keeps the answers of a search so far; a result that is whole removes it.
ROUNDS_FOLDER = "rounds"
#: What a report writes beside its page; a new result removes it.
CARD_FILE, CHECKLISTS_FILE, TABLES_FOLDER = "model-card.md", "checklists.md", "tables"
#: Of a model that has no format of ours; which have one is on the page about models.
NO_MODELS = (
    "The result keeps no models, so nothing can be predicted with it: this model has no format "
    "in which it is written. In Python, FedCSA predicts with it."
)
#: What a damaged file may raise.
_STRANGE = (
    FedCSAError, OSError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError
)  # fmt: skip
Record = TypeVar("Record")


# A folder -----------------------------------------------------------------------------------


def save_result(
    adaptation: Adaptation,
    folder: str | Path,
    study_toml: str | None = None,
    history: History | None = None,
) -> Path:
    """Write a result; an older result in the same folder is replaced.

    Parameters
    ----------
    adaptation : Adaptation
    folder : path
    study_toml : str, optional
        Text of the study's file, kept beside the result so that tables can be read the same way.
    history : History, optional
        What outcomes have changed since; without it, an older one in the folder is removed.
    """
    folder, models = Path(folder), adaptation.model_reports
    try:
        _clear(folder)
        for position, name in enumerate(sorted(models)):
            if not models[name].is_held:  # an object of this process is never written
                (folder / "models" / f"{position}.fcsa").write_bytes(encode(models[name]))
        for position, site in enumerate(sorted(adaptation.ledgers)):
            lines = [entry.to_json() + "\n" for entry in adaptation.ledgers[site]]
            path = folder / "ledgers" / f"{position}.jsonl"
            path.write_text("".join(lines), encoding="utf-8")
        if study_toml is not None:
            (folder / "study.toml").write_text(study_toml, encoding="utf-8")
        text = json.dumps(summary(adaptation), indent=1, allow_nan=False, ensure_ascii=False)
        if history is not None and not history.is_empty:
            save_history(history, folder, adaptation)
        (folder / "adaptation.json").write_text(text + "\n", encoding="utf-8")  # last: it is whole
        for old in (folder / ROUNDS_FOLDER).glob("*.*"):  # of a search that has ended
            old.unlink()
        if (folder / ROUNDS_FOLDER).is_dir():
            (folder / ROUNDS_FOLDER).rmdir()
    except OSError as error:
        raise ResultError(
            f"The folder {str(folder)!r} cannot be written ({type(error).__name__}). "
            "Choose another."
        ) from None
    return folder


def keeps_models(adaptation: Adaptation) -> bool:
    """Whether a folder can hold its models: objects of this process are never written."""
    return not any(report.is_held for report in adaptation.model_reports.values())


_UNKEPT = (
    "They were too large to be written, or were removed. Use fewer or smaller trees, or predict "
    "in the process that fitted them."
)


def load_result(folder: str | Path) -> Adaptation:
    """Read a result; its predictions equal those of the adaptation that was saved."""
    folder = Path(folder)
    found = restore(read_json(folder / "adaptation.json"), folder)
    if found.stopped is not None:
        raise ResultError(
            f"A result must hold a model; the study in {str(folder)!r} ended without one. "
            f"See why with: fedcsa report {folder}"
        )
    _require_part(folder, "models")
    with whole(folder, "a file is missing or was changed"):
        if found.kept and not any((folder / "models").iterdir()):
            why = refused_before_fitting(thaw(found.plan.model), thaw(found.plan.candidates))
            raise ResultError(f"The result in {str(folder)!r} keeps no models. {why or _UNKEPT}")
        reports = {}
        for position, name in enumerate(_model_names(found)):
            message = decode_kept((folder / "models" / f"{position}.fcsa").read_bytes())
            if not isinstance(message, ModelReport) or message.source != name:
                raise _damaged(folder, "models are mixed up")
            if found.kept and message.candidate != found.kept[found.estimate.chosen]:
                raise _damaged(folder, "its models are not those of its candidate")
            reports[name] = message
        plan, sd = found.plan, found.table.sd
        models = {
            name: open_agreed(sent.form, sent.arrays, plan, sent.candidate, sd)
            for name, sent in reports.items()
        }
    last = load_history(folder, found).last
    return replace(
        found,
        model_reports=reports,
        models=models,
        ledgers=load_ledgers(folder),
        correction=None if last is None else last.correction,
        intervals=() if last is None else last.intervals,
    )


def load_history(folder: str | Path, adaptation: Adaptation) -> History:
    """What outcomes have changed since a result was written; an empty one if none came.

    Parameters
    ----------
    folder : path
        Of the result.
    adaptation : Adaptation
        The result itself.
    """
    path = Path(folder) / HISTORY
    if not path.is_file():
        return History()
    content = read_json(path)
    with whole(Path(folder), f"{HISTORY} was changed"):
        _require(content.get("format") in (1, HISTORY_FORMAT))
        if content["format"] == 1 and content["update"] is not None:
            content["update"]["intervals"] = []  # outcomes did not check intervals then
        if content["result"] == result_digest(adaptation):
            found = History.from_json(content)
            _require(found.last is None or _is_of(found.last, adaptation))
            return found
    raise ResultError(
        f"{str(path)!r} belongs to another result than the one beside it. Delete it, and bring "
        "the outcomes in again."
    )


def _is_of(update: Update, adaptation: Adaptation) -> bool:
    """Whether an update can be one of this result."""
    moved = () if update.correction is None else update.correction.coefficients
    names = {item.name for item in update.measures[1:]}
    classes: list[str | None] = [str(label) for label in adaptation.plan.classes]
    return (
        len(moved) in (0, len(adaptation.plan.features))
        and names <= set(WORDS)
        and [check.of_class for check in update.intervals] in ([], classes or [None])
    )


def save_history(history: History, folder: str | Path, adaptation: Adaptation) -> Path:
    """Write what outcomes have changed, tied to the result by a digest.

    Parameters
    ----------
    history : History
    folder : path
        Of the result.
    adaptation : Adaptation
        The result itself.
    """
    path = Path(folder) / HISTORY
    told = {"format": HISTORY_FORMAT, "result": result_digest(adaptation)}
    text = json.dumps(plain(told | history.to_json()), indent=1, allow_nan=False)
    part = path.with_suffix(".part")
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path)
    return path


def result_digest(adaptation: Adaptation) -> str:
    """SHA-256 of what a result promises, which a back-test does not change."""
    a = adaptation
    told = (plain(a.plan), plain(a.table), dict(sorted(a.source_weights.items())), plain(a.promise))
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _model_names(found: Adaptation) -> list[str]:
    """Whose models a result keeps; of a given model only its own, unless it has no format."""
    if found.kept:
        return sorted(found.source_weights)
    return [GIVEN] if "sha256" in found.plan.model else []


def load_ledgers(folder: str | Path) -> dict[str, tuple[LedgerEntry, ...]]:
    """What left each site, without loading any model."""
    folder = Path(folder)
    content = read_json(folder / "adaptation.json")
    _require_part(folder, "ledgers")
    with whole(folder, "a ledger is missing or was changed"):
        found = {}
        for position, site in enumerate(content["sites"]):
            text = (folder / "ledgers" / f"{position}.jsonl").read_text(encoding="utf-8")
            found[str(site)] = tuple(map(LedgerEntry.from_json, text.splitlines()))
        return found


def read_json(path: Path) -> dict[str, Any]:
    """A file of a result folder: plain values by name."""
    if path.parent.is_file():
        study = path.parent if path.parent.suffix == ".toml" else "STUDY"
        raise ResultError(
            f"RESULT must be a folder; {str(path.parent)!r} is a file. "
            f"Make one with: fedcsa run {study} --out DIR"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
        if isinstance(content, dict):
            return content
    except FileNotFoundError:
        wrong = "does not" if path.parent.exists() else "does not exist"
        raise ResultError(
            f"A result folder must hold adaptation.json; {str(path.parent)!r} {wrong}. "
            "Make one with: fedcsa run STUDY --out DIR. The target of a federated study may keep "
            "its own to itself."
        ) from None
    except (OSError, ValueError, RecursionError):
        pass
    raise ResultError(f"{str(path)!r} is damaged: it must hold a JSON object. Run the study again.")


def _no_constant(_: str) -> Any:
    raise ValueError  # NaN and Infinity are not JSON


def _clear(folder: Path) -> None:
    """Make the folders and remove an older result's files, adaptation.json first."""
    held = {item.name for item in folder.iterdir()} if folder.exists() else set()
    if held - {ROUNDS_FOLDER} and "adaptation.json" not in held:
        raise ResultError(
            f"The folder {str(folder)!r} holds something other than a result. "
            "Choose an empty one, or one with an older result."
        )
    files = ("adaptation.json", "study.toml", "report.html", CARD_FILE, CHECKLISTS_FILE, HISTORY)
    for name in files:
        (folder / name).unlink(missing_ok=True)
    for old in (folder / TABLES_FOLDER).glob("*.csv"):
        old.unlink()
    for name, pattern in (("models", "*.fcsa"), ("ledgers", "*.jsonl")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for old in (folder / name).glob(pattern):
            old.unlink()


def _require_part(folder: Path, part: str) -> None:
    if not (folder / part).is_dir():
        raise ResultError(
            f"The result in {str(folder)!r} holds no {part}: those of a federated study stay at "
            "its sites. Use the target's own result, under results/ of its state folder."
        )


@contextmanager
def whole(folder: Path, how: str) -> Iterator[None]:
    """Turn what a damaged file may raise into an error that says how it is damaged."""
    try:
        with np.errstate(over="raise"):  # no report that was accepted is so large
            yield
    except (ResultError, MessageError, ModelError):
        raise
    except _STRANGE:
        raise _damaged(folder, how) from None


def _damaged(folder: Path, how: str) -> ResultError:
    return ResultError(
        f"The result in {str(folder)!r} is damaged: {how}. "
        "Run the study again, or restore it from a backup."
    )


# Plain values, and back ---------------------------------------------------------------------


def summary(adaptation: Adaptation) -> dict[str, Any]:
    """The content of ``adaptation.json``: plain values, no row, no model."""
    a = adaptation
    told = {
        "format": FORMAT,
        "fedcsa": version("fedcsa"),
        "study": a.plan.study,
        "method": a.plan.method,
        "status": a.status,
        "n_target_rows": a.n_target_rows,
        "table": plain(a.table),
        "findings": findings_to_json(a.findings),
        "plan": plain(a.plan),
        "reports": {name: plain(a.reports[name]) for name in a.sources},
        "rounds": list(a.rounds),
        "columns": None if a.columns is None else columns_to_json(a.columns),
        "sites": sorted(a.ledgers),
    }
    if a.stopped is not None:
        return {**told, "ended": plain(a.stopped)}
    return {
        **told,
        "verdict": {"words": a.verdict.words, **plain(a.verdict)},
        "promise": plain(a.promise),
        "candidate": thaw(a.candidate),
        "target_risk": plain(a.target_risk),
        "interval": plain(a.interval),
        "source_weights": dict(a.source_weights),
        "examinations": {name: plain(item) for name, item in sorted(a.examinations.items())},
        "own_scores": None
        if a.own_scores is None
        else {"shares": plain(a.own_scores.shares), "n_rows": plain(a.own_scores.n_rows)},
        "estimates": {
            method: {
                "candidate": thaw(a.plan.candidates[a.kept[found.chosen]]),
                "target_risk": float(found.risk[found.chosen]),
                "source_weights": dict(zip(a.sources, found.source_weights.tolist(), strict=True)),
                "risk": found.risk.tolist(),
                "standard_errors": found.standard_errors.tolist(),
            }
            for method, found in a.estimates.items()
        },
        "backtest": None if a.backtest is None else backtest_to_json(a.backtest),
        "kept": list(a.kept),
    }


def columns_to_json(columns: Columns) -> dict[str, Any]:
    """How tables are read, as plain values: what a study file says of it."""
    return {
        "features": columns.described,
        "outcome": plain(columns.outcome),
        "missing_values": list(columns.missing_values),
        "predictions": columns.predictions,
    }


def _columns(content: Mapping[str, Any] | None, plan: Plan) -> Columns | None:
    """What `columns_to_json` wrote, if it is of the study's features.

    Parameters
    ----------
    content : mapping or None
    plan : Plan
    """
    if content is None:
        return None
    outcome = None if content["outcome"] is None else Outcome(**content["outcome"])
    found = Columns(**{**content, "outcome": outcome})
    _require(found.columns == plan.features and isinstance(found.predictions, str))
    _require(all(isinstance(text, str) for text in found.missing_values))
    return found


def backtest_to_json(backtest: Backtest) -> dict[str, Any]:
    """A back-test as plain values."""
    derived = (
        "verdict", "sentence", "coverage", "calibration", "regret", "held_for", "measures"
    )  # fmt: skip
    told = {name: plain(getattr(backtest, name)) for name in derived}
    return {**plain(backtest), **told, "findings": findings_to_json(backtest.findings)}


def findings_to_json(findings: Collection[Finding]) -> list[dict[str, Any]]:
    """Findings as plain values, each with its sentence."""
    return [{**plain(f), "severity": f.severity, "text": str(f)} for f in findings]


def plain(value: Any) -> Any:
    """Records, arrays and mappings as plain values; NaN, which JSON has not, as None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def restore(content: Mapping[str, Any], folder: Path) -> Adaptation:
    """What ``adaptation.json`` says, without models and ledgers.

    Parameters
    ----------
    content : mapping
        Of the file.
    folder : Path
        For messages.
    """
    if content.get("format") != FORMAT:
        raise ResultError(
            f"The result in {str(folder)!r} is not of format {FORMAT}. "
            "Read it with the version of fedcsa that wrote it."
        )
    with whole(folder, "its numbers contradict each other"):
        found = _told(content)
        if found.stopped is not None:
            return found
        found = _with_answer(found, content)
        _require(found.verdict.advice == content["verdict"]["advice"])
        return found


def _told(content: Mapping[str, Any]) -> Adaptation:
    """What every study leaves, with or without a model."""
    plan, table = _record(Plan, content["plan"]), _record(Table1, content["table"])
    _require(table.features == plan.features and table.n_rows == content["n_target_rows"])
    reports = {name: _record(RiskReport, item) for name, item in content["reports"].items()}
    sizes = {(len(r.difference_after), len(r.risk)) for r in reports.values()}
    _require(sizes <= {(len(plan.features), len(plan.candidates))})
    rounds = tuple(int(size) for size in content.get("rounds", [len(plan.candidates)]))
    _require(sum(rounds) == len(plan.candidates) and min(rounds, default=0) >= 0)
    findings = tuple(
        Finding(item["code"], item["source"], item["evidence"]) for item in content["findings"]
    )
    stopped = _record(Stopped, content["ended"]) if "ended" in content else None
    columns = _columns(content.get("columns"), plan)
    told = Adaptation(plan, table, reports, rounds, described=columns)
    return replace(told, stopped=stopped, concluded=Concluded(None, findings))


def _with_answer(told: Adaptation, content: Mapping[str, Any]) -> Adaptation:
    """The same with the model's weights, what was examined, and the promise."""
    kept, candidates = tuple(content["kept"]), range(len(told.plan.candidates))
    _require(bool(kept) == bool(candidates) and kept == tuple(i for i in candidates if i in kept))
    weights = {name: float(weight) for name, weight in content["source_weights"].items()}
    _require(weights and set(weights) <= set(told.reports) and min(weights.values()) >= 0.0)
    _require(abs(sum(weights.values()) - 1.0) < 1e-6)
    examined = {
        name: _record(ExaminationReport, item) for name, item in content["examinations"].items()
    }
    _require(set(examined) <= set(told.reports))
    design = told.score_design
    for name, report in examined.items():
        _require(all(holds for holds, _ in score_rules(report, design, told.reports[name])))
    promise, played = content["promise"], content["backtest"]
    promise = None if promise is None else _promise(promise, examined)
    if played is not None:
        rows = tuple(_played(row) for row in played["rows"])
        played = Backtest(rows, float(played["level"]), risk_scale(told.plan))
    return replace(
        told,
        kept=kept,
        estimates=_estimates(content["estimates"], told, kept),
        source_weights=weights,
        examinations=examined,
        concluded=Concluded(promise, told.findings),
        own_scores=_own_scores(content["own_scores"], told),
        backtest=played,
    )


def _played(content: Mapping[str, Any]) -> BacktestRow:
    """One source of a back-test."""
    row = _record(BacktestRow, content)
    measures = tuple(_record(MeasureOutcome, item) for item in row.measures)  # type: ignore[arg-type]
    return replace(row, measures=measures)


def _own_scores(content: Mapping[str, Any] | None, told: Adaptation) -> OwnScores | None:
    """How the target's own rows spread over scores, of the shape that the study gives them.

    Parameters
    ----------
    content : mapping or None
    told : Adaptation
    """
    if content is None:
        return None
    design = told.score_design
    shares, n_rows = (np.array(content[name], np.float64) for name in ("shares", "n_rows"))
    groups = design.n_subgroups + 1
    _require(shares.shape == (groups, len(design.classes), design.n_bins, 2))
    _require(n_rows.shape == (groups,) and (n_rows >= 0.0).all())
    _require(np.isfinite(shares).all() and (shares[..., 0] >= 0.0).all())
    return OwnScores(design, shares, n_rows)


def _record(kind: type[Record], content: Mapping[str, Any]) -> Record:
    """A record out of plain values; it checks itself.

    Parameters
    ----------
    kind : type
        A dataclass; a message without bytes is one.
    content : mapping
    """
    kinds = {
        item.name: item.metadata.get("kind")
        for item in dataclasses.fields(kind)  # type: ignore[arg-type]
    }
    values: dict[str, Any] = {}
    for name, value in content.items():
        if kinds.get(name) == "matrix" and not value:
            continue  # the record knows the shape of an empty one
        if value is not None and (kinds.get(name) in ("vector", "matrix") or name == "public_sd"):
            values[name] = np.array(value, dtype=np.float64)  # None in it is NaN
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def _promise(content: Mapping[str, Any], examined: Collection[str]) -> Promise:
    """A promise, which can rest on those who examined alone."""
    promise = _record(Promise, content)
    numbers = [value for name, value in vars(promise).items() if name != "examined_by"]
    _require(all(math.isfinite(number) and number >= 0.0 for number in numbers))
    _require(promise.lower <= promise.risk <= promise.upper)
    _require(promise.examined_by and set(promise.examined_by) <= set(examined))
    return promise


def _estimates(
    content: Mapping[str, Any], told: Adaptation, kept: tuple[int, ...]
) -> dict[str, Estimate]:
    """What was estimated then, also where another version of the package would say otherwise."""
    found = {}
    candidates = [thaw(told.plan.candidates[index]) for index in kept]
    for method, fresh in estimates(told.plan, told.reported, kept).items():
        then = content[method]
        chosen, weights = candidates.index(then["candidate"]), fresh.weights.copy()
        weights[chosen] = [then["source_weights"][name] for name in told.sources]
        _require(np.isfinite(weights).all() and (weights >= 0.0).all())
        risk, errors = (_numbers(then[key], len(kept)) for key in ("risk", "standard_errors"))
        found[method] = replace(
            fresh, risk=risk, weights=weights, chosen=chosen, standard_errors=errors
        )
    return found


def _numbers(values: Any, size: int) -> Array:
    found = np.array(values, dtype=np.float64)
    _require(found.shape == (size,) and np.isfinite(found).all())
    return found


def _require(condition: object) -> None:
    if not condition:
        raise ValueError
