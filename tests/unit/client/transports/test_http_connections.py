"""TLS, proxies and fetches that end early: certificates are checked, nothing is left behind."""

import asyncio
import contextlib
import gc
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from apidiscovery_client._errors import ClientClosed, ServerUnreachable
from apidiscovery_client._http import reply
from apidiscovery_client._package import VERSION
from apidiscovery_client._server import Headers, Server, StaticAccess
from apidiscovery_client.transports.async_http import AsyncHttpTransport
from apidiscovery_client.transports.http import HttpTransport
from certificates import Authority
from fake_api_server import (
    Answer,
    FakeApiServer,
    Request,
    Respond,
    aggregated,
    server_context,
)
from fetching import KINDS, client_sockets, client_threads, fetching
from proxies import ForwardProxy
from skewed_answers import RELEASES, respond
from waiting import eventually

NEW = respond(RELEASES["1.33"])
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def trusting(ca_file: Path) -> StaticAccess:
    return StaticAccess(context=ssl.create_default_context(cafile=ca_file))


@both
def test_certificate_of_another_name_is_accepted_only_where_that_is_configured(
    kind: str, authority: Authority
) -> None:
    tls = server_context(authority.server(["api.example"]))
    with FakeApiServer(NEW, tls) as server:
        access = trusting(authority.ca_file)
        with (
            fetching(kind, Server(url=server.url, access=access)) as transport,
            pytest.raises(ServerUnreachable, match="certificate is not trusted: IP address"),
        ):
            transport.fetch()
        named = Server(url=server.url, access=access, tls_server_name="api.example")
        with fetching(kind, named) as transport:
            assert transport.fetch().snapshot.group("apps")


@both
def test_unknown_authority_is_not_trusted(kind: str, authority: Authority) -> None:
    tls = server_context(authority.server(["127.0.0.1"]))
    with (
        FakeApiServer(NEW, tls) as server,
        fetching(kind, server.url) as transport,
        pytest.raises(ServerUnreachable, match="the server's certificate is not trusted"),
    ):
        transport.fetch()
    assert server.requests == []


@both
def test_server_without_tls_is_told(kind: str) -> None:
    with FakeApiServer(NEW) as server:
        url = server.url.replace("http:", "https:")
        with (
            fetching(kind, url) as transport,
            pytest.raises(ServerUnreachable, match="the port does not speak TLS"),
        ):
            transport.fetch()


def side_by_side(inner: Respond) -> Respond:
    """Return what answers both requests at the same time, so each has a connection of its own."""
    both_asked = threading.Barrier(2)

    def answer(request: Request) -> Answer:
        both_asked.wait(20)
        return inner(request)

    return answer


