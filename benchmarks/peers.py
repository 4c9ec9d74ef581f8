"""Peers on the same work: how long each takes, and how far its answer is from the truth.

A simulated source has outcomes, the target has none, and a given classifier is to be judged there:
its AUROC and its Brier loss at the target. Peers weight the source's rows, or estimate without
them. In a second task a ridge regression is chosen for the target. The truth is known, since the
studies are simulated. Peers are installed into an environment of their own, build/peers-venv, with
the versions of peers-requirements.txt. One that does not run is named with its reason.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

from benchmarks.harness import (
    ROOT,
    blas_threads,
    last_decade,
    options,
    timed,
    write_provenance,
    write_table,
)
from fedcsa import ULSIF, FedCSA, Table1
from fedcsa.core.tilt import fit_tilt

HERE = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / "build" / "peers-venv"
#: Seconds that a peer may take for all studies before it is left out.
PATIENCE = 150.0
#: Rows of the sample from the target that stands for the truth.
TRUTH = 200_000
FEATURES = 5
PENALTIES = (0.0, *np.logspace(-3, 0, 12).tolist())


@dataclass(frozen=True)
class Peer:
    """Somebody who does the work, and what it needs of the target."""

    shown: str
    needs: str
    task: str = "judge"


PEERS = {
    "densratio": Peer("densratio, uLSIF", "rows"),
    "adapt-ulsif": Peer("ADAPT, uLSIF", "rows"),
    "adapt-kmm": Peer("ADAPT, KMM", "rows"),
    "skada-gaussian": Peer("skada, Gaussian ratio", "rows"),
    "skada-kliep": Peer("skada, KLIEP", "rows"),
    "logistic": Peer("scikit-learn, classifier ratio", "rows"),
    "empirical-calibration": Peer("empirical_calibration, entropy balancing", "table"),
    "nannyml": Peer("NannyML, CBPE", "rows"),
    "grid-search": Peer("GridSearchCV with weights", "rows", "choose"),
}
OURS = {
    "fedcsa-table": Peer("fedcsa, weights by the table", "table"),
    "fedcsa-ulsif": Peer("fedcsa, `ULSIF`", "rows"),
    "fedcsa-evaluate": Peer("fedcsa, `evaluate` with intervals", "table"),
    "unweighted": Peer("no weights", "nothing"),
    "fedcsa-fit": Peer("fedcsa, `fit` with intervals", "table", "choose"),
}
#: What times are compared with, by task.
BASE = {"judge": "fedcsa-table", "choose": "fedcsa-fit"}


@dataclass(frozen=True)
class Settings:
    """Rows a side: all sizes are timed in the first family; errors are told of `rows`."""

    rows: int = 1_000
    timed_rows: tuple[int, ...] = (300, 1_000, 2_000)
    seeds: int = 5
    threads: int = 1


QUICK = Settings(rows=120, timed_rows=(60, 120), seeds=1)


# The studies --------------------------------------------------------------------------------

Rows = np.ndarray
Draw = Callable[[np.random.Generator, int], Rows]
#: The source's rows are standard normal. A family: how the target's are drawn, and their ratio.
MEANS, SPREAD, HUMPS, LOW, HIGH = 0.4, 0.9, 1.2, 0.2, 1.8


def _moved(rng: np.random.Generator, n: int) -> Rows:
    return rng.normal(MEANS, SPREAD, (n, FEATURES))


def _moved_ratio(X: Rows) -> Rows:
    z = (X - MEANS) / SPREAD
    return np.exp(0.5 * (X**2 - z**2).sum(1)) / SPREAD**FEATURES


def _humps(rng: np.random.Generator, n: int) -> Rows:
    X = rng.normal(0.0, 1.0, (n, FEATURES))
    X[:, 0] = 0.5 * X[:, 0] + rng.choice([-HUMPS, HUMPS], n)
    return X


def _humps_ratio(X: Rows) -> Rows:
    x = X[:, 0]
    hump = [np.exp(-0.5 * ((x - m) / 0.5) ** 2) / 0.5 for m in (-HUMPS, HUMPS)]
    return 0.5 * np.exp(0.5 * x**2) * np.sum(hump, axis=0)


def _step_ratio(X: Rows) -> Rows:
    return np.where(X[:, 0] + X[:, 1] > 0.0, HIGH, LOW)


def _step(rng: np.random.Generator, n: int) -> Rows:
    X = rng.normal(0.0, 1.0, (3 * n + 200, FEATURES))
    return X[rng.random(len(X)) < _step_ratio(X) / HIGH][:n]


FAMILIES: dict[str, tuple[Draw, Callable[[Rows], Rows]]] = {
    "means move": (_moved, _moved_ratio),
    "two humps": (_humps, _humps_ratio),
    "a step": (_step, _step_ratio),
}


def _chance(X: Rows) -> Rows:
    """Not logistic in x, so that a given model's risk depends on who the patients are."""
    return 1.0 / (1.0 + np.exp(1.0 - 1.5 * X[:, 0] - X[:, 1] + 0.8 * X[:, 0] ** 2))


