"""
What no method can see: a rule of the target's own
==================================================

A promise is for a new site that differs from the others as they differ from each other. Here the
others agree, and the new hospital alone departs by a constant: with equal measurements its patients
stay longer. Its measurements are the same, so the promise is too.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA

rng = np.random.default_rng(2)


def hospital(mean, rows):
    """Patients and how long they stayed."""
    X = rng.normal(mean, 1.0, (rows, 3))
    return X, X @ [1.0, -0.5, 0.3] + rng.normal(size=rows)


sources = {"north": hospital(0.0, 300), "south": hospital(0.5, 250), "west": hospital(-0.4, 250)}
X_new, y_new = hospital(0.3, 150)
fedcsa = FedCSA(random_state=0).fit(sources, X_new)

departures = np.linspace(0.0, 2.0, 9)
later = [fedcsa.update(X_new, y_new + departure, anew=True) for departure in departures]
realised, lower, upper = np.array([found.risk.alone for found in later]).T
noise = np.array([realised - lower, upper - realised])

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.axhspan(*fedcsa.interval_, color="C0", alpha=0.2, label="promised")
ax.axhline(fedcsa.target_risk_, color="C0")
kept = np.array([found.kept is True for found in later])
for which, colour, label in (
    (kept, "k", "realised: as promised"),
    (~kept, "C3", "realised: worse"),
):
    ax.errorbar(
        departures[which], realised[which], noise[:, which], fmt="o", color=colour, label=label
    )
ax.set(xlabel="how far the new hospital's rule is off", ylabel="risk", ylim=(0, None))
ax.legend(loc="upper left")
plt.show()

# %%
# Only outcomes can tell. ``update`` says so as soon as they do, and a back-test asks the same of
# the sources beforehand. See :doc:`/when-not`.
