"""Watches: the events of a collection as the frames of one answer.

Sources: k8s.io/apiserver pkg/endpoints/handlers/get.go:handleWatch and watch.go;
pkg/storage/cacher/cacher.go for the bookmarks.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from apidiscovery_formats.negotiation import Representation

from apidiscovery_service.encoding import plain
from apidiscovery_service.kube.objects import errors
from apidiscovery_service.kube.objects.watch_events import EventType, frame
from apidiscovery_service.serving.http.messages import Message, Send, body_message
from apidiscovery_service.serving.http.objects.parameters import ListParameters, watch_revision
from apidiscovery_service.serving.http.objects.representation import PARTIAL_LIST, Form, Shape
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.statuses import object_failure
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.recent_events import Event, Expired, narrowed

Frames: TypeAlias = AsyncGenerator[bytes]

# Source: k8s.io/apiserver pkg/server/config.go, MinRequestTimeout; a watch without a timeout of its
# own ends after between one and two times as long, so that clients do not all reconnect at once.
_MIN_TIMEOUT_S = 1800.0
_BOOKMARK_EVERY_S = 60.0
# The last bookmark comes so long before the timeout.
_LAST_BOOKMARK_S = 2.0
_MIN_BOOKMARK_S = 1.0

# Time for the end of a stream to reach a client that does not read.
_END_WITHIN_S = 0.5

# What servers raise when they are to send to a client that has gone.
_GONE = (OSError, RuntimeError)


@dataclass(frozen=True, slots=True)
class WatchStream:
    """An answer that goes on.

    Attributes:
        form: The form of each object.
        frames: The frames, each sent at once.
        timeout_s: When it ends.
    """

    form: Form
    frames: Frames
    timeout_s: float


def timeout_s(options: ListParameters) -> float:
    """Return the duration of a watch in seconds."""
    if options.timeout_s:
        return float(max(options.timeout_s, 0))
    return _MIN_TIMEOUT_S * (1 + random.random())  # noqa: S311 - to spread, not to hide


async def watch(
    collection: Collection, target: ObjectRoute, options: ListParameters, shape: Shape
) -> WatchStream:
    """Begin a watch.

    Raises:
        ObjectError: Its resourceVersion is malformed; 422.
        StoreUnavailable: The collection cannot be read.
        StoreRefused: The same.
    """
    after = _after(target, options)
    lasts_s = timeout_s(options)
    every_s = max(min(_BOOKMARK_EVERY_S, lasts_s - _LAST_BOOKMARK_S), _MIN_BOOKMARK_S)
    events = collection.events(after, bookmark_every_s=every_s if options.bookmarks else None)
    if after is None:
        # The first event shows errors of the store, which are answers of their own.
        events = _resumed(await anext(events), events)
    return WatchStream(shape.form, _frames(_selected(events, options), _Writer(shape)), lasts_s)


def _after(target: ObjectRoute, options: ListParameters) -> int | None:
    """Return the revision after which a watch begins; None for the current state of the store."""
    revision = watch_revision(target.kind, options.resource_version)
    if options.initial_events and revision:
        return None  # at least as new as that
    return revision if options.resource_version else None


async def _resumed(first: Event, rest: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event


async def _selected(
    events: AsyncGenerator[Event], options: ListParameters
) -> AsyncGenerator[Event]:
    """Yield the events that the parameters of a watch select.

    Raises:
        Expired: The following events are no longer known.
    """
    async with aclosing(events):
        async for event in events:
            if event.type is EventType.BOOKMARK and not options.bookmarks:
                continue
            if event.initial and options.initial_events is False:
                continue
            selected = narrowed(event, options.selection.matches)
            if selected is not None:
                yield selected


async def _frames(events: AsyncGenerator[Event], writer: "_Writer") -> Frames:
    try:
        async with aclosing(events):
            async for event in events:
                yield writer.frame(event)
    except Expired as error:
        yield writer.error(errors.expired(str(error)))


class _Writer:
    """Encodes the frames of one watch. Only the first Table has its column definitions."""

    def __init__(self, shape: Shape) -> None:
        target = shape.form.target
        if target is not None and target.kind == PARTIAL_LIST:
            # An event is not a list: as upstream, the object is sent unconverted.
            shape = replace(shape, form=replace(shape.form, target=None))
        self._shape = shape
        self._first = True

    def frame(self, event: Event) -> bytes:
        headers, self._first = self._first, False
        body = self._shape.one(event.object, headers=headers)
        return frame(event.type, body, self._shape.form.serializer)

    def error(self, error: errors.ObjectError) -> bytes:
        serializer = self._shape.form.serializer
        body = plain.encode(object_failure(error), Representation(serializer))
        return frame(EventType.ERROR, body, serializer)


async def stream(
    start: Message,
    frames: Frames,
    send: Send,
    *,
    ends: Sequence[Coroutine[Any, Any, object]],
    timeout_s: float,
) -> None:
    """Send frames, each at once, until they end, time is over or something else ends the stream.

    Args:
        start: The message that begins the answer; it is sent even without a frame.
        frames: The frames; closed at the end.
        send: As ASGI has it.
        ends: The answer ends as soon as one of these returns.
        timeout_s: The longest duration.

    Raises:
        Exception: An exception of the frames.
    """
    tasks = [asyncio.ensure_future(each) for each in (_pump(start, frames, send), *ends)]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # the server stops; Granian would log a traceback
        return
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await frames.aclose()
    with suppress(TimeoutError, *_GONE):
        async with asyncio.timeout(_END_WITHIN_S):
            await send(body_message(b""))
    if not tasks[0].cancelled():
        tasks[0].result()


async def _pump(start: Message, frames: Frames, send: Send) -> None:
    # Servers send the header fields with the first piece of the body, so there is one at once.
    for message in (start, body_message(b"", more=True)):
        if not await _sent(message, send):
            return
    async for each in frames:
        if not await _sent(body_message(each, more=True), send):
            return


async def _sent(message: Message, send: Send) -> bool:
    """Send a message; return False if the client has gone."""
    try:
        await send(message)
    except _GONE:
        return False
    return True
