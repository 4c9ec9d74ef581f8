"""What the attacks share: a federation on disk, and messages that kill whoever opens them."""

import importlib.util
import os
from pathlib import Path

import pytest

from fedcsa.site.opening import opener

HERE = Path(__file__).parent


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
