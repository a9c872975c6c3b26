"""The context of a call over HTTP: the part of grpc's that services use."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn
from urllib.parse import quote

import grpc

from apidiscovery_service.serving.connect.status import CallEnded, Failure, details_of
from apidiscovery_service.serving.http.messages import Headers, Scope


class CallContext:
    """Stands in for `grpc.aio.ServicerContext`.

    Args:
        scope: The request.
        write: Sends a message of a stream.
    """

    def __init__(self, scope: Scope, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._scope = scope
        self._write = write
        self._trailing: Sequence[tuple[str, str | bytes]] = ()
        self._code: grpc.StatusCode | None = None
        self._callbacks: list[Callable[[object], object]] = []
        self._done = False

    def peer(self) -> str:
        """Return the other end of the connection, as grpc writes it."""
        host, port = self._scope.get("client") or ("", 0)
        if "/" in host:
            return f"unix:{quote(host)}"
        return f"ipv6:{quote(f'[{host}]')}:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        """Return the header fields of the request."""
        headers: Headers = self._scope["headers"]
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]

    def set_trailing_metadata(self, trailing: Sequence[tuple[str, str | bytes]]) -> None:
        """Set the metadata with the details of an error; nothing else of it is sent."""
        self._trailing = trailing

    def code(self) -> grpc.StatusCode | None:
        """Return the code with which the call was ended; None before."""
        return self._code

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with a status.

        Raises:
            CallEnded: Always.
        """
        self._code = code
        raise CallEnded(Failure(code, details, details_of(self._trailing)))

    async def write(self, message: bytes) -> None:
        """Send a message of a stream."""
        await self._write(message)

    def done(self) -> bool:
        """Return whether the call has ended, or its caller has gone."""
        return self._done

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        """Call a function when the call has ended, or its caller has gone."""
        self._callbacks.append(callback)

    def finish(self) -> None:
        """Note that the call has ended, or its caller has gone."""
        if not self._done:
            self._done = True
            for callback in self._callbacks:
                callback(self)
