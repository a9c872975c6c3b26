"""Both HTTP transports under one blocking interface, for tests of both."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from apidiscovery_client._http.flow import DEFAULT_OPTIONS, HttpOptions
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client._server import Server
from apidiscovery_client.transports.async_http import AsyncHttpTransport
from apidiscovery_client.transports.http import HttpTransport
from waiting import WITHIN_S

KINDS = ("asyncio", "blocking")


class Fetcher(Protocol):
    """A transport, whose calls block."""

    @property
    def traffic(self) -> Traffic: ...

    def fetch(self, held: FetchedSnapshot | None = None) -> FetchedSnapshot: ...

    def close(self) -> None: ...

    def end(self) -> None: ...


class _Blocking:
    def __init__(self, server: Server, options: HttpOptions) -> None:
        self._transport = HttpTransport(server, options)
        self.traffic = self._transport.traffic

    def fetch(self, held: FetchedSnapshot | None = None) -> FetchedSnapshot:
        return self._transport.fetch(held)

    def close(self) -> None:
        self._transport.close()

    def end(self) -> None:
        """Do nothing more."""


class _Asyncio:
    def __init__(self, server: Server, options: HttpOptions) -> None:
        self._runner = asyncio.Runner()
        try:
            self._transport = self._runner.run(self._made(server, options))
        except BaseException:
            self._runner.close()
            raise
        self.traffic = self._transport.traffic

    async def _made(self, server: Server, options: HttpOptions) -> AsyncHttpTransport:
        return AsyncHttpTransport(server, options)

    def fetch(self, held: FetchedSnapshot | None = None) -> FetchedSnapshot:
        return self._run(lambda: self._transport.fetch(held))

    def close(self) -> None:
        self._runner.run(self._transport.close())

    def end(self) -> None:
        self._runner.close()

    def _run(
        self, call: Callable[[], Coroutine[object, object, FetchedSnapshot]]
    ) -> FetchedSnapshot:
        async def alone() -> FetchedSnapshot:
            held = await call()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return held

        return self._runner.run(alone())


@contextmanager
def fetching(
    kind: str,
    server: Server | str,
    options: HttpOptions = DEFAULT_OPTIONS,
    *,
    closes_first: Callable[[], object] = lambda: None,
) -> Generator[Fetcher]:
    """Make a transport of `KINDS`; expect that closing it leaves no socket, task or thread.

    `closes_first` is called before the transport is closed.
    """
    server = Server(url=server, request_timeout_s=WITHIN_S) if isinstance(server, str) else server
    before = client_threads()
    made = _Blocking(server, options) if kind == "blocking" else _Asyncio(server, options)
    try:
        yield made
    finally:
        closes_first()
        made.close()
        made.end()
    gc.collect()
    assert client_sockets(server.proxy_url or server.url) == 0
    assert not client_threads() - before


def client_sockets(url: str) -> int:
    """Return how many sockets of this process are connected, or connecting, to a server."""
    ours = {_inode(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208 - names only
    port = urlsplit(url).port
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[2].split(":")[1], 16) == port and row[9] in ours for row in rows)


def client_threads() -> set[threading.Thread]:
    """Return the threads with names of clients; earlier tests may have left some."""
    kinds = ("apidiscovery-http", "ThreadPool", "asyncio")
    return {thread for thread in threading.enumerate() if thread.name.startswith(kinds)}


def _inode(name: str) -> str:
    try:
        target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - it is no path
    except OSError:
        return ""
    return target.removeprefix("socket:[").removesuffix("]")
