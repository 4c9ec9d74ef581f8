"""A kit as one file: the same bytes, one fingerprint, and nothing else is unpacked."""

import hashlib
import io
import json
import stat
import zipfile
from dataclasses import asdict

import pytest
from click.testing import CliRunner

pytest.importorskip("nvflare", reason="the engine, nvflare, is not installed")

from fedcsa.cli import federation_command
from fedcsa.cli.app import app
from fedcsa.errors import ResultError, StudyError
from fedcsa.federation.flare.kits import _MOST_BYTES, Kit, KitArchive, pack_kit
from fedcsa.site.log import HEAD
from fedcsa.site.state import alone

ABBEY = Kit("demo", "abbey", "source", "localhost", 8002, {"abbey": "source"}, "0.1.0")
FILES = {
    "denied.json": b"{}",
    "local/log_config.json.default": b"log",
    "local/resources.json": b"resources",
    "startup/client.key.locked": b"\x00key",
    "startup/rootCA.pem": b"root",
}
REGULAR = (stat.S_IFREG | 0o600) << 16


def write_kit(folder, about=ABBEY, files=FILES):
    for name, content in {**files, "kit.json": json.dumps(asdict(about)).encode()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def archive(tmp_path):
    kit = write_kit(tmp_path / "kits" / "abbey")
    for beside in (HEAD, "engine.log", "transfer/x", ".running", "startup/.hidden"):
        (kit / beside).parent.mkdir(exist_ok=True)
        (kit / beside).write_text("not to be handed over")
    return pack_kit(kit)


def unpacked(folder):
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".running")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_kit_comes_out_as_it_went_in_without_what_lay_beside(archive, tmp_path):
    assert KitArchive(archive).unpack(tmp_path / "new") == ABBEY == Kit.load(tmp_path / "new")
    found = unpacked(tmp_path / "new")
    assert {**found, "kit.json": b""} == {**FILES, "kit.json": b""}
    for path in [archive, *(tmp_path / "new" / name for name in found)]:
        assert not path.stat().st_mode & 0o077, path


def test_the_same_kit_is_the_same_bytes_and_its_fingerprint_is_sha_256(archive, tmp_path):
    again = pack_kit(write_kit(tmp_path / "elsewhere" / "abbey"))
    assert again.read_bytes() == archive.read_bytes()
    groups = KitArchive(archive).fingerprint.split(" ")
    assert [len(group) for group in groups] == [4] * 16
    assert "".join(groups) == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_every_changed_byte_is_another_fingerprint_and_refused(archive):
    told, whole = KitArchive(archive).fingerprint, archive.read_bytes()
    for way in (told, told.upper(), told.replace(" ", ""), told.replace(" ", ":")):
        KitArchive(archive).check(way)
    for at in range(0, len(whole), 50):
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StudyError, match="another one was told"):
            KitArchive(archive).check(told)
    archive.write_bytes(whole)
    for wrong in ("", told[:-5], f"{told} 0"):
        with pytest.raises(StudyError, match="another one was told"):
            KitArchive(archive).check(wrong)


def entry(name="startup/fed_client.json", mode=REGULAR, content=b"x", **attributes):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


