"""What readers of all formats share: their result, freshness, and what stays known of versions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from apidiscovery_client._fields import as_fields, read_json, text
from apidiscovery_client.model import (
    CURRENT,
    Current,
    Freshness,
    Group,
    GroupVersion,
    Stale,
    Unknown,
    Version,
)


class UnreadableError(ValueError):
    """A body is not the document that its Content-Type promises."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The content of `/api` or `/apis`.

    Attributes:
        groups: In the order of the document.
        is_aggregated: Whether it has the resources of each version; otherwise the versions are
            `Unknown` until their own documents have been read.
    """

    groups: tuple[Group, ...]
    is_aggregated: bool


def check_group_version(wanted: GroupVersion, seen: str) -> None:
    """Raise `UnreadableError` for a list that says it is of another group-version."""
    if seen not in ("", str(wanted)):
        raise UnreadableError(f"the resources are of {seen!r}, not of {wanted}")


STALE = "Stale"
NOT_READ = "its resources have not been read"


def freshness(gv: GroupVersion, stated: str, now: datetime, *, has_resources: bool) -> Freshness:
    """Return the freshness; any other word than `Stale` is current, as it is for client-go.

    Source: client-go discovery/aggregated_discovery.go `convertAPIGroup` (the text, too).
    """
    if stated != STALE:
        return CURRENT
    reason = f"stale GroupVersion discovery: {gv}"
    return Stale(now, reason) if has_resources else Unknown(now, reason)


def retained(groups: tuple[Group, ...], before: tuple[Group, ...] | None) -> tuple[Group, ...]:
    """Return the groups, with the earlier resources of versions that are not current.

    Such a version without resources gets those of `before`, and is `Stale` and `retained` then. A
    version that was not current before either keeps its `since`.
    """
    if not before:
        return groups
    known = {version.gv: version for group in before for version in group.versions}
    return tuple(_retained_group(group, known) for group in groups)


def _retained_group(group: Group, known: Mapping[GroupVersion, Version]) -> Group:
    versions = tuple(_retained_version(version, known) for version in group.versions)
    if all(new is old for new, old in zip(versions, group.versions, strict=True)):
        return group
    return replace(group, versions=versions)


def _retained_version(version: Version, known: Mapping[GroupVersion, Version]) -> Version:
    before = known.get(version.gv)
    now = version.freshness
    if isinstance(now, Current) or before is None:
        return version
    since = now.since if isinstance(before.freshness, Current) else before.freshness.since
    if version.resources or not before.resources:
        return (
            version if since == now.since else replace(version, freshness=replace(now, since=since))
        )
    stale = Stale(since, now.reason, retained=True)
    return replace(version, resources=before.resources, freshness=stale)


def status_message(body: bytes) -> str:
    """Return the message of a `Status` document; empty when the body is none."""
    try:
        status = as_fields(read_json(body))
        return text(status, "message") if text(status, "kind") == "Status" else ""
    except (ValueError, RecursionError):
        return ""
