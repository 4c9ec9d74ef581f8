"""Start-up kits: one folder per participant, with the engine's settings, hardened, and our keys.

A kit is handed over as one file, with a fingerprint to compare by telephone: a ZIP without
compression, with fixed times and permissions, so that the same kit is the same bytes. It holds the
files of the kit and nothing else, and nothing else is unpacked.
"""

from __future__ import annotations

import hmac
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from cryptography.hazmat.primitives.serialization import Encoding

from fedcsa.errors import ProtocolError, StudyError, unknown
from fedcsa.federation.federation_file import AUTHORITY, SITE_ROLES, USER_ROLES, Federation
from fedcsa.federation.flare import require_engine
from fedcsa.federation.flare.certificates import (
    DAYS,
    DENIED,
    ENGINE_ROLES,
    ORGANISATION,
    Authority,
    check_password,
    locked_path,
    write_key,
    write_secret,
)
from fedcsa.federation.flare.hardening import harden, write_json
from fedcsa.site.state import alone

#: Says whose kit a folder is.
KIT_FILE = "kit.json"
#: Files of settings with which `fedcsa` starts the engine; it makes others, for other ways.
_SETTINGS = {
    "startup": ("fed_admin.json", "fed_client.json", "fed_server.json"),
    "local": (
        "authorization.json", "log_config.json.default", "privacy.json", "resources.json",
    ),
}  # fmt: skip
#: Folders of a kit; the engine's names.
KIT_FOLDERS = tuple(_SETTINGS)
#: How files with keys and certificates begin.
_ENDS = ("server", "client")
#: Every file that a kit can have when it is handed over.
KIT_FILES = frozenset((
    KIT_FILE, DENIED, "startup/rootCA.pem",
    *(f"{folder}/{name}" for folder, names in _SETTINGS.items() for name in names),
    *(f"startup/{end}.{kind}" for end in _ENDS for kind in ("crt", "key", "key.locked")),
))  # fmt: skip
#: Whoever has a kit.
_KIT_ROLES = ("server", *SITE_ROLES, *USER_ROLES)
#: A kit has 40 kB.
_MOST_BYTES = 1 << 20
#: What half an installation leaves.
_HALF = {*KIT_FOLDERS, DENIED, ".running"}
#: The first moment that a ZIP can tell.
_WHEN = (1980, 1, 1, 0, 0, 0)
#: A file that its owner alone reads and writes, as an archive made on Unix tells it.
_MODE = (stat.S_IFREG | 0o600) << 16
_UNIX = 3
#: Letters of a group of a fingerprint, as people read numbers aloud.
_GROUP = 4


@dataclass(frozen=True)
class Kit:
    """What a kit says about itself.

    Attributes
    ----------
    federation, participant, host : str
    role : {"server", "source", "target", "lead", "viewer"}
    port : int
    sites : dict of str to str
        Role of every site.
    fedcsa : str
        The version that made it.
    """

    federation: str
    participant: str
    role: str
    host: str
    port: int
    sites: dict[str, str]
    fedcsa: str

    @classmethod
    def from_json(cls, content: bytes) -> Kit:
        """Read what a kit says, or raise a `ValueError`."""
        try:
            kit = cls(**json.loads(content))
        except (TypeError, RecursionError):
            raise ValueError("It must be an object with the fields of a kit.") from None
        texts = (kit.federation, kit.participant, kit.host, kit.fedcsa)
        if not all(isinstance(text, str) and text.isprintable() for text in texts):
            raise ValueError("The names in a kit must be texts.")
        if type(kit.port) is not int or kit.role not in _KIT_ROLES:
            raise ValueError("A kit must have a port and a role.")
        if not isinstance(kit.sites, dict) or not all(
            role in SITE_ROLES for role in kit.sites.values()
        ):
            raise ValueError("The sites in a kit must be names with roles.")
        return kit

    @classmethod
    def load(cls, folder: Path) -> Kit:
        """Read a kit, or raise a `StudyError` that says how to get one."""
        try:
            return cls.from_json((folder / KIT_FILE).read_bytes())
        except (OSError, ValueError):
            raise StudyError(
                f"The folder {str(folder)!r} is not a start-up kit. Ask whoever runs the "
                "federation for one, or make it with: fedcsa federation provision"
            ) from None


def provision(
    federation: Federation, out: Path, *, days: int = DAYS, password: str = ""
) -> list[Path]:
    """Make a kit in `out` for every participant that has none; kits made before stay as they are.

    Parameters
    ----------
    federation : Federation
    out : Path
    days : int
        That the certificates last.
    password : str
        Locks the keys; empty leaves them unlocked.

    Returns
    -------
    list of Path
        The new kits.
    """
    for name in _participants(federation):
        _check_same(federation, out / name)
    authority = Authority(out / AUTHORITY, federation.name)
    missing = [name for name in _participants(federation) if not authority.issued(name)]
    return _make(federation, out, missing, authority, days, password)


