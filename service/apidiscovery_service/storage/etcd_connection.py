"""Calls to etcd: channels to its endpoints, failover, TLS, authentication, errors in our words.

`aetcd` gives the messages and stubs. Its client is not used: it knows neither TLS nor a second
endpoint, never renews its token, and its watches end with the connection.
"""

import asyncio
import importlib
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import grpc
import grpc.aio

from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration
from apidiscovery_service.storage import (
    Compacted,
    StoreDamaged,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)

Metadata: TypeAlias = tuple[tuple[str, str], ...]

_T = TypeVar("_T")

# How often channels are asked whether they are connected, while none is.
_STEP_S = 0.02

_CHANNEL_OPTIONS = (
    # A listing or a watch that catches up may be larger than gRPC's 4 MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Back within a second after etcd is; gRPC's default waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 5000),  # in fact: how long connecting may take
    # Notices within ten seconds that a peer is gone. etcd refuses more than one ping in five
    # seconds (--grpc-keepalive-min-time). Pings have 60 s unless told, and the greater counts.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 4000),
    ("grpc.http2.max_pings_without_data", 0),
    # Two stores of one process do not share connections and their back-off.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

# etcd's names for a token that it no longer takes, or for none when authentication was off a while
# ago; the call was not carried out. Source: etcd etcdserver/api/v3rpc/rpctypes/error.go,
# ErrGRPCInvalidAuthToken, ErrGRPCAuthOldRevision, ErrGRPCUserEmpty.
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old", "user name is empty")

_AUTH_NOT_ENABLED = "authentication is not enabled"


class LeaseNotFound(DiscoveryError):
    """A lease has ended."""


# What a code means; all others are worth a retry.
_ERRORS: dict[grpc.StatusCode, type[DiscoveryError]] = {
    grpc.StatusCode.NOT_FOUND: LeaseNotFound,
    grpc.StatusCode.OUT_OF_RANGE: Compacted,
    # Its quota, or the disk of its leader. Source: etcd rpctypes/error.go, ErrGRPCNoSpace.
    grpc.StatusCode.RESOURCE_EXHAUSTED: StoreFull,
    grpc.StatusCode.DATA_LOSS: StoreDamaged,  # ErrGRPCCorrupt
    grpc.StatusCode.UNAUTHENTICATED: StoreRefused,
    grpc.StatusCode.PERMISSION_DENIED: StoreRefused,
    grpc.StatusCode.INVALID_ARGUMENT: StoreRefused,
    grpc.StatusCode.FAILED_PRECONDITION: StoreRefused,
    grpc.StatusCode.UNIMPLEMENTED: StoreRefused,
}


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """How etcd is reached; TLS is used when a CA or a client certificate is given.

    Attributes:
        ca_file: PEM of the authorities that may have signed etcd's certificate; None for those of
            gRPC.
        cert_file: PEM of the client's certificate, for etcd's `--client-cert-auth`.
        key_file: PEM of its key.
        user: For etcd's own authentication.
        password_file: What is in it, without white space around; read at each authentication.
        connect_timeout_s: How long a call waits for a connection.
        request_timeout_s: How long a call may take with that.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    connect_timeout_s: float = 2.0
    request_timeout_s: float = 5.0

    def check(self) -> None:
        """Look for what is missing or cannot be read.

        Raises:
            InvalidConfiguration: Names it.
        """
        if (self.cert_file is None) != (self.key_file is None):
            raise InvalidConfiguration("etcd: a client certificate needs its key, and the reverse")
        if (self.user is None) != (self.password_file is None):
            raise InvalidConfiguration("etcd: a user needs a password file, and the reverse")
        for path in (self.ca_file, self.cert_file, self.key_file, self.password_file):
            if path is not None:
                _read(path)
        self._check_pem()

    def _check_pem(self) -> None:
        """Look into the files, of which gRPC would only say that it cannot connect."""
        # Whom the machine trusts is of no interest here, and takes long to read.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca_file is not None:
                context.load_verify_locations(self.ca_file)
            if self.cert_file is not None:
                # An encrypted key must not ask at the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password="")
        except ssl.SSLError as error:
            files = ", ".join(str(file) for file in (self.ca_file, self.cert_file) if file)
            raise InvalidConfiguration(
                f"etcd: {files}: not a usable certificate and key in PEM: {error.reason}"
            ) from error

    def credential_files(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return what the files for TLS have now: CA, certificate, key.

        Raises:
            InvalidConfiguration: One cannot be read.
        """
        ca, cert, key = (
            None if path is None else _read(path)
            for path in (self.ca_file, self.cert_file, self.key_file)
        )
        return ca, cert, key

    def password(self) -> str:
        """Return the password as the file has it now."""
        return _read(self.password_file).decode().strip() if self.password_file else ""


class Endpoint:
    """One server of etcd.

    Attributes:
        address: HOST:PORT.
        kv, leases, watches, auth: Stubs of etcd's services.
        heard: When it said anything last, on the monotonic clock.
        streams: The watches over it, which end when it is given up.
    """

    def __init__(self, address: str, rpc: Any, credentials: grpc.ChannelCredentials | None) -> None:  # noqa: ANN401 - the stubs have no types
        self.address = address
        self.heard = time.monotonic()
        self.streams: set[Any] = set()
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(address, _CHANNEL_OPTIONS)
        else:
            self.channel = grpc.aio.secure_channel(address, credentials, _CHANNEL_OPTIONS)
        self.kv: Any = rpc.KVStub(self.channel)
        self.leases: Any = rpc.LeaseStub(self.channel)
        self.watches: Any = rpc.WatchStub(self.channel)
        self.auth: Any = rpc.AuthStub(self.channel)

    def is_connected(self) -> bool:
        """Tell, and begin to connect when it is not."""
        state = self.channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    def hear(self) -> None:
        """Note that it has said something."""
        self.heard = time.monotonic()

    async def close(self) -> None:
        """End what goes on over it."""
        for stream in self.streams:
            stream.cancel()
        await self.channel.close()


Call: TypeAlias = Callable[[Endpoint, Metadata], Awaitable[_T]]


class EtcdConnection:
    """Sends calls to whichever endpoint answers.

    Args:
        addresses: HOST:PORT of servers of one etcd; the first that works is stayed with.
        options: How they are reached.

    Raises:
        InvalidConfiguration: The options are wrong, or `aetcd` is not installed.
    """

    def __init__(self, addresses: Sequence[str], options: EtcdOptions) -> None:
        options.check()
        self.rpc = load_rpc()
        self._options = options
        self._files = options.credential_files()
        self._closing: set[asyncio.Task[None]] = set()
        self._endpoints = self._connect(addresses)
        self._token: str | None = None
        self._authenticating = asyncio.Lock()
        self.closed = False

    async def call(self, call: Call[_T], *, again: bool) -> _T:
        """Return what a call returns, within the time of the options.

        Args:
            call: Sends it to an endpoint.
            again: Whether it may be sent to the next endpoint after it broke off half-way.

        Raises:
            LeaseNotFound: It has ended.
            Compacted: What is to be read is forgotten.
            StoreUnavailable: No endpoint answers in time.
            StoreRefused: etcd does not let us.
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
        """Return the endpoint in use, or the first that can be connected to.

        Raises:
            StoreUnavailable: None in time.
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
        """Return what a call must carry to be let in."""
        if self._options.user is None:
            return ()
        async with self._authenticating:
            if self._token is None:
                self._token = await self._authenticate(endpoint)
        return (("token", self._token),) if self._token else ()

    def forget_token(self) -> None:
        """Authenticate anew before the next call."""
        self._token = None

    def turn(self, endpoint: Endpoint) -> None:
        """Prefer the other endpoints to one that failed."""
        if self._endpoints[0] is endpoint:
            self._endpoints.append(self._endpoints.pop(0))

    def leave(self, endpoint: Endpoint, since: float) -> None:
        """Prefer the others, and connect anew if nothing at all has been heard since a moment.

        A connection to a server that hangs looks ready until pings have failed; a new one does not
        become so. What goes on over the old one ends at once: watches move as calls do.
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
        return [Endpoint(address, self.rpc, credentials) for address in addresses]

    async def _renew(self) -> None:
        """Begin anew with certificates that were exchanged; a channel keeps those it has."""
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
                    raise told(endpoint, error) from error
            else:
                endpoint.hear()
                return answer

    def raise_if_closed(self, endpoint: Endpoint) -> None:
        """A closed channel cancels its calls; that must not look like the end of our task."""
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            raise StoreUnavailable(
                "the store is closed"
                if self.closed
                else f"etcd at {endpoint.address}: the connection was given up"
            ) from None

    async def _authenticate(self, endpoint: Endpoint) -> str:
        """Return a token; empty when etcd wants none."""
        try:
            request = self.rpc.AuthenticateRequest(
                name=self._options.user, password=self._options.password()
            )
            answer = await endpoint.auth.Authenticate(request)
        except InvalidConfiguration as error:
            raise StoreRefused(str(error)) from error
        except grpc.aio.AioRpcError as error:
            if _AUTH_NOT_ENABLED in (error.details() or ""):
                return ""
            raise told(endpoint, error) from error
        token: str = answer.token
        return token


def told(endpoint: Endpoint, error: grpc.aio.AioRpcError) -> DiscoveryError:
    """Return what to raise for an error of a call."""
    code = error.code()
    kind = _ERRORS.get(code, StoreUnavailable)
    return kind(f"etcd at {endpoint.address}: {code.name}: {error.details()}")


def is_stale_token(details: str | None) -> bool:
    """Tell whether etcd wants us to authenticate anew."""
    return any(text in (details or "") for text in _STALE_TOKEN)


def load_rpc() -> Any:  # noqa: ANN401 - generated code without types
    """Return etcd's messages and stubs.

    Raises:
        InvalidConfiguration: The package that has them is not installed.
    """
    try:
        return importlib.import_module("aetcd.rpc")
    except ModuleNotFoundError as error:
        raise InvalidConfiguration(
            "a store in etcd needs the package aetcd: pip install 'apidiscovery[etcd]'"
        ) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidConfiguration(f"etcd: {path}: cannot be read: {error.strerror}") from error
