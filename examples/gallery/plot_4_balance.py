"""
The Love plot: does weighting make a source look like the target?
=================================================================

The plot shows every feature's mean at a source minus the target's, in the target's standard
deviations, before and after weighting. After weighting, points should lie near zero.
"""

import numpy as np
import pandas as pd

from fedcsa import FedCSA, plot_balance

rng = np.random.default_rng(1)
FEATURES = ["age", "pressure", "glucose", "weight", "pulse", "creatinine"]


def hospital(shift, rows):
    """Patients whose features lie off by `shift`, and how long they stayed."""
    X = pd.DataFrame(rng.normal(shift, 1.0, (rows, len(FEATURES))), columns=FEATURES)
    return X, X["age"] + 0.5 * X["pressure"] + rng.normal(size=rows)


sources = {
    "near": hospital([0.8, 0.5, -0.4, 0.2, 0.0, -0.6], 400),
    "far": hospital([3.5, 1.0, 0.3, -0.2, 0.0, 0.5], 400),
}
X_new, _ = hospital([0.0] * 6, 300)
adaptation = FedCSA(random_state=0).fit(sources, X_new).adaptation_

plot_balance(adaptation)

# %%
# The dashed lines are the usual bound, a quarter of a standard deviation. The near source is
# brought well inside. The far one is not: nobody there is as young as the target's patients, and no
# weight makes up for a row that does not exist. Hence its small weight, and the finding:

print({name: round(weight, 3) for name, weight in adaptation.source_weights.items()})
for finding in adaptation.findings:
    if finding.severity != "note":
        print(f"{finding.code} at {finding.source}: {finding.advice}")
