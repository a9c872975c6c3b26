"""Polls one upstream while its claim is held: for discovery and for OpenAPI documents.

Both use the same loop. Documents follow discovery: they are requested after it, for the
group-versions that it offers, and it never waits for them.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import structlog

from apidiscovery_service.core.model import Group
from apidiscovery_service.core.source import CertificateExpiry
from apidiscovery_service.errors import DiscoveryError, text_of
from apidiscovery_service.metrics import Metrics, UpstreamMetrics
from apidiscovery_service.sources.upstreams.dialect import DialectReader
from apidiscovery_service.sources.upstreams.failure import Reason, attempt, shown
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.list_details import (
    UnaggregatedLists,
    rounds_for_all_lists,
)
from apidiscovery_service.sources.upstreams.list_reader import GroupVersion, versions_of
from apidiscovery_service.sources.upstreams.openapi.record import DocumentsWriter
from apidiscovery_service.sources.upstreams.openapi.rounds import DocumentRounds
from apidiscovery_service.sources.upstreams.reachability import accepts, address
from apidiscovery_service.sources.upstreams.record_store import RecordWriter
from apidiscovery_service.sources.upstreams.request_order import RequestOrder
from apidiscovery_service.sources.upstreams.rounds import Rounds
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS, Known, Root
from apidiscovery_service.store import Fenced, Guard, Store
from apidiscovery_service.waiting import happens_within

DOCUMENT_ROUNDS_AT_ONCE = 16
"""Rounds for OpenAPI documents at once in one process.

