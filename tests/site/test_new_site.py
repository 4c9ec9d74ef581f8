"""A first site file names the site's table, and what a study would miss in it."""

import pytest

from fedcsa.messages.policy import Policy
from fedcsa.site.new_site import draft_site
from fedcsa.site.site_file import SiteFile
from fedcsa.study import Study
from fedcsa.study.new_study import place_in

STUDY = """
name = "stroke"
[outcome]
name = "died"
levels = ["no", "yes"]
[features]
age = "number"
stage = ["I", "II"]
[model]
name = "sklearn.linear_model.LogisticRegression"
[target]
table = "new.csv"
[sources.a]
table = "a.csv"
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data" / "rows.csv"
    path.parent.mkdir()
    path.write_text("Age,stage,died\n61,I,no\n55,II,yes\n", encoding="utf-8")
    return path


def test_without_a_study_the_table_is_entered(tmp_path, table):
    draft = draft_site(place_in(tmp_path, table), tmp_path, None)
    site = SiteFile.parse(draft.text, folder=tmp_path)
    assert (site.table, site.policy, draft.notes, draft.role) == ("data/rows.csv", Policy(), (), "")
    assert SiteFile.parse(draft_site(None, tmp_path, None).text, folder=tmp_path).table


def test_with_a_study_columns_are_entered_and_rules_proposed(tmp_path, table):
    study = Study.parse(STUDY)
    draft = draft_site(place_in(tmp_path, table), tmp_path, study)
    assert (draft.role, draft.notes) == ("source", ())
    assert dict(SiteFile.parse(draft.text, folder=tmp_path).columns) == {"age": "Age"}
    needed = draft.text.replace('# features = ["age", "stage"]', 'features = ["age", "stage"]')
    needed = needed.replace('# models = ["sklearn', 'models = ["sklearn')
    policy = SiteFile.parse(needed, folder=tmp_path).policy
    assert policy.features == ("age", "stage")
    assert policy.models == ("sklearn.linear_model.LogisticRegression",)


def test_unknown_levels_and_missing_columns_are_said(tmp_path, table):
    table.write_text("stage,died\nI,no\nIV,maybe\n,yes\n", encoding="utf-8")
    draft = draft_site(place_in(tmp_path, table), tmp_path, Study.parse(STUDY))
    said = "\n".join(draft.notes)
    assert "Column 'stage' has levels that the study does not know: IV." in said
    assert "Column 'died' has levels that the study does not know: maybe." in said
    assert "missing: 'age'" in said


def test_a_table_without_outcomes_is_a_targets(tmp_path, table):
    table.write_text("age,stage\n61,I\n", encoding="utf-8")
    assert draft_site(place_in(tmp_path, table), tmp_path, Study.parse(STUDY)).role == "target"


@pytest.mark.parametrize("column", ["Died", "tied", "dried"])
def test_the_outcome_is_never_guessed(tmp_path, table, column):
    table.write_text(f"age,stage,{column}\n61,I,no\n", encoding="utf-8")
    draft = draft_site(place_in(tmp_path, table), tmp_path, Study.parse(STUDY))
    assert (draft.role, draft.notes) == ("target", ())
    assert not SiteFile.parse(draft.text, folder=tmp_path).columns
    assert ('# died = "Died"    # is it the same?' in draft.text) is (column == "Died")


def test_near_misses_are_suggested_only(tmp_path, table):
    table.write_text("ages,Stage.,died\n61,I,no\n", encoding="utf-8")
    draft = draft_site(place_in(tmp_path, table), tmp_path, Study.parse(STUDY))
    assert dict(SiteFile.parse(draft.text, folder=tmp_path).columns) == {"stage": "Stage."}
    assert '\n# age = "ages"    # is it the same?\n' in draft.text
    assert "missing: 'age'" in "\n".join(draft.notes)


def test_of_two_columns_that_are_called_alike_none_is_entered(tmp_path, table):
    table.write_text("AGE,Age,stage,died\n61,61,I,no\n", encoding="utf-8")
    draft = draft_site(place_in(tmp_path, table), tmp_path, Study.parse(STUDY))
    assert not SiteFile.parse(draft.text, folder=tmp_path).columns
    assert '# age = "AGE"' in draft.text
