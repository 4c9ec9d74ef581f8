"""What is wrong with a kit or a site, and how to mend it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil
from cryptography import x509

from fedcsa.errors import BindingError, FedCSAError, StudyError
from fedcsa.federation.flare.certificates import denied_in, fingerprint, key_path, locked_path
from fedcsa.federation.flare.hardening import problems_of
from fedcsa.federation.flare.kits import Kit
from fedcsa.federation.flare.settings import read_settings
from fedcsa.site.log import SiteLog
from fedcsa.site.site_file import SiteFile
from fedcsa.site.state import Status

#: What was looked at, whether it is well, and what to say.
Check = tuple[str, bool, str]
#: File of a kit with the number of the engine's process.
PID = "fedcsa.pid"
#: Days before its end from which on a certificate is called bad: a new one takes a while.
_SOON = 30


def check_kit(folder: Path, data: Path | None = None) -> list[Check]:
    """Every check of a kit, and of a site's file if there is one.

    Parameters
    ----------
    folder : Path
        Of the kit.
    data : Path, optional
        The site's file; by default the one that the kit was last started with.
    """
    try:
        kit = Kit.load(folder)
    except StudyError as error:
        return [("kit", False, str(error))]
    checks = [("kit", True, f"{kit.participant}, {kit.role} of {kit.federation}")]
    checks += _versions(kit)
    checks += _certificates(folder, kit)
    if kit.role in ("server", "source", "target"):
        found = problems_of(folder, kit.role)
        checks += [("protection", False, text) for text in found]
        if not found:
            checks.append(("protection", True, "no code, no shell, no log streaming, own filter"))
    if kit.role != "server":
        checks += _way(folder, kit)
    if kit.role in ("source", "target"):
        start = f"not running; start it with: fedcsa site start {folder}"
        checks.append(("site", True, "running" if engine_runs(folder) else start))
        checks += _site(folder, kit, data)
    return checks


def _versions(kit: Kit) -> Iterator[Check]:
    own, engine = version("fedcsa"), version("nvflare")
    mend = "" if kit.fedcsa == own else " Install the same version everywhere."
    yield "fedcsa", not mend, f"{own} here, the kit was made by {kit.fedcsa}.{mend}"
    mend = "" if engine.startswith("2.9.") else "; it must be 2.9."
    yield "engine", not mend, f"nvflare {engine}{mend}"


def _certificates(folder: Path, kit: Kit) -> Iterator[Check]:
    """Whether certificates, key and deny-list are there and count.

    Parameters
    ----------
    folder : Path
    kit : Kit
    """
    name = "server.crt" if kit.role == "server" else "client.crt"
    found = {}
    for file in (name, "rootCA.pem"):
        try:
            content = (folder / "startup" / file).read_bytes()
            found[file] = x509.load_pem_x509_certificate(content)
        except (OSError, ValueError):
            yield file, False, "is missing in startup/, or no certificate. Ask for a new kit."
            continue
        end = found[file].not_valid_after_utc
        days = (end - datetime.now(UTC)).days
        text = f"valid until {end:%Y-%m-%d}"
        if days <= _SOON:
            mend = {name: f"renew {kit.participant}"}.get(file, "provision, into a new folder")
            text += f", {max(days, 0)} days from now: ask for a kit by fedcsa federation {mend}"
        yield file, days > _SOON, text
    yield _key(folder, kit)
    if {name, "rootCA.pem"} <= found.keys():
        yield _deny_list(folder, found[name], found["rootCA.pem"])


def _key(folder: Path, kit: Kit) -> Check:
    """Whether the key is its owner's alone.

    Parameters
    ----------
    folder : Path
    kit : Kit
    """
    locked, key = locked_path(folder, kit.role), key_path(folder, kit.role)
    path = locked if locked.exists() else key
    if not path.is_file() or path.stat().st_mode & 0o077:
        return "key", False, f"others can read it. Close it: chmod 600 {path}"
    how = "locked by a password" if path == locked else "readable by its owner only"
    return "key", True, how


def _deny_list(folder: Path, own: x509.Certificate, root: x509.Certificate) -> Check:
    """Whether the list is the authority's, and this kit not on it.

    Parameters
    ----------
    folder : Path
    own, root : x509.Certificate
        Of the kit and of the authority.
    """
    try:
        denied = denied_in(folder, root)
    except BindingError as error:
        return "deny-list", False, str(error)
    if fingerprint(own) in denied:
        return "deny-list", False, "this kit's own certificate was taken back. Ask for a new kit."
    return "deny-list", True, f"{len(denied)} certificates no longer count here"


def _way(folder: Path, kit: Kit) -> Iterator[Check]:
    """Whether the server can be reached, and is this federation's.

    Parameters
    ----------
    folder : Path
    kit : Kit
    """
    where = f"{kit.host}:{kit.port}"
    try:
        socket.getaddrinfo(kit.host, kit.port)
        context = ssl.create_default_context(cafile=str(folder / "startup" / "rootCA.pem"))
        key = key_path(folder, kit.role)
        if key.exists():  # a locked one is there only while the site runs
            context.load_cert_chain(folder / "startup" / "client.crt", key)
        with (
            socket.create_connection((kit.host, kit.port), timeout=5.0) as plain,
            context.wrap_socket(plain, server_hostname=kit.host),
        ):
            yield "server", True, f"{where} answers with a certificate of this federation"
    except socket.gaierror:
        yield "server", False, f"the name {kit.host!r} is unknown; ask for an entry in the DNS"
    except ssl.SSLError as error:
        yield "server", False, f"{where} shows a certificate of another federation ({error.reason})"
    except OSError as error:
        why = f"{where} cannot be reached ({type(error).__name__})."
        yield "server", False, f"{why} Is the server up? Does the firewall let this site out?"


def engine_runs(kit: Path) -> bool:
    """Whether the engine of the kit in this folder runs on this machine."""
    try:
        return bool(psutil.pid_exists(int((kit / PID).read_text())))
    except (OSError, ValueError):
        return False


def _site(folder: Path, kit: Kit, path: Path | None) -> Iterator[Check]:
    """Whether the site's file, table and log are sound; what waits, and what came last.

    Parameters
    ----------
    folder : Path
    kit : Kit
    path : Path or None
        Of the site's file.
    """
    try:
        path = path or read_settings(folder / "local")
    except StudyError:  # it was never started
        return
    try:
        site = SiteFile.load(path)
        yield "site file", True, str(path)
        yield _table(site)
        log = SiteLog(site.state_folder)
        log.check_site(kit.participant)
        log.check_kit(folder)
        yield "log", True, f"{len(log.events)} lines, {len(log.sent)} messages left, chain intact"
    except FedCSAError as error:
        yield "site", False, str(error)
        return
    for item in log.waiting():
        since = f" since {item['time']}" if item["time"] else ""
        yield "approval", True, f"{item['id']} waits{since}: fedcsa site approve {item['id']}"
    lines = Status(site.state_folder).lines()
    if lines:
        yield "last", True, f"{lines[-1]['time']} {lines[-1]['text']}"


def _table(site: SiteFile) -> Check:
    if not site.table1:
        return "table", True, f"{len(site.open_rows().columns())} columns"
    path = site.folder / site.table1  # what must be in it is up to a study
    there = path.is_file()
    return "table", there, f"Table 1 in {path}" if there else f"There is no file {path}."
