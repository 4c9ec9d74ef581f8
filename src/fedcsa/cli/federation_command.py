"""``fedcsa federation``: set up a federation, run its server, check a kit."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Annotated

import click
from click.exceptions import Exit
from rich.text import Text

from fedcsa.cli.common import (
    Output,
    PasswordFile,
    Screen,
    Seed,
    argument,
    asking,
    option,
    out_option,
    unbroken,
)
from fedcsa.cli.program import Group
from fedcsa.errors import ProtocolError, ResultError, StudyError
from fedcsa.words import printable

federation = Group("federation", "Set up a federation of real sites.")
FederationFile = Annotated[Path, argument(metavar="FILE", help="The federation file.")]
KitsFolder = Annotated[Path, out_option("DIR", "Folder of the kits.")]
Days = Annotated[int, option(min=1, metavar="N", help="Days that a new certificate lasts.")]
Password = Annotated[bool, option("--password", help="Ask for a password that locks the key.")]
KitFolder = Annotated[Path, argument(metavar="KIT", help="A start-up kit, as provision makes it.")]


@federation.adds
def init(
    output: Output,
    file: FederationFile = Path("federation.toml"),
) -> None:
    """Write a commented federation file to fill in.

    It never overwrites an older one (exit code 3).

    Examples
    --------
    fedcsa federation init                     # writes federation.toml
    fedcsa federation init trials/federation.toml
    """
    from fedcsa.federation.federation_file import FEDERATION_TEMPLATE

    if file.exists():
        raise ResultError(f"{str(file)!r} already exists. Delete it or choose another name.")
    name = re.sub(r"[^A-Za-z0-9]", "-", file.absolute().parent.name) or "federation"
    with unbroken():
        file.write_text(FEDERATION_TEMPLATE.format(name=name[:60]), encoding="utf-8")
    told = f"Written to {file}. Fill it in, then: fedcsa federation provision {file}"
    output.tell({"file": str(file)}, told, file)


@federation.adds
def provision(
    output: Output,
    file: FederationFile = Path("federation.toml"),
    out: KitsFolder = Path("kits"),
    days: Days = 360,
    password: Password = False,
    password_file: PasswordFile = None,
) -> None:
    """Make one start-up kit per participant, with every protection switched on.

    Reads the federation file and writes a folder per participant, and the same as one file,
    NAME.zip, to hand over. The participant installs it and compares the fingerprint by telephone.
    Run again, it makes kits for new participants and leaves the others as they are.

    Examples
    --------
    fedcsa federation provision federation.toml --out kits
    fedcsa federation provision --password-file password.txt
    """
    from fedcsa.federation.federation_file import AUTHORITY, Federation
    from fedcsa.federation.flare import require_engine

    described = Federation.load(file)
    require_engine()
    from fedcsa.federation.flare.kits import provision as make

    secret = asking(password_file, twice=True)() if password or password_file else ""
    with output.working("making keys and certificates"), unbroken():
        kits = make(described, out, days=days, password=secret)
        packed = [_packed(kit) for kit in kits]
    lines = [f"New kits in {out}: {len(kits)}"]
    lines += [f"  {kit['archive']}\n    {kit['fingerprint']}" for kit in packed]
    lines += [_COMPARE] if packed else []
    lines.append(f"Keep {out / AUTHORITY} to yourself: it holds the key that makes certificates.")
    output.tell({"kits": packed}, "\n".join(lines), out)


#: What to do with the numbers under the names of the archives.
_COMPARE = (
    "Hand each archive to its participant alone. Tell the number below its name by telephone: "
    "fedcsa federation install shows it there."
)


def _packed(kit: Path) -> dict[str, str]:
    """Pack a kit; its folder, the archive, and the archive's fingerprint."""
    from fedcsa.federation.flare.kits import KitArchive, pack_kit

    archive = pack_kit(kit)
    number = KitArchive(archive).fingerprint
    return {"folder": str(kit), "archive": str(archive), "fingerprint": number}


