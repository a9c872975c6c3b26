"""Clusters of a fleet."""

from collections.abc import Mapping
from datetime import UTC, datetime

from apidiscovery_service.core.cluster import Cluster, Dialect
from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Version
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.fleet.state import Fleet

SINCE = datetime(2026, 11, 23, 12, 0, 0, 5, tzinfo=UTC)
PODS = Resource("pods", GroupVersionKind("", "", "Pod"), "Namespaced", "pod", ("get",), ("po",))
CORE = Group("", (Version("v1", (PODS,)),))


def group(name: str, *kinds: str, versions: tuple[str, ...] = ("v1",)) -> Group:
    resources = tuple(
        Resource(
            f"{kind.lower()}s", GroupVersionKind("", "", kind), "Cluster", kind.lower(), ("get",)
        )
        for kind in kinds
    )
    return Group(name, tuple(Version(version, resources) for version in versions))


def cluster(
    name: str,
    *named: Group,
    state: SourceState = SourceState.CURRENT,
    error: str = "",
    labels: Mapping[str, str] | None = None,
) -> Cluster:
    status = SourceStatus(f"upstream:{name}", state, SINCE, error)
    dialect = Dialect(version=b'{"gitVersion":"v1.36.2"}')
    return Cluster(name, status, labels or {}, (CORE,), named, dialect=dialect)


def fleet_of(*clusters: Cluster) -> Fleet:
    fleet = Fleet()
    fleet.update(clusters)
    return fleet
