"""A server in memory that a test controls, the transports to it, and a clock to set."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from datetime import UTC, datetime, timedelta
from functools import partial

from apidiscovery_client._errors import ServerUnreachable
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Version,
)

NAME = "scripted://server"
_PATIENCE_S = 20.0


class SetClock:
    """A clock that stands still until it is set forward, or until a wait passes."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.waits: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, ended: threading.Event, seconds: float) -> None:
        del ended
        self._pass(seconds)

    async def sleep(self, seconds: float) -> None:
        self._pass(seconds)
        await asyncio.sleep(0)

    def _pass(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


class ScriptedServer:
    """The server.

    Attributes:
        asked: Number of requests.
        listeners: Number of listeners.
    """

    def __init__(self, clock: SetClock, *groups: Group) -> None:
        self.clock = clock
        self.groups = groups
        self.failures: dict[str, str] = {}
        self.error: Exception | None = None
        self.freshness: Freshness = CURRENT
        self.is_holding = False
        self.edition = 0
        self.asked = 0
        self.listeners = 0
        self._changed = threading.Condition()
        self._callbacks: set[Callable[[], None]] = set()

    def serve(self, *groups: Group) -> None:
        self.groups = groups
        self.tell()

    def fail(self, error: Exception | None) -> None:
        """Answer with an error; None for no error."""
        self.error = error
        self.tell()

    def hold(self) -> None:
        """Hold all requests until `release`."""
        self.is_holding = True

    def release(self) -> None:
        self.is_holding = False
        self.tell()

    def tell(self) -> None:
        """Wake listeners and waiting requests."""
        with self._changed:
            self.edition += 1
            self._changed.notify_all()
            for callback in tuple(self._callbacks):
                callback()

    def note_request(self) -> None:
        with self._changed:
            self.asked += 1
            self._changed.notify_all()
            for callback in tuple(self._callbacks):
                callback()

    def wait_until(self, predicate: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(predicate, _PATIENCE_S)

    async def until(self, predicate: Callable[[], bool]) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(event.set)

        with self._changed:
            self._callbacks.add(wake)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while not predicate():
                    await event.wait()
                    event.clear()
        finally:
            with self._changed:
                self._callbacks.discard(wake)

    def answer(self, fetched: FetchedSnapshot | None, traffic: Traffic) -> FetchedSnapshot:
        if self.error is not None:
            raise self.error
        groups = self.groups
        if fetched is not None and fetched.snapshot.groups == groups:
            traffic.not_modified += 1
            groups = fetched.snapshot.groups
        snapshot = Snapshot(
            groups=groups,
            server=NAME,
            checked_at=self.clock.now(),
            failures=self.failures,
            freshness=self.freshness,
        )
        return FetchedSnapshot(snapshot=snapshot, etags={"": str(hash(groups))})


class _Scripted:
    def __init__(self, script: ScriptedServer, *, can_listen: bool = False) -> None:
        self.script = script
        self.server = NAME
        self.traffic = Traffic()
        self.can_listen = can_listen
        self.closes: int = 0

    def _has_news(self, edition: int) -> bool:
        return self.closes > 0 or self.script.edition != edition

    def _is_free(self) -> bool:
        return self.closes > 0 or not self.script.is_holding

    def _ensure_open(self) -> None:
        if self.closes:
            raise ServerUnreachable("closed", url=NAME)

    def _begin(self) -> None:
        self.traffic.requests += 1
        self.script.note_request()


class ScriptedTransport(_Scripted):
    """An `AsyncTransport`."""

    async def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        self._begin()
        await self.script.until(self._is_free)
        self._ensure_open()
        return self.script.answer(fetched, self.traffic)

    async def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        self._begin()
        script = self.script
        script.listeners += 1
        try:
            while True:
                self._ensure_open()
                edition = script.edition
                fetched = script.answer(fetched, Traffic())
                yield fetched
                await script.until(partial(self._has_news, edition))
        finally:
            script.listeners -= 1

    async def close(self) -> None:
        self.closes += 1
        self.script.tell()


class SyncScriptedTransport(_Scripted):
    """A `Transport`."""

    def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        self._begin()
        self.script.wait_until(self._is_free)
        self._ensure_open()
        return self.script.answer(fetched, self.traffic)

    def listen(self, fetched: FetchedSnapshot | None) -> Generator[FetchedSnapshot]:
        self._begin()
        script = self.script
        script.listeners += 1
        try:
            while True:
                self._ensure_open()
                edition = script.edition
                fetched = script.answer(fetched, Traffic())
                yield fetched
                script.wait_until(partial(self._has_news, edition))
        finally:
            script.listeners -= 1

    def close(self) -> None:
        self.closes += 1
        self.script.tell()


# --------------------------------------------------------------------------------------------------
# Groups to serve.


def resource(gv: GroupVersion, name: str, kind: str) -> Resource:
    """Return a resource whose singular name is its kind in lower case."""
    return Resource(
        gv=gv,
        name=name,
        singular_name=kind.lower(),
        scope="Namespaced",
        response_kind=GroupVersionKind("", "", kind),
        verbs=("get", "list"),
    )


def group(name: str, *versions: str, kinds: tuple[str, ...] = ("Widget",)) -> Group:
    """Return a group that serves these kinds in all its versions, the first being preferred."""
    return Group(
        name,
        tuple(
            Version(
                gv := GroupVersion(name, version),
                tuple(resource(gv, f"{kind.lower()}s", kind) for kind in kinds),
                stated_freshness="Current",
            )
            for version in versions or ("v1",)
        ),
    )
