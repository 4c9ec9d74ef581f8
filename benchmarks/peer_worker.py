"""Runs one peer on studies from files, in the peers' own environment; prints one line of JSON.

Usage: python peer_worker.py PEER FOLDER. Every FOLDER/study-*.npz has the source's rows, outcomes
and scores (a given model's probabilities), and the target's rows and scores. A peer's weights go
to FOLDER/PEER/study-*.npy. The first study is run once before the clock starts: times are warm.
"""

import contextlib
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

#: Multiples of the median distance for kernels whose width a peer chooses by cross-validation.
WIDTHS = np.logspace(-0.5, 0.5, 5)


def median_distance(target):
    rows = target[:300]
    squared = ((rows[:, None] - rows[None]) ** 2).sum(-1)
    return float(np.sqrt(np.median(squared[squared > 0])))


def gammas(target):
    return 0.5 / (median_distance(target) * WIDTHS) ** 2


def squares(X):
    """Columns, their squares and products: what a Table 1 with correlations tells the means of."""
    first, second = np.triu_indices(X.shape[1])
    return np.hstack([X, X[:, first] * X[:, second]])


def densratio():
    from densratio import densratio

    def weights(study):  # p(x)/q(y): its x is the target, its y the source; its own default grid
        found = densratio(study["X_target"], study["X"], verbose=False)
        return found.compute_density_ratio(study["X"])

    return weights


def adapt_ulsif():
    from adapt.instance_based import ULSIF

    def weights(study):
        return ULSIF(
            kernel="rbf",
            gamma=list(gammas(study["X_target"])),
            lambdas=list(np.logspace(-3, 1, 5)),
            verbose=0,
            random_state=0,
        ).fit_weights(study["X"], study["X_target"])

    return weights


def adapt_kmm():
    from adapt.instance_based import KMM

    def weights(study):
        gamma = float(gammas(study["X_target"])[2])
        kmm = KMM(kernel="rbf", gamma=gamma, verbose=0, random_state=0)
        return kmm.fit_weights(study["X"], study["X_target"])

    return weights


def skada(name, **settings):
    import skada

    def weights(study):
        X = np.vstack([study["X"], study["X_target"]])
        domain = np.repeat([1, -2], [len(study["X"]), len(study["X_target"])])  # source, target
        chosen = {"gamma": list(gammas(study["X_target"]))} if name.startswith("KLIEP") else {}
        adapter = getattr(skada, name)(**settings, **chosen).fit(X, sample_domain=domain)
        return adapter.compute_weights(X, sample_domain=domain)[: len(study["X"])]

    return weights


def logistic():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    def weights(study):
        X = np.vstack([study["X"], study["X_target"]])
        where = np.repeat([0, 1], [len(study["X"]), len(study["X_target"])])
        classifier = make_pipeline(
            StandardScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=1000)
        )
        odds = classifier.fit(X, where).predict_log_proba(study["X"])
        return np.exp(odds[:, 1] - odds[:, 0])

    return weights


def empirical_calibration():
    import empirical_calibration as ec

    def weights(study):
        told = squares(study["X_target"]).mean(axis=0, keepdims=True)  # all that it needs
        found, _ = ec.maybe_exact_calibrate(
            squares(study["X"]), told, objective=ec.Objective.ENTROPY
        )
        return found

    return weights


def nannyml():
    import pandas as pd
    from nannyml import CBPE

    def frame(scores):
        return pd.DataFrame({"score": scores, "predicted": (scores > 0.5).astype(int)})

    def auroc(study):
        reference = frame(study["scores"]).assign(y=study["y"])
        estimator = CBPE(
            metrics=["roc_auc"],
            y_true="y",
            y_pred="predicted",
            y_pred_proba="score",
            problem_type="classification_binary",
            chunk_number=1,
        ).fit(reference)
        told = estimator.estimate(frame(study["target_scores"])).filter(period="analysis")
        return float(told.to_df()["roc_auc"]["value"].iloc[0])

    return auroc


def grid_search():
    import sklearn
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    sklearn.set_config(enable_metadata_routing=True)
    ratio = logistic()

    def choice(study):
        w = ratio(study)
        w = w / w.mean()
        ridge = Ridge().set_fit_request(sample_weight=True)
        loss = sklearn.metrics.get_scorer("neg_mean_squared_error")
        penalties = len(w) * np.concatenate([[1e-12], np.logspace(-3, 0, 12)])
        search = GridSearchCV(
            ridge,
            {"alpha": penalties},
            scoring=loss.set_score_request(sample_weight=True),
            cv=5,
        ).fit(study["X"], study["t"], sample_weight=w)
        best = search.best_estimator_
        return [float(-search.best_score_), float(best.intercept_), *best.coef_.tolist()]

    return choice


#: name -> distribution, and what makes the function
PEERS = {
    "densratio": ("densratio", densratio),
    "adapt-ulsif": ("adapt", adapt_ulsif),
    "adapt-kmm": ("adapt", adapt_kmm),
    "skada-gaussian": ("skada", lambda: skada("GaussianReweightAdapter")),
    "skada-kliep": ("skada", lambda: skada("KLIEPReweightAdapter", random_state=0)),
    "logistic": ("scikit-learn", logistic),
    "empirical-calibration": ("empirical-calibration", empirical_calibration),
    "nannyml": ("nannyml", nannyml),
    "grid-search": ("scikit-learn", grid_search),
}


def main():
    peer, folder = sys.argv[1], Path(sys.argv[2])
    distribution, maker = PEERS[peer]
    (folder / peer).mkdir(exist_ok=True)
    told = {"version": version(distribution), "studies": {}}
    with contextlib.redirect_stdout(sys.stderr):
        start = time.perf_counter()
        function = maker()
        told["import_seconds"] = time.perf_counter() - start
        paths = sorted(folder.glob("study-*.npz"))
        function(dict(np.load(paths[0])))
        for path in paths:
            study = dict(np.load(path))
            wall, cpu = time.perf_counter(), time.process_time()
            found = function(study)
            line = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
            if isinstance(found, np.ndarray):
                np.save(folder / peer / f"{path.stem}.npy", found)
            else:
                line["found"] = found
            told["studies"][path.stem] = line
    print(json.dumps(told))


if __name__ == "__main__":
    main()
