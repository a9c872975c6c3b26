"""Which source serves what, as messages of DiscoveryService."""

from collections.abc import Iterable

from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from apidiscovery_service.core.chunks import PublishedGroup
from apidiscovery_service.core.model import Contribution, Freshness
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceState, SourceStatus

_STATES = {
    SourceState.CURRENT: discovery_pb2.SOURCE_STATE_CURRENT,
    SourceState.STALE: discovery_pb2.SOURCE_STATE_STALE,
    SourceState.PENDING: discovery_pb2.SOURCE_STATE_PENDING,
}


def provenance(registry: Registry, groups: Iterable[PublishedGroup]) -> bytes:
    """Return what follows an answer of GetDiscovery: the source of each version of these groups.

    They are of the registry's present snapshot.
    """
    answer = discovery_pb2.GetDiscoveryResponse()
    for published in groups:
        winners = registry.winners(published.name)
        for version in published.group.versions:
            answer.provenance.add(
                group=published.name,
                version=version.version,
                source=winners.get(version.version, ""),
            )
    return answer.SerializeToString()


def list_sources(
    registry: Registry, statuses: Iterable[SourceStatus]
) -> discovery_pb2.ListSourcesResponse:
    """Return every source that contributes or has a status.

    Without a status it is as what it offers: stale when a part of that is.
    """
    known = {status.name: status for status in statuses}
    answer = discovery_pb2.ListSourcesResponse()
    for name in sorted({*registry.sources, *known}):
        contribution = registry.contribution(name)
        status = known.get(name) or SourceStatus(name, _state(contribution))
        answer.sources.append(_source(status, contribution, registry))
    return answer


def _state(contribution: Contribution | None) -> SourceState:
    offers = contribution.offers if contribution else ()
    is_stale = any(offer.version.freshness == Freshness.STALE for offer in offers)
    return SourceState.STALE if is_stale else SourceState.CURRENT


def _source(
    status: SourceStatus, contribution: Contribution | None, registry: Registry
) -> discovery_pb2.DiscoverySource:
    source = discovery_pb2.DiscoverySource(
        name=status.name,
        state=_STATES[status.state],
        since=_timestamp(status),
        error=status.error,
        address=status.address,
    )
    offers = contribution.offers if contribution else ()
    for offer in sorted(offers, key=lambda offer: (offer.group, offer.version.version)):
        winner = registry.winners(offer.group).get(offer.version.version, "")
        source.group_versions.add(
            group=offer.group,
            version=offer.version.version,
            freshness=offer.version.freshness,
            shadowed_by="" if winner == status.name else winner,
        )
    return source


def _timestamp(status: SourceStatus) -> Timestamp | None:
    if status.since is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(status.since)
    return timestamp
