"""When the server is ready: local sources are loaded, and there is something to serve."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import UPSTREAM
from apidiscovery_service.sources.storage_version_api import SOURCE as STORAGE_VERSION_SOURCE
from apidiscovery_service.sources.upstreams.follower import Upstreams
from apidiscovery_service.store import StoreDamaged, StoreUnavailable

# Between checks for a first answer of an upstream.
_CHECK_S = 0.1

# Between attempts to read a store that is not available yet.
_STORE_RETRY_S = 0.5

# Sources that are not local: upstreams, and our own API for storage versions.
_NOT_LOCAL = (UPSTREAM, STORAGE_VERSION_SOURCE)

_log = structlog.get_logger(__name__)


class Readiness:
    """Follows the first load of the sources, and the first answer of an upstream."""

    def __init__(self, registry: Registry, upstreams: Upstreams) -> None:
        self._registry = registry
        self._upstreams = upstreams
        self._is_loaded = self._has_something = False

    def set_loaded(self) -> None:
        """Note that all sources are loaded."""
        self._is_loaded = True

    def is_loaded(self) -> bool:
        """Return whether all sources are loaded."""
        return self._is_loaded

    def is_ready(self) -> bool:
        """Return whether all sources are loaded and there is something to serve."""
        return self._is_loaded and not self.awaited()

    def awaited(self) -> str:
        """Return the upstreams whose answer is awaited; empty once there is anything to serve."""
        if self._has_something:
            return ""
        awaited = self._upstreams.awaited()
        self._has_something = self._is_loaded and (
            not awaited or self._registry.offers_besides(_NOT_LOCAL)
        )
        return "" if self._has_something else awaited

    def why_not(self) -> str | None:
        """Return why the server is not ready; None if it is."""
        if not self._is_loaded:
            return "catalogue, manifests and store are still being read"
        if awaited := self.awaited():
            return f"there is no local source, and no upstream has answered: {awaited}"
        return None

    async def has_something(self) -> None:
        """Wait until there is something to serve."""
        while self.awaited():  # noqa: ASYNC110 - an answer or a loaded source ends the wait
            await asyncio.sleep(_CHECK_S)


async def once_available(load: Callable[[], Awaitable[None]]) -> None:
    """Load from the store as soon as it is available; each reason is logged once."""
    logged = ""
    while True:
        try:
            return await load()
        except (StoreUnavailable, StoreDamaged) as error:
            if error.reason != logged:
                _log.warning("the store cannot be read, waiting for it", error=str(error))
            logged = error.reason
            await asyncio.sleep(_STORE_RETRY_S)