def followed_by(answer: Answer, uncalled: Answer, *, is_late: bool) -> Answer:
    """Return an answer that brings another one along, which nobody asked for."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {uncalled.content_type}\r\n"
    end = f"Content-Length: {len(uncalled.body)}\r\n\r\n"
    body = b"".join([answer.body, head.encode(), end.encode(), uncalled.body])
    length = len(answer.body)
    return replace(answer, body=body, length=length, stalls_after=length if is_late else None)


def unread_bytes(url: str) -> list[int]:
    """Return how many bytes each client of a server on this machine has not read yet."""
    port = f"{urlsplit(url).port:04X}"
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    # Clients of an earlier server on the same port may still wait for late packets (TIME_WAIT).
    clients = [row for row in rows if row[2].endswith(f":{port}") and row[3] != "06"]
    return [int(row[4].rpartition(":")[2], 16) for row in clients]


@both
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("secured", [False, True])
def test_what_comes_before_its_request_is_no_answer(
    kind: str, authority: Authority, *, secured: bool, is_late: bool
) -> None:
    """The request is sent over another connection, whose answer is taken."""
    planted = aggregated({"metadata": {"name": "planted"}, "versions": [{"version": "v1"}]})
    tls = server_context(authority.server(["127.0.0.1"])) if secured else None
    answer = side_by_side(lambda r: followed_by(NEW(r), planted, is_late=is_late))
    with FakeApiServer(answer, tls) as server:
        known = Server(url=server.url, access=trusting(authority.ca_file))
        with fetching(kind, known) as transport:
            first = transport.fetch().snapshot
            server.answers = NEW
            server.resume()
            if is_late:
                eventually(lambda: all(unread_bytes(server.url)), "the bytes have arrived", 10)
            for _ in range(2):
                assert transport.fetch().snapshot.groups == first.groups
    assert first.group("apps")


class Rotating:
    """An access whose TLS settings change."""

    def __init__(self, *contexts: ssl.SSLContext) -> None:
        self.identity = "rotating"
        self.contexts = list(contexts)

    def headers(self) -> Headers:
        return ()

    def tls(self) -> ssl.SSLContext:
        return self.contexts[0]

    def refused(self) -> bool:
        return False


@both
def test_other_tls_settings_need_other_connections(kind: str, authority: Authority) -> None:
    contexts = [authority.trusted() for _ in range(2)]
    access = Rotating(*contexts)
    tls = server_context(authority.server(["127.0.0.1"]))
    with FakeApiServer(side_by_side(NEW), tls) as server:
        with fetching(kind, Server(url=server.url, access=access)) as transport:
            held = transport.fetch(transport.fetch())
            assert server.connections <= 2
            access.contexts.pop(0)
            transport.fetch(held)
            assert server.connections >= 3
        assert client_sockets(server.url) == 0


# Proxies.


@both
@pytest.mark.parametrize("proxy_tls", [False, True])
@pytest.mark.parametrize("server_tls", [False, True])
def test_proxy_is_used_with_and_without_tls(
    kind: str, authority: Authority, *, proxy_tls: bool, server_tls: bool
) -> None:
    tls = server_context(authority.server(["127.0.0.1"]))
    with (
        FakeApiServer(side_by_side(NEW), tls if server_tls else None) as server,
        ForwardProxy(tls=tls if proxy_tls else None) as proxy,
    ):
        url = proxy.url.replace("://", "://me:p%40ss@")
        known = Server(url=server.url, access=trusting(authority.ca_file), proxy_url=url)
        with fetching(kind, known) as transport:
            assert transport.fetch().snapshot.group("apps")
        assert client_sockets(proxy.url) == 0
    begin = "CONNECT 127.0.0.1:" if server_tls else f"GET {server.url}/api"
    for request in proxy.requests:
        assert request.target.startswith(begin)
        assert "bWU6cEBzcw==" in request.headers["proxy-authorization"]


@both
def test_proxy_that_refuses_is_told(kind: str) -> None:
    with ForwardProxy(refusal="407 Proxy Authentication Required") as proxy:
        known = Server(url="https://api.example", proxy_url=proxy.url)
        with (
            fetching(kind, known) as transport,
            pytest.raises(ServerUnreachable, match="407"),
        ):
            transport.fetch()
        assert client_sockets(proxy.url) == 0


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("blocking", "HTTP_PROXY"), ("blocking", "http_proxy"), ("asyncio", "ALL_PROXY")],
)
def test_proxy_of_the_environment_is_used_but_not_for_loopback(
    kind: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeApiServer(NEW) as server, ForwardProxy(refusal="500 No") as proxy:
        monkeypatch.setenv(variable, proxy.url)
        with fetching(kind, server.url) as transport:
            assert transport.fetch().snapshot.group("apps")
        assert proxy.requests == []
        with (
            fetching(kind, "http://api.example") as transport,
            pytest.raises(Exception, match="500"),
        ):
            transport.fetch()
        assert len(proxy.requests) == 2
        monkeypatch.setenv("NO_PROXY", ".invalid,127.0.0.1")
        with (
            fetching(kind, "http://host.invalid") as transport,
            pytest.raises(ServerUnreachable),
        ):
            transport.fetch()
    assert len(proxy.requests) == 2


@both
@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "gopher://a", "http://"])
def test_proxy_that_cannot_be_used_is_told(kind: str, url: str) -> None:
    server = Server(url="http://127.0.0.1:1", proxy_url=url)
    with pytest.raises(ServerUnreachable, match="the proxy URL"), fetching(kind, server):
        pass


# Fetches that end early.


@contextlib.contextmanager
def silent_listener() -> Generator[tuple[str, threading.Semaphore]]:
    """Take connections and say nothing, not even in a handshake; count what was sent first."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    heard = threading.Semaphore(0)
    taken: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                taken.append(near)
                near.recv(1)
                heard.release()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"//127.0.0.1:{listening.getsockname()[1]}", heard
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in (listening, *taken):
            one.close()


