"""The private key of a kit: as it is, or locked by a password.

A locked key lies in the kit as ``client.key.locked``. The engine reads no passwords, so while a
participant runs, an unlocked copy lies in memory (``/dev/shm``, where there is one), readable by
its owner only, and the kit has a link to it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from fedcsa.errors import StudyError
from fedcsa.federation.flare.certificates import write_secret

_LOCKED = ".locked"
#: Of scrypt, as OWASP advises: a guess costs 128 MB and a third of a second.
_COST, _BLOCKS, _LANES = 2**17, 8, 1
_SALT = 16
#: Characters of a password: ten random ones of 64 are 60 bits.
_SHORTEST = 10
_MEMORY = Path("/dev/shm")  # noqa: S108 - in memory, and the file is its owner's only


def key_path(kit: Path, role: str) -> Path:
    """Where the engine looks for a kit's private key."""
    return kit / "startup" / ("server.key" if role == "server" else "client.key")


def locked_path(kit: Path, role: str) -> Path:
    """Where a kit's private key lies if a password locks it."""
    path = key_path(kit, role)
    return path.with_name(path.name + _LOCKED)


def check_password(password: str) -> None:
    """Raise a `StudyError` if a password is too short; an empty one means that there is none."""
    if password and len(password) < _SHORTEST:
        raise StudyError(f"The password must have at least {_SHORTEST} characters.")


def write_key(kit: Path, role: str, key: RSAPrivateKey, password: str) -> None:
    """Write a kit's private key; an empty password leaves it unlocked."""
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
    """A password of 64 letters that costs time and memory to make from a guess."""
    stretch = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCKS, p=_LANES)
    return stretch.derive(password.encode()).hex().encode()


def _pem(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
