"""``fedcsa followup`` and ``fedcsa update``: lists, tables with ids, history, refusals."""

import csv
import json
import shutil
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from fedcsa import load_result
from fedcsa.answer.store import HISTORY, load_history, load_ledgers
from fedcsa.answer.updated import ShownUpdate
from fedcsa.answer.view import view_of
from fedcsa.findings import CATALOGUE


def strict(text):
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="session")
def with_ids(make_study, invoke, tmp_path_factory):
    """A study whose tables have an id, with its result."""
    folder = tmp_path_factory.mktemp("ids")
    study = make_study(folder, n_target=60)
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace("[features]\n", '[features]\nid = "id"\n'), encoding="utf-8")
    for name in ("a", "b", "c", "new"):
        rows = read(folder / f"{name}.csv")
        write(folder / f"{name}.csv", [{"id": f"{name}-{i:03}"} | r for i, r in enumerate(rows)])
    assert invoke("run", study, "--out", folder / "result").exit_code == 0
    return folder


@pytest.fixture
def folder(with_ids, tmp_path):
    return shutil.copytree(with_ids, tmp_path / "study")


def drawn(folder, invoke, n=20, name="list.csv", *options):
    out = folder / name
    found = invoke(
        "followup", folder / "result", folder / "new.csv", "--n", n, "--out", out, *options
    )
    assert (found.exit_code, found.stderr) == (0, "")
    return out


def filled(path, to, count=None, sign=1.0, seed=0):
    """The list with outcomes in its first rows."""
    rng, rows = np.random.default_rng(seed), read(path)
    for row in rows[: len(rows) if count is None else count]:
        row["outcome"] = sign * (float(row["age"]) + float(row["bmi"])) + rng.normal()
    return write(to, rows)


# A list -------------------------------------------------------------------------------------


def test_a_list_has_ids_an_empty_outcome_and_what_each_row_stands_for(folder, invoke):
    rows = read(drawn(folder, invoke, 18))
    assert list(rows[0]) == ["id", "outcome", "stands for", "age", "bmi"]
    assert len({row["id"] for row in rows}) == 18
    assert {row["outcome"] for row in rows} == {""}
    assert sum(float(row["stands for"]) for row in rows) == pytest.approx(60.0)
    of = {row["id"]: row for row in read(folder / "new.csv")}
    assert all(row["age"] == of[row["id"]]["age"] for row in rows)


def test_a_run_does_not_replace_what_was_followed_up(folder, invoke):
    drawn(folder, invoke)
    before = (folder / "result" / HISTORY).read_bytes()
    refused = invoke("run", folder / "study.toml", "--out", folder / "result")
    assert refused.exit_code == 3
    assert "would be lost" in refused.stderr
    assert (folder / "result" / HISTORY).read_bytes() == before
    assert invoke("run", folder / "study.toml", "--out", folder / "other").exit_code == 0


def test_a_list_says_how_narrow_the_interval_will_be(folder, invoke):
    out = folder / "list.csv"
    arguments = ("followup", folder / "result", folder / "new.csv", "--out", out)
    content = strict(invoke(*arguments, "--json").stdout)
    assert (content["rows"], content["of"], content["file"]) == (30, 60, str(out))
    assert [line["outcomes"] for line in content["expected"]] == [0, 20, 30, 50, 100]
    widths = [line["upper"] - line["lower"] for line in content["expected"]]
    assert widths == sorted(widths, reverse=True)
    promise = load_result(folder / "result").promise
    assert content["expected"][0]["lower"] == pytest.approx(promise.lower**0.5)


def test_a_list_that_is_there_is_never_overwritten(folder, invoke):
    path = drawn(folder, invoke)
    before = path.read_bytes()
    arguments = ("followup", folder / "result", folder / "new.csv", "--out", path)
    again = invoke(*arguments)
    assert again.exit_code == 3
    assert "already exists" in again.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize(("option", "value"), [("--n", 1000), ("--seed", -1)])
def test_a_list_that_cannot_be_drawn_names_the_option(option, value, folder, invoke):
    arguments = ("followup", folder / "result", folder / "new.csv", "-o", folder / "list.csv")
    result = invoke(*arguments, option, value)
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {option} must be a whole number from ")


