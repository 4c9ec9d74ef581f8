"""
Thirty charts reviewed on a Friday afternoon
============================================

The hospital in New Zealand of :doc:`plot_1_stroke` has a model, a promise and a warning: the six
hospitals that helped differ in how many patients fare badly, so the level may be off here. Nobody
can see that without outcomes. On a Friday afternoon a nurse and a doctor look up how *thirty* of
the 296 patients fared. What do thirty outcomes change?

The patients are those of the International Stroke Trial. How to get and pack the file:
:doc:`plot_1_stroke`.
"""

# %%
# Before Friday
# -------------
#
# The same hospitals and the same question, with ten columns.

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from fedcsa import FedCSA, plot_outcomes

file = Path(os.environ.get("FEDCSA_DATA", "data")) / "stroke_trial" / "IST.csv.gz"
if not file.is_file():
    raise SystemExit(f"{file} is missing. Get it from https://doi.org/10.7488/ds/104.")
trial = pd.read_csv(file, encoding="latin-1", keep_default_na=False, low_memory=False)
trial = trial[trial["OCCODE"].isin([1, 2, 3, 4])]

X = trial[["AGE", "RSBP"]].astype(float).set_axis(["age", "pressure"], axis=1)
X["female"] = trial["SEX"] == "F"
X["drowsy"] = trial["RCONSC"] == "D"
X["unconscious"] = trial["RCONSC"] == "U"
X["fibrillation"] = trial["RATRIAL"] == "Y"
X["leg"] = trial["RDEF3"] == "Y"
for syndrome in ("TACS", "PACS", "POCS"):
    X[syndrome] = trial["STYPE"] == syndrome
X = X.astype(float)
y = pd.Series(np.where(trial["OCCODE"] <= 2, "bad", "good"), index=trial.index)

largest = trial["HOSPNUM"].value_counts().index[:7]
hospitals = {str(n): (X[trial["HOSPNUM"] == n], y[trial["HOSPNUM"] == n]) for n in largest}
X_new, y_later = hospitals.pop("121")  # New Zealand; its outcomes stay in the envelope

columns = dict.fromkeys(X.columns, "flag")
columns |= {"age": {"kind": "number", "sd": 12.0}, "pressure": {"kind": "number", "sd": 28.0}}
fedcsa = FedCSA(
    LogisticRegression(solver="newton-cholesky"),
    candidates={"C": [0.1, 1.0]},
    columns=columns,
    random_state=0,
)
fedcsa.fit(hospitals, X_new)
print(f"verdict {fedcsa.verdict_}: {fedcsa.adaptation_.verdict.sentence}")
print(
    "promised Brier score {:.3f}, {:.3f} to {:.3f}".format(fedcsa.target_risk_, *fedcsa.interval_)
)
bad = list(fedcsa.classes_).index("bad")
before = fedcsa.predict_proba(X_new)[:, bad]
print(f"predicted: {before.mean():.0%} will fare badly")

# %%
# Which thirty?
# -------------
#
# Not the first thirty on the shelf: patients whose charts lie on top are not like the others.
# ``followup`` draws at random among patients with similar predictions. It looks at the columns and
# the predictions only, and its list may be cut off anywhere.

charts = fedcsa.followup(X_new, 30, seed=0)
print(f"charts of patients {', '.join(map(str, charts[:8]))}, …")

# %%
# On the command line that is ``fedcsa followup result new.csv --n 30``. It writes a list with the
# ids and an empty column, and says how wide the interval will be.
#
# Monday morning
# --------------
#
# ``ids`` tells ``update`` which rows these are. It can then use the list's weights, and notice an
# outcome that contradicts an earlier one. The risk is the Brier score; ``event_rate`` is the share
# of the second class, *good*, and ``observed_expected`` how many there are for one predicted.


def show(found):
    """Before and after, side by side."""
    print(f"{'':19}{'promised':26}now")
    for item in found.measures:
        if item.name in ("risk", "auroc", "event_rate", "observed_expected"):
            now = (item.after[0], *item.anytime) if len(found.path) > 1 else item.after
            told = ("{:.3f} ({:.3f} to {:.3f})".format(*three) for three in (item.before, now))
            print(f"{item.name:19}{'    '.join(told)}")


found = fedcsa.update(X_new.iloc[charts], y_later.iloc[charts], ids=charts)
show(found)
print(f"as good as {found.risk.worth_rows:.0f} outcomes alone")
print(f"{found.conclusion}; {found.changed}")

# %%
# The model
# ---------
#
# The same thirty outcomes correct the model: first its level, then slope, then coefficients,
# each only as far as hospitals are known to differ. ``predict`` uses the correction from now on.

after = fedcsa.predict_proba(X_new)[:, bad]
rest = np.setdiff1d(np.arange(len(X_new)), charts)
ill = (y_later.iloc[rest] == "bad").to_numpy()
print(f"intercept {found.correction.intercept:.2f}, slope {found.correction.slope:.2f}")
print(f"of the other {len(rest)} patients {ill.mean():.0%} fared badly")
print(f"predicted before {before[rest].mean():.0%}, now {after[rest].mean():.0%}")
for name, p in (("before", before), ("now", after)):
    print(f"Brier score on them, {name}: {np.mean((p[rest] - ill) ** 2):.3f}")

# %%
# Month by month
# --------------
#
# The list goes on where it ended. Every update takes all outcomes so far. The thick interval is
# right whenever one stops; the thin one is right at all looks together, and therefore wider. The
# last update opens the envelope: all 296 outcomes.

for more in (30, 60, 176):
    charts = np.concatenate([charts, fedcsa.followup(X_new, more)])
    found = fedcsa.update(X_new.iloc[charts], y_later.iloc[charts], ids=charts)
show(found)
print(f"{found.conclusion}; {found.changed}")
for item in found.findings:
    print(f"{item.severity}: {item.code} ({item.facts})")

# %%
plot_outcomes(fedcsa)

# %%
# Thirty charts took an afternoon. They pulled the level towards where it is, narrowed the interval,
# and made the model better for the patients whose charts nobody opened. What thirty cannot do:
# promise that a subgroup is right, or see a rule that differs where no chart was drawn. More on
# the command, on outcomes that were not drawn at random, and on how often this holds:
# :doc:`/few-outcomes`.
