"""Nobody but the front reaches what is behind it, and no request gets another one's identity.

What was tried: hold every connection that the server behind the front takes, so that it accepts no
more; queue requests from known ends and reset them; wait until the front is given the same ends for
an administrator; let go. The stale requests were read under the administrator's name.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from apidiscovery_service.access import Caller
from apidiscovery_service.access.authenticator import Peers, connection_name
from apidiscovery_service.serving.front import Certificates, Front, FrontMetrics
from apidiscovery_service.serving.http import HttpServer
from apidiscovery_service.serving.http.messages import Receive, Scope, Send
from certificates import Authority
from server import Server, serving
from waiting import until

from tools import find_tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

LISTENING = "0A"  # Linux include/net/tcp_states.h
NOBODY = 65534
NO_CONNECTION = 7  # of curl


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with TLS on both ports, and callers who are known by certificate."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "ca")
    pair = authority.server(["127.0.0.1"])
    with serving(
        folder,
        *("--tls-cert-file", str(pair.cert_file), "--tls-private-key-file", str(pair.key_file)),
        *("--client-ca-file", str(authority.ca_file), "--store", "memory"),
    ) as server:
        yield server


def inodes(process: int) -> set[str]:
    """Return the numbers of a process's sockets."""
    links: list[str] = []
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.append(str(link.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def listening_ports(process: int) -> set[int]:
    own, ports = inodes(process), set[int]()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{family}").read_text().splitlines()[1:]:
            _, local, _, state, *others = line.split()
            if state == LISTENING and others[5] in own:
                ports.add(int(local.rpartition(":")[2], 16))
    return ports


def listening_paths(process: int) -> list[Path]:
    """Return the paths of the Unix sockets that a process listens on."""
    own = inodes(process)
    fields = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    accepts = "00010000"  # __SO_ACCEPTCON
    return [Path(f[7]) for f in fields if f[6] in own and f[3] == accepts]


def test_no_port_is_listened_on_behind_the_front(secured: Server) -> None:
    announced = {int(address.rpartition(":")[2]) for address in (secured.http, secured.grpc)}
    assert listening_ports(secured.process.pid) == announced


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect(secured: Server) -> None:
    """The folder keeps them out; this user connects, and is nobody to the server.

    Last test of this server: it ends it.
    """
    paths = listening_paths(secured.process.pid)
    assert len(paths) == 2
    for path in paths:
        command = [find_tool("curl"), "-sS", "--http2-prior-knowledge", "--unix-socket", str(path)]
        own, other = (
            subprocess.run(  # noqa: S603
                [*command, "http://a/apis"],
                user=user,
                group=user,
                extra_groups=[],
                capture_output=True,
                check=False,
                timeout=30,
            )
            for user in (os.geteuid(), NOBODY)
        )
        assert own.returncode != NO_CONNECTION, own.stderr
        assert other.returncode == NO_CONNECTION
    folder = paths[0].parent
    assert folder.stat().st_mode & 0o777 == 0o700
    secured.stop()
    assert [path for path in paths if path.parent.exists()] == []


@dataclass
class Reading:
    """A front, and a server behind it that begins to accept when it is told to."""

    authority: Authority
    front: Front
    peers: Peers
    accepting: asyncio.Event = field(default_factory=asyncio.Event)
    read: dict[str, Caller | str] = field(default_factory=dict[str, Caller | str])

    async def application(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Record the caller of each path."""
        end, _ = scope["client"]
        peer = self.peers.get(connection_name(end))
        self.read[scope["path"]] = (peer.caller or "nobody") if peer else "not of the front"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(self, path: str, user: str = "") -> asyncio.StreamWriter:
        """Send a request, and wait until the front has carried it on."""
        context = self.authority.trusted(self.authority.client(user, []) if user else None)
        there = len(self.peers)
        _, writer = await asyncio.open_connection("127.0.0.1", self.front.port, ssl=context)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
        await until(lambda: len(self.peers) == there + 1, "it is carried on")
        return writer


@asynccontextmanager
async def reading(folder: Path) -> AsyncGenerator[Reading]:
    authority = Authority(folder / "ca")
    certificates = Certificates(*authority.server(["127.0.0.1"]), authority.ca_file, FrontMetrics())
    peers = Peers()
    front = Front("http", "127.0.0.1", 0, certificates=certificates, peers=peers)
    made = Reading(authority, front, peers)
    server = HttpServer(made.application, front.server_path)

    async def serve_late() -> None:
        await made.accepting.wait()
        await server.serve()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(front.serve())
        tasks.create_task(serve_late())
        try:
            yield made
        finally:
            made.accepting.set()
            await asyncio.gather(server.stop(0.2), front.stop(0.2))


async def test_a_request_that_is_read_late_is_nobody_s(tmp_path: Path) -> None:
    """Its connection has ended; whoever connects meanwhile has another name."""
    async with reading(tmp_path) as served:
        for number in range(20):
            stale = await served.ask(f"/stale-{number}")
            stale.transport.abort()
            await until(lambda: not len(served.peers), "no connection is known")
        kept = [await served.ask("/admin", "ada"), await served.ask("/no-one")]
        served.accepting.set()
        await until(lambda: {"/admin", "/no-one"} <= served.read.keys(), "both are read")
        assert served.read.pop("/admin") == Caller("ada")
        assert served.read.pop("/no-one") == "nobody"
        assert set(served.read.values()) <= {"not of the front"}
        for writer in kept:
            writer.transport.abort()


async def test_who_connects_beside_the_front_is_nobody(tmp_path: Path) -> None:
    """Names of connections are not left in the folder, where this user could read them."""
    async with reading(tmp_path) as served:
        served.accepting.set()
        writer = await served.ask("/admin", "ada")
        (left,) = served.front.server_path.parent.iterdir()
        assert left == served.front.server_path
        with socket.socket(socket.AF_UNIX) as own:
            own.setblocking(False)  # noqa: FBT003 - its only argument
            own.connect(str(served.front.server_path))
            own.sendall(b"GET /own HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: "/own" in served.read, "it is read")
        assert served.read["/own"] == "not of the front"
        writer.transport.abort()
