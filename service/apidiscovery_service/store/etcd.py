"""A store in etcd, which several machines share.

A write and all its conditions are one transaction of etcd.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress

import grpc.aio
import structlog
from apidiscovery_etcd.kv_pb2 import Event, KeyValue
from apidiscovery_etcd.rpc_pb2 import (
    Compare,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    PutRequest,
    RangeRequest,
    RangeResponse,
    RequestOp,
    TxnRequest,
    TxnResponse,
    WatchCreateRequest,
    WatchProgressRequest,
    WatchRequest,
    WatchResponse,
)

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.store import (
    ABSENT,
    NEWS_EVERY_S,
    Batch,
    Change,
    Compacted,
    Conflict,
    Entry,
    Fenced,
    Guards,
    Lease,
    Listing,
    StoreRefused,
    StoreUnavailable,
    guards_of,
)
from apidiscovery_service.store.etcd_connection import (
    Endpoint,
    EtcdConnection,
    LeaseNotFound,
    Metadata,
    WatchCall,
    cancellation_first,
    is_stale_token,
    store_error,
)
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.keys import check_guard, check_size, prefix_end

# Keys in one answer of a listing.
_PAGE = 500

# A server without an answer for so long counts as hanging: two answers are missing. With the pause
# of a follower and a listing, that is well below ten seconds.
_SILENCE_S = 5.0

# Ends a watch when its server has lost the leader. Source: etcd clientv3 ctx.go,
# `WithRequireLeader`.
_REQUIRE_LEADER = ("hasleader", "true")

_log = structlog.get_logger(__name__)


class EtcdStore:
    """A store below one prefix of etcd.

    It connects at the first call, so a server may start before etcd does.

    Args:
        endpoints: HOST:PORT of the members of one etcd cluster.
        prefix: Prefix of all keys, without slashes at the ends.
        options: Options of the connection.

    Raises:
        InvalidConfiguration: The options are wrong.
    """

    def __init__(self, endpoints: Sequence[str], prefix: str, options: EtcdOptions) -> None:
        self._connection = EtcdConnection(endpoints, options)
        self._prefix = f"{prefix}/"

    async def get(self, key: str) -> Entry | None:
        answer = await self._range(RangeRequest(key=self._key(key)))
        return self._entry(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str) -> Listing:
        while True:
            try:
                return await self._list(prefix)
            except Compacted:
                _log.debug("store compacted between two pages of a listing")

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        check_size(key, value)
        own = self._own(lease)
        name = self._key(key)
        put = PutRequest(key=name, value=value, lease=own.number if own else 0)
        # A transaction reads its own writes.
        look = RangeRequest(key=name, keys_only=True)
        operations = [
            RequestOp(request_put=put),
            RequestOp(request_range=look),
        ]
        try:
            answer = await self._transaction(key, operations, expected, guard)
        except LeaseNotFound as error:
            raise Fenced(f"{key}: the lease has ended") from error
        written = answer.responses[1].response_range.kvs[0]
        return Entry(key, value, written.mod_revision, written.create_revision)

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        request = DeleteRangeRequest(key=self._key(key))
        operations = [RequestOp(request_delete_range=request)]
        answer = await self._transaction(key, operations, expected, guard)
        return bool(answer.responses[0].response_delete_range.deleted)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        watch = _Watch(self._connection, *self._bounds(prefix), after)
        try:
            async with aclosing(watch.batches()) as batches:
                async for events, revision in batches:
                    yield Batch(self._changes(events), revision)
        except StoreUnavailable:
            if not self._connection.closed:
                raise

    async def lease(self, ttl_s: float) -> Lease:
        request = LeaseGrantRequest(TTL=math.ceil(ttl_s))
        answer = await self._connection.call(
            lambda endpoint, metadata: endpoint.leases.LeaseGrant(request, metadata=metadata),
            again=True,
        )
        return _EtcdLease(self._connection, answer.ID, float(answer.TTL))

    async def close(self) -> None:
        await self._connection.close()

    async def _list(self, prefix: str) -> Listing:
        start, end = self._bounds(prefix)
        entries: list[Entry] = []
        revision = 0
        while True:
            answer = await self._range(
                RangeRequest(key=start, range_end=end, limit=_PAGE, revision=revision)
            )
            entries += map(self._entry, answer.kvs)
            revision = revision or answer.header.revision
            if not answer.more:
                return Listing(tuple(entries), revision)
            start = answer.kvs[-1].key + b"\0"

    async def _range(self, request: RangeRequest) -> RangeResponse:
        return await self._connection.call(
            lambda endpoint, metadata: endpoint.kv.Range(request, metadata=metadata), again=True
        )

    async def _transaction(
        self, key: str, operations: Sequence[RequestOp], expected: int | None, guard: Guards
    ) -> TxnResponse:
        """Carry out operations if all conditions hold.

        Raises:
            Fenced: A guard does not hold.
            Conflict: The key has another revision than expected.
        """
        keys = [self._key(name) for name in (key, *(each.key for each in guards_of(guard)))]
        request = TxnRequest(
            compare=self._conditions(key, expected, guard),
            success=operations,
            failure=[
                RequestOp(request_range=RangeRequest(key=each, keys_only=True)) for each in keys
            ],
        )
        answer = await self._connection.call(
            lambda endpoint, metadata: endpoint.kv.Txn(request, metadata=metadata), again=False
        )
        if not answer.succeeded:
            raise _refusal(key, guard, [found.response_range.kvs for found in answer.responses])
        return answer

    def _conditions(self, key: str, expected: int | None, guard: Guards) -> Iterable[Compare]:
        for condition in guards_of(guard):
            # For a missing key etcd compares with 0, which is ABSENT.
            yield Compare(
                result=Compare.EQUAL,
                target=Compare.CREATE,
                key=self._key(condition.key),
                create_revision=condition.created,
            )
        if expected is not None:
            yield Compare(
                result=Compare.EQUAL,
                target=Compare.MOD,
                key=self._key(key),
                mod_revision=expected,
            )

    def _own(self, lease: Lease | None) -> "_EtcdLease | None":
        if lease is None:
            return None
        if isinstance(lease, _EtcdLease) and lease.connection is self._connection:
            return lease
        raise ValueError("the lease is of another store")

    def _key(self, key: str) -> bytes:
        return f"{self._prefix}{key}".encode()

    def _bounds(self, prefix: str) -> tuple[bytes, bytes]:
        whole = self._prefix + prefix
        return whole.encode(), prefix_end(whole).encode()

    def _entry(self, found: KeyValue) -> Entry:
        key = found.key.decode()[len(self._prefix) :]
        return Entry(key, found.value, found.mod_revision, found.create_revision)

    def _changes(self, events: Iterable[Event]) -> tuple[Change, ...]:
        """Return the last change of each key, in order."""
        changes: dict[str, Change] = {}
        for event in events:
            entry = self._entry(event.kv)
            changes.pop(entry.key, None)
            is_there = event.type == Event.PUT
            changes[entry.key] = Change(entry.key, entry if is_there else None)
        return tuple(changes.values())


def _refusal(key: str, guard: Guards, found: Sequence[Sequence[KeyValue]]) -> Fenced | Conflict:
    """Return the error for the first condition that did not hold, guards first."""
    standing, *holders = found
    for condition, there in zip(guards_of(guard), holders, strict=True):
        try:
            check_guard(key, condition, there[0].create_revision if there else ABSENT)
        except Fenced as fenced:
            return fenced
    return Conflict(key, standing[0].mod_revision if standing else 0)


class _Watch:
    """The events of a range of keys over one stream; the watch ends with the stream."""

    def __init__(self, connection: EtcdConnection, start: bytes, end: bytes, after: int) -> None:
        self._connection = connection
        self._start = start
        self._end = end
        self._after = after

    async def batches(self) -> AsyncGenerator[tuple[Sequence[Event], int]]:
        """Yield events that arrived together, or none, and the revision that they reach."""
        may_authenticate = True
        while True:
            try:
                async with aclosing(self._stream()) as stream:
                    async for events in stream:
                        yield events, self._after
            except _Unauthenticated as error:
                if not may_authenticate:
                    raise StoreRefused(str(error)) from None
                may_authenticate = False
                self._connection.forget_token()

    async def _stream(self) -> AsyncGenerator[Sequence[Event]]:
        endpoint = await self._connection.connected()
        begun = time.monotonic()
        stream: WatchCall | None = None
        asking: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(_SILENCE_S):
                metadata = (*await self._connection.metadata(endpoint), _REQUIRE_LEADER)
                stream = endpoint.watches.Watch(metadata=metadata)
                endpoint.streams.add(stream)
                with cancellation_first():
                    await stream.write(self._request())
            asking = asyncio.create_task(self._request_progress(stream))
            while True:
                begun = time.monotonic()
                async with asyncio.timeout(_SILENCE_S):
                    with cancellation_first():
                        answer = await stream.read()
                if not isinstance(answer, WatchResponse):
                    raise StoreUnavailable(f"etcd at {endpoint.address}: ended the watch")
                endpoint.hear()
                await self._examine(endpoint, answer)
                if answer.events:
                    self._after = answer.events[-1].kv.mod_revision
                if not answer.created:
                    yield answer.events
        except TimeoutError:
            self._connection.leave(endpoint, begun)
            silent = f"no news of the watch for {_SILENCE_S:g} s"
            raise StoreUnavailable(f"etcd at {endpoint.address}: {silent}") from None
        except asyncio.CancelledError:
            self._connection.raise_if_closed(endpoint)
            raise
        except grpc.aio.AioRpcError as error:
            self._connection.turn(endpoint)
            raise store_error(endpoint, error) from error
        finally:
            if asking is not None:
                asking.cancel()
            if stream is not None:
                stream.cancel()
                endpoint.streams.discard(stream)

    async def _request_progress(self, stream: WatchCall) -> None:
        """Ask for progress notifications, which a hanging server does not send."""
        request = WatchRequest(progress_request=WatchProgressRequest())
        # The reader of the stream gets its errors.
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await asyncio.sleep(NEWS_EVERY_S)
                await stream.write(request)

    def _request(self) -> WatchRequest:
        return WatchRequest(
            create_request=WatchCreateRequest(
                key=self._start,
                range_end=self._end,
                start_revision=self._after + 1,
                progress_notify=True,
            )
        )

    async def _examine(self, endpoint: Endpoint, answer: WatchResponse) -> None:
        """Handle what an answer contains besides its events."""
        if answer.canceled:
            self._refuse(endpoint, answer)
        elif answer.created:
            if answer.header.revision < self._after:
                await self._ask_leader()
        elif not answer.events and answer.watch_id >= 0:
            # A progress notification keeps the revision ahead of compactions. One for no watch in
            # particular, -1, may be ahead of events still to come.
            self._after = max(self._after, answer.header.revision)

    def _refuse(self, endpoint: Endpoint, answer: WatchResponse) -> None:
        if answer.compact_revision:
            raise Compacted(f"revision {self._after} is forgotten, up to {answer.compact_revision}")
        reason = f"etcd at {endpoint.address}: {answer.cancel_reason or 'cancelled the watch'}"
        # A stale token causes the same answer as a missing permission.
        if "permission denied" in reason or is_stale_token(reason):
            raise _Unauthenticated(reason)
        raise StoreUnavailable(reason)

    async def _ask_leader(self) -> None:
        """Ask the leader whether the server lags behind, or a backup was restored."""
        request = RangeRequest(key=self._start, count_only=True)
        answer = await self._connection.call(
            lambda endpoint, metadata: endpoint.kv.Range(request, metadata=metadata), again=True
        )
        revision = answer.header.revision
        if revision < self._after:
            raise Compacted(f"revision {self._after} is not known, etcd is at {revision}")


class _Unauthenticated(DiscoveryError):
    """A watch is refused; its token may be stale."""


class _EtcdLease:
    """A lease of etcd, by its number."""

    def __init__(self, connection: EtcdConnection, number: int, ttl_s: float) -> None:
        self.connection = connection
        self.number = number
        self._ttl_s = ttl_s

    @property
    def ttl_s(self) -> float:
        return self._ttl_s

    async def keep_alive(self) -> bool:
        answer = await self.connection.call(self._keep_alive, again=True)
        return answer.TTL > 0

    async def revoke(self) -> None:
        request = LeaseRevokeRequest(ID=self.number)
        with suppress(LeaseNotFound):
            await self.connection.call(
                lambda endpoint, metadata: endpoint.leases.LeaseRevoke(request, metadata=metadata),
                again=True,
            )

    async def _keep_alive(self, endpoint: Endpoint, metadata: Metadata) -> LeaseKeepAliveResponse:
        """Send one request over a stream, as etcd requires, and return its answer."""
        stream = endpoint.leases.LeaseKeepAlive(metadata=metadata)
        try:
            await stream.write(LeaseKeepAliveRequest(ID=self.number))
            answer = await stream.read()
            if not isinstance(answer, LeaseKeepAliveResponse):
                raise StoreUnavailable(f"etcd at {endpoint.address}: ended the stream")
            return answer
        finally:
            stream.cancel()
