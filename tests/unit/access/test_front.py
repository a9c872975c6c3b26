"""The TLS front: bytes in both directions, bounded buffers, limits, and certificates."""

import asyncio
import contextlib
import hashlib
import ipaddress
import shutil
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog
from apidiscovery_service.access.authenticator import Peers
from apidiscovery_service.access.limits import CallerLimits
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.front import Certificates, Front, FrontMetrics, follow
from certificates import Authority, KeyPair
from waiting import WITHIN_S, until

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

MANY = 8 * 1024 * 1024


@dataclass
class Fronted:
    authority: Authority
    pair: KeyPair
    certificates: Certificates
    peers: Peers
    front: Front
    metrics: FrontMetrics
    host: str

    async def connect(self, client: KeyPair | None = None) -> Streams:
        return await asyncio.open_connection(
            self.host, self.front.port, ssl=self.authority.trusted(client), limit=MANY
        )

    async def until_open(self, count: int) -> None:
        await until(lambda: self.metrics.open.get("test", 0) == count, f"{count} connections")


@asynccontextmanager
async def fronted(
    folder: Path,
    handler: Handler,
    *,
    limits: CallerLimits | None = None,
    host: str = "127.0.0.1",
    plain: bool = False,
) -> AsyncGenerator[Fronted]:
    """Put the front before a server that treats its connections as `handler` does."""
    authority = Authority(folder / "ca")
    issued = authority.server([host])
    pair = KeyPair(folder / "server.crt", folder / "server.key")
    for source, target in zip(issued, pair, strict=True):
        shutil.copy(source, target)
    metrics, peers = FrontMetrics(), Peers()
    certificates = Certificates(*pair, authority.ca_file, metrics)
    front = Front(
        "test",
        host,
        0,
        certificates=None if plain else certificates,
        peers=peers,
        limits=limits or CallerLimits(),
        metrics=metrics,
    )
    backend = await asyncio.start_unix_server(handler, front.server_path)
    serving = asyncio.create_task(front.serve())
    following = asyncio.create_task(follow(certificates))
    try:
        yield Fronted(authority, pair, certificates, peers, front, metrics, host)
    finally:
        following.cancel()
        await front.stop(0)
        await serving
        backend.close()
        await backend.wait_closed()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Fronted]:
    """Return a front with TLS before a server that sends back what it receives."""
    async with fronted(tmp_path, echo) as started:
        yield started


async def closed(reader: asyncio.StreamReader) -> bool:
    """Say whether the other side has ended the connection, in one way or another."""
    async with asyncio.timeout(WITHIN_S):
        try:
            return await reader.read(1) == b""
        except (ConnectionError, ssl.SSLError):
            return True


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


