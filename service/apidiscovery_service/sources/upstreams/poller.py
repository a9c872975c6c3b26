"""Polls one upstream while its claim is held, and keeps its record in the store up to date."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager

import structlog

from apidiscovery_service.errors import DiscoveryError, text_of
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.upstreams import record
from apidiscovery_service.sources.upstreams.failure import Reason, shown
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.legacy import GroupVersion
from apidiscovery_service.sources.upstreams.openapi_poller import DocumentsPoller, forget
from apidiscovery_service.sources.upstreams.reachability import accepts, address
from apidiscovery_service.sources.upstreams.rounds import Rounds
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root
from apidiscovery_service.sources.upstreams.unaggregated import UnaggregatedLists
from apidiscovery_service.store import Fenced, Guard, Store, StoreUnavailable

# Where the name of a server leads may change, and the old address may go on answering.
_NEW_CONNECTION_EVERY_ROUNDS = 10
# So that many servers are not asked all at the same moment for ever.
_JITTER = 0.1
_FORGET_S = 2.0
# How often a server that takes no connections is tried while the next poll is awaited.
_KNOCK_EVERY_S = 2.0

_log = structlog.get_logger(__name__)


class Poller:
    """Keeps the record of one upstream.

    Args:
        spec: The upstream.
        store: Where the record is.
        metrics: What counts the polls.
        turns: Taken for a round of OpenAPI documents; None for no polling of them.

    Attributes:
        wanted: The group-versions of a service that have an APIService now.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        store: Store,
        metrics: Metrics,
        wanted: frozenset[GroupVersion] = frozenset(),
        *,
        turns: asyncio.Semaphore | None = None,
    ) -> None:
        self.spec = spec
        self.wanted = wanted
        self._store = store
        self._metrics = metrics.upstreams
        self._exchange = Exchange(spec, self._count_bytes)
        self._woken = asyncio.Event()
        self._parts: frozenset[str] = frozenset()
        self._written: Known | None = None
        self._is_retired = False
        self._documents: DocumentsPoller | None = None
        if turns and spec.openapi:
            self._documents = DocumentsPoller(
                spec, store, turns, self._count_bytes, self._count_documents
            )

    def _count_documents(self, result: str) -> None:
        self._metrics.openapi_polls.labels(self.spec.name, result).inc()

    def _count_bytes(self, number: int) -> None:
        self._metrics.bytes.labels(self.spec.name).inc(number)

    def want(self, wanted: frozenset[GroupVersion]) -> None:
        """Take other APIServices of the service, and ask at once for what is new."""
        if wanted != self.wanted:
            self.wanted = wanted
            self.wake()

    def write_again(self) -> None:
        """Have the record written whole after the next round, whatever was written before."""
        self._written, self._parts = None, frozenset()

    def wake(self) -> None:
        """Ask now, and not only when it is due."""
        self._woken.set()

    async def work(self, guard: Guard) -> None:
        """Poll until cancelled.

        Raises:
            Fenced: Another has taken over, and writes the record now.
        """
        try:
            async with self._polling_documents(guard):
                await self._poll(guard)
        finally:
            if self._is_retired:
                await self._forget(guard)
            await self.spec.endpoint.aclose()

    async def _poll(self, guard: Guard) -> None:
        rounds = Rounds(self.spec, self._exchange, lambda: self.wanted)
        known = await self._first(guard)
        lists = UnaggregatedLists(self.spec, self._exchange)
        tell = _Teller(self.spec)
        failures = old = 0
        is_starting = False
        while True:
            self._woken.clear()
            known = await rounds.round(known)
            is_kept = await self._keep(known, guard)
            tell(known)
            self._count(known)
            wanted = self.wanted if self.spec.kind is Kind.SERVICE else None
            # Later, since who asks what there is should not wait for what was asked besides.
            known = await lists.look(known, wanted)
            is_kept = await self._keep(known, guard) and is_kept
            if self._documents:
                self._documents.discovered(known, wanted)
            is_doubtful = any(root.reason == Reason.EMPTIED for root in known.bad)
            is_starting, was_starting = _is_starting(known), is_starting
            if (known.is_well or is_doubtful) and is_kept:
                failures = 0
            else:  # who was away and starts now is asked as soon as who has failed once
                failures = 1 if is_starting and not was_starting else failures + 1
            old += 1
            is_in_use = self._documents is not None and self._documents.is_asking
            if failures or is_doubtful or (old >= _NEW_CONNECTION_EVERY_ROUNDS and not is_in_use):
                old = 0
                await self.spec.endpoint.aclose()
            await self._pause(failures)

    @asynccontextmanager
    async def _polling_documents(self, guard: Guard) -> AsyncGenerator[None]:
        """Poll for documents meanwhile."""
        if self._documents is None:
            yield
            return
        task = asyncio.create_task(self._documents.work(guard))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait((task,))

    def retire(self) -> None:
        """Have the record removed when the work is cancelled: nobody names this upstream."""
        self._is_retired = True

    async def _forget(self, guard: Guard) -> None:
        await forget(self.spec, self._store, guard)
        key = record.key_of(self.spec.id)
        try:
            async with asyncio.timeout(_FORGET_S):
                await self._store.delete(key, guard=guard)
                for name in self._parts:
                    await self._store.delete(f"{key}/{name}", guard=guard)
        except (DiscoveryError, TimeoutError) as error:
            _log.info("record of an upstream not removed", key=key, reason=text_of(error))

    async def _first(self, guard: Guard) -> Known:
        """Return what is kept, for this holder: so it is written once, and known to be fresh."""
        empty = {path: Root(path, core) for path, core in self.spec.paths}
        kept = await self._kept()
        for root in kept.roots if kept else ():
            if root.path in empty:
                empty[root.path] = root
        return Known(guard.created, tuple(empty.values()))

    async def _kept(self) -> Known | None:
        while True:
            try:
                return await self._read()
            except StoreUnavailable as error:
                _log.warning("record of an upstream not read", reason=str(error))
                await asyncio.sleep(self.spec.timing.first_retry_s)

    async def _read(self) -> Known | None:
        key = record.key_of(self.spec.id)
        entry = await self._store.get(key)
        if entry is None:
            return None
        self._parts = record.part_names(entry.value)

        async def part(name: str) -> bytes | None:
            found = await self._store.get(f"{key}/{name}")
            return found.value if found else None

        try:
            return await record.unseal(entry.value, part)
        except record.BadRecord as error:
            _log.warning("record of an upstream passed over", key=key, reason=str(error))
            return None

    async def _keep(self, known: Known, guard: Guard) -> bool:
        """Write what has changed; False when the store does not take it now."""
        if known == self._written:
            return True
        try:
            sealed = await record.sealed(self.spec.id, known)
            self._parts = await record.write(self._store, sealed, guard, self._parts)
        except Fenced:
            raise
        except (DiscoveryError, ValueError) as error:
            _log.warning("record of an upstream not written", key=self.spec.id, reason=str(error))
            # Whether it is there or not is not known.
            self._written = None
            return False
        self._written = known
        return True

    def _count(self, known: Known) -> None:
        for root in known.roots:
            result = root.reason if root.error else "Success"
            self._metrics.polls.labels(self.spec.name, result).inc()
        if known.is_well:
            self._metrics.succeeded(self.spec.name)

    async def _pause(self, failures: int) -> None:
        timing = self.spec.timing
        pause = timing.retry_s(failures) if failures else timing.poll_s
        pause *= 1 - _JITTER * random.random()  # noqa: S311 - spreads load, keeps no secret
        causes: list[Coroutine[object, object, object]] = [self._woken.wait()]
        if failures:
            causes.append(self._until_it_is_back())
        waits = [asyncio.create_task(cause) for cause in causes]
        try:
            await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _until_it_is_back(self) -> None:
        """Wait until the server takes connections after it did not; for ever if it does already."""
        endpoint = self.spec.endpoint
        server = address(endpoint.url)
        if endpoint.proxy or await accepts(*server):
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(_KNOCK_EVERY_S)
            if await accepts(*server):
                return


def _is_starting(known: Known) -> bool:
    return any(root.reason == Reason.NOT_READY for root in known.bad)


class _Teller:
    """Logs when an upstream begins to fail and when it is well again, once each."""

    def __init__(self, spec: UpstreamSpec) -> None:
        self._log = _log.bind(upstream=spec.name, address=spec.endpoint.url)
        self._was_well: bool | None = None
        self._since = time.monotonic()

    def __call__(self, known: Known) -> None:
        """Take what a round has found."""
        was_well, self._was_well = self._was_well, known.is_well
        if was_well is known.is_well:
            return
        now = time.monotonic()
        lasted_s, self._since = round(now - self._since, 1), now
        groups = sum(len(root.groups) for root in known.roots)
        if known.is_well:
            message = "upstream answers" if was_well is None else "upstream answers again"
            self._log.info(
                message, groups=groups, **({} if was_well is None else {"after_s": lasted_s})
            )
        elif was_well is None:
            message = "upstream was not reached, trying again"
            self._log.warning(message, reason=shown(known.error), kept_groups=groups)
        else:
            message = "upstream fails, what it had last is kept"
            self._log.warning(message, reason=shown(known.error), kept_groups=groups)