A round with a server that does not answer takes `openapi_s` for each of three documents, and the
next round comes after a minute at the earliest.
"""

# The address of a server may change while the former address still answers.
_NEW_CONNECTION_EVERY_ROUNDS = 10
# So that rounds of many servers do not stay synchronized.
_JITTER = 0.1
_FORGET_S = 10.0
# A change is served to clients before further requests to its server.
_AFTER_CHANGE_S = 0.05
# How often to try to connect to a server that refuses connections, before the next poll.
_CONNECT_EVERY_S = 2.0

_log = structlog.get_logger(__name__)


class Poller:
    """Polls one upstream and keeps its records up to date.

    Args:
        spec: The upstream.
        store: The store with the records.
        metrics: The metrics to update.
        wanted: The group-versions of a service that have an APIService now.
        order: The order of requests to the servers of this process.
        documents: Limits concurrent rounds for OpenAPI documents; None for no such rounds.
        rounds: Returns the number of rounds within which all unaggregated lists are requested, by
            the interval of the rounds in seconds.
    """

    def __init__(  # noqa: PLR0913 - those behind the star have names
        self,
        spec: UpstreamSpec,
        store: Store,
        metrics: Metrics,
        wanted: frozenset[GroupVersion] = frozenset(),
        *,
        order: RequestOrder | None = None,
        documents: asyncio.Semaphore | None = None,
        rounds: Callable[[float], int] = lambda poll_s: rounds_for_all_lists(1, poll_s),
    ) -> None:
        self._spec = spec
        self._store = store
        self._metrics = metrics.upstreams
        self._wanted = wanted
        self._order = order or RequestOrder()
        self._documents = documents
        self._rounds = rounds
        self._replaced = asyncio.Event()
        self._is_retired = False
        self._loops: tuple[_Loop, ...] = ()
        self._polling: list[asyncio.Task[None]] = []

    def use(self, spec: UpstreamSpec) -> None:
        """Poll by another specification, at once; its id is the same, so the records stay."""
        self._spec = spec
        self._replaced.set()

    def want(self, wanted: frozenset[GroupVersion]) -> None:
        """Set the group-versions that have an APIService; if they change, poll at once."""
        if wanted != self._wanted:
            self._wanted = wanted
            for loop in self._loops[:1]:
                loop.wake()

    def reload(self) -> None:
        """Read the records again, as the store may have lost something, and poll at once."""
        for loop in self._loops:
            loop.reload()

    def retire(self) -> None:
        """Stop polling, and remove the records when the work is cancelled.

        No metric is updated afterwards, so the metrics can be dropped.
        """
        self._is_retired = True
        for task in self._polling:
            task.cancel()

    async def work(self, guard: Guard) -> None:
        """Poll until cancelled.

        Raises:
            Fenced: Another process has taken over, and writes the records now.
        """
        try:
            while not self._is_retired:
                await self._poll(guard)
            await asyncio.get_running_loop().create_future()
        finally:
            if self._is_retired:
                await self._forget(guard)

    async def _poll(self, guard: Guard) -> None:
        """Poll until the specification is replaced, or until cancelled."""
        self._replaced.clear()
        spec = self._spec
        documents: _DocumentsLoop | None = None
        if self._documents and spec.openapi:
            writer = DocumentsWriter(self._store, spec.id, guard)
            documents = _DocumentsLoop(spec, self._metrics, writer, self._documents)
        discovery = _DiscoveryLoop(
            spec,
            self._metrics,
            Known(guard.created, tuple(Root(path, core) for path, core in spec.paths)),
            record=RecordWriter(KNOWN_RECORDS, self._store, spec.id, guard),
            documents=documents,
            wanted=lambda: self._wanted,
            rounds=partial(self._rounds, spec.timing.poll_s),
            order=self._order,
        )
        self._loops = (discovery, documents) if documents else (discovery,)
        self._polling = [asyncio.create_task(loop.run()) for loop in self._loops]
        tasks = (*self._polling, asyncio.create_task(self._replaced.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in self._polling:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for each in tasks:
                each.cancel()
            try:
                await asyncio.wait(tasks)
            finally:  # the process may end while this upstream is dropped
                await spec.endpoint.aclose()

    async def _forget(self, guard: Guard) -> None:
        """Remove all records, also of documents that are not polled now."""
        spec = self._spec
        try:
            async with asyncio.timeout(_FORGET_S):
                await RecordWriter(KNOWN_RECORDS, self._store, spec.id, guard).remove()
                await DocumentsWriter(self._store, spec.id, guard).remove()
        except (DiscoveryError, TimeoutError) as error:
            _log.info(
                "records of an upstream not removed", upstream=spec.name, reason=text_of(error)
            )


class _Loop(ABC):
    """Polls one upstream at intervals, with backoff after failures, or at once when woken.

    Args:
        spec: The upstream.
        metrics: The metrics to update.
        settle_s: How long to wait for more changes once woken.
    """

    def __init__(self, spec: UpstreamSpec, metrics: UpstreamMetrics, settle_s: float = 0) -> None:
        self._spec = spec
        self._metrics = metrics
        self._settle_s = settle_s
        self._failures = 0  # in a row
        self._is_loaded = False
        self._woken = asyncio.Event()
        self._log = _log.bind(upstream=spec.name)

    def wake(self) -> None:
        """Have the next round begin soon."""
        self._woken.set()

    def reload(self) -> None:
        """Read the record again before the next round, which begins soon."""
        self._is_loaded = False
        self.wake()

    async def run(self) -> None:
        """Poll until cancelled.

        Raises:
            Fenced: Another process has taken over.
        """
        while True:
            self._woken.clear()
            while not self._is_loaded:
                self._is_loaded = True  # before: `reload` may be called meanwhile
                if not await self._has_done("read", self._load()):
                    self._is_loaded = False
                    await asyncio.sleep(self._spec.timing.first_retry_s)
            await self._round()
            await self._wait(self._pause_s() * (1 - _JITTER * random.random()))  # noqa: S311 - spreads load, keeps no secret

    async def _has_done(self, verb: str, work: Awaitable[object]) -> bool:
        """Read or write the record; return False when the store fails.

        Raises:
            Fenced: Another process has taken over.
        """
        try:
            await work
        except Fenced:
            raise
        except (DiscoveryError, ValueError) as error:
            self._log.warning(f"record of an upstream not {verb}", reason=str(error))
            return False
        return True

    async def _wait(self, pause_s: float) -> None:
        """Wait for the next round."""
        if await happens_within(pause_s, self._woken.wait()):
            await asyncio.sleep(self._settle_s)

    def _count_bytes(self, number: int) -> None:
        self._metrics.bytes.labels(self._spec.name).inc(number)

    @abstractmethod
    async def _load(self) -> None:
        """Read the record."""

    @abstractmethod
    async def _round(self) -> None:
        """Poll once, and count failures."""

    @abstractmethod
    def _pause_s(self) -> float:
        """Return the pause before the next round."""


class _DiscoveryLoop(_Loop):
    """Polls for discovery, records it, and passes it to the loop for documents."""

    def __init__(  # noqa: PLR0913 - those behind the star have names
        self,
        spec: UpstreamSpec,
        metrics: UpstreamMetrics,
        known: Known,
        *,
        record: RecordWriter[Known],
        documents: "_DocumentsLoop | None",
        wanted: Callable[[], frozenset[GroupVersion]],
        rounds: Callable[[], int],
        order: RequestOrder,
    ) -> None:
        super().__init__(spec, metrics)
        exchange = Exchange(spec, self._count_bytes)
        self._known = known
        self._record = record
        self._documents = documents
        self._wanted = wanted
        self._rounds = Rounds(spec, exchange, wanted)
        self._order = order
        self._lists = UnaggregatedLists(spec, exchange, rounds)
        self._dialect = DialectReader(spec, exchange, rounds)
        self._log_changes = _HealthLog(spec)
        self._rounds_since_connected = 0
        self._is_starting = False
        # Whether details were postponed to the next round.
        self._is_late = False

    async def run(self) -> None:
        self._order.begin(self)
        try:
            await super().run()
        finally:
            self._order.end(self)

    async def _load(self) -> None:
        """Start from the record of the configured paths, under the claim of this holder."""
        recorded = await self._record.load()
        if recorded is not None:
            by_path = {root.path: root for root in recorded.roots}
            roots = tuple(by_path.get(root.path, root) for root in self._known.roots)
            self._known = replace(recorded, claim=self._known.claim, roots=roots)
            self._rounds.forget()

    async def _round(self) -> None:
        async with self._order.discovery(self):
            before = self._known.roots
            known = await self._rounds.round(self._known)
            seen = self._spec.endpoint.certificates
            # The endpoint has none after a failure; an expired certificate may be the cause.
            certificates = known.certificates if seen == CertificateExpiry() else seen
            self._known = replace(known, certificates=certificates)
            is_recorded = await self._save()
        self._log_changes(self._known)
        self._count()
        wanted = self._wanted() if self._spec.kind is UpstreamKind.SERVICE else None
        # Lists come later, so that clients need not wait for them.
        if self._known.roots != before:
            await asyncio.sleep(_AFTER_CHANGE_S)
        await self._read_details(wanted)
        is_recorded = await self._save() and is_recorded
        if self._documents:
            self._documents.discovered(self._known, wanted)
        reasons = {root.reason for root in self._known.bad}
        was_starting, self._is_starting = self._is_starting, Reason.NOT_READY in reasons
        is_doubtful = Reason.EMPTIED in reasons
        if (self._known.is_well or is_doubtful) and is_recorded:
            self._failures = 0
        else:  # a server that was away and starts now is retried as soon as after one failure
            self._failures = 1 if self._is_starting and not was_starting else self._failures + 1
        await self._renew_connections(is_needed=bool(self._failures) or is_doubtful)

    async def _read_details(self, wanted: frozenset[GroupVersion] | None) -> None:
        """Read what is not in discovery; in the next round if its turn does not come in time."""
        # Then the next round begins at once, so polls keep their interval.
        longest_s = max(self._spec.limits.exchange_s, self._spec.timing.poll_s)
        async with self._order.details(longest_s) as is_its_turn:
            self._is_late = not is_its_turn
            if is_its_turn:
                self._known = await self._lists.read(self._known, wanted)
                self._known = await self._dialect.read(self._known)

    async def _save(self) -> bool:
        return await self._has_done("written", self._record.save(self._known))

    def _count(self) -> None:
        for root in self._known.roots:
            result = root.reason if root.error else "Success"
            self._metrics.polls.labels(self._spec.name, result).inc()
        if self._known.is_well:
            self._metrics.succeeded(self._spec.name)

    async def _renew_connections(self, *, is_needed: bool) -> None:
        self._rounds_since_connected += 1
        is_due = self._rounds_since_connected >= _NEW_CONNECTION_EVERY_ROUNDS
        is_in_use = self._documents is not None and self._documents.is_polling
        if is_needed or (is_due and not is_in_use):
            self._rounds_since_connected = 0
            await self._spec.endpoint.aclose()

    def _pause_s(self) -> float:
        if self._is_late and not self._failures:
            return 0.0  # it has waited in the round
        return self._spec.timing.pause_s(self._failures)

    async def _wait(self, pause_s: float) -> None:
        connecting = asyncio.create_task(self._wake_when_back()) if self._failures else None
        try:
            await super()._wait(pause_s)
        finally:
            if connecting is not None:
                connecting.cancel()

    async def _wake_when_back(self) -> None:
        """Wake the loop when a server that refused connections accepts them."""
        endpoint = self._spec.endpoint
        server = address(endpoint.url)
        # A server that accepts connections and fails must not be polled in a tight loop.
        if endpoint.proxy or await accepts(*server):
            return
        while True:
            await asyncio.sleep(_CONNECT_EVERY_S)
            if await accepts(*server):
                self.wake()
                return


class _DocumentsLoop(_Loop):
    """Polls for OpenAPI documents and records them.

    Attributes:
        is_polling: Whether connections are in use.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        metrics: UpstreamMetrics,
        writer: DocumentsWriter,
        slots: asyncio.Semaphore,
    ) -> None:
        super().__init__(spec, metrics, spec.timing.openapi_after_s)
        self.is_polling = False
        self._writer = writer
        self._slots = slots
        self._rounds = DocumentRounds(spec, self._count_bytes, writer)
        # The groups in discovery, and the group-versions whose documents are wanted.
        self._groups: tuple[tuple[Group, ...], ...] = ()
        self._offered: frozenset[GroupVersion] = frozenset()
        self._is_well = False

    def discovered(self, known: Known, wanted: frozenset[GroupVersion] | None) -> None:
        """Take the result of a round of discovery; after a change, request documents soon.

        Args:
            known: What is known of the upstream now.
            wanted: The group-versions of a service that have an APIService; None for all.
        """
        was_well = self._is_well
        self._is_well = any(root.is_current for root in known.roots if not root.core)
        if not self._is_well:
            self._rounds.forget_repeated_answers()
        groups = tuple(root.groups for root in known.roots)
        is_same = groups == self._groups and wanted in (None, self._offered)
        # A server that was away may be back as a newer version.
        if is_same and (was_well or not self._is_well):
            return
        self._groups = groups
        offered = (versions_of(each) for each in groups)
        self._offered = frozenset().union(*offered) if wanted is None else wanted
        self.wake()

    async def _load(self) -> None:
        await self._writer.load()

    async def _round(self) -> None:
        if not self._is_well:
            return
        async with self._slots:
            self.is_polling = True
            try:
                work = self._rounds.round(self._offered)
                failure = await attempt(work, self._spec.name, "GET /openapi")
                result = failure.reason if failure else "Success"
            except Fenced:
                raise
            except DiscoveryError as error:
                self._log.warning("documents of an upstream not written", reason=str(error))
                result = "NotKept"
            finally:
                self.is_polling = False
        self._metrics.openapi_polls.labels(self._spec.name, result).inc()
        self._failures = 0 if result == "Success" else self._failures + 1

    def _pause_s(self) -> float:
        return self._spec.timing.openapi_pause_s(self._failures)


class _HealthLog:
    """Logs when an upstream begins to fail and when it is well again, once each."""

    def __init__(self, spec: UpstreamSpec) -> None:
        self._log = _log.bind(upstream=spec.name, address=spec.endpoint.url)
        self._was_well: bool | None = None
        self._since = time.monotonic()

    def __call__(self, known: Known) -> None:
        """Log a change that a round has found."""
        was_well, self._was_well = self._was_well, known.is_well
        if was_well is known.is_well:
            return
        now = time.monotonic()
        lasted_s, self._since = round(now - self._since, 1), now
        groups = sum(len(root.groups) for root in known.roots)
        if known.is_well:
            after = {} if was_well is None else {"after_s": lasted_s}
            self._log.info(f"upstream answers{' again' if after else ''}", groups=groups, **after)
            return
        message = "upstream fails, its last known state is kept"
        if was_well is None:
            message = "upstream cannot be reached, trying again"
        self._log.warning(message, reason=shown(known.error), kept_groups=groups)
