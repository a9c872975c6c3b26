"""One cluster: its groups, the form of its documents, and its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import orjson

from apidiscovery_service.core.model import Group
from apidiscovery_service.core.source import SourceStatus

# Pairs of a client CIDR and the `host:port` at which such clients reach a server.
Addresses: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server writes its documents, beside their content.

    Attributes:
        has_creation_timestamps: Whether each group of an aggregated document has
            `"creationTimestamp":null`, as of kube-apiserver up to 1.33.
        aggregated: The versions of the aggregated document that it serves, `v2` before `v2beta1`.
        addresses: The `serverAddressByClientCIDRs` of `/api`.
        version: The body of `/version`; empty if it is not known.
    """

    has_creation_timestamps: bool = False
    aggregated: tuple[str, ...] = ("v2", "v2beta1")
    addresses: Addresses = ()
    version: bytes = b""

    @property
    def release(self) -> str:
        """The release in `version`, such as `v1.36.2`; empty for none."""
        return _release(self.version)


@lru_cache(maxsize=256)
def _release(version: bytes) -> str:
    if not version:
        return ""
    try:
        fields: object = orjson.loads(version)
    except orjson.JSONDecodeError:
        return ""
    match fields:
        case {"gitVersion": str(release)}:
            return release
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The last known state of one cluster.

    Attributes:
        name: Unique.
        status: Whether it answers, since when, and why not.
        labels: As the operator gave them.
        core: The core group, or nothing; None before the first answer of `/api`.
        named: The named groups in the order of the aggregated document; None if unknown.
        listed: The names of the groups in the order of the unaggregated list; empty for the order
            of `named`.
    """

    name: str
    status: SourceStatus
    labels: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    core: tuple[Group, ...] | None = None
    named: tuple[Group, ...] | None = None
    listed: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def groups(self) -> tuple[Group, ...] | None:
        """All groups, the core group first; None if nothing is known of the named ones."""
        return None if self.named is None else (*(self.core or ()), *self.named)
