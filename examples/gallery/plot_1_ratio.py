"""
Weights that match a table
==========================

A source has young patients, the target old ones. The target tells the mean and the standard
deviation of its patients' age. The source weights its own patients so that theirs are the same:
rows with a large weight are the ones that speak for the target.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import ULSIF, Table1
from fedcsa.core.tilt import fit_tilt

rng = np.random.default_rng(0)
source, target = rng.normal(50, 12, (1000, 1)), rng.normal(62, 9, (300, 1))

# The target tells three numbers, the source does the rest. uLSIF, the ratio of
# Algorithm 1, sees all rows.
table = Table1.of(target, ["age"], [False])
print(f"n = {table.n_rows}, mean {table.mean[0]:.1f}, sd {table.sd[0]:.1f}")
tilt = fit_tilt([(source - table.mean) / table.sd], np.array([False]))
by_rows = ULSIF(random_state=0).fit(source, target)


def density(x, mean, sd):
    """Density of a normal distribution."""
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


age = np.linspace(15, 95, 300)[:, None]
ratio = len(source) * tilt.weights((age - table.mean) / table.sd)
fig, (above, below) = plt.subplots(2, 1, figsize=(7, 5.5), sharex=True, layout="constrained")
above.hist(source[:, 0], bins=40, density=True, alpha=0.5, label="source")
above.hist(target[:, 0], bins=30, density=True, alpha=0.5, label="target")
above.set(ylabel="share of patients", yticks=[])
above.legend()
below.plot(age, density(age, 62, 9) / density(age, 50, 12), "k--", label="truth")
below.plot(age, ratio, label="from the table (default)")
below.plot(age, by_rows.predict(age), label="from rows (uLSIF)")
below.axhline(1.0, color="0.8", zorder=0)
below.set(xlabel="age", ylabel="ratio, target over source")
below.legend()
plt.show()

# %%
# For two normal distributions the weights are the true density ratio. Others are matched in mean
# and standard deviation only: a Table 1 shows no more.
#
# The effective rows say how many of the source's rows carry the weight:

weights = tilt.weights((source - table.mean) / table.sd)
print(f"weighted mean {weights @ source[:, 0]:.1f}")
print(f"effective rows {1 / np.sum(weights**2):.0f} of {len(source)}")
