"""Calls of StorageVersionService: at one of several addresses, or blocking over one connection."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar, cast

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2 as messages
from apidiscovery.service.v1 import storage_version_pb2_grpc
from google.protobuf.message import Message

from apidiscovery_client._errors import DiscoveryError, ServerUnreachable
from apidiscovery_client._grpc.calls import GrpcClient, GrpcServer, aio_failing, is_local
from apidiscovery_client._grpc.errors import CallFailedError, discovery_error
from apidiscovery_client._package import VERSION

# At run time there is one generated class; only its stubs have one for asyncio.
Stub: TypeAlias = "storage_version_pb2_grpc.StorageVersionServiceAsyncStub"
Target = grpc.aio.Channel | str | Sequence[str]

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)

_StubOfEither = storage_version_pb2_grpc.StorageVersionServiceStub

# Codes after which another replica is tried: this one is down, cut off, or broken.
_TRY_NEXT = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    }
)


class ServiceChannels:
    """A channel for each address; calls go first to the address that answered last.

    Args:
        target: Addresses as `host:port`, or a channel, which `close` leaves open.
        credentials: None for plain text.
        token: Sent as a bearer token with every call.

    Raises:
        ValueError: There is no address, or an empty one.
    """

    def __init__(
        self,
        target: Target,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
    ) -> None:
        self._channels: list[grpc.aio.Channel] = []
        self._given_channel = target if isinstance(target, grpc.aio.Channel) else None
        self._addresses = [] if isinstance(target, grpc.aio.Channel) else _addresses(target)
        self._credentials = credentials
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._stubs: list[tuple[str, Stub]] = []  # with their addresses

    def open(self) -> None:
        """Create the channels for the running event loop; the first call connects."""
        if self._given_channel is not None:
            self._stubs = [("", _stub(self._given_channel))]
            return
        self._channels = [_channel(a, self._credentials) for a in self._addresses]
        stubs = [_stub(channel) for channel in self._channels]
        self._stubs = list(zip(self._addresses, stubs, strict=True))

    async def close(self) -> None:
        """Close the channels that `open` created."""
        for channel in self._channels:
            await channel.close()

    async def call(
        self,
        method: Callable[[Stub], "grpc.aio.UnaryUnaryMultiCallable[RequestT, AnswerT]"],
        request: RequestT,
        timeout_s: float,
        on_failure: Callable[[], None] = lambda: None,
    ) -> AnswerT:
        """Return the first answer, trying each address once.

        Args:
            method: Returns the method of a stub.
            request: The request; must be idempotent.
            timeout_s: Timeout for each address.
            on_failure: Called after each failure: that server may still carry out the request,
                even after another one has answered.

        Raises:
            ServerUnreachable: No address answered.
            CallRefused: The last answer was an error, or one that another address would not change.
        """
        name = request.DESCRIPTOR.name.removesuffix("Request")
        error: DiscoveryError = ServerUnreachable(f"{name}: there is no address to call", url="")
        for address, stub in list(self._stubs):
            try:
                with aio_failing():
                    return await method(stub)(request, timeout=timeout_s, metadata=self._metadata)
            except CallFailedError as caught:
                failed = caught.failed
            on_failure()
            error = discovery_error(name, address, failed, timeout_s)
            if failed.code not in _TRY_NEXT:
                break
            self._stubs.append(self._stubs.pop(0))
        raise error


def _addresses(target: str | Sequence[str]) -> list[str]:
    addresses = [target] if isinstance(target, str) else list(target)
    if not all(addresses) or not addresses:
        raise ValueError(f"no address of the service is given, at least one is needed: {target!r}")
    return addresses


def _stub(channel: grpc.aio.Channel) -> Stub:
    make = cast("Callable[[grpc.aio.Channel], Stub]", _StubOfEither)
    return make(channel)


def _channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    options = [
        ("grpc.primary_user_agent", f"apidiscovery/{VERSION}"),
        # Not longer than the pause before the next call.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 500),
        # Also the timeout of a connection attempt: a distant TLS handshake is slow.
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.enable_http_proxy", 0 if is_local(address) else 1),
    ]
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, credentials, options)


def wait_request(targets: Sequence[tuple[str, str]]) -> messages.WaitForAgreementRequest:
    """Return the request for names of StorageVersions and versions, empty for any version."""
    return messages.WaitForAgreementRequest(
        targets=[
            messages.AgreementTarget(name=name, encoding_version=version)
            for name, version in targets
        ]
    )


class StorageVersionClient(GrpcClient):
    """Blocking calls of StorageVersionService over one connection."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._stub = storage_version_pb2_grpc.StorageVersionServiceStub(self._channel)

    def list(self, timeout_s: float | None = None) -> messages.ListStorageVersionsResponse:
        """Return all objects and members by name, and the comparison with discovery.

        Args:
            timeout_s: Timeout, if it is shorter than that of the connection.
        """
        request = messages.ListStorageVersionsRequest()
        return self._call(
            "ListStorageVersions", self._stub.ListStorageVersions, request, timeout_s
        )[0]

    def watch(
        self, names: Sequence[str] = (), resource_version: str = ""
    ) -> Iterator[messages.WatchStorageVersionsResponse]:
        """Yield the events of some or all objects until the server ends the watch.

        Args:
            names: Names of StorageVersions; none for all.
            resource_version: Begin after it; empty to begin with the current objects.
        """
        request = messages.WatchStorageVersionsRequest(
            names=names, resource_version=resource_version
        )
        try:
            yield from self._stub.WatchStorageVersions(request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error("WatchStorageVersions", error) from None

    def wait(
        self, targets: Sequence[tuple[str, str]], timeout_s: float | None = None
    ) -> Iterator[messages.WaitForAgreementResponse]:
        """Yield the progress of all targets until they have agreed, or until the timeout.

        Args:
            targets: Names of StorageVersions and the version to agree on, empty for any.
            timeout_s: Timeout; None for none.
        """
        request = wait_request(targets)
        call = self._stub.WaitForAgreement(request, timeout=timeout_s, metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                return
            raise self._error("WaitForAgreement", error) from None