def renew(
    federation: Federation, out: Path, name: str, *, days: int = DAYS, password: str = ""
) -> Path:
    """Make the kit of one participant anew, with a new key; nobody else's changes.

    The certificate that it had before counts until it ends, or is denied.

    Parameters
    ----------
    federation, out, days, password
        As for `provision`.
    name : str
        Of the participant.
    """
    if name not in _participants(federation):
        raise StudyError(unknown("participant", name, list(_participants(federation))))
    if not (out / AUTHORITY).is_dir():
        raise StudyError(
            f"The folder {str(out)!r} has no {AUTHORITY}/. Name the folder in which the kits were "
            "made."
        )
    if locked_path(out / name, _participants(federation)[name]).exists() and not password:
        raise StudyError(
            f"The key of {name!r} is locked by a password. Lock the new one too, with --password "
            "or --password-file."
        )
    authority = Authority(out / AUTHORITY, federation.name)
    [kit] = _make(federation, out, [name], authority, days, password)
    return kit


def deny(out: Path, name: str) -> Path:
    """Take back every certificate made so far for a participant; the list to hand to every site.

    Parameters
    ----------
    out : Path
        Folder of the kits.
    name : str
        Of the participant.
    """
    if not (out / AUTHORITY).is_dir():
        raise StudyError(f"The folder {str(out)!r} has no {AUTHORITY}/, which signs the list.")
    Authority(out / AUTHORITY, "").deny(name, out / DENIED)
    return out / DENIED


def _participants(federation: Federation) -> dict[str, str]:
    """Role of everyone who has a kit."""
    return {federation.host: "server", **federation.sites, **federation.users}


def _about(federation: Federation, name: str) -> Kit:
    """What a participant's kit says about itself.

    Parameters
    ----------
    federation : Federation
    name : str
    """
    return Kit(
        federation.name, name, _participants(federation)[name], federation.host, federation.port,
        dict(federation.sites), version("fedcsa"),
    )  # fmt: skip


def _check_same(federation: Federation, kit: Path) -> None:
    """Raise a `StudyError` if a kit that is here says something else than the federation file.

    Parameters
    ----------
    federation : Federation
    kit : Path
    """
    if not (kit / KIT_FILE).exists():
        return
    made, meant = Kit.load(kit), _about(federation, kit.name)
    for part in ("federation", "role", "host", "port"):
        if getattr(made, part) != getattr(meant, part):
            raise StudyError(
                f"The kit {str(kit)!r} was made for another {part}. Make it anew with: "
                f"fedcsa federation renew {kit.name}"
            )


def _make(
    federation: Federation,
    out: Path,
    names: list[str],
    authority: Authority,
    days: int,
    password: str,
) -> list[Path]:
    """Make kits: the engine's settings, hardened, and keys of our own.

    Parameters
    ----------
    federation, out, days, password
        As for `provision`.
    names : list of str
        Of the participants.
    authority : Authority
    """
    require_engine()
    check_password(password)
    with tempfile.TemporaryDirectory() as scratch:
        made = _settings(federation, Path(scratch)) if names else Path()
        for name in names:
            about, kit = _about(federation, name), out / name
            _take_settings(made / name, kit, about.role)
            key, certificate = authority.issue(name, about.role, days)
            write_key(kit, about.role, key, password)
            end = "server.crt" if about.role == "server" else "client.crt"
            for file, signed in ((end, certificate), ("rootCA.pem", authority.root)):
                (kit / "startup" / file).write_bytes(signed.public_bytes(Encoding.PEM))
            if (out / DENIED).exists():
                shutil.copy(out / DENIED, kit)
            write_json(kit / KIT_FILE, asdict(about))
    return [out / name for name in names]


def _take_settings(made: Path, kit: Path, role: str) -> None:
    """Put the engine's settings into a kit, hardened, and no script, sample or readme of its own.

    What a participant has in an older kit beside them stays: the list of certificates that no
    longer count, and what the kit remembers of its log.

    Parameters
    ----------
    made : Path
        What the engine wrote for this participant.
    kit : Path
    role : str
    """
    kit.mkdir(parents=True, exist_ok=True)
    kit.chmod(0o700)
    for part in KIT_FOLDERS:
        shutil.rmtree(kit / part, ignore_errors=True)
        shutil.copytree(made / part, kit / part)
    if role in ("server", "source", "target"):
        harden(kit, role)
    for part, names in _SETTINGS.items():
        for path in (kit / part).iterdir():
            if path.name not in names:
                path.unlink()


def _project(federation: Federation) -> dict[str, object]:
    people = [
        {"name": name, "type": "admin", "org": ORGANISATION, "role": ENGINE_ROLES[role]}
        for name, role in federation.users.items()
    ]
    sites = [{"name": name, "type": "client", "org": ORGANISATION} for name in federation.sites]
    server = {
        "name": federation.host, "type": "server", "org": ORGANISATION,
        "fed_learn_port": federation.port, "admin_port": federation.port,
    }  # fmt: skip
    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": federation.name,
        "description": "made by fedcsa",
        "participants": [server, *sites, *people],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder",
             "args": {"template_file": ["master_template.yml"]}},
            {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config"}},
        ],
    }  # fmt: skip


