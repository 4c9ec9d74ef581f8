"""Every file that fedcsa reads, and whoever reads it."""

import dataclasses
import functools
import json
import shutil
import sqlite3
from pathlib import Path

import duckdb
import pyarrow.csv
import pyarrow.parquet
from changes import any_of, change_text
from of_messages import FOREST, Exchange, given_models, rows
from test_places import write_xlsx

from fedcsa.answer.store import (
    load_history,
    load_ledgers,
    load_result,
    save_history,
    save_result,
)
from fedcsa.data.coding import Columns
from fedcsa.data.columns import Outcome
from fedcsa.data.table1 import read_table1, write_table1
from fedcsa.federation.federation_file import FEDERATION_TEMPLATE, Federation
from fedcsa.federation.flare.certificates import DENIED, Authority, read_denied
from fedcsa.federation.flare.kits import KIT_FILE, KIT_FILES, Kit, KitArchive, pack_kit
from fedcsa.federation.kept import Shelf, new_kept
from fedcsa.messages.messages import Refusal
from fedcsa.messages.policy import Policy
from fedcsa.models.foreign_trees import read_foreign
from fedcsa.models.given import FileModel, read_file_model, write_model
from fedcsa.outcomes import bring_in, pick_rows
from fedcsa.run import InProcess, run_study
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status
from fedcsa.study import Study
from fedcsa.study.data_dictionary import read_dictionary
from fedcsa.study.formula_file import load_formula
from fedcsa.study.kept_answers import KeptAnswers
from fedcsa.study.model_section import agreed_text
from fedcsa.study.outcome_tables import read_labelled, read_target_rows
from fedcsa.target.target import Target

#: What other programs saved, as the tests of converted models have it.
FOREIGN = Path(__file__).parents[2] / "models" / "foreign"
STUDY = """name = "small"
seed = 3
[outcome]
name = "outcome"
[features]
age = "number"
bmi = {kind = "number", sd = 2.0}
sex = {kind = "levels", levels = ["f", "m"]}
[model]
name = "ridge"
[candidates]
penalty = [0.01, 10.0]
[policy]
preset = "site"
[target]
table = "new.csv"
[sources.abbey]
table = "abbey.csv"
"""
#: A search on classes, with subgroups, dates and empty cells; rows are in databases.
SEARCH = """name = "long"
seed = 3
search = "random"
budget = {candidates = 6, rounds = 3}
thresholds = [0.1, 0.3]
subgroups = [{name = "old", feature = "age", cut = 65}]
missing_values = ["NA"]
[outcome]
name = "died"
levels = ["no", "yes"]
[features]
age = {kind = "number", missing = "indicator", fill = 60.0, unit = "years"}
born = {kind = "date", since = "2000-01-01"}
sex = {kind = "levels", levels = ["f", "m"], other = true}
patient = "group"
[model]
name = "sklearn.linear_model.LogisticRegression"
parameters = {max_iter = 1000}
[candidates]
C = {low = 0.01, high = 10.0, log = true}
[target]
table1 = "table1.csv"
[sources.abbey]
database = "postgresql://reader@host/stays"
query = "SELECT * FROM stays ORDER BY id"
[sources.birch]
table = "abbey.xlsx"
sheet = "2024"
"""
GIVEN = (
    STUDY.replace('name = "ridge"', 'name = "given"\nformula = "formula.toml"')
    .replace("[candidates]\npenalty = [0.01, 10.0]\n", "")
)  # fmt: skip
FORMULA = """title = "a score"
intercept = -2.0
[terms]
age = {coefficient = 0.1, at_least = 1, at_most = 90, plus = 1, log = true}
bmi = [{coefficient = 0.3, power = 2}, {from = [20, 30], points = [1, 2]}]
"""
SITE = """table = "abbey.csv"
approve = false
missing_values = ["NA"]
[columns]
age = "AGE"
[policy]
min_fold_rows = 20
models = ["ridge"]
"""
DICTIONARY = """name,kind,levels,unit,sd,missing,fill,since,at,other
age,number,,years,10,indicator,60,,,
sex,levels,f|m,,,,,,,true
born,date,,,,,,2000-01-01,,
died,outcome,no|yes,,,,,,,
"""


