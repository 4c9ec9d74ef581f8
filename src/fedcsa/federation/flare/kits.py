"""Start-up kits: one folder per participant, with the engine's settings, hardened, and our keys."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from fedcsa.errors import ProtocolError, StudyError, unknown
from fedcsa.federation.federation_file import AUTHORITY, SITE_ROLES, USER_ROLES, Federation
from fedcsa.federation.flare import require_engine
from fedcsa.federation.flare.certificates import DAYS, DENIED, Authority
from fedcsa.federation.flare.hardening import harden
from fedcsa.federation.flare.keys import check_password, locked_path, write_key

#: Says whose kit a folder is.
KIT_FILE = "kit.json"
_ORGANISATION = "fedcsa"
_ROLES = {"lead": "lead", "viewer": "member"}
#: Files of settings with which `fedcsa` starts the engine; it makes others, for other ways.
_SETTINGS = {
    "startup": ("fed_admin.json", "fed_client.json", "fed_server.json"),
    "local": (
        "authorization.json", "log_config.json.default", "privacy.json", "resources.json",
    ),
}  # fmt: skip
KIT_FOLDERS = tuple(_SETTINGS)
_ENDS = ("server", "client")
#: Every file that a kit can have when it is handed over.
KIT_FILES = frozenset((
    KIT_FILE, DENIED, "startup/rootCA.pem",
    *(f"{folder}/{name}" for folder, names in _SETTINGS.items() for name in names),
    *(f"startup/{end}.{kind}" for end in _ENDS for kind in ("crt", "key", "key.locked")),
))  # fmt: skip
_KIT_ROLES = ("server", *SITE_ROLES, *USER_ROLES)


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
    """Take back every certificate made so far for `name`; the list to hand to every site."""
    if not (out / AUTHORITY).is_dir():
        raise StudyError(f"The folder {str(out)!r} has no {AUTHORITY}/, which signs the list.")
    Authority(out / AUTHORITY, "").deny(name, out / DENIED)
    return out / DENIED


def _participants(federation: Federation) -> dict[str, str]:
    """Role of everyone who has a kit."""
    return {federation.host: "server", **federation.sites, **federation.users}


def _about(federation: Federation, name: str) -> Kit:
    return Kit(
        federation.name, name, _participants(federation)[name], federation.host, federation.port,
        dict(federation.sites), version("fedcsa"),
    )  # fmt: skip


def _check_same(federation: Federation, kit: Path) -> None:
    """Raise a `StudyError` if a kit that is here says something else than the federation file."""
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
    """Make the kits of `names`: the engine's settings, hardened, and keys of our own."""
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
            text = json.dumps(asdict(about), indent=1) + "\n"
            (kit / KIT_FILE).write_text(text, encoding="utf-8")
    return [out / name for name in names]


def _take_settings(made: Path, kit: Path, role: str) -> None:
    """Put the engine's settings into a kit, hardened, and no script, sample or readme of its own.

    What a participant has in an older kit beside them stays: the list of certificates that no
    longer count, and what the kit remembers of its log.
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
        {"name": name, "type": "admin", "org": _ORGANISATION, "role": _ROLES[role]}
        for name, role in federation.users.items()
    ]
    sites = [{"name": name, "type": "client", "org": _ORGANISATION} for name in federation.sites]
    server = {
        "name": federation.host, "type": "server", "org": _ORGANISATION,
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
    """The engine's settings for every participant, each in a folder of its name."""
    project = workspace / "project.json"  # JSON is YAML too
    project.write_text(json.dumps(_project(federation), indent=1), encoding="utf-8")
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
