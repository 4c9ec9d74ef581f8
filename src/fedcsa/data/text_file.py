"""The bytes of a text file in order: decompressed, found to be UTF-8, and marked at their end."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path
from types import TracebackType
from typing import Self

from fedcsa.errors import TableError


class TextFile:
    """A file of text that a parser reads piece by piece.

    Parameters
    ----------
    path : Path
        If it ends with .gz, the content is decompressed.
    end : str
        A last line to append. A cell whose closing mark is missing swallows all rows after it
        without a word: it would swallow this line too.

    Attributes
    ----------
    problem : Exception or None
        What went wrong while reading. A parser in between may not hand it on as it is.
    """

    def __init__(self, path: Path, end: str = "") -> None:
        self._path = path
        self._end = end.encode()
        self._file = gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")  # noqa: SIM115
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._tail: bytes | None = None  # what is left to give after the end of the file
        self._held = b""  # what was read and is not given yet
        self._last = b""
        self._blank = True
        self.problem: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, size: int) -> bytes:
        """The next `size` bytes, one fewer, or all that are left."""
        content, self._held = self._held, b""
        try:
            while len(content) < size and (piece := self._next(size - len(content))):
                content = content + piece if content else piece
        except Exception as error:
            self.problem = error
            raise
        # pyarrow loses the line feed of a quoted text if a block ends between it and its return.
        if len(content) > 1 and content.endswith(b"\r"):
            content, self._held = content[:-1], b"\r"
        return content

    def _next(self, size: int) -> bytes:
        if self._tail is None:
            content = self._file.read(size)
            self._check(content)
            if content:
                return content
            self._tail = (b"" if self._last in (b"\n", b"\r") else b"\n") + self._end
        content, self._tail = self._tail[:size], self._tail[size:]
        return content

    def _check(self, content: bytes) -> None:
        try:
            self._decoder.decode(content, final=not content)
        except UnicodeDecodeError:
            raise TableError(
                f"The table {str(self._path)!r} must be text in UTF-8; it is in another encoding, "
                "or not text. Export it again, as UTF-8."
            ) from None
        self._blank = self._blank and not content.strip()
        self._last = content[-1:] or self._last
        if not content and self._blank:
            raise empty(self._path)


def empty(path: Path, what: str = "table") -> TableError:
    """The refusal of a file with nothing in it."""
    content = "a header and rows" if what == "table" else "a table with rows"
    return TableError(
        f"The {what} {str(path)!r} must have {content}; the file is empty. Export it again."
    )
