"""Recorded answers of kube-apiservers: discovery and OpenAPI documents of Kubernetes itself.

There is one archive for each release, with the same files; `data/README.md` describes them.
"""

import tarfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, cast

import orjson
import zstandard

# The served release: its catalogue, `/version`, its OpenAPI documents, and the types of Kubernetes
# in the documents of definitions.
RELEASE: Final = "1.36"

_DATA: Final = files("apidiscovery_service.releases") / "data"
_INDEX: Final = "openapi/v3/index.json"


def read(*names: str, release: str = RELEASE) -> tuple[bytes, ...]:
    """Return files of an archive, in the order of `names`.

    The archive is unpacked up to the last of them, which takes up to 10 ms.

    Raises:
        KeyError: There is no file of that name.
    """
    wanted, found = set(names), dict[str, bytes]()
    with (
        (_DATA / f"{release}.tar.zst").open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as plain,
        tarfile.open(fileobj=plain, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if member.name in wanted else None
            if content is not None:
                found[member.name] = content.read()
                if len(found) == len(wanted):
                    break
    return tuple(found[name] for name in names)


def read_json(name: str, release: str = RELEASE) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value in a file of an archive.

    Raises:
        KeyError: There is no file of that name.
    """
    (text,) = read(name, release=release)
    return orjson.loads(text)


@cache
def version(release: str = RELEASE) -> Mapping[str, str]:
    """Return the fields of `/version`, with the patch release."""
    return MappingProxyType(cast("dict[str, str]", read_json("version.json", release)))


@cache
def openapi_hashes(release: str = RELEASE) -> Mapping[str, str]:
    """Return the upper-case hex SHA-512 of each OpenAPI v3 document by key.

    A key is the path that the document describes without leading slash, such as `apis/apps/v1`.
    """
    paths = cast("dict[str, dict[str, str]]", read_json(_INDEX, release)["paths"])
    return MappingProxyType(
        {key: paths[key]["serverRelativeURL"].rpartition("?hash=")[2] for key in paths}
    )


def openapi_document(key: str, release: str = RELEASE) -> bytes:
    """Return an OpenAPI v3 document as JSON, byte for byte as it was served.

    Raises:
        KeyError: There is no document of that key.
    """
    (text,) = read(f"openapi/v3/{key.replace('/', '__')}.json", release=release)
    return text
