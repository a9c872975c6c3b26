"""The client for threads: what a server serves, asked for as rarely as can be."""

import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack

from apidiscovery_client._errors import ClientClosed, DiscoveryError, NotYetServed
from apidiscovery_client.core import operations
from apidiscovery_client.core.clock import SYSTEM_CLOCK, Clock
from apidiscovery_client.core.memory import Memory
from apidiscovery_client.core.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client.held import Held, SnapshotCache, Traffic, Transport
from apidiscovery_client.model import Resource, Snapshot

if TYPE_CHECKING:  # imported when they are needed
    from apidiscovery_client.changes import Change
    from apidiscovery_client.connecting import Flags
    from apidiscovery_client.core.waiting import Goal, Wanted
    from apidiscovery_client.resolving import Explanation, Resolution, Resolver
    from apidiscovery_client.server import Server

_T = TypeVar("_T")


class SyncDiscoveryClient:
    """Knows what one server serves. Threads may share it, also those that run an event loop.

    It starts no threads and runs no event loop; what it does, it does in the thread that calls.
    After `close` every method raises `ClientClosed`.

    Args:
        transport: Asks the server; it is closed with the client.
        cache: Where snapshots are kept for other processes. It is read once, and
            written after changes.
        cache_key: The place in the cache, as `cache.key` names it; by default that of the server
            for anybody. It must tell apart those who are somebody else to the server.
        options: How long what is known is believed.
        clock: For tests.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        cache: SnapshotCache | None = None,
        cache_key: str | None = None,
        options: ClientOptions = DEFAULT_OPTIONS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._transport = transport
        self._shelf = operations.Shelf.of(cache, cache_key, transport.server)
        self._memory = Memory(transport.server, options, clock, has_cache=cache is not None)
        self._options = options
        self._clock = clock
        self._turn = threading.Lock()  # held by the thread that carries out an attempt
        self._closed = threading.Event()

    @classmethod
    def connect(
        cls,
        target: "str | Server | None" = None,
        *,
        stubs: Literal["grpcio", "betterproto"] = "grpcio",
        prefer_protobuf: bool = True,
        cache: bool | SnapshotCache = False,
        options: ClientOptions = DEFAULT_OPTIONS,
        **flags: "Unpack[Flags]",
    ) -> Self:
        """Return a client of a server; the first question opens the connection.

        Args:
            target: `https://host:6443`, `http://127.0.0.1:8080`, `grpc://host:50051` or
                `grpcs://...`; None to find it as kubectl does.
            stubs: Which library talks gRPC.
            prefer_protobuf: Whether to ask for protobuf before JSON over HTTP.
            cache: Whether to keep snapshots on disk for other processes, and where.
            options: How long what is known is believed.
            flags: What else may be named, as by kubectl's flags: `kubeconfig`, `context`,
                `cluster`, `user`, `token`, `request_timeout_s` and all others of
                `connecting.Flags`.

        Raises:
            InvalidConfiguration: What is configured cannot be used.
        """
        from apidiscovery_client.connecting import open_sync_transport  # noqa: PLC0415 - heavy

        opened = open_sync_transport(
            target, stubs=stubs, prefer_protobuf=prefer_protobuf, cache=cache, **flags
        )
        return cls(
            opened.transport, cache=opened.cache, cache_key=opened.cache_key, options=options
        )

    @property
    def server(self) -> str:
        """Return what errors and snapshots call the server."""
        return self._transport.server

    @property
    def traffic(self) -> Traffic:
        """Return what was sent and received so far."""
        return self._transport.traffic

    def __enter__(self) -> Self:
        self._ensure_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections; it may be called again, and by another thread.

        Whoever waits in another method then gets `ClientClosed`, watches end.
        """
        if self._closed.is_set():
            return
        self._memory.close()
        self._closed.set()
        self._transport.close()

    def _ensure_open(self) -> None:
        if self._closed.is_set():
            raise ClientClosed(self.server)

    # ----------------------------------------------------------------------------------------------
    # Questions.

    def snapshot(self, *, max_age_s: float | None = None) -> Snapshot:
        """Return what the server serves: from memory, else from the cache, else as it says.

        It asks when what is held is older than `max_age_s`, and shares the answer with all who
        ask at that time. When the server does not answer, what is held is returned with
        `freshness` `Stale`; it is not asked again for a while then.

        Args:
            max_age_s: In seconds; None for that of the options, 0 to ask in any case.

        Raises:
            DiscoveryError: There is no answer and nothing is held, or the server refuses us (401,
                403).
        """
        return self._run(operations.snapshot(self._memory, max_age_s))

    def refresh(self) -> Snapshot:
        """Return what the server says when it is asked now.

        Raises:
            DiscoveryError: It did not answer.
        """
        return self._run(operations.refreshed(self._memory))

    def resolve(
        self,
        text: str,
        *,
        strict: bool = False,
        verb: str | None = None,
        namespaced: bool | None = None,
    ) -> "Resolution":
        """Return what a name means, such as `deploy`, `deployments.apps` or `pods/log`.

        The arguments are those of `resolving.Resolver.resolve`. A name that is not found is asked
        for once, and then not again for `negative_ttl_s`.

        Raises:
            NotServed: There is no such resource.
            AmbiguousResource: It may be any of several.
            StaleGroup: Only when it is strict: it was there, but the server cannot say of now.
            UncertainResource: Only when it is strict: there may be a better match.
            DiscoveryError: As `snapshot`.
        """
        operation = operations.resolved(
            self._memory, text, strict=strict, verb=verb, namespaced=namespaced
        )
        return self._run(operation)

    def resolve_kind(
        self,
        kind: str,
        group: str | None = None,
        version: str | Sequence[str] | None = None,
        *,
        strict: bool = False,
    ) -> "Resolution":
        """Return the resource of a kind, as `resolving.Resolver.resolve_kind` does.

        Raises:
            DiscoveryError: As `resolve`.
        """
        operation = operations.kind_resolved(self._memory, kind, group, version, strict=strict)
        return self._run(operation)

    def category(self, name: str) -> tuple[Resource, ...]:
        """Return the resources of a category such as `all`, in the server's order.

        Raises:
            NotServed: There are none.
            DiscoveryError: As `snapshot`.
        """
        return self._run(operations.category(self._memory, name))

    def look_up(self, wanted: Hashable, ask: "Callable[[Resolver], _T]") -> _T:
        """Return what `ask` returns, of what is known and, where it finds nothing, of what is new.

        For questions that no other method answers; it is spared requests as `resolve` is.

        Args:
            wanted: Tells this question from all others.
            ask: Answers it, or raises `NotServed`; it is called once or twice.

        Raises:
            NotServed: As `ask` raised it.
            DiscoveryError: As `snapshot`.
        """
        return self._run(operations.looked_up(self._memory, wanted, ask))

    def explain_resolution(self, text: str) -> "Explanation":
        """Return why `resolve` answers what it answers, also where that is an error.

        Raises:
            DiscoveryError: As `snapshot`.
        """
        return self._run(operations.explained(self._memory, text))

    # ----------------------------------------------------------------------------------------------
    # Following the server.

    def watch(self, *, interval_s: float = 5.0, initial: bool = False) -> Generator["Change"]:
        """Yield what changes, one by one, until the client is closed.

        First come the differences from what was held in memory or in the cache, if anything was.
        Over gRPC changes are pushed; over HTTP the server is asked, conditionally. While changes
        are read the other methods answer without requests, except `refresh`, `max_age_s=0` and,
        over HTTP, whoever wants less than the usual age. A server that stops answering is a
        `ServerFreshnessChanged`; the watch goes on. Only `close`
        wakes a thread that waits for the next change.

        Args:
            interval_s: Between two questions over HTTP, and two attempts to be told over gRPC, in
                seconds, more or less 10 %.
            initial: Tell what is there as `GroupAdded` first, instead of the differences.

        Raises:
            DiscoveryError: There was no answer, and nothing is held.
        """
        self._ensure_open()
        return self._watched(interval_s, initial=initial)

    def _watched(self, interval_s: float, *, initial: bool) -> Generator["Change"]:
        from apidiscovery_client.core.following import (  # noqa: PLC0415 - few watch
            Follower,
            even_pauses,
            silence_s,
        )

        held = self._run(operations.remembered(self._memory))
        follower = Follower(self._memory, None if initial else held, tells_all=initial)
        is_pushed = self._transport.can_listen
        limit_s = silence_s(interval_s, is_pushed=is_pushed)
        looks = self._looks(even_pauses(interval_s), max_age_s=interval_s / 2)
        with self._memory.watched(limit_s, is_pushed=is_pushed), closing(looks):
            try:
                for _ in looks:
                    yield from follower.news()
            except ClientClosed:
                return

    def wait_for(
        self,
        wanted: "Wanted",
        *,
        timeout_s: float = 30.0,
        replicas: Sequence["SyncDiscoveryClient | Transport | str"] = (),
    ) -> Snapshot:
        """Return when the server, and each of the replicas, serves something and can speak for it.

        Each is asked in turn, conditionally, every 0.1 s and then ever more rarely up to 2 s. A
        server that does not answer at all may keep this waiting for its request timeout.

        Args:
            wanted: A name as in `resolve`, a group-version (also as text, `v1` or `apps/v1`), or
                a kind.
            timeout_s: How long to wait for all of them together, in seconds.
            replicas: Other servers: clients, transports, or targets as in `connect`. Only what is
                made of targets is closed at the end.

        Returns:
            What this client's server serves.

        Raises:
            NotYetServed: Somewhere it is not there in time.
        """
        from apidiscovery_client.core.waiting import Goal, growing_pauses  # noqa: PLC0415 - few wait

        self._ensure_open()
        goal, deadline = Goal.of(wanted), self._clock.monotonic() + timeout_s
        with ExitStack() as stack:
            clients = [self, *[self._client_of(replica, stack) for replica in replicas]]
            for pause_s in growing_pauses(self._clock, deadline):
                clients = [client for client in clients if client._missing(goal)]  # noqa: SLF001 - of this class
                if not clients or self._clock.monotonic() >= deadline:
                    break
                self._pause(pause_s)
            reasons = {client.server: goal.missing_in(client._memory) for client in clients}  # noqa: SLF001 - of this class
        if reasons:
            raise NotYetServed(goal.text, timeout_s=timeout_s, missing=reasons)
        return self._memory.answer()

    def _missing(self, goal: "Goal") -> str:
        """Ask, and return why it is not served; empty when it is."""
        self._ensure_open()
        self._look(max_age_s=0.0)
        return goal.missing_in(self._memory)

    def _client_of(
        self, replica: "SyncDiscoveryClient | Transport | str", stack: ExitStack
    ) -> "SyncDiscoveryClient":
        if isinstance(replica, SyncDiscoveryClient):
            return replica
        if isinstance(replica, str):
            return stack.enter_context(self.connect(replica, options=self._options))
        return SyncDiscoveryClient(replica, options=self._options, clock=self._clock)

    # ----------------------------------------------------------------------------------------------
    # Carrying out.

    def _run(self, operation: operations.Operation[_T]) -> _T:
        self._ensure_open()
        try:
            number = next(operation)
            while True:
                self._end(number)
                number = operation.send(None)
        except StopIteration as done:
            result: _T = done.value
            return result

    def _end(self, number: int) -> None:
        """Return when the attempt of that number has ended; carry it out if nobody does."""
        with self._turn:
            while self._memory.ended < number:
                self._ensure_open()
                self._perform(operations.attempt(self._memory))
        self._ensure_open()

    def _perform(self, steps: operations.Steps) -> None:
        try:
            step = next(steps)
            while True:
                try:
                    held = self._do(step)
                except Exception as error:  # noqa: BLE001 - it is the steps that judge it
                    step = steps.throw(error)
                else:
                    step = steps.send(held)
        except StopIteration:
            pass
        finally:
            steps.close()

    def _do(self, step: operations.IO) -> Held | None:
        match step:
            case operations.Load():
                return self._shelf.load()
            case operations.Fetch(held):
                return self._transport.fetch(held)
            case operations.Save(held):
                self._shelf.save(held)
                return None

    def _look(self, *, max_age_s: float) -> None:
        number = self._memory.attempt_for_age(max_age_s)
        if number is not None:
            self._end(number)

    def _looks(self, pauses: Iterator[float], *, max_age_s: float) -> Generator[None]:
        """Yield each time that there is something to learn from the memory, or no answer."""
        memory = self._memory
        while True:
            if memory.held is None or not self._transport.can_listen:
                self._look(max_age_s=max_age_s)
                yield
            if memory.held is not None and self._transport.can_listen:
                yield from self._listened(memory.held)
            self._pause(next(pauses))

    def _listened(self, held: Held) -> Generator[None]:
        """Yield after each thing that the server says by itself, and at last when it is lost."""
        try:
            with closing(self._transport.listen(held)) as stream:
                for told in stream:
                    self._ensure_open()
                    if self._memory.heard(told, held):
                        self._perform(operations.saved(self._memory))
                    else:
                        self._look(max_age_s=0.0)
                    held = told
                    yield
        except DiscoveryError as error:
            self._ensure_open()
            self._memory.failed(error)
            yield

    def _pause(self, seconds: float) -> None:
        self._clock.wait(self._closed, seconds)
        self._ensure_open()
