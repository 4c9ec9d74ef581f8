"""The study of membership runs, and its page can be written from what it finds."""

import csv

from privacy import aimed_tables, membership, write_membership


def test_the_study_of_membership_writes_its_table_and_its_page(tmp_path):
    membership.main(["--quick", "--workers", "1", "--out", str(tmp_path)])
    with (tmp_path / "membership.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["recipe"] for line in lines] == ["least squares", "logistic"]
    for line in lines:
        assert 0.5 < float(line["found"]) < 0.65
        assert float(line["leaves"]) in (0.0, 0.5, 1.0)
    names = "recipe,rows,features,found,lira,worst_case"
    (tmp_path / "membership_sacro.csv").write_text(f"{names}\nlogistic,100,5,0.57,0.56,0.6\n")
    page = tmp_path / "page.md"
    blocks = "".join(f"<!-- begin:{b} --><!-- end:{b} -->\n" for b in write_membership.BLOCKS)
    page.write_text(blocks)
    write_membership.main(["--results", str(tmp_path), "--page", str(page)])
    assert "least squares | 5" in page.read_text()


def test_the_study_of_aimed_tables_writes_its_table(tmp_path):
    aimed_tables.main(["--quick", "--workers", "1", "--out", str(tmp_path)])
    with (tmp_path / "aimed_tables.csv").open() as file:
        [line] = csv.DictReader(file)
    assert float(line["answered"]) > 0.9
    assert 0.0 < float(line["leverage"]) <= 0.5
    assert 0.2 < float(line["from_all"]) < 1.5  # twenty sources know it roughly
