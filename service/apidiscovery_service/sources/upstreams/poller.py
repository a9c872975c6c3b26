"""Polls one upstream while its claim is held: for discovery and for OpenAPI documents.

Both use the same loop. Documents follow discovery: they are requested after it, for the
group-versions that it offers, and it never waits for them.
"""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import structlog

from apidiscovery_service.core.model import Group
from apidiscovery_service.core.source import Certificates
from apidiscovery_service.errors import DiscoveryError, text_of
from apidiscovery_service.metrics import Metrics, UpstreamMetrics
from apidiscovery_service.sources.upstreams.about import AboutServer
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.legacy import GroupVersion
from apidiscovery_service.sources.upstreams.openapi_record import DocumentsWriter
from apidiscovery_service.sources.upstreams.openapi_rounds import DocumentRounds
from apidiscovery_service.sources.upstreams.reachability import accepts, address
from apidiscovery_service.sources.upstreams.record import RecordWriter
from apidiscovery_service.sources.upstreams.rounds import Rounds
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS, Known, Root
from apidiscovery_service.sources.upstreams.turns import Turns
from apidiscovery_service.sources.upstreams.unaggregated import (
    EVERYTHING_WITHIN_ROUNDS,
    UnaggregatedLists,
)
from apidiscovery_service.store import Fenced, Guard, Store

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
# What changed is answered to clients before more is asked of its server.
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
        turns: When lists and dialect are requested; shared by all of this process.
        documents: Limits rounds for OpenAPI documents at once; None to not poll for these.
        rounds: Returns within how many rounds all unaggregated lists are requested.
    """

    def __init__(  # noqa: PLR0913 - those behind the star have names
        self,
        spec: UpstreamSpec,
        store: Store,
        metrics: Metrics,
        wanted: frozenset[GroupVersion] = frozenset(),
        *,
        turns: Turns | None = None,
        documents: asyncio.Semaphore | None = None,
        rounds: Callable[[], int] = lambda: EVERYTHING_WITHIN_ROUNDS,
    ) -> None:
        self._spec = spec
        self._store = store
        self._metrics = metrics.upstreams
        self._wanted = wanted
        self._turns = turns or Turns()
        self._documents = documents
        self._rounds = rounds
        self._woken = asyncio.Event()
        self._replaced = asyncio.Event()
        self._record: RecordWriter[Known] | None = None
        self._is_retired = False
        self._polling: list[asyncio.Task[None]] = []

    def use(self, spec: UpstreamSpec) -> None:
        """Poll as another specification says, at once; its id is the same, so the records stay."""
        self._spec = spec
        self._replaced.set()

    def want(self, wanted: frozenset[GroupVersion]) -> None:
        """Set the group-versions that have an APIService; if they change, poll at once."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._woken.set()

    def write_again(self) -> None:
        """Write the whole record after the next round, even if it is unchanged."""
        if self._record is not None:
            self._record.write_again()

    def own(self, value: bytes) -> Known | None:
        """Return what a record says that was written here last; None for another one."""
        return self._record.own(value) if self._record is not None else None

    def retire(self) -> None:
        """Poll no more, and remove the records when the work is cancelled: nobody names it.

        Nothing is counted afterwards, so its metrics can be dropped.
        """
        self._is_retired = True
        for task in self._polling:
            task.cancel()

    async def work(self, guard: Guard) -> None:
        """Poll until cancelled.

        Raises:
            Fenced: Another process has taken over, and writes the records now.
        """
        self._record = RecordWriter(KNOWN_RECORDS, self._store, self._spec.id, guard)
        writer = DocumentsWriter(self._store, self._spec.id, guard)
        try:
            while not self._is_retired:
                await self._poll(guard, self._record, writer)
            await asyncio.get_running_loop().create_future()
        finally:
            if self._is_retired:
                await self._forget(self._record, writer)

    async def _poll(
        self, guard: Guard, record: RecordWriter[Known], writer: DocumentsWriter
    ) -> None:
        """Poll until the specification is replaced, or until cancelled."""
        self._replaced.clear()
        spec = self._spec
        documents: _DocumentsLoop | None = None
        if self._documents and spec.openapi:
            documents = _DocumentsLoop(spec, self._metrics, writer, self._documents)
        discovery = _DiscoveryLoop(
            spec,
            self._metrics,
            Known(guard.created, tuple(Root(path, core) for path, core in spec.paths)),
            record=record,
            documents=documents,
            wanted=lambda: self._wanted,
            woken=self._woken,
            rounds=self._rounds,
            turns=self._turns,
        )
        loops = (discovery, documents) if documents else (discovery,)
        self._polling = [asyncio.create_task(loop.run()) for loop in loops]
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
            finally:  # the process may be told to end while this upstream is dropped
                await spec.endpoint.aclose()

    async def _forget(self, *records: RecordWriter[Known] | DocumentsWriter) -> None:
        """Remove all records, also of documents that are not asked for now."""
        try:
            async with asyncio.timeout(_FORGET_S):
                for record in records:
                    await record.remove()
        except (DiscoveryError, TimeoutError) as error:
            name = self._spec.name
            _log.info("records of an upstream not removed", upstream=name, reason=text_of(error))


