"""Reads the archive of a release: files in a tar, compressed by xz.

Discovery comes first in it, and is read without unpacking the OpenAPI documents behind it. Those of
one release share so much that they are compressed together; unpacking all takes about 35 ms.
"""

import functools
import tarfile
from collections.abc import Collection, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

SUFFIX: Final = ".tar.xz"
OPENAPI: Final = "openapi/"  # the folder of what comes last

_DATA: Final = files("apidiscovery_releases") / "data"


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
    """Return the files of an archive but those of OpenAPI, by name: up to 100 kB."""
    found: dict[str, bytes] = {}
    for name, content in _contents(release):
        if name.startswith(OPENAPI):
            break
        found[name] = content
    return MappingProxyType(found)


def openapi(release: str, wanted: Collection[str]) -> dict[str, bytes]:
    """Return files of an archive's folder `openapi/` by name, those that are there."""
    found: dict[str, bytes] = {}
    for name, content in _contents(release, wanted):
        found[name] = content
        if len(found) == len(set(wanted)):
            break
    return found


def _contents(release: str, wanted: Collection[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents in the order of the archive; None wants all."""
    with (
        archive_of(release).open("rb") as packed,
        tarfile.open(fileobj=packed, mode="r|xz", bufsize=1 << 16) as archive,
    ):
        for member in archive:
            is_wanted = wanted is None or member.name in wanted
            content = archive.extractfile(member) if is_wanted else None
            if content is not None:
                yield member.name, content.read()
