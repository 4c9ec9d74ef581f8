"""Kits: made by the engine, hardened by us, and examined."""

import json
import shutil
from datetime import datetime, timedelta

import pytest
from typer.testing import CliRunner

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")

from fedcsa.cli.app import app
from fedcsa.errors import BindingError, StudyError
from fedcsa.federation.federation_file import AUTHORITY, Federation
from fedcsa.federation.flare import doctor
from fedcsa.federation.flare.doctor import check_kit
from fedcsa.federation.flare.hardening import AUTHORIZATION, problems_of, settle
from fedcsa.federation.flare.kits import Kit, provision
from fedcsa.federation.flare.seal import KitSeal
from fedcsa.messages.messages import Refusal
from fedcsa.site.log import LOG, SiteLog
from fedcsa.site.state import alone

SITES = {"new": "target", "abbey": "source"}
USERS = {"lead@demo.org": "lead", "viewer@demo.org": "viewer"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits")
    provision(Federation("demo", "localhost", 8002, SITES, USERS), folder)
    return folder


@pytest.fixture
def kits(made, tmp_path):
    shutil.copytree(made, tmp_path / "kits")
    settle(tmp_path / "kits" / "localhost")
    return tmp_path / "kits"


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_there_is_a_kit_for_everyone_and_the_authority_is_closed(kits):
    names = {"localhost", *SITES, *USERS, AUTHORITY}
    assert {path.name for path in kits.iterdir()} == names
    assert Kit.load(kits / "abbey").role == "source"
    assert Kit.load(kits / "lead@demo.org").sites == SITES
    assert not (kits / AUTHORITY).stat().st_mode & 0o077


@pytest.mark.parametrize(("name", "role"), [("localhost", "server"), *SITES.items()])
def test_a_new_kit_has_every_protection(kits, name, role):
    assert problems_of(kits / name, role) == []


def test_only_a_lead_may_submit_and_nobody_may_send_code_or_run_commands():
    for role, rights in AUTHORIZATION["permissions"].items():
        assert rights["byoc"] == rights["shell_commands"] == rights["operate"] == "none"
        assert rights["show_errors"] == "none"
        assert (rights["submit_job"] == "any") == (role == "lead")


@pytest.mark.parametrize(
    ("file", "edit", "word"),
    [
        ("resources.json", lambda c: c.update(class_allow_list=["*"]), "allow-list"),
        ("resources.json", lambda c: c.update(class_list_enforcement_mode="warn"), "enforced"),
        ("resources.json", lambda c: c.update(allow_log_streaming=True), "streaming"),
        ("resources.json", lambda c: c["components"].append({"id": "site_log_streamer"}), "Log"),
        ("authorization.json", lambda c: c.update(permissions={"lead": "any"}), "rights"),
        ("privacy.json", lambda c: c.update(scopes=[]), "egress filter"),
    ],
)
def test_whatever_is_taken_back_is_found_with_how_to_mend_it(kits, file, edit, word):
    change(kits / "abbey" / "local" / file, edit)
    (problem,) = problems_of(kits / "abbey", "source")
    assert word in problem
    assert "fedcsa federation provision" in problem


def test_the_servers_stores_lie_in_its_kit_wherever_it_is(kits, tmp_path):
    moved = tmp_path / "moved"
    (kits / "localhost").rename(moved)
    assert "stores" in problems_of(moved, "server")[0]
    settle(moved)
    assert problems_of(moved, "server") == []
    resources = (moved / "local" / "resources.json").read_text()
    assert "/tmp/nvflare" not in resources  # noqa: S108 - where they must not be


def test_kits_can_be_made_again_with_the_same_authority(kits):
    root = (kits / "abbey" / "startup" / "rootCA.pem").read_bytes()
    provision(Federation("demo", "localhost", 8002, {**SITES, "birch": "source"}, USERS), kits)
    assert (kits / "birch" / "startup" / "rootCA.pem").read_bytes() == root
    assert problems_of(kits / "abbey", "source") == []


def test_a_folder_that_is_no_kit_is_named(tmp_path):
    with pytest.raises(StudyError, match="is not a start-up kit"):
        Kit.load(tmp_path)
    assert check_kit(tmp_path)[0][1] is False


def test_the_doctor_finds_what_is_wrong(kits, tmp_path):
    (kits / "abbey" / "startup" / "client.key").chmod(0o644)
    (kits / "abbey" / "startup" / "client.crt").write_text("x")
    change(kits / "abbey" / "local" / "resources.json", lambda c: c.update(class_allow_list=[]))
    change(kits / "abbey" / "kit.json", lambda c: c.update(port=1, fedcsa="0.0.0"))
    bad = {
        what: text for what, ok, text in check_kit(kits / "abbey", tmp_path / "x.toml") if not ok
    }
    assert set(bad) == {"fedcsa", "client.crt", "key", "protection", "server", "site"}
    assert "chmod 600" in bad["key"]


def test_the_doctor_is_content_with_a_new_server_kit(kits):
    assert [check for check in check_kit(kits / "localhost") if not check[1]] == []


def test_the_doctor_looks_at_the_sites_own_file(kits, tmp_path):
    (tmp_path / "t.csv").write_text("age,y\n1,2\n")
    (tmp_path / "site.toml").write_text('table = "t.csv"\n')
    found = {
        what: text for what, ok, text in check_kit(kits / "abbey", tmp_path / "site.toml") if ok
    }
    assert found["table"] == "2 columns"
    assert found["log"] == "0 lines, 0 messages left, chain intact"
    assert found["site"].startswith("not running")


def test_the_doctor_looks_for_a_targets_table_one(kits, tmp_path):
    (tmp_path / "site.toml").write_text('table1 = "t.csv"\n')
    found = {what: ok for what, ok, _ in check_kit(kits / "new", tmp_path / "site.toml")}
    assert not found["table"]
    (tmp_path / "t.csv").write_text("feature,level,mean,sd,n\n")
    found = {what: ok for what, ok, _ in check_kit(kits / "new", tmp_path / "site.toml")}
    assert found["table"]


@pytest.mark.parametrize(("days", "bad"), [(320, set()), (335, {"server.crt", "rootCA.pem"})])
def test_the_doctor_warns_a_month_before_certificates_end(kits, monkeypatch, days, bad):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=days)

    monkeypatch.setattr(doctor, "datetime", Later)
    found = {what: text for what, ok, text in check_kit(kits / "localhost") if not ok}
    assert set(found) == bad
    assert all("new provisioning" in text for text in found.values())


