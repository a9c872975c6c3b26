"""Calls to etcd: channels to its endpoints, failover, TLS, authentication, errors of the store."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import grpc
import grpc.aio
from apidiscovery_etcd import rpc_pb2, rpc_pb2_grpc

from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration
from apidiscovery_service.store import (
    Compacted,
    StoreDamaged,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from apidiscovery_service.store.etcd_options import EtcdOptions

Metadata: TypeAlias = tuple[tuple[str, str], ...]
WatchCall: TypeAlias = "grpc.aio.StreamStreamCall[rpc_pb2.WatchRequest, rpc_pb2.WatchResponse]"

_T = TypeVar("_T")

# Interval of checks for a connected channel while there is none.
_STEP_S = 0.02

_CHANNEL_OPTIONS = (
    # A listing or a watch may have more than gRPC's default limit of 4 MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Reconnect within a second; gRPC's default waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),  # in effect the timeout of a connection attempt
    # Detects within ten seconds that a peer is gone. etcd refuses more than one ping in five
    # seconds (--grpc-keepalive-min-time). The default ping timeout is 60 s, and the greater counts.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 4000),
    ("grpc.http2.max_pings_without_data", 0),
    # Two stores of one process must not share connections and their backoff.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

# etcd's messages for a stale token, or for none when authentication has been enabled since; the
# call was not carried out. Source: etcd etcdserver/api/v3rpc/rpctypes/error.go,
# ErrGRPCInvalidAuthToken, ErrGRPCAuthOldRevision, ErrGRPCUserEmpty.
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old", "user name is empty")

_AUTH_NOT_ENABLED = "authentication is not enabled"


class LeaseNotFound(DiscoveryError):
    """A lease has ended."""


# Errors by code; all other codes are StoreUnavailable.
_ERRORS: dict[grpc.StatusCode, type[DiscoveryError]] = {
    grpc.StatusCode.NOT_FOUND: LeaseNotFound,
    grpc.StatusCode.OUT_OF_RANGE: Compacted,
    # The quota, or the disk of the leader. Source: etcd rpctypes/error.go, ErrGRPCNoSpace.
    grpc.StatusCode.RESOURCE_EXHAUSTED: StoreFull,
    grpc.StatusCode.DATA_LOSS: StoreDamaged,  # ErrGRPCCorrupt
    grpc.StatusCode.UNAUTHENTICATED: StoreRefused,
    grpc.StatusCode.PERMISSION_DENIED: StoreRefused,
    grpc.StatusCode.INVALID_ARGUMENT: StoreRefused,
    grpc.StatusCode.FAILED_PRECONDITION: StoreRefused,
    grpc.StatusCode.UNIMPLEMENTED: StoreRefused,
}


class Endpoint:
    """One member of the etcd cluster.

    Attributes:
        address: HOST:PORT.
        kv, leases, watches, auth: Stubs of etcd's services.
        heard: Monotonic time of its last answer.
        streams: Its watches, which end when it is closed.
    """

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self.heard = time.monotonic()
        self.streams: set[WatchCall] = set()
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(address, _CHANNEL_OPTIONS)
        else:
            self.channel = grpc.aio.secure_channel(address, credentials, _CHANNEL_OPTIONS)
        self.kv: rpc_pb2_grpc.KVAsyncStub = rpc_pb2_grpc.KVStub(self.channel)
        self.leases: rpc_pb2_grpc.LeaseAsyncStub = rpc_pb2_grpc.LeaseStub(self.channel)
        self.watches: rpc_pb2_grpc.WatchAsyncStub = rpc_pb2_grpc.WatchStub(self.channel)
        self.auth: rpc_pb2_grpc.AuthAsyncStub = rpc_pb2_grpc.AuthStub(self.channel)

    def is_connected(self) -> bool:
        """Return whether it is connected, and begin to connect if not."""
        state = self.channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    def hear(self) -> None:
        """Record an answer."""
        self.heard = time.monotonic()

    async def close(self) -> None:
        """Cancel its watches and close the channel."""
        for stream in self.streams:
            stream.cancel()
        await self.channel.close()


Call: TypeAlias = Callable[[Endpoint, Metadata], Awaitable[_T]]


class EtcdConnection:
    """Sends calls to an endpoint that answers.

    Args:
        addresses: HOST:PORT of the members of one cluster; the first that works is used.
        options: Options of the connection.

    Raises:
        InvalidConfiguration: The options are wrong.
    """

    def __init__(self, addresses: Sequence[str], options: EtcdOptions) -> None:
        options.check()
        self._options = options
        self._files = options.credential_files()
        self._closing: set[asyncio.Task[None]] = set()
        self._endpoints = self._connect(addresses)
        self._token: str | None = None
        self._authenticating = asyncio.Lock()
        self.closed = False

    async def call(self, call: Call[_T], *, again: bool) -> _T:
        """Return the result of a call, within the timeout of the options.

        Args:
            call: Sends the call to an endpoint.
            again: Whether it may be sent to the next endpoint after the connection broke.

        Raises:
            LeaseNotFound: The lease has ended.
            Compacted: The requested revision is not available.
            StoreUnavailable: No endpoint answers in time.
            StoreRefused: etcd refuses the call.
        """
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._options.request_timeout_s):
                return await self._attempt(call, again=again)
        except TimeoutError:
            endpoint = self._endpoints[0]
            self.leave(endpoint, begun)
            waited = f"no answer within {self._options.request_timeout_s:g} s"
            raise StoreUnavailable(f"etcd at {endpoint.address}: {waited}") from None

    async def connected(self) -> Endpoint:
        """Return the endpoint in use, or the first that connects.

        Raises:
            StoreUnavailable: None connects in time.
        """
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                while True:
                    if self.closed:
                        raise StoreUnavailable("the store is closed")
                    for endpoint in self._endpoints:
                        if endpoint.is_connected():
                            self._use(endpoint)
                            return endpoint
                    await self._renew()
                    await asyncio.sleep(_STEP_S)
        except TimeoutError:
            addresses = ", ".join(endpoint.address for endpoint in self._endpoints)
            raise StoreUnavailable(f"etcd at {addresses}: cannot be connected to") from None

    async def metadata(self, endpoint: Endpoint) -> Metadata:
        """Return the metadata that authenticate a call."""
        if self._options.user is None:
            return ()
        async with self._authenticating:
            if self._token is None:
                self._token = await self._authenticate(endpoint, self._options.user)
        return (("token", self._token),) if self._token else ()

    def forget_token(self) -> None:
        """Authenticate again before the next call."""
        self._token = None

    def turn(self, endpoint: Endpoint) -> None:
        """Prefer the other endpoints to one that failed."""
        if self._endpoints[0] is endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    def leave(self, endpoint: Endpoint, since: float) -> None:
        """Prefer the others, and reconnect if the endpoint has not answered since a moment.

        A connection to a hanging server looks ready until pings have failed; a new one does not
        become ready. Calls over the old one end at once, so that watches move too.
        """
        self.turn(endpoint)
        if endpoint.heard < since and endpoint in self._endpoints:
            place = self._endpoints.index(endpoint)
            self._endpoints[place : place + 1] = self._connect([endpoint.address])
            closing = asyncio.create_task(endpoint.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        self.closed = True
        for endpoint in self._endpoints:
            await endpoint.close()
        await asyncio.gather(*self._closing)

    def _connect(self, addresses: Iterable[str]) -> list[Endpoint]:
        ca, cert, key = self._files
        credentials = (
            None
            if ca is None and cert is None
            else grpc.ssl_channel_credentials(ca, private_key=key, certificate_chain=cert)
        )
        return [Endpoint(address, credentials) for address in addresses]

    async def _renew(self) -> None:
        """Reconnect with new certificates if the files have changed; a channel keeps its own."""
        try:
            files = await asyncio.to_thread(self._options.credential_files)
        except InvalidConfiguration as error:
            raise StoreUnavailable(str(error)) from error
        if files != self._files:
            self._files = files
            before = self._endpoints
            self._endpoints = self._connect([endpoint.address for endpoint in before])
            for endpoint in before:
                await endpoint.close()

    def _use(self, endpoint: Endpoint) -> None:
        while self._endpoints[0] is not endpoint:
            self.turn(self._endpoints[0])

    async def _attempt(self, call: Call[_T], *, again: bool) -> _T:
        may_authenticate = self._options.user is not None
        while True:
            endpoint = await self.connected()
            metadata = await self.metadata(endpoint)
            try:
                with cancellation_first():
                    answer = await call(endpoint, metadata)
            except asyncio.CancelledError:
                self.raise_if_closed(endpoint)
                raise
            except grpc.aio.AioRpcError as error:
                if may_authenticate and is_stale_token(error.details()):
                    may_authenticate = False
                    self.forget_token()
                elif again and error.code() is grpc.StatusCode.UNAVAILABLE:
                    self.turn(endpoint)
                    await asyncio.sleep(_STEP_S)
                else:
                    if error.code() is grpc.StatusCode.UNAVAILABLE:
                        self.turn(endpoint)
                    raise store_error(endpoint, error) from error
            else:
                endpoint.hear()
                return answer

    def raise_if_closed(self, endpoint: Endpoint) -> None:
        """Raise an error unless the task is cancelled: a closed channel also cancels its calls."""
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            raise StoreUnavailable(
                "the store is closed"
                if self.closed
                else f"etcd at {endpoint.address}: the connection was given up"
            ) from None

    async def _authenticate(self, endpoint: Endpoint, user: str) -> str:
        """Return a token; empty if authentication is not enabled."""
        try:
            request = rpc_pb2.AuthenticateRequest(name=user, password=self._options.password())
            answer = await endpoint.auth.Authenticate(request)
        except InvalidConfiguration as error:
            raise StoreRefused(str(error)) from error
        except grpc.aio.AioRpcError as error:
            if _AUTH_NOT_ENABLED in (error.details() or ""):
                return ""
            raise store_error(endpoint, error) from error
        return answer.token


@contextmanager
def cancellation_first() -> Generator[None]:
    """Raise CancelledError for the status of a call if the task was cancelled meanwhile.

    When a connection breaks just as a task is cancelled, grpc.aio may raise the status alone; the
    task would go on and never end.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise


def store_error(endpoint: Endpoint, error: grpc.aio.AioRpcError) -> DiscoveryError:
    """Return the error of the store for an error of gRPC."""
    code = error.code()
    kind = _ERRORS.get(code, StoreUnavailable)
    return kind(f"etcd at {endpoint.address}: {code.name}: {error.details()}")


def is_stale_token(details: str | None) -> bool:
    """Return whether etcd asks for a new authentication."""
    return any(text in (details or "") for text in _STALE_TOKEN)