def test_a_list_whose_design_cannot_be_kept_is_not_written(folder, invoke):
    (folder / "result" / "updates.part").mkdir()
    result = invoke("followup", folder / "result", folder / "new.csv", "-o", folder / "list.csv")
    assert result.exit_code == 3
    assert not (folder / "list.csv").exists()


def test_a_second_list_draws_others_and_quiet_says_where_it_is(folder, invoke):
    first = read(drawn(folder, invoke))
    out = folder / "second.csv"
    arguments = ("followup", folder / "result", folder / "new.csv", "--n", 10, "-o", out, "-q")
    assert invoke(*arguments).stdout == f"{out}\n"
    second = read(out)
    assert len(second) == 10
    assert not {row["id"] for row in first} & {row["id"] for row in second}


def test_without_an_id_rows_are_numbered(study_folder, invoke):
    rows = read(drawn(study_folder, invoke, 6))
    assert next(iter(rows[0])) == "row number"
    table = read(study_folder / "new.csv")
    assert all(table[int(row["row number"]) - 1]["age"] == row["age"] for row in rows)
    done = filled(study_folder / "list.csv", study_folder / "done.csv")
    assert invoke("update", study_folder / "result", done, "-q").exit_code == 0
    assert (
        len(load_history(study_folder / "result", load_result(study_folder / "result")).seen) == 6
    )


def test_a_group_stands_on_the_list_and_row_numbers_say_how_they_count(study_folder, invoke):
    path = study_folder / "result" / "adaptation.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["columns"]["features"]["person"] = "group"
    path.write_text(json.dumps(content), encoding="utf-8")
    rows = [{"person": f"p{i // 2}"} | row for i, row in enumerate(read(study_folder / "new.csv"))]
    write(study_folder / "new.csv", rows)
    out = study_folder / "list.csv"
    arguments = ("followup", study_folder / "result", study_folder / "new.csv", "--n", 6)
    told = invoke(*arguments, "--out", out)
    assert told.exit_code == 0, told.stderr
    assert "Row number 1 is the first row below the header." in told.stdout
    listed = read(out)
    assert list(listed[0])[:3] == ["row number", "person", "outcome"]
    assert all(rows[int(row["row number"]) - 1]["person"] == row["person"] for row in listed)
    done = filled(out, study_folder / "done.csv")
    assert invoke("update", study_folder / "result", done, "-q").exit_code == 0


# Outcomes come back -------------------------------------------------------------------------


def test_an_update_says_before_and_after_and_nothing_more_leaves(folder, invoke):
    before = load_result(folder / "result")
    ledgers = load_ledgers(folder / "result")
    done = filled(drawn(folder, invoke), folder / "done.csv", 15)
    result = invoke("update", folder / "result", done)
    assert (result.exit_code, result.stderr) == (0, "")
    found = load_history(folder / "result", before).last
    assert found.n_rows == 15
    assert ShownUpdate(found, before.plan).sentence in result.stdout
    for text in (
        "promised",
        "outcomes alone",
        "now, with both",
        found.changed,
        "(answers-missing)",
    ):
        assert text in result.stdout
    assert load_ledgers(folder / "result") == ledgers  # everything stays at the target
    html = unescape((folder / "result" / "report.html").read_text(encoding="utf-8"))
    assert ShownUpdate(found, before.plan).sentence in html
    assert "With outcomes from here" in html
    after = load_result(folder / "result")
    assert after.correction == found.correction is not None


def test_json_holds_the_update_and_what_is_still_to_come(folder, invoke):
    done = filled(drawn(folder, invoke), folder / "done.csv", 15)
    content = strict(invoke("update", folder / "result", done, "--json").stdout)
    assert (content["n_rows"], content["still_to_come"]) == (15, 5)
    assert (content["conclusion"], content["kept"]) == ("as promised", True)
    told = strict((folder / "result" / HISTORY).read_text(encoding="utf-8"))
    assert told["update"]["measures"] == content["measures"]


def test_ids_and_outcomes_alone_are_joined_with_the_rows(folder, invoke):
    done = filled(drawn(folder, invoke), folder / "done.csv")
    beside = invoke("update", folder / "result", done, "--json")
    rows = [{"outcome": row["outcome"], "id": row["id"]} for row in read(done)]
    alone = write(folder / "alone.csv", rows)
    refused = invoke("update", folder / "result", alone)
    assert (refused.exit_code, "--rows ROWS" in refused.stderr) == (3, True)
    joined = invoke("update", folder / "result", alone, "--rows", folder / "new.csv", "--json")
    assert strict(joined.stdout) == strict(beside.stdout)