def test_making_kits_again_renews_no_certificate_and_a_new_folder_does(kits, tmp_path):
    """Hence: whoever is to be expelled, or whose certificate ends, needs a new federation."""
    kit = kits / "abbey" / "startup" / "client.crt"
    before = kit.read_bytes()
    federation = Federation("demo", "localhost", 8002, SITES, USERS)
    provision(federation, kits)
    assert kit.read_bytes() == before
    provision(federation, tmp_path / "anew")
    old, new = KitSeal(kits / "abbey" / "startup"), KitSeal(tmp_path / "anew" / "new" / "startup")
    with pytest.raises(BindingError, match="not signed by 'abbey'"):
        new.check(b"content", old.sign(b"content"), "abbey")


# Starting a site ----------------------------------------------------------------------------


@pytest.fixture
def start(kits, tmp_path):
    """`fedcsa site start` of abbey, in a place where it must not come to start a process."""
    (tmp_path / "site.toml").write_text('table = "t.csv"\n')

    def call(name="abbey"):
        arguments = ["site", "start", str(kits / name), "--data", str(tmp_path / "site.toml")]
        return CliRunner().invoke(app, arguments, env={"NO_COLOR": "1"})

    return call


def test_two_sites_do_not_share_a_state_folder_or_a_kit(start, kits, tmp_path):
    for folder in (tmp_path / "state", kits / "abbey"):
        with alone(folder):
            done = start()
            assert (done.exit_code, "in use by another" in done.stderr) == (3, True)
    assert not (tmp_path / "state" / "status.jsonl").exists()


def test_a_second_server_does_not_start_from_the_same_kit(kits):
    with alone(kits / "localhost"):
        done = CliRunner().invoke(app, ["federation", "serve", str(kits / "localhost")])
    assert (done.exit_code, "in use by another" in done.stderr) == (3, True)


def test_a_folder_is_free_again_when_its_site_ends(tmp_path):
    for _ in range(2):
        with alone(tmp_path):
            pass


def test_a_state_folder_that_cannot_be_written_is_told_before_anything_starts(start, tmp_path):
    (tmp_path / "state").write_text("a file")
    done = start()
    assert (done.exit_code, "is not writable" in done.stderr) == (3, True)


def test_a_site_whose_state_is_lost_or_anothers_does_not_start(start, tmp_path):
    log = SiteLog(tmp_path / "state")
    log.record("birch", Refusal("demo", "birch", "", "models"), "new", envelope_bytes=1)
    done = start()
    assert (done.exit_code, "another site than 'abbey'" in done.stderr) == (4, True)


def test_a_deleted_state_folder_is_noticed_by_the_kit_that_it_was_used_with(start, kits, tmp_path):
    (tmp_path / "t.csv").write_text("age,y\n1,2\n")
    log = SiteLog(tmp_path / "state")
    log.record("abbey", Refusal("demo", "abbey", "", "models"), "new", envelope_bytes=1)
    log.remember_in(kits / "abbey")
    shutil.rmtree(tmp_path / "state")
    done = start()
    assert (done.exit_code, "this kit was used with" in done.stderr) == (4, True)
    found = check_kit(kits / "abbey", tmp_path / "site.toml")
    assert any("this kit was used with" in text for _, ok, text in found if not ok)


def test_the_doctor_finds_a_log_that_lost_its_end(kits, tmp_path):
    (tmp_path / "t.csv").write_text("age,y\n1,2\n")
    (tmp_path / "site.toml").write_text('table = "t.csv"\n')
    for nonce in "12":
        SiteLog(tmp_path / "state").append("asked", nonce=nonce)
    path = tmp_path / "state" / LOG
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    bad = {
        what: text for what, ok, text in check_kit(kits / "abbey", tmp_path / "site.toml") if not ok
    }
    assert "last lines of" in bad["site"]
