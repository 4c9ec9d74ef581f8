"""Searches through a lattice: each asks for points of the space, and hears of the nearest ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from lib.common import Array
from lib.search_surface import Lattice
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from fedcsa.models.space import described_space, whole_budget
from fedcsa.target.search import Search

#: The lengths of the kernel are fitted anew every so many candidates; in between only the mean.
REFIT = 4
#: Points among which expected improvement is largest: about a twentieth of the range apart.
PROPOSALS = 300


def in_rounds(how: str) -> Callable[[Lattice, Array, int, int], list[int]]:
    """The package's own search, in as many rounds of messages as it takes by default."""

    def ask(lattice: Lattice, risks: Array, seed: int, budget: int) -> list[int]:
        space = described_space({axis.name: axis.told() for axis in lattice.axes})
        search = Search(space, "sklearn", how, seed, whole_budget(budget, how))
        found: list[int] = []
        while candidates := search.ask(risks[found]):
            found += [lattice.nearest(candidate) for candidate in candidates]
        return found

    return ask


def gaussian_process(lattice: Lattice, risks: Array, seed: int, budget: int) -> list[int]:
    """Expected improvement over a Gaussian process (Matérn 5/2), a candidate a round.

    It begins with a random point more than the space has parameters; later ones maximise the
    expected improvement among random proposals. With a smaller budget it asks for the same, fewer.

    Parameters
    ----------
    lattice : Lattice
    risks : array of shape (points,)
    seed : int
    budget : int
    """
    rng = np.random.default_rng(seed)
    d = len(lattice.axes)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(np.full(d, 0.5), (0.05, 10.0), nu=2.5)
    model = GaussianProcessRegressor(
        kernel + WhiteKernel(1e-3, (1e-6, 1e-1)), normalize_y=True, random_state=seed
    )
    positions, asked = lattice.positions, []
    for index in range(budget):
        proposals = rng.uniform(size=(PROPOSALS, d))
        at = proposals[0]
        if index > d:
            if index % REFIT == 0:
                model.set_params(optimizer="fmin_l_bfgs_b")
            with warnings.catch_warnings():  # a flat surface has no best length
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(positions[asked], risks[asked])
            model.set_params(kernel=model.kernel_, optimizer=None)
            mean, sd = model.predict(proposals, return_std=True)
            better = risks[asked].min() - mean
            z = better / np.maximum(sd, 1e-12)
            at = proposals[int((better * norm.cdf(z) + sd * norm.pdf(z)).argmax())]
        asked.append(int(((positions - at) ** 2).sum(axis=1).argmin()))
    return asked


#: Searches that with a larger budget ask for the same and go on.
NESTED = ("random", "gp")
#: Name -> (lattice, risks, seed, budget) -> points asked for, in order.
SEARCHES: dict[str, Callable[[Lattice, Array, int, int], list[int]]] = {
    "random": in_rounds("random"),
    "tpe": in_rounds("tpe"),
    "gp": gaussian_process,
}
