"""The waiting of a gRPC transport in the calling thread."""

import threading
from collections.abc import Callable
from typing import TypeAlias

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import Metadata, Renewal
from apidiscovery_client.transports._grpc_watching import Patience

Read: TypeAlias = Callable[[], Message | None]


class Waiting:
    """Waits for the end of the transport, for credentials and for messages."""

    def __init__(self) -> None:
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the transport was closed."""
        return self._over.is_set()

    def end(self) -> None:
        """Mark the transport as closed and wake waiting callers."""
        self._over.set()

    def is_over_within(self, wait_s: float) -> bool:
        """Return after that many seconds, or as soon as it is over; whether it is."""
        return self._over.wait(wait_s)

    def metadata(self, server: GrpcServer) -> Metadata:
        """Return the metadata of a call."""
        return server.metadata()

    def renewed(self, renewal: Renewal) -> bool:
        """Return whether there are other credentials."""
        return renewal.try_again()

    def message(self, read: Read, _patience: Patience) -> Message | None:
        """Return the next message, None at the end; `read` itself ends after long silence."""
        return read()
