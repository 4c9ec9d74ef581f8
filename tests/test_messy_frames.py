"""Studies on frames as hospitals have them: the same answer from every library, ids kept."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedcsa import Columns, FedCSA
from fedcsa.errors import DataError
from fedcsa.messages.codec import encode
from fedcsa.run import InProcess

ROWS = 160
SITES = {"north": 1, "south": 2}


def hospital(seed):
    """Texts, dates, flags, gaps, an id, and patients with two rows; outcomes beside them."""
    rng = np.random.default_rng(seed)
    age, stage = rng.normal(60, 10, ROWS).round(1), rng.choice(["I", "II", "III"], ROWS)
    seen = np.datetime64("2021-01-01") + rng.integers(0, 700, ROWS)
    cells = {
        "visit": [f"4711-{seed}-{row}" for row in range(ROWS)],
        "patient": [f"P{seed}-{row // 2}" for row in range(ROWS)],
        "age": age,
        "stage": stage,
        "smoker": rng.random(ROWS) < 0.4,
        "sbp": np.where(rng.random(ROWS) < 0.15, np.nan, rng.normal(130, 15, ROWS)),
        "seen": seen.astype("datetime64[us]"),
    }
    y = age / 10 + (stage == "III") + rng.normal(size=ROWS)
    return pd.DataFrame(cells), y


def fitted(make=lambda frame: frame, columns=None, change=lambda frame: frame):
    frames = {site: hospital(seed) for site, seed in SITES.items()}
    target = hospital(3)[0].drop(columns="patient")
    if columns is None:
        columns = Columns.infer({site: frame for site, (frame, _) in frames.items()})
    sources = {site: (make(change(frame)), y) for site, (frame, y) in frames.items()}
    return FedCSA(columns=columns, random_state=0).fit(sources, make(change(target)))


@pytest.fixture(scope="module")
def reference():
    return fitted()


LIBRARIES = {
    "polars": pl.from_pandas,
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "duckdb": lambda frame: duckdb.connect().from_arrow(pa.Table.from_pandas(frame)),
}


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_every_library_gives_the_same_answer(make, reference):
    found = fitted(make)
    assert found.target_risk_ == reference.target_risk_
    frame = hospital(4)[0]
    np.testing.assert_array_equal(found.predict(make(frame)), reference.predict(frame))


def test_columns_are_what_their_description_is(reference):
    described = Columns.infer({site: hospital(seed)[0] for site, seed in SITES.items()}).described
    assert described["visit"] == "id"
    assert described["patient"] == "group"
    found = fitted(columns=described)
    assert found.target_risk_ == reference.target_risk_
    assert list(found.feature_names_in_) == list(reference.feature_names_in_)


IDS = {
    "texts": lambda frame: frame,
    "numbers": lambda frame: frame.assign(visit=range(4711, 4711 + len(frame))),
    "lists": lambda frame: frame.assign(visit=[[4711]] * len(frame)),
    "gaps": lambda frame: frame.assign(visit=None),
    "not there": lambda frame: frame.drop(columns="visit"),
}


def test_no_message_depends_on_an_id(monkeypatch, reference):
    told, ask = {}, InProcess.ask
    columns = reference.columns
    for name, change in IDS.items():
        sent = told[name] = []

        def noted(courier, messages, phase, sent=sent):
            answers = ask(courier, messages, phase)
            sent += map(encode, [*messages.values(), *answers.values()])
            return answers

        monkeypatch.setattr(InProcess, "ask", noted)
        fitted(columns=columns, change=change)
    assert len(told["texts"]) >= 8  # briefs and reports, examinations and their reports
    assert all(sent == told["texts"] for sent in told.values())
    assert not any(b"4711" in message or b"visit" in message for message in told["texts"])


def test_a_table_keeps_the_names_of_its_columns():
    """Once, pyarrow tables were taken by position."""
    rng = np.random.default_rng(0)
    X = {site: rng.normal(size=(120, 2)) for site in ("a", "b", "target")}
    y = {site: 3 * X[site][:, 0] + rng.normal(size=120) for site in ("a", "b")}

    def run(*orders):
        tables = {
            site: pa.table({name: X[site][:, "pq".index(name)] for name in order})
            for site, order in zip(X, orders, strict=True)
        }
        target = tables.pop("target")
        sources = {site: (table, y[site]) for site, table in tables.items()}
        return FedCSA(random_state=0).fit(sources, target)

    assert run("pq", "qp", "pq").target_risk_ == run("pq", "pq", "pq").target_risk_


def test_texts_without_a_description_name_the_way_out():
    frames = {site: hospital(seed) for site, seed in SITES.items()}
    with pytest.raises(DataError, match=r"it holds texts\. .*FedCSA\(columns=Columns\.infer"):
        FedCSA().fit(frames, hospital(3)[0])


@pytest.mark.parametrize("fill", [0.0, 81.0])
def test_another_unit_is_seen_behind_missing_cells(fill):
    """The agreed value stands in the target's unit among cells in the source's own."""
    rng = np.random.default_rng(8)
    tables, seen = {}, {}
    for name in ("a", "b", "c", "new"):
        creatinine = rng.lognormal(4.4, 0.3, 200)
        creatinine[rng.uniform(size=200) < 0.1] = np.nan
        table = pd.DataFrame({"age": rng.normal(60.0, 9.0, 200), "creatinine": creatinine})
        tables[name] = table.assign(y=table["age"] / 9.0 + rng.normal(size=200))
    columns = Columns({"age": "number", "creatinine": {"missing": "indicator", "fill": fill}})
    for factor in (1.0, 88.4):
        tables["b"]["creatinine"] /= factor
        sources = {name: (tables[name], tables[name]["y"]) for name in ("a", "b", "c")}
        fitted = FedCSA(columns=columns).fit(sources, tables["new"])
        seen[factor] = [f.source for f in fitted.findings_ if f.code == "other-unit"]
    assert seen == {1.0: [], 88.4: ["b"]}
