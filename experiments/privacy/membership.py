"""Which models leave under the certificate, and what a real attacker then reaches.

A source fits a model, tries out its own attacks on it (`fedcsa.source.certificate`) and lets it
leave if the AUC they find is at most `max_membership_auc`. Beside it a real attacker, who has what
no site has: fresh rows of the same population. They rank rows that were in the model before fresh
rows that were not, by the loss, and by how far the prediction moved from that of reference models
fitted on fresh rows. The better of the two counts, and so it does for the certificate.

Table: ``membership`` (one line a recipe, number of rows and number of features).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `lib` is

import numpy as np
from lib.common import Array, options, run_all, write_provenance, write_table
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from fedcsa.messages.messages import ModelReport
from fedcsa.messages.policy import Policy
from fedcsa.models.description import thaw
from fedcsa.models.fitted import EstimatorModel
from fedcsa.models.portable import agreed_grid
from fedcsa.models.registry import instantiate
from fedcsa.plan import make_plan
from fedcsa.source.certificate import certify
from fedcsa.source.measure import measure, prepare
from fedcsa.source.weigh import SiteRows
from fedcsa.target.target import Target

#: name -> the plan's model, its candidates, and whether the outcome is of two classes
RECIPES: dict[str, Callable[[], tuple[Any, Any, bool]]] = {
    "ridge, default penalties": lambda: ("ridge", None, False),
    "least squares": lambda: ("ridge", [0.0], False),
    "logistic": lambda: (LogisticRegression(max_iter=1000), None, True),
    "degree 4, hardly penalised": lambda: (
        make_pipeline(PolynomialFeatures(4, include_bias=False), Ridge(alpha=1e-6)), None, False
    ),
    "forest, leaves of 1": lambda: (RandomForestRegressor(20), None, False),
    "forest, leaves of 10": lambda: (RandomForestRegressor(20, min_samples_leaf=10), None, False),
    "forest, leaves of 50": lambda: (RandomForestRegressor(20, min_samples_leaf=50), None, False),
    "boosting, default": lambda: (HistGradientBoostingRegressor(), None, False),
    "boosting, 30 trees of 4 leaves": lambda: (
        HistGradientBoostingRegressor(max_iter=30, max_leaf_nodes=4), None, False
    ),
}  # fmt: skip
LINEAR = ("ridge, default penalties", "least squares", "logistic")
#: Of more features it has 10,626 coefficients: ten times the rows, so it knows all of them.
FEW_FEATURES = {"degree 4, hardly penalised": 5}


@dataclass(frozen=True)
class Settings:
    """What the study fixes."""

    rows: tuple[int, ...] = (100, 300, 1_000)
    features: tuple[int, ...] = (5, 20)
    recipes: tuple[str, ...] = tuple(RECIPES)
    runs_linear: int = 10
    runs_other: int = 2
    references: int = 4
    fresh: int = 1_000
    seed: int = 15


FULL = Settings()
QUICK = Settings(
    rows=(100,), features=(5,), recipes=("least squares", "logistic"), runs_linear=2,
    references=2, fresh=200,
)  # fmt: skip


def draw(rng: np.random.Generator, n: int, d: int, *, classes: bool) -> tuple[Array, Array]:
    """Rows of the one population: a line, a little curved, half of the variance explained."""
    X = rng.normal(size=(n, d))
    slopes = np.linspace(1.0, 0.0, d)
    score = X @ (slopes / np.linalg.norm(slopes)) + 0.3 * (X[:, 0] ** 2 - 1.0)
    y = score + rng.normal(size=n)
    return X, (y > 0.0).astype(float) if classes else y


class Fitter:
    """Fits one recipe as a source does, on whatever rows it is given."""

    def __init__(self, recipe: str, X: Array) -> None:
        model, candidates, self.classes = RECIPES[recipe]()
        options = {"seed": 1, "loss": "log" if self.classes else "squared"}
        plan = make_plan(
            model, candidates, options, features=tuple(f"x{i}" for i in range(X.shape[1])),
            classes=(0, 1) if self.classes else (), study="membership",
        )  # fmt: skip
        self.brief = Target(X, plan, policy=Policy.open()).brief(["a"])
        self.model, self.candidates = instantiate(
            thaw(self.brief.model),
            thaw(self.brief.candidates),
            len(self.brief.classes),
            (),
            agreed_grid(self.brief.sd, scale=self.brief.scale),
        )

    def reference(self, X: Array, y: Array) -> Any:
        """The model alone; where there is one candidate, without models of the folds."""
        if len(self.candidates) > 1:
            return self(X, y)[0]
        seen, rng = (X - self.brief.mean) / self.brief.sd, np.random.default_rng(1)
        return self.model.fit(seen, y, np.ones(len(y)), self.candidates, rng).models[0]

    def __call__(self, X: Array, y: Array) -> tuple[Any, Any]:
        """The model at the best candidate, and what the source's own attacks on it reach."""
        rows = SiteRows.in_memory("a", X, y, None, 1).of(self.brief)
        at = 0
        if len(self.candidates) > 1:
            at = int(np.argmin(measure(prepare(rows), "").risk))
        work = prepare(rows, at)
        [path] = work.fits.paths([work.fits.sent], [work.chosen])
        [model] = path.models
        report = ModelReport(
            study="membership", source="a", in_reply_to="", candidate=at, n_rows=len(y), show=True,
            form=model.form, arrays=model.arrays,
            held=model if isinstance(model, EstimatorModel) else None,
        )  # fmt: skip
        return model, certify(report, model, work)

    def told(self, model: Any, X: Array, y: Array) -> Array:
        """Prediction of the outcome, or the probability of the class that came."""
        prediction = model.predict((X - self.brief.mean) / self.brief.sd)
        return prediction[np.arange(len(y)), y.astype(int)] if self.classes else prediction


