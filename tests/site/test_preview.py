"""A preview: the very numbers that would leave, and every rule that would refuse."""

import base64
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedcsa.cli.app import app
from fedcsa.errors import TableError
from fedcsa.protocol.chain import verify
from fedcsa.protocol.codec import decode
from fedcsa.site.preview import preview
from fedcsa.site.state import Approvals


def look(federation, name="abbey"):
    return preview(federation.study_file.read_text(), federation.site(name))


def rules(found):
    return [text.partition(":")[0] for text in found["refusals"]]


def decide(federation, phase):
    Approvals(federation.state("abbey")).decide("small", "approved", (phase,))


def left(federation, name="abbey"):
    """Hash of every message that left a site, refusals aside."""
    entries = [item.entry for item in verify(federation.state(name)) if item.kind == "sent"]
    return [entry.sha256 for entry in entries if entry.message != "refusal"]


@pytest.mark.parametrize("stream", ["", "stream = true\n"])
def test_what_a_steward_approves_is_to_the_bit_what_then_leaves(federation, stream):
    federation.configure("abbey", f'{stream}approve = ["risk", "model"]')
    assert not any(message["exact"] for message in look(federation)["messages"])
    federation.attempt(min_sources=3)  # the brief has come, and waits
    risk, model = look(federation)["messages"]
    assert (risk["exact"], model["exact"]) == (True, False)  # nobody has chosen yet
    assert left(federation) == []
    decide(federation, "risk")
    federation.attempt(min_sources=3)
    assert left(federation) == [risk["sha256"]]
    found = look(federation)
    assert (rules(found), [m["exact"] for m in found["messages"]]) == ([], [True, True])
    decide(federation, "model")
    federation.attempt()
    assert left(federation) == [message["sha256"] for message in found["messages"]]


def test_the_values_are_rounded_as_the_policy_says(federation):
    federation.configure("abbey", "[policy]\nsignificant_digits = 3")
    fields = {item["name"]: item["value"] for item in look(federation)["messages"][0]["fields"]}
    for value in (*fields["loss_mean"], fields["ratio_mean"], *fields["difference_after"]):
        assert float(f"{value:.2e}") == value


def test_a_packed_model_is_shown_by_its_bytes(make_federation):
    found = look(make_federation("pipeline"))["messages"][1]
    fields = {item["name"]: item for item in found["fields"]}
    assert len(base64.b64decode(fields["packed"]["value"])) == int(fields["packed"]["numbers"])


def test_the_targets_preview_is_the_brief_that_leaves(federation):
    (brief,) = look(federation, "new")["messages"]
    federation.attempt()
    assert left(federation, "new")[0] == brief["sha256"]
    assert [m["sha256"] for m in look(federation, "new")["messages"]] == [brief["sha256"]]


def test_every_rule_that_would_refuse_is_named_not_only_the_first(federation):
    federation.configure(
        "abbey",
        '[policy]\nmin_fold_rows = 100\nmodels = ["weighted-least-squares"]\nfeatures = ["age"]\n'
        "exchanges = []\nmax_parameters_per_row = 0.001\nmin_bandwidth = 50.0",
    )
    assert rules(look(federation)) == [
        "exchanges", "features", "models", "min_fold_rows", "max_parameters_per_row",
        "min_bandwidth",
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
    (federation.state("abbey") / "ledger.jsonl").write_text("")
    assert rules(look(federation)) == ["failed"]  # the ledger's own error, in words
    federation.configure("new", '[policy]\nmax_release_share = "none"')
    path = federation.folder / "new" / "table.csv"
    path.write_text(path.read_text() + "1.0,1.0\n")
    assert rules(look(federation, "new")) == ["one_brief"]


def test_rows_that_changed_since_the_report_are_named(federation):
    federation.configure("abbey", 'approve = ["model"]')
    federation.attempt()
    assert rules(look(federation)) == []
    path = federation.folder / "abbey" / "table.csv"
    header, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *rest[1:], rest[0]]))
    assert rules(look(federation)) == ["rows_changed"]


def test_the_budget_over_studies_is_part_of_a_preview(federation):
    text = federation.study_file.read_text().replace('"small"', '"second"', 1)
    assert preview(text, federation.site("new"))["refusals"] == []
    federation.attempt()
    assert rules(preview(text, federation.site("new"))) == ["max_release_share"]


def test_a_brief_that_came_and_is_not_as_agreed_is_named(federation):
    federation.configure("abbey", 'approve = ["risk"]')
    federation.attempt()
    payloads = federation.state("abbey") / "payloads"
    (file,) = payloads.iterdir()
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
    shown = json.dumps(fields["loss_mean"])
    assert shown in call("--values")
    assert shown not in call()
    assert "values are not" in call()


def test_a_message_that_left_decodes_to_the_values_that_were_shown(federation):
    federation.configure("abbey", 'approve = ["risk"]')
    federation.attempt()
    shown = {item["name"]: item["value"] for item in look(federation)["messages"][0]["fields"]}
    decide(federation, "risk")
    federation.attempt()
    (sha256, *_) = left(federation)
    message = decode((federation.state("abbey") / "payloads" / f"{sha256}.fcsa").read_bytes())
    assert shown["loss_mean"] == np.asarray(message.loss_mean).tolist()
    assert shown["effective_rows"] == message.effective_rows
