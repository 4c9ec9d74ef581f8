"""The commands of a federation that need no engine process."""

import json

import pytest
from click.testing import CliRunner

from fedcsa.cli.app import app
from fedcsa.cli.study_screen import _save
from fedcsa.messages.codec import decode
from fedcsa.site.log import LOG

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")


@pytest.fixture
def call():
    def invoke(*arguments):
        environment = {"NO_COLOR": "1", "COLUMNS": "200"}
        result = CliRunner().invoke(app, [str(a) for a in arguments], env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def test_a_federation_is_set_up_in_three_commands(call, tmp_path):
    file = tmp_path / "federation.toml"
    assert call("federation", "init", file).exit_code == 0
    assert call("federation", "init", file).exit_code == 3  # never over an older one
    made = call("federation", "provision", file, "--out", tmp_path / "kits", "--json")
    assert len(json.loads(made.stdout)["kits"]) == 5
    found = call("federation", "doctor", tmp_path / "kits" / "localhost")
    assert (found.exit_code, "bad" in found.stdout) == (0, False)
    found = call("federation", "doctor", tmp_path / "kits" / "lead@example.org", "--json")
    assert found.exit_code == 3  # no server is running
    bad = [c["what"] for c in json.loads(found.stdout)["checks"] if not c["ok"]]
    assert bad == ["server"]


def test_a_site_file_is_written_once(call, tmp_path):
    assert call("site", "init", "--out", tmp_path / "site.toml").exit_code == 0
    result = call("site", "init", "--out", tmp_path / "site.toml")
    assert (result.exit_code, "already exists" in result.stderr) == (3, True)


def test_a_preview_shows_the_numbers_and_the_id_to_approve(call, federation):
    data = federation.folder / "abbey" / "site.toml"
    result = call("site", "preview", federation.study_file, "--data", data)
    assert result.exit_code == 0
    for part in (
        "risk-report", "difference_after", "model-report", "coefficients", "examination-report",
        "constant_risk", federation.agreed.id,
    ):  # fmt: skip
        assert part in result.stdout
    plain = json.loads(
        call("site", "preview", federation.study_file, "--data", data, "--json").stdout
    )
    assert plain["refusals"] == []


def test_a_preview_at_the_target_counts_what_it_tells_and_asks_for_no_approval(call, federation):
    data = federation.folder / "new" / "site.toml"
    shown = call("site", "preview", federation.study_file, "--data", data).stdout
    assert "It would tell 6 numbers about its rows." in shown
    assert "site approve" not in shown


def test_a_preview_of_a_refusal_names_the_rule(call, federation):
    federation.configure("abbey", "[policy]\nmin_fold_rows = 100")
    data = federation.folder / "abbey" / "site.toml"
    assert (
        "refused: min_fold_rows"
        in call("site", "preview", federation.study_file, "--data", data).stdout
    )


def test_a_steward_approves_by_name(call, federation):
    data = federation.folder / "abbey" / "site.toml"
    approvals = federation.log("abbey")
    small, never = (f"{name}@{'1' * 40}" for name in ("small", "never"))
    approvals.append("waiting", study="small", target="new", phase="risk", id=small)
    assert f"approved: {small}" in call("site", "approve", "small", "--data", data).stdout
    assert approvals.decision(small) == "approved"
    refused = call("site", "approve", "small", "--data", data, "--refuse", "--json")
    expected = {"study": small, "decision": "refused", "has_come": True}
    assert json.loads(refused.stdout) == expected
    assert approvals.decision(small) == "refused"
    assert call("site", "approve", "other", "--data", data).exit_code == 3
    assert "has come here" not in call("site", "approve", "small", "--data", data).stdout
    for options, follows in (((), "leave unseen"), (("--refuse",), "is refused")):
        told = call("site", "approve", never, "--data", data, *options).stdout
        assert "No study of this id has come here" in told
        assert follows in told


def test_a_sites_ledger_is_shown_and_verified(call, federation):
    federation.attempt()
    data = federation.folder / "abbey" / "site.toml"
    for path in (data, federation.state("abbey"), federation.state("abbey") / LOG):
        result = call("ledger", path)
        assert result.exit_code == 0
        assert "the chain is intact" in result.stdout
    assert "ratio_variance" in call("ledger", data, "--fields").stdout
    plain = json.loads(call("ledger", data, "--json").stdout)
    assert [line["kind"] for line in plain["messages"]] == ["sent"] * 3


def test_a_sites_ledger_counts_tables_by_cohort_and_briefs_by_target(call, federation, write_study):
    federation.configure("new", 'cohort = "spring"')
    federation.attempt()
    write_study(federation.folder, name="second")
    federation.attempt()
    new, abbey = (federation.folder / name / "site.toml" for name in ("new", "abbey"))
    told = "Cohort spring: 1 of 3 tables in 90 days, 6 numbers, in 2 studies."
    assert told in call("ledger", new).stdout
    assert "Target new: 2 of 5 briefs in 90 days." in call("ledger", abbey).stdout
    plain = json.loads(call("ledger", new, "--json").stdout)
    account = {"cohort": "spring", "studies": 2, "tables": 1, "numbers": 6}
    assert (plain["period_days"], plain["cohorts"], plain["briefs"]) == (90, [account], {})
    assert json.loads(call("ledger", abbey, "--json").stdout)["briefs"] == {"new": 2}
    federation.configure("abbey", '[policy]\nmax_briefs = "none"\nperiod_days = 7')
    shown = call("ledger", abbey).stdout
    assert "Target new: 2 of any number of briefs in 7 days." in shown


def test_a_tampered_ledger_is_an_error_with_the_line(call, federation):
    federation.attempt()
    path = federation.state("abbey") / LOG
    lines = path.read_text().splitlines()
    number = next(k for k, line in enumerate(lines, start=1) if "risk-report" in line)
    path.write_text(path.read_text().replace("risk-report", "risky-report"))
    result = call("ledger", federation.folder / "abbey" / "site.toml")
    assert (result.exit_code, f"Line {number} of" in result.stderr) == (3, True)


def test_a_study_is_not_submitted_with_a_stranger_or_too_few_sources(call, federation, tmp_path):
    kit = tmp_path / "kit"
    kit.mkdir()
    about = {
        "federation": "demo", "participant": "lead@demo.org", "role": "lead", "host": "localhost",
        "port": 1, "sites": {"new": "target", "abbey": "source", "birch": "source"}, "fedcsa": "0",
    }  # fmt: skip
    (kit / "kit.json").write_text(json.dumps(about))
    result = call("study", "submit", federation.study_file, "--kit", kit)
    assert (result.exit_code, "castle" in result.stderr) == (3, True)
    about["sites"]["castle"] = "source"
    (kit / "kit.json").write_text(json.dumps(about))
    result = call("study", "submit", federation.study_file, "--kit", kit, "--min-sources", 4)
    assert (result.exit_code, "at most 3" in result.stderr) == (3, True)
    about["sites"]["newer"] = "target"
    (kit / "kit.json").write_text(json.dumps(about))
    result = call("study", "submit", federation.study_file, "--kit", kit)
    assert (result.exit_code, "--target" in result.stderr) == (3, True)
    result = call(
        "study", "submit", federation.study_file, "--kit", kit, "--target", "new", "--out", kit
    )
    assert (result.exit_code, "other files than a result" in result.stderr) == (3, True)
    result = call("study", "submit", tmp_path / "none.toml", "--kit", kit)
    assert (result.exit_code, "does not exist" in result.stderr) == (3, True)


def test_a_wrong_kit_is_named(call, federation, tmp_path):
    data = federation.folder / "abbey" / "site.toml"
    assert call("site", "start", tmp_path, "--data", data).exit_code == 3
    assert call("federation", "serve", tmp_path).exit_code == 3


def test_the_demo_wants_a_folder_of_its_own(call, federation):
    assert call("federation", "demo", "--out", federation.folder).exit_code == 3


# A result that holds numbers only -----------------------------------------------------------


def lead_result(federation, tmp_path):
    """What `fedcsa study submit` leaves with the lead."""
    told = decode(federation.attempt().conclusion)
    plain = {"study": federation.agreed.id, "outcome": "done", "sources": {}}
    _save(tmp_path / "result", federation.agreed.text, plain, bytes(told.summary))
    return tmp_path / "result"


def test_a_prediction_by_the_lead_says_where_the_model_is(call, federation, tmp_path):
    folder = lead_result(federation, tmp_path)
    rows = federation.folder / "new" / "table.csv"
    result = call("predict", folder, rows)
    assert (result.exit_code, "stay at its sites" in result.stderr) == (3, True)
    assert "holds no models" in result.stderr
    assert "holds no ledgers" in call("ledger", folder).stderr
    assert call("predict", federation.target.result_folder, rows).exit_code == 0


def test_a_result_that_the_target_keeps_is_not_called_damaged(call, federation, tmp_path):
    federation.configure("new", "share_result = false")
    result = call("predict", lead_result(federation, tmp_path), tmp_path / "rows.csv")
    assert (result.exit_code, "keep its own to itself" in result.stderr) == (3, True)


@pytest.mark.parametrize(("waits", "said"), [(True, "fedcsa study watch --kit"), (False, "again")])
def test_ctrl_c_says_how_a_study_goes_on(waits, said, tmp_path, monkeypatch, capsys):
    from fedcsa.cli import study_command
    from fedcsa.cli.study_screen import StudyScreen
    from fedcsa.federation.kept import Shelf

    def pressed():
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(Shelf, "all", lambda _: ["a study"] if waits else [])
    ends = study_command._shown(pressed(), StudyScreen(quiet=True), Shelf(tmp_path), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        next(ends)
    assert said in capsys.readouterr().err
