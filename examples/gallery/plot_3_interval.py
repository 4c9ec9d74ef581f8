"""
A forest of examinations
========================

Every source examines the mixture of the *others'* models on its own weighted patients. What it
finds is one line of a forest plot. The promise below is for a *new* site: it is as wide as the
sites differ from each other, and then some.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA, plot_forest


def hospital(rng, mean, rows, level=0.0):
    """Patients, and an outcome that lies higher by `level` than elsewhere."""
    X = rng.normal(mean, 1.0, (rows, 3))
    return X, X @ [1.0, -0.5, 0.0] + level + rng.normal(0.0, 0.7, rows)


def study(seed, spread):
    """A study in which the level of outcomes differs by `spread` from site to site."""
    rng = np.random.default_rng(seed)
    names = ("north", "south", "east", "west", "coast", "lakes")
    sources = {
        name: hospital(rng, rng.normal(0.0, 0.4), 250, rng.normal(0.0, spread)) for name in names
    }
    level = rng.normal(0.0, spread)
    X_new, _ = hospital(rng, 0.2, 200, level)
    fedcsa = FedCSA(candidates=[0.0, 0.1], random_state=seed).fit(sources, X_new)
    X, y = hospital(rng, 0.2, 20_000, level)
    return fedcsa, np.mean((fedcsa.predict(X) - y) ** 2)


alike, _ = study(0, spread=0.0)
print(f"{alike.verdict_}: {alike.legs_['agreement'].sentence}")
plot_forest(alike)

# %%
# Where the level of outcomes differs from site to site, the sources find different risks. The
# verdict names it, and the interval widens:

apart, _ = study(0, spread=0.5)
print(f"{apart.verdict_}: {apart.legs_['agreement'].sentence}")
plot_forest(apart)

# %%
# Does it hold? Thirty new hospitals of either kind, each drawn afresh with its sources. The
# patients are simulated, so the true risk is known.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, (kind, spread) in zip(axes, {"sites alike": 0.0, "sites apart": 0.5}.items(), strict=True):
    found = [study(seed, spread) for seed in range(30)]
    low, high = np.array([fedcsa.interval_ for fedcsa, _ in found]).T
    truth = np.array([risk for _, risk in found])
    order = np.argsort(truth)
    held = ((low <= truth) & (truth <= high))[order]
    places = np.arange(len(truth))
    colours = np.where(held, "C0", "C3")
    ax.vlines(places, low[order], high[order], colors=colours, linewidth=2, alpha=0.6)
    ax.plot(places, truth[order], "k.", markersize=5)
    ax.set(xlabel="new hospitals, by their true risk", xticks=[])
    ax.set_title(f"{kind}: {held.sum()} of {len(held)} hold it")
axes[0].set(ylabel="risk")
plt.show()

# %%
# With six sources and no difference between them the interval is wider than it need be: six sites
# cannot prove that a seventh is like them. The study of all kinds, and where promises fail:
# :doc:`/promise`.
