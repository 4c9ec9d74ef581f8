"""
Your own scikit-learn pipeline
==============================

Any scikit-learn classifier, regressor or pipeline can be the model. Here a pipeline encodes,
scales and fits; four real hospitals lend their patients with suspected heart disease. It is also a
case in which the answer should *not* be believed as it stands, and we see how fedcsa says so.

**To run it yourself** install fedcsa and pandas, and download the four ``processed.*.data`` files
of `Heart Disease <https://doi.org/10.24432/C52P4X>`_ from the UCI repository (Janosi, Steinbrunn,
Pfisterer, Detrano; licence CC BY 4.0) into ``heart_disease`` in a folder that the variable
``FEDCSA_DATA`` names.
"""

# %%
# Four hospitals
# --------------
#
# Budapest is the target. Three columns are mostly missing and two were hardly measured in
# Switzerland; they go, and then rows that are not complete. What is left must be numbers and
# complete: a missing value is a decision, and the sites must agree on it.

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fedcsa import Columns, FedCSA, NoSourcesError, Policy, load_result, save_result

folder = Path(os.environ.get("FEDCSA_DATA", "data")) / "heart_disease"
if not folder.is_dir():
    raise SystemExit(f"{folder} is missing. Get it from https://doi.org/10.24432/C52P4X.")
names = "age sex pain pressure chol sugar ecg max_rate angina depression slope vessels thal ill"
hospitals = {}
for place in ("cleveland", "hungarian", "switzerland", "va"):
    table = pd.read_csv(folder / f"processed.{place}.data", names=names.split(), na_values="?")
    table = table.drop(columns=["slope", "vessels", "thal", "chol", "sugar"]).dropna()
    hospitals[place] = table.drop(columns="ill"), np.where(table["ill"] > 0, "ill", "healthy")

for place, (rows, outcome) in hospitals.items():
    print(f"{place:12} {len(rows)} patients, {np.mean(outcome == 'ill'):.0%} ill")
X_new, y_later = hospitals.pop("hungarian")
print(list(X_new.columns))

# %%
# The pipeline
# ------------
#
# What the columns are is agreed before: ``Columns.infer`` proposes it. Codes look like numbers, so
# we say which columns have levels, and in which order; then no encoder has to find them at a site.
# The pipeline is written as for scikit-learn, with the columns by their names.
#
# Candidates are named as for a grid search. Nothing of your code travels: a source builds the
# pipeline from its own installed scikit-learn.

numbers = ["age", "pressure", "max_rate", "depression"]
columns = Columns(
    {
        "age": {"kind": "number", "sd": 10},
        "sex": "flag",
        "pain": ["1", "2", "3", "4"],
        "pressure": {"kind": "number", "sd": 18},
        "ecg": ["0", "1", "2"],
        "max_rate": "number",
        "angina": "flag",
        "depression": "number",
    }
)


def prepare():
    """Kinds become one column each, numbers are scaled, yes and no stay as they are."""
    return make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["pain", "ecg"]),
        (StandardScaler(), numbers),
        remainder="passthrough",
    )


plain = make_pipeline(prepare(), LogisticRegression(solver="newton-cholesky"))
common = {"random_state": 0, "columns": columns}
fedcsa = FedCSA(plain, {"logisticregression__C": [0.1, 1.0]}, **common)
fedcsa.fit(hospitals, X_new)
low, high = fedcsa.interval_
print(f"{fedcsa.verdict_}: risk {fedcsa.target_risk_:.3f}, {low:.3f} to {high:.3f} for a new site")
for name, leg in fedcsa.legs_.items():
    print(f"{name}: {leg.sentence}")

# %%
# What the verdict says
# ---------------------
#
# *Do not use it*: no leg holds. Only Cleveland *reaches* Budapest, and one hospital cannot show
# whether sites *agree*. The leg *skill* fails too: a constant would do as well. The
# interval is so wide that it promises little. Here is what the models say about the first forty
# patients of Budapest:

