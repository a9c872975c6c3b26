"""Parts of fake gRPC services: how they are served, and how their calls end."""

from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn, Self

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    status_pb2,
)

_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))


@dataclass(frozen=True, slots=True)
class End:
    """The status with which a call ends, and its details."""

    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    message: str = "the server is stopping"
    details: tuple[Message, ...] = ()

    @property
    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """The details as google.rpc.Status, if there are any."""
        if not self.details:
            return ()
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in self.details:
            status.details.add().Pack(detail)
        return (("grpc-status-details-bin", status.SerializeToString()),)

    def abort(self, context: grpc.ServicerContext) -> NoReturn:
        """End a call of a server with threads."""
        context.set_trailing_metadata(self.trailers)
        context.abort(self.code, self.message)
        raise AssertionError  # abort has raised


class ThreadedServer:
    """A server with threads; use it as a context manager.

    Attributes:
        server: Takes the fake services.
        address: HOST:PORT.
    """

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.server = grpc.server(ThreadPoolExecutor(8), options=_OPTIONS)
        if credentials is None:
            port = self.server.add_insecure_port("127.0.0.1:0")
        else:
            port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(0).wait()


@asynccontextmanager
async def aio_server(
    add: Callable[[grpc.aio.Server], object], address: str = "127.0.0.1:0", grace_s: float = 0.0
) -> AsyncGenerator[str]:
    """Serve the services that `add` adds to a server; yield HOST:PORT."""
    server = grpc.aio.server(options=_OPTIONS)
    add(server)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_s)
