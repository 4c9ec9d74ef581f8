"""Signatures with the keys of a kit: who wrote an envelope, whatever carried it."""

from __future__ import annotations

import struct
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from fedcsa.errors import BindingError, StudyError

_LENGTH = struct.Struct("<H")


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
        self._key = key
        self._certificate = own.public_bytes(Encoding.DER)

    def sign(self, content: bytes) -> bytes:
        """The signature, and the certificate to check it with."""
        signature = self._key.sign(content, padding.PKCS1v15(), SHA256())
        return _LENGTH.pack(len(signature)) + signature + self._certificate

    def check(self, content: bytes, proof: bytes, signer: str) -> None:
        """Raise a `BindingError` unless `signer`, of this federation, signed `content`."""
        try:
            (length,) = _LENGTH.unpack_from(proof)
            signature, rest = proof[_LENGTH.size :][:length], proof[_LENGTH.size + length :]
            certificate = x509.load_der_x509_certificate(rest)
            certificate.verify_directly_issued_by(self._root)
            (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            key = certificate.public_key()
            if name.value != signer or not isinstance(key, rsa.RSAPublicKey):
                raise ValueError
            key.verify(signature, content, padding.PKCS1v15(), SHA256())
        except (struct.error, ValueError, TypeError, InvalidSignature):
            raise BindingError("signature", f"This message is not signed by {signer!r}.") from None