def attacker(fit: Fitter, model: Any, references: Sequence[Any], X: Array, y: Array) -> Array:
    """Scores of rows, shape (attacks, rows): lower means that they were in the model."""
    truth = np.ones(len(y)) if fit.classes else y
    own = fit.told(model, X, y)
    others = np.array([fit.told(reference, X, y) for reference in references])
    mean, variance = others.mean(axis=0), others.var(axis=0, ddof=1)
    error, moved = truth - mean, own - mean
    scale = 0.5 * (variance + variance.mean())
    difference = (truth - own) ** 2 - error**2
    return np.array([np.abs(truth - own), difference, -moved * error / scale])


def one_run(task: tuple[str, int, int, int, Settings]) -> dict[str, float]:
    """One data set: what the certificate finds, and what the attacker reaches."""
    recipe, n, d, run, settings = task
    rng = np.random.default_rng([settings.seed, n, d, run, *recipe.encode()])
    warnings.simplefilter("ignore")
    fit = Fitter(recipe, draw(rng, 300, d, classes=False)[0])

    def rows(size: int) -> tuple[Array, Array]:
        return draw(rng, size, d, classes=fit.classes)

    X, y = rows(n)
    model, found = fit(X, y)
    references = [fit.reference(*rows(n)) for _ in range(settings.references)]
    inside = attacker(fit, model, references, X, y)
    outside = attacker(fit, model, references, *rows(settings.fresh))
    member = np.repeat([1, 0], [n, settings.fresh])
    scores = -np.concatenate([inside, outside], axis=1)
    reached = [roc_auc_score(member, score) for score in scores]
    return {
        "loss": found.loss.auc, "reference": found.reference.auc,
        "found": found.membership_auc, "error": found.reference.error,
        "real_loss": reached[0], "real": max(reached),
    }  # fmt: skip


def line(recipe: str, n: int, d: int, runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The mean of all runs of one setting."""
    values = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    leaves = values["found"] <= Policy.max_membership_auc
    left = values["real"][leaves]
    return {
        "recipe": recipe, "rows": n, "features": d, "runs": len(runs),
        "leaves": leaves.mean(), "found": values["found"].mean(), "sd": values["found"].std(),
        "by_loss": values["loss"].mean(), "real": values["real"].mean(),
        "real_by_loss": values["real_loss"].mean(),
        "real_if_it_leaves": left.mean() if len(left) else "",
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and write its table."""
    given = options(__doc__, arguments)
    settings = QUICK if given.quick else FULL
    keys, tasks = [], []
    for recipe in settings.recipes:
        runs = settings.runs_linear if recipe in LINEAR else settings.runs_other
        for n in settings.rows:
            for d in settings.features:
                if d > FEW_FEATURES.get(recipe, d):
                    continue
                keys.append((recipe, n, d, runs))
                tasks += [(recipe, n, d, run, settings) for run in range(runs)]
    found = run_all(one_run, tasks, given.workers, "membership")
    lines, start = [], 0
    for recipe, n, d, runs in keys:
        lines.append(line(recipe, n, d, found[start : start + runs]))
        start += runs
    write_table(given.out, "membership", lines)
    write_provenance(given.out, __file__, settings, quick=given.quick)


if __name__ == "__main__":
    main()
