"""
What a density ratio looks like
===============================

A source has young patients, the target old ones. The ratio says how much more common a patient is
at the target than at the source: rows with a large ratio are the ones that speak for the target.
"""

import matplotlib.pyplot as plt
import numpy as np

from fedcsa import ULSIF, EmbeddingRatio, MeanEmbedding

rng = np.random.default_rng(0)
source, target = rng.normal(50, 12, (1000, 1)), rng.normal(62, 9, (300, 1))

# The target announces averages, the source does the rest. uLSIF sees the target's rows.
by_averages = EmbeddingRatio(random_state=0).fit(source, MeanEmbedding.of(target))
by_rows = ULSIF(random_state=0).fit(source, target)


def density(x, mean, sd):
    """Of a normal distribution."""
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


age = np.linspace(15, 95, 300)
fig, (above, below) = plt.subplots(2, 1, figsize=(7, 5.5), sharex=True, layout="constrained")
above.hist(source[:, 0], bins=40, density=True, alpha=0.5, label="source")
above.hist(target[:, 0], bins=30, density=True, alpha=0.5, label="target")
above.set(ylabel="share of patients", yticks=[])
above.legend()
below.plot(age, density(age, 62, 9) / density(age, 50, 12), "k--", label="truth")
below.plot(age, by_averages.predict(age[:, None]), label="from averages (default)")
below.plot(age, by_rows.predict(age[:, None]), label="from rows (uLSIF)")
below.axhline(1.0, color="0.8", zorder=0)
below.set(xlabel="age", ylabel="ratio, target over source")
below.legend()
plt.show()

# %%
# Both follow the truth where the source has rows. Beyond, nobody has seen a patient, and both say
# something else: that is where overlap ends.
#
# The mean ratio over the source's rows must be near 1, and the effective rows say how many of them
# carry the weight:

ratios = by_averages.predict(source)
print(f"mean ratio {ratios.mean():.2f}")
print(f"effective rows {ratios.sum() ** 2 / (ratios**2).sum():.0f} of {len(source)}")
