"""site.toml, federation.toml, and the study as every site gets it."""

import dataclasses

import pytest

from fedcsa.errors import DataError, PolicyError, StudyError
from fedcsa.federation.federation_file import FEDERATION_TEMPLATE, Federation
from fedcsa.messages.codec import decode
from fedcsa.messages.policy import Policy
from fedcsa.site.agreed import AgreedStudy
from fedcsa.site.preview import preview
from fedcsa.site.site_file import SITE_TEMPLATE, SiteFile
from fedcsa.site.state import Status


def parse(text, tmp_path):
    return SiteFile.parse(text, folder=tmp_path)


def test_a_site_is_strict_unless_it_says_otherwise(tmp_path):
    site = parse('table = "t.csv"', tmp_path)
    assert site.policy == Policy()
    assert site.state_folder == tmp_path / "state"
    changed = parse('table = "t.csv"\n[policy]\nmin_fold_rows = 5', tmp_path)
    assert (changed.policy.min_fold_rows, changed.policy.significant_digits) == (5, 4)


def test_the_template_is_a_site_file(tmp_path):
    assert parse(SITE_TEMPLATE, tmp_path).policy == Policy()


def test_the_template_names_every_rule_with_its_value(tmp_path):
    told = SITE_TEMPLATE.partition("[policy]")[2].replace("\n# ", "\n")
    kept = [line for line in told.splitlines() if 'models = "never"' not in line]  # once or once
    policy = parse('table = "t.csv"\n[policy]\n' + "\n".join(kept), tmp_path).policy
    examples = {"features": ("age", "sex"), "models": ("ridge",), "show_model": False}
    examples["min_penalty"] = 0.001
    for item in dataclasses.fields(Policy):
        assert f"\n# {item.name} = " in SITE_TEMPLATE
        assert getattr(policy, item.name) == examples.get(item.name, getattr(Policy(), item.name))


def test_every_problem_of_a_site_file_is_told_at_once(tmp_path):
    text = 'tabel = "t.csv"\napprove = "tea"\n[columns]\nage = 1\n[policy]\nmin_fold_rows = "x"'
    with pytest.raises(StudyError, match=r"site\.toml") as caught:
        parse(text, tmp_path)
    told = str(caught.value)
    for part in (
        "Give one of 'table', 'database'",
        "Did you mean 'table'",
        "'approve'",
        "'columns'",
        "min_fold",
    ):
        assert part in told


def test_a_site_has_rows_or_a_table_one_of_the_two(tmp_path):
    assert parse('table1 = "t.csv"', tmp_path).table == ""
    with pytest.raises(StudyError, match="Give one of"):
        parse('table = "t.csv"\ntable1 = "t.csv"', tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('database = "s.duckdb"', "must come together"),
        ('table = "t.csv"\nquery = "FROM t ORDER BY 1"', "must come together"),
        ('database = "s.duckdb"\nquery = "FROM t"', "must have an ORDER BY"),
        ('database = "postgresql://u:p@h/d"\nquery = "FROM t ORDER BY 1"', "hold no password"),
        ('table = "t.csv"\ndatabase = "s.db"\nquery = "FROM t ORDER BY 1"', "Give one of"),
    ],
)
def test_a_slip_in_a_site_s_database_is_named(tmp_path, text, words):
    with pytest.raises(StudyError, match=words):
        parse(text, tmp_path)


@pytest.mark.parametrize("stream", ["", "stream = true\n"])
def test_a_site_s_rows_may_be_a_query(federation, stream):
    duckdb = pytest.importorskip("duckdb")
    folder = federation.folder / "abbey"
    before = federation.site("abbey").read_outcomes(federation.study)
    with duckdb.connect(str(folder / "stays.duckdb")) as connection:
        place = str(folder / "table.csv")
        rows = "SELECT *, row_number() OVER () AS place FROM read_csv(?)"
        connection.execute(f"CREATE TABLE stays AS {rows}", [place])
    query = 'query = "SELECT * FROM stays ORDER BY place"\n'
    (folder / "site.toml").write_text(f'database = "stays.duckdb"\n{query}{stream}')
    site = federation.site("abbey")
    X, y = site.read_outcomes(federation.study)
    assert X.tobytes() == before[0].tobytes()
    assert y.tolist() == before[1].tolist()
    assert site.has_outcomes(federation.study)
    assert sum(len(part) for _, part in site.batches(federation.study)) == len(y)