@federation.adds
def install(
    output: Output,
    archive: Annotated[Path, argument(metavar="ARCHIVE", help="A kit, NAME.zip.")],
    out: Annotated[Path | None, out_option("DIR", "The kit's folder; by default NAME.")] = None,
    fingerprint: Annotated[
        str | None,
        option(metavar="NUMBER", help="As the sender told it to you; without it you are asked."),
    ] = None,
) -> None:
    """Unpack a kit that came as one file, after its fingerprint was compared.

    Shows the fingerprint of the file and asks whether the sender told the same one. An older
    kit of the same participant in that folder is replaced, and keeps what it remembers of the
    site's log. A changed file, or one with anything else in it, is refused (exit code 3).

    Examples
    --------
    fedcsa federation install abbey.zip
    fedcsa federation install abbey.zip --out kits/abbey
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.federation.flare.kits import KitArchive

    came = KitArchive(archive)
    came.check(_told(came.fingerprint) if fingerprint is None else fingerprint)
    folder = archive.with_suffix("") if out is None else out
    with unbroken():
        about = came.unpack(folder)
    told = f"The kit of {about.participant} ({about.role}) is in {folder}. Delete {archive}."
    content = {"kit": str(folder), "participant": about.participant, "role": about.role}
    output.tell(content, printable(told), folder)


def _told(fingerprint: str) -> str:
    """The fingerprint that the sender told, by the word of the person at the terminal."""
    if not sys.stdin.isatty():
        raise StudyError(
            f"The fingerprint is {fingerprint}. Compare it with the sender's by telephone, then "
            "give it: --fingerprint NUMBER"
        )
    click.echo(f"Fingerprint: {fingerprint}", err=True)
    same = click.confirm("Did the sender tell you the same by telephone?", err=True)
    return fingerprint if same else ""


@federation.adds
def renew(
    output: Output,
    name: Annotated[str, argument(metavar="NAME", help="A site, a user, or the host.")],
    file: FederationFile = Path("federation.toml"),
    out: KitsFolder = Path("kits"),
    days: Days = 360,
    password: Password = False,
    password_file: PasswordFile = None,
) -> None:
    """Make the kit of one participant anew, with a new key and certificate; nobody else's changes.

    For a certificate that ends, a key that was lost, or another version of fedcsa. The old
    certificate counts until it ends: after a theft, deny it first.

    Examples
    --------
    fedcsa federation renew abbey federation.toml --out kits
    """
    from fedcsa.federation.federation_file import Federation
    from fedcsa.federation.flare import require_engine

    described = Federation.load(file)
    require_engine()
    from fedcsa.federation.flare.kits import renew as make

    secret = asking(password_file, twice=True)() if password or password_file else ""
    with output.working("making a key and a certificate"), unbroken():
        kit = make(described, out, name, days=days, password=secret)
        packed = _packed(kit)
    told = f"A new kit for {name}. Every other kit stays as it is.\n  {packed['archive']}\n"
    told += f"    {packed['fingerprint']}\n{_COMPARE}"
    output.tell(packed, told, kit)


@federation.adds
def deny(
    output: Output,
    name: Annotated[str, argument(metavar="NAME", help="Whose certificates no longer count.")],
    out: KitsFolder = Path("kits"),
) -> None:
    """Take back every certificate that a participant has had so far.

    Writes denied.json, signed by the federation's authority, for every site and lead to put into
    its kit. They check it for every message, whatever the server lets in. A kit that is renewed
    afterwards counts.

    Examples
    --------
    fedcsa federation deny abbey --out kits
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.federation.flare.kits import deny as take_back

    with unbroken():
        path = take_back(out, name)
    told = f"Written to {path}. Every site and lead puts it into its own kit, beside kit.json."
    output.tell({"file": str(path)}, told, path)


@federation.adds
def serve(
    output: Output,
    kit: KitFolder,
    password_file: PasswordFile = None,
) -> None:
    """Run the server of a federation in the foreground, until Ctrl-C.

    It carries messages and holds no data. Its log is engine.log in the kit. With --json, one
    object a line. Ctrl-C is the ordinary end (exit code 0); 4 if the server ends by itself.

    Examples
    --------
    fedcsa federation serve kits/localhost
    """
    from fedcsa.federation.flare import require_engine
    from fedcsa.site.state import alone

    require_engine()
    from fedcsa.federation.flare.certificates import unlocked
    from fedcsa.federation.flare.kits import Kit
    from fedcsa.federation.flare.process import EngineProcess, until_stopped

    about = Kit.load(kit)
    if about.role != "server":
        raise ProtocolError(
            f"{str(kit)!r} is the kit of a {about.role}, not of the server. "
            "Name the folder with the name of the server's host."
        )
    with (
        alone(kit),
        unlocked(kit, about.role, asking(password_file)),
        EngineProcess(kit, about) as process,
        until_stopped() as stopped,
    ):
        output.line(
            {"federation": about.federation, "port": about.port, "text": "serving"},
            f"serving {about.federation} on port {about.port}",
        )
        while not stopped.is_set() and process.poll() is None:
            time.sleep(0.2)
        ended = process.poll()
    if ended not in (None, 0) and not stopped.is_set():
        raise ProtocolError(
            f"The server ended by itself, with code {ended}. See {kit / 'engine.log'}."
        )


@federation.adds
def doctor(
    output: Output,
    kit: KitFolder,
    data: Annotated[Path | None, option(metavar="SITE", help="The site's own file.")] = None,
) -> None:
    """Check a kit, the way to the server, and a site's file; say what is wrong and how to mend it.

    Reads the kit and the file, knocks at the server, and writes nothing. Exit code 3 if
    something is wrong; --quiet then shows only that.

    Examples
    --------
    fedcsa federation doctor kits/abbey --data site.toml
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.federation.flare.doctor import check_kit

    with output.working("examining"):
        checks = check_kit(kit, data)
    problems = [text for _, ok, text in checks if not ok]

    def show(screen: Screen) -> None:
        for what, ok, text in checks:
            mark = ("ok  ", "green") if ok else ("bad ", "bold red")
            if not (ok and output.quiet):
                screen.print(Text.assemble(mark, printable(f"{what}: {text}")), soft_wrap=True)

    content = {"checks": [{"what": w, "ok": ok, "text": t} for w, ok, t in checks]}
    output.answer_problems(content, show, problems)


@federation.adds
def demo(
    output: Output,
    out: Annotated[Path, out_option("DIR", "A new folder for kits, sites and the result.")] = Path(
        "federation-demo"
    ),
    seed: Seed = 1,
) -> None:
    """Run a whole federation on this machine: a server, a target, four sources, mutual TLS.

    Writes kits, tables, ledgers and a result into a new folder, runs a study, and stops
    everything. It listens on this machine only.

    Examples
    --------
    fedcsa federation demo --out federation-demo
    """
    from fedcsa.federation.flare import require_engine

    require_engine()
    from fedcsa.cli.federation_demo import run_demo

    if out.exists() and any(out.iterdir()):
        raise ResultError(f"The folder {str(out)!r} is not empty. Choose another.")
    code = run_demo(out, output, seed)
    if code:
        raise Exit(code)
