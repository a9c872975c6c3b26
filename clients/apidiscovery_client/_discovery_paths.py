"""The two documents that tell what a server serves, by their paths, and which tells what."""

from typing import Literal

from apidiscovery_client.model import Group

DiscoveryPath = Literal["/api", "/apis"]

CORE: DiscoveryPath = "/api"
NAMED: DiscoveryPath = "/apis"
PATHS = (CORE, NAMED)


def groups_by_path(groups: tuple[Group, ...]) -> dict[DiscoveryPath, tuple[Group, ...]]:
    """Return the groups in their order by path, also a path without any."""
    return {
        CORE: tuple(group for group in groups if not group.name),
        NAMED: tuple(group for group in groups if group.name),
    }


def path_of(group: str) -> DiscoveryPath:
    """Return the path of the document that tells of the group of this name."""
    return NAMED if group else CORE
