"""A result as a folder, and back with equal predictions to the bit.

::

    RESULT/
      adaptation.json    the design, every report, the estimates, the weights, the findings
      models/0.fcsa …    one model message per source, in alphabetical order
      ledgers/0.jsonl …  what left each site, one line a message
      study.toml         the study's file, if there was one

A study that ended without a model leaves the same, with the reason in place of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedcsa.core.arrays import is_whole, read_only
from fedcsa.errors import (
    FedCSAError,
    MessageError,
    MissingExtraError,
    ModelError,
    ResultError,
)
from fedcsa.findings import Finding
from fedcsa.protocol.codec import decode, encode
from fedcsa.protocol.fields import thaw
from fedcsa.protocol.ledger import LedgerEntry
from fedcsa.protocol.messages import ModelReport
from fedcsa.result_json import (
    backtest_from_json,
    backtest_to_json,
    estimates_from_json,
    estimates_to_json,
    findings_to_json,
    plan_from_json,
    plan_to_json,
    report_from_json,
    report_to_json,
    risk_from_json,
    risk_to_json,
)
from fedcsa.roles.adaptation import Adaptation, unpack
from fedcsa.roles.ending import Ending

FORMAT = 1


def save_result(
    adaptation: Adaptation | Ending,
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
        models = {} if isinstance(adaptation, Ending) else adaptation.model_reports
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
    """Read a result; its predictions equal those of the adaptation that was saved."""
    folder = Path(folder)
    content = read_json(folder / "adaptation.json")
    if content.get("format") != FORMAT:
        raise ResultError(
            f"A result must be of format {FORMAT}; {str(folder)!r} is of another. "
            "Read it with the version of fedcsa that wrote it."
        )
    if "ended" in content:
        raise ResultError(
            f"A result must hold a model; the study in {str(folder)!r} ended without one. "
            f"See why with: fedcsa report {folder}"
        )
    _require_part(folder, "models")
    try:
        with np.errstate(over="raise"):  # no report that was accepted is so large
            return _restore(folder, content, trusted_types)
    except (ResultError, MessageError, ModelError, MissingExtraError):
        raise
    except (
        FedCSAError,
        OSError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ):
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


def summary(adaptation: Adaptation | Ending) -> dict[str, Any]:
    """The content of ``adaptation.json``: plain values, no row, no model."""
    a = adaptation
    if isinstance(a, Ending):
        return {**_common(a), "ended": {"rule": a.rule, "text": a.text}}
    return {
        **_common(a),
        "candidate": thaw(a.candidate),
        "target_risk": a.target_risk,
        "interval": list(a.interval) if a.interval else None,
        "source_weights": dict(a.source_weights),
        "risk": risk_to_json(a.risk),
        "by_rows": risk_to_json(a.by_rows),
        "constant_risks": dict(a.constant_risks),
        "estimates": estimates_to_json(a),
        "backtest": backtest_to_json(a.backtest),
        "kept": list(a.kept),
        "mean": a.mean.tolist(),
        "sd": a.sd.tolist(),
    }


def _common(a: Adaptation | Ending) -> dict[str, Any]:
    """What a study leaves, with or without a model."""
    return {
        "format": FORMAT,
        "fedcsa": version("fedcsa"),
        "study": a.plan.study,
        "method": a.plan.method,
        "status": a.status,
        "n_target_rows": a.n_target_rows,
        "findings": findings_to_json(a.findings),
        "plan": plan_to_json(a.plan),
        "reports": {name: report_to_json(report) for name, report in sorted(a.reports.items())},
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


def _restore(folder: Path, content: dict[str, Any], trusted: Collection[str]) -> Adaptation:
    plan = plan_from_json(content["plan"])
    reports = {name: report_from_json(item) for name, item in content["reports"].items()}
    kept = tuple(content["kept"])
    weights = {name: float(weight) for name, weight in content["source_weights"].items()}
    mean, sd = (np.array(content[key], dtype=np.float64) for key in ("mean", "sd"))
    sound = (
        mean.shape == sd.shape == (len(plan.features),)
        and np.isfinite(mean).all()
        and np.isfinite(sd).all()
        and (sd > 0.0).all()
        and kept == tuple(sorted({i for i in kept if is_whole(i, 0) and i < len(plan.candidates)}))
        and len(kept) > 0
        and 0 < len(weights) <= len(reports)
        and set(weights) <= set(reports)
        and min(weights.values()) >= 0.0
        and abs(sum(weights.values()) - 1.0) < 1e-6
        and is_whole(content["n_target_rows"], 2)
        and all(len(report.loss_mean) == len(plan.candidates) + 1 for report in reports.values())
    )
    if not sound:
        raise _damaged(folder, "its numbers contradict each other")
    model_reports = {}
    for position, name in enumerate(sorted(weights)):
        message = decode((folder / "models" / f"{position}.fcsa").read_bytes())
        if not isinstance(message, ModelReport) or message.source != name:
            raise _damaged(folder, "models are mixed up")
        model_reports[name] = message
    found = estimates_from_json(content["estimates"], plan, reports, kept)
    if any(kept[found[plan.method].chosen] != m.candidate for m in model_reports.values()):
        raise _damaged(folder, "its models are not those of its candidate")
    return Adaptation(
        plan=plan,
        kept=kept,
        estimates=found,
        reports=reports,
        model_reports=model_reports,
        models={name: unpack(model_reports[name], plan, trusted) for name in model_reports},
        source_weights=weights,
        mean=read_only(mean),
        sd=read_only(sd),
        n_target_rows=content["n_target_rows"],
        constant_risks={k: float(v) for k, v in content["constant_risks"].items()},
        risk=risk_from_json(content["risk"], len(weights)),
        by_rows=risk_from_json(content["by_rows"], len(weights)),
        backtest=backtest_from_json(content["backtest"]),
        findings=tuple(
            Finding(item["code"], item["source"], item["evidence"]) for item in content["findings"]
        ),
        ledgers=_read_ledgers(folder, content),
    )


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