LINK = (stat.S_IFLNK | 0o777) << 16
HOSTILE = {
    "above": [entry("../startup/x.json")],
    "above inside": [entry("startup/../../x.json")],
    "absolute": [entry("/startup/x.json")],
    "windows": [entry("startup\\..\\x.json"), entry("C:/x.json")],
    "another folder": [entry("bin/x.json")],
    "deeper": [entry("startup/a/x.json")],
    "another file": [entry("x.json")],
    "hidden": [entry("startup/.profile")],
    "a script": [entry("startup/evil.sh")],
    "a module": [entry("startup/sitecustomize.py")],
    "code": [entry("local/custom.py")],
    "settings of no kit": [entry("startup/x.json")],
    "no end": [entry("startup/sitecustomize")],
    "a new line": [entry("startup/x.json\n")],
    "another alphabet": [entry("startup/х.json")],
    "a folder": [entry("startup/x.json/", content=b"")],
    "a link": [entry(mode=LINK, content=b"/etc/passwd")],
    "no mode": [entry(mode=0)],
    "a program": [entry(mode=(stat.S_IFREG | 0o755) << 16)],
    "twice": [entry(), entry()],
    "a bomb": [entry(content=bytes(100), compress_type=zipfile.ZIP_DEFLATED)],
    "large": [entry(content=bytes(_MOST_BYTES))],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_archive_leaves_nothing_behind(archive, tmp_path, entries):
    with zipfile.ZipFile(archive, "a") as file:
        for info, content in entries:
            file.writestr(info, content)
    with pytest.raises(StudyError, match="nothing of it was unpacked"):
        KitArchive(archive).unpack(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("part", [slice(0), slice(100), slice(-30), slice(30, None)], ids=str)
def test_half_an_archive_is_refused(archive, tmp_path, part):
    archive.write_bytes(archive.read_bytes()[part])
    with pytest.raises(StudyError, match="nothing of it was unpacked"):
        KitArchive(archive).unpack(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_content_is_refused(archive, tmp_path):
    archive.write_bytes(archive.read_bytes().replace(b"root", b"boot"))
    with pytest.raises(StudyError, match="nothing of it was unpacked"):
        KitArchive(archive).unpack(tmp_path / "new")


def said(**changes):
    return json.dumps({**asdict(ABBEY), **changes}).encode()


NO_KITS = {
    "none": None, "empty": b"", "a list": b"[]", "nothing": b"{}", "no text": b"\xff",
    "deep": b"[" * 100_000, "deep inside": b'{"a":' * 100_000, "long": b'{"port":' + b"9" * 5000,
    "participant": said(participant=["x"]), "control": said(participant="\x1b[31m"),
    "host": said(host=None), "port": said(port="8002"), "truth": said(port=True),
    "role": said(role="king"), "roles": said(role=["source"]), "sites": said(sites=3),
    "site": said(sites={"abbey": []}), "version": said(fedcsa=1), "more": said(x=1),
}  # fmt: skip


@pytest.mark.parametrize("content", NO_KITS.values(), ids=NO_KITS)
def test_a_kit_that_does_not_say_whose_it_is_is_refused(tmp_path, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for info, text in [entry(), *([] if content is None else [entry("kit.json")])]:
            file.writestr(info, content if info.filename == "kit.json" else text)
    (tmp_path / "abbey.zip").write_bytes(buffer.getvalue())
    with pytest.raises(StudyError, match="whose kit it is"):
        KitArchive(tmp_path / "abbey.zip").unpack(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_renewed_kit_replaces_the_older_one_which_keeps_what_it_remembers(archive, tmp_path):
    old = write_kit(tmp_path / "old", files={"startup/client.key": b"old", "local/x.json": b""})
    for kept in (HEAD, "engine.log"):
        (old / kept).write_text("kept")
    KitArchive(archive).unpack(old)
    found = unpacked(old)
    assert {**found, "kit.json": b""} == {
        **FILES, "kit.json": b"", HEAD: b"kept", "engine.log": b"kept",
    }  # fmt: skip


def test_a_kit_in_use_and_what_is_no_older_kit_are_left_alone(archive, tmp_path):
    birch = Kit(**{**asdict(ABBEY), "participant": "birch"})
    other = Kit(**{**asdict(ABBEY), "federation": "other"})
    places = [write_kit(tmp_path / about.participant, about) for about in (birch, other)]
    places += [tmp_path / "full"]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    for place in places:
        before = unpacked(place)
        with pytest.raises(StudyError, match="something other than an older kit"):
            KitArchive(archive).unpack(place)
        assert unpacked(place) == before
    used = write_kit(tmp_path / "used", files={"startup/client.key": b"old"})
    with alone(used), pytest.raises(ResultError, match="in use by another"):
        KitArchive(archive).unpack(used)
    assert (used / "startup" / "client.key").read_bytes() == b"old"


@pytest.mark.parametrize("part", ["startup", "local"])
def test_a_linked_folder_is_left_alone(archive, tmp_path, part):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("mine")
    old = write_kit(tmp_path / "old", files={})
    (old / part).symlink_to(tmp_path / "mine")
    for place in (old, tmp_path / "mine" / "x"):
        with pytest.raises(StudyError, match="something other than an older kit"):
            KitArchive(archive).unpack(place)
    assert unpacked(tmp_path / "mine") == {"x": b"mine"}


def test_a_place_that_cannot_be_written_is_named(archive, tmp_path, monkeypatch):
    def full(*_):
        raise OSError

    monkeypatch.setattr("fedcsa.federation.flare.kits.write_secret", full)
    with pytest.raises(StudyError, match=r"cannot be written to .*new' \(OSError\)"):
        KitArchive(archive).unpack(tmp_path / "new")


def test_half_an_installation_can_be_repeated(archive, tmp_path):
    new = tmp_path / "new"
    KitArchive(archive).unpack(new)
    (new / "kit.json").unlink()
    KitArchive(archive).unpack(new)
    assert Kit.load(new) == ABBEY


# The command ---------------------------------------------------------------------------------


def install(*arguments, answer=None):
    words = ["federation", "install", *map(str, arguments)]
    done = CliRunner().invoke(app, words, input=answer, env={"NO_COLOR": "1", "COLUMNS": "200"})
    return done.exit_code, done.stdout, done.stderr


def test_without_a_terminal_the_fingerprint_must_be_given(archive):
    number = KitArchive(archive).fingerprint
    code, _, said = install(archive, "--out", archive.parent / "new")
    assert code == 3
    assert number in said
    assert not (archive.parent / "new").exists()
    code, out, _ = install(archive, "--out", archive.parent / "new", "--fingerprint", number)
    assert (code, "The kit of abbey (source)" in out) == (0, True)
    assert Kit.load(archive.parent / "new") == ABBEY


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 3), ("\n", 3)])
def test_on_a_terminal_the_person_is_asked(archive, monkeypatch, answer, code):
    class Terminal:
        stdin = type("Stdin", (), {"isatty": staticmethod(lambda: True)})

    monkeypatch.setattr(federation_command, "sys", Terminal)
    out = archive.parent / "new"
    ended, _, said = install(archive, "--out", out, answer=answer)
    assert (ended, out.exists()) == (code, code == 0)
    assert f"Fingerprint: {KitArchive(archive).fingerprint}" in said


def test_a_file_that_is_not_there_is_named(tmp_path):
    code, _, said = install(tmp_path / "abbey.zip", "--fingerprint", "0")
    assert (code, "cannot be read" in said) == (3, True)
