"""Kits: made by the engine, hardened by us, and examined."""

import json
import os
import shutil
from collections import Counter, defaultdict
from datetime import datetime, timedelta

import pytest
from click.testing import CliRunner

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")

from fedcsa.cli.app import app
from fedcsa.errors import BindingError, StudyError
from fedcsa.federation.federation_file import AUTHORITY, Federation
from fedcsa.federation.flare import certificates, doctor
from fedcsa.federation.flare import kits as kits_module
from fedcsa.federation.flare.certificates import DENIED, Authority, read_denied, unlocked
from fedcsa.federation.flare.doctor import check_kit
from fedcsa.federation.flare.hardening import AUTHORIZATION, problems_of, settle
from fedcsa.federation.flare.kits import Kit, KitArchive, deny, provision, renew
from fedcsa.federation.flare.seal import KitSeal
from fedcsa.messages.messages import Refusal
from fedcsa.site.log import HEAD, LOG, SiteLog
from fedcsa.site.state import alone

SITES = {"new": "target", "abbey": "source"}
USERS = {"lead@demo.org": "lead", "viewer@demo.org": "viewer"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits")
    provision(Federation("demo", "localhost", 8002, SITES, USERS), folder)
    return folder


MADE = {}


@pytest.fixture(autouse=True)
def engine_asked_once(tmp_path_factory, monkeypatch):
    """The engine's settings are the same whenever a kit of one federation is made."""
    ask_engine = kits_module._settings

    def settings(federation, _):
        if str(federation) not in MADE:
            MADE[str(federation)] = ask_engine(federation, tmp_path_factory.mktemp("engine"))
        return MADE[str(federation)]

    monkeypatch.setattr(kits_module, "_settings", settings)


#: Keys by their bits: a test takes the same ones as the test before it, and none of them twice.
KEYS = defaultdict(list)


@pytest.fixture(autouse=True)
def keys_made_once(monkeypatch):
    """A key takes up to a second; whose it is, and whether another one is meant, is what counts."""
    taken, make = Counter(), certificates.rsa.generate_private_key

    def key(public_exponent, key_size):
        if taken[key_size] == len(KEYS[key_size]):
            KEYS[key_size].append(make(public_exponent, key_size))
        taken[key_size] += 1
        return KEYS[key_size][taken[key_size] - 1]

    monkeypatch.setattr(certificates.rsa, "generate_private_key", key)


@pytest.fixture(scope="module", autouse=True)
def cheap_guesses():
    """Here a password is stretched in no time; at full cost, by the engine's own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "_COST", 2)
        yield


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
    assert "fedcsa federation renew abbey" in problem


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


@pytest.mark.parametrize(
    ("days", "bad"),
    [(320, set()), (335, {"server.crt"}), (3630, {"server.crt", "rootCA.pem"})],
)
def test_the_doctor_warns_a_month_before_certificates_end(kits, monkeypatch, days, bad):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=days)

    monkeypatch.setattr(doctor, "datetime", Later)
    found = {what: text for what, ok, text in check_kit(kits / "localhost") if not ok}
    assert set(found) == bad
    words = {"server.crt": "renew localhost", "rootCA.pem": "provision, into a new folder"}
    assert all(words[file] in text for file, text in found.items())


# Certificates -------------------------------------------------------------------------------


FEDERATION = Federation("demo", "localhost", 8002, SITES, USERS)


def content_of(folder):
    """Every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_kit_holds_only_what_is_needed_to_start_it(kits):
    """No readme, script, sample or notebook of the engine; at the authority no key but its own."""
    local = {"authorization.json", "log_config.json.default", "resources.json"}
    keys = {"client.crt", "client.key", "rootCA.pem"}
    held = {
        "abbey": ({*local, "privacy.json"}, {*keys, "fed_client.json"}),
        "new": ({*local, "privacy.json"}, {*keys, "fed_client.json"}),
        "localhost": (local, {"server.crt", "server.key", "rootCA.pem", "fed_server.json"}),
        **dict.fromkeys(USERS, (set(), {*keys, "fed_admin.json"})),
    }
    for name, (at_local, at_startup) in held.items():
        found = {f"local/{n}" for n in at_local} | {f"startup/{n}" for n in at_startup}
        assert set(content_of(kits / name)) == {"kit.json", *found}, name
    files = content_of(kits / AUTHORITY)
    assert set(files) == {"issued.json", "root.crt", "root.key"}
    assert sum(text.count(b"PRIVATE KEY-----\n") for text in files.values()) == 2
    assert not (kits / AUTHORITY / "root.key").stat().st_mode & 0o077


def test_making_kits_again_leaves_every_kit_as_it_is(kits):
    before = content_of(kits)
    assert provision(FEDERATION, kits) == []
    assert content_of(kits) == before


def test_a_kit_for_another_port_must_be_renewed_by_name(kits):
    moved = Federation("demo", "localhost", 8003, SITES, USERS)
    with pytest.raises(StudyError, match=r"another port.*federation renew localhost"):
        provision(moved, kits)
    assert Kit.load(renew(moved, kits, "abbey")).port == 8003


@pytest.mark.parametrize("name", ["localhost", "abbey", "lead@demo.org"])
def test_renewing_one_kit_leaves_the_others_to_the_byte(kits, name):
    before = {kit: content_of(kits / kit) for kit in ("localhost", *SITES, *USERS)}
    assert renew(FEDERATION, kits, name) == kits / name
    after = {kit: content_of(kits / kit) for kit in before}
    assert {kit for kit in before if after[kit] != before[kit]} == {name}
    file = "startup/server.crt" if name == "localhost" else "startup/client.crt"
    assert after[name][file] != before[name][file]
    assert after[name]["startup/rootCA.pem"] == before[name]["startup/rootCA.pem"]


def test_a_renewed_kit_is_believed_by_the_others_and_so_is_the_old_one_until_it_is_denied(
    kits, tmp_path
):
    shutil.copytree(kits / "abbey", tmp_path / "stolen")
    other = KitSeal(kits / "new" / "startup")
    stolen = KitSeal(tmp_path / "stolen" / "startup")
    other.check(b"content", stolen.sign(b"content"), "abbey")
    path = deny(kits, "abbey")
    renew(FEDERATION, kits, "abbey")
    shutil.copy(path, kits / "new")
    with pytest.raises(BindingError, match="'abbey' is on the deny-list") as caught:
        other.check(b"content", stolen.sign(b"content"), "abbey")
    assert caught.value.rule == "denied"
    other.check(b"content", KitSeal(kits / "abbey" / "startup").sign(b"content"), "abbey")


def test_a_deny_list_grows_and_only_names_that_have_a_certificate(kits):
    for name in ("abbey", "viewer@demo.org"):
        path = deny(kits, name)
    root = Authority(kits / AUTHORITY, "demo").root
    assert set(read_denied(path, root)) == {"abbey", "viewer@demo.org"}
    with pytest.raises(StudyError, match="abbye"):
        deny(kits, "abbye")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace(b"abbey", b"birch"),
        lambda text: text.partition(b"\n")[0],
        lambda _: b"",
        lambda _: b"{}\n",
    ],
)
def test_with_a_damaged_deny_list_a_site_believes_nobody(kits, damage):
    path = kits / "new" / DENIED
    path.write_bytes(damage(deny(kits, "abbey").read_bytes()))
    seal = KitSeal(kits / "new" / "startup")
    with pytest.raises(BindingError, match="deny-list") as caught:
        seal.check(b"content", KitSeal(kits / "abbey" / "startup").sign(b"content"), "abbey")
    assert caught.value.rule == "deny_list"
    found = {what: ok for what, ok, _ in check_kit(kits / "new")}
    assert not found["deny-list"]


