"""Serves what the store has of other API servers, and starts their pollers.

Every process follows the records of all upstreams, also those that it writes itself, and competes
for the claim to poll each of them. A record is trusted while its writer lives and holds its claim;
after that its groups are served as stale until another process has polled.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import structlog

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Contribution, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import UPSTREAM, Source, SourceState, SourceStatus
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.api_service import ApiService
from apidiscovery_service.sources.upstreams.failure import shown
from apidiscovery_service.sources.upstreams.openapi import UpstreamDocuments
from apidiscovery_service.sources.upstreams.poller import (
    DOCUMENT_ROUNDS_AT_ONCE,
    Poller,
)
from apidiscovery_service.sources.upstreams.projection import (
    Condition,
    View,
    cluster_of,
    mirror_condition,
    mirrored_offers,
    service_condition,
    service_offer,
)
from apidiscovery_service.sources.upstreams.record import BadRecord
from apidiscovery_service.sources.upstreams.rounds import now_text
from apidiscovery_service.sources.upstreams.services import (
    ServiceSettings,
    SpecsById,
    service_specs,
)
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS
from apidiscovery_service.sources.upstreams.turns import Turns
from apidiscovery_service.sources.upstreams.unaggregated import rounds_for_all_lists
from apidiscovery_service.store import Batch, Entry, Store
from apidiscovery_service.store.claims import PREFIX as CLAIMS
from apidiscovery_service.store.claims import Claims, is_dead
from apidiscovery_service.store.following import PAUSE_S, follow

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
_NO_MARK = (0, 0)

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
        mark: The mark of the record that was read last.
        losing: Ends the trust in the record, some time after its writer has gone.
    """

    spec: UpstreamSpec
    poller: Poller
    services: tuple[ApiService, ...] = ()
    view: View = field(default_factory=View)
    mark: tuple[int, int] = _NO_MARK
    losing: asyncio.TimerHandle | None = None
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
    """All other API servers that are sources. Not thread-safe: used in the thread of the registry.

    Args:
        store: The store with the records.
        registry: The registry for the contributions.
        declarations: The APIServices in force.
        claims: The claims to poll.
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
        self.documents = UpstreamDocuments(store)
        self._turns = Turns()
        self._document_rounds = asyncio.Semaphore(DOCUMENT_ROUNDS_AT_ONCE)
        self._store = store
        self._registry = registry
        self._declarations = declarations
        self._claims = claims
        self._metrics = metrics
        self._settings = services or ServiceSettings()
        self._grace_s = grace_s
        self._silence_s = silence_s
        # Why no record is trusted: the store has no news; empty when it has.
        self._silence = ""
        # When the last news of claims came: on the monotonic clock, and as text.
        self._heard = time.monotonic(), now_text()
        self._followed: dict[str, _Followed] = {}
        self._specs = {spec.id: spec for spec in specs}
        # Revision since which a claim is held, by the id of the upstream.
        self._claimed: dict[str, int] = {}
        self._unread: asyncio.Queue[str] = asyncio.Queue()
        self._cluster_listeners: list[ClusterListener] = []
        self._is_loaded = False

    async def load(self) -> None:
        """Contribute what the store has, and compete for polling; wait for no upstream.

        Raises:
            StoreUnavailable: The records cannot be read now.
        """
        await self.documents.load()
        await self._list_claims()
        await self._list_records()
        self._is_loaded = True
        self._declarations.on_api_services(self._reconcile)
        self._reconcile()

    def on_clusters(self, listener: ClusterListener) -> None:
        """Call a listener with the clusters that have changed, and with the names of those gone.

        Clusters are the servers that are mirrored, whether they are merged or not.
        """
        self._cluster_listeners.append(listener)

    def update_mirrors(self, changed: Iterable[UpstreamSpec], gone: Iterable[str] = ()) -> None:
        """Mirror other servers from now on.

        What is known of a server stays while its id does: another endpoint is polled at once, and
        other labels are shown. A server that is gone is withdrawn with its records.

        Args:
            changed: New servers, and others for those of the same name.
            gone: The names of those to mirror no longer.
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
                records, claims = KNOWN_RECORDS.prefix, CLAIMS + KNOWN_RECORDS.prefix
                tasks.create_task(self._watch(records, self._list_records, self._records_changed))
                tasks.create_task(self._watch(claims, self._list_claims, self._claims_changed))
                tasks.create_task(self._read_new())
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
        """Follow exactly the upstreams that are named now.

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
        # The specifications of services are made anew each time, from what their ids tell.
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
                turns=self._turns,
                documents=self._document_rounds,
                rounds=lambda: rounds_for_all_lists(len(self._followed)),
            )
            followed = self._followed[spec_id] = _Followed(spec, poller)
            self._claims.register(KNOWN_RECORDS.key(spec_id), poller.work)
            self._unread.put_nowait(spec_id)
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

    # Their records.

    async def _watch(
        self,
        prefix: str,
        load: Callable[[], Awaitable[int]],
        changed: Callable[[Mapping[str, Entry | None]], Awaitable[None]],
    ) -> None:
        async def take(batch: Batch) -> None:
            await changed({c.key.removeprefix(prefix): c.entry for c in batch.changes})

        await follow(self._store, prefix, load, take)

    async def _list_records(self) -> int:
        listing = await self._store.list(KNOWN_RECORDS.prefix)
        entries = {e.key.removeprefix(KNOWN_RECORDS.prefix): e for e in listing.entries}
        for spec_id, followed in self._followed.items():
            entry = entries.get(spec_id)
            if entry is None or (
                entry.mark != followed.mark and entry.revision <= followed.mark[0]
            ):
                # The store was restored from a backup, which does not have the latest records.
                followed.mark = _NO_MARK
                followed.poller.write_again()
        if self._is_loaded:
            await self._records_changed(entries, is_news=False)
        else:
            await self._load_records(entries)
        return listing.revision

    async def _load_records(self, entries: Mapping[str, Entry]) -> None:
        """Read all records at the start, and contribute them in one step."""
        for spec_id, (spec, services) in self._wanted().items():
            followed = self._follow_one(spec_id, spec, services)
            if spec_id in entries:
                await self._take(followed, entries[spec_id], is_news=False)
        self._publish(self._followed.values())

    async def _records_changed(
        self, entries: Mapping[str, Entry | None], *, is_news: bool = True
    ) -> None:
        taken: list[_Followed] = []
        for spec_id, entry in entries.items():
            followed = self._followed.get(spec_id)
            # Another process removed the record, which this one may still need.
            if followed is None or entry is None:
                continue
            if await self._take(followed, entry, is_news=is_news):
                taken.append(followed)
        self._publish(f for f in taken if self._followed.get(f.spec.id) is f)

    async def _take(self, followed: _Followed, entry: Entry, *, is_news: bool) -> bool:
        """Read a record; return False when it is known already or unreadable.

        Args:
            followed: Its upstream.
            entry: The record.
            is_news: Whether it was written just now, so that its writer is alive.
        """
        if entry.revision <= followed.mark[0]:
            return False
        try:
            known = followed.poller.own(entry.value)
            known = known or await KNOWN_RECORDS.read(self._store, entry)
        except BadRecord as error:
            _log.warning("record of an upstream ignored", key=entry.key, reason=str(error))
            return False
        if entry.revision <= followed.mark[0]:
            return False
        _stop(followed)
        is_trusted = is_news or self._claimed.get(followed.spec.id) == known.claim
        is_trusted = is_trusted and not self._silence
        since = "" if is_trusted else now_text()
        followed.view = View(known, is_trusted, since, self._silence)
        followed.mark = entry.mark
        return True

    async def _read_new(self) -> None:
        """Read the records of upstreams that come into use later.

        Another process may have polled them before.
        """
        while True:
            spec_id = await self._unread.get()
            try:
                entry = await self._store.get(KNOWN_RECORDS.key(spec_id))
                if entry is not None:
                    await self._records_changed({spec_id: entry}, is_news=False)
            except DiscoveryError as error:
                _log.warning("record of an upstream not read", id=spec_id, reason=str(error))
                self._unread.put_nowait(spec_id)
                await asyncio.sleep(PAUSE_S)

    # Claims: whether the writers of records are alive.

    async def _list_claims(self) -> int:
        prefix = CLAIMS + KNOWN_RECORDS.prefix
        listing = await self._store.list(prefix)
        entries: dict[str, Entry | None] = dict.fromkeys(self._claimed)
        entries |= {e.key.removeprefix(prefix): e for e in listing.entries}
        await self._claims_changed(entries)
        return listing.revision

    async def _claims_changed(self, entries: Mapping[str, Entry | None]) -> None:
        for spec_id, entry in entries.items():
            if entry is None or is_dead(entry):
                self._claimed.pop(spec_id, None)
            else:
                self._claimed[spec_id] = entry.created
            followed = self._followed.get(spec_id)
            if followed is not None:
                self._reconsider(followed)
        self._heard = time.monotonic(), now_text()
        if self._silence:
            await self._end_silence()

    def _reconsider(self, followed: _Followed) -> None:
        """Trust a record whose writer is alive; end the trust some time after it has gone."""
        known = followed.view.known
        if known is None or self._silence:
            return
        if self._claimed.get(followed.spec.id) == known.claim:
            _stop(followed)
            if not followed.view.is_trusted:
                followed.view = View(known, is_trusted=True)
                self._publish([followed])
        elif followed.view.is_trusted and not followed.losing:
            loop = asyncio.get_running_loop()
            followed.losing = loop.call_later(self._grace_s, self._lose, followed)

    def _lose(self, followed: _Followed) -> None:
        followed.losing = None
        known = followed.view.known
        if known is None or self._claimed.get(followed.spec.id) == known.claim:
            return
        followed.view = replace(followed.view, is_trusted=False, since=now_text())
        self._publish([followed])

    # Silence of the store.

    async def _notice_silence(self) -> None:
        """Serve upstreams as stale while the store has no news, until cancelled.

        A process that is cut off does not learn that an upstream or the writer of its record died.
        A watch that works brings news every few seconds, even if nothing has changed.
        """
        while True:
            await asyncio.sleep(self._silence_s / _LOOKS)
            heard, since = self._heard
            if not self._silence and time.monotonic() - heard >= self._silence_s:
                self._begin_silence(since)

    def _begin_silence(self, since: str) -> None:
        """Trust no record any more."""
        self._silence = "last known; the store has told nothing since"
        _log.warning("upstreams are served as stale: the store has no news", since=since)
        for followed in self._followed.values():
            _stop(followed)
            view = followed.view
            if view.is_trusted or not view.known:
                followed.view = View(view.known, since=since, doubt=self._silence)
        self._publish(self._followed.values())

    async def _end_silence(self) -> None:
        """Trust the current records of writers that are alive."""
        try:
            await self._list_records()
        except DiscoveryError:
            return  # the next news come soon
        self._silence = ""
        _log.info("the store has news again")
        for followed in self._followed.values():
            followed.view = replace(followed.view, doubt="")
            self._reconsider(followed)
        self._publish(self._followed.values())


def _stop(followed: _Followed) -> None:
    if followed.losing is not None:
        followed.losing.cancel()
        followed.losing = None


def _warning(status: SourceStatus) -> str:
    since = f" since {status.since:%Y-%m-%dT%H:%M:%SZ}" if status.since else ""
    error = f": {status.error}" if status.error else ""
    return f"{status.name} is {status.state}{since}{error}"
