"""A data dictionary becomes a study, or an error that names its line."""

import pytest

from fedcsa.errors import StudyError
from fedcsa.study import Study
from fedcsa.study.data_dictionary import HEADINGS, draft_from_dictionary, read_dictionary

GOOD = """\
name,kind,levels,other,since,at,missing,fill,sd,unit,description
age,number,,,,,indicator,60,12,years,at admission
smoker,flag,,,,,,,,,
stage,levels,I|II|III,yes,,,,,,,"one of three, or another"
seen,date,,,2020-01-01,,,,,,
born,date,,,,2024-06-30,,,,,
row,id,,,,,,,,,

patient,group,,,,,,,,,
died,outcome,no|yes,,,,,,,,
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "columns.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_heading_is_understood(written):
    columns = read_dictionary(written(GOOD))
    by_name = {feature.name: feature for feature in columns.features}
    assert [*by_name] == ["age", "smoker", "stage", "seen", "born", "row", "patient"]
    age = by_name["age"]
    assert (age.missing, age.fill, age.sd, age.unit) == ("indicator", 60.0, 12.0, "years")
    assert (by_name["stage"].levels, by_name["stage"].other) == (("I", "II", "III"), True)
    assert (by_name["seen"].since, by_name["born"].at) == ("2020-01-01", "2024-06-30")
    assert (columns.id, columns.group) == ("row", "patient")
    assert (columns.outcome.name, columns.outcome.levels) == ("died", ("no", "yes"))
    assert GOOD.splitlines()[0].split(",") == list(HEADINGS)


@pytest.mark.parametrize("sign", [";", "\t"])
def test_other_separators_are_read(written, sign):
    text = f"name{sign}kind\nage{sign}number\ny{sign}outcome\n"
    assert read_dictionary(written(text)).columns == ("age",)


def test_the_study_of_a_dictionary_can_be_planned(written, tmp_path):
    text = draft_from_dictionary(written(GOOD), ["leeds", "turin"], "new").to_toml()
    assert "distinct text" not in text
    assert text.count("as in the dictionary") == 2  # levels and group
    assert "fedcsa study submit study.toml" in text
    assert "fedcsa check" not in text
    study = Study.parse(text, folder=tmp_path)
    assert study.coding == read_dictionary(written(GOOD))
    assert [*study.sources] == ["leeds", "turin"]
    assert study.plan().classes == ("no", "yes")


def test_the_outcome_can_be_named(written):
    text = "name,kind,levels\nage,number,\ndied,flag,no|yes\n"
    assert read_dictionary(written(text), "died").outcome.levels == ("no", "yes")
    with pytest.raises(StudyError, match="Unknown column 'dead'"):
        read_dictionary(written(text), "dead")
    with pytest.raises(StudyError, match="One line must have the kind 'outcome'; 0 have"):
        read_dictionary(written("name,kind\nage,number\n"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("age,numbr,,,", "line 2: Unknown kind 'numbr'. Did you mean 'number'?"),
        (",number,,,", "line 2: The 'name' parameter must be a text that is not empty"),
        ("age,number,a|b,,", "line 2: The 'levels' parameter must be left out unless"),
        ("age,levels,a,,", "line 2: The 'levels' parameter must be two or more"),
        ("age,levels,a|a,,", "line 2: The 'levels' parameter must be distinct"),
        ("age,number,,twelve,", "line 2: The 'sd' of a line must be a number"),
        ("age,number,,-1,", "line 2: The 'sd' parameter must be a positive number"),
        ("age,flag,,,kg", "line 2: The 'unit' parameter must be left out unless"),
        ("age,date,,,", "line 2: "),
        ("age,number,,,,,", "line 2: It has more cells than headings"),
        ("age,outcome,a,,", "line 2: The 'levels' parameter must be two or more"),
        ('age,"number', "line [23]: "),
    ],
)
def test_a_wrong_line_is_named(written, line, said):
    with pytest.raises(StudyError, match=f"columns.csv, {said}"):
        read_dictionary(written(f"name,kind,levels,sd,unit\n{line}\ny,outcome,,,\n"))


@pytest.mark.parametrize(
    ("heading", "said"),
    [
        ("name,knd", "Unknown heading 'knd'. Did you mean 'kind'?"),
        ("kind,levels", "It must have the heading 'name'"),
        ("name,kind,kind", "A heading appears twice"),
        ("", "It must have the heading 'name'"),
    ],
)
def test_a_wrong_heading_is_named(written, heading, said):
    with pytest.raises(StudyError) as caught:
        read_dictionary(written(f"{heading}\nage,number\n"))
    assert f"columns.csv, line 1: {said}" in str(caught.value)


def test_all_wrong_lines_are_named_at_once(written):
    with pytest.raises(StudyError) as caught:
        read_dictionary(written("name,kind\nage,numbr\nb,falg\ny,outcome\n"))
    assert [line[:19] for line in str(caught.value).splitlines()] == [
        "columns.csv, line 2", "columns.csv, line 3",
    ]  # fmt: skip


def test_a_dictionary_needs_sources_and_a_readable_file(written, tmp_path):
    with pytest.raises(StudyError, match="Name the sites with outcomes"):
        draft_from_dictionary(written(GOOD), [], "new")
    with pytest.raises(StudyError, match="does not exist"):
        read_dictionary(tmp_path / "none.csv")
    with pytest.raises(StudyError, match="is not a CSV file"):
        read_dictionary(written("name\0kind\n"))
