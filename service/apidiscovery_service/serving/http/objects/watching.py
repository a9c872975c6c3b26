"""A watch: the events of a collection as the frames of one answer.

Sources: k8s.io/apiserver pkg/endpoints/handlers/get.go:handleWatch and watch.go;
pkg/storage/cacher/cacher.go for the bookmarks.
"""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from apidiscovery_formats.negotiation import Representation

from apidiscovery_service.encoding import plain
from apidiscovery_service.kube.objects import errors
from apidiscovery_service.kube.objects.watch_events import EventType, frame
from apidiscovery_service.serving.http.objects.negotiation import PARTIAL_LIST, Form
from apidiscovery_service.serving.http.objects.parameters import ListParameters, watch_revision
from apidiscovery_service.serving.http.objects.results import Shape
from apidiscovery_service.serving.http.objects.routes import ObjectRoute
from apidiscovery_service.serving.http.objects.statuses import failure
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.history import Event, Expired, narrowed

Frames: TypeAlias = AsyncGenerator[bytes]

# Source: k8s.io/apiserver pkg/server/config.go, MinRequestTimeout; a watch without a timeout of
# its own ends after between one and two times as long, so that they do not all come back at once.
_MIN_TIMEOUT_S = 1800.0
_BOOKMARK_EVERY_S = 60.0
# How long before its end a watch tells how far it has come.
_LAST_BOOKMARK_S = 2.0
_LEAST_BOOKMARK_S = 1.0


# A thousand watchers of one object would otherwise write it a thousand times.
_WRITTEN: WeakKeyDictionary[Event, dict[tuple[Shape, bool], bytes]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class WatchStream:
    """An answer that goes on.

    Attributes:
        target: What is watched.
        form: The form of each object.
        frames: What is sent, each at once.
        timeout_s: When it ends.
    """

    target: ObjectRoute
    form: Form
    frames: Frames
    timeout_s: float


def timeout_s(options: ListParameters) -> float:
    """Return how long a watch lasts."""
    if options.timeout_s:
        return float(max(options.timeout_s, 0))
    return _MIN_TIMEOUT_S * (1 + random.random())  # noqa: S311 - to spread, not to hide


async def watch(
    collection: Collection, target: ObjectRoute, options: ListParameters, shape: Shape
) -> WatchStream:
    """Begin a watch.

    Raises:
        ObjectError: Its resourceVersion is none; 422.
        StoreUnavailable: What is there cannot be read.
        StoreRefused: The same.
    """
    after = _after(target, options)
    lasts_s = timeout_s(options)
    every_s = max(min(_BOOKMARK_EVERY_S, lasts_s - _LAST_BOOKMARK_S), _LEAST_BOOKMARK_S)
    events = collection.events(after, bookmark_every_s=every_s if options.bookmarks else None)
    if after is None:
        # What is wrong with the store is an answer of its own, not the end of a stream.
        events = _resumed(await anext(events), events)
    frames = _frames(_seen(events, options), _Writer(shape))
    return WatchStream(target, shape.form, frames, lasts_s)


def _after(target: ObjectRoute, options: ListParameters) -> int | None:
    """Return after what a watch begins; None and 0 for what is there, read now or not."""
    revision = watch_revision(target.kind, options.resource_version)
    if options.initial_events and revision:
        return None  # at least as new as that
    return revision if options.resource_version else None


async def _resumed(first: Event, rest: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    async with aclosing(rest):
        yield first
        async for event in rest:
            yield event


async def _seen(events: AsyncGenerator[Event], options: ListParameters) -> AsyncGenerator[Event]:
    """Yield the events that this watcher is to see.

    Raises:
        Expired: The rest is not known.
    """
    async with aclosing(events):
        async for event in events:
            if event.type is EventType.BOOKMARK and not options.bookmarks:
                continue
            if event.initial and options.initial_events is False:
                continue
            seen = narrowed(event, options.selection.matches)
            if seen is not None:
                yield seen


async def _frames(events: AsyncGenerator[Event], writer: "_Writer") -> Frames:
    try:
        async with aclosing(events):
            async for event in events:
                yield writer.frame(event)
    except Expired as error:
        yield writer.error(errors.expired(str(error)))


class _Writer:
    """Writes frames, each once for all who watch in the same form.

    A Table says what its columns are in the first one alone.
    """

    def __init__(self, shape: Shape) -> None:
        target = shape.form.target
        if target is not None and target.kind == PARTIAL_LIST:
            # An event is no list: as upstream, the object is sent as it is.
            shape = replace(shape, form=replace(shape.form, target=None))
        self._shape = shape
        self._first = True

    def frame(self, event: Event) -> bytes:
        written = _WRITTEN.setdefault(event, {})
        headers, self._first = self._first, False
        if (self._shape, headers) not in written:
            body = self._shape.one(event.object, headers=headers)
            written[self._shape, headers] = frame(event.type, body, self._shape.form.serializer)
        return written[self._shape, headers]

    def error(self, error: errors.ObjectError) -> bytes:
        serializer = self._shape.form.serializer
        body = plain.encode(failure(error), Representation(serializer))
        return frame(EventType.ERROR, body, serializer)
