"""Keeps documents on disk by their hash, and never believes what it finds there without a check.

A file is named for the SHA-512 of its content, or, where a server's hash is not that, begins with
the SHA-512 of the rest. Files are written whole and never changed; the least recently used go
first when there are too many.
"""

import contextlib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from apidiscovery_client._disk.folders import cache_folder
from apidiscovery_client._disk.private_files import PrivateFolder

MAX_BYTES = 256 << 20  # all documents of a large cluster are 20 MB
MAX_FILES = 2000

_SHA512 = re.compile(r"[0-9A-Fa-f]{128}")
_SUFFIXES = (".json", ".checked")
_DIGEST_CHARACTERS = 128


def default_folder() -> Path:
    """Return the folder for documents, by the rule of `cache_folder`."""
    return cache_folder("openapi")


@dataclass(frozen=True, slots=True)
class Name:
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
        return f"{_digest(repr((self.server, self.key, self.hash)).encode())}.checked"


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
        files = self._files
        try:
            content = files.read(name.file)
        except OSError:
            return None
        document = _checked(name, content)
        with contextlib.suppress(OSError):
            files.remove(name.file) if document is None else files.mark_used(name.file)
        return document

    def put(self, name: Name, document: bytes) -> None:
        """Keep a content, unless it does not have the digest that it is named for."""
        digest = _digest(document)
        if name.is_digest and digest != name.hash.upper():
            return
        content = document if name.is_digest else digest.encode() + b"\n" + document
        with contextlib.suppress(OSError):
            self._files.write(name.file, content)

    @property
    def _files(self) -> PrivateFolder:
        return PrivateFolder(self.folder, _SUFFIXES, self.max_bytes, self.max_files)


def _digest(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest().upper()


def _checked(name: Name, content: bytes) -> bytes | None:
    """Return the document in a file; None when its digest is another."""
    if name.is_digest:
        return content if _digest(content) == name.hash.upper() else None
    stated, document = content[:_DIGEST_CHARACTERS], content[_DIGEST_CHARACTERS + 1 :]
    return document if stated == _digest(document).encode() else None