def test_two_tables_and_the_chart_over_time(folder, invoke):
    one = filled(drawn(folder, invoke), folder / "one.csv")
    assert invoke("update", folder / "result", one, "-q").exit_code == 0
    [first] = load_history(folder / "result", load_result(folder / "result")).last.path
    more = ("followup", folder / "result", folder / "new.csv", "--n", 10)
    told = invoke(*more, "--out", folder / "more.csv").stdout
    assert f"list.csv {folder / 'more.csv'}" in told
    lines = [line.split()[0] for line in told.splitlines() if " to " in line]
    assert lines == ["none,", "20,", "30", "50", "100"]  # promised, now, and to come
    two = filled(folder / "more.csv", folder / "two.csv", seed=1)
    missing = invoke("update", folder / "result", two)
    assert missing.exit_code == 3
    assert "20 outcome(s) of an earlier update are missing" in missing.stderr
    result = invoke("update", folder / "result", one, two)
    assert result.exit_code == 0
    assert "RMSE as outcomes came in" in result.stdout
    drawn_lines = [line for line in result.stdout.splitlines() if "●" in line]
    assert [line.split()[0] for line in drawn_lines] == ["promised", "20", "30"]
    path = load_history(folder / "result", load_result(folder / "result")).last.path
    assert path[0] == first
    doubled = invoke("update", folder / "result", one, one)
    assert doubled.exit_code == 3
    assert "Two tables name one row" in doubled.stderr


def test_another_rule_breaks_the_promise(study_folder, invoke):
    result = invoke("update", study_folder / "result", study_folder / "other.csv")
    assert result.exit_code == 6
    assert "worse than promised" in result.stdout


def test_what_must_not_be_used_is_recommended_nowhere(study_folder, invoke):
    screen = invoke("update", study_folder / "result", study_folder / "other.csv").stdout
    page = unescape((study_folder / "result" / "report.html").read_text(encoding="utf-8"))
    card = (study_folder / "result" / "model-card.md").read_text(encoding="utf-8")
    assert "Do not use it" in screen
    assert "Do not use it</h2>" in page
    for text in (screen, page, card):
        assert "use the corrected model" not in text.lower()
        assert "Predictions use it from now on" not in text
    for text in (screen, page):
        assert "so the verdict holds for it too" in text


def test_no_finding_recommends_a_model_that_a_verdict_may_forbid():
    assert not [code for code, (*_, advice) in CATALOGUE.items() if "corrected model" in advice]


@pytest.fixture
def noisy(folder, invoke):
    """A result whose target's outcomes vary far more than those of the sources."""
    rng, rows = np.random.default_rng(0), read(drawn(folder, invoke, 30))
    for row in rows:
        row["outcome"] = float(row["age"]) + float(row["bmi"]) + 6.0 * rng.normal()
    write(folder / "noisy.csv", rows)
    return folder


def test_intervals_that_outcomes_contradict_are_told_wherever_they_are_used(noisy, invoke):
    result, new = noisy / "result", noisy / "new.csv"
    before = invoke("predict", result, new, "--interval", "0.9")
    assert before.stderr == ""
    told = invoke("update", result, noisy / "noisy.csv", "--json")
    content = strict(told.stdout)
    (check,) = content["intervals"]
    assert (check["n_rows"], check["contradicted"]) == (30, True)
    (found,) = (item for item in content["findings"] if item["code"] == "intervals-narrow")
    facts = f"inside {check['inside']}, of 30, promised 0.9, times as wide"
    assert found["evidence"]["times as wide"] == pytest.approx(np.exp(check["wider"]))
    shown = " ".join(invoke("update", result, noisy / "noisy.csv").stdout.split())
    html = " ".join(unescape((result / "report.html").read_text(encoding="utf-8")).split())
    for text in (shown, html):
        assert "intervals-narrow" in text
        assert facts in text
        for said in CATALOGUE["intervals-narrow"][1:]:
            assert said[1:] in text  # its first letter may be a capital one
    for options in ((), ("--json",)):
        after = invoke("predict", result, new, "--interval", "0.9", *options)
        warned = " ".join(after.stderr.split())
        assert "warning: intervals-narrow" in warned
        assert facts in warned
        assert warned.count("warning:") == 1  # of the update's other warnings, none
    assert {"warning", "danger"} & {
        CATALOGUE[item["code"]][0] for item in content["findings"] if item is not found
    }
    assert "intervals-narrow" not in invoke("predict", result, new).stderr
    width = [
        np.mean([float(row["upper"]) - float(row["lower"]) for row in csv.DictReader(lines)])
        for lines in (
            before.stdout.splitlines(),
            invoke("predict", result, new, "--interval", "0.9").stdout.splitlines(),
        )
    ]
    assert width[1] / width[0] == pytest.approx(found["evidence"]["times as wide"])
    after = load_result(result)
    sources = replace(after, intervals=()).half_widths
    np.testing.assert_allclose(after.half_widths, np.exp(check["wider"]) * np.array(sources))
    last = load_history(result, after).last
    shown = (result, None), (after, None), (after, last), (replace(after, intervals=()), last)
    for each in shown:
        assert view_of(*each).half_widths == after.half_widths


