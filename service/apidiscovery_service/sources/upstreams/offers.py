"""Makes offers and conditions from the state of an upstream; pure functions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP, Freshness, Group, Offer, Resource, Version
from apidiscovery_service.core.source import CertificateExpiry, SourceState, SourceStatus
from apidiscovery_service.sources.api_service import ApiService
from apidiscovery_service.sources.priorities import listed_as, ordered_offers
from apidiscovery_service.sources.upstreams.failure import shown
from apidiscovery_service.sources.upstreams.list_reader import name_of, versions_of, with_versions
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root

NOT_REFRESHED = "NotRefreshed"

_MAX_ERROR = 600


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """The known state of an upstream, and whether to trust it.

    Attributes:
        known: None when it was never polled.
        is_trusted: Whether the process that polled last is alive; else everything is stale.
        since: When trust ended.
        doubt: Why it ended, in one line.
    """

    known: Known | None = None
    is_trusted: bool = False
    since: str = ""
    doubt: str = ""

    @property
    def roots(self) -> tuple[Root, ...]:
        return self.known.roots if self.known else ()

    @property
    def certificates(self) -> CertificateExpiry:
        return self.known.certificates if self.known else CertificateExpiry()

    @property
    def has_answer(self) -> bool:
        """Whether it has ever answered; any server may answer 404 for the core group."""
        return any(root.groups or (root.is_current and not root.core) for root in self.roots)

    def is_current(self, root: Root) -> bool:
        return self.is_trusted and root.is_current


@dataclass(frozen=True, slots=True)
class Condition:
    """The status of a source; the reason is one word, empty if it is current."""

    status: SourceStatus
    reason: str = ""


def cluster_of(spec: UpstreamSpec, view: UpstreamView, status: SourceStatus) -> Cluster:
    """Return a mirrored server as a cluster, with its last known groups."""
    answered = [r for r in view.roots if r.groups or r.is_current or r.has_answered]
    core = _core_versions(root.groups for root in answered if root.core)
    named: dict[str, Group] = {}
    for root in answered:
        for group in () if root.core else root.groups:
            named.setdefault(group.name, group)
    known = view.known or Known(0, ())
    dialect = replace(
        known.dialect,
        has_creation_timestamps=any(root.has_creation_timestamps for root in answered),
    )
    return Cluster(
        spec.name,
        status,
        spec.labels,
        core=(Group(CORE_GROUP, core),) if core else () if any(r.core for r in answered) else None,
        named=tuple(named.values()) if not all(root.core for root in answered) else None,
        listed=tuple(dict.fromkeys(name for root in answered for name in root.listed)),
        dialect=dialect,
    )


def mirrored_offers(view: UpstreamView) -> tuple[Offer, ...]:
    """Return all groups of a server in its own order; for paths that failed, the last known."""
    core = _core_versions(_as_fresh(view, root) for root in view.roots if root.core)
    named: dict[str, dict[str, Version]] = {}
    listed: list[str] = []
    for root in view.roots:
        listed += root.listed
        for group in () if root.core else _as_fresh(view, root):
            versions = named.setdefault(group.name, {})
            for version in group.versions:
                versions.setdefault(version.version, version)
    groups = [(name, tuple(versions.values())) for name, versions in named.items()]
    offers = ordered_offers(groups)
    if listed:
        offers = listed_as(offers, listed)
    return (*ordered_offers([(CORE_GROUP, core)] if core else []), *offers)


def _core_versions(paths: Iterable[Iterable[Group]]) -> tuple[Version, ...]:
    """Return the versions of the core group, each with the resources of all its paths."""
    versions: dict[str, Version] = {}
    for groups in paths:
        for group in groups:
            for version in group.versions:
                before = versions.get(version.version)
                versions[version.version] = _united(before, version) if before else version
    return tuple(versions.values())


def _united(first: Version, second: Version) -> Version:
    """Merge two versions: stale if one is; of a resource in both, the first."""
    resources: dict[str, Resource] = {}
    for resource in (*first.resources, *second.resources):
        resources.setdefault(resource.resource, resource)
    stale = Freshness.STALE in (first.freshness, second.freshness)
    freshness = Freshness.STALE if stale else first.freshness
    return Version(first.version, tuple(resources.values()), freshness)


def _as_fresh(view: UpstreamView, root: Root) -> Iterable[Group]:
    """Return the groups of a path; all are stale unless the path is current."""
    if view.is_current(root):
        return root.groups
    return with_versions(root.groups, lambda _, each: replace(each, freshness=Freshness.STALE))


def service_offer(service: ApiService, view: UpstreamView) -> Offer:
    """Return the group-version of an APIService with its priorities.

    If the document does not have it, it is current without resources.

    Source: k8s.io/kube-aggregator pkg/apiserver/handler_discovery.go:syncAPIService.
    """
    version = _service_version(service, view)
    return Offer(service.group, version, service.group_priority, service.version_priority)


def _service_version(service: ApiService, view: UpstreamView) -> Version:
    for root in view.roots:
        version = versions_of(root.groups).get((service.group, service.version))
        if not view.is_current(root):
            return replace(version or Version(service.version), freshness=Freshness.STALE)
        if version is not None:
            return version
        if not root.old:
            return Version(service.version, (), Freshness.CURRENT)
    return Version(service.version, (), Freshness.STALE)


def mirror_condition(source: str, address: str, view: UpstreamView) -> Condition:
    """Return the condition of a mirrored server."""
    if not view.is_trusted and (view.known or view.doubt):
        return _not_refreshed(source, address, view)
    if view.known is None:
        return Condition(SourceStatus(source, SourceState.PENDING, address=address), NOT_REFRESHED)
    bad = view.known.bad
    return _condition(
        SourceStatus(source, SourceState.STALE if bad else SourceState.CURRENT, address=address),
        view,
        max(root.since for root in bad or view.roots),
        view.known.error,
        bad[0].reason if bad else "",
    )


def service_condition(
    service: ApiService, source: str, address: str, view: UpstreamView
) -> Condition:
    """Return the condition of the server behind an APIService, for its group-version."""
    stale = SourceStatus(source, SourceState.STALE, address=address)
    if not view.roots:
        return _condition(stale, view, "", "not polled yet", NOT_REFRESHED)
    if not view.is_trusted:
        return _not_refreshed(source, address, view)
    root = view.roots[0]
    error = root.error
    if root.is_current:
        error = dict(root.failures).get(name_of(service.group, service.version), "")
        if not error and _service_version(service, view).freshness == Freshness.STALE:
            error = "not polled yet"
    if error:
        return _condition(stale, view, root.since, error, root.reason or NOT_REFRESHED)
    return _condition(replace(stale, state=SourceState.CURRENT), view, root.since)


def _not_refreshed(source: str, address: str, view: UpstreamView) -> Condition:
    error = view.doubt or "last known; no process has polled it since"
    status = SourceStatus(source, SourceState.STALE, address=address)
    return _condition(status, view, view.since, error, NOT_REFRESHED)


def _condition(
    status: SourceStatus, view: UpstreamView, since: str, error: str = "", reason: str = ""
) -> Condition:
    """Return a condition with its time, error and certificates."""
    error = shown(error, _MAX_ERROR)
    certificates = view.certificates
    status = replace(status, since=_time(since), error=error, certificates=certificates)
    return Condition(status, reason)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
