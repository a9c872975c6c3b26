"""What one release of Kubernetes served."""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self, cast

from apidiscovery_releases import archive
from apidiscovery_releases.names import UnknownRelease, minor_of, wire_versions

_V2: Final = "openapi/v2.json"
_LISTS: Final = "lists/"
_ROOTS: Final = ("/api", "/apis")
_FULL_INFO_UNTIL = 30  # of a document, which names the patch release


def releases() -> tuple[str, ...]:
    """Return the releases that are recorded, the oldest first, such as `1.31`."""
    return archive.recorded()


def newest() -> "Release":
    """Return the newest release that is recorded."""
    return Release(releases()[-1])


@dataclass(frozen=True, slots=True)
class Release:
    """The answers of one kube-apiserver with default settings, byte for byte.

    Paths are those of the server, such as `/apis/apps/v1`. Discovery and the index of OpenAPI are
    read once and kept (up to 100 kB); OpenAPI documents, 8 MB in all, are unpacked each time.

    Attributes:
        name: Such as `1.31`, one of `releases`; `read` makes one from any spelling.

    Raises:
        UnknownRelease: It is not recorded; the text lists those that are.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in releases():
            raise UnknownRelease(
                f"release {self.name[:100]!r} of Kubernetes is not recorded;"
                f" want one of {', '.join(releases())}"
            )

    @classmethod
    def read(cls, name: str) -> Self:
        """Return a release by its name: `1.31`, `v1.31` or `1.31.4`, which is that of 1.31.

        Raises:
            UnknownRelease: It is not recorded; the text lists those that are.
        """
        return cls(f"1.{minor_of(name)}")

    @property
    def minor(self) -> int:
        """Return the minor version, such as 31."""
        return minor_of(self.name)

    @property
    def version(self) -> dict[str, str]:
        """Return the fields of `/version` in its order; `gitVersion` has the patch release."""
        return cast("dict[str, str]", json.loads(self.version_text))

    @property
    def version_text(self) -> bytes:
        """Return the body of `/version`."""
        return archive.discovery(self.name)["version.json"]

    @property
    def aggregated_versions(self) -> tuple[str, ...]:
        """Return the versions of the aggregated documents, the preferred one first.

        None before 1.27, `v2beta1` from 1.27 to 1.29, both from 1.30 to 1.32, `v2` since.
        """
        return wire_versions(self.minor)

    @property
    def has_creation_timestamps(self) -> bool:
        """Whether groups of its aggregated documents have `"creationTimestamp":null`."""
        versions = self.aggregated_versions
        return bool(versions) and b'"creationTimestamp":null' in self.aggregated(
            "/apis", versions[0]
        )

    def aggregated(self, path: str, version: str = "v2") -> bytes:
        """Return an `APIGroupDiscoveryList` as JSON.

        Args:
            path: `/api` or `/apis`.
            version: One of `aggregated_versions`.

        Raises:
            KeyError: The release did not serve it.
        """
        return self._discovery(f"{path.removeprefix('/')}.{version}.json", f"{path} as {version}")

    def plain(self, path: str) -> bytes:
        """Return an unaggregated document as JSON: `APIVersions`, `APIGroupList`, a list.

        Args:
            path: `/api`, `/apis`, or the path of a group-version.

        Raises:
            KeyError: The release did not serve it.
        """
        flat = path.removeprefix("/").replace("/", "__")
        return self._discovery(f"{'' if path in _ROOTS else _LISTS}{flat}.json", path)

    @property
    def list_paths(self) -> tuple[str, ...]:
        """Return the paths of all group-versions, sorted; `plain` has their lists."""
        names = (name for name in archive.discovery(self.name) if name.startswith(_LISTS))
        flat = (name.removeprefix(_LISTS).removesuffix(".json") for name in names)
        return tuple(sorted(f"/{one.replace('__', '/')}" for one in flat))

    def _discovery(self, file: str, asked: str) -> bytes:
        try:
            return archive.discovery(self.name)[file]
        except KeyError:
            raise KeyError(f"Kubernetes {self.name} did not serve {asked}") from None

    @property
    def openapi_index(self) -> bytes:
        """Return the body of `/openapi/v3`."""
        return archive.discovery(self.name)[archive.INDEX]

    @property
    def openapi_hashes(self) -> Mapping[str, str]:
        """Return the upper-case hex SHA-512 of each OpenAPI v3 document by key.

        A key is the path that the document describes without leading slash, such as `apis/apps/v1`.
        They are in the order of the index, and kept.
        """
        return _hashes(self)

    @property
    def openapi_info(self) -> dict[str, str]:
        """Return the `info` of the OpenAPI documents."""
        version = self.version["gitVersion"] if self.minor <= _FULL_INFO_UNTIL else self.name
        return {"title": "Kubernetes", "version": version}

    def openapi_v3(self, key: str) -> bytes:
        """Return an OpenAPI v3 document as JSON; it takes up to 40 ms.

        Args:
            key: As in `openapi_hashes`, such as `apis/apps/v1` or `api/v1`.

        Raises:
            KeyError: The release had no such document.
        """
        return self.openapi_v3_documents([key])[key]

    def openapi_v3_documents(self, keys: Iterable[str] | None = None) -> dict[str, bytes]:
        """Return OpenAPI v3 documents as JSON by key, in as much time as one of them takes.

        Args:
            keys: As in `openapi_hashes`; None for all, which have 6 MB.

        Raises:
            KeyError: The release had no document of one of them.
        """
        wanted = [*(self.openapi_hashes if keys is None else keys)]
        names = {key: f"openapi/v3/{key.replace('/', '__')}.json" for key in wanted}
        found = archive.openapi(self.name, set(names.values()))
        for key, name in names.items():
            if name not in found:
                raise KeyError(f"Kubernetes {self.name} had no OpenAPI document of {key}")
        return {key: found[name] for key, name in names.items()}

    @property
    def openapi_v2(self) -> bytes:
        """Return the body of `/openapi/v2` as JSON; it takes up to 40 ms."""
        return archive.openapi(self.name, {_V2})[_V2]


@functools.cache
def _hashes(release: Release) -> Mapping[str, str]:
    paths = cast("dict[str, dict[str, str]]", json.loads(release.openapi_index)["paths"])
    return MappingProxyType(
        {key: paths[key]["serverRelativeURL"].rpartition("?hash=")[2] for key in paths}
    )