async def test_every_byte_arrives_in_both_directions(served: Fronted) -> None:
    data = bytes(range(256)) * (MANY // 256)
    reader, writer = await served.connect()

    async def send() -> None:
        for start in range(0, len(data), 100_003):
            writer.write(data[start : start + 100_003])
            await writer.drain()

    async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(send())
        back = await reader.readexactly(len(data))
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest()
    await close(writer)
    await served.until_open(0)
    assert len(served.peers) == 0


async def test_the_last_bytes_of_a_server_arrive(tmp_path: Path) -> None:
    async def speak(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * MANY)
        writer.close()

    async with fronted(tmp_path, speak) as served:
        reader, writer = await served.connect()
        writer.write(b"x")
        async with asyncio.timeout(WITHIN_S):
            assert len(await reader.read()) == MANY
        await close(writer)


async def test_a_server_learns_that_a_client_has_gone(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        ended.set()
        writer.close()

    async with fronted(tmp_path, wait) as served:
        reader, writer = await served.connect()
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.transport.abort()
        async with asyncio.timeout(WITHIN_S):
            await ended.wait()
        await served.until_open(0)


@pytest.mark.parametrize("reads", ["client", "server"])
async def test_a_side_that_does_not_read_stops_the_other_one(tmp_path: Path, reads: str) -> None:
    """The bytes in between are bounded."""
    stop, sent = asyncio.Event(), [0]

    async def pour(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(0.7):
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
                    sent[0] += 65536
        stop.set()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reads == "client":
            await pour(writer)
        await stop.wait()
        writer.transport.abort()

    async with fronted(tmp_path, serve) as served:
        # A reader with a small limit pauses its transport.
        _, writer = await asyncio.open_connection(
            served.host, served.front.port, ssl=served.authority.trusted(), limit=1024
        )
        writer.write(b"x")
        if reads == "server":
            await pour(writer)
        await stop.wait()
        # The buffers of four sockets, which the kernel may let grow to some megabytes each.
        assert 0 < sent[0] < 40 * 1024 * 1024
        writer.transport.abort()


async def test_both_protocols_are_offered(served: Fronted) -> None:
    for offered, chosen in (
        (["h2", "http/1.1"], "h2"),
        (["http/1.1"], "http/1.1"),
        ([], None),
    ):
        context = served.authority.trusted()
        if offered:
            context.set_alpn_protocols(offered)
        _, writer = await asyncio.open_connection(served.host, served.front.port, ssl=context)
        tls = writer.get_extra_info("ssl_object")
        assert tls.selected_alpn_protocol() == chosen
        await close(writer)


async def test_old_versions_of_tls_are_refused(served: Fronted) -> None:
    context = served.authority.trusted()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.deprecated_call():
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(served.host, served.front.port, ssl=context)


async def test_ipv6(tmp_path: Path) -> None:
    async with fronted(tmp_path, echo, host="::1") as served:
        reader, writer = await served.connect()
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        (peer,) = served.peers
        assert ipaddress.ip_address(peer.address).is_loopback
        await close(writer)


async def test_a_handshake_that_takes_too_long_is_cut(tmp_path: Path) -> None:
    async with fronted(tmp_path, echo, limits=CallerLimits(handshake_s=0.2)) as served:
        started = time.monotonic()
        reader, writer = await asyncio.open_connection(served.host, served.front.port)
        assert await closed(reader)
        assert 0.1 < time.monotonic() - started < CallerLimits().handshake_s
        assert served.metrics.cut == {("test", "handshake"): 1}
        await served.until_open(0)
        await close(writer)


async def test_a_request_without_tls_gets_an_answer_in_plain_http(served: Fronted) -> None:
    reader, writer = await asyncio.open_connection(served.host, served.front.port)
    writer.write(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), WITHIN_S)
    writer.close()
    assert answer.endswith(b"\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
    assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")
    await served.until_open(0)
    assert served.metrics.cut == {("test", "handshake"): 1}


async def test_an_idle_connection_is_cut_and_one_in_use_is_not(tmp_path: Path) -> None:
    async with fronted(tmp_path, echo, limits=CallerLimits(idle_s=2.0)) as served:
        idle, idle_writer = await served.connect()
        used, used_writer = await served.connect()
        cut = asyncio.create_task(closed(idle))
        for _ in range(10):
            await asyncio.sleep(0.3)
            used_writer.write(b"x")
            assert await used.readexactly(1) == b"x"
        assert await cut
        assert served.metrics.cut == {("test", "idle"): 1}
        for writer in (idle_writer, used_writer):
            await close(writer)


@pytest.mark.parametrize(
    ("limits", "reason", "taken"),
    [
        (CallerLimits(address_connections=2), "address", 2),
        (CallerLimits(connections=2), "total", 2),
        (CallerLimits(connections_per_second=0.01), "rate", 1),
    ],
)
async def test_too_many_connections_are_refused(
    tmp_path: Path, limits: CallerLimits, reason: str, taken: int
) -> None:
    async with fronted(tmp_path, echo, limits=limits) as served:
        writers = [(await served.connect())[1] for _ in range(taken)]
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await served.connect()
        assert served.metrics.cut == {("test", reason): 1}
        await close(writers.pop())
        await served.until_open(taken - 1)
        if reason != "rate":
            writers.append((await served.connect())[1])
        for writer in writers:
            await close(writer)


async def test_without_a_server_behind_a_connection_ends(served: Fronted) -> None:
    served.front.server_path.unlink()
    reader, writer = await served.connect()
    writer.write(b"x")
    assert await closed(reader)
    await served.until_open(0)
    assert len(served.peers) == 0
    await close(writer)


async def test_a_front_without_certificates_does_the_same_without_tls(tmp_path: Path) -> None:
    """It carries bytes, also after a client has ended its side, has limits and knows peers."""
    async with fronted(
        tmp_path, echo, plain=True, limits=CallerLimits(address_connections=2)
    ) as served:
        streams = [await asyncio.open_connection(served.host, served.front.port) for _ in range(3)]
        refused, _ = streams[2]
        assert await closed(refused)
        assert served.metrics.cut == {("test", "address"): 1}
        reader, writer = streams[0]
        writer.write(b"x" * MANY)
        writer.write_eof()
        async with asyncio.timeout(WITHIN_S):
            assert len(await reader.read()) == MANY
        writer = streams[1][1]
        writer.write(b"x")
        assert await streams[1][0].readexactly(1) == b"x"
        (peer,) = served.peers
        assert (peer.address, peer.caller) == (served.host, None)
        for _, writer in streams:
            await close(writer)


@pytest.mark.parametrize("said", [b"", b"PRI", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"])
async def test_a_client_that_sends_no_request_is_cut(tmp_path: Path, said: bytes) -> None:
    """The server behind, which would wait without end, gets no connection."""
    async with fronted(tmp_path, echo, plain=True, limits=CallerLimits(handshake_s=0.2)) as served:
        reader, writer = await asyncio.open_connection(served.host, served.front.port)
        writer.write(said)
        assert await closed(reader)
        assert len(served.peers) == 0
        assert served.metrics.cut == {("test", "handshake"): 1}
        await close(writer)


async def test_a_client_that_leaves_before_it_sends_is_not_counted_as_cut(tmp_path: Path) -> None:
    """Load balancers probe ports like that."""
    async with fronted(tmp_path, echo, plain=True) as served:
        _, writer = await asyncio.open_connection(served.host, served.front.port)
        await served.until_open(1)
        await close(writer)
        await served.until_open(0)
        assert served.metrics.cut == {}


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder for temporary files, with a name that is escaped in URLs."""
    folder = Path(tempfile.mkdtemp(prefix="a b%c'é"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    folder.rmdir()


async def test_sockets_are_in_a_folder_of_this_user_alone(odd: Path, served: Fronted) -> None:
    """It goes with the front."""
    folder = served.front.server_path.parent
    assert folder.parent == odd
    assert folder.stat().st_mode & 0o777 == 0o700
    reader, writer = await served.connect()
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    await close(writer)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("missing", "no folder for sockets can be made: .*missing.*; set TMPDIR"),
        ("a" * 100, "want a path of at most 70 bytes of UTF-8; set TMPDIR"),
        ("\udcff", "want a path of at most 70 bytes of UTF-8; set TMPDIR"),
    ],
)
def test_a_folder_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, folder: str, message: str
) -> None:
    with tempfile.TemporaryDirectory() as short:
        for name in ("a" * 100, "\udcff"):
            (Path(short) / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(Path(short) / folder))
        with pytest.raises(OSError, match=message):
            Front("http", "127.0.0.1", 0, certificates=None, peers=Peers())


async def test_stopping_lets_connections_end_and_then_cuts_them(served: Fronted) -> None:
    first, first_writer = await served.connect()
    second, second_writer = await served.connect()
    stopping = asyncio.create_task(served.front.stop(2.0))
    await asyncio.sleep(0.05)
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await served.connect()
    first_writer.write(b"still there")
    assert await first.readexactly(11) == b"still there"
    await close(first_writer)
    assert await closed(second)
    await stopping
    assert served.metrics.cut == {("test", "drain"): 1}
    await close(second_writer)


async def test_stopping_is_over_when_the_last_connection_is(served: Fronted) -> None:
    _, writer = await served.connect()
    stopping = asyncio.create_task(served.front.stop(30))
    await asyncio.sleep(0.05)
    await close(writer)
    async with asyncio.timeout(15):
        await stopping
    assert served.metrics.cut == {}


def serial(writer: asyncio.StreamWriter) -> object:
    return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]


async def test_certificates_are_read_again_without_ending_a_connection(served: Fronted) -> None:
    """A new pair is used within a second; half of one is a warning and changes nothing."""
    reader, writer = await served.connect()
    old = serial(writer)
    renewed = served.authority.server([served.host])
    with structlog.testing.capture_logs() as logs:
        shutil.copy(renewed.cert_file, served.pair.cert_file)
        await until(served.certificates.warnings)
        (warning,) = served.certificates.warnings()
        assert "not the key of the certificate" in warning
        assert served.metrics.broken == {"tls-cert-file": True}
        _, between = await served.connect()
        assert serial(between) == old
        shutil.copy(renewed.key_file, served.pair.key_file)
        await until(lambda: not served.certificates.warnings())
    _, after = await served.connect()
    assert serial(after) != old
    writer.write(b"still there")
    assert await reader.readexactly(11) == b"still there"
    assert [entry["log_level"] for entry in logs if entry["event"] != "no TLS"] == [
        "error",
        "info",
    ]
    assert "PRIVATE" not in f"{logs}"
    for each in (writer, between, after):
        await close(each)


async def test_clients_of_a_removed_authority_are_cut(served: Fronted, tmp_path: Path) -> None:
    """An added authority ends no connection; a removed one ends those of its clients."""
    client = served.authority.client("ann", [])
    known, known_writer = await served.connect(client)
    nobody, nobody_writer = await served.connect()
    known_writer.write(b"x")
    assert await known.readexactly(1) == b"x"
    file = served.authority.ca_file
    mine = file.read_bytes()
    other = Authority(tmp_path / "other", "other")
    context = served.authority.trusted(client)
    reads = served.metrics.reloads
    file.write_bytes(mine + other.ca_file.read_bytes())
    await until(lambda: reads.get(("tls-cert-file", True)) == 1)
    known_writer.write(b"x")
    assert await known.readexactly(1) == b"x"
    file.write_bytes(other.ca_file.read_bytes())
    assert await closed(known)
    nobody_writer.write(b"x")
    assert await nobody.readexactly(1) == b"x"
    reader, writer = await asyncio.open_connection(served.host, served.front.port, ssl=context)
    assert await closed(reader)
    for each in (known_writer, nobody_writer, writer):
        await close(each)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("cert", "--tls-cert-file .*server.crt: cannot be read: No such file"),
        ("key", "--tls-private-key-file .*: not the key of the certificate in"),
        ("encrypted", "--tls-private-key-file .*: the key is encrypted"),
        ("text", "want a certificate and its key as PEM, got "),
        ("ca", "--client-ca-file .*: want certificates as PEM, got "),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path: Path, broken: str, message: str) -> None:
    authority = Authority(tmp_path / "ca")
    cert, key = authority.server(["localhost"])
    ca = authority.ca_file
    if broken == "cert":
        cert = tmp_path / "server.crt"
    elif broken == "key":
        key = authority.server(["localhost"]).key_file
    elif broken == "encrypted":
        encrypt(authority.server(["localhost"]).key_file, key)
    elif broken == "text":
        cert.write_text("no certificate")
    else:
        ca.write_text("no certificate")
    with pytest.raises(InvalidConfiguration, match=message):
        Certificates(cert, key, ca)


def encrypt(source: Path, target: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(source.read_bytes(), None)
    target.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hidden"),
        )
    )


async def test_an_address_that_is_taken_is_named(served: Fronted) -> None:
    port = served.front.port
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port} for http over TLS"):
        Front("http", "127.0.0.1", port, certificates=served.certificates, peers=served.peers)