def _number(X: Rows) -> Rows:
    return X.mean(axis=1) + 0.3 * X[:, 0] ** 2


@dataclass(frozen=True)
class Drawn:
    """One study: what peers see, the model to judge, and what only the simulation knows."""

    name: str
    family: str
    seen: dict[str, Rows]
    model: LogisticRegression
    ratio: Rows
    truth_rows: Rows
    auroc: float
    brier: float

    def risk_of(self, intercept: float, coefficients: Rows) -> float:
        """Squared loss of a linear model at the target; the outcome's noise has sd 0.5."""
        off = self.truth_rows @ coefficients + intercept - _number(self.truth_rows)
        return float((off**2).mean()) + 0.25


def draw(family: str, rows: int, seed: int) -> Drawn:
    target, ratio = FAMILIES[family]
    rng = np.random.default_rng([seed, rows, *family.encode()])

    def source(n: int) -> tuple[Rows, Rows]:
        X = rng.normal(0.0, 1.0, (n, FEATURES))
        return X, (rng.random(n) < _chance(X)).astype(int)

    model = LogisticRegression().fit(*source(1_000))
    X, y = source(rows)
    new, many = target(rng, rows), target(rng, TRUTH)
    seen = {
        "X": X,
        "y": y,
        "t": _number(X) + rng.normal(0.0, 0.5, rows),
        "X_target": new,
        "scores": model.predict_proba(X)[:, 1],
        "target_scores": model.predict_proba(new)[:, 1],
    }
    p, chance = model.predict_proba(many)[:, 1], _chance(many)
    happened = rng.random(len(many)) < chance
    brier = float((chance * (1.0 - p) ** 2 + (1.0 - chance) * p**2).mean())
    name = f"study-{rows:05d}-{list(FAMILIES).index(family)}-{seed}"
    auroc = float(roc_auc_score(happened, p))
    return Drawn(name, family, seen, model, ratio(X), many, auroc, brier)


# Who does the work --------------------------------------------------------------------------


def ours(name: str, study: Drawn) -> Any:
    """What one of ours finds: weights, measures by name, or a choice as a peer tells it."""
    seen = study.seen
    names = [f"x{k}" for k in range(FEATURES)]
    flags = np.zeros(FEATURES, dtype=bool)
    if name == "unweighted":
        return np.ones(len(seen["X"]))
    if name == "fedcsa-table":
        table = Table1.of(seen["X_target"], names, flags)
        z = (seen["X"] - table.mean) / table.sd
        return fit_tilt([z], flags, table.correlations).weights(z)
    if name == "fedcsa-ulsif":
        return ULSIF(random_state=0).fit(seen["X"], seen["X_target"]).predict(seen["X"])
    if name == "fedcsa-evaluate":
        told = FedCSA(random_state=0).evaluate(
            study.model, {"source": (seen["X"], seen["y"])}, seen["X_target"]
        )
        _ = told.verdict  # what nobody asks for is not made
        return {one.name: one.estimate for one in told.measures}
    candidates = [{"penalty": p, "ratio_power": 1.0} for p in PENALTIES]
    fitted = FedCSA(candidates=candidates, random_state=0, on_no_overlap="predict")
    fitted.fit({"source": (seen["X"], seen["t"])}, seen["X_target"])
    at = np.vstack([np.zeros(FEATURES), np.eye(FEATURES)])
    values = fitted.predict(at)
    _ = fitted.verdict_
    return [fitted.target_risk_, values[0], *(values[1:] - values[0])]


def installed() -> tuple[Path, str]:
    """The peers' interpreter, and why they are not there; they are installed if they are not yet.

    The list is whole, so pip looks for nothing else. Files are compiled when they are first used:
    of most packages little is.
    """
    python = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp, wanted = ENVIRONMENT / ".ready", HERE / "peers-requirements.txt"
    if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
        return python, ""
    print(f"peers: installing them into {ENVIRONMENT.relative_to(ROOT)}, 2 GB", flush=True)
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-compile", "-r", wanted]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        return python, f"not installed: {_last(done.stderr)}"
    shutil.copyfile(wanted, stamp)
    return python, ""


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if "ERROR" in line or "Error" in line]
    return (lines or ["no message"])[-1].replace("|", "/")[:160]


