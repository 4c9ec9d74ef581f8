"""The keys of a kit: who wrote an envelope, and who alone can open what goes with it.

A participant signs with the key of its certificate. Its messages are closed by HPKE (RFC 9180:
X25519, a fresh key pair a message, HKDF-SHA256, AES-256-GCM), for a key that its recipient made
for this one study, signed, and forgets when its process ends: neither a kit nor the server's
records open what was sent before.
"""

from __future__ import annotations

import functools
import struct
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from fedcsa.errors import BindingError, StudyError
from fedcsa.federation.flare.certificates import denied_in, fingerprint
from fedcsa.messages.codec import digest

#: Length of a signature, before it and the certificate.
_LENGTH = struct.Struct("<H")
#: Length of a message, before it and what fills it up.
_SIZE = struct.Struct("<Q")
#: HPKE with what the module's first lines name.
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
#: Messages are filled up to whole blocks of this many bytes, so that a refusal, a request and a
#: short report look alike to whoever carries them.
BLOCK = 4096


class KitSeal:
    """Signs with a kit's key; believes certificates of the kit's own federation.

    Parameters
    ----------
    startup : Path
        Folder of the kit's key and certificates.
    """

    def __init__(self, startup: Path) -> None:
        try:
            key = load_pem_private_key((startup / "client.key").read_bytes(), None)
            own = x509.load_pem_x509_certificate((startup / "client.crt").read_bytes())
            self._root = x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes())
        except (OSError, ValueError, TypeError):
            raise StudyError(
                f"{str(startup)!r} lacks the kit's key or certificates. Ask for a new kit."
            ) from None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise StudyError("The key of this kit is not an RSA key. Ask for a new kit.")
        self._kit = startup.parent
        self._key = key
        self._certificate = own.public_bytes(Encoding.DER)
        self._private = X25519PrivateKey.generate()
        self._closed: dict[str, tuple[bytes, bytes]] = {}

    @property
    def key(self) -> str:
        """The public key for which others close what they send here, in hexadecimal."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, content: bytes) -> bytes:
        """The signature, and the certificate to check it with."""
        signature = self._key.sign(content, padding.PKCS1v15(), SHA256())
        return _LENGTH.pack(len(signature)) + signature + self._certificate

    def check(self, content: bytes, proof: bytes, signer: str, role: str = "") -> None:
        """Raise a `BindingError` unless `signer`, of this federation, signed `content`.

        Parameters
        ----------
        content, proof : bytes
        signer : str
            Name in the certificate.
        role : str
            That the certificate must name; by default any.
        """
        try:
            (length,) = _LENGTH.unpack_from(proof)
            signature, rest = proof[_LENGTH.size :][:length], proof[_LENGTH.size + length :]
            certificate = x509.load_der_x509_certificate(rest)
            certificate.verify_directly_issued_by(self._root)
            key = certificate.public_key()
            if not _is_of(certificate, signer, role) or not isinstance(key, rsa.RSAPublicKey):
                raise ValueError
            key.verify(signature, content, padding.PKCS1v15(), SHA256())
        except (struct.error, ValueError, TypeError, InvalidSignature):
            raise BindingError("signature", f"This message is not signed by {signer!r}.") from None
        self._check_valid(certificate, signer)

    def _check_valid(self, certificate: x509.Certificate, signer: str) -> None:
        """Raise a `BindingError` if a certificate has ended or was taken back.

        Parameters
        ----------
        certificate : x509.Certificate
        signer : str
        """
        now = datetime.now(UTC)
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise BindingError(
                "expired", f"The certificate of {signer!r} has expired. It needs a new kit."
            )
        if fingerprint(certificate) in denied_in(self._kit, self._root):
            raise BindingError("denied", f"The certificate of {signer!r} is on the deny-list.")

    def close(self, payload: bytes, key: str, bound: bytes) -> bytes:
        """A message that opens with the private half of a key and the same envelope only.

        Parameters
        ----------
        payload : bytes
        key : str
            The recipient's, in hexadecimal.
        bound : bytes
            What of the envelope it is bound to.
        """
        size = _SIZE.size + len(payload)
        filled = _SIZE.pack(len(payload)) + payload + bytes(-size % BLOCK)
        try:
            public = X25519PublicKey.from_public_bytes(bytes.fromhex(key))
            closed = _SUITE.encrypt(filled, public, info=bound)
        except ValueError:
            raise BindingError("key", "A message must be closed for a key; none came.") from None
        self._closed[digest(closed)] = payload, bound
        return closed

    def open(self, closed: bytes, bound: bytes) -> bytes:
        """What was closed for this seal's key, or a `BindingError`.

        Parameters
        ----------
        closed : bytes
        bound : bytes
            What of the envelope it is bound to.
        """
        try:
            filled = _SUITE.decrypt(closed, self._private, info=bound)
            (size,) = _SIZE.unpack_from(filled)
        except (InvalidTag, ValueError, struct.error):
            raise BindingError(
                "closed", "This message cannot be opened here: it was closed for another site."
            ) from None
        return filled[_SIZE.size :][:size]

    def take_closed(self, closed: bytes) -> tuple[bytes, bytes]:
        """What this process closed in these bytes, once, and what it was bound to.

        The site's filter looks at it: it cannot open what is closed for others.
        """
        try:
            return self._closed.pop(digest(closed))
        except KeyError:
            raise BindingError("closed", "This site closed no such message.") from None


@functools.cache
def open_seal(startup: Path) -> KitSeal:
    """The one seal of a kit in this process: a job has a process of its own."""
    return KitSeal(startup)


def _is_of(certificate: x509.Certificate, name: str, role: str) -> bool:
    """Whether a certificate is of this name and, if one is given, of this role.

    Parameters
    ----------
    certificate : x509.Certificate
    name, role : str
    """
    subject = certificate.subject
    names = [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    roles = [a.value for a in subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)]
    return names == [name] and (not role or roles == [role])
