"""
How often the interval holds the truth
======================================

Forty new hospitals, each drawn afresh with its sources. The patients are simulated, so the true
risk is known. An interval of 95 % should hold it nearly always, and not because it is endless. Two
kinds of outcome: one that bends, and one that grows ever steeper just where the new hospital has
more patients than the sources.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA

KINDS = {"bends": (np.abs, 0.5), "ever steeper": (lambda x: np.exp(0.6 * x), 1.0)}


def hospital(rng, shape, mean, rows):
    """Patients, and an outcome to which a line is fitted."""
    X = rng.normal(mean, 1.0, (rows, 3))
    return X, shape(X[:, 0]) + 0.5 * X[:, 1] + rng.normal(0.0, 0.5, rows)


def study(seed, shape, target_mean):
    """Both ends of the interval, and the true risk."""
    rng = np.random.default_rng(seed)
    sources = {f"s{mean}": hospital(rng, shape, mean, 300) for mean in (-0.3, 0.2, 0.6)}
    X_new, _ = hospital(rng, shape, target_mean, 200)
    fedcsa = FedCSA(candidates=[0.0, 0.1], random_state=seed).fit(sources, X_new)
    X, y = hospital(rng, shape, target_mean, 20_000)
    return *fedcsa.interval_, np.mean((fedcsa.predict(X) - y) ** 2), fedcsa.status_


fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, (kind, (shape, target_mean)) in zip(axes, KINDS.items(), strict=True):
    found = [study(seed, shape, target_mean) for seed in range(40)]
    low, high, truth = np.array([numbers for *numbers, _ in found]).T
    order = np.argsort(truth)
    held = ((low <= truth) & (truth <= high))[order]
    places = np.arange(len(truth))
    colours = np.where(held, "C0", "C3")
    ax.vlines(places, low[order], high[order], colors=colours, linewidth=2, alpha=0.6)
    ax.plot(places, truth[order], "k.", markersize=5)
    ax.set(xlabel="new hospitals, by their true risk", xticks=[])
    ax.set_title(f"{kind}: {held.sum()} of {len(held)} hold it")
    print(f"{kind}: the verdict is ok in {sum(status == 'ok' for *_, status in found)}")
axes[0].set(ylabel="risk", ylim=(0, 1.2))
plt.show()

# %%
# On the right the promise fails: the loss is largest in patients of whom the sources have hardly
# any, no average over *their* patients shows it, and the verdict does not either. A line was the
# wrong model, and wrong just where it counts. A model that can bend, or a source with such
# patients, is the remedy; more patients like those at hand are not. The study of all kinds, and
# where else promises fail: :doc:`/guarded`.
