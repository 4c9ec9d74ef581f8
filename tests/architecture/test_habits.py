"""The hooks of a commit, the tree of the architecture page, and the words of the glossary."""

import importlib.util
import re
from pathlib import Path
from typing import get_args

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fedcsa"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Commits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("core: say what a penalty is", None),
        ("Revert 'core: say what a penalty is'", None),
        ("core: " + "x" * 66, None),
        ("core: " + "x" * 67, "73 characters"),
        ("say what a penalty is", "part it touches"),
        ("Core: say what a penalty is", "part it touches"),
        ("core:", "part it touches"),
    ],
)
def test_a_commit_subject_is_short_and_names_its_part(subject, problem):
    told = load(ROOT / ".ci" / "check_subject.py").problem_of(subject)
    assert told is None if problem is None else problem in told


def test_every_hook_runs_what_the_environment_has():
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"- repo: (\S+)", text)) == {"local"}
    entries = re.findall(r"entry: (\S+)", text)
    assert entries
    assert all(entry.startswith(".venv/bin/") for entry in entries)


# The architecture page ------------------------------------------------------------------------


def test_the_tree_of_the_page_has_every_module_and_what_it_is():
    page = load(ROOT / "docs" / "tree.py").tree_page()
    lines = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    modules = [path for path in SOURCE.rglob("*.py") if not path.stem.startswith("__")]
    assert sorted(line[0].strip("| `") for line in lines) == sorted(path.name for path in modules)
    assert all(len(line[1].rstrip("| ")) > 10 for line in lines)


def test_packages_stand_after_what_they_import():
    names = load(ROOT / "docs" / "tree.py").layers()
    assert names.index("core") < names.index("source") < names.index("target") < names.index("cli")


# Symbols of the paper -------------------------------------------------------------------------

SYMBOLS = re.findall(
    r"^\| (\$?[^|]+) \| ([^|]+) \| ([^|]*`[\w/]+(?:\.py|/)`[^|]*) \|$",
    (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"),
    re.M,
)


@pytest.mark.parametrize(("symbol", "names", "files"), SYMBOLS, ids=[row[0] for row in SYMBOLS])
def test_a_symbol_is_computed_where_the_glossary_says(symbol, names, files):  # noqa: ARG001
    text = ""
    for file in re.findall(r"`([^`]+)`", files):
        paths = SOURCE.joinpath(file).rglob("*.py") if file.endswith("/") else [SOURCE / file]
        text += "".join(path.read_text(encoding="utf-8") for path in paths)
    for name in re.findall(r"`([^`]+)`", names):
        for word in re.findall(r"[A-Za-z_]\w+", name):
            assert word in text, word


# Words of the reports -------------------------------------------------------------------------

GLOSSARY = (SOURCE / "glossary.md").read_text(encoding="utf-8")
TERMS = {
    term.strip().lower()
    for line in re.findall(r"^(\w[^\n]*)\n  \S", GLOSSARY, re.M)
    for term in line.split(",")
} | {word.lower() for word in re.findall(r"`([\w-]+)`|\*(\w[\w ]*)\*", GLOSSARY) for word in word}
#: Technical words in sentences, tables, charts and findings.
TECHNICAL = (
    "agreement", "auroc", "back-test", "balance", "between sites", "brief", "calibration",
    "candidate", "constant", "control variate", "density ratio", "divergence", "effective rows",
    "flag", "fold", "grid", "imbalance", "interval", "ledger", "level", "measure", "mixture",
    "net benefit", "outcome", "policy", "promise", "ratio_power", "reach", "realised",
    "recalibration", "row", "score table", "skill", "source", "standard error", "steward",
    "subgroup", "target", "threshold", "training weight", "weight",
)  # fmt: skip


def names_of_reports():
    """Every name that a report prints and that stands in a list of the program."""
    from fedcsa.core.losses import CLASSIFICATION, REGRESSION
    from fedcsa.core.weights import WEIGHT_RULES
    from fedcsa.findings import ADVICE, Severity
    from fedcsa.messages.messages import MESSAGES
    from fedcsa.update import PromiseKept

    yield from (*MESSAGES, *REGRESSION, *CLASSIFICATION, *get_args(Severity))
    yield from (words.lower() for words, _ in ADVICE.values())
    yield from (words.removeprefix("far ") for words in get_args(PromiseKept))
    yield from ("validated", *WEIGHT_RULES)
    for path in (SOURCE / "target").rglob("*.py"):
        yield from re.findall(r"\bLeg\(\s*\"(\w+)\"", path.read_text(encoding="utf-8"))


def test_every_name_that_a_report_prints_is_in_the_glossary():
    names = set(names_of_reports())
    assert len(names) > 20
    assert names - TERMS == set()


def test_every_technical_word_of_the_reports_is_in_the_glossary():
    shown = [*(SOURCE / "answer").rglob("*.py"), *(SOURCE / "target").rglob("*.py")]
    shown += [SOURCE / "findings.py", *(SOURCE / "site").rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in shown]
    for word in TECHNICAL:
        assert any(word in text for text in texts), f"no report says {word!r}"
        told = (word, word.replace(" sites", "-site"))
        assert any(said in term for said in told for term in TERMS), word