def _settings(federation: Federation, workspace: Path) -> Path:
    """The engine's settings for every participant, each in a folder of its name.

    Parameters
    ----------
    federation : Federation
    workspace : Path
        To write in.
    """
    project = workspace / "project.json"  # JSON is YAML too
    write_json(project, _project(federation))
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "nvflare.lighter.provision", "--force",
         "-p", str(project), "-w", str(workspace)],
        capture_output=True, text=True, timeout=300, check=False, cwd=workspace,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ProtocolError(f"The engine could not make the kits: {''.join(last)[:300]}")
    return max((workspace / federation.name).glob("prod_*"))


# As one file ---------------------------------------------------------------------------------


def pack_kit(kit: Path) -> Path:
    """Write a new kit into ``NAME.zip`` beside its folder."""
    found = (path.relative_to(kit).as_posix() for path in kit.rglob("*") if path.is_file())
    content = io.BytesIO()
    with ZipFile(content, "w", ZIP_STORED) as archive:
        for name in sorted(KIT_FILES.intersection(found)):
            info = ZipInfo(name, _WHEN)
            info.create_system, info.external_attr = _UNIX, _MODE
            archive.writestr(info, (kit / name).read_bytes())
    path = kit.with_name(f"{kit.name}.zip")
    write_secret(path, content.getvalue())
    return path


class KitArchive:
    """A kit that came as one file, read once.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    fingerprint : str
        SHA-256 of the file, in groups of four.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                self._content = file.read(_MOST_BYTES)  # what is cut off is no archive
        except OSError as error:
            raise StudyError(
                f"The file {str(path)!r} cannot be read ({type(error).__name__}). Name another."
            ) from None
        digits = sha256(self._content).hexdigest()
        groups = (digits[at : at + _GROUP] for at in range(0, len(digits), _GROUP))
        self.fingerprint = " ".join(groups)

    def check(self, told: str) -> None:
        """Raise a `StudyError` unless the fingerprint is the one that the sender told."""
        plain = re.sub(r"[\s:-]", "", told).lower()
        mine = self.fingerprint.replace(" ", "")
        if not hmac.compare_digest(plain.encode(), mine.encode()):
            raise StudyError(
                f"The fingerprint of {str(self._path)!r} is {self.fingerprint}, and another one "
                "was told. The file was changed on its way, or is another kit. Ask for it again."
            )

    def unpack(self, folder: Path) -> Kit:
        """Write the kit into `folder`; an older kit of the same participant is replaced.

        What the older one has beside stays: the list of certificates that no longer count, and
        what it remembers of the site's log.
        """
        files = self._files()
        try:
            about = Kit.from_json(files[KIT_FILE])
        except (LookupError, ValueError):
            raise StudyError(
                f"The file {str(self._path)!r} does not say whose kit it is. Ask for it again."
            ) from None
        if not _is_for(folder, about):
            raise StudyError(
                f"The folder {str(folder)!r} holds something other than an older kit of "
                f"{about.participant!r}. Choose another with --out."
            )
        try:
            with alone(folder):
                for part in KIT_FOLDERS:
                    shutil.rmtree(folder / part, ignore_errors=True)
                    (folder / part).mkdir(mode=0o700)
                for name in sorted(files, key=lambda name: name == KIT_FILE):  # half a kit has none
                    write_secret(folder / name, files[name])
        except OSError as error:
            raise StudyError(
                f"The kit cannot be written to {str(folder)!r} ({type(error).__name__}). Choose "
                "another folder with --out."
            ) from None
        return about

    def _files(self) -> dict[str, bytes]:
        """What is in it by name, or a `StudyError` if that is not a kit and nothing else."""
        broken = StudyError(
            f"The file {str(self._path)!r} is not a kit as fedcsa packs it, and nothing of it was "
            "unpacked. Ask whoever runs the federation for it again."
        )
        try:
            with ZipFile(io.BytesIO(self._content)) as archive:
                listed = archive.infolist()
                names = {info.filename for info in listed}
                # Files of a kit, each once: no folder, link, device, or compression.
                how = {(info.external_attr, info.compress_type) for info in listed}
                sound = names <= KIT_FILES and how <= {(_MODE, ZIP_STORED)}
                if len(names) != len(listed) or not sound:
                    raise broken
                return {info.filename: archive.read(info) for info in listed}
        except (BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError):
            raise broken from None


def _is_for(folder: Path, about: Kit) -> bool:
    """Whether a folder is new, or an older kit of this participant, or half of one.

    Parameters
    ----------
    folder : Path
    about : Kit
        What the new kit says.
    """
    if not folder.exists():
        return True
    if any(path.is_symlink() or path.is_file() for path in map(folder.joinpath, KIT_FOLDERS)):
        return False
    if (folder / KIT_FILE).exists():
        there = Kit.load(folder)
        return (there.federation, there.participant) == (about.federation, about.participant)
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= _HALF