class _Loop(ABC):
    """Polls one upstream at intervals, with backoff after failures, or at once when woken.

    Args:
        spec: The upstream.
        metrics: The metrics to update.
        woken: Set to have the next round begin soon.
        settle_s: How long to wait for more changes once woken.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        metrics: UpstreamMetrics,
        woken: asyncio.Event,
        settle_s: float = 0,
    ) -> None:
        self._spec = spec
        self._metrics = metrics
        self._woken = woken
        self._settle_s = settle_s

    async def run(self) -> None:
        """Load the record, then poll until cancelled.

        Raises:
            Fenced: Another process has taken over.
        """
        await self._load_with_retries()
        failures = 0
        while True:
            self._woken.clear()
            failures = await self._round(failures)
            await self._wait(failures)

    async def _load_with_retries(self) -> None:
        while True:
            try:
                return await self._load()
            except DiscoveryError as error:
                name = self._spec.name
                _log.warning("record of an upstream not read", upstream=name, reason=str(error))
                await asyncio.sleep(self._spec.timing.first_retry_s)

    async def _wait(self, failures: int) -> None:
        """Wait for the next round."""
        pause_s = self._pause_s(failures)
        pause_s *= 1 - _JITTER * random.random()  # noqa: S311 - spreads load, keeps no secret
        try:
            async with asyncio.timeout(pause_s):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._settle_s)

    def _count_bytes(self, number: int) -> None:
        self._metrics.bytes.labels(self._spec.name).inc(number)

    @abstractmethod
    async def _load(self) -> None:
        """Load the record."""

    @abstractmethod
    async def _round(self, failures: int) -> int:
        """Poll once; return the number of failures in a row."""

    @abstractmethod
    def _pause_s(self, failures: int) -> float:
        """Return the pause after a round."""


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
        woken: asyncio.Event,
        rounds: Callable[[], int],
        turns: Turns,
    ) -> None:
        super().__init__(spec, metrics, woken)
        exchange = Exchange(spec, self._count_bytes)
        self._known = known
        self._record = record
        self._documents = documents
        self._wanted = wanted
        self._rounds = Rounds(spec, exchange, wanted)
        self._turns = turns
        self._lists = UnaggregatedLists(spec, exchange, rounds)
        self._about = AboutServer(spec, exchange, rounds)
        self._log_changes = _HealthLog(spec)
        self._rounds_since_connected = 0
        self._is_starting = False
        # Whether details were not had in this round because it was not the turn of the server.
        self._is_late = False

    async def run(self) -> None:
        self._turns.begin(self)
        try:
            await super().run()
        finally:
            self._turns.end(self)

    async def _load(self) -> None:
        """Start from what is recorded of the configured paths, under the claim of this holder."""
        recorded = await self._record.load()
        by_path = {root.path: root for root in recorded.roots} if recorded else {}
        roots = (by_path.get(root.path, root) for root in self._known.roots)
        known = recorded or self._known
        self._known = replace(known, claim=self._known.claim, roots=tuple(roots))

    async def _round(self, failures: int) -> int:
        async with self._turns.discovery(self):
            before = self._known.roots
            known = await self._rounds.round(self._known)
            seen = self._spec.endpoint.certificates
            # The endpoint forgets after a failure, which an expired certificate may be.
            kept = known.certificates if seen == Certificates() else seen
            self._known = replace(known, certificates=kept)
            is_recorded = await self._save()
        self._log_changes(self._known)
        self._count()
        wanted = self._wanted() if self._spec.kind is Kind.SERVICE else None
        # Lists come later, so that clients do not wait for them.
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
            failures = 0
        else:  # a server that was away and starts now is retried as soon as after one failure
            failures = 1 if self._is_starting and not was_starting else failures + 1
        await self._renew_connections(is_needed=bool(failures) or is_doubtful)
        return failures

    async def _read_details(self, wanted: frozenset[GroupVersion] | None) -> None:
        """Read what discovery does not tell; in the next round if too many servers are before."""
        # The next round begins at once then, so polls keep their interval.
        longest_s = max(self._spec.limits.exchange_s, self._spec.timing.poll_s)
        async with self._turns.details(longest_s) as is_its_turn:
            self._is_late = not is_its_turn
            if is_its_turn:
                self._known = await self._about.read(await self._lists.read(self._known, wanted))

    async def _save(self) -> bool:
        """Record what is known; return False when the store fails."""
        try:
            await self._record.save(self._known)
        except Fenced:
            raise
        except (DiscoveryError, ValueError) as error:
            name = self._spec.name
            _log.warning("record of an upstream not written", upstream=name, reason=str(error))
            return False
        return True

    def _count(self) -> None:
        for root in self._known.roots:
            result = root.reason if root.error else "Success"
            self._metrics.polls.labels(self._spec.name, result).inc()
        if self._known.is_well:
            self._metrics.succeeded(self._spec.name)

    async def _renew_connections(self, *, is_needed: bool) -> None:
        self._rounds_since_connected += 1
        is_due = self._rounds_since_connected >= _NEW_CONNECTION_EVERY_ROUNDS
        is_in_use = self._documents is not None and self._documents.is_asking
        if is_needed or (is_due and not is_in_use):
            self._rounds_since_connected = 0
            await self._spec.endpoint.aclose()

    def _pause_s(self, failures: int) -> float:
        if self._is_late and not failures:
            return 0.0  # it has waited in the round
        return self._spec.timing.pause_s(failures)

    async def _wait(self, failures: int) -> None:
        connecting = asyncio.create_task(self._wake_when_back()) if failures else None
        try:
            await super()._wait(failures)
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
                self._woken.set()
                return


class _DocumentsLoop(_Loop):
    """Polls for OpenAPI documents and records them.

    Attributes:
        is_asking: Whether connections are in use.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        metrics: UpstreamMetrics,
        writer: DocumentsWriter,
        turns: asyncio.Semaphore,
    ) -> None:
        super().__init__(spec, metrics, asyncio.Event(), spec.timing.openapi_after_s)
        self.is_asking = False
        self._writer = writer
        self._turns = turns
        self._rounds = DocumentRounds(spec, self._count_bytes, writer)
        self._seen: tuple[tuple[Group, ...], ...] = ()
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
            self._rounds.end_doubts()
        seen = tuple(root.groups for root in known.roots)
        is_same = seen == self._seen and wanted in (None, self._offered)
        # A server that was away may be back as a newer version.
        if is_same and (was_well or not self._is_well):
            return
        self._seen = seen
        self._offered = _group_versions(seen) if wanted is None else wanted
        self._woken.set()

    async def _load(self) -> None:
        await self._writer.load()

    async def _round(self, failures: int) -> int:
        if not self._is_well:
            return failures
        async with self._turns:
            self.is_asking = True
            try:
                result = await self._result()
            finally:
                self.is_asking = False
        self._metrics.openapi_polls.labels(self._spec.name, result).inc()
        return 0 if result == "Success" else failures + 1

    async def _result(self) -> str:
        """Poll once; return the result as metrics count it."""
        try:
            await self._rounds.round(self._offered)
        except Fenced:
            raise
        except UpstreamFailed as failure:
            return failure.reason
        except DiscoveryError as error:
            _log.warning(
                "documents of an upstream not written", upstream=self._spec.name, reason=str(error)
            )
            return "NotKept"
        except Exception:  # noqa: BLE001 - one odd answer must not end the polling
            _log.exception("upstream cannot be asked for documents", upstream=self._spec.name)
            return Reason.INTERNAL
        return "Success"

    def _pause_s(self, failures: int) -> float:
        return self._spec.timing.openapi_pause_s(failures)


def _group_versions(seen: tuple[tuple[Group, ...], ...]) -> frozenset[GroupVersion]:
    return frozenset(
        (group.name, version.version)
        for groups in seen
        for group in groups
        for version in group.versions
    )


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
        if known.is_well and was_well is None:
            self._log.info("upstream answers", groups=groups)
        elif known.is_well:
            self._log.info("upstream answers again", groups=groups, after_s=lasted_s)
        elif was_well is None:
            message = "upstream was not reached, trying again"
            self._log.warning(message, reason=shown(known.error), kept_groups=groups)
        else:
            message = "upstream fails, what it had last is kept"
            self._log.warning(message, reason=shown(known.error), kept_groups=groups)
