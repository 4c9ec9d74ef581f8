"""What the attacks share: a federation on disk, and messages that kill whoever opens them."""

import importlib.util
import os
from pathlib import Path

import pytest

from fedcsa.messages.codec import decode, encode
from fedcsa.messages.envelope import START, ask, close
from fedcsa.messages.policy import utc_now
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.log import SiteLog, open_log
from fedcsa.site.opening import opener
from fedcsa.site.site_file import SiteFile
from fedcsa.site.source_desk import SourceDesk
from fedcsa.site.target_desk import TargetDesk

HERE = Path(__file__).parent
#: Scripts for processes of their own, which look for each other beside them.
collect_ignore = ["fuzz"]


def _load(path):
    spec = importlib.util.spec_from_file_location(f"of_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_site = _load(HERE.parent / "site" / "conftest.py")
Federation, SIZES = _site.Federation, _site.SIZES
federation, make_federation = _site.federation, _site.make_federation
federation_in, write_study = _site.federation_in, _site.study_writer
reports, without_reports = _site.reports, _site.without_reports


@pytest.fixture
def poison(monkeypatch):
    """Lets messages of a kind, from a source or from any, do something to who opens them."""

    def give(kind, source, action):
        opener().end()  # the next child is poisoned
        path = os.pathsep.join(filter(None, [str(HERE / "poison"), os.environ.get("PYTHONPATH")]))
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.setenv("FEDCSA_TEST_POISON", f"{kind} {source} {action}")

    yield give
    opener().end()


class Site:
    """One site of its own: a table, its file, and studies on any of its columns."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = utc_now
        self.folder.mkdir()
        self.configure()

    def configure(self, extra=""):
        (self.folder / "site.toml").write_text(f'table = "table.csv"\n{extra}\n')

    def write(self, X, names, **columns):
        table = {name: X[:, k].tolist() for k, name in enumerate(names)}
        table.update((name, list(column)) for name, column in columns.items())
        _site.write_table(self.folder / "table.csv", table)

    @staticmethod
    def study(name, features):
        """What was agreed: a ridge regression on `features`, described by a kind each."""
        described = "".join(f"{feature} = {kind}\n" for feature, kind in features.items())
        return AgreedStudy(
            f'name = "{name}"\nseed = 3\n[outcome]\nname = "outcome"\n[features]\n{described}'
            '[model]\nname = "ridge"\n[candidates]\npenalty = [0.1]\nratio_power = [0.0]\n'
            f'[target]\ntable = "-"\n[sources.abbey]\ntable = "-"\n'
        )

    @property
    def file(self):
        open_log.cache_clear()  # as after a restart
        return SiteFile.load(self.folder / "site.toml")

    @property
    def log(self):
        return SiteLog(self.folder / "state")

    def announce(self, agreed):
        """The brief of this site as the target, or the rule under which it tells nothing."""
        start = ask(agreed.id, START, "lead", "new")
        desk = TargetDesk("new", self.file, agreed, start, min_sources=1)
        desk._log._clock = self.clock
        letter = desk.take("announce", {"replies": {}})
        if "payloads" not in letter:
            return decode(letter["conclusion"]).outcome
        [payload] = letter["payloads"].values()
        return decode(payload)

    def answer(self, agreed, brief, target="new"):
        """The answer of this site as a source to whatever a target sends."""
        payload = brief if isinstance(brief, bytes) else encode(brief)
        wire, _ = close(ask(agreed.id, "risk", target, "abbey"), payload, "", None)
        desk = SourceDesk("abbey", self.file, agreed, ask(agreed.id, START, "lead", target))
        desk._log._clock = self.clock
        return decode(desk.answer(wire, payload)[1])


@pytest.fixture
def make_site(tmp_path):
    return lambda name="site": Site(tmp_path / name)
