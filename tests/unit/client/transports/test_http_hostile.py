"""Name servers that do not answer, tokens that could leak, and plugins that hang."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from apidiscovery_client._connecting import open_blocking, read_server
from apidiscovery_client._errors import ClientClosed, InvalidConfiguration, ServerUnreachable
from apidiscovery_client._http.request import Credentials
from apidiscovery_client._server import Headers, Server, StaticAccess
from apidiscovery_kubeconfig.kubeconfig import Overrides
from fetching import KINDS, fetching

SECRET = "s3cret"  # noqa: S105 - it is none
OLD = "old"

both = pytest.mark.parametrize("kind", KINDS)


# Names.


class NameServer:
    """Whether a name server was asked, and whether it may end."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.is_over = threading.Event()


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Generator[NameServer]:
    """Return a name server that does not answer until the test is over."""
    known = socket.getaddrinfo
    server = NameServer()

    def getaddrinfo(  # noqa: PLR0913, PLR0917 - as socket has it
        host: str,
        port: int,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as socket has it
        proto: int = 0,
        flags: int = 0,
    ) -> object:
        if flags & socket.AI_NUMERICHOST:
            return known(host, port, family, type, proto, flags)
        server.is_asked.set()
        server.is_over.wait(100)
        raise socket.gaierror(socket.EAI_AGAIN, "no name server")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield server
    server.is_over.set()


@both
def test_a_name_server_counts_towards_the_request_timeout(
    kind: str, name_server: NameServer
) -> None:
    server = Server(url="http://api.example:1", request_timeout_s=0.3)
    begin = time.monotonic()
    with fetching(kind, server, closes_first=name_server.is_over.set) as transport:
        with pytest.raises(ServerUnreachable, match=r"no answer within 0\.3 s"):
            transport.fetch()
        assert time.monotonic() - begin < 20


def test_closing_does_not_wait_for_a_name_server(name_server: NameServer) -> None:
    server = Server(url="http://api.example:1", request_timeout_s=100)
    begin = time.monotonic()
    with fetching("blocking", server, closes_first=name_server.is_over.set) as transport:

        def end() -> None:
            name_server.is_asked.wait(10)
            transport.close()

        close = threading.Thread(target=end)
        close.start()
        with pytest.raises(ClientClosed):
            transport.fetch()
        close.join()
        assert time.monotonic() - begin < 20


@both
def test_a_name_that_is_not_known_is_told(kind: str) -> None:
    with (
        fetching(kind, Server(url="http://does-not-exist.invalid:1")) as transport,
        pytest.raises(ServerUnreachable, match=r"GET http://does-not-exist\.invalid:1/api: "),
    ):
        transport.fetch()


# Credentials.


@both
@pytest.mark.parametrize(
    ("url", "proxy_url"),
    [
        ("http://api.example:1", None),
        ("http://10.0.0.1:1", None),
        ("http://127.0.0.1:1", "http://proxy.example:1"),
        ("http://127.0.0.1:1", "https://proxy.example:1"),
    ],
)
def test_a_token_does_not_leave_this_machine_without_tls(
    kind: str, url: str, proxy_url: str | None
) -> None:
    server = Server(url=url, proxy_url=proxy_url, access=StaticAccess(token=SECRET))
    with (
        fetching(kind, server) as transport,
        pytest.raises(InvalidConfiguration, match="without TLS") as error,
    ):
        transport.fetch()
    assert SECRET not in str(error.value)
    assert transport.traffic.requests == 0


@pytest.mark.parametrize("proxy_url", ["http://proxy.example:1", "https://10.0.0.1"])
def test_a_token_beside_a_proxy_elsewhere_is_told_at_once(proxy_url: str) -> None:
    wish = {"token": SECRET, "proxy_url": proxy_url}
    with pytest.raises(InvalidConfiguration, match=r"^--token: is not sent without TLS"):
        read_server(server="http://127.0.0.1:1", prefix="--", **wish)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - all are texts
    assert read_server(server="https://127.0.0.1:1", **wish).proxy_url  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the same


def test_passwords_are_not_shown() -> None:
    server = Server(
        url="https://api.example",
        proxy_url="http://jane:s3cret@proxy.example:3128",
        access=StaticAccess(token=SECRET),
    )
    assert SECRET not in repr(server)
    assert server.url in repr(server)
    assert SECRET not in repr(Overrides(proxy_url=server.proxy_url or ""))


class Plugin:
    """An access whose plugin gives the same token until it gives another."""

    identity = "plugin"

    def __init__(self) -> None:
        self.token = self.given = OLD
        self.runs = 0

    def headers(self) -> Headers:
        return (("Authorization", f"Bearer {self.token}"),)

    def tls(self) -> None:
        return None

    def refused(self) -> bool:
        self.runs += 1
        before, self.token = self.token, self.given
        return self.token != before


def test_credentials_that_were_refused_for_long_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a plugin gave the same once, it may well give others an hour later."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    plugin = Plugin()
    credentials = Credentials(plugin)
    for _ in range(5):
        assert credentials.renewed(credentials.show()) is None
    assert plugin.runs == 1
    plugin.given = "new"
    now += 60
    renewed = credentials.renewed(credentials.show())
    assert renewed is not None
    assert dict(renewed.headers) == {"Authorization": "Bearer new"}
    assert plugin.runs == 2


def hanging_plugin(folder: Path) -> tuple[Path, Path]:
    """Return a kubeconfig with a plugin that tells its process, and a pipe in which it does."""
    told = folder / "pid"
    os.mkfifo(told)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "sh",
        "args": ["-c", f"echo $$ > {told}; exec sleep 600"],
    }
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": run}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(content))
    return path, told


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_process_does_not_wait_for_a_plugin_after_the_client_is_closed(tmp_path: Path) -> None:
    kubeconfig, told = hanging_plugin(tmp_path)
    code = f"""
import asyncio
from apidiscovery_client._errors import ServerUnreachable
from apidiscovery_client._connecting import open_async

async def main():
    transport = open_async(kubeconfig={str(kubeconfig)!r}, request_timeout_s=5).transport
    try:
        await transport.fetch(None)
    except ServerUnreachable:
        await transport.close()
        print("closed")

asyncio.run(main())
"""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    ) as process:
        pid = int(told.read_text())
        output, _ = process.communicate(timeout=30)
    assert output == b"closed\n"
    assert not runs(pid)


def test_closing_ends_a_plugin_that_a_blocking_request_waits_for(tmp_path: Path) -> None:
    kubeconfig, told = hanging_plugin(tmp_path)
    transport = open_blocking(kubeconfig=str(kubeconfig)).transport
    pids: list[int] = []

    def end() -> None:
        pids.append(int(told.read_text()))
        transport.close()

    close = threading.Thread(target=end)
    close.start()
    with pytest.raises(ClientClosed):
        transport.fetch(None)
    close.join()
    assert not runs(pids[0])
