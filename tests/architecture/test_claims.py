"""What the documents claim of safety is shown by a test that exists, and every attack is listed."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
INDEX = TESTS / "attacks" / "README.md"
THREATS, PRIVACY = ROOT / "docs" / "threat-model.md", ROOT / "docs" / "privacy.md"
#: A test as the documents name it: its file below tests/, and the function.
NODE = re.compile(r"`(\w+(?:/\w+)*/test_\w+\.py)::(test_\w+)`")
#: A page that is longer is not read by those who must sign.
MAX_WORDS = 1500


def text_of(page):
    return page.read_text(encoding="utf-8")


def nodes(text):
    return NODE.findall(text)


@cache
def functions_of(file):
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def rows(page, heading=""):
    """The rows of the tables of a page, below one of its headings if one is given."""
    text = text_of(page)
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        assert text, f"{page.name} has no heading {heading!r}"
    lines = text.splitlines()
    below = zip(lines, [*lines[1:], ""], strict=True)
    body = [line for line, next_line in below if not next_line.startswith("|-")]
    return [line for line in body if line.startswith("|") and not line.startswith("|-")]


NAMED = sorted({(p.name, *n) for p in (THREATS, PRIVACY, INDEX) for n in nodes(text_of(p))})


def test_a_test_that_a_document_names_exists():
    assert len(NAMED) > 50
    files = {file: functions_of(file) if (TESTS / file).is_file() else () for _, file, _ in NAMED}
    assert [named for named in NAMED if named[2] not in files[named[1]]] == []


@pytest.mark.parametrize("page", [THREATS, PRIVACY], ids=lambda page: page.name)
def test_a_page_is_short_enough_to_be_read(page):
    words = [word for word in text_of(page).split() if word != "|"]  # a table's lines are none
    assert len(words) <= MAX_WORDS


# The index of attacks -------------------------------------------------------------------------

FILES = sorted(path.name for path in (TESTS / "attacks").glob("test_*.py"))


@pytest.mark.parametrize("row", rows(INDEX), ids=lambda row: row.split("|")[1].strip())
def test_a_row_of_the_index_says_who_reached_what_and_names_a_test(row):
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 5
    assert all(cells)
    assert nodes(cells[-1])


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_attacks_is_in_the_index(file):
    assert f"attacks/{file}" in {found for found, _ in nodes(text_of(INDEX))}


@pytest.mark.parametrize("number", sorted({int(file[6:8]) for file in FILES if file[6].isdigit()}))
def test_every_known_attack_has_its_file_and_its_row(number):
    assert [file for file in FILES if file.startswith(f"test_a{number:02}_")]
    [row] = [row for row in rows(INDEX) if row.startswith(f"| A{number} |")]
    assert all(f"attacks/test_a{number:02}_" in f"{file}" for file, _ in nodes(row))


# The threat model -----------------------------------------------------------------------------

AGAINST = re.findall(r"^## (Protected .*)$", text_of(THREATS), re.M)


@pytest.mark.parametrize("heading", AGAINST)
def test_every_protection_is_shown_by_a_test(heading):
    found = rows(THREATS, heading)
    assert found
    for row in found:
        assert nodes(row.strip("|").split("|")[-1]), row


def test_the_threat_model_says_what_is_not_protected():
    assert len(AGAINST) == 4
    assert "\n## Not protected\n" in text_of(THREATS)
