"""Feed mutated messages or files to whoever reads them, in a process of its own; tell what came.

Called as ``python run.py messages|files COUNT SEED FOLDER``. Prints one JSON object. Any exception
that is not one of fedcsa's own, an input that takes a minute, or more than 300 MB beside what the
process had at its start, ends it or is told.
"""

import dataclasses
import faulthandler
import json
import resource
import shutil
import struct
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fedcsa.answer.store import load_ledgers, load_result, save_result
from fedcsa.data.table1 import read_table1, write_table1
from fedcsa.errors import FedCSAError
from fedcsa.federation.federation_file import FEDERATION_TEMPLATE, Federation
from fedcsa.messages.codec import decode, digest_of, encode
from fedcsa.messages.envelope import Envelope
from fedcsa.messages.messages import (
    BacktestReport,
    Brief,
    Conclusion,
    Examination,
    ModelReport,
    ModelRequest,
    Refusal,
)
from fedcsa.messages.policy import Policy
from fedcsa.models.registry import expand_candidates, model_description
from fedcsa.plan import Plan
from fedcsa.run import InProcess, run_study
from fedcsa.site.log import SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.source.source import Source
from fedcsa.study import Study
from fedcsa.target.accept import Asked, accept, open_models
from fedcsa.target.target import Target

#: What opening may take beside what the process has.
MEMORY = 300 << 20
#: Nothing takes as long on any machine; what an input should take is 5 s.
WATCHDOG_SECONDS = 60
PREFIX = struct.Struct("<4sHI")
#: A number that is missing where a flag is 1, and a text that the flag tells.
INPUTS = [
    {"name": "a", "kind": "number", "columns": [0, 1], "levels": [], "missing": True},
    {"name": "b", "kind": "levels", "columns": [1], "levels": ["u", "v"], "missing": False},
]
COLUMNS = make_pipeline(
    ColumnTransformer([("n", SimpleImputer(), ["a"]), ("t", OneHotEncoder(), ["b"])]), Ridge()
)
FOREST = RandomForestRegressor(3, max_depth=3, min_samples_leaf=10, random_state=0)


# Mutations -------------------------------------------------------------------------------------

STRANGE = [
    None, True, False, 0, -1, 1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, 10**30,
    0.5, -0.0, 1e-300, 1e300, -1e300, "", "a", "é", "x" * 300, "\x00", "held", "trees", "linear",
    "design", "points", "sklearn.svm.SVR", "../../etc", [], [[]], {}, {"": 0}, [0, 1], ["f8", 3],
    ["i4", 2**40], {"kind": "held"}, [None] * 20, {"kind": "trees"},
]  # fmt: skip
CELLS = [
    b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80",
    b"\xfe\xff\xff\xff", b"\x02\x00\x00\x00", struct.pack("<d", float("nan")),
    struct.pack("<d", float("inf")), struct.pack("<d", 1e300), struct.pack("<d", -1e300),
    struct.pack("<d", 5e-324), struct.pack("<d", 1e6),
]  # fmt: skip


def any_of(rng, values):
    return values[int(rng.integers(len(values)))]


def change_bytes(rng, wire, other):
    """One of the ways in which bytes go wrong on their way, or are made to."""
    wire, how = bytearray(wire), int(rng.integers(6))
    at = int(rng.integers(max(len(wire), 1)))
    length = int(rng.integers(1, 40))
    if how == 0 or not wire:
        for _ in range(int(rng.integers(1, 8))):
            wire[int(rng.integers(len(wire)))] = int(rng.integers(256))
    elif how == 1:
        cell = any_of(rng, CELLS)
        wire[at : at + len(cell)] = cell
    elif how == 2:
        del wire[at : at + length]
    elif how == 3:
        wire[at:at] = wire[at : at + length] * int(rng.integers(1, 50))
    elif how == 4:
        wire = wire[:at]
    else:
        wire[at:] = other[int(rng.integers(len(other))) :]
    return bytes(wire)


