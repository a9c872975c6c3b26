"""Serves what the store knows of other API servers, and has them polled.

Every process follows the records of all upstreams, the one that writes a record included, and takes
part in the claim to poll each of them. A record is believed while its writer is alive, which shows
by the writer's claim; after that it is served as stale until another has asked.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import structlog

from apidiscovery_service.core.model import Contribution, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import Source, SourceState, SourceStatus
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.api_service import ApiService
from apidiscovery_service.sources.upstreams import record
from apidiscovery_service.sources.upstreams.failure import shown
from apidiscovery_service.sources.upstreams.openapi import UpstreamDocuments
from apidiscovery_service.sources.upstreams.openapi_poller import ROUNDS_AT_ONCE
from apidiscovery_service.sources.upstreams.poller import Poller
from apidiscovery_service.sources.upstreams.projection import (
    Condition,
    View,
    mirror_condition,
    mirrored_offers,
    service_condition,
    service_offer,
)
from apidiscovery_service.sources.upstreams.rounds import now_text
from apidiscovery_service.sources.upstreams.services import (
    ServiceSettings,
    SpecsById,
    service_specs,
)
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.store import Batch, Entry, Guard, Store
from apidiscovery_service.store.claims import is_dead
from apidiscovery_service.store.following import PAUSE_S, follow

_CLAIMS = "claims/"
# How long a record is believed after its writer has gone: the next one asks at once, and has its
# answer after two exchanges at most.
GRACE_S = 12.0
# How long records are believed while the store says nothing: as old as that they may be anyway,
# for upstreams are asked once a minute.
SILENCE_S = 60.0
# So often in that time the store is asked whether it is there.
_LOOKS = 6

_MAX_WARNINGS = 50
_MAX_WARNING = 400
_NO_MARK = (0, 0)

_log = structlog.get_logger(__name__)


class DeclaredServices(Protocol):
    """Where the APIServices in force are known."""

    @property
    def api_services(self) -> Mapping[str, ApiService]: ...

    def on_api_services(self, listener: Callable[[], None]) -> object: ...


class WorkClaims(Protocol):
    """Where a process takes part in claims to work."""

    def register(self, name: str, work: Callable[[Guard], Awaitable[None]]) -> None: ...

    def unregister(self, name: str) -> None: ...


@dataclass(slots=True)
class _Followed:
    """One upstream in use.

    Attributes:
        services: What names it; none for a mirrored server.
        mark: Of the record that was read last.
        losing: Ends the trust in it, some time after its writer has gone.
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
            return (f"upstream:{self.spec.name}",)
        return tuple(f"apiservice:{service.name}" for service in self.services)

    def contributions(self) -> Iterator[Contribution]:
        """Return what it offers, one contribution for each source."""
        for service in self.services:
            offers = (service_offer(service, self.view),)
            yield Contribution(f"apiservice:{service.name}", Precedence.AGGREGATOR, offers)
        if not self.services:
            yield Contribution(self.sources[0], Precedence.AGGREGATOR, mirrored_offers(self.view))

    def look(self) -> dict[str, Condition]:
        """Return how far each source can be believed."""
        address = self.spec.endpoint.url
        if not self.services:
            source = self.sources[0]
            return {source: mirror_condition(source, address, self.view)}
        return {
            source: service_condition(service, source, address, self.view)
            for source, service in zip(self.sources, self.services, strict=True)
        }


