"""A cluster as contents of a history: one for each group, and one for what surrounds them.

The surroundings are the order of the groups in both lists, which of the two documents were known,
and the dialect of the server. Groups and surroundings of one moment make its documents again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import orjson

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP, Group
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.history.file import hash_of
from apidiscovery_service.history.model import ChangeKind, ContentDamaged
from apidiscovery_service.sources.upstreams.state import (
    dialect_value,
    read_dialect,
    read_group,
)

# What the content of a change of state says, by its hash.
STATES = {hash_of(state.encode()): state for state in SourceState}


def surroundings(cluster: Cluster) -> bytes:
    """Return the content of what surrounds the groups of a cluster."""
    return orjson.dumps(
        {
            "knowsCore": cluster.core is not None,
            "named": None if cluster.named is None else [group.name for group in cluster.named],
            "listed": cluster.listed,
            "creationTimestamps": cluster.dialect.has_creation_timestamps,
            "dialect": dialect_value(cluster.dialect),
        }
    )


def is_completed(before: Group | None, after: Group | None) -> bool:
    """Return whether a group is the same, and only what its lists say was not known before.

    Storage version hashes and the order of lists are not in aggregated documents: they are asked
    for after these, and come a moment later.
    """
    if before is None or after is None:
        return False
    resources = (each for version in before.versions for each in version.resources)
    knows = any(each.storage_version_hash for each in resources)
    return not knows and _without_lists(before) == _without_lists(after)


def _without_lists(group: Group) -> Group:
    versions = (
        replace(
            version,
            listed=(),
            resources=tuple(replace(each, storage_version_hash="") for each in version.resources),
        )
        for version in group.versions
    )
    return replace(group, versions=tuple(versions))


def cluster_at(
    name: str, state: Mapping[tuple[ChangeKind, str], str], content_of: Callable[[str], bytes]
) -> Cluster:
    """Return a cluster as it was.

    Args:
        name: Its name.
        state: The hash of each of its contents then, by kind and name.
        content_of: Returns a content by its hash.

    Raises:
        ContentDamaged: A content cannot be read, or one is missing.
        HistoryError: The history cannot be read.
    """
    found = {
        group: _group(content_of(digest))
        for (kind, group), digest in state.items()
        if kind is ChangeKind.GROUP
    }
    status = SourceStatus(
        name, STATES.get(state.get((ChangeKind.STATE, ""), ""), SourceState.CURRENT)
    )
    digest = state.get((ChangeKind.DOCUMENT, ""))
    if digest is None:
        return Cluster(name, status)  # it had never answered
    try:
        value = cast("dict[str, object]", orjson.loads(content_of(digest)))
        names = cast("list[str] | None", value["named"])
        core = found.get(CORE_GROUP)
        dialect = read_dialect(cast("dict[str, object]", value["dialect"]))
        return Cluster(
            name,
            status,
            core=(() if core is None else (core,)) if value["knowsCore"] else None,
            named=None if names is None else tuple(found[each] for each in names),
            listed=tuple(cast("list[str]", value["listed"])),
            dialect=replace(dialect, has_creation_timestamps=bool(value["creationTimestamps"])),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise ContentDamaged(f"content {digest} cannot be read: {error!r}") from None


def group_or_damage(key: str, content_of: Callable[[str], bytes]) -> Group | ContentDamaged:
    """Return a group by the hash of its content, or why it cannot be read.

    Raises:
        HistoryError: The history cannot be read.
    """
    try:
        return _group(content_of(key))
    except ContentDamaged as error:
        return error


def release_or_damage(key: str, content_of: Callable[[str], bytes]) -> str | ContentDamaged:
    """Return the release that a server reported, by the hash of the surroundings; empty for none.

    Raises:
        HistoryError: The history cannot be read.
    """
    try:
        value = cast("dict[str, object]", orjson.loads(content_of(key)))
        return read_dialect(cast("dict[str, object]", value["dialect"])).release
    except ContentDamaged as error:
        return error
    except (LookupError, TypeError, ValueError) as error:
        return ContentDamaged(f"content {key} cannot be read: {error!r}")


def _group(content: bytes) -> Group:
    try:
        return read_group(content)
    except (DiscoveryError, ValueError) as error:
        raise ContentDamaged(f"content {hash_of(content)} is not a group: {error}") from None
