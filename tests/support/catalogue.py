"""The built-in catalogue as the documents that it is packaged as."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apidiscovery_releases import newest


@dataclass(frozen=True, slots=True)
class Entry:
    """A resource of a group-version.

    Attributes:
        preferred: Whether no version that its group prefers has it.
    """

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    preferred: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}".lstrip("/")


def entries() -> Iterator[Entry]:
    """Yield each resource of each group-version, in document order."""
    for path in ("/api", "/apis"):
        document: dict[str, Any] = json.loads(newest().aggregated(path))
        for item in document["items"]:
            seen: set[str] = set()
            for version in item["versions"]:
                for resource in version["resources"]:
                    plural = resource["resource"]
                    yield Entry(
                        item["metadata"].get("name", ""),
                        version["version"],
                        plural,
                        resource["responseKind"]["kind"],
                        resource["scope"] == "Namespaced",
                        tuple(resource["verbs"]),
                        tuple(resource.get("shortNames", ())),
                        tuple(resource.get("categories", ())),
                        plural not in seen,
                    )
                    seen.add(plural)


def api_versions() -> list[str]:
    """Return every group-version, sorted."""
    return sorted({entry.api_version for entry in entries()})