def wait_for_two(heard: threading.Semaphore) -> None:
    for _ in range(2):
        assert heard.acquire(timeout=10)


@pytest.mark.parametrize("scheme", ["http:", "https:"])
@pytest.mark.parametrize("end", ["cancel", "close", "timeout"])
async def test_asyncio_fetch_ended_in_the_middle_leaves_nothing(scheme: str, end: str) -> None:
    with silent_listener() as (where, heard):
        url = scheme + where
        timeout_s = 1.0 if end == "timeout" else None
        transport = AsyncHttpTransport(Server(url=url, request_timeout_s=timeout_s))
        fetch = asyncio.create_task(transport.fetch(None))
        if end != "timeout":  # which may end it at any point
            await asyncio.to_thread(heard.acquire)
        if end == "cancel":
            fetch.cancel()
        elif end == "close":
            await transport.close()
        problem = {"cancel": asyncio.CancelledError, "close": ClientClosed}.get(
            end, ServerUnreachable
        )
        with pytest.raises(problem):
            await fetch
        await transport.close()
        gc.collect()
        assert client_sockets(url) == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("scheme", ["http:", "https:"])
@pytest.mark.parametrize("end", ["close", "timeout"])
def test_blocking_fetch_ended_in_the_middle_leaves_nothing(scheme: str, end: str) -> None:
    before = client_threads()
    with silent_listener() as (where, heard):
        url = scheme + where
        timeout_s = 1.0 if end == "timeout" else None
        transport = HttpTransport(Server(url=url, request_timeout_s=timeout_s))
        problems: list[Exception] = []

        def fetch() -> None:
            try:
                transport.fetch(None)
            except (ClientClosed, ServerUnreachable) as problem:
                problems.append(problem)

        thread = threading.Thread(target=fetch)
        thread.start()
        if end == "close":
            wait_for_two(heard)
            transport.close()
        thread.join(10)
        transport.close()
        gc.collect()
        assert client_sockets(url) == 0
    assert not client_threads() - before
    assert [type(p) for p in problems] == [ClientClosed if end == "close" else ServerUnreachable]


def test_blocking_transport_can_be_closed_while_it_waits_to_ask_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reply, "MAX_RETRY_AFTER_S", 100)
    busy = Answer(b"", "text/plain", 503, {"Retry-After": "100"})
    asked = threading.Semaphore(0)

    def answer(_: object) -> Answer:
        asked.release()
        return busy

    with FakeApiServer(answer) as server:
        transport = HttpTransport(Server(url=server.url))
        thread = threading.Thread(target=lambda: _ignored(transport))
        thread.start()
        wait_for_two(asked)
        transport.close()
        thread.join(20)
        assert not thread.is_alive()
        assert client_sockets(server.url) == 0


def _ignored(transport: HttpTransport) -> None:
    with contextlib.suppress(ClientClosed, ServerUnreachable):
        transport.fetch(None)


@both
def test_servers_do_not_push(kind: str) -> None:
    async def listen() -> None:
        made = HttpTransport if kind == "blocking" else AsyncHttpTransport
        transport = made(Server(url="http://127.0.0.1:1"))
        assert not transport.can_listen
        with pytest.raises(NotImplementedError):
            transport.listen(None)

    asyncio.run(listen())


def test_blocking_transport_imports_nothing_that_is_slow() -> None:
    slow = (
        *("asyncio", "httpx2", "ssl", "http.client", "email", "importlib.metadata"),
        *("google.protobuf", "grpc", "yaml", "logging", "concurrent.futures"),
    )
    with FakeApiServer(NEW) as server:
        code = (
            "import sys\n"
            "from apidiscovery_client._http.flow import HttpOptions\n"
            "from apidiscovery_client._server import Server\n"
            "from apidiscovery_client.transports.http import HttpTransport\n"
            f"made = HttpTransport(Server(url={server.url!r}), HttpOptions(protobuf=False))\n"
            "made.fetch(made.fetch(None))\n"
            "made.close()\n"
            f"print(sorted({set(slow)!r} & sys.modules.keys()))\n"
        )
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert done.stdout == "[]\n"


def test_version_is_that_of_the_package() -> None:
    assert version("apidiscovery") == VERSION
