"""A federation on disk, each site with its own folder, and a courier that only carries bytes."""

import csv
from pathlib import Path

import numpy as np
import pytest

from fedcsa.answer import page
from fedcsa.cli.federation_demo import write_sites
from fedcsa.federation.coordinator import Coordinator
from fedcsa.federation.kept import Ended, Kept
from fedcsa.messages.codec import encode
from fedcsa.messages.envelope import START, Envelope
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import SiteLog, open_log
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.target_desk import TargetDesk
from fedcsa.study import Study

SIZES = {"abbey": 200, "birch": 220, "castle": 240}
PIPELINE = """name = "pipeline"
[[model.steps]]
name = "scale"
class = "sklearn.preprocessing.StandardScaler"
[[model.steps]]
name = "fit"
class = "sklearn.linear_model.Ridge"
"""
TREES = 'name = "sklearn.tree.DecisionTreeRegressor"\nparameters = { min_samples_leaf = 20 }'
PLAIN = "ratio_power = [0.0]"
LOGISTIC = 'name = "sklearn.linear_model.LogisticRegression"'
#: model, candidates, labels of the outcome
STUDIES = {
    "ridge": ('name = "ridge"', f"penalty = [0.01, 10.0]\n{PLAIN}", ()),
    "close": ('name = "ridge"', f"penalty = {[k / 500 for k in range(100)]}\n{PLAIN}", ()),
    "classifier": (LOGISTIC, f"C = [0.1, 1.0]\n{PLAIN}", ("ill", "well")),
    "trees": (TREES, f"max_depth = [1, 2]\n{PLAIN}", ()),
    "pipeline": (PIPELINE, f"fit__alpha = [0.1, 1.0]\n{PLAIN}", ()),
}


def write_table(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def hospital(rng, mean, rows, labels=()):
    X = rng.normal(mean, 1.0, (rows, 2))
    y = X.sum(axis=1) + rng.normal(size=rows)
    outcome = [labels[int(value > 0.0)] for value in y] if labels else y.tolist()
    return {"age": X[:, 0].tolist(), "bmi": X[:, 1].tolist(), "outcome": outcome}


def write_study(folder, kind="ridge", name="small", top=""):
    """A study file that also runs in one process, under the sites' strict policy."""
    model, candidates, labels = STUDIES[kind]
    levels = f"levels = [{', '.join(map(repr, labels))}]\n" if labels else ""
    sources = "".join(f'[sources.{n}]\ntable = "{n}/table.csv"\n' for n in SIZES)
    path = folder / "study.toml"
    path.write_text(
        f'name = "{name}"\nseed = 3\n{top}\n[outcome]\nname = "outcome"\n{levels}[features]\n'
        f'age = "number"\nbmi = "number"\n[model]\n{model}\n[candidates]\n{candidates}\n'
        f'[policy]\npreset = "site"\n[target]\ntable = "new/table.csv"\n{sources}',
        encoding="utf-8",
    )
    return path


class Federation:
    """Four sites in one folder."""

    def __init__(self, folder, kind="ridge"):
        self._at(folder, tuple(SIZES))
        write_study(self.folder, kind)
        rng = np.random.default_rng(5)
        labels = STUDIES[kind][2]
        for index, (name, rows) in enumerate(SIZES.items()):
            self._site(name, hospital(rng, 0.1 * index, rows, labels))
        table = hospital(rng, 0.1, 100, labels)
        del table["outcome"]
        self._site("new", table)

    def _at(self, folder, names):
        self.folder = Path(folder)
        self.study_file = self.folder / "study.toml"
        self.names = names
        self.absent = set()
        self.seals = {}  # without them, messages go as they are
        self.start = None  # the lead's; without one, that of a lead who has no key
        self.tamper = lambda _task, _name, letter: letter

    def _site(self, name, table):
        (self.folder / name).mkdir()
        write_table(self.folder / name / "table.csv", table)
        self.configure(name)

    def configure(self, name, extra=""):
        text = f'table = "table.csv"\n{extra}\n'
        (self.folder / name / "site.toml").write_text(text, encoding="utf-8")

    def state(self, name):
        return self.folder / name / "state"

    def log(self, name):
        """A site's log, read and verified anew."""
        return SiteLog(self.state(name))

    def site(self, name):
        return SiteFile.load(self.folder / name / "site.toml")

    @property
    def study(self):
        return Study.load(self.study_file)

    @property
    def agreed(self):
        return AgreedStudy(self.study_file.read_text(encoding="utf-8"))

    def target_desk(self, agreed):
        """The target's desk, as after a restart."""
        open_log.cache_clear()
        return self.desk("new", agreed)

    def desk(self, name, agreed=None, min_sources=1, wait=True):
        """A new desk of a site."""
        agreed = agreed or self.agreed
        start = self.start or Envelope(agreed.id, START, "lead", "new", "")
        place = name, self.site(name), agreed, start, self.seals.get(name)
        if name != "new":
            return SourceDesk(*place)
        return TargetDesk(*place, min_sources=min_sources, wait=wait)

    def attempt(self, min_sources=1, wait=True):
        """One submission, all desks new as after a restart; the coordinator as it ended."""
        open_log.cache_clear()
        agreed = self.agreed
        self.sources = {name: self.desk(name, agreed) for name in self.names}
        self.target = self.desk("new", agreed, min_sources, wait)
        self.board = Coordinator("new", list(self.names))
        self.board.run(self.deliver)
        return self.board

    def asked_again(self, phase):
        """The question of `phase` as it would come to abbey once more: envelope and payload."""
        message = {
            "risk": lambda: self.target._brief,
            "model": lambda: self.target._role._request,
            "examine": lambda: self.target._role._examinations["abbey"],
        }[phase]()
        letter = self.target._post(phase, {"abbey": message})
        return letter["envelopes"]["abbey"], encode(message)

    def ended(self, told, out):
        """A study that ended as the target told, for the lead who wants its result in `out`."""
        agreed, now = self.agreed, "2026-11-17T09:00:00+00:00"
        kept = Kept(agreed.id, agreed.text, "new", 1, 60, str(out), since=now, until=now)
        return Ended(kept, {"attempts": 1, "seconds": {}, "bytes": {}}, told)

    def deliver(self, task, letters, arrived):
        came = {}
        for name, letter in letters.items():
            if (task, name) in self.absent:
                continue
            desk = self.target if name == "new" else self.sources[name]
            came[name] = self.tamper(task, name, desk.take(task, letter))
            arrived(name, came[name])
        return came


class Demo(Federation):
    """The sites of ``fedcsa federation demo``."""

    def __init__(self, folder):
        self._at(folder, tuple(write_sites(folder, seed=1)))


@pytest.fixture
def reports():
    """For tests that look at reports: one takes longer than the study itself."""


@pytest.fixture(autouse=True)
def without_reports(request, monkeypatch):
    if "reports" not in request.fixturenames:
        monkeypatch.setattr(page, "write_report", lambda folder: folder / "report.html")


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Demo(Path("federation-demo"))


@pytest.fixture(scope="session")
def federation_in():
    """Makes a federation in a folder."""
    return Federation


@pytest.fixture(scope="session", name="write_study")
def study_writer():
    """Writes a study file."""
    return write_study


@pytest.fixture
def make_federation(tmp_path):
    return lambda kind="ridge": Federation(tmp_path, kind)


@pytest.fixture
def federation(make_federation):
    return make_federation()