def test_a_site_with_a_table_one_is_no_source(federation):
    (federation.folder / "abbey" / "site.toml").write_text('table1 = "table1.csv"\n')
    site = federation.site("abbey")
    assert not site.has_outcomes(federation.study)
    with pytest.raises(StudyError, match="must have a table of rows"):
        site.source("abbey", federation.study)
    assert decode(federation.attempt().conclusion).sources["abbey"] == "refused: failed"


def test_a_site_file_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(StudyError, match="does not exist"):
        SiteFile.load(tmp_path / "site.toml")
    (tmp_path / "site.toml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(StudyError, match="UTF-8"):
        SiteFile.load(tmp_path / "site.toml")


def test_a_site_may_call_its_columns_otherwise(federation):
    path = federation.folder / "abbey" / "table.csv"
    plain = federation.site("abbey").read_outcomes(federation.study)
    path.write_text(path.read_text().replace("age,", "AGE,").replace("outcome", "Y"))
    federation.configure("abbey", '[columns]\nage = "AGE"\noutcome = "Y"')
    renamed = federation.site("abbey").read_outcomes(federation.study)
    assert (plain[0] == renamed[0]).all()
    assert (plain[1] == renamed[1]).all()
    federation.configure("abbey")
    with pytest.raises(DataError, match="missing: 'age'"):
        federation.site("abbey").read_outcomes(federation.study)


# The study -----------------------------------------------------------------------------------


def test_what_every_site_gets_holds_no_path_and_no_policy(federation):
    text = federation.agreed.text
    assert "table.csv" not in text
    assert "preset" not in text


def test_the_id_depends_on_what_was_agreed_and_not_on_paths(federation):
    text = federation.study_file.read_text()
    assert AgreedStudy(text.replace("abbey/table", "elsewhere")).id == federation.agreed.id
    assert AgreedStudy(text.replace("seed = 3", "seed = 4")).id != federation.agreed.id
    assert AgreedStudy(federation.agreed.text).id == federation.agreed.id


def test_a_brief_is_as_agreed_or_refused(federation):
    federation.attempt()
    brief = federation.target._brief
    federation.agreed.check(brief)
    text = federation.study_file.read_text()
    for change in (
        ("seed = 3", "seed = 4"),
        ("10.0]", "11.0]"),
        ('"ridge"', '"weighted-least-squares"'),
    ):
        other = text.replace(*change)
        if "weighted" in change[1]:
            other = other.replace("penalty = [0.01, 10.0]\n", "")
        with pytest.raises(PolicyError, match="not as agreed"):
            AgreedStudy(other).check(brief)


# The preview ---------------------------------------------------------------------------------


def test_a_preview_names_every_field_and_nothing_leaves(federation):
    found = preview(federation.study_file.read_text(), federation.site("abbey"))
    messages = ["risk-report", "model-report", "examination-report"]
    assert [m["message"] for m in found["messages"]] == messages
    assert {m["to"] for m in found["messages"]} == {"target"}
    assert found["refusals"] == []
    fields = {item["name"]: item["numbers"] for item in found["messages"][0]["fields"]}
    assert fields["risk"] == fields["variance"] == "2"  # candidates
    assert fields["difference_after"] == "2"
    assert not federation.state("abbey").exists()


def test_a_preview_at_the_target_shows_all_that_it_would_tell(federation):
    found = preview(federation.study_file.read_text(), federation.site("new"))
    messages = ["brief", "model-request", "examination"]
    assert [m["message"] for m in found["messages"]] == messages
    assert [m["exact"] for m in found["messages"]] == [True, False, False]
    assert found["numbers_about_rows"] == 6
    assert not federation.state("new").exists()


def test_a_preview_says_what_the_policy_would_refuse(federation):
    federation.configure("abbey", "[policy]\nmin_fold_rows = 100")
    found = preview(federation.study_file.read_text(), federation.site("abbey"))
    assert (found["messages"], found["refusals"][0].partition(":")[0]) == ([], "min_fold_rows")
    federation.configure("new", "[policy]\nexchanges = []")
    found = preview(federation.study_file.read_text(), federation.site("new"))
    assert found["refusals"][0].startswith("exchanges")


def test_the_preview_counts_as_many_numbers_as_then_leave(federation):
    found = preview(federation.study_file.read_text(), federation.site("abbey"))
    federation.attempt()
    for message, line in zip(found["messages"], federation.log("abbey").sent, strict=True):
        left = {item.name: " × ".join(map(str, item.shape)) or "1" for item in line.entry.fields}
        assert message["message"] == line.entry.message
        shown = {item["name"]: item["numbers"] for item in message["fields"]}
        cells = shown.pop("scores", "")  # how many follows from what the others' models predict
        assert cells.endswith(left.get("scores", "").partition(" × ")[2])
        assert shown == {name: left[name] for name in shown}
        assert all(left[name] in ("0", "1") for name in set(left) - {*shown, "scores"})


# Status --------------------------------------------------------------------------------------


def test_the_person_beside_a_site_reads_what_it_does(federation):
    federation.attempt()
    said = [line["text"] for line in Status(federation.state("abbey")).lines()]
    left = {item.entry.message: item.entry.n_numbers for item in federation.log("abbey").sent}
    assert said == [
        "phase 1 of 3: computing",
        f"sent {left['risk-report']} numbers (risk-report) to new",
        "phase 2 of 3: computing",
        f"sent {left['model-report']} numbers (model-report) to new",
        "phase 3 of 3: computing",
        f"sent {left['examination-report']} numbers (examination-report) to new",
    ]
    steps = [
        line["text"]
        for line in Status(federation.state("new")).lines()
        if line["text"].startswith("phase")
    ]
    assert steps == [
        "phase 1 of 3: announcing", "phase 1 of 3: choosing", "phase 2 of 3: mixing",
        "phase 3 of 3: concluding",
    ]  # fmt: skip


def test_status_lines_come_in_order(tmp_path):
    status = Status(tmp_path)
    status.say("connected")
    status.say("computing", "demo@1")
    assert [(x["study"], x["text"]) for x in status.lines()] == [
        ("", "connected"), ("demo@1", "computing"),
    ]  # fmt: skip
    assert [x["text"] for x in status.lines(1)] == ["computing"]


def test_a_damaged_line_of_the_status_stops_nobody(tmp_path):
    status = Status(tmp_path)
    (tmp_path / "status.jsonl").write_text('{"study": "de')
    status.say("glued to what a crash cut off")
    status.say("computing")
    assert [x["text"] for x in status.lines()] == ["(this line is damaged)", "computing"]


# The federation ------------------------------------------------------------------------------


def test_the_template_is_a_federation():
    federation = Federation.parse(FEDERATION_TEMPLATE.format(name="demo"))
    assert federation.sites == {"new": "target", "abbey": "source", "birch": "source"}
    assert (federation.host, federation.port) == ("localhost", 8002)


def test_every_problem_of_a_federation_is_told_at_once():
    text = """name = "a b"
    [server]
    host = "not a host"
    port = 0
    [sites.target]
    role = "boss"
    [users.someone]
    role = "viewer"
    """
    with pytest.raises(StudyError, match=r"federation\.toml") as caught:
        Federation.parse(text)
    told = str(caught.value)
    for part in (
        "The federation must be named", "host must be named", "between 1 and 65535",
        "'role' must be one of ['source', 'target']", "must not be called 'target'",
        'role = "source"', "an e-mail address", 'role = "lead"',
    ):  # fmt: skip
        assert part in told


def test_a_federation_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StudyError, match="fedcsa federation init"):
        Federation.load(tmp_path / "federation.toml")
