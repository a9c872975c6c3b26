"""Calls StorageVersionService at one of several addresses, whichever answers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2_grpc
from google.protobuf.message import Message

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._grpc.calls import is_local
from apidiscovery_client._package import VERSION

# The generated class has but one name at run time; its stubs tell sync and async apart.
Stub: TypeAlias = "storage_version_pb2_grpc.StorageVersionServiceAsyncStub"
Target = grpc.aio.Channel | str | Sequence[str]

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)

_StubOfEither = storage_version_pb2_grpc.StorageVersionServiceStub

# Another replica may do better: this one is down, cut off, or broken.
_ELSEWHERE = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    }
)


class CallFailed(DiscoveryError):
    """A call was answered with an error, or not at all.

    Attributes:
        code: Of gRPC.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code


class ServiceChannels:
    """A channel for each address; calls go to the one that answered last.

    Args:
        target: Addresses as `host:port`, or a channel, which stays open.
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
        self._lent = target if isinstance(target, grpc.aio.Channel) else None
        self._addresses = [] if isinstance(target, grpc.aio.Channel) else _addresses(target)
        self._credentials = credentials
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._stubs: list[Stub] = []

    def open(self) -> None:
        """Make the channels, for the event loop that runs; the first call connects."""
        self._channels = [_channel(a, self._credentials) for a in self._addresses]
        channels = self._channels if self._lent is None else [self._lent]
        self._stubs = [_stub(channel) for channel in channels]

    async def close(self) -> None:
        """Close the channels made here."""
        for channel in self._channels:
            await channel.close()

    async def call(
        self,
        method: Callable[[Stub], "grpc.aio.UnaryUnaryMultiCallable[RequestT, AnswerT]"],
        request: RequestT,
        timeout_s: float,
        failed_once: Callable[[], None] = lambda: None,
    ) -> AnswerT:
        """Return the first answer, trying each address once.

        Args:
            method: Chooses the method.
            request: What is asked; asking twice must do no harm.
            timeout_s: For each address.
            failed_once: Called for each address at which it failed: there it may still be carried
                out, later than at the one that answers.

        Raises:
            CallFailed: With the last error, or the first that is an answer.
        """
        failed = CallFailed(grpc.StatusCode.UNAVAILABLE, "there is no address to call")
        for stub in list(self._stubs):
            try:
                return await self._once(method(stub), request, timeout_s)
            except CallFailed as error:
                failed = error
                failed_once()
                if error.code not in _ELSEWHERE:
                    raise
                self._stubs.append(self._stubs.pop(0))
        raise failed

    async def _once(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[RequestT, AnswerT]",
        request: RequestT,
        timeout_s: float,
    ) -> AnswerT:
        try:
            return await method(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(error.code(), error.details() or "") from None
        except grpc.aio.UsageError as error:  # a channel that was lent is closed
            raise CallFailed(grpc.StatusCode.UNAVAILABLE, str(error)) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancels this task: the channel was closed under the call.
            raise CallFailed(grpc.StatusCode.CANCELLED, "the channel was closed") from None


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
        # No longer than the wait for the next call: it would be in vain.
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 500),
        # Also how long a connection may take: a TLS handshake far away is slow.
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.enable_http_proxy", 0 if is_local(address) else 1),
    ]
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, credentials, options)
