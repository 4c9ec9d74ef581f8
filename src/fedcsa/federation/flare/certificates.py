"""The federation's own authority, which makes certificates and takes them back; keys of kits.

::

    authority/root.key      makes certificates and signs the deny-list; keep it off the network
    authority/root.crt      the certificate that every kit believes
    authority/issued.json   name -> the certificates made for it, by their SHA-256
    denied.json             a list that every site checks itself, for every message

No other private key stays with the authority: it is in its kit and the archive of it. A
password may lock it there, as ``client.key.locked``. The engine reads no passwords, so while a
participant runs, an unlocked copy lies in memory (``/dev/shm``, where there is one), readable by
its owner only, and the kit has a link to it.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from fedcsa.errors import BindingError, StudyError, unknown

#: Days that a certificate lasts unless another number is asked for: it is renewed once a year.
DAYS = 360
#: Days that the authority's own lasts: it outlives many certificates, because its end is the
#: end of the federation.
_ROOT_DAYS = 3650
#: Bits of the RSA keys of a participant, for a year or so, and of the authority, for ten. NIST
#: allows 2048 until 2030. The engine takes RSA keys only.
_BITS, _ROOT_BITS = 2048, 3072
#: In every certificate: the engine asks for one, and the federation has no other.
ORGANISATION = "fedcsa"
#: Name of the deny-list, beside the kits and in every kit.
DENIED = "denied.json"
#: Role in the federation file -> role that the engine reads in a certificate.
ENGINE_ROLES = {"lead": "lead", "viewer": "member"}
#: Ends the name of a key that a password locks.
_LOCKED = ".locked"
#: Of scrypt, as OWASP advises: a guess costs 128 MB and a third of a second.
_COST, _BLOCKS, _LANES = 2**17, 8, 1
#: Bytes of a salt: no two of 128 random bits are alike.
_SALT = 16
#: Characters of a password: ten random ones of 64 are 60 bits.
_SHORTEST = 10
#: Where an unlocked key lies while a participant runs; no disk ever holds it.
_MEMORY = Path("/dev/shm")  # noqa: S108 - in memory, and the file is its owner's only


class Authority:
    """Makes certificates of one federation, and the list of those that no longer count.

    Parameters
    ----------
    folder : Path
        Made if it is not there, with a key of its own.
    name : str
        Of the federation.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._issued: dict[str, list[str]] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (folder / "root.crt").exists():
            self._make_root(name)
        try:
            key = load_pem_private_key((folder / "root.key").read_bytes(), None)
            self.root = x509.load_pem_x509_certificate((folder / "root.crt").read_bytes())
            self._issued = json.loads((folder / "issued.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):
            raise StudyError(
                f"The authority's files in {str(folder)!r} are damaged. Restore them from a backup."
            ) from None
        assert isinstance(key, rsa.RSAPrivateKey)  # noqa: S101 - for the type checker
        self._key = key

    def issued(self, name: str) -> list[str]:
        """The certificates made for `name` so far, by their SHA-256."""
        return list(self._issued.get(name, []))

    def issue(self, name: str, role: str, days: int) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
        """A new key, and a certificate for it.

        Parameters
        ----------
        name : str
            Of the participant; of the server, its host.
        role : {"server", "source", "target", "lead", "viewer"}
        days : int
            That the certificate lasts.
        """
        key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
        builder = _builder(_subject(name, role), self.root.subject, key, self._key, days)
        extension = x509.SubjectAlternativeName([_alternative(name)])
        certificate = builder.add_extension(extension, critical=False).sign(self._key, SHA256())
        self._issued.setdefault(name, []).append(fingerprint(certificate))
        self._write_issued()
        return key, certificate

    def deny(self, name: str, path: Path) -> None:
        """Put every certificate made so far for a participant on the list.

        Parameters
        ----------
        name : str
            Of the participant.
        path : Path
            Of the list.
        """
        if name not in self._issued:
            raise StudyError(unknown("participant with a certificate", name, self._issued))
        denied = read_denied(path, self.root) if path.exists() else {}
        denied[name] = self.issued(name)
        content = json.dumps(denied, sort_keys=True).encode()
        signature = self._key.sign(content, padding.PKCS1v15(), SHA256())
        path.write_bytes(content + b"\n" + base64.b64encode(signature) + b"\n")

    def _make_root(self, name: str) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=_ROOT_BITS)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        root = (
            _builder(subject, subject, key, key, _ROOT_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, SHA256())
        )
        write_secret(self._folder / "root.key", _pem(key))
        self._issued = {}
        self._write_issued()
        (self._folder / "root.crt").write_bytes(root.public_bytes(Encoding.PEM))

    def _write_issued(self) -> None:
        text = json.dumps(self._issued, indent=1, sort_keys=True)
        (self._folder / "issued.json").write_text(text + "\n", encoding="utf-8")


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, in hexadecimal."""
    return certificate.fingerprint(SHA256()).hex()


def read_denied(path: Path, root: x509.Certificate) -> dict[str, list[str]]:
    """The deny-list in a file, or a `BindingError` unless this federation's authority signed it.

    Parameters
    ----------
    path : Path
    root : x509.Certificate
        The authority's.
    """
    try:
        content, signature, *_ = path.read_bytes().split(b"\n")
        key = root.public_key()
        assert isinstance(key, rsa.RSAPublicKey)  # noqa: S101 - for the type checker
        key.verify(base64.b64decode(signature), content, padding.PKCS1v15(), SHA256())
        denied: dict[str, list[str]] = json.loads(content)
    except (OSError, ValueError, InvalidSignature):
        raise BindingError(
            "deny_list",
            f"The deny-list {str(path)!r} is damaged, or of another federation. Replace it by the "
            "one that came from whoever runs the federation.",
        ) from None
    return denied


def denied_in(kit: Path, root: x509.Certificate) -> set[str]:
    """The certificates that no longer count at the site with this kit; a kit may have no list.

    Parameters
    ----------
    kit : Path
    root : x509.Certificate
        The authority's.
    """
    path = kit / DENIED
    if not path.exists():
        return set()
    return {print_ for prints in read_denied(path, root).values() for print_ in prints}


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on.

    Parameters
    ----------
    path : Path
    content : bytes
    """
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPrivateKey,
    issuer_key: rsa.RSAPrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    """A certificate that is not signed yet.

    Parameters
    ----------
    subject, issuer : x509.Name
    key, issuer_key : RSAPrivateKey
        Of both.
    days : int
        That it lasts.
    """
    now = datetime.now(UTC) - timedelta(minutes=5)  # clocks of sites differ a little
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder(
            issuer, subject, key.public_key(), x509.random_serial_number(),
            now, now + timedelta(days=days),
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(identifier, critical=False)
    )  # fmt: skip


def _subject(name: str, role: str) -> x509.Name:
    """As the engine reads it: the role of a person stands in it.

    Parameters
    ----------
    name, role : str
        Of the participant.
    """
    attributes = [(NameOID.COMMON_NAME, name), (NameOID.ORGANIZATION_NAME, ORGANISATION)]
    if role in ENGINE_ROLES:
        attributes.append((NameOID.UNSTRUCTURED_NAME, ENGINE_ROLES[role]))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


# The private key of a kit --------------------------------------------------------------------


def key_path(kit: Path, role: str) -> Path:
    """Where the engine looks for a kit's private key.

    Parameters
    ----------
    kit : Path
    role : str
        Of its participant.
    """
    return kit / "startup" / ("server.key" if role == "server" else "client.key")


def locked_path(kit: Path, role: str) -> Path:
    """Where a kit's private key lies if a password locks it.

    Parameters
    ----------
    kit, role
        As for `key_path`.
    """
    path = key_path(kit, role)
    return path.with_name(path.name + _LOCKED)


def check_password(password: str) -> None:
    """Raise a `StudyError` if a password is too short; an empty one means that there is none."""
    if password and len(password) < _SHORTEST:
        raise StudyError(f"The password must have at least {_SHORTEST} characters.")


def write_key(kit: Path, role: str, key: RSAPrivateKey, password: str) -> None:
    """Write a kit's private key; an empty password leaves it unlocked.

    Parameters
    ----------
    kit : Path
    role : str
    key : RSAPrivateKey
    password : str
    """
    if not password:
        write_secret(key_path(kit, role), _pem(key))
        return
    salt = os.urandom(_SALT)
    how = BestAvailableEncryption(_stretched(password, salt))
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    write_secret(locked_path(kit, role), salt + locked)


@contextmanager
def unlocked(kit: Path, role: str, password: Callable[[], str]) -> Iterator[None]:
    """Let the engine read a kit's key meanwhile.

    Parameters
    ----------
    kit : Path
    role : str
    password : function
        Called if a password locks the key.
    """
    locked, path = locked_path(kit, role), key_path(kit, role)
    if not locked.exists():
        yield
        return
    said = password()
    try:
        content = locked.read_bytes()
        secret = _stretched(said, content[:_SALT])
        key = load_pem_private_key(content[_SALT:], secret)
    except (OSError, ValueError, TypeError):
        raise StudyError(f"The password does not open the key of the kit {str(kit)!r}.") from None
    assert isinstance(key, RSAPrivateKey)  # noqa: S101 - for the type checker
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fedcsa-", dir=place) as folder:
        copy = Path(folder) / path.name
        write_secret(copy, _pem(key))
        path.unlink(missing_ok=True)  # a crash may have left a link
        path.symlink_to(copy)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _stretched(password: str, salt: bytes) -> bytes:
    """A password of 64 letters that costs time and memory to make from a guess.

    Parameters
    ----------
    password : str
    salt : bytes
    """
    stretch = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCKS, p=_LANES)
    return stretch.derive(password.encode()).hex().encode()


def _pem(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
