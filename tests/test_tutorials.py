"""The pages of the tutorials show the scripts, and what the scripts print on published data."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("FEDCSA_DATA", ROOT.parent / "shared" / "data"))


def load_record():
    spec = importlib.util.spec_from_file_location("record", ROOT / "docs" / "record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORD = load_record()


def kept(name):
    return (RECORD.PAGES / f"{name}.rst").read_text(encoding="utf-8")


def test_every_tutorial_has_its_data_named():
    assert sorted(RECORD.FILES) == sorted(path.stem for path in RECORD.SCRIPTS.glob("*.py"))


@pytest.mark.parametrize("name", sorted(RECORD.FILES))
def test_a_page_shows_the_script_and_its_output_without_the_data(name):
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    text = kept(name)
    for kind, content, *_ in parser.split_code_and_text_blocks(RECORD.SCRIPTS / f"{name}.py")[1]:
        shown = RECORD.block(content, "python") if kind == "code" else content.strip("\n")
        assert shown in text, "run: python docs/record.py"
    assert text.count(".. code-block:: none") > 5
    assert "object at 0x" not in text
    for figure in re.findall(r"^\.\. image:: (.*)$", text, re.M):
        assert (RECORD.PAGES / figure).stat().st_size > 1000
    assert all(told in text for told in RECORD.FILES[name].values())


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(RECORD.FILES))
def test_a_page_shows_what_the_script_prints_on_its_data(name, monkeypatch):
    if not RECORD.has_data(DATA, name):
        pytest.skip("the data of the tutorial are not here: name their folder with FEDCSA_DATA")
    monkeypatch.setenv("FEDCSA_DATA", str(DATA))
    assert RECORD.page(name)[0] == kept(name), "run: python docs/record.py"


def test_other_bytes_are_not_taken_for_the_data(tmp_path):
    name, files = next(iter(RECORD.FILES.items()))
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_bytes(bytes.fromhex("1f8b0800000000000003030000000000" + "00" * 4))
    assert not RECORD.has_data(tmp_path, name)
