"""Shared by the gRPC transports of all stubs, blocking and asynchronous."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import grpc

from apidiscovery_client._errors import DiscoveryError, ServerUnreachable, UnexpectedDocument
from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._grpc.errors import CallRefused, Failure
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client._reading import UnreadableError
from apidiscovery_client._server import StaticAccess
from apidiscovery_client.transports._grpc_answers import Message

R = TypeVar("R")

GET, LIST = "GetDiscovery", "ListSources"
Metadata: TypeAlias = tuple[tuple[str, str], ...]
Stub: TypeAlias = Any  # of any service, with a method for each of the service

SOURCES_TIMEOUT_S = 5.0  # they only explain why versions are stale


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Stands for a message that cannot be decoded.

    A decoder must not raise: grpcio logs the error and continues.
    """

    problem: str


def decoded(data: bytes, read: Callable[[bytes], Message]) -> Message:
    """Return the message, or an `Undecodable`."""
    try:
        return read(data)
    except Exception as error:  # noqa: BLE001 - betterproto documents none
        return Undecodable(f"its {len(data)} bytes cannot be decoded: {error}")


def read_message(
    address: str, name: str, read: Callable[[Message, datetime], R], message: Message
) -> R:
    """Return the content of a message that arrives now.

    Raises:
        UnexpectedDocument: It cannot be decoded, has no result, or a group without names.
    """
    if isinstance(message, Undecodable):
        raise UnexpectedDocument(message.problem, url=address, method=name)
    try:
        return read(message, datetime.now(UTC))
    except UnreadableError as error:
        raise UnexpectedDocument(str(error), url=address, method=name) from None


class CountingChannel:
    """A channel of grpcio, sync or async, that counts the bytes of messages it receives.

    It has the methods that generated stubs use.
    """

    def __init__(self, channel: Any, traffic: Traffic) -> None:  # noqa: ANN401 - two classes have nothing in common
        self._channel = channel
        self._traffic = traffic

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Message], bytes],
        response_deserializer: Callable[[bytes], Message],
        **options: object,
    ) -> Callable[..., Message]:
        """Return a callable for unary calls."""
        reading = self._counted(response_deserializer)
        made: Callable[..., Message]
        made = self._channel.unary_unary(method, request_serializer, reading, **options)
        return made

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Message], bytes],
        response_deserializer: Callable[[bytes], Message],
        **options: object,
    ) -> Callable[..., Message]:
        """Return a callable for streaming calls."""
        reading = self._counted(response_deserializer)
        made: Callable[..., Message]
        made = self._channel.unary_stream(method, request_serializer, reading, **options)
        return made

    def _counted(self, read: Callable[[bytes], Message]) -> Callable[[bytes], Message]:
        def counting(data: bytes) -> Message:
            self._traffic.body_bytes += len(data)
            return decoded(data, read)

        return counting


class Renewal:
    """Renews refused credentials: once, until the server accepts them.

    `try_again` may block where the access does.
    """

    def __init__(self, server: GrpcServer) -> None:
        self._access = server.access
        self._tried = False

    def may_help(self, failed: Failure) -> bool:
        """Whether other credentials may help."""
        is_refused = failed.code == grpc.StatusCode.UNAUTHENTICATED
        return is_refused and self._access is not None and not self._tried

    def try_again(self) -> bool:
        """Return whether there are other credentials."""
        self._tried = True
        return self._access is not None and self._access.refused()

    def taken(self) -> None:
        """Record that the credentials were accepted."""
        self._tried = False


def may_block(server: GrpcServer) -> bool:
    """Whether credentials are read from files or programs."""
    return server.access is not None and not isinstance(server.access, StaticAccess)


def named(error: DiscoveryError, service: str, method: str, address: str) -> DiscoveryError:
    """Return the error; for an unimplemented method its text names the method."""
    if not isinstance(error, CallRefused) or error.code != grpc.StatusCode.UNIMPLEMENTED:
        return error
    said = f" ({error.message})" if error.message else ""
    text = f"the server {address} does not have the method {service}/{method}{said}"
    return CallRefused(error.code, f"{text}; it may be older, or no server of discovery over gRPC")


def closed(address: str) -> ServerUnreachable:
    """Return the error for a transport that was closed."""
    return ServerUnreachable(f"{address}: the transport is closed", url=address)
