"""
How the paper's weights collapse, and the guard
===============================================

Two sources resemble the target. A third moves away from it, step by step. What weight does it get?
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA

rng = np.random.default_rng(3)


def hospital(mean, rows):
    """The outcome rises with the square of x, and a line is fitted."""
    X = rng.normal(mean, 1.0, (rows, 2))
    return X, X[:, 0] ** 2 + X[:, 1] + rng.normal(size=rows)


near = {"first": hospital(0.3, 200), "second": hospital(-0.3, 200)}
X_new, _ = hospital(0.0, 150)
distances = np.arange(0.0, 5.5, 0.5)
weights = {"guarded": [], "feddae": []}
for distance in distances:
    sources = {**near, "far": hospital(distance, 200)}
    found = FedCSA(candidates=[0.0, 0.1, 1.0], random_state=0).fit(sources, X_new).adaptation_
    place = found.sources.index("far")
    for method, kept in weights.items():  # every method, from the same messages
        kept.append(found.estimates[method].source_weights[place])

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(distances, weights["feddae"], "o-", color="C3", label="feddae, as printed in the paper")
ax.plot(distances, weights["guarded"], "o-", color="C0", label="guarded, the default")
ax.axhline(1 / 3, color="0.8", zorder=0)
ax.set(xlabel="distance of the third source, in standard deviations", ylabel="its weight")
ax.set_ylim(-0.03, 1.03)
ax.legend()
plt.show()

# %%
# The paper trusts a source whose weighted losses hardly vary. Far away the ratio is near zero, so
# the weighted losses are near zero, so they hardly vary: the source that knows least takes over.
# The guarded method asks instead how well the weighted rows match the target. More:
# :doc:`/guarded`.
