"""Polls one upstream for its OpenAPI documents, beside the polling of its discovery.

It goes by what discovery has found, comes after it, and never keeps it waiting.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from apidiscovery_service.core.model import Group
from apidiscovery_service.errors import DiscoveryError, text_of
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.legacy import GroupVersion
from apidiscovery_service.sources.upstreams.openapi_rounds import DocumentRounds
from apidiscovery_service.sources.upstreams.openapi_writer import DocumentsWriter
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known
from apidiscovery_service.store import Fenced, Guard, Store

ROUNDS_AT_ONCE = 16
"""Rounds at once in one process.

One that only waits takes `openapi_s` for each of three documents, and then comes back after a
minute at the earliest.
"""

_JITTER = 0.1
_FORGET_S = 10.0

_log = structlog.get_logger(__name__)


class DocumentsPoller:
    """Keeps the documents of one upstream.

    Args:
        spec: The upstream.
        store: Where they are.
        turns: Taken for a round; all upstreams of a process share them.
        count_bytes: Told the size of each answer as it was sent.
        count_poll: Told the result of each round.

    Attributes:
        is_asking: Whether connections are in use.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        store: Store,
        turns: asyncio.Semaphore,
        count_bytes: Callable[[int], None],
        count_poll: Callable[[str], None],
    ) -> None:
        self.is_asking = False
        self._spec = spec
        self._store = store
        self._turns = turns
        self._count_bytes = count_bytes
        self._count_poll = count_poll
        self._changed = asyncio.Event()
        self._seen: tuple[tuple[Group, ...], ...] = ()
        self._offered: frozenset[GroupVersion] = frozenset()
        self._is_well = False

    def discovered(self, known: Known, wanted: frozenset[GroupVersion] | None) -> None:
        """Take what a round of discovery has found; what has changed is asked for soon.

        Args:
            known: What is known of the upstream now.
            wanted: The group-versions of a service that have an APIService; None for all.
        """
        was_well = self._is_well
        self._is_well = any(root.is_current for root in known.roots if not root.core)
        seen = tuple(root.groups for root in known.roots)
        is_same = seen == self._seen and wanted in (None, self._offered)
        # Who was away may be back as a newer version.
        if is_same and (was_well or not self._is_well):
            return
        self._seen = seen
        self._offered = _group_versions(seen) if wanted is None else wanted
        self._changed.set()

    async def work(self, guard: Guard) -> None:
        """Poll until cancelled, or until another has taken over."""
        writer = DocumentsWriter(self._store, self._spec.id, guard)
        if self._seen:
            # The claim comes back, perhaps in the middle of a round.
            self._changed.set()
        try:
            await self._load(writer)
            rounds = DocumentRounds(self._spec, self._count_bytes, writer)
            failures = 0
            while True:
                await self._until_due(failures)
                if self._is_well:
                    failures = 0 if await self._round(rounds) else failures + 1
        except Fenced:
            _log.info("another polls for documents now", upstream=self._spec.name)

    async def _load(self, writer: DocumentsWriter) -> None:
        while True:
            try:
                return await writer.load()
            except DiscoveryError as error:
                _log.warning("index of documents not read", reason=str(error))
                await asyncio.sleep(self._spec.timing.first_retry_s)

    async def _until_due(self, failures: int) -> None:
        timing = self._spec.timing
        pause = timing.openapi_s * 2 ** min(max(failures - 1, 0), 32)
        pause = min(pause, max(timing.openapi_s, timing.openapi_last_retry_s))
        pause *= 1 - _JITTER * random.random()  # noqa: S311 - spreads load, keeps no secret
        try:
            async with asyncio.timeout(pause):
                await self._changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(timing.openapi_after_s)
        self._changed.clear()

    async def _round(self, rounds: DocumentRounds) -> bool:
        async with self._turns:
            self.is_asking = True
            try:
                await rounds.round(self._offered)
            except Fenced:
                raise
            except UpstreamFailed as failure:
                self._count_poll(failure.reason)
                return False
            except DiscoveryError as error:
                _log.warning("documents not kept", upstream=self._spec.name, reason=str(error))
                self._count_poll("NotKept")
                return False
            except Exception:  # noqa: BLE001 - one odd answer must not end the polling
                _log.exception("upstream cannot be asked for documents", upstream=self._spec.name)
                self._count_poll("Internal")
                return False
            finally:
                self.is_asking = False
        self._count_poll("Success")
        return True


async def forget(spec: UpstreamSpec, store: Store, guard: Guard) -> None:
    """Remove all documents of an upstream that nobody names, also of one not asked for them now."""
    try:
        async with asyncio.timeout(_FORGET_S):
            await DocumentsWriter(store, spec.id, guard).remove()
    except (DiscoveryError, TimeoutError) as error:
        _log.info("documents of an upstream not removed", upstream=spec.name, reason=text_of(error))


def _group_versions(seen: tuple[tuple[Group, ...], ...]) -> frozenset[GroupVersion]:
    return frozenset(
        (group.name, version.version)
        for groups in seen
        for group in groups
        for version in group.versions
    )
