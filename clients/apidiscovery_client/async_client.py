"""The client for asyncio; `client`, which blocks, is generated from this."""

from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, overload

from apidiscovery_client._async_driver import AsyncDriver
from apidiscovery_client._errors import ClientClosed, DiscoveryError, NotYetServed
from apidiscovery_client._interfaces import AsyncTransport, FetchedSnapshot, SnapshotCache, Traffic
from apidiscovery_client._sans_io import operations
from apidiscovery_client._sans_io.client_state import ClientState
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, SYSTEM_CLOCK, ClientOptions, Clock
from apidiscovery_client._server import Server
from apidiscovery_client.model import (
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Version,
)

if TYPE_CHECKING:  # imported when they are needed
    from apidiscovery_client._connecting import Settings
    from apidiscovery_client._sans_io.following import Goal
    from apidiscovery_client.changes import Change
    from apidiscovery_client.openapi.async_published import AsyncOpenApi
    from apidiscovery_client.resolving import Explanation, Resolution, Resolver

_T = TypeVar("_T")


class AsyncDiscoveryClient:
    """A client for the discovery of one server.

    Threads may share a `DiscoveryClient`, the tasks of one event loop an `AsyncDiscoveryClient`.
    After `close` every method raises `ClientClosed`.

    Args:
        target: `https://host:6443`, `http://127.0.0.1:8080`, `grpc://host:50051`,
            `grpcs://host:50051`; or a transport, which is closed with the client; or None to find
            the server as kubectl does.
        cache: Whether to keep snapshots on disk for other processes, or the cache to use. It is
            read once, and written after changes.
        cache_key: The place in the cache, as `cache.key` makes it, by default that of the server
            and our credentials. With a transport it must differ by user; its default is that of
            the server for any user.
        options: Cache lifetimes and retries.
        clock: For tests.
        settings: Options named after kubectl's flags: `context`, `token`,
            `certificate_authority`, `request_timeout_s` and others; also `stubs` and
            `prefer_protobuf`.

    Raises:
        TypeError: There is no argument of such a name.
        InvalidConfiguration: The configuration cannot be used.
    """

    def __init__(
        self,
        target: str | Server | AsyncTransport | None = None,
        *,
        cache: bool | SnapshotCache = False,
        cache_key: str = "",
        options: ClientOptions = DEFAULT_OPTIONS,
        clock: Clock = SYSTEM_CLOCK,
        **settings: "Unpack[Settings]",
    ) -> None:
        from apidiscovery_client._connecting import open_async  # noqa: PLC0415 - heavy

        opened = open_async(target, cache=cache, cache_key=cache_key, **settings)
        self._transport = opened.transport
        self._state = ClientState(self.server, options, clock, has_cache=opened.cache is not None)
        slot = operations.CacheSlot.of(opened.cache, opened.cache_key, self.server)
        self._driver = AsyncDriver(self._transport, slot, self._state, clock)
        self._options = options
        self._clock = clock

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | Path | None = None,
        *,
        cache: bool | SnapshotCache = False,
        options: ClientOptions = DEFAULT_OPTIONS,
        **settings: "Unpack[Settings]",
    ) -> Self:
        """Return a client of the server that kubectl would use.

        Args:
            path: The file; by default those of KUBECONFIG, or ~/.kube/config, or in a pod the
                service account.
            cache: As for the class.
            options: As for the class.
            settings: As for the class, such as `context`.

        Raises:
            TypeError: As for the class.
            InvalidConfiguration: The configuration cannot be used, or there is none.
        """
        named: Settings = {**settings, "kubeconfig": str(path)} if path else settings
        return cls(cache=cache, options=options, **named)

    @classmethod
    def in_cluster(
        cls,
        *,
        cache: bool | SnapshotCache = False,
        options: ClientOptions = DEFAULT_OPTIONS,
    ) -> Self:
        """Return a client of the cluster that this process is a pod of, as its service account.

        Raises:
            InvalidConfiguration: It is not in a pod, or without a service account.
        """
        from apidiscovery_client._connecting import server_of_cluster  # noqa: PLC0415 - heavy

        return cls(server_of_cluster(), cache=cache, options=options)

    @property
    def server(self) -> str:
        """Return the name of the server in errors and snapshots."""
        return self._transport.server

    @property
    def traffic(self) -> Traffic:
        """Return counters of what was sent and received."""
        return self._transport.traffic

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    async def __aenter__(self) -> Self:
        self._driver.ensure_open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End running requests and close all connections; it may be called again.

        Other methods that wait raise `ClientClosed`, watches end.
        """
        await self._driver.close()

    # ----------------------------------------------------------------------------------------------
    # Snapshots and names.

    async def snapshot(self, *, max_age_s: float | None = None) -> Snapshot:
        """Return what the server serves: from memory, from the cache, or by a request.

        The server is asked when the snapshot is older than `max_age_s`. Concurrent callers share
        the answer, also when one of them is cancelled. When the server does not answer, the last
        snapshot is returned with `freshness` `Stale`, and the server is not asked for a while.

        Args:
            max_age_s: In seconds; None uses the options' value, 0 always sends a request.

        Raises:
            DiscoveryError: There is no answer and no snapshot, or the server refuses us (401,
                403).
        """
        return await self._driver.run(operations.snapshot(self._state, max_age_s))

    async def refresh(self) -> Snapshot:
        """Return what the server serves, by a new request.

        Raises:
            DiscoveryError: The server did not answer.
        """
        return await self._driver.run(operations.refreshed(self._state))

    async def resources(
        self,
        *,
        group: str | None = None,
        namespaced: bool | None = None,
        verbs: Sequence[str] = (),
        categories: Sequence[str] = (),
        sort_by: str = "",
    ) -> list[Resource]:
        """Return the resources that `kubectl api-resources` lists, each in its preferred version.

        Stale and unknown group-versions are left out; `snapshot` has them.

        Args:
            group: Only those of this group, empty for the core group; None for all groups.
            namespaced: Only those in namespaces, or only the others; None for both.
            verbs: Verbs that they must support, all of them.
            categories: Categories that they must be in, all of them.
            sort_by: `name` or `kind`; empty for group and name.

        Raises:
            ValueError: `sort_by` is something else.
            DiscoveryError: As `snapshot`.
        """
        from apidiscovery_client._kubectl import Selection, select  # noqa: PLC0415 - few list

        selection = Selection(group, namespaced, tuple(verbs), tuple(categories))
        return select(await self.snapshot(), selection, sort_by)

    async def resolve(
        self,
        text: str,
        *,
        strict: bool = False,
        verb: str | None = None,
        namespaced: bool | None = None,
    ) -> "Resolution":
        """Return what a name means, such as `deploy`, `deployments.apps` or `pods/log`.

        The arguments are those of `resolving.Resolver.resolve`. A name that is not found causes one
        request, and then none for `negative_ttl_s`.

        Raises:
            NotServed: There is no such resource.
            AmbiguousResource: It may be any of several.
            StaleGroup: With `strict`: the server cannot say whether it is still served.
            UncertainResource: With `strict`: there may be a better match.
            DiscoveryError: As `snapshot`.
        """
        operation = operations.resolved(
            self._state, text, strict=strict, verb=verb, namespaced=namespaced
        )
        return await self._driver.run(operation)

    async def resolve_kind(
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
        operation = operations.kind_resolved(self._state, kind, group, version, strict=strict)
        return await self._driver.run(operation)

    async def category(self, name: str) -> tuple[Resource, ...]:
        """Return the resources of a category such as `all`, in the server's order.

        Raises:
            NotServed: There are none.
            DiscoveryError: As `snapshot`.
        """
        return await self._driver.run(operations.category(self._state, name))

    async def look_up(self, wanted: Hashable, ask: "Callable[[Resolver], _T]") -> _T:
        """Return the result of `ask`; where it finds nothing, it is called with a new snapshot.

        For look-ups that no other method has; it saves requests as `resolve` does.

        Args:
            wanted: Identifies the look-up.
            ask: Finds the result, or raises `NotServed`; it is called once or twice.

        Raises:
            NotServed: As `ask` raised it.
            DiscoveryError: As `snapshot`.
        """
        return await self._driver.run(operations.looked_up(self._state, wanted, ask))

    async def explain_resolution(self, text: str) -> "Explanation":
        """Return how `resolve` comes to its result, also where that is an error.

        Raises:
            DiscoveryError: As `snapshot`.
        """
        return await self._driver.run(operations.explained(self._state, text))

    @cached_property
    def openapi(self) -> "AsyncOpenApi":
        """The OpenAPI v3 documents of the server, over HTTP.

        `await client.openapi.schema(gvk)` is the JSON Schema of a kind, `document(gv)` the whole
        document of a group-version.
        """
        from apidiscovery_client.openapi.async_published import (  # noqa: PLC0415 - few need it
            AsyncOpenApi,
        )

        return AsyncOpenApi(self._transport)

    # ----------------------------------------------------------------------------------------------
    # Following the server.

    def watch(self, *, interval_s: float = 5.0, initial: bool = False) -> AsyncGenerator["Change"]:
        """Yield what changes, one by one, until the client is closed.

        First come the differences from the snapshot in memory or in the cache, if there is one.
        Without a snapshot, the first step of the iteration fetches one, and later changes are
        reported: call `snapshot` before, or give `initial`, to miss none.
        Over gRPC changes are pushed; over HTTP the server is polled with conditional requests.
        During a watch other methods answer without requests, except `refresh`, `max_age_s=0` and,
        over HTTP, a lower `max_age_s` than that of the options. A server that stops answering is a
        `ServerFreshnessChanged`; the watch continues. Leave it with `contextlib.aclosing`; only
        `close` wakes a thread that waits for the next change.

        Args:
            interval_s: Between two requests over HTTP, and two connections over gRPC, in seconds,
                plus or minus 10 %.
            initial: Yield everything as `GroupAdded` first, instead of the differences.

        Raises:
            DiscoveryError: There was no answer, and there is no snapshot.
        """
        self._driver.ensure_open()
        return self._watched(interval_s, initial=initial)

    async def _watched(self, interval_s: float, *, initial: bool) -> AsyncGenerator["Change"]:
        from apidiscovery_client._sans_io.following import (  # noqa: PLC0415 - few watch
            Follower,
            jittered_pauses,
            silence_s,
        )

        fetched = await self._driver.run(operations.remembered(self._state))
        follower = Follower(self._state, None if initial else fetched, tells_all=initial)
        is_pushed = self._transport.can_listen
        limit_s = silence_s(interval_s, is_pushed=is_pushed)
        looks = self._looks(jittered_pauses(interval_s), interval_s / 2, listens=is_pushed)
        with self._state.watched(limit_s, is_pushed=is_pushed):
            async with aclosing(looks):
                try:
                    async for _ in looks:
                        for change in follower.news():
                            yield change
                except ClientClosed:
                    return

    @overload
    async def wait_for(
        self,
        wanted: "str | GroupVersionKind",
        *,
        timeout_s: float = 30.0,
        replicas: "Sequence[AsyncDiscoveryClient | AsyncTransport | str]" = (),
    ) -> "Resolution": ...

    @overload
    async def wait_for(
        self,
        wanted: GroupVersion,
        *,
        timeout_s: float = 30.0,
        replicas: "Sequence[AsyncDiscoveryClient | AsyncTransport | str]" = (),
    ) -> Version: ...

    async def wait_for(
        self,
        wanted: str | GroupVersion | GroupVersionKind,
        *,
        timeout_s: float = 30.0,
        replicas: "Sequence[AsyncDiscoveryClient | AsyncTransport | str]" = (),
    ) -> "Resolution | Version":
        """Return the wanted thing when the server and all replicas serve it as current.

        Each is polled with conditional requests after 0.1 s, then after longer pauses up to 2 s;
        with asyncio side by side, and over gRPC changes are pushed. A server that does not answer
        may block a `DiscoveryClient` for its request timeout.

        Args:
            wanted: A name as in `resolve`, a kind, or a whole group-version.
            timeout_s: For all of them together, in seconds.
            replicas: Other servers: clients, transports, or URLs as for the class. Only clients
                made from URLs are closed at the end.

        Returns:
            What this client's server serves: the resolution of a name or kind, or the version.

        Raises:
            NotYetServed: A server does not serve it in time.
        """
        from apidiscovery_client._sans_io.following import Goal  # noqa: PLC0415 - few wait

        self._driver.ensure_open()
        goal, deadline = Goal(wanted), self._clock.monotonic() + timeout_s
        async with AsyncExitStack() as stack:
            clients = [self, *[self._client_of(replica, stack) for replica in replicas]]
            missing = dict.fromkeys(range(len(clients)), "no answer in time")
            calls = [
                partial(client._served, goal, deadline, missing, place)  # noqa: SLF001 - of this class
                for place, client in enumerate(clients)
            ]
            await self._driver.all_of(calls, timeout_s)
        if missing:
            reasons = {clients[place].server: why for place, why in missing.items()}
            raise NotYetServed(str(wanted), timeout_s=timeout_s, missing=reasons)
        return goal.found_in(self._state)

    async def _served(
        self, goal: "Goal", deadline: float, missing: dict[int, str], place: int
    ) -> None:
        """Return when it is served, or after the deadline; record what is `missing`."""
        from apidiscovery_client._sans_io.following import growing_pauses  # noqa: PLC0415 - few wait

        self._driver.ensure_open()
        listens = self._transport.can_listen and self._driver.can_be_interrupted
        pauses = growing_pauses(self._clock, deadline)
        async with aclosing(self._looks(pauses, 0.0, listens=listens)) as looks:
            async for _ in looks:
                missing[place] = goal.missing_in(self._state)
                if not missing[place]:
                    del missing[place]
                    return
                if self._clock.monotonic() >= deadline:
                    return

    def _client_of(
        self, replica: "AsyncDiscoveryClient | AsyncTransport | str", stack: AsyncExitStack
    ) -> "AsyncDiscoveryClient":
        if isinstance(replica, AsyncDiscoveryClient):
            return replica
        client = AsyncDiscoveryClient(replica, options=self._options, clock=self._clock)
        is_ours = isinstance(replica, str)
        stack.push_async_callback(client.close if is_ours else client._driver.stop)
        return client

    # ----------------------------------------------------------------------------------------------
    # Following the server, for `watch` and `wait_for`.

    async def _looks(
        self, pauses: Iterator[float], max_age_s: float, *, listens: bool
    ) -> AsyncGenerator[None]:
        """Yield after each answer, pushed state or failure."""
        state = self._state
        while True:
            if state.fetched is None or not listens:
                await self._driver.look(max_age_s=max_age_s)
                yield
            if state.fetched is not None and listens:
                async with aclosing(self._listened(state.fetched)) as listened:
                    async for _ in listened:
                        yield
            await self._driver.pause(next(pauses))

    async def _listened(self, fetched: FetchedSnapshot) -> AsyncGenerator[None]:
        """Yield after each pushed state, and when the connection is lost."""
        stream = self._transport.listen(fetched)
        try:
            async with aclosing(stream), aclosing(self._driver.received(stream)) as received:
                async for told in received:
                    if self._state.heard(told, fetched):
                        await self._driver.perform(operations.saved(self._state))
                    else:
                        await self._driver.look(max_age_s=0.0)
                    fetched = told
                    yield
        except DiscoveryError as error:
            self._driver.ensure_open()
            self._state.failed(error)
            yield
