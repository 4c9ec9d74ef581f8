"""
A new hospital in the stroke trial
==================================

A hospital in New Zealand has 296 patients with a stroke. Which of them will be dead or dependent on
others after six months? Six hospitals in Europe know how their own patients fared. None of them may
share a row. We learn which model to use in New Zealand, how well it will do there, and whether to
believe that — and then open the envelope with the outcomes.

The patients are real: the International Stroke Trial, 19,435 patients in 36 countries, published
by its authors. All outcomes are known, so we hold back those of one hospital.

**To run it yourself** install fedcsa and pandas, download ``IST_corrected.csv`` from the
`Edinburgh DataShare <https://doi.org/10.7488/ds/104>`_ (Sandercock, Niewada, Czlonkowska; licence
ODC-By), and pack it with gzip as ``stroke_trial/IST.csv.gz`` in a folder that the variable
``FEDCSA_DATA`` names.
"""

# %%
# The tables
# ----------
#
# In a real study no such table exists: every hospital has its own part, and only the *columns* are
# agreed. We read the whole and cut it by hospital. What was measured when the patient came in is
# ``x``; what became of the patient is ``y``.

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from fedcsa import FedCSA, plot_backtest, plot_balance, plot_forest

file = Path(os.environ.get("FEDCSA_DATA", "data")) / "stroke_trial" / "IST.csv.gz"
if not file.is_file():
    raise SystemExit(f"{file} is missing. Get it from https://doi.org/10.7488/ds/104.")
trial = pd.read_csv(file, encoding="latin-1", keep_default_na=False, low_memory=False)
trial = trial[trial["OCCODE"].isin([1, 2, 3, 4])]  # the others were lost to follow-up

X = trial[["AGE", "RSBP", "RDELAY"]].astype(float)
X.columns = ["age", "pressure", "delay"]
X["female"] = trial["SEX"] == "F"
X["drowsy"] = trial["RCONSC"] == "D"
X["unconscious"] = trial["RCONSC"] == "U"
X["fibrillation"] = trial["RATRIAL"] == "Y"
X["on waking"] = trial["RSLEEP"] == "Y"
X["visible on scan"] = trial["RVISINF"] == "Y"
for number, deficit in enumerate(["face", "arm", "leg", "speech", "sight"], start=1):
    X[deficit] = trial[f"RDEF{number}"] == "Y"
for syndrome in ("TACS", "PACS", "POCS"):
    X[syndrome] = trial["STYPE"] == syndrome
X = X.astype(float)
y = pd.Series(np.where(trial["OCCODE"] <= 2, "bad", "good"), index=trial.index)

# %%
# The seven largest hospitals. The third, in New Zealand, is our target.

largest = trial["HOSPNUM"].value_counts().index[:7]
hospitals = {}
for number in largest:
    here = trial["HOSPNUM"] == number
    country = trial.loc[here, "COUNTRY"].iloc[0]
    name = {"ITAL": "Italy", "POLA": "Poland", "NEW": "New Zealand"}.get(country, country)
    hospitals[f"{name} {number}"] = X[here], y[here]

X_new, y_later = hospitals.pop("New Zealand 121")
for name, (rows, outcome) in hospitals.items():
    print(f"{name:12} {len(rows)} patients, {np.mean(outcome == 'bad'):.0%} with a bad outcome")
print(f"New Zealand  {len(X_new)} patients, no outcomes")

# %%
# The hospitals differ: after six months 55 % fared badly in one, 83 % in another. If that is
# because their *patients* differ in what we measured, the difference can be computed away. If they
# treat or count differently, it cannot.
#
# One call
# --------
#
# The model is a logistic regression, and ``C``, how freely it may fit, is to be chosen. The risk
# is the Brier score: the mean squared error of a probability, 0 is perfect. ``columns`` says what
# every column is: a flag, or a number with a typical spread that all have agreed on. New Zealand
# tells the mean and spread of every number and the share of every flag, rounded: its Table 1. The
# agreed spread keeps a target of near-equal patients from asking for single rows.

columns = dict.fromkeys(X.columns, "flag")
for name, sd in (("age", 12.0), ("pressure", 28.0), ("delay", 12.0)):
    columns[name] = {"kind": "number", "sd": sd}
fedcsa = FedCSA(
    LogisticRegression(solver="newton-cholesky"),
    candidates={"C": [0.01, 0.1, 1.0], "ratio_power": [0.0, 1.0]},
    columns=columns,
    random_state=0,
)
fedcsa.fit(hospitals, X_new)
low, high = fedcsa.interval_
print(f"verdict    {fedcsa.verdict_}")
print(f"risk       {fedcsa.target_risk_:.3f}, {low:.3f} to {high:.3f} for a new site")
print(f"chosen     {fedcsa.candidate_}")
for name, leg in fedcsa.legs_.items():
    print(f"{name:10} {leg.sentence}")

