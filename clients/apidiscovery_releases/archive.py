"""Reads the archive of a release: files in a tar, compressed by xz.

Discovery and the index of OpenAPI come first in it, and are read without unpacking the OpenAPI
documents behind them. Those of one release share so much that they are compressed together, and are
unpacked together: 0.1 s.
"""

import functools
import tarfile
import threading
import zlib
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

SUFFIX: Final = ".tar.xz"
OPENAPI: Final = "openapi/"  # the folder of what comes last, the index first
INDEX: Final = "openapi/v3/index.json"

_DATA: Final = files("apidiscovery_releases") / "data"
_UNPACKING: Final = threading.Lock()


@functools.cache
def recorded() -> tuple[str, ...]:
    """Return the releases that have an archive, the oldest first."""
    names = (file.name for file in _DATA.iterdir())
    found = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return tuple(sorted(found, key=lambda name: int(name.removeprefix("1."))))


def archive_of(release: str) -> Traversable:
    """Return the file of a release's archive."""
    return _DATA / f"{release}{SUFFIX}"


@functools.cache
def discovery(release: str) -> Mapping[str, bytes]:
    """Return the files of an archive but the OpenAPI documents, by name: up to 100 kB."""
    found: dict[str, bytes] = {}
    for name, content in _contents(release):
        if name.startswith(OPENAPI) and name != INDEX:
            break
        found[name] = content
    return MappingProxyType(found)


def openapi(release: str, wanted: Collection[str]) -> dict[str, bytes]:
    """Return files of an archive's folder `openapi/` by name, those that are there."""
    with _UNPACKING:  # concurrent callers share the work
        packed = _documents(release)
    return {name: zlib.decompress(packed[name]) for name in packed if name in wanted}


@functools.lru_cache(maxsize=2)  # two releases are compared
def _documents(release: str) -> Mapping[str, bytes]:
    """Return the files of `openapi/`, each compressed alone: 1.4 MB in all.

    A server reads sixty of them one by one; unpacking the archive for each takes 18 s of CPU time.
    """
    return {
        name: zlib.compress(content, level=1)
        for name, content in _contents(release)
        if name.startswith(OPENAPI)
    }


def _contents(release: str) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents in the order of the archive."""
    # In the small blocks that tarfile has by default: 64 KiB of a file are 3 MB unpacked.
    with (
        archive_of(release).open("rb") as packed,
        tarfile.open(fileobj=packed, mode="r|xz") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                yield member.name, content.read()
