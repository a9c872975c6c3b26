"""Serves the records of other API servers in the store, and starts their pollers.

Every process follows the records of all upstreams, also those that it writes itself, and competes
for the claim to poll each of them. A record is trusted while its writer lives and holds its claim;
after that its groups are served as stale until another process has polled.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import structlog

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Contribution, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import UPSTREAM, Source, SourceState, SourceStatus
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.api_service import ApiService
from apidiscovery_service.sources.upstreams.failure import shown
from apidiscovery_service.sources.upstreams.list_details import rounds_for_all_lists
from apidiscovery_service.sources.upstreams.offers import (
    Condition,
    UpstreamView,
    cluster_of,
    mirror_condition,
    mirrored_offers,
    service_condition,
    service_offer,
)
from apidiscovery_service.sources.upstreams.openapi.documents import UpstreamDocuments
from apidiscovery_service.sources.upstreams.poller import (
    DOCUMENT_ROUNDS_AT_ONCE,
    Poller,
)
from apidiscovery_service.sources.upstreams.record_store import RecordFollower
from apidiscovery_service.sources.upstreams.request_order import RequestOrder
from apidiscovery_service.sources.upstreams.rounds import now_text
from apidiscovery_service.sources.upstreams.services import (
    ServiceSettings,
    SpecsById,
    service_specs,
)
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS, Known
from apidiscovery_service.store import Store
from apidiscovery_service.store.claims import PREFIX, Claims

# How long a record is trusted after its writer has gone: the next one polls at once, and has its
# answer after two exchanges at most.
GRACE_S = 12.0
# How long records are trusted while the store has no news. They may be that old anyway, because
# upstreams are polled once a minute.
SILENCE_S = 60.0
# How often in that time the silence is measured.
_LOOKS = 6

_MAX_WARNINGS = 50
_MAX_WARNING = 400
_NOT_MERGED = "not merged"

ClusterListener: TypeAlias = Callable[[Sequence[Cluster], Sequence[str]], None]

_log = structlog.get_logger(__name__)


class DeclaredServices(Protocol):
    """The APIServices in force."""

    @property
    def api_services(self) -> Mapping[str, ApiService]: ...

    def on_api_services(self, listener: Callable[[], None]) -> object: ...


@dataclass(slots=True)
class _Followed:
    """One upstream in use.

    Attributes:
        services: The APIServices that name it; none for a mirrored server.
        distrust: Ends the trust in the record, some time after its writer has gone.
    """

    spec: UpstreamSpec
    poller: Poller
    services: tuple[ApiService, ...] = ()
    view: UpstreamView = field(default_factory=UpstreamView)
    distrust: asyncio.TimerHandle | None = None
    conditions: dict[str, Condition] = field(default_factory=dict[str, Condition])

    @property
    def sources(self) -> tuple[str, ...]:
        if not self.services:
            return (f"{UPSTREAM}{self.spec.name}",)
        return tuple(f"apiservice:{service.name}" for service in self.services)

    @property
    def contributors(self) -> tuple[str, ...]:
        """The sources that contribute to what we serve ourselves."""
        return self.sources if self.services or self.spec.merge else ()

    def contributions(self) -> Iterator[Contribution]:
        """Return what it offers, one contribution for each source."""
        for service in self.services:
            offers = (service_offer(service, self.view),)
            yield Contribution(f"apiservice:{service.name}", Precedence.AGGREGATOR, offers)
        if not self.services and self.contributors:
            yield Contribution(self.sources[0], Precedence.AGGREGATOR, mirrored_offers(self.view))

    def cluster(self) -> Cluster:
        """Return it as a cluster, if it is a mirrored server."""
        return cluster_of(self.spec, self.view, self.conditions[self.sources[0]].status)

    def current_conditions(self) -> dict[str, Condition]:
        """Return the condition of each source."""
        address = self.spec.endpoint.url
        if not self.services:
            source = self.sources[0]
            return {source: mirror_condition(source, address, self.view)}
        return {
            source: service_condition(service, source, address, self.view)
            for source, service in zip(self.sources, self.services, strict=True)
        }


class Upstreams(Source):
    """The source of all other API servers. Not thread-safe: used in the thread of the registry.

    Args:
        store: The store with the records.
        registry: The registry for the contributions.
        declarations: The APIServices in force.
        claims: The claims to poll; they have to run as long as this source is followed.
        metrics: The metrics to update.
        specs: The servers to mirror at first.
        services: How servers behind APIServices are reached.
        grace_s: How long a record is trusted after its writer has gone.
        silence_s: How long records are trusted while the store has no news.

    Attributes:
        documents: The OpenAPI documents of all of them.
    """

    def __init__(  # noqa: PLR0913 - it joins them
        self,
        store: Store,
        registry: Registry,
        declarations: DeclaredServices,
        claims: Claims,
        metrics: Metrics,
        *,
        specs: Sequence[UpstreamSpec] = (),
        services: ServiceSettings | None = None,
        grace_s: float = GRACE_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.documents = UpstreamDocuments(store, self._record_lost)
        self._records = RecordFollower(
            KNOWN_RECORDS, store, self._records_changed, self._record_lost
        )
        self._order = RequestOrder()
        self._document_rounds = asyncio.Semaphore(DOCUMENT_ROUNDS_AT_ONCE)
        self._store = store
        self._registry = registry
        self._declarations = declarations
        self._claims = claims
        claims.on_change(self._claims_changed)
        self._metrics = metrics
        self._settings = services or ServiceSettings()
        self._grace_s = grace_s
        self._silence_s = silence_s
        # Why no record is trusted while the store has no news; else empty.
        self._silence = ""
        # When the last news of records and of claims came: on the monotonic clock, and as text.
        self._heard = dict.fromkeys((KNOWN_RECORDS.prefix, PREFIX), (time.monotonic(), now_text()))
        self._followed: dict[str, _Followed] = {}
        self._specs = {spec.id: spec for spec in specs}
        self._cluster_listeners: list[ClusterListener] = []
        self._is_loaded = False

    async def load(self) -> None:
        """Contribute what the store has, and compete for polling; wait for no upstream.

        Raises:
            StoreUnavailable: The records cannot be read now.
        """
        await self.documents.load()
        await self._claims.load()
        await self._records.load()
        self._is_loaded = True
        self._declarations.on_api_services(self._reconcile)
        self._reconcile()

    def on_clusters(self, listener: ClusterListener) -> None:
        """Call a listener with the clusters that have changed, and with the names of those gone.

        Clusters are the servers that are mirrored, whether they are merged or not.
        """
        self._cluster_listeners.append(listener)

    def update_mirrors(self, changed: Iterable[UpstreamSpec], gone: Iterable[str] = ()) -> None:
        """Change the servers that are mirrored.

        A server with the same id keeps its record: another endpoint is polled at once, and other
        labels are shown. A server that is gone is withdrawn with its records.

        Args:
            changed: New servers, and others for those of the same name.
            gone: The names of servers that are mirrored no longer.
        """
        by_name = {spec.name: spec for spec in changed}
        replaced = by_name.keys() | set(gone)
        kept = {key: spec for key, spec in self._specs.items() if spec.name not in replaced}
        self._specs = kept | {spec.id: spec for spec in by_name.values()}
        if self._is_loaded:
            self._reconcile()

    async def follow(self) -> None:
        """Follow the records, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.documents.follow())
                tasks.create_task(self._records.follow())
                tasks.create_task(self._notice_silence())
        finally:
            for followed in self._followed.values():
                _stop(followed)

    def states(self) -> list[SourceStatus]:
        """Return the status of each source, in the order of their names."""
        return sorted(
            (
                replace(c.status, withheld="" if f.contributors else _NOT_MERGED)
                for f in self._followed.values()
                for c in f.conditions.values()
            ),
            key=lambda status: status.name,
        )

    def warnings(self) -> list[str]:
        """Return a line for each source that is not current and for each omission, bounded."""
        lines = [_warning(s) for s in self.states() if s.state is not SourceState.CURRENT]
        for spec_id, followed in self._followed.items():
            name = followed.spec.name
            for root in followed.view.roots:
                lines += [f"upstream {name}: {root.path}: {text}" for text in root.warnings]
            documents = self.documents.warnings(spec_id)
            lines += [f"upstream {name}: OpenAPI: {text}" for text in documents]
        if len(lines) > _MAX_WARNINGS:
            more = len(lines) - _MAX_WARNINGS
            lines = [*lines[:_MAX_WARNINGS], f"upstreams: {more} more such lines"]
        return [shown(line, _MAX_WARNING) for line in lines]

    def awaited(self) -> str:
        """Return which mirrored servers have never answered, in one line.

        Empty once any of them has answered, or when there are none.
        """
        mirrors = [f for f in self._followed.values() if not f.services and f.spec.merge]
        if any(f.view.has_answer for f in mirrors):
            return ""
        lines = [_warning(c.status) for f in mirrors for c in f.conditions.values()]
        return shown("; ".join(lines), _MAX_WARNING)

    # The set of upstreams.

    def _reconcile(self) -> None:
        """Follow exactly the upstreams that are configured or declared now.

        A group-version disappears with its APIService, whatever the server does.
        """
        wanted = self._wanted()
        before, contributing = self._sources()
        clusters = self._cluster_names()
        for spec_id in self._followed.keys() - wanted.keys():
            self._drop(spec_id)
        changed = [
            self._follow_one(spec_id, spec, services)
            for spec_id, (spec, services) in wanted.items()
            if self._is_changed(spec_id, spec, services)
        ]
        after, still_contributing = self._sources()
        for source in before - after:
            self._metrics.upstreams.forget_source(source)
            self._metrics.upstreams.api_services.forget(source.partition(":")[2])
        withdrawn = contributing - still_contributing
        self._publish(changed, withdrawn, clusters - self._cluster_names())

    def _sources(self) -> tuple[set[str], set[str]]:
        """Return the names of all sources, and of those that contribute."""
        followed = self._followed.values()
        return (
            {source for each in followed for source in each.sources},
            {source for each in followed for source in each.contributors},
        )

    def _cluster_names(self) -> set[str]:
        return {f.spec.name for f in self._followed.values() if not f.services}

    def _wanted(self) -> SpecsById:
        wanted: SpecsById = {spec_id: (spec, ()) for spec_id, spec in self._specs.items()}
        return wanted | service_specs(self._declarations.api_services.values(), self._settings)

    def _is_changed(
        self, spec_id: str, spec: UpstreamSpec, services: tuple[ApiService, ...]
    ) -> bool:
        followed = self._followed.get(spec_id)
        if followed is None or followed.services != services:
            return True
        # Specifications of services are made again each time; equal ids have equal ones.
        return not services and followed.spec != spec

    def _follow_one(
        self, spec_id: str, spec: UpstreamSpec, services: tuple[ApiService, ...]
    ) -> _Followed:
        followed = self._followed.get(spec_id)
        group_versions = frozenset((service.group, service.version) for service in services)
        if followed is None:
            poller = Poller(
                spec,
                self._store,
                self._metrics,
                group_versions,
                order=self._order,
                documents=self._document_rounds,
                rounds=lambda poll_s: rounds_for_all_lists(len(self._followed), poll_s),
            )
            followed = self._followed[spec_id] = _Followed(spec, poller)
            self._claims.register(KNOWN_RECORDS.key(spec_id), poller.work)
            known = self._records.content.get(spec_id)
            if known is not None:
                self._take(followed, known, is_news=False)
        elif not services:
            if replace(followed.spec, labels=spec.labels, merge=spec.merge) != spec:
                followed.poller.use(spec)
            followed.spec = spec
        followed.services = services
        self.documents.use(spec_id, followed.sources)
        followed.poller.want(group_versions)
        return followed

    def _drop(self, spec_id: str) -> None:
        followed = self._followed.pop(spec_id)
        _stop(followed)
        self.documents.drop(spec_id)
        followed.poller.retire()
        self._claims.unregister(KNOWN_RECORDS.key(spec_id))
        if followed.spec.name not in {other.spec.name for other in self._followed.values()}:
            self._metrics.upstreams.forget_upstream(followed.spec.name)

    def _publish(
        self,
        changed: Iterable[_Followed],
        withdrawn: Iterable[str] = (),
        clusters_gone: Iterable[str] = (),
    ) -> None:
        contributions: list[Contribution] = []
        changed, clusters_gone = tuple(changed), tuple(clusters_gone)
        for followed in changed:
            contributions += followed.contributions()
            followed.conditions = followed.current_conditions()
            for condition in followed.conditions.values():
                self._count(condition)
        self._registry.update(contributions, withdrawn)
        clusters = [followed.cluster() for followed in changed if not followed.services]
        if clusters or clusters_gone:
            for listener in self._cluster_listeners:
                listener(clusters, clusters_gone)

    def _count(self, condition: Condition) -> None:
        status = condition.status
        for state in SourceState:
            gauge = self._metrics.upstreams.state.labels(status.name, state)
            gauge.set(state is status.state)
        kind, _, name = status.name.partition(":")
        if kind == "apiservice":
            self._metrics.upstreams.api_services.set(name, condition.reason)

    # Records.

    def _records_changed(self, before: Mapping[str, Known | None], *, is_news: bool) -> None:
        changed: list[_Followed] = []
        for spec_id in before:
            followed = self._followed.get(spec_id)
            known = self._records.content.get(spec_id)
            # Another process removed the record, which this one may still need.
            if followed is None or known is None:
                continue
            self._take(followed, known, is_news=is_news)
            changed.append(followed)
        self._publish(changed)
        self._note_news(KNOWN_RECORDS.prefix)

    def _take(self, followed: _Followed, known: Known, *, is_news: bool) -> None:
        """View a record, which is trusted if its writer is alive."""
        _stop(followed)
        is_trusted = is_news or self._is_claimed(followed, known)
        is_trusted = is_trusted and not self._silence
        since = "" if is_trusted else now_text()
        followed.view = UpstreamView(known, is_trusted, since, self._silence)

    def _record_lost(self, spec_id: str) -> None:
        """Have a record written again that a restored store lacks."""
        followed = self._followed.get(spec_id)
        if followed is not None:
            followed.poller.reload()

    # Claims: whether the writers of records are alive.

    def _claims_changed(self, names: Sequence[str]) -> None:
        ids = (name.removeprefix(KNOWN_RECORDS.prefix) for name in names)
        followed = (self._followed[spec_id] for spec_id in ids if spec_id in self._followed)
        self._publish([each for each in followed if self._reconsider(each)])
        self._note_news(PREFIX)

    def _is_claimed(self, followed: _Followed, known: Known) -> bool:
        """Return whether the writer of a record still has its claim."""
        return self._claims.held_since(KNOWN_RECORDS.key(followed.spec.id)) == known.claim

    def _reconsider(self, followed: _Followed) -> bool:
        """Trust a record whose writer is alive; end the trust some time after it has gone.

        Returns:
            Whether the view has changed, and has to be published.
        """
        known, was_trusted = followed.view.known, followed.view.is_trusted
        if known is None or self._silence:
            return False
        if self._is_claimed(followed, known):
            _stop(followed)
            if not was_trusted:
                followed.view = UpstreamView(known, is_trusted=True)
            return not was_trusted
        if was_trusted and not followed.distrust:
            loop = asyncio.get_running_loop()
            followed.distrust = loop.call_later(self._grace_s, self._lose, followed)
        return False

    def _lose(self, followed: _Followed) -> None:
        followed.distrust = None
        followed.view = replace(followed.view, is_trusted=False, since=now_text())
        self._publish([followed])

    # Silence of the store.

    def _note_news(self, prefix: str) -> None:
        """Note news of records or of claims, which may end the silence."""
        self._heard[prefix] = time.monotonic(), now_text()
        if self._silence and not self._is_silent():
            self._end_silence()

    def _is_silent(self) -> bool:
        heard, _ = min(self._heard.values())
        return time.monotonic() - heard >= self._silence_s

    async def _notice_silence(self) -> None:
        """Serve upstreams as stale while the store has no news, until cancelled.

        A process that is cut off does not learn that an upstream or the writer of its record died.
        A watch that works brings news every few seconds, even if nothing has changed.
        """
        while True:
            await asyncio.sleep(self._silence_s / _LOOKS)
            if not self._silence and self._is_silent():
                self._begin_silence()

    def _begin_silence(self) -> None:
        """Trust no record any more."""
        _, since = min(self._heard.values())
        self._silence = "last known; the store has sent nothing since"
        _log.warning("upstreams are served as stale: the store has no news", since=since)
        for followed in self._followed.values():
            _stop(followed)
            view = followed.view
            if view.is_trusted or not view.known:
                followed.view = UpstreamView(view.known, since=since, doubt=self._silence)
        self._publish(self._followed.values())

    def _end_silence(self) -> None:
        """Trust the records of writers that are alive."""
        self._silence = ""
        _log.info("the store has news again")
        for followed in self._followed.values():
            followed.view = replace(followed.view, doubt="")
            self._reconsider(followed)
        self._publish(self._followed.values())


def _stop(followed: _Followed) -> None:
    if followed.distrust is not None:
        followed.distrust.cancel()
        followed.distrust = None


def _warning(status: SourceStatus) -> str:
    since = f" since {status.since:%Y-%m-%dT%H:%M:%SZ}" if status.since else ""
    error = f": {status.error}" if status.error else ""
    return f"{status.name} is {status.state}{since}{error}"
