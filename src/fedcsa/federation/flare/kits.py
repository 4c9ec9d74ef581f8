"""Start-up kits: one folder per participant, made by the engine's provisioning and hardened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from fedcsa.errors import ProtocolError, StudyError
from fedcsa.federation.federation_file import AUTHORITY, Federation
from fedcsa.federation.flare import require_engine
from fedcsa.federation.flare.hardening import harden

_KIT = "kit.json"
_ORGANISATION = "fedcsa"
_ROLES = {"lead": "lead", "viewer": "member"}


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
    def load(cls, folder: Path) -> Kit:
        """Read a kit, or raise a `StudyError` that says how to get one."""
        try:
            return cls(**json.loads((folder / _KIT).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise StudyError(
                f"The folder {str(folder)!r} is not a start-up kit. Ask whoever runs the "
                "federation for one, or make it with: fedcsa federation provision"
            ) from None


def provision(federation: Federation, out: Path) -> list[Path]:
    """Make a kit per participant in `out`; kits made before stay valid.

    Returns
    -------
    list of Path
        The kits.
    """
    require_engine()
    authority = out / AUTHORITY
    authority.mkdir(parents=True, exist_ok=True, mode=0o700)
    project = authority / "project.json"  # JSON is YAML too
    project.write_text(json.dumps(_project(federation), indent=1), encoding="utf-8")
    _run_engine(project, authority)
    newest = max((authority / federation.name).glob("prod_*"))
    roles = {federation.host: "server", **federation.sites, **federation.users}
    kits = []
    for name, role in roles.items():
        kit = out / name
        for part in ("startup", "local"):  # of an older kit
            shutil.rmtree(kit / part, ignore_errors=True)
        shutil.copytree(newest / name, kit, dirs_exist_ok=True)
        kit.chmod(0o700)
        for key in (kit / "startup").glob("*.key"):
            key.chmod(0o600)
        if role in ("server", "source", "target"):
            harden(kit, role)
        about = Kit(
            federation.name, name, role, federation.host, federation.port,
            dict(federation.sites), version("fedcsa"),
        )  # fmt: skip
        (kit / _KIT).write_text(json.dumps(asdict(about), indent=1) + "\n", encoding="utf-8")
        kits.append(kit)
    shutil.rmtree(newest)
    return kits


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
            {"path": f"{impl}.cert.CertBuilder"},
            {"path": f"{impl}.signature.SignatureBuilder"},
        ],
    }  # fmt: skip


def _run_engine(project: Path, workspace: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "nvflare.lighter.provision", "--force",
         "-p", str(project.absolute()), "-w", str(workspace.absolute())],
        capture_output=True, text=True, timeout=300, check=False, cwd=workspace,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ProtocolError(f"The engine could not make the kits: {''.join(last)[:300]}")