def test_the_doctor_tells_a_kit_that_it_was_denied(kits):
    assert ("deny-list", True, "0 certificates no longer count here") in check_kit(kits / "abbey")
    shutil.copy(deny(kits, "abbey"), kits / "abbey")
    [text] = [
        text for what, ok, text in check_kit(kits / "abbey") if what == "deny-list" and not ok
    ]
    assert "taken back. Ask for a new kit" in text


def test_a_certificate_lasts_as_long_as_asked(kits):
    short = renew(FEDERATION, kits, "abbey", days=7)
    found = {what: text for what, ok, text in check_kit(short) if not ok}
    assert "6 days from now" in found["client.crt"]


def test_kits_of_another_folder_are_another_federation(kits, tmp_path):
    provision(FEDERATION, tmp_path / "anew")
    old, new = KitSeal(kits / "abbey" / "startup"), KitSeal(tmp_path / "anew" / "new" / "startup")
    with pytest.raises(BindingError, match="not signed by 'abbey'"):
        new.check(b"content", old.sign(b"content"), "abbey")


@pytest.mark.parametrize("name", ["nobody", ""])
def test_renewing_needs_a_participant_and_the_authority(kits, tmp_path, name):
    with pytest.raises(StudyError, match="participant"):
        renew(FEDERATION, kits, name)
    for call in (lambda: renew(FEDERATION, tmp_path, "abbey"), lambda: deny(tmp_path, "abbey")):
        with pytest.raises(StudyError, match=f"has no {AUTHORITY}/"):
            call()