def asked(python: Path, name: str, folder: Path, threads: int) -> dict[str, Any] | str:
    """What a peer tells of all studies, or why it does not."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    environment["NML_DISABLE_USAGE_LOGGING"] = "1"  # NannyML would tell its makers
    environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # their files are compiled once
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        environment[variable] = str(threads)
    command = [python, HERE / "peer_worker.py", name, folder]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"not done within {PATIENCE:g} s"
    if done.returncode:
        return f"not run: {_last(done.stderr)}"
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def asked_ours(name: str, studies: Sequence[Drawn]) -> dict[str, Any]:
    """The same of one of ours, in this process; the first study once before, as of peers."""
    ours(name, studies[0])
    told = {}
    for study in studies:
        found: list[Any] = []
        taken = timed(lambda s=study, f=found: f.append(ours(name, s)))  # type: ignore[misc]
        told[study.name] = {"seconds": taken.wall, "cpu_seconds": taken.cpu, "found": found[0]}
    return {"version": "", "import_seconds": None, "studies": told}


# Errors -------------------------------------------------------------------------------------


def errors(study: Drawn, found: Any) -> dict[str, float]:
    """How far an answer is from the truth."""
    if isinstance(found, list):
        promised, intercept, *coefficients = found
        risk = study.risk_of(intercept, np.array(coefficients))
        return {"risk_error": abs(float(np.log(promised / risk))), "chosen_risk": risk}
    if isinstance(found, float):
        return {"auroc_error": abs(found - study.auroc)}
    if isinstance(found, dict):
        auroc, brier = found["auroc"], found["brier"]
        return _judged(study, auroc, brier)
    y, scores = study.seen["y"], study.seen["scores"]
    weights = np.maximum(np.asarray(found, dtype=float).ravel(), 0.0)
    if not weights.sum() > 0.0:
        return {}
    weights = weights / weights.mean()
    ratio = study.ratio / study.ratio.mean()
    return {
        **_judged(
            study,
            float(roc_auc_score(y, scores, sample_weight=weights)),
            float(brier_score_loss(y, scores, sample_weight=weights)),
        ),
        "ratio_error": float(((weights - ratio) ** 2).mean() / (ratio**2).mean()),
    }


def _judged(study: Drawn, auroc: float, brier: float) -> dict[str, float]:
    off = abs(float(np.log(brier / study.brier)))
    return {"auroc_error": abs(auroc - study.auroc), "risk_error": off}


ERRORS = ("auroc_error", "risk_error", "ratio_error", "chosen_risk")


def lines_of(
    name: str, peer: Peer, told: dict[str, Any], studies: Sequence[Drawn]
) -> Iterator[dict[str, Any]]:
    """A line for every size and family: medians of times, means of errors."""
    for rows, family in dict.fromkeys((len(s.seen["X"]), s.family) for s in studies):
        same = [s for s in studies if (len(s.seen["X"]), s.family) == (rows, family)]
        found = [told["studies"][s.name] for s in same]
        off = [errors(s, one["found"]) for s, one in zip(same, found, strict=True)]
        means = {
            key: float(np.mean([o[key] for o in off])) if all(key in o for o in off) else None
            for key in ERRORS
        }
        yield {
            "task": peer.task,
            "family": family,
            "rows": rows,
            "what": name,
            "shown": peer.shown,
            "version": told["version"],
            "needs": peer.needs,
            "import_seconds": told["import_seconds"],
            "studies": len(same),
            "seconds": statistics.median(one["seconds"] for one in found),
            "cpu_seconds": statistics.median(one["cpu_seconds"] for one in found),
            **means,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    alone = {"action": "store_true", "help": "install nothing, ours only; so does a quick run"}
    given = options(__doc__, arguments, alone=alone)
    settings = QUICK if given.quick else Settings()
    python, problem = (None, "") if given.alone or given.quick else installed()
    failed: dict[str, str] = {}
    first = next(iter(FAMILIES))
    cases = [(f, settings.rows, s) for f in FAMILIES for s in range(settings.seeds)]
    cases += [(first, rows, 0) for rows in settings.timed_rows if rows != settings.rows]
    studies = [draw(*case) for case in cases]
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for study in studies:
            np.savez(folder / f"{study.name}.npz", **study.seen)
        everyone = {**OURS, **(PEERS if python else {})}
        for at, (name, peer) in enumerate(everyone.items(), 1):
            print(f"peers: {at} of {len(everyone)}, {peer.shown}", flush=True)
            if name in OURS:
                with blas_threads(settings.threads):
                    told: Any = asked_ours(name, studies)
            elif python:
                told = problem or asked(python, name, folder, settings.threads)
            if isinstance(told, str):
                failed[name] = told
                continue
            for stem, one in told["studies"].items():
                if "found" not in one:
                    one["found"] = np.load(folder / name / f"{stem}.npy")
            lines += lines_of(name, peer, told, studies)
    write_table(given.out, "peers", [{**line, **_compared(line, lines)} for line in lines])
    left_out = [{"what": PEERS[n].shown, "why": why} for n, why in failed.items() if n in PEERS]
    if left_out:
        write_table(given.out, "peers_left_out", left_out)
    write_provenance(given.out, "peers", asdict(settings), quick=given.quick)


def _compared(line: dict[str, Any], lines: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    same = [o for o in lines if (o["what"], o["family"]) == (line["what"], line["family"])]
    base = next(
        other["cpu_seconds"]
        for other in lines
        if other["what"] == BASE[line["task"]]
        and (other["rows"], other["family"]) == (line["rows"], line["family"])
    )
    sizes, times = [o["rows"] for o in same], [o["cpu_seconds"] for o in same]
    return {"times_ours": line["cpu_seconds"] / base, "exponent": last_decade(sizes, times)}


if __name__ == "__main__":
    main()