class Upstreams(Source):
    """All other API servers that are sources. It belongs to the thread of the registry.

    Args:
        store: Where records are.
        registry: What gets the contributions.
        declarations: Which APIServices there are.
        claims: Who polls what.
        metrics: What counts.
        specs: The servers that are mirrored, by configuration.
        services: How servers behind APIServices are reached.
        grace_s: How long a record is believed after its writer has gone.
        silence_s: How long records are believed while the store cannot be asked.

    Attributes:
        documents: The OpenAPI documents of all of them.
    """

    def __init__(  # noqa: PLR0913 - it joins them
        self,
        store: Store,
        registry: Registry,
        declarations: DeclaredServices,
        claims: WorkClaims,
        metrics: Metrics,
        *,
        specs: Sequence[UpstreamSpec] = (),
        services: ServiceSettings | None = None,
        grace_s: float = GRACE_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.documents = UpstreamDocuments(store)
        self._turns = asyncio.Semaphore(ROUNDS_AT_ONCE)
        self._store = store
        self._registry = registry
        self._declarations = declarations
        self._claims = claims
        self._metrics = metrics
        self._settings = services or ServiceSettings()
        self._grace_s = grace_s
        self._silence_s = silence_s
        # Why no record is believed: the store does not answer; empty when it does.
        self._silence = ""
        self._followed: dict[str, _Followed] = {}
        self._specs = {spec.id: spec for spec in specs}
        # Revision since which a claim is held, by the id of the upstream.
        self._held: dict[str, int] = {}
        self._unread: asyncio.Queue[str] = asyncio.Queue()
        self._is_loaded = False

    async def load(self) -> None:
        """Contribute what is kept, and begin to take part in polling; no upstream is waited for.

        Raises:
            StoreUnavailable: What is kept cannot be read now.
        """
        await self.documents.load()
        await self._list_claims()
        await self._list_records()
        self._is_loaded = True
        self._declarations.on_api_services(self._reconcile)
        self._reconcile()

    async def follow(self) -> None:
        """Follow the records, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.documents.follow())
                tasks.create_task(self._watch(record.PREFIX, self._records_changed))
                tasks.create_task(self._watch(_CLAIMS + record.PREFIX, self._claims_changed))
                tasks.create_task(self._read_new())
                tasks.create_task(self._listen())
        finally:
            for followed in self._followed.values():
                _stop(followed)

    def states(self) -> list[SourceStatus]:
        """Return the status of each source, in the order of their names."""
        return sorted(
            (c.status for f in self._followed.values() for c in f.conditions.values()),
            key=lambda status: status.name,
        )

    def warnings(self) -> list[str]:
        """Return a line for each source that is not current and for what was left out, bounded."""
        lines = [_warning(s) for s in self.states() if s.state is not SourceState.CURRENT]
        for followed in self._followed.values():
            name = followed.spec.name
            for root in followed.view.roots:
                lines += [f"upstream {name}: {root.path}: {text}" for text in root.warnings]
            documents = self.documents.warnings(followed.spec.id)
            lines += [f"upstream {name}: OpenAPI: {text}" for text in documents]
        if len(lines) > _MAX_WARNINGS:
            more = len(lines) - _MAX_WARNINGS
            lines = [*lines[:_MAX_WARNINGS], f"upstreams: {more} more such lines"]
        return [shown(line, _MAX_WARNING) for line in lines]

    def awaited(self) -> str:
        """Return which mirrored servers are waited for, one line.

        Empty when one has ever answered, or when there is none.
        """
        mirrors = [f for f in self._followed.values() if not f.services]
        if any(f.view.has_answer for f in mirrors):
            return ""
        lines = [_warning(c.status) for f in mirrors for c in f.conditions.values()]
        return shown("; ".join(lines), _MAX_WARNING)

    # Which upstreams there are.

    def _reconcile(self) -> None:
        """Follow the upstreams that are named now, and those only.

        A group-version is gone as soon as its APIService is, whatever the server does.
        """
        wanted = self._wanted()
        before = {source for followed in self._followed.values() for source in followed.sources}
        for spec_id in self._followed.keys() - wanted.keys():
            self._drop(spec_id)
        changed = [
            self._follow_one(spec_id, spec, services)
            for spec_id, (spec, services) in wanted.items()
            if self._is_news(spec_id, services)
        ]
        after = {source for followed in self._followed.values() for source in followed.sources}
        self._publish(changed, before - after)

    def _wanted(self) -> SpecsById:
        wanted: SpecsById = {spec_id: (spec, ()) for spec_id, spec in self._specs.items()}
        return wanted | service_specs(self._declarations.api_services.values(), self._settings)

    def _is_news(self, spec_id: str, services: tuple[ApiService, ...]) -> bool:
        followed = self._followed.get(spec_id)
        return followed is None or followed.services != services

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
            )
            followed = self._followed[spec_id] = _Followed(spec, poller)
            self._claims.register(record.key_of(spec_id), poller.work)
            self._unread.put_nowait(spec_id)
        followed.services = services
        self.documents.use(spec_id, followed.sources)
        followed.poller.want(group_versions)
        return followed

    def _drop(self, spec_id: str) -> None:
        followed = self._followed.pop(spec_id)
        _stop(followed)
        self.documents.drop(spec_id)
        followed.poller.retire()
        self._claims.unregister(record.key_of(spec_id))
        if followed.spec.name not in {other.spec.name for other in self._followed.values()}:
            self._metrics.upstreams.forget_upstream(followed.spec.name)

    def _publish(self, changed: Iterable[_Followed], gone: Iterable[str] = ()) -> None:
        contributions: list[Contribution] = []
        for followed in changed:
            contributions += followed.contributions()
            followed.conditions = followed.look()
            for condition in followed.conditions.values():
                self._count(condition)
        gone = tuple(gone)
        for source in gone:
            self._metrics.upstreams.forget_source(source)
            self._metrics.upstreams.api_services.forget(source.partition(":")[2])
        self._registry.update(contributions, gone)

    def _count(self, condition: Condition) -> None:
        status = condition.status
        for state in SourceState:
            gauge = self._metrics.upstreams.state.labels(status.name, state)
            gauge.set(state is status.state)
        kind, _, name = status.name.partition(":")
        if kind == "apiservice":
            self._metrics.upstreams.api_services.set(name, condition.reason)

    # What is known of them.

    async def _watch(self, prefix: str, changed: "_OnChanges") -> None:
        async def take(batch: Batch) -> None:
            await changed({c.key.removeprefix(prefix): c.entry for c in batch.changes})

        await follow(self._store, prefix, partial(self._listed, prefix), take)

    async def _listed(self, prefix: str) -> int:
        is_records = prefix == record.PREFIX
        return await (self._list_records() if is_records else self._list_claims())

    async def _list_records(self) -> int:
        listing = await self._store.list(record.PREFIX)
        entries = {e.key.removeprefix(record.PREFIX): e for e in listing.entries}
        for spec_id, followed in self._followed.items():
            entry = entries.get(spec_id)
            if entry is None or (
                entry.mark != followed.mark and entry.revision <= followed.mark[0]
            ):
                # The store was restored from a backup: what was learned since is not in it.
                followed.mark = _NO_MARK
                followed.poller.write_again()
        if self._is_loaded:
            await self._records_changed(entries, is_news=False)
        else:
            await self._load_records(entries)
        return listing.revision

    async def _load_records(self, entries: Mapping[str, Entry]) -> None:
        """Read all at the start, and contribute them in one step."""
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
            # A record that is removed was of no more use to its writer; it may be to us.
            if followed is None or entry is None:
                continue
            if is_news and record.is_large(entry.value):
                # Beside the others, which would have to wait.
                self._unread.put_nowait(spec_id)
                continue
            if await self._take(followed, entry, is_news=is_news):
                taken.append(followed)
        self._publish(f for f in taken if self._followed.get(f.spec.id) is f)

    async def _take(self, followed: _Followed, entry: Entry, *, is_news: bool) -> bool:
        """Take a record; False when it is known already or cannot be read.

        Args:
            followed: Whose it is.
            entry: The record.
            is_news: Whether it has been written just now, and so by somebody who is alive.
        """
        if entry.revision <= followed.mark[0]:
            return False

        async def part(name: str) -> bytes | None:
            found = await self._store.get(f"{entry.key}/{name}")
            return found.value if found else None

        try:
            known = await record.unseal(entry.value, part)
        except record.BadRecord as error:
            _log.warning("record of an upstream passed over", key=entry.key, reason=str(error))
            return False
        if entry.revision <= followed.mark[0]:
            return False
        _stop(followed)
        is_trusted = is_news or self._held.get(followed.spec.id) == known.claim
        is_trusted = is_trusted and not self._silence
        since = "" if is_trusted else now_text()
        followed.view = View(known, is_trusted, since, self._silence)
        followed.mark = entry.mark
        return True

    async def _read_new(self) -> None:
        """Read large records, and those of upstreams that come into use later.

        Another may have asked them before.
        """
        while True:
            spec_id = await self._unread.get()
            try:
                entry = await self._store.get(record.key_of(spec_id))
                if entry is not None:
                    await self._records_changed({spec_id: entry}, is_news=False)
            except DiscoveryError as error:
                _log.warning("record of an upstream not read", id=spec_id, reason=str(error))
                self._unread.put_nowait(spec_id)
                await asyncio.sleep(PAUSE_S)

    # Whether their writers are alive.

    async def _list_claims(self) -> int:
        prefix = _CLAIMS + record.PREFIX
        listing = await self._store.list(prefix)
        entries: dict[str, Entry | None] = dict.fromkeys(self._held)
        entries |= {e.key.removeprefix(prefix): e for e in listing.entries}
        await self._claims_changed(entries)
        return listing.revision

    async def _claims_changed(self, entries: Mapping[str, Entry | None]) -> None:
        for spec_id, entry in entries.items():
            if entry is None or is_dead(entry):
                self._held.pop(spec_id, None)
            else:
                self._held[spec_id] = entry.created
            followed = self._followed.get(spec_id)
            if followed is not None:
                self._reconsider(followed)

    def _reconsider(self, followed: _Followed) -> None:
        """Trust a record whose writer is alive; lose trust in a while when it has gone."""
        known = followed.view.known
        if known is None or self._silence:
            return
        if self._held.get(followed.spec.id) == known.claim:
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
        if known is None or self._held.get(followed.spec.id) == known.claim:
            return
        followed.view = replace(followed.view, is_trusted=False, since=now_text())
        self._publish([followed])

    # Whether the store would tell.

    async def _listen(self) -> None:
        """Ask the store now and then whether it is there, until cancelled.

        Whoever is cut off hears neither that an upstream has died nor that its writer has; a watch
        may be silent for either reason.
        """
        pause_s = self._silence_s / _LOOKS
        heard, since = time.monotonic(), now_text()
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await self._list_claims()
            except (DiscoveryError, TimeoutError) as error:
                if not self._silence and time.monotonic() - heard >= self._silence_s:
                    self._fall_silent(since, str(error) or "no answer in time")
            else:
                heard, since = time.monotonic(), now_text()
                if self._silence:
                    await self._hear_again()
            await asyncio.sleep(pause_s)

    def _fall_silent(self, since: str, reason: str) -> None:
        """Believe no record any more."""
        self._silence = f"last known; the store has told nothing since: {reason}"
        _log.warning("upstreams are taken for stale: the store is silent", reason=reason)
        for followed in self._followed.values():
            _stop(followed)
            view = followed.view
            if view.is_trusted or not view.known:
                followed.view = View(view.known, since=since, doubt=self._silence)
        self._publish(self._followed.values())

    async def _hear_again(self) -> None:
        """Believe the records of writers that are alive, as they are now."""
        try:
            await self._list_records()
        except DiscoveryError:
            return  # the next look comes soon
        self._silence = ""
        _log.info("the store answers again")
        for followed in self._followed.values():
            followed.view = replace(followed.view, doubt="")
            self._reconsider(followed)
        self._publish(self._followed.values())


class _OnChanges(Protocol):
    async def __call__(self, entries: Mapping[str, Entry | None], /) -> None: ...


def _stop(followed: _Followed) -> None:
    if followed.losing is not None:
        followed.losing.cancel()
        followed.losing = None


def _warning(status: SourceStatus) -> str:
    since = f" since {status.since:%Y-%m-%dT%H:%M:%SZ}" if status.since else ""
    error = f": {status.error}" if status.error else ""
    return f"{status.name} is {status.state}{since}{error}"