# Passwords ----------------------------------------------------------------------------------


PASSWORD = "correct horse"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def locked_once(made, tmp_path_factory):
    """To make a key and to lock it takes longer than any test of it."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("locked") / "kits")
    renew(FEDERATION, folder, "abbey", password=PASSWORD)
    return folder


@pytest.fixture
def locked(kits, locked_once):
    shutil.rmtree(kits)
    shutil.copytree(locked_once, kits)
    settle(kits / "localhost")
    return kits / "abbey"


def test_a_locked_key_is_not_renewed_without_a_lock(locked):
    before = content_of(locked)
    with pytest.raises(StudyError, match="Lock the new one too"):
        renew(FEDERATION, locked.parent, "abbey")
    assert content_of(locked) == before


def test_a_locked_key_opens_with_its_password_only_and_leaves_nothing_behind(locked):
    with pytest.raises(StudyError, match="lacks the kit's key"):
        KitSeal(locked / "startup")
    before = content_of(locked)
    with unlocked(locked, "source", lambda: PASSWORD):
        copy = (locked / "startup" / "client.key").resolve()
        assert not copy.is_relative_to(locked.resolve())
        assert not copy.stat().st_mode & 0o077
        KitSeal(locked / "startup").sign(b"content")
    assert not copy.exists()
    assert content_of(locked) == before
    with (
        pytest.raises(StudyError, match="does not open"),
        unlocked(locked, "source", lambda: "wrong"),
    ):
        pass
    assert content_of(locked) == before


def test_a_link_that_a_crash_left_does_not_matter(locked, tmp_path):
    (locked / "startup" / "client.key").symlink_to(tmp_path / "gone")
    with unlocked(locked, "source", lambda: PASSWORD):
        KitSeal(locked / "startup").sign(b"content")


def test_no_key_lies_open_in_a_locked_kit_and_the_doctor_says_so(locked):
    files = content_of(locked)
    assert "startup/client.key" not in files
    assert b"BEGIN PRIVATE" not in files["startup/client.key.locked"]
    assert ("key", True, "locked by a password") in check_kit(locked)


def test_a_short_password_is_refused(kits):
    before = content_of(kits)
    with pytest.raises(StudyError, match="at least 10 characters"):
        renew(FEDERATION, kits, "abbey", password="short")  # noqa: S106 - of a test
    assert content_of(kits) == before


def test_a_kit_that_is_renewed_keeps_what_it_remembers_and_gets_the_newest_list(kits):
    SiteLog(kits / "state").remember_in(kits / "abbey")
    head = (kits / "abbey" / HEAD).read_bytes()
    path = deny(kits, "new")
    renew(FEDERATION, kits, "abbey")
    assert (kits / "abbey" / HEAD).read_bytes() == head
    assert (kits / "abbey" / DENIED).read_bytes() == path.read_bytes()


def test_a_site_with_a_locked_key_asks_for_its_password(locked, start, tmp_path):
    done = start()
    assert (done.exit_code, "--password-file FILE" in done.stderr) == (3, True)
    file = tmp_path / "password.txt"
    file.write_text("wrong password\n")
    done = start("--password-file", str(file))
    assert (done.exit_code, "does not open the key" in done.stderr) == (3, True)
    done = start("--password-file", str(tmp_path / "none.txt"))
    assert (done.exit_code, "cannot be read" in done.stderr) == (3, True)
    assert not (locked / "startup" / "client.key").exists()


def test_the_commands_make_and_renew_locked_kits_and_write_the_deny_list(tmp_path):
    file, out, word = (tmp_path / name for name in ("federation.toml", "kits", "password.txt"))
    file.write_text(
        'name = "demo"\n[server]\nhost = "localhost"\n[sites.new]\nrole = "target"\n'
        '[sites.abbey]\nrole = "source"\n[users."lead@demo.org"]\nrole = "lead"\n'
    )
    word.write_text(PASSWORD + "\n")

    def call(*arguments):
        done = CliRunner().invoke(app, ["federation", *map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.output

    assert ": 4\n" in call("provision", file, "--out", out, "--password-file", word)
    assert ": 0\n" in call("provision", file, "--out", out)
    assert set(content_of(out)) >= {f"{n}/startup/client.key.locked" for n in ("new", "abbey")}
    renewing = ("renew", "abbey", file, "--out", out, "--days", "30", "--password-file", word)
    said = call(*renewing)
    number = KitArchive(out / "abbey.zip").fingerprint
    assert number in said
    call("install", out / "abbey.zip", "--out", tmp_path / "here", "--fingerprint", number)
    names = {f"abbey/{name}" for name in content_of(tmp_path / "here")} - {"abbey/.running"}
    assert names == {name for name in content_of(out) if name.startswith("abbey/")}
    assert problems_of(tmp_path / "here", "source") == []
    assert (out / "abbey" / "startup" / "client.key.locked").is_file()
    assert "beside kit.json" in call("deny", "abbey", "--out", out)
    assert (out / DENIED).is_file()


# Starting a site ----------------------------------------------------------------------------


@pytest.fixture
def start(kits, tmp_path):
    """`fedcsa site start` of abbey, in a place where it must not come to start a process."""
    (tmp_path / "site.toml").write_text('table = "t.csv"\n')

    def call(*options):
        arguments = ["site", "start", str(kits / "abbey"), "--data", str(tmp_path / "site.toml")]
        return CliRunner().invoke(app, [*arguments, *options], env={"NO_COLOR": "1"})

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


def test_what_old_jobs_left_is_cleared_and_nothing_else(tmp_path):
    from fedcsa.federation.flare.process import clear_old_jobs

    now, day = 1e9, 86400.0
    ages = {"0" * 8 + "-0000-0000-0000-" + digit * 12: days for digit, days in (("1", 3), ("2", 1))}
    for place in (tmp_path, tmp_path / "stores" / "jobs"):
        for name, days in {**ages, "startup": 99, "studies": 99}.items():
            (place / name).mkdir(parents=True)
            (place / name / "log.txt").touch()
            for path in (place / name / "log.txt", place / name):
                os.utime(path, (now - days * day, now - days * day))
    busy = tmp_path / ("0" * 8 + "-0000-0000-0000-" + "3" * 12)
    busy.mkdir()
    (busy / "log.txt").touch()
    os.utime(busy / "log.txt", (now, now))
    os.utime(busy, (now - 9 * day, now - 9 * day))
    clear_old_jobs(tmp_path, now)
    young = next(name for name, days in ages.items() if days == 1)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {young, busy.name, "startup", "studies", "stores"}
    stored = {path.name for path in (tmp_path / "stores" / "jobs").iterdir()}
    assert stored == {young, "startup", "studies"}
