"""What a target tells of a cohort: when it may tell a new table, and how it counts."""

import dataclasses
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcsa.core.table import Table1
from fedcsa.errors import PolicyError
from fedcsa.messages.policy import utc_now
from fedcsa.site.account import cohort_accounts
from fedcsa.site.log import SiteLog
from fedcsa.site.preview import preview
from fedcsa.site.told import Cohort, n_changed, row_hashes

OTHER_COLUMNS = ('bmi = "number"\n', "")
OTHER_UNITS = ('bmi = "number"', "bmi = { sd = 2.0 }")


class Hospital:
    """A target with a table that changes, and studies that differ."""

    def __init__(self, federation):
        self.federation = federation
        self.agreed_text = federation.study_file.read_text(encoding="utf-8")
        self.path = federation.folder / "new" / "table.csv"
        self.header, *self.rows = self.path.read_text(encoding="utf-8").splitlines()
        self.clock = utc_now

    def write(self, rows):
        self.path.write_text("\n".join([self.header, *rows, ""]), encoding="utf-8")

    def study(self, name, *changes):
        text = self.agreed_text.replace('"small"', f'"{name}"')
        for old, new in changes:
            text = text.replace(old, new)
        self.federation.study_file.write_text(text, encoding="utf-8")
        return self.federation.agreed

    def tell(self, name, *changes):
        """The table that a study is told, and what else the desk says of it."""
        agreed = self.study(name, *changes)
        desk = self.federation.target_desk(agreed)
        desk._log._clock = self.clock
        desk.announce()
        return desk._brief.table

    def refused(self, name, *changes):
        with pytest.raises(PolicyError) as caught:
            self.tell(name, *changes)
        shown = preview(self.study(name, *changes).text, self.federation.site("new"))
        assert [text.partition(":")[0] for text in shown["refusals"]] == [caught.value.rule]
        return caught.value.rule

    def accounts(self, days=90):
        found = cohort_accounts(self.federation.log("new"), days)
        return [tuple(account.values()) for account in found]


@pytest.fixture
def hospital(federation):
    return Hospital(federation)


def row(k):
    return f"{k / 7},{k / 11}"


@pytest.mark.parametrize(("more", "new"), [(0, False), (1, False), (19, False), (20, True)])
def test_a_new_table_is_told_after_twenty_rows_have_come(hospital, more, new):
    first = hospital.tell("one")
    hospital.write([*hospital.rows, *map(row, range(more))])
    second = hospital.tell("two")
    assert (second != first) == new
    assert hospital.accounts() == [("all rows", 2, 1 + new, 6 * (1 + new))]


@pytest.mark.parametrize(("share", "new"), [(0.1, True), (0.31, False)])
def test_in_a_large_cohort_a_tenth_of_the_rows_must_have_changed(hospital, share, new):
    """Of 130 rows, 30 are less than 0.31 of them."""
    hospital.federation.configure("new", f"[policy]\nmin_changed_share = {share}")
    first = hospital.tell("one")
    hospital.write([*hospital.rows, *map(row, range(30))])
    assert (hospital.tell("two") != first) == new


def test_rows_that_come_in_small_numbers_count_from_the_table_that_was_told(hospital):
    """Not from the last study: else a table that is asked for often would never be renewed."""
    first, rows = hospital.tell("one"), [*hospital.rows]
    told = []
    for k in range(3):
        rows += map(row, range(9 * k, 9 * k + 9))
        hospital.write(rows)
        told.append(hospital.tell(f"later {k}"))
    assert [table == first for table in told] == [True, True, False]


def test_a_table_that_goes_back_says_what_it_said_then(hospital):
    first = hospital.tell("one")
    hospital.write([*hospital.rows, *map(row, range(40))])
    second = hospital.tell("two")
    hospital.write([*hospital.rows, row(50)])
    assert hospital.tell("three") == first
    hospital.write([*hospital.rows, *map(row, range(41))])
    assert hospital.tell("four") == second
    assert hospital.accounts() == [("all rows", 4, 2, 12)]


def test_the_order_of_rows_is_no_change(hospital):
    first = hospital.tell("one")
    hospital.write(hospital.rows[::-1])
    assert hospital.tell("two") == first
    assert hospital.accounts() == [("all rows", 2, 1, 6)]


@pytest.mark.parametrize("change", [OTHER_COLUMNS, OTHER_UNITS])
def test_other_columns_are_told_of_the_same_rows_and_refused_of_nearly_the_same(hospital, change):
    hospital.tell("one")
    told = hospital.tell("two", change)
    assert hospital.accounts()[0][2] == 2
    hospital.write([*hospital.rows, row(1)])
    assert hospital.tell("three", change) == told
    third = ('age = "number"\n', "")
    assert hospital.refused("four", third) == "cohort_changed"
    hospital.write(hospital.rows)
    hospital.tell("four", third)