# %%
# The verdict comes first, and below it the three legs on which it stands: enough sources *reach*
# the target, they *agree*, and the model has *skill*, that is, it beats a constant. The promise
# is for a new site, if it differs from these as they differ from each other.
#
# What each of them found
# -----------------------
#
# Every source has examined the mixture of the others' models on its own patients, weighted to New
# Zealand's table.

plot_forest(fedcsa)

# %%
# Given the same measurements, patients fare worse in some hospitals than the others' models expect,
# and better elsewhere: the leg *agreement* fails, and the verdict says *with care*. How far good
# outcomes lie above the expected ones, in log-odds:

for name, found in fedcsa.examinations_.items():
    print(f"{name:12} {found.level[0]:+.2f} ± {found.level_variance[0] ** 0.5:.2f}")

# %%
# The probabilities may be off in New Zealand by as much. Remember that when the outcomes come.
#
# Who helped, and why
# -------------------
#
# A source is worth what its patients can say about the new ones. Its rows are weighted so that they
# look like the target's; the fewer rows carry the weight, and the less they then look alike, the
# smaller its say.

adaptation = fedcsa.adaptation_
for name in sorted(adaptation.sources, key=fedcsa.source_weights_.get, reverse=True):
    report = adaptation.reports[name]
    print(
        f"{name:12} weight {fedcsa.source_weights_[name]:4.0%}"
        f"   worth {report.effective_rows:3.0f} of its {report.n_rows} rows"
    )

# %%
# A *Love plot* shows the same feature by feature: how far a source's mean is from the target's, in
# the target's standard deviations, before (hollow) and after weighting (full). Full points near
# zero are what we want.

plot_balance(fedcsa)

# %%
# The full points lie at zero: the weights match the table, in every column. The price is rows: few
# patients at UK 39 resemble those of New Zealand, so few carry the weight there.
#
# The findings
# ------------
#
# Every danger has a name, its evidence, and what to do. Here they are by how often they occur:

counts = Counter((finding.severity, finding.code) for finding in fedcsa.findings_)
for (severity, code), count in counts.items():
    print(f"{count} × {severity} {code}")
print(f"{len(fedcsa.findings_)} in all")

# %%
# What they mean: :doc:`/findings`.
#
# Test the promise before you use it
# ----------------------------------
#
# Nobody can check at the new hospital how far it differs from the others. What can be checked is
# whether such promises hold *among the others*: each of them in turn plays the new hospital,
# receives a promise, and compares it with the outcomes that it has.

backtest = fedcsa.backtest(hospitals)
for row in backtest.rows:
    interval = f"{row.lower:.3f} to {row.upper:.3f}"
    print(f"{row.source:12} promised {interval}, came true {row.realised:.3f}   {row.status}")
print(f"back-test {backtest.sentence}; verdict now: {fedcsa.verdict_}")
plot_backtest(fedcsa)

# %%
# Open the envelope
# -----------------
#
# Months later the outcomes arrive in New Zealand.

bad = list(fedcsa.classes_).index("bad")
expected = fedcsa.predict_proba(X_new)[:, bad].mean()
later = fedcsa.update(X_new, y_later)
print("promised {:.3f} ({:.3f} to {:.3f})".format(*later.risk.before))
print("realised {:.3f} ({:.3f} to {:.3f})".format(*later.risk.alone))
print(later.conclusion)

# %%
# *As promised*: the two intervals meet. Now that we can, look closer at the level of outcomes:

rate = np.mean(np.concatenate([outcome for _, outcome in hospitals.values()]) == "bad")
print(f"bad outcomes at the sources {rate:.0%}")
print(f"predicted for New Zealand   {expected:.0%}, came true {np.mean(y_later == 'bad'):.0%}")
print(f"realised risk of the sources' average: {np.mean((rate - (y_later == 'bad')) ** 2):.3f}")

# %%
# The model expected sixteen patients in a hundred more to fare badly than did. Given the same
# measurements, patients did much better in New Zealand. That is the very thing that the sources had
# shown among themselves, and the verdict had named. The promise survived because it allows for it.
# The model still does far better than the sources' average. ``update`` has corrected it with these
# outcomes; thirty would have shown as much: :doc:`plot_3_friday`.
#
# What would the plain average of the others' own risks have promised? That is ``method="naive"``:

naive = FedCSA(
    LogisticRegression(solver="newton-cholesky"),
    candidates={"C": [0.01, 0.1, 1.0]},
    columns=columns,
    method="naive",
    random_state=0,
)
print(f"naive promise {naive.fit(hospitals, X_new).target_risk_:.3f}, without an interval")

# %%
# Off by twice as much, and without an interval to say so.
#
# What we did not show
# --------------------
#
# - One hospital proves nothing. All countries of the trial with at least 100 patients have been the
#   target once, and two other data sets are less kind: :doc:`/promise`.
# - The trial had one protocol and one definition of the outcome, which is as near to "the same rule
#   everywhere" as real data come, and you saw how near. In :doc:`the next tutorial
#   <plot_2_pipeline>` there are only three sources, and they differ more.
# - If you can follow up a hundred patients yourself, do: see :doc:`/when-not`.
