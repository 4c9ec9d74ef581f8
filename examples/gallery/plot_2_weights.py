"""
The weight of a source that moves away
======================================

Two sources resemble the target. A third moves away from it, step by step. What weight does it get?
The paper's Algorithm 1 runs as printed, with ``preset="paper"``: :doc:`/paper-algorithm`. Every
line is a new draw of all patients.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA


def hospital(rng, mean, rows):
    """The outcome rises with the square of x, and a line is fitted."""
    X = rng.normal(mean, 1.0, (rows, 2))
    return X, X[:, 0] ** 2 + X[:, 1] + rng.normal(size=rows)


def weights(fedcsa, seed, distances):
    """Weight of the third source at every distance."""
    found = []
    for distance in distances:
        rng = np.random.default_rng(seed)
        sources = {name: hospital(rng, at, 200) for name, at in (("first", 0.3), ("second", -0.3))}
        X_new, _ = hospital(rng, 0.0, 150)
        sources["far"] = hospital(rng, distance, 200)
        found.append(fedcsa.fit(sources, X_new).source_weights_["far"])
    return found


distances = np.arange(0.0, 5.5, 1.0)
methods = {
    "feddae, preset paper": FedCSA(preset="paper", random_state=0),
    "feddae, on the table's weights": FedCSA(method="feddae", random_state=0),
    "validated, the default": FedCSA(random_state=0),
}
fig, axes = plt.subplots(1, 3, figsize=(12, 3.4), sharey=True, layout="constrained")
for ax, (name, fedcsa) in zip(axes, methods.items(), strict=True):
    for seed in range(5):
        ax.plot(distances, weights(fedcsa, seed, distances), "o-", color="C0", alpha=0.6)
    ax.axhline(1 / 3, color="0.8", zorder=0)
    ax.set(xlabel="distance of the third source, in sds", title=name)
axes[0].set(ylabel="its weight", ylim=(-0.03, 1.03))
plt.show()

# %%
# The paper trusts a source whose weighted losses hardly vary; the default asks how many rows carry
# the weight, and how near the weighted rows come to the target's table. With the preset both give
# nothing to a source that is far away; while it is near, the preset's weight scatters more, since
# the variance of few weighted losses is hard to estimate. The same formula on the table's weights
# gives the far source nearly everything in most draws: a few heavy rows hardly vary.
#
# What decides is the bandwidth of the ratio. With fewer rows, as in the paper's own simulations,
# the preset itself may give most of the weight to the far source: :doc:`/paper-algorithm` says how
# often.
