"""Server-sent events: they notify an open page of changes.

An event has no content: the page asks for itself again, with its ETag, and so sees what its viewer
may see. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.web.view import Served

CONTENT_TYPE: Final = b"text/event-stream; charset=utf-8"

# Changes that come together are one event, so that a page does not ask too often.
_SETTLE_S = 0.2
# Keeps proxies from closing the connection as idle.
_COMMENT_EVERY_S = 15.0
# After which a browser connects again.
_RETRY_MS = 2000
_CHANGED = b"event: changed\ndata:\n\n"
_COMMENT = b": \n\n"


class Changes:
    """Notifies open pages of changes."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._event = asyncio.Event()
        self._stopped = asyncio.Event()
        served.registry.subscribe(lambda _snapshot: self._wake())

    def stop(self) -> None:
        """End all streams."""
        self._stopped.set()
        self._wake()

    def _wake(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def follow(self, scope: Scope) -> AsyncGenerator[bytes]:
        """Yield an event whenever a page of a viewer may have changed."""
        yield b"retry: %d\n\n" % _RETRY_MS
        event, revision = self._event, scope.revision
        while not self._stopped.is_set():
            has_changed = await self._changed(scope, event, revision)
            if has_changed:
                await asyncio.sleep(_SETTLE_S)
            # Before it is sent, which takes time: later changes lead to the next event.
            event, revision = self._event, scope.revision
            yield _CHANGED if has_changed else _COMMENT

    async def _changed(self, scope: Scope, event: asyncio.Event, revision: int) -> bool:
        """Return whether something changes before a comment is due."""
        waits: list[Callable[[], Awaitable[object]]] = [event.wait, lambda: scope.wait(revision)]
        storage_versions = self._served.storage_versions
        if storage_versions is not None:
            reports = storage_versions.collection
            waits.append(lambda: reports.next_change().wait())
        if self._served.history is not None:
            waits.append(self._served.history.news.next().wait)
        return await _first(waits)


async def _first(waits: list[Callable[[], Awaitable[object]]]) -> bool:
    tasks = [asyncio.ensure_future(wait()) for wait in waits]
    try:
        done, _ = await asyncio.wait(
            tasks, timeout=_COMMENT_EVERY_S, return_when=asyncio.FIRST_COMPLETED
        )
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()