#: None for a check that stands there twice.
DAMAGED_CHECKS = (
    {"inside": 31}, {"wider": -1.0}, {"wider": 1e9}, {"wider": None}, {"of_class": "ill"},
    {"contradicted": False}, {"contradicted": 1}, {"n_rows": 30.5}, {"inside": "many"}, None,
    {"inside": 30}, {"n_rows": 31}, {"contradicted": False, "wider": 0.0},
)  # fmt: skip


def test_damaged_checks_of_intervals_are_named(noisy, invoke):
    invoke("update", noisy / "result", noisy / "noisy.csv", "-q")
    path = noisy / "result" / HISTORY
    whole = path.read_text(encoding="utf-8")
    for damage in DAMAGED_CHECKS:
        told = json.loads(whole)
        checks = told["update"]["intervals"]
        checks[:] = [checks[0], checks[0]] if damage is None else [checks[0] | damage]
        path.write_text(json.dumps(told), encoding="utf-8")
        result = invoke("predict", noisy / "result", noisy / "new.csv", "--interval", "0.9")
        assert result.exit_code == 3, damage
        assert "damaged: updates.json was changed" in result.stderr, damage


def test_an_update_from_before_intervals_were_checked_is_read(noisy, invoke):
    result, new = noisy / "result", noisy / "new.csv"
    before = invoke("predict", result, new, "--interval", "0.9")
    invoke("update", result, noisy / "noisy.csv", "-q")
    path = result / HISTORY
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["format"] == 2
    last = load_history(result, load_result(result)).last
    del told["update"]["intervals"]
    kept = [item for item in told["update"]["findings"] if item["code"] != "intervals-narrow"]
    told["update"]["findings"] = kept
    for number, code in ((2, 3), (1, 0)):
        path.write_text(json.dumps({**told, "format": number}), encoding="utf-8")
        after = invoke("predict", result, new, "--interval", "0.9")
        assert after.exit_code == code
        assert ("damaged: updates.json was changed" in after.stderr) == (code == 3)
    assert "intervals-narrow" not in after.stderr
    assert after.stdout != before.stdout  # it is corrected
    old = load_result(result)
    assert (old.correction, old.intervals) == (last.correction, ())
    # The next update brings the check, and the format of today.
    assert invoke("update", result, noisy / "noisy.csv", "-q").exit_code in (0, 6, 7)
    assert load_history(result, old).last.intervals == last.intervals
    assert json.loads(path.read_text(encoding="utf-8"))["format"] == 2


def test_a_list_from_before_intervals_were_checked_is_read(noisy):
    result, path = noisy / "result", noisy / "result" / HISTORY
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["update"] is None
    design = load_history(result, load_result(result)).design
    path.write_text(json.dumps({**told, "format": 1}), encoding="utf-8")
    assert load_history(result, load_result(result)).design == design


def test_a_method_of_the_paper_has_no_promise_to_keep(finished, tmp_path, invoke):
    folder = shutil.copytree(finished("paper"), tmp_path / "s")
    result = invoke("update", folder / "result", folder / "other.csv", "--json")
    content = strict(result.stdout)
    assert (content["conclusion"], content["kept"]) == ("not judged", None)
    one = write(folder / "one.csv", read(folder / "other.csv")[:1])
    assert invoke("update", folder / "result", one, "--anew").exit_code == 0
    assert invoke("report", folder / "result").exit_code == 0  # an end that nobody knows is no end
    listed = invoke("followup", folder / "result", folder / "new.csv", "-o", tmp_path / "l.csv")
    assert listed.exit_code == 0
    assert "how narrow" not in listed.stdout.lower()


