"""Times one peer's uLSIF on arrays from files; runs in the peers' own environment.

Usage: python peer_worker.py PEER FOLDER REPEATS, where FOLDER holds source.npy, target.npy,
bandwidths.npy and regularizations.npy. It prints one line of JSON.
"""

import contextlib
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np


def densratio_fit(source, target, bandwidths, regularizations, n_centres):
    from densratio import densratio

    def fit():
        # p(x)/q(y): its x is the target, its y the source
        densratio(
            target,
            source,
            sigma_range=list(bandwidths),
            lambda_range=list(regularizations),
            kernel_num=n_centres,
            verbose=False,
        )

    return fit


def adapt_fit(source, target, bandwidths, regularizations, n_centres):
    from adapt.instance_based import ULSIF

    def fit():
        ULSIF(
            kernel="rbf",
            gamma=list(0.5 / bandwidths**2),
            lambdas=list(regularizations),
            max_centers=n_centres,
            verbose=0,
            random_state=0,
        ).fit_weights(source, target)

    return fit


PEERS = {"densratio": densratio_fit, "adapt": adapt_fit}


def main():
    peer, folder, repeats = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    names = ("source", "target", "bandwidths", "regularizations")
    arrays = [np.load(folder / f"{name}.npy") for name in names]
    with contextlib.redirect_stdout(sys.stderr):
        start = time.perf_counter()
        fit = PEERS[peer](*arrays, n_centres=100)
        imported = time.perf_counter() - start
        times, work = [], []
        for _ in range(repeats):
            start, cpu = time.perf_counter(), time.process_time()
            fit()
            times.append(time.perf_counter() - start)
            work.append(time.process_time() - cpu)
    told = {"version": version(peer), "import_seconds": imported, "seconds": times}
    told["cpu_seconds"] = work
    print(json.dumps(told))


if __name__ == "__main__":
    main()