def write_files(folder):
    """Every file that fedcsa reads, sound."""
    folder.mkdir(parents=True, exist_ok=True)
    table = "age,bmi,sex,outcome\n" + "".join(
        f"{k},{k % 7}.5,{'fm'[k % 2]},{k % 5}\n" for k in range(60)
    )
    for name in ("abbey", "new"):
        (folder / f"{name}.csv").write_text(table)
    written = {
        "study.toml": STUDY, "search.toml": SEARCH, "given.toml": GIVEN, "formula.toml": FORMULA,
        "site.toml": SITE, "federation.toml": FEDERATION_TEMPLATE.format(name="demo"),
        "dictionary.csv": DICTIONARY,
    }  # fmt: skip
    for name, text in written.items():
        (folder / name).write_text(text)
    for path in (FOREIGN / "xgboost-two.json", FOREIGN / "lightgbm-two.txt"):
        shutil.copy(path, folder)
    for name, model in zip(("design.json", "cuts.json"), given_models(), strict=True):
        write_model(folder / name, FileModel(model, ("x0", "x1"), 0))
    study = Study.load(folder / "study.toml")
    target = Target(study.read_target(), study.plan(), policy=Policy.open())
    write_table1(folder / "table1.csv", target.table, study.coding)
    for name, model in (("lines", "ridge"), ("trees", FOREST)):
        exchange = Exchange(model)
        role = Target(exchange.seen, exchange.plan, policy=Policy.open())
        done = run_study(role, InProcess([exchange.source(k) for k in "abc"]))
        done = dataclasses.replace(done, described=COLUMNS)
        save_result(done, folder / name, STUDY)
    KeptAnswers(folder / "answers").put("one", exchange.reports["a"])
    _write_followup(folder / "lines")
    _write_logs(folder)
    _write_kit(folder / "kit")
    _write_tables(folder)
    _write_denied(folder)
    return folder


def _write_tables(folder):
    """The rows of a source as other programs keep them."""
    rows = pyarrow.csv.read_csv(folder / "abbey.csv")
    pyarrow.parquet.write_table(rows, folder / "abbey.parquet")
    write_xlsx(folder / "abbey.xlsx", {"stays": rows.to_pydict()})
    with duckdb.connect(folder / "abbey.duckdb") as database:
        database.register("rows", rows)
        database.execute("CREATE TABLE stays AS SELECT * FROM rows")
    database = sqlite3.connect(folder / "abbey.sqlite")
    database.execute("CREATE TABLE stays (age INTEGER, bmi REAL, sex TEXT, outcome INTEGER)")
    values = [tuple(row.values()) for row in rows.to_pylist()]
    database.executemany("INSERT INTO stays VALUES (?, ?, ?, ?)", values)
    database.commit()
    database.close()


def _write_denied(folder):
    """An authority, and its list of certificates that no longer count."""
    authority = Authority(folder / "authority", "demo")
    authority.issue("abbey", "source", 1)
    authority.deny("abbey", folder / DENIED)


#: How the tables of the saved results are read.
COLUMNS = Columns({"id": "id", "x0": "number", "x1": "number"}, Outcome("outcome"))


def _write_followup(folder):
    """A list of rows to follow up with their outcomes, and what they have changed."""
    adaptation = load_result(folder)
    X, y = rows(9)
    lines = [f"{k},{x0},{x1}" for k, (x0, x1) in enumerate(X.tolist())]
    (folder / "new.csv").write_text("\n".join(["id,x0,x1", *lines]) + "\n")
    found = read_target_rows(COLUMNS, folder / "new.csv")
    places, _, history = pick_rows(adaptation, found.X, found.keys, 40, seed=1)
    lines = [f"{lines[k]},{y[k]}" for k in places.tolist()]
    (folder / "followup.csv").write_text("\n".join(["id,x0,x1,outcome", *lines]) + "\n")
    came = read_labelled(COLUMNS, [folder / "followup.csv"])
    history = bring_in(adaptation, came.X, came.y, keys=came.keys, history=history)
    save_history(history, folder, adaptation)


def _write_logs(folder):
    """The log of a site, its status, and a study that waits in the kit of a lead."""
    log = SiteLog(folder / "state")
    log.append("asked", nonce="1", study="demo@1", phase="risk")
    log.record("abbey", Refusal("demo", "abbey", "0" * 64, "models"), "new", envelope_bytes=300)
    Status(folder / "state").say("connected")
    agreed = AgreedStudy((folder / "study.toml").read_text())
    shelf = Shelf(folder / "lead")
    shelf.put(new_kept(shelf, agreed, "new", 1, 60, folder / "out", "1d"))
    shelf.folder(agreed.id).rename(folder / "lead" / "studies" / "one")


