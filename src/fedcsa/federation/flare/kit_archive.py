"""A kit as one file to hand over, with a fingerprint to compare by telephone.

The file is a ZIP without compression, with fixed times and permissions: the same kit is the same
bytes. It holds the files of the kit and nothing else, and nothing else is unpacked.
"""

from __future__ import annotations

import hmac
import io
import re
import shutil
import stat
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from fedcsa.errors import StudyError
from fedcsa.federation.flare.certificates import DENIED, write_secret
from fedcsa.federation.flare.kits import KIT_FILE, KIT_FILES, KIT_FOLDERS, Kit
from fedcsa.site.state import alone

#: A kit has 40 kB.
_MOST_BYTES = 1 << 20
#: What half an installation leaves.
_HALF = {*KIT_FOLDERS, DENIED, ".running"}
#: The first moment that a ZIP can tell.
_WHEN = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o600) << 16
_UNIX = 3
#: Letters of a group of a fingerprint, as people read numbers aloud.
_GROUP = 4


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
        about = _about(files, self._path)
        _check_place(folder, about)
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
                if len(names) != len(listed) or not all(_is_plain(info) for info in listed):
                    raise broken
                return {info.filename: archive.read(info) for info in listed}
        except (BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError):
            raise broken from None


def _is_plain(info: ZipInfo) -> bool:
    """Whether an entry is one file of a kit: no folder, link, device, or compression."""
    return (
        info.filename in KIT_FILES
        and info.external_attr == _MODE
        and info.compress_type == ZIP_STORED
    )


def _about(files: dict[str, bytes], path: Path) -> Kit:
    try:
        return Kit.from_json(files[KIT_FILE])
    except (LookupError, ValueError):
        raise StudyError(
            f"The file {str(path)!r} does not say whose kit it is. Ask for it again."
        ) from None


def _check_place(folder: Path, about: Kit) -> None:
    """Raise a `StudyError` if something else than an older kit of this participant is there."""
    if not _is_for(folder, about):
        raise StudyError(
            f"The folder {str(folder)!r} holds something else than an older kit of "
            f"{about.participant!r}. Choose another with --out."
        )


def _is_for(folder: Path, about: Kit) -> bool:
    """Whether a folder is new, or an older kit of this participant, or half of one."""
    if not folder.exists():
        return True
    if any(path.is_symlink() or path.is_file() for path in map(folder.joinpath, KIT_FOLDERS)):
        return False
    if (folder / KIT_FILE).exists():
        there = Kit.load(folder)
        return (there.federation, there.participant) == (about.federation, about.participant)
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= _HALF