# What is wrong ------------------------------------------------------------------------------


def edited(folder, invoke, change):
    rows = read(filled(drawn(folder, invoke), folder / "done.csv"))
    change(rows)
    return write(folder / "edited.csv", rows)


def double(rows):
    rows[3]["id"] = rows[1]["id"]


def lose(rows):
    rows[3]["id"] = ""


def empty(rows):
    for row in rows:
        row["outcome"] = ""


def text(rows):
    rows[2]["outcome"] = "secret"


def strange(rows):
    rows[5]["id"] = "secret"


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (double, (), "1 id(s) come twice or more. See row 4 below the header."),
        (lose, (), "must name every row; 1 of its 20 cells is missing. See row 4 below"),
        (empty, (), "must hold at least one outcome; column 'outcome' is empty"),
        (text, (), "must hold numbers; 1 of its 20 cells is text. See row 3 below the header."),
        (strange, ("--rows", "new.csv"), "are not among its rows. See row 6 below the header."),
    ],
)
def test_what_is_wrong_is_named_and_no_value_is_shown(folder, invoke, change, options, says):
    table = edited(folder, invoke, change)
    options = [folder / option if option.endswith(".csv") else option for option in options]
    result = invoke("update", folder / "result", table, *options)
    assert result.exit_code == 3
    assert says in result.stderr
    assert "secret" not in result.stderr
    assert load_history(folder / "result", load_result(folder / "result")).last is None


def test_an_outcome_that_contradicts_an_earlier_one_is_refused_until_anew(folder, invoke):
    done = filled(drawn(folder, invoke), folder / "done.csv")
    invoke("update", folder / "result", done, "-q")
    rows = read(done)
    rows[4]["outcome"] = 424242.125
    other = write(folder / "other-outcomes.csv", rows)
    kept = (folder / "result" / HISTORY).read_bytes()
    result = invoke("update", folder / "result", other)
    assert result.exit_code == 3
    assert "1 outcome(s) contradict those of an earlier update. See row 5" in result.stderr
    assert "424242" not in result.stderr
    assert (folder / "result" / HISTORY).read_bytes() == kept
    rows[4]["outcome"] = 1.0
    again = write(folder / "again.csv", rows)
    assert invoke("update", folder / "result", again, "--anew", "-q").exit_code == 0


def test_a_history_of_another_result_is_refused(folder, invoke):
    drawn(folder, invoke)
    path = folder / "result" / HISTORY
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(told | {"result": "0" * 64}), encoding="utf-8")
    done = filled(folder / "list.csv", folder / "done.csv")
    result = invoke("update", folder / "result", done)
    assert result.exit_code == 3
    assert "belongs to another result" in result.stderr


def test_a_correction_of_other_features_is_named(folder, invoke):
    done = filled(drawn(folder, invoke), folder / "done.csv")
    invoke("update", folder / "result", done, "-q")
    path = folder / "result" / HISTORY
    told = json.loads(path.read_text(encoding="utf-8"))
    told["update"]["correction"]["coefficients"].append(1.0)
    path.write_text(json.dumps(told), encoding="utf-8")
    result = invoke("report", folder / "result")
    assert result.exit_code == 3
    assert "damaged" in result.stderr


@pytest.mark.parametrize("damage", [{"format": 9}, {"seen": None}, {"design": {"seed": 0}}])
def test_a_damaged_history_is_named(folder, invoke, damage):
    drawn(folder, invoke)
    path = folder / "result" / HISTORY
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(told | damage), encoding="utf-8")
    result = invoke("report", folder / "result")
    assert result.exit_code == 3
    assert "damaged" in result.stderr


def test_a_back_test_keeps_outcomes_and_makes_none(folder, invoke):
    invoke("backtest", folder / "study.toml", "--result", folder / "result", "-q")
    assert not (folder / "result" / HISTORY).exists()
    done = filled(drawn(folder, invoke), folder / "done.csv")
    invoke("update", folder / "result", done, "-q")
    before = (folder / "result" / HISTORY).read_bytes()
    invoke("backtest", folder / "study.toml", "--result", folder / "result", "-q")
    assert (folder / "result" / HISTORY).read_bytes() == before
