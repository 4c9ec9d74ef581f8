"""A result as a folder, and back with equal predictions to the bit.

::

    RESULT/
      adaptation.json    the design, the target's table, every report, what the sources found,
                         the promise, the verdict, the weights, the findings
      models/0.fcsa …    one model message per source, in alphabetical order
      ledgers/0.jsonl …  what left each site, one line a message
      study.toml         the study's file, if there was one

A study that ended without a model leaves the same, with the reason in place of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedcsa.answer.plain import (
    backtest_from_json,
    backtest_to_json,
    estimates_from_json,
    estimates_to_json,
    findings_to_json,
    message_from_json,
    plain,
    plan_from_json,
    promise_from_json,
)
from fedcsa.core.arrays import is_whole
from fedcsa.core.table import Table1
from fedcsa.errors import (
    FedCSAError,
    MessageError,
    MissingExtraError,
    ModelError,
    ResultError,
)
from fedcsa.findings import Finding
from fedcsa.messages.codec import decode, encode
from fedcsa.messages.fields import thaw
from fedcsa.messages.ledger import LedgerEntry
from fedcsa.messages.messages import ExaminationReport, ModelReport, RiskReport
from fedcsa.target.adaptation import Adaptation, Stopped
from fedcsa.target.estimate import fitted_model

#: Of the file. Another one is refused: its numbers mean something else.
FORMAT = 2
#: What a damaged file may raise.
_STRANGE = (
    FedCSAError, OSError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError
)  # fmt: skip


def save_result(
    adaptation: Adaptation,
    folder: str | Path,
    study_toml: str | None = None,
    *,
    keep_reconciliation: bool = False,
) -> Path:
    """Write a result; an older result in the same folder is replaced.

    Parameters
    ----------
    study_toml : str, optional
        Text of the study's file, kept beside the result so that tables can be read the same way.
    keep_reconciliation : bool, default False
        Leave the file of an earlier reconciliation: the same result is being written again.
    """
    folder = Path(folder)
    try:
        _clear(folder)
        if not keep_reconciliation:
            (folder / "reconciliation.json").unlink(missing_ok=True)
        models = adaptation.model_reports
        for position, name in enumerate(sorted(models)):
            path = folder / "models" / f"{position}.fcsa"
            path.write_bytes(encode(models[name]))
        for position, site in enumerate(sorted(adaptation.ledgers)):
            lines = [entry.to_json() + "\n" for entry in adaptation.ledgers[site]]
            path = folder / "ledgers" / f"{position}.jsonl"
            path.write_text("".join(lines), encoding="utf-8")
        if study_toml is not None:
            (folder / "study.toml").write_text(study_toml, encoding="utf-8")
        text = json.dumps(summary(adaptation), indent=1, allow_nan=False, ensure_ascii=False)
        (folder / "adaptation.json").write_text(text + "\n", encoding="utf-8")  # last: it is whole
    except OSError as error:
        raise ResultError(
            f"The folder {str(folder)!r} must be writable; {type(error).__name__} came instead."
        ) from None
    return folder


def load_result(folder: str | Path, trusted_types: Collection[str] = ()) -> Adaptation:
    """Read a result; its predictions equal those of the adaptation that was saved.

    Parameters
    ----------
    folder : path
    trusted_types : collection of str
        Types outside scikit-learn that its models may hold.
    """
    folder = Path(folder)
    content = read_json(folder / "adaptation.json")
    found = restore(content, folder)
    if found.stopped is not None:
        raise ResultError(
            f"A result must hold a model; the study in {str(folder)!r} ended without one. "
            f"See why with: fedcsa report {folder}"
        )
    _require_part(folder, "models")
    try:
        return replace(
            found, **_models(folder, found, trusted_types), ledgers=_read_ledgers(folder, content)
        )
    except (ResultError, MessageError, ModelError, MissingExtraError):
        raise
    except _STRANGE:
        raise _damaged(folder, "a file is missing or was changed") from None


def load_ledgers(folder: str | Path) -> dict[str, tuple[LedgerEntry, ...]]:
    """What left each site, without loading any model."""
    folder = Path(folder)
    content = read_json(folder / "adaptation.json")
    _require_part(folder, "ledgers")
    try:
        return _read_ledgers(folder, content)
    except (OSError, LookupError, TypeError, ValueError):
        raise _damaged(folder, "a ledger is missing or was changed") from None


def summary(adaptation: Adaptation) -> dict[str, Any]:
    """The content of ``adaptation.json``: plain values, no row, no model."""
    a = adaptation
    if a.stopped is not None:
        return {**_common(a), "ended": plain(a.stopped)}
    return {
        **_common(a),
        "verdict": {"words": a.verdict.words, **plain(a.verdict)},
        "promise": plain(a.promise),
        "candidate": thaw(a.candidate),
        "target_risk": a.target_risk,
        "interval": plain(a.interval),
        "source_weights": dict(a.source_weights),
        "examinations": {name: plain(item) for name, item in sorted(a.examinations.items())},
        "estimates": estimates_to_json(a),
        "backtest": backtest_to_json(a.backtest),
        "kept": list(a.kept),
    }


def _common(a: Adaptation) -> dict[str, Any]:
    """What a study leaves, with or without a model."""
    return {
        "format": FORMAT,
        "fedcsa": version("fedcsa"),
        "study": a.plan.study,
        "method": a.plan.method,
        "status": a.status,
        "n_target_rows": a.n_target_rows,
        "table": plain(a.table),
        "findings": findings_to_json(a.findings),
        "plan": plain(a.plan),
        "reports": {name: plain(report) for name, report in sorted(a.reports.items())},
        "sites": sorted(a.ledgers),
    }


def _require_part(folder: Path, part: str) -> None:
    if not (folder / part).is_dir():
        raise ResultError(
            f"The result in {str(folder)!r} holds no {part}: those of a federated study stay at "
            "its sites. Use the target's own result, under results/ of its state folder."
        )


def _damaged(folder: Path, how: str) -> ResultError:
    return ResultError(
        f"The result in {str(folder)!r} is damaged: {how}. "
        "Run the study again, or restore it from a backup."
    )


def restore(content: dict[str, Any], folder: Path) -> Adaptation:
    """What ``adaptation.json`` says, without models and ledgers.

    Parameters
    ----------
    content : dict
        Of the file.
    folder : Path
        For messages.
    """
    if content.get("format") != FORMAT:
        raise ResultError(
            f"A result must be of format {FORMAT}; {str(folder)!r} is of another. "
            "Read it with the version of fedcsa that wrote it."
        )
    try:
        with np.errstate(over="raise"):  # no report that was accepted is so large
            found = _restored(content)
    except MessageError:
        raise
    except _STRANGE:
        raise _damaged(folder, "its numbers contradict each other") from None
    return found


def _restored(content: dict[str, Any]) -> Adaptation:
    plan = plan_from_json(content["plan"])
    n_features, n_candidates = len(plan.features), len(plan.candidates)
    reports = {
        name: message_from_json(RiskReport, item) for name, item in content["reports"].items()
    }
    sizes = {(len(r.difference_after), len(r.risk)) for r in reports.values()}
    _require(sizes <= {(n_features, n_candidates)})
    findings = tuple(
        Finding(item["code"], item["source"], item["evidence"]) for item in content["findings"]
    )
    table = Table1(**content["table"])
    _require(table.features == plan.features and table.n_rows == content["n_target_rows"])
    if "ended" in content:
        stopped = Stopped(**content["ended"])
        return Adaptation(plan, table, reports, findings=findings, stopped=stopped)
    kept = tuple(content["kept"])
    known = {i for i in kept if is_whole(i, 0) and i < n_candidates}
    _require(kept and kept == tuple(sorted(known)))
    weights = {name: float(weight) for name, weight in content["source_weights"].items()}
    _require(weights and set(weights) <= set(reports) and min(weights.values()) >= 0.0)
    _require(abs(sum(weights.values()) - 1.0) < 1e-6)
    examined = {
        name: message_from_json(ExaminationReport, item)
        for name, item in content["examinations"].items()
    }
    _require(set(examined) <= set(reports))
    found = Adaptation(
        plan=plan,
        table=table,
        kept=kept,
        estimates=estimates_from_json(content["estimates"], plan, reports, kept),
        reports=reports,
        source_weights=weights,
        examinations=examined,
        promise=promise_from_json(content["promise"], examined),
        backtest=backtest_from_json(content["backtest"]),
        findings=findings,
    )
    _require(found.verdict.advice == content["verdict"]["advice"])
    return found


def _require(condition: object) -> None:
    if not condition:
        raise ValueError


def _models(folder: Path, found: Adaptation, trusted: Collection[str]) -> dict[str, Any]:
    """The models, and the messages that brought them."""
    reports = {}
    for position, name in enumerate(sorted(found.source_weights)):
        message = decode((folder / "models" / f"{position}.fcsa").read_bytes())
        if not isinstance(message, ModelReport) or message.source != name:
            raise _damaged(folder, "models are mixed up")
        if message.candidate != found.kept[found.estimate.chosen]:
            raise _damaged(folder, "its models are not those of its candidate")
        reports[name] = message
    models = {name: fitted_model(reports[name], found.plan, trusted) for name in reports}
    return {"model_reports": reports, "models": models}


def _read_ledgers(folder: Path, content: dict[str, Any]) -> dict[str, tuple[LedgerEntry, ...]]:
    ledgers = {}
    for position, site in enumerate(content["sites"]):
        lines = (folder / "ledgers" / f"{position}.jsonl").read_text(encoding="utf-8").splitlines()
        ledgers[str(site)] = tuple(LedgerEntry.from_json(line) for line in lines)
    return ledgers


def _clear(folder: Path) -> None:
    """Make the folders and remove an older result's files, adaptation.json first."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "adaptation.json").is_file():
        raise ResultError(
            f"The folder {str(folder)!r} must be empty or hold an older result; it holds "
            "something else. Choose another one."
        )
    (folder / "adaptation.json").unlink(missing_ok=True)
    for name in ("study.toml", "report.html"):
        (folder / name).unlink(missing_ok=True)
    for name, pattern in (("models", "*.fcsa"), ("ledgers", "*.jsonl")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for old in (folder / name).glob(pattern):
            old.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """A file of a result folder: plain values by name."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text, parse_constant=_no_constant)
    except FileNotFoundError:
        raise ResultError(
            f"A result folder must hold adaptation.json; {str(path.parent)!r} does not. "
            "Make one with: fedcsa run STUDY --out DIR. The target of a federated study may keep "
            "its own to itself."
        ) from None
    except (OSError, ValueError, RecursionError):
        raise ResultError(
            f"{str(path)!r} is damaged: it is not readable JSON. Run the study again."
        ) from None
    if not isinstance(content, dict):
        raise ResultError(
            f"{str(path)!r} is damaged: it must hold a JSON object. Run the study again."
        )
    return content


def _no_constant(_: str) -> Any:
    raise ValueError  # NaN and Infinity are not JSON