adaptation = fedcsa.adaptation_
ill = list(adaptation.plan.classes).index("ill")
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
coded, _ = columns.encode(X_new[:40], "the target", with_outcome=False)  # what a model sees
mixture = fedcsa.predict_proba(X_new[:40])[:, ill]
order = np.argsort(mixture)
for source, model in adaptation.models.items():
    ax.plot(model.predict(coded)[order, ill], ".", label=source)
ax.plot(mixture[order], "k_", label="mixture")
ax.set(xlabel="patients of Budapest, by the mixture", ylabel="probability of disease")
fig.legend(loc="outside right upper")
plt.show()

# %%
# In Switzerland and at the veterans' hospital more than three in four patients are ill, and no
# column says why just these were sent there. The same measurements then mean something else,
# which is not covariate shift, and no weighting repairs it. This is what each hospital found about
# the others' models, on its own weighted patients: the risk, and how far ill patients lie above the
# expected ones, in log-odds.

for name, found in fedcsa.examinations_.items():
    print(f"{name:12} risk {found.risk:.3f}, level {found.level[0]:+.2f}")
for finding in fedcsa.findings_:
    if finding.severity != "note":
        print(finding)

# %%
# In a back-test each source plays the target for the other two.

backtest = fedcsa.backtest(hospitals)
for row in backtest.rows:
    interval = f"{row.lower:.3f} to {row.upper:.3f}"
    print(f"{row.source:12} promised {row.promised:.3f} ({interval}),", end=" ")
    print(f"came true {row.realised:.3f}")
print(backtest.sentence)

# %%
# It *passes*, because the wide intervals allow for what the hospitals differ by. Three sources
# cannot prove more.
#
# A richer model?
# ---------------
#
# The promise makes models comparable *at the target*, before there is an outcome. Pairs of columns
# as further features, against the plain pipeline:

pairs = make_pipeline(
    prepare(),
    PolynomialFeatures(2, interaction_only=True, include_bias=False),
    LogisticRegression(solver="newton-cholesky"),
)
richer = FedCSA(pairs, {"logisticregression__C": [0.01, 0.1]}, **common)
richer.fit(hospitals, X_new)
for name, fitted in (("plain", fedcsa), ("pairs", richer)):
    print(f"{name}   {fitted.target_risk_:.3f}   {fitted.verdict_}   {fitted.candidate_}")

# %%
# Where the sources differ this much, the difference between two models is smaller than what is
# unknown about either. Take the simpler one.
#
# What a real site would say
# --------------------------
#
# In one process everybody trusts everybody. A real site has a `fedcsa.Policy` of its own, and
# you can try it out. A tree keeps single patients in its leaves:

try:
    FedCSA(DecisionTreeClassifier(), policy=Policy(), **common).fit(hospitals, X_new)
except NoSourcesError as error:
    print(error)

# %%
# The pipeline keeps no rows. With slightly milder rules, one hospital lets it through. A finding
# names every hospital that refuses, and the rule:

milder = Policy(max_row_share=0.25, max_row_leverage=0.8)
strict = FedCSA(plain, {"logisticregression__C": [0.1]}, policy=milder, **common)
strict.fit(hospitals, X_new)
print(strict.source_weights_)
for finding in strict.findings_:
    if finding.code in ("source-refused", "nothing-examined"):
        print(finding)

# %%
# Keep it, and look back
# ----------------------
#
# A result folder holds numbers and models, and nothing in it is executed on loading.

with tempfile.TemporaryDirectory() as place:
    save_result(adaptation, Path(place) / "result")
    loaded = load_result(Path(place) / "result")
coded, _ = columns.encode(X_new, "the target", with_outcome=False)
print((loaded.predict(coded) == fedcsa.predict(X_new)).all())

later = fedcsa.update(X_new, y_later)
print("realised {:.3f} ({:.3f} to {:.3f}):".format(*later.risk.alone), later.conclusion)

# %%
# It went better than feared. That is luck, not evidence: before the outcomes came nobody could have
# known, and the verdict said just that. What to do with such a verdict: :doc:`/findings`.