def _write_kit(folder):
    """A kit, and its archive beside it."""
    told = {
        "federation": "demo", "participant": "abbey", "role": "source", "host": "localhost",
        "port": 8002, "sites": {"abbey": "source", "new": "target"}, "fedcsa": "0.1.0",
    }  # fmt: skip
    for name in KIT_FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")
    (folder / KIT_FILE).write_text(json.dumps(told))
    pack_kit(folder)


# Who reads them --------------------------------------------------------------------------------


def read_study(path):
    study = Study.load(path)
    study.plan(build=True)
    study.problems()
    AgreedStudy(agreed_text(path)).study.plan()  # as it comes to a site


def read_result(path):
    folder = path if path.is_dir() else path.parent
    folder = folder if (folder / "adaptation.json").exists() else folder.parent
    load_ledgers(folder)
    load_result(folder).predict(rows(3)[0])


def read_updates(path):
    adaptation = load_result(path.parent)
    history = load_history(path.parent, adaptation)
    came = read_labelled(COLUMNS, [path.parent / "followup.csv"])
    bring_in(adaptation, came.X, came.y, keys=came.keys, history=history)


def read_log(path):
    log = SiteLog(path.parent)
    return log.events, log.sent, log.waiting, Status(path.parent).lines()


def read_rows(path):
    study = Study.load(path.parent / "study.toml")
    study.read_source("abbey")


def read_table(path):
    """A source's rows as another program keeps them."""
    where = {"table": path.name}
    if path.suffix in (".duckdb", ".sqlite"):
        where = {"database": path.name, "query": "SELECT * FROM stays ORDER BY age, bmi, sex"}
    study = Study.load(path.parent / "study.toml")
    dataclasses.replace(study, sources={"abbey": where}).read_source("abbey")


def read_kept(path):
    for kept in Shelf(path.parents[2]).all():
        kept.next, kept.waiting  # noqa: B018 - they are computed


def read_archive(path):
    archive = KitArchive(path)
    archive.check(archive.fingerprint)
    archive.unpack(path.parent / "unpacked")


@functools.cache
def root_of(folder):
    """The certificate of an authority; to read its private key beside it takes longest."""
    return Authority(folder, "").root


def predict_with(found):
    found.model.predict(rows(3)[0][:, : len(found.columns)])


READERS = {
    "study.toml": read_study,
    "search.toml": read_study,
    "given.toml": read_study,
    "formula.toml": load_formula,
    "design.json": lambda path: predict_with(read_file_model(path)),
    "cuts.json": lambda path: predict_with(read_file_model(path)),
    "xgboost-two.json": read_foreign,
    "lightgbm-two.txt": read_foreign,
    "dictionary.csv": read_dictionary,
    "site.toml": SiteFile.load,
    "federation.toml": Federation.load,
    "table1.csv": lambda path: read_table1(path, Study.load(path.parent / "study.toml").coding),
    "abbey.csv": read_rows,
    "abbey.parquet": read_table,
    "abbey.xlsx": read_table,
    "abbey.duckdb": read_table,
    "abbey.sqlite": read_table,
    DENIED: lambda path: read_denied(path, root_of(path.parent / "authority")),
    "lines/adaptation.json": read_result,
    "trees/adaptation.json": read_result,
    "trees/models/0.fcsa": read_result,
    "lines/models/1.fcsa": read_result,
    "lines/ledgers/0.jsonl": read_result,
    "lines/updates.json": read_updates,
    "lines/followup.csv": read_updates,
    "answers/one.fcsa": lambda path: KeptAnswers(path.parent).find("one"),
    "lead/studies/one/kept.json": read_kept,
    f"kit/{KIT_FILE}": lambda path: Kit.load(path.parent),
    "kit.zip": read_archive,
}


def files(folder):
    """Functions that change one file of a folder, read it and restore it."""
    sound = write_files(folder / "sound")
    state = [
        path.relative_to(sound)
        for path in (sound / "state").rglob("*")
        if path.is_file() and path.stat().st_size
    ]
    readers = READERS | {str(path): read_log for path in state}
    work = folder / "work"
    shutil.copytree(sound, work)
    for name, read in readers.items():  # the unchanged ones are read
        read(work / name)
    texts = {name: (sound / name).read_bytes() for name in readers}

    def one(rng):
        name = any_of(rng, sorted(readers))
        changed = change_text(rng, texts[name], texts[any_of(rng, sorted(texts))] or b"\n")

        def read(content):
            path = work / name
            shutil.rmtree(work / "unpacked", ignore_errors=True)
            path.write_bytes(content)
            try:
                readers[name](path)
            finally:
                for part in {name, *map(str, state)}:  # whoever reads a log may write to it
                    (work / part).write_bytes(texts[part])

        return name, read, changed

    return one