def test_a_column_that_is_gone_makes_rows_incomparable(hospital):
    """Of another cohort it is another table."""
    hospital.tell("one")
    hospital.header = "age,weight"
    hospital.write(hospital.rows)
    assert hospital.refused("two", OTHER_COLUMNS) == "cohort_changed"
    hospital.federation.configure("new", 'cohort = "another"')
    hospital.tell("two", OTHER_COLUMNS)
    assert [account[0] for account in hospital.accounts()] == ["all rows", "another"]


def test_a_cohort_has_three_different_tables_in_a_period(hospital):
    one, two, three = (f"{k}.0" for k in (1, 2, 3))
    units = [('bmi = "number"', f"bmi = {{ sd = {sd} }}") for sd in (one, two, three)]
    for k, change in enumerate(units):
        hospital.tell(f"study {k}", change)
    assert hospital.refused("more") == "max_tables"
    for k, change in enumerate(units):  # what was told may be told again
        hospital.tell(f"again {k}", change)
    assert hospital.accounts() == [("all rows", 6, 3, 18)]
    hospital.clock = lambda: utc_now() + timedelta(days=89)
    with pytest.raises(PolicyError):
        hospital.tell("later")
    hospital.clock = lambda: utc_now() + timedelta(days=91)
    hospital.tell("later")


def test_a_cohort_is_counted_for_itself(hospital):
    for k in range(3):
        hospital.tell(f"study {k}", ('bmi = "number"', f"bmi = {{ sd = {k + 1}.0 }}"))
    assert hospital.refused("more") == "max_tables"
    hospital.federation.configure("new", 'cohort = "2025"')
    hospital.write([row(k) for k in range(100)])
    hospital.tell("more")
    assert [account[:3] for account in hospital.accounts()] == [("all rows", 3, 3), ("2025", 1, 1)]


def test_two_studies_at_the_same_time_cannot_tell_two_tables_of_nearly_the_same_rows(hospital):
    """The second has looked before the first wrote its line."""
    first = hospital.federation.target_desk(hospital.study("one"))
    assert first._brief
    hospital.write([*hospital.rows, row(1)])
    second = hospital.federation.target_desk(hospital.study("two"))
    assert second._brief.mean.tolist() != first._brief.mean.tolist()
    first.announce()
    with pytest.raises(PolicyError, match="Another study told a table meanwhile") as caught:
        second.announce()
    assert caught.value.rule == "cohort_changed"


def test_two_studies_at_the_same_time_may_tell_the_same_table(hospital):
    """And it counts once."""
    first = hospital.federation.target_desk(hospital.study("one"))
    assert first._brief
    second = hospital.federation.target_desk(hospital.study("two"))
    assert second._brief.table == first._brief.table
    first.announce()
    second.announce()
    assert hospital.accounts() == [("all rows", 2, 1, 6)]


def test_the_state_holds_hashes_with_a_salt_and_no_cell(hospital):
    hospital.tell("one")
    folder = hospital.federation.state("new")
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    rows = hospital.federation.site("new").read_target(hospital.federation.study)
    assert not any(cell.tobytes() in kept for cell in rows.ravel())
    assert not any(text.encode() in kept for line in hospital.rows for text in line.split(","))
    log = SiteLog(folder)
    salt = log.payload(log.find("salted")["salt"])
    line = log.find("announced", study="one")
    assert log.payload(line["rows"]) == row_hashes(rows, salt).tobytes()
    assert len(salt) == 32


def test_every_site_has_a_salt_of_its_own(federation_in, tmp_path):
    salts = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        hospital = Hospital(federation_in(tmp_path / name))
        hospital.tell("study")
        log = hospital.federation.log("new")
        salts.add(log.payload(log.find("salted")["salt"]))
    assert len(salts) == 2


def test_a_preview_writes_no_salt(hospital):
    preview(hospital.study("one").text, hospital.federation.site("new"))
    assert not (hospital.federation.state("new") / "log.jsonl").exists()


def test_a_typed_table_is_counted_and_never_frozen(hospital):
    """It was published; there are no rows to compare."""
    table = hospital.tell("one")
    site = dataclasses.replace(hospital.federation.site("new"), table="", table1="t.csv")
    cohort = Cohort.__new__(Cohort)
    cohort._site, cohort._log = site, hospital.federation.log("new")
    cohort._agreed, cohort.rows = hospital.study("two"), table
    assert isinstance(cohort.rows, Table1)
    assert (cohort.earlier, len(cohort.hashes)) == (("", None), 0)


@given(then=st.lists(st.integers(0, 5), max_size=30), now=st.lists(st.integers(0, 5), max_size=30))
def test_rows_that_differ_are_counted_as_by_hand(then, now):
    left = [*then]
    came = [x for x in now if not (x in left and (left.remove(x) or True))]
    expected = max(len(came), len(left))
    assert n_changed(np.array(then, np.uint64), np.array(now, np.uint64)) == expected