def change_value(rng, value):
    """The same plain values with one of them, or one of their names, replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = any_of(rng, sorted(value))
        changed = {**value, key: change_value(rng, value[key])}
        if rng.random() < 0.1:
            changed[f"{key}x"] = changed.pop(key)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = int(rng.integers(len(value)))
        if rng.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return [*value[:at], change_value(rng, value[at]), *value[at + 1 :]]
    return any_of(rng, STRANGE)


def change_message(rng, wire, other):
    """A message whose header or one of whose arrays is changed, or whose bytes are."""
    body = PREFIX.size + PREFIX.unpack_from(wire)[2]
    chance = rng.random()
    if chance < 0.35:
        header = change_value(rng, json.loads(wire[PREFIX.size : body]))
        content = json.dumps(header, separators=(",", ":")).encode()
        return wire[:6] + struct.pack("<I", len(content)) + content + wire[body:]
    if chance < 0.7 and len(wire) > body + 8:
        payload = bytearray(wire[body:])
        for _ in range(int(rng.integers(1, 4))):
            cell = any_of(rng, CELLS)
            at = 4 * int(rng.integers((len(payload) - len(cell)) // 4 + 1))
            payload[at : at + len(cell)] = cell
        return wire[:body] + bytes(payload)
    return change_bytes(rng, wire, other)


# Who reads messages ----------------------------------------------------------------------------


def rows(seed, n=60, classes=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -0.5] + 0.5 * rng.normal(size=n)
    return X, (y > 0.0).astype(int) if classes else y


class Exchange:
    """One study of two sources, every message of it, and whoever reads them."""

    def __init__(self, model, classes=(), inputs=None):
        description = model_description(model, inputs)
        self.classes = classes
        self.plan = Plan(
            features=("x0", "x1"), model=description, classes=classes,
            loss="brier" if classes else "squared",
            candidates=expand_candidates(description["name"], None)[:2],
            scale=inputs is None,
        )  # fmt: skip
        self.target = Target(rows(9, classes=0)[0], self.plan, policy=Policy.open())
        sites = {name: self.source(name) for name in "ab"}
        brief = self.target.brief([*sites])
        self.reports = {name: site.answer(brief) for name, site in sites.items()}
        request = self.target.choose(self.reports)
        models = {name: site.answer(request) for name, site in sites.items()}
        self.examination = self.target.mix(models)["a"]
        found = sites["a"].answer(self.examination)
        self.brief, self.request = brief, request
        self.seen = rows(9)[0]
        self.wires = [
            encode(message)
            for message in (
                brief, self.reports["a"], request, models["a"], self.examination, found,
                Refusal(brief.study, "a", digest_of(brief), "models"),
                BacktestReport(brief.study, "a", 1.0, 0.1, 1.0),
                Conclusion(brief.study, "done", {"a": "answered"}, "", np.arange(9, dtype="u1")),
            )
        ]  # fmt: skip

    def source(self, name):
        X, y = rows(ord(name), classes=len(self.classes))
        y = np.asarray(self.classes)[y] if self.classes else y
        return Source(name, X, y, policy=Policy.open())

    def read(self, wire):
        """What the target, or the source, does with a message; returns its kind."""
        message = decode(wire)
        if isinstance(message, Brief):
            self.source("a").answer(message)
        elif isinstance(message, ModelRequest | Examination):
            site = self.source("a")
            site.recall(self.brief, self.reports["a"])
            site.answer(message)
        elif not isinstance(message, BacktestReport | Conclusion):
            questions = {"model-report": self.request, "examination-report": self.examination}
            question = questions.get(message.name, self.brief)
            said = self.reports["a"]
            accept(message, Asked("a", question, digest_of(question), self.brief, said))
            if isinstance(message, ModelReport):
                sent = {"a": message}
                open_models(sent, self.reports, self.plan, self.seen, self.brief.sd)
        return message.name


def messages():
    """Functions that change one message and read it."""
    exchanges = [
        Exchange("ridge"), Exchange(FOREST), Exchange(LogisticRegression(), ("no", "yes")),
        Exchange(COLUMNS, inputs=INPUTS),
    ]  # fmt: skip
    envelope = Envelope("demo@1", "risk", "a", "b", "0" * 32, "", "0" * 64)
    extra = {field.name: "0" * 64 for field in dataclasses.fields(Envelope) if field.name == "key"}
    outside = (dataclasses.replace(envelope, **extra) if extra else envelope).to_bytes()
    everything = [wire for exchange in exchanges for wire in exchange.wires]

    def one(rng):
        if rng.random() < 0.05:
            return "envelope", Envelope.from_bytes, change_bytes(rng, outside, outside)
        exchange = any_of(rng, exchanges)
        # Half of them are the messages that carry models.
        at = any_of(rng, [3, 4]) if rng.random() < 0.5 else int(rng.integers(9))
        wire = change_message(rng, exchange.wires[at], any_of(rng, everything))
        return decode(exchange.wires[at]).name, exchange.read, wire

    for exchange in exchanges:  # the unchanged ones are read
        for wire in exchange.wires:
            exchange.read(wire)
    return one


# Who reads files -------------------------------------------------------------------------------

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
SITE = """table = "abbey.csv"
approve = false
missing_values = ["NA"]
[columns]
age = "AGE"
[policy]
min_fold_rows = 20
models = ["ridge"]
"""


def write_files(folder):
    """Every file that fedcsa reads, sound; with the function that reads each."""
    folder.mkdir(parents=True, exist_ok=True)
    table = "age,bmi,sex,outcome\n" + "".join(
        f"{k},{k % 7}.5,{'fm'[k % 2]},{k % 5}\n" for k in range(60)
    )
    for name in ("abbey", "new"):
        (folder / f"{name}.csv").write_text(table)
    (folder / "study.toml").write_text(STUDY)
    (folder / "site.toml").write_text(SITE)
    (folder / "federation.toml").write_text(FEDERATION_TEMPLATE.format(name="demo"))
    study = Study.load(folder / "study.toml")
    target = Target(study.read_target(), study.plan(), policy=Policy.open())
    write_table1(folder / "table1.csv", target.table, study.coding)
    for name, model in (("lines", "ridge"), ("trees", FOREST)):
        exchange = Exchange(model)
        role = Target(exchange.seen, exchange.plan, policy=Policy.open())
        done = run_study(role, InProcess([exchange.source(k) for k in "abc"]))
        save_result(done, folder / name, STUDY)
    log = SiteLog(folder / "state")
    log.append("asked", nonce="1", study="demo@1", phase="risk")
    log.record("abbey", Refusal("demo", "abbey", "0" * 64, "models"), "new", envelope_bytes=300)
    return folder


def read_study(path):
    study = Study.load(path)
    study.plan(build=True)
    study.problems()


def read_result(path):
    folder = path if path.is_dir() else path.parent
    folder = folder if (folder / "adaptation.json").exists() else folder.parent
    load_ledgers(folder)
    load_result(folder).predict(rows(3)[0])


def read_log(path):
    log = SiteLog(path.parent)
    return log.events, log.sent, log.waiting


def read_rows(path):
    study = Study.load(path.parent / "study.toml")
    study.read_source("abbey")


READERS = {
    "study.toml": read_study,
    "site.toml": SiteFile.load,
    "federation.toml": Federation.load,
    "table1.csv": lambda path: read_table1(path, Study.load(path.parent / "study.toml").coding),
    "abbey.csv": read_rows,
    "lines/adaptation.json": read_result,
    "trees/adaptation.json": read_result,
    "trees/models/0.fcsa": read_result,
    "lines/models/1.fcsa": read_result,
    "lines/ledgers/0.jsonl": read_result,
}


def change_text(rng, text, other):
    """A file with one of its tokens replaced, or its bytes changed."""
    if rng.random() < 0.5 and text[:1] == b"{":
        try:
            return json.dumps(change_value(rng, json.loads(text))).encode()
        except ValueError:
            pass
    if rng.random() < 0.5:
        lines = text.split(b"\n")
        at = int(rng.integers(len(lines)))
        left, mark, _ = lines[at].partition(any_of(rng, [b"=", b",", b":"]))
        strange = any_of(rng, STRANGE)
        lines[at] = left + mark + json.dumps(strange).encode()
        return b"\n".join(lines)
    return change_bytes(rng, text, other)


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
            path.write_bytes(content)
            try:
                readers[name](path)
            finally:
                for part in {name, *map(str, state)}:  # whoever reads a log may write to it
                    (work / part).write_bytes(texts[part])

        return name, read, changed

    return one


# The loop --------------------------------------------------------------------------------------


def memory_in_use():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def feed(one, count, seed):
    """Read `count` changed inputs; what became of them."""
    limit = memory_in_use() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken, refused, slowest, foreign = Counter(), Counter(), (0.0, ""), []
    for index in range(count):
        name, read, content = one(np.random.default_rng([seed, index]))
        faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
        begin = time.perf_counter()
        try:
            read(content)
            taken[name] += 1
        except FedCSAError:
            refused[name] += 1
        except Exception as error:
            foreign.append([name, index, f"{type(error).__name__}: {error}"[:200]])
        slowest = max(slowest, (time.perf_counter() - begin, name))
    faulthandler.cancel_dump_traceback_later()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024
    return {
        "tried": count, "taken": taken, "refused": refused, "foreign": foreign[:20],
        "slowest": slowest, "grown_mb": grown,
    }  # fmt: skip


if __name__ == "__main__":
    what, how_many, first_seed, place = sys.argv[1:]
    np.seterr(all="ignore")
    chosen = messages() if what == "messages" else files(Path(place))
    print(json.dumps(feed(chosen, int(how_many), int(first_seed))))
