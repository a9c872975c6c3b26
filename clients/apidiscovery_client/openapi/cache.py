"""Keeps documents on disk by their hash, and never believes what it finds there without a check.

A file is named for the SHA-512 of its content, or, where a server's hash is not that, begins with
the SHA-512 of the rest. Files are written whole and never changed; the least recently used go
first when there are too many.
"""

import contextlib
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 256 << 20  # all documents of a large cluster are 20 MB
MAX_FILES = 2000

_SHA512 = re.compile(r"[0-9A-Fa-f]{128}")
_FOLDER_MODE = 0o700
_NOT_ONLY_OURS = stat.S_IWGRP | stat.S_IWOTH
_SUFFIXES = (".json", ".checked")
_TEMPORARY = ".tmp"
_DIGEST_CHARACTERS = 128


def default_folder() -> Path:
    """Return the folder for documents by the XDG Base Directory Specification."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return base / "apidiscovery" / "openapi"


class Name(NamedTuple):
    """What identifies the content of a document.

    Attributes:
        server: Where it is from, without credentials.
        key: Of the document in the server's index.
        hash: As the server states it, in its URL.
    """

    server: str
    key: str
    hash: str

    @property
    def is_digest(self) -> bool:
        """Whether the hash can be that of the content, whoever serves it."""
        return _SHA512.fullmatch(self.hash) is not None

    @property
    def file(self) -> str:
        """Return the name of the file, made of hexadecimal digits whatever the server says."""
        if self.is_digest:
            return f"{self.hash.upper()}.json"
        return f"{_digest(repr(tuple(self)).encode())}.checked"


@dataclass(frozen=True, slots=True)
class DocumentCache:
    """A folder of documents; nothing in it is needed, and no failure of it is an error.

    Attributes:
        max_bytes: Of all files together.
    """

    folder: Path
    max_bytes: int = MAX_BYTES
    max_files: int = MAX_FILES

    def get(self, name: Name) -> bytes | None:
        """Return the content; None when it is not there, damaged, or not only ours to write."""
        path = self.folder / name.file
        try:
            if not _is_ours(self.folder.stat()):
                return None
            content = _read(path)
        except OSError:
            return None
        document = _checked(name, content)
        with contextlib.suppress(OSError):
            path.unlink() if document is None else os.utime(path)
        return document

    def put(self, name: Name, document: bytes) -> None:
        """Keep a content, unless it does not have the digest that it is named for."""
        digest = _digest(document)
        if name.is_digest and digest != name.hash.upper():
            return
        content = document if name.is_digest else digest.encode() + b"\n" + document
        with contextlib.suppress(OSError):
            self.folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            if _is_ours(self.folder.stat()):
                _write(self.folder / name.file, content)
                self._make_room()

    def _make_room(self) -> None:
        """Remove the least recently used files until the rest is within bounds."""
        kept_bytes = 0
        newest_first = sorted(_files(self.folder), reverse=True)
        for kept_files, (_, size, path) in enumerate(newest_first, start=1):
            kept_bytes += size
            if kept_files > self.max_files or kept_bytes > self.max_bytes:
                path.unlink(missing_ok=True)


def _digest(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest().upper()


def _checked(name: Name, content: bytes) -> bytes | None:
    """Return the document in a file; None when its digest is another."""
    if name.is_digest:
        return content if _digest(content) == name.hash.upper() else None
    stated, document = content[:_DIGEST_CHARACTERS], content[_DIGEST_CHARACTERS + 1 :]
    return document if stated == _digest(document).encode() else None


def _is_ours(status: os.stat_result) -> bool:
    """Return whether nobody but this user can have written a file or folder."""
    is_owner = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return is_owner and not (os.name == "posix" and status.st_mode & _NOT_ONLY_OURS)


def _read(path: Path) -> bytes:
    """Return the content of a regular file of ours; raise `OSError` for anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor has no Path
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status):
            raise PermissionError(f"{path} is not a file that only its owner can write")
        return file.read(MAX_BYTES)


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place, whole, readable and writable by this user only."""
    descriptor, temporary = tempfile.mkstemp(_TEMPORARY, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no Path
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield when each file of the cache was last used, in seconds, its size, and its path."""
    for path in folder.iterdir():
        if path.suffix in (*_SUFFIXES, _TEMPORARY):
            with contextlib.suppress(OSError):
                status = path.lstat()
                yield status.st_mtime, status.st_size, path
