"""
Risk against the candidate
==========================

Which penalty is best *at the target*? The chart shows the estimate for every candidate, a standard
error to either side, and the choice:
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA, plot_risk

rng = np.random.default_rng(5)


def hospital(mean, rows):
    """The outcome bends, and a line is fitted: the best line depends on who the patients are."""
    X = rng.normal(mean, 1.0, (rows, 3))
    return X, 1.5 * np.abs(X[:, 0]) + 0.5 * X[:, 1] + rng.normal(0.0, 0.5, rows)


sources = {"north": hospital(0.2, 300), "south": hospital(0.6, 300), "east": hospital(-0.3, 300)}
X_new, _ = hospital(1.0, 200)
penalties = np.linspace(0.0, 1.0, 21)
candidates = {"penalty": penalties, "ratio_power": [1.0]}
fedcsa = FedCSA(candidates=candidates, compare=["naive"], random_state=0)
adaptation = fedcsa.fit(sources, X_new).adaptation_
plot_risk(adaptation)

# %%
# The plain average of the sources' own risks, *naive*, answers another question. ``compare``
# estimates it beside the default. The truth is known here, because the patients are simulated;
# for every penalty it is the risk of the mixture that this penalty gives.

X_truth, y_truth = hospital(1.0, 50_000)
truth = []
for penalty in penalties:
    only = {"penalty": [penalty], "ratio_power": [1.0]}
    fitted = FedCSA(candidates=only, random_state=0).fit(sources, X_new)
    truth.append(np.mean((fitted.predict(X_truth) - y_truth) ** 2))

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for method, colour in (("naive", "C7"), ("validated", "C0")):
    estimate = adaptation.estimates[method]
    ax.plot(penalties, estimate.risk, color=colour, label=method)
    ax.plot(penalties[estimate.chosen], estimate.risk[estimate.chosen], "o", color=colour)
ax.plot(penalties, truth, "k--", label="truth")
ax.plot(penalties[np.argmin(truth)], min(truth), "ko")
ax.set(xlabel="penalty", ylabel="risk at the target")
ax.legend()
plt.show()

# %%
# A dot marks each method's choice. *naive* averages the sources' own risks: it answers a question
# about their patients. The default weights rows to the target's table. Its curve is the sources'
# own estimate, which serves the choice. The promise comes from the examination, with an interval:

low, high = fedcsa.interval_
print(f"promised {fedcsa.target_risk_:.2f} ({low:.2f} to {high:.2f}), {fedcsa.verdict_}")
print(f"true risk of the chosen mixture {truth[adaptation.estimate.chosen]:.2f}")

# %%
# The default's curve lies a little low here: the line is worst for patients who are rare at the
# sources. The interval of the promise allows for such things, as far as they differ between
# sources.
