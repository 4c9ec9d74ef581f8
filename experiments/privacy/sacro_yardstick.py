"""SACRO-ML's attacks beside the certificate, on classifiers of the same rows.

Not run by anything: SACRO-ML is no dependency. Install ``sacroml`` into an environment of its own
and run the script there once; its table is committed.

Table: ``membership_sacro`` (one line a recipe and size).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import options, write_provenance, write_table
from privacy.membership import RECIPES, Fitter, draw
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

RECIPES |= {
    "forest of classes, leaves of 10": lambda: (
        RandomForestClassifier(50, min_samples_leaf=10, random_state=0), None, True
    ),
}  # fmt: skip
MODELS = {
    "logistic": LogisticRegression(max_iter=1000),
    "forest of classes, leaves of 10": RandomForestClassifier(
        50, min_samples_leaf=10, random_state=0
    ),
}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    sizes: tuple[tuple[int, int], ...] = ((100, 5), (300, 20))
    fresh: int = 1_000
    shadows: int = 20
    seeds: tuple[int, ...] = (1,)


def sacro(model: object, rows: tuple, fresh: tuple, shadows: int) -> tuple[float, float]:
    """AUC of the likelihood ratio attack and of the worst case attack."""
    from sacroml.attacks.likelihood_attack import LIRAAttack
    from sacroml.attacks.target import Target
    from sacroml.attacks.worst_case_attack import WorstCaseAttack

    (X, y), (X_test, y_test) = rows, fresh
    target = Target(
        model=model, dataset_name="drawn", X_train=X, y_train=y.astype(int), X_test=X_test,
        y_test=y_test.astype(int),
    )  # fmt: skip
    for k in range(X.shape[1]):
        target.add_feature(f"x{k}", [k], "float")
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"output_dir": folder, "write_report": False}
        lira = LIRAAttack(n_shadow_models=shadows, **quiet).attack(target)
        worst = WorstCaseAttack(n_reps=3, **quiet).attack(target)
    found = [
        np.mean(
            [
                run["AUC"]
                for run in out["attack_experiment_logger"]["attack_instance_logger"].values()
            ]
        )
        for out in (lira, worst)
    ]
    return float(found[0]), float(found[1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both and write the table."""
    given = options(__doc__, arguments)
    settings = Settings(sizes=((100, 5),), shadows=5, seeds=(1,)) if given.quick else Settings()
    lines = []
    for recipe, model in MODELS.items():
        for n, d in settings.sizes:
            values = []
            for seed in settings.seeds:
                rng = np.random.default_rng([seed, n, d])
                rows, fresh = (draw(rng, m, d, classes=True) for m in (n, settings.fresh))
                _, found = Fitter(recipe, fresh[0])(*rows)
                fitted = model.fit(*rows)
                values.append((found.membership_auc, *sacro(fitted, rows, fresh, settings.shadows)))
            mean = np.mean(values, axis=0)
            names = {"found": mean[0], "lira": mean[1], "worst_case": mean[2]}
            lines.append({"recipe": recipe, "rows": n, "features": d, **names})
    write_table(given.out, "membership_sacro", lines)
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()
