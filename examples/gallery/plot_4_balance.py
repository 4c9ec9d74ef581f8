"""
The Love plot: does weighting make a source look like the target?
=================================================================

Every feature's mean at a source, minus the target's, in the target's standard deviations: before
and after weighting. After it, points should lie near zero.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import FedCSA

rng = np.random.default_rng(1)
FEATURES = ("age", "pressure", "glucose", "weight", "pulse", "creatinine")


def hospital(shift, rows):
    """Patients whose features lie off by `shift`, and how long they stayed."""
    X = rng.normal(shift, 1.0, (rows, len(FEATURES)))
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=rows)


sources = {
    "near": hospital([0.8, 0.5, -0.4, 0.2, 0.0, -0.6], 400),
    "far": hospital([3.5, 1.0, 0.3, -0.2, 0.0, 0.5], 400),
}
X_new, _ = hospital([0.0] * 6, 300)
adaptation = FedCSA(random_state=0).fit(sources, X_new).adaptation_

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharex=True, sharey=True, layout="constrained")
places = np.arange(len(FEATURES))[::-1]
for ax, name in zip(axes, ("near", "far"), strict=True):
    report = adaptation.reports[name]
    ax.axvspan(-0.1, 0.1, color="0.92", zorder=0)
    ax.scatter(report.difference_before, places, facecolors="none", edgecolors="C0", label="before")
    ax.scatter(report.difference_after, places, color="C0", label="after weighting")
    ax.set_title(f"{name}: weight {adaptation.source_weights[name]:.0%}")
    ax.set_xlabel("difference in standard deviations")
axes[0].set_yticks(places, FEATURES)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
plt.show()

# %%
# The near source is brought into the grey band of a tenth. The far one is not: nobody there is as
# young as the target's patients, and no weight makes up for a row that does not exist. Hence its
# small weight, and the finding:

for finding in adaptation.findings:
    if finding.severity != "note":
        print(f"{finding.code} at {finding.source}: {finding.advice}")
