"""The federation's own authority: it makes certificates, and takes them back.

::

    authority/root.key      makes certificates and signs the deny-list; keep it off the network
    authority/root.crt      the certificate that every kit believes
    authority/issued.json   name -> the certificates made for it, by their SHA-256
    denied.json             a list that every site checks itself, for every message

No other private key stays with the authority: it is in its kit and the archive of it.
"""

from __future__ import annotations

import base64
import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
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
_ORGANISATION = "fedcsa"
DENIED = "denied.json"
#: Role in the federation file -> role that the engine reads in a certificate.
_ROLES = {"lead": "lead", "viewer": "member"}


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
        """Put every certificate made so far for `name` on the list at `path`."""
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
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_secret(self._folder / "root.key", secret)
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
    """The deny-list in a file, or a `BindingError` unless this federation's authority signed it."""
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
    """The certificates that no longer count at the site with this kit; a kit may have no list."""
    path = kit / DENIED
    if not path.exists():
        return set()
    return {print_ for prints in read_denied(path, root).values() for print_ in prints}


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on."""
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
    """As the engine reads it: the role of a person stands in it."""
    attributes = [(NameOID.COMMON_NAME, name), (NameOID.ORGANIZATION_NAME, _ORGANISATION)]
    if role in _ROLES:
        attributes.append((NameOID.UNSTRUCTURED_NAME, _ROLES[role]))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
