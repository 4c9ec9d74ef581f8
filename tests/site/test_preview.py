"""A preview: the very numbers that would leave, and every rule that would refuse."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from fedcsa.answer.store import load_result
from fedcsa.cli.app import app
from fedcsa.data.table1 import write_table1
from fedcsa.errors import LedgerError, TableError
from fedcsa.messages.codec import decode
from fedcsa.site.log import LOG
from fedcsa.site.preview import EVERY_SOURCE, preview


def look(federation, name="abbey"):
    return preview(federation.study_file.read_text(), federation.site(name))


def rules(found):
    return [text.partition(":")[0] for text in found["refusals"]]


def approve(federation):
    federation.log("abbey").decide("small", "approved")


def left(federation, name="abbey"):
    """Hash of every message that left a site, refusals aside."""
    entries = [item.entry for item in federation.log(name).sent if item.kind == "sent"]
    return [entry.sha256 for entry in entries if entry.message != "refusal"]


@pytest.mark.parametrize("stream", ["", "stream = true\n"])
def test_what_a_steward_approves_is_to_the_bit_what_then_leaves(federation, stream):
    federation.configure("abbey", f"{stream}approve = true")
    assert not any(message["exact"] for message in look(federation)["messages"])
    federation.attempt(min_sources=3)  # the brief has come, and waits
    risk, model, examination = look(federation)["messages"]
    assert (risk["exact"], model["exact"], examination["exact"]) == (True, False, False)
    assert left(federation) == []
    approve(federation)
    federation.attempt(min_sources=3)
    assert left(federation)[0] == risk["sha256"]
    found = look(federation)
    assert (rules(found), [m["exact"] for m in found["messages"]]) == ([], [True, True, True])
    assert left(federation) == [message["sha256"] for message in found["messages"]]


@pytest.mark.parametrize("known", [1, 2, 3])
def test_a_preview_is_exact_as_far_as_questions_have_come(federation, known):
    """The site stops answering, as if it had been switched off; what came is in its journal."""
    phases = ("risk", "model", "examine")
    federation.absent = {(phase, "abbey") for phase in phases[known:]}
    federation.attempt(min_sources=3 if known > 1 else 2)
    assert [m["exact"] for m in look(federation)["messages"]] == [k < known for k in range(3)]


def test_a_site_that_sends_no_model_previews_the_rest(federation):
    federation.configure("abbey", '[policy]\nmodels = "never"')
    found = look(federation)
    assert [m["message"] for m in found["messages"]] == ["risk-report", "examination-report"]
    assert rules(found) == ["models"]


def test_the_mark_of_a_model_that_may_not_be_shown_is_part_of_a_preview(federation):
    federation.configure("abbey", "[policy]\nshow_model = false")
    model = look(federation)["messages"][1]
    assert {item["name"]: item["value"] for item in model["fields"]}["show"] is False


@pytest.mark.parametrize("kind", ["pipeline", "trees"])
def test_a_study_of_any_kind_previews_its_examination(make_federation, kind):
    found = look(make_federation(kind))
    assert [m["message"] for m in found["messages"]] == [
        "risk-report", "model-report", "examination-report",
    ]  # fmt: skip
    assert found["refusals"] == []


def test_a_method_of_the_paper_examines_nothing(federation):
    text = federation.study_file.read_text()
    federation.study_file.write_text(text.replace("seed = 3", 'seed = 3\nmethod = "fediwe"'))
    assert [m["message"] for m in look(federation)["messages"]] == ["risk-report", "model-report"]
    assert [m["message"] for m in look(federation, "new")["messages"]] == ["brief", "model-request"]
    assert decode(federation.attempt().conclusion).outcome == "done"
    assert left(federation) == [item.entry.sha256 for item in federation.log("abbey").sent]
    assert len(left(federation)) == 2


def test_the_values_are_rounded_as_the_policy_says(federation):
    federation.configure("abbey", "[policy]\nsignificant_digits = 3")
    fields = {item["name"]: item["value"] for item in look(federation)["messages"][0]["fields"]}
    for value in (*fields["risk"], fields["effective_rows"], *fields["difference_after"]):
        assert float(f"{value:.2e}") == value


@pytest.mark.parametrize("kind", ["ridge", "pipeline", "trees"])
def test_a_preview_lists_every_array_of_a_model_with_its_shape(make_federation, kind):
    federation = make_federation(kind)
    federation.attempt()
    found = look(federation)["messages"][1]
    fields = {item["name"]: item["numbers"] for item in found["fields"]}
    report = load_result(federation.target.result_folder).model_reports["abbey"]
    shapes = {f"arrays.{name}": array.shape for name, array in report.arrays.items()}
    shown = {name: numbers for name, numbers in fields.items() if name.startswith("arrays.")}
    assert shown == {name: " × ".join(map(str, shape)) or "1" for name, shape in shapes.items()}


def test_the_attacks_on_a_model_are_shown_and_stand_in_the_log(federation):
    federation.attempt()
    found = look(federation)
    assert 0.5 <= found["certificate"]["reference"]["auc"] <= found["max_membership_auc"] == 0.6
    sha256 = found["messages"][1]["sha256"]
    assert (
        federation.log("abbey").find("certified", sha256=sha256)["certificate"]
        == (found["certificate"])
    )


def test_a_model_that_tells_too_much_is_refused_with_its_figure(federation):
    federation.configure("abbey", "[policy]\nmax_membership_auc = 0.51")
    found = look(federation)
    assert rules(found) == ["max_membership_auc"]
    assert f"{found['certificate']['reference']['auc']:.3f}" in found["refusals"][0]
    assert decode(federation.attempt(min_sources=2).conclusion).sources["abbey"] == (
        "model refused: max_membership_auc"
    )


def test_the_targets_preview_is_the_brief_that_leaves(federation):
    brief = look(federation, "new")["messages"][0]
    federation.attempt()
    assert left(federation, "new")[0] == brief["sha256"]


def test_afterwards_the_targets_preview_is_all_that_left(federation):
    federation.attempt()
    found = look(federation, "new")["messages"]
    assert all(message["exact"] for message in found)
    assert [m["to"] for m in found] == [EVERY_SOURCE] * 2 + ["abbey", "birch", "castle"]
    told = list(dict.fromkeys(left(federation, "new")))[:-1]  # without the conclusion
    assert [m["sha256"] for m in found] == told


def test_a_target_with_a_table_one_previews_what_it_tells(federation):
    study = federation.study
    path = federation.folder / "new"
    rows = look(federation, "new")
    write_table1(path / "table1.csv", study.read_target_table(), study.coding)
    (path / "site.toml").write_text('table1 = "table1.csv"\n')
    assert look(federation, "new") == rows


def test_every_rule_that_would_refuse_is_named_not_only_the_first(federation):
    federation.configure(
        "abbey",
        '[policy]\nmin_fold_rows = 100\nmodels = ["weighted-least-squares"]\nfeatures = ["age"]\n'
        "exchanges = []\nmax_parameters_per_row = 0.001\nmin_sd_share = 50.0",
    )
    assert rules(look(federation)) == [
        "exchanges", "features", "models", "min_fold_rows", "max_parameters_per_row",
        "min_sd_share",
    ]  # fmt: skip
    federation.configure("new", '[policy]\nexchanges = []\nfeatures = ["bmi"]')
    assert rules(look(federation, "new")) == ["exchanges", "features"]


def test_rules_beside_the_policy_are_named_too(federation):
    federation.configure("abbey", "max_bytes = 100")
    assert rules(look(federation)) == ["max_bytes"]
    federation.configure("new", "max_bytes = 100")
    assert rules(look(federation, "new")) == ["max_bytes"]
    for name in ("abbey", "new"):
        federation.configure(name)
    federation.attempt()
    (federation.state("abbey") / LOG).write_text("")
    with pytest.raises(LedgerError, match="last lines"):
        look(federation)
    path = federation.folder / "new" / "table.csv"
    path.write_text(path.read_text() + "50.0,1.0\n")
    assert rules(look(federation, "new")) == ["one_brief"]


def test_rows_that_changed_since_the_report_are_named(federation):
    federation.attempt()
    assert rules(look(federation)) == []
    path = federation.folder / "abbey" / "table.csv"
    header, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *rest[1:], rest[0]]))
    assert rules(look(federation)) == ["rows_changed"]


def test_the_targets_preview_tells_of_a_rare_level_as_little_as_its_brief(federation):
    text = federation.study_file.read_text()
    federation.study_file.write_text(text.replace('bmi = "number"', 'bmi = "flag"'))
    path = federation.folder / "new" / "table.csv"
    header, *lines = path.read_text().splitlines()
    for patients, told in ((4, 0.0), (5, 0.05), (0, 0.0)):
        rows = [f"{line.split(',')[0]},{int(k < patients)}" for k, line in enumerate(lines)]
        path.write_text("\n".join([header, *rows]) + "\n")
        found = look(federation, "new")
        assert rules(found) == []
        shown = {item["name"]: item["value"] for item in found["messages"][0]["fields"]}
        assert shown["mean"][1] == pytest.approx(told)


def test_a_brief_that_came_and_is_not_as_agreed_is_named(federation):
    federation.configure("abbey", "approve = true")
    federation.attempt()
    payloads = federation.state("abbey") / "payloads"
    [waiting] = federation.log("abbey").waiting()
    file = payloads / f"{waiting['request']}.fcsa"
    assert rules(look(federation)) == []
    file.write_bytes(b"another")
    with pytest.raises(Exception, match="missing or was changed"):
        look(federation)


def test_the_role_follows_from_the_table_and_a_missing_table_is_an_error(federation):
    assert look(federation)["role"] == "source"
    assert look(federation, "new")["role"] == "target"
    (federation.folder / "abbey" / "table.csv").unlink()
    with pytest.raises(TableError, match=r"table\.csv"):
        look(federation)


def test_the_command_shows_values_on_request_and_in_json(federation):
    def call(*extra):
        data = str(federation.folder / "abbey" / "site.toml")
        arguments = ["site", "preview", str(federation.study_file), "--data", data, *extra]
        done = CliRunner().invoke(app, arguments, env={"NO_COLOR": "1", "COLUMNS": "400"})
        assert done.exit_code == 0
        return done.stdout

    plain = json.loads(call("--json"))
    fields = {item["name"]: item["value"] for item in plain["messages"][0]["fields"]}
    shown = json.dumps(fields["difference_after"])
    assert shown in call("--values")
    assert shown not in call()
    assert "values are not" in call()


def test_a_message_that_left_decodes_to_the_values_that_were_shown(federation):
    federation.configure("abbey", "approve = true")
    federation.attempt(min_sources=3)  # no choice without it
    shown = {item["name"]: item["value"] for item in look(federation)["messages"][0]["fields"]}
    approve(federation)
    federation.attempt(min_sources=3)
    (sha256, *_) = left(federation)
    message = decode((federation.state("abbey") / "payloads" / f"{sha256}.fcsa").read_bytes())
    assert shown["risk"] == np.asarray(message.risk).tolist()
    assert shown["effective_rows"] == message.effective_rows
