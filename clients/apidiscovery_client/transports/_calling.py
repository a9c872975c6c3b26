"""The blocking form of `_async_calling`, made by `make generate`. DO NOT EDIT."""

from contextlib import AbstractContextManager
from typing import Protocol

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._grpc.calls import Attempts, GrpcServer
from apidiscovery_client._grpc.errors import CallFailedError, Failure
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import (
    Metadata,
    Renewal,
    closed,
    named,
)
from apidiscovery_client.transports._waiting import Read, Waiting


class Calls(Protocol):
    """Makes the calls; both methods raise `CallFailedError`, also once it is closed."""

    def once(
        self, method: str, request: Message, timeout_s: float | None, metadata: Metadata
    ) -> Message:
        """Return the answer of a unary method."""
        ...

    def watch(self, request: Message, metadata: Metadata) -> AbstractContextManager[Read]:
        """Begin a watch; its value returns the next message, and None at the end.

        It opens a new connection, because the earlier one may be dead without a sign.
        """
        ...

    def close(self) -> None:
        """End all calls and close all connections; it may be called again."""
        ...


class Caller:
    """Makes unary calls with credentials, and repeats them where that may help."""

    def __init__(
        self,
        server: GrpcServer,
        service: str,
        calls: Calls,
        waiting: Waiting,
        traffic: Traffic,
    ) -> None:
        self._server = server
        self._service = service
        self._calls = calls
        self._waiting = waiting
        self._traffic = traffic

    def called(self, method: str, request: Message, timeout_s: float | None = None) -> Message:
        """Return the answer of a unary method.

        Raises:
            ServerUnreachable: No answer came.
            CallRefused: The answer was an error.
        """
        attempts, renewal = Attempts(method, self._server, timeout_s), Renewal(self._server)
        while True:
            metadata = self._waiting.metadata(self._server)
            self._traffic.requests += 1
            try:
                return self._calls.once(method, request, attempts.left_s, metadata)
            except CallFailedError as error:
                failed = error.failed
            if renewal.may_help(failed) and self._waiting.renewed(renewal):
                continue
            if self._waiting.is_over_within(self._wait_s(method, attempts, failed)):
                raise closed(self._server.address)

    def _wait_s(self, method: str, attempts: Attempts, failed: Failure) -> float:
        if self._waiting.is_over:
            raise closed(self._server.address)
        try:
            return attempts.wait_s(failed)
        except DiscoveryError as error:
            raise named(error, self._service, method, self._server.address) from None
