"""`study init` and `site init` write files that work, once; `explain` knows every name."""

import ast
import dataclasses
import json
import re
from pathlib import Path

import pytest

import fedcsa
from fedcsa.answer import measure_words
from fedcsa.findings import CATALOGUE
from fedcsa.glossary import glossary
from fedcsa.messages.policy import Policy
from fedcsa.refusals import REFUSAL_RULES
from fedcsa.site.opening import UNSAFE

DICTIONARY = "name,kind,levels\nage,number,\nstage,levels,I|II\ndied,outcome,no|yes\n"
WORDS = Path(fedcsa.__file__).with_name("glossary.md")
ROOT = Path(__file__).parents[2]
SOURCES = sorted(Path(fedcsa.__file__).parent.rglob("*.py"))


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "columns.csv"
    path.write_text(DICTIONARY, encoding="utf-8")
    return path


def test_a_dictionary_becomes_a_study_file(dictionary, tmp_path, invoke):
    out = tmp_path / "study.toml"
    words = ("study", "init", "--dictionary", dictionary, "--out", out)
    told = invoke(*words, "--source", "leeds", "--source", "turin", "--json")
    assert told.exit_code == 0
    found = json.loads(told.stdout)
    assert found["outcome"] == {
        "name": "died",
        "levels": ["no", "yes"],
        "why": "as the dictionary says",
    }
    assert found["features"] == {"age": "number", "stage": "levels"}
    assert [*found["sources"]] == ["leeds", "turin"]
    many = [word for k in range(12) for word in ("--source", f"site{k}")]
    shown = invoke(*words, *many, "--force").stdout
    assert f"12 sources: {', '.join(f'site{k}' for k in range(12))}. Target: new." in shown
    refused = invoke(*words, "--source", "leeds")
    assert refused.exit_code == 3
    assert "already exists" in refused.stderr


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("header.csv", "The table 'header.csv' must have rows; it has none."),
        ("nope.csv", "The table 'nope.csv' does not exist. Check the path.\n"),
        ("tables", "it is a folder. Name the tables in it, such as tables/*.csv.\n"),
    ],
)
@pytest.mark.parametrize("whose", ["source", "target"])
def test_a_table_that_shows_nothing_is_named(table, said, whose, tmp_path, invoke, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tables").mkdir()
    Path("header.csv").write_text("age,died\n", encoding="utf-8")
    Path("good.csv").write_text("age,died\n1,0\n2,1\n", encoding="utf-8")
    source, target = (table, "good.csv") if whose == "source" else ("good.csv", table)
    result = invoke("study", "init", source, "--target", target, "--out", "new/study.toml")
    assert result.exit_code == 3
    assert said in result.stderr


def test_a_federation_file_names_the_sites(dictionary, tmp_path, invoke):
    federation, out = tmp_path / "federation.toml", tmp_path / "study.toml"
    assert invoke("federation", "init", federation).exit_code == 0
    words = ("--dictionary", dictionary, "--federation", federation, "--out", out)
    told = json.loads(invoke("study", "init", *words, "--json").stdout)
    assert ([*told["sources"]], told["target"]) == (["abbey", "birch"], {"table": "new.csv"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Name the sources' tables and the target's"),
        (("a.csv",), "Name the sources' tables and the target's"),
        (("a.csv", "--target", "b.csv", "--source", "a"), "leave out --source"),
        (("a.csv", "--dictionary", "columns.csv"), "not both"),
        (("--dictionary", "columns.csv"), "Name the sites with outcomes"),
        (("b.csv", "--target", "b.csv"), "beside the target's"),
    ],
)
@pytest.mark.usefixtures("dictionary")
def test_what_is_missing_is_said(words, said, tmp_path, invoke, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = invoke("study", "init", *words)
    assert refused.exit_code == 3
    assert said in refused.stderr
    assert not (tmp_path / "study.toml").exists()


def test_a_site_file_is_written_once(dictionary, tmp_path, invoke):
    study, out, table = (tmp_path / name for name in ("study.toml", "site.toml", "rows.csv"))
    table.write_text("age,stage,died\n61,I,no\n55,II,yes\n", encoding="utf-8")
    invoke("study", "init", "--dictionary", dictionary, "--source", "a", "--out", study)
    words = ("site", "init", table, "--study", study, "--out", out)
    told = invoke(*words, "--json")
    assert (told.exit_code, json.loads(told.stdout)["role"]) == (0, "source")
    before = out.read_bytes()
    refused = invoke(*words)
    assert (refused.exit_code, out.read_bytes()) == (3, before)
    assert "--force" in refused.stderr
    assert invoke(*words, "--force").exit_code == 0


# Explain --------------------------------------------------------------------------------------


def test_every_name_is_explained(invoke):
    for name in (*CATALOGUE, *REFUSAL_RULES):
        meaning, advice = CATALOGUE[name][1:] if name in CATALOGUE else REFUSAL_RULES[name]
        [(found, about)] = json.loads(invoke("explain", name, "--json").stdout).items()
        assert found == name
        assert about["meaning"].lower().startswith(meaning.lower()), name
        assert about["advice"].lower().startswith(advice.lower()), name


@pytest.mark.parametrize("measure", measure_words.WORDS)
def test_every_measure_of_a_report_is_explained(measure, invoke):
    title = measure_words.WORDS[measure].title
    found = json.loads(invoke("explain", title, "--json").stdout)
    assert found
    assert {about["kind"] for about in found.values()} & {"measure", "word"}


def test_all_names_are_listed_and_fit_the_screen(invoke):
    shown = invoke("explain", COLUMNS="80").stdout
    assert all(f" {name} " in shown for name in (*CATALOGUE, *REFUSAL_RULES))
    flat = " ".join(shown.split())
    assert all(word in flat for words in glossary() for word in words.split(", "))
    assert max(map(len, shown.splitlines())) <= 80


def test_a_near_miss_is_suggested_and_spelling_forgiven(invoke):
    refused = invoke("explain", "no-overlop")
    assert (refused.exit_code, "Did you mean 'no-overlap'?" in refused.stderr) == (3, True)
    unknown = " ".join(invoke("explain", "qwertz").stderr.split())
    assert "Unknown finding, rule or word 'qwertz'. All: fedcsa explain" in unknown
    assert invoke("explain", "Row-Floors").stdout.startswith("row_floors (rule)")
    both = json.loads(invoke("explain", "NoOverlap", "--json").stdout)
    assert [*both] == ["no-overlap", "no_overlap"]
    shown = invoke("explain", "nooverlap").stdout
    assert "no-overlap (danger)" in shown and "\n\nno_overlap (rule)" in shown  # noqa: PT018
    assert "rule" not in invoke("explain", "no-overlap").stdout


def test_every_word_of_the_glossary_is_explained(invoke):
    for words, meaning in glossary().items():
        assert not re.search(r"[]`]|\*\w", meaning), words
        for word in words.split(", "):
            found = json.loads(invoke("explain", word.upper(), "--json").stdout)
            assert meaning in (found[words].get("word"), found[words]["meaning"]), word


def test_a_word_that_is_also_a_rule_is_shown_as_both(invoke):
    shown = " ".join(invoke("explain", "approval").stdout.split())
    assert "approval (rule)" in shown
    assert "As a word: A steward's consent to one study" in shown
    assert "What to do" not in invoke("explain", "brier").stdout


def test_the_page_of_the_glossary_is_made_of_the_same_words():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert "```{include} ../src/fedcsa/glossary.md\n```" in page
    assert "{glossary}" not in page
    assert len(glossary()) == len(re.findall(r"\n\n(?=\w)", WORDS.read_text(encoding="utf-8")))


def _rules(path):
    """Rules that a module raises by name: the first argument of an error, or the word `rule`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", "")
            if name in ("PolicyError", "BindingError", "OpeningError", "_refusal"):
                yield node.args[0]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            aim = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(aim, "id", getattr(aim, "attr", "")) == "rule" and node.value is not None:
                yield node.value


def test_every_rule_of_the_code_is_explained():
    raised = {
        node.value
        for path in SOURCES
        for node in _rules(path)
        if isinstance(node, ast.Constant) and str(node.value).isidentifier()
    }
    assert len(raised) > 40
    assert raised | set(UNSAFE) <= set(REFUSAL_RULES)


def test_every_rule_of_a_policy_that_refuses_is_explained():
    settings = {
        "period_days", "min_changed_rows", "min_changed_share", "min_level_rows", "min_cell_rows",
        "show_model", "count_band", "significant_digits",
    }  # fmt: skip
    assert {item.name for item in dataclasses.fields(Policy)} - settings <= set(REFUSAL_RULES)


def test_no_finding_is_called_like_a_rule():
    assert not {code.replace("-", "_") for code in CATALOGUE} & set(REFUSAL_RULES) - {"no_overlap"}
