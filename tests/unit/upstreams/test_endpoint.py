"""Endpoints against real TLS servers, plain servers and proxies on loopback."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpcore2
import pytest
from apidiscovery_kubeconfig.credentials import ClientCertificate, Material, StaticToken
from apidiscovery_kubeconfig.ssl_contexts import RenewedContext
from apidiscovery_kubeconfig.tls import Tls
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.credentials import CredentialsUnavailable
from apidiscovery_service.sources.upstreams.endpoint import Endpoint, endpoint_from_settings
from apidiscovery_service.sources.upstreams.transport import FAILURES
from certificates import Authority, KeyPair
from cryptography.hazmat.primitives import serialization
from fake_api_server import Answer, FakeApiServer, listening, server_context
from proxies import ForwardProxy
from structlog.testing import capture_logs
from upstream_setup import Reply, answer_of
from waiting import WITHIN_S, until

SECRET = "s3cr3t-0f-the-test"  # noqa: S105 - not one
# More turns of the event loop than a request and its answer take.
_TURNS_OF_A_REQUEST = 25
OK = Answer(b"{}")

Get = Callable[[Endpoint], Awaitable[Reply]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


@asynccontextmanager
async def using(endpoint: Endpoint) -> AsyncGenerator[Get]:
    """Yield a function that sends requests to an endpoint; close the endpoint afterwards."""

    async def get(endpoint: Endpoint) -> Reply:
        async with asyncio.timeout(WITHIN_S):
            return await answer_of(endpoint)

    try:
        yield get
    finally:
        await endpoint.aclose()


async def ask(endpoint: Endpoint) -> Reply:
    async with using(endpoint) as get:
        return await get(endpoint)


def settings(authority: Authority, **more: object) -> dict[str, object]:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {"ca-file": str(authority.ca_file)} | named


def pair_settings(pair: KeyPair) -> dict[str, object]:
    return {"client_certificate": str(pair.cert_file), "client_key": str(pair.key_file)}


# --- trust


@pytest.mark.parametrize("is_expired", [False, True])
async def test_a_server_is_trusted_by_the_named_authority_until_it_expires(
    tmp_path: Path, authority: Authority, *, is_expired: bool
) -> None:
    pair = authority.server(["127.0.0.1"], expired=is_expired)
    others = [{}, settings(Authority(tmp_path / "foreign"))]
    good = {"insecure-skip-tls-verify": True} if is_expired else settings(authority)
    if is_expired:
        others.append(settings(authority))
    async with FakeApiServer(OK, server_context(pair)) as server:
        url = f"https://127.0.0.1:{server.port}"
        assert (await ask(endpoint_from_settings(url, good))).content == b"{}"
        for other in others:
            with pytest.raises(httpcore2.ConnectError, match="certificate"):
                await ask(endpoint_from_settings(url, other))
        assert len(server.requests) == 1


async def test_the_certificate_itself_may_be_the_anchor(authority: Authority) -> None:
    """As in Go, an anchor need not be self-signed."""
    pair = authority.server(["127.0.0.1"])
    async with FakeApiServer(OK, server_context(pair)) as server:
        tls = Tls(ca=Material("caBundle", pair.cert_file.read_bytes()))
        answer = await ask(Endpoint(f"https://127.0.0.1:{server.port}", tls=tls))
        assert answer.status == 200


async def test_the_server_name_is_sent_and_expected(authority: Authority) -> None:
    pair = authority.server(["api.example.com"])
    async with FakeApiServer(OK, server_context(pair)) as server:
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(httpcore2.ConnectError, match="IP address mismatch"):
            await ask(endpoint_from_settings(url, settings(authority)))
        named = settings(authority, tls_server_name="api.example.com")
        await ask(endpoint_from_settings(url, named))
        assert server.names[-1] == "api.example.com"
        other = settings(authority, tls_server_name="other.example.com")
        with pytest.raises(httpcore2.ConnectError, match="Hostname mismatch"):
            await ask(endpoint_from_settings(url, other))


async def test_a_changed_authority_is_read_again(tmp_path: Path, authority: Authority) -> None:
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(Authority(tmp_path / "foreign").ca_file.read_bytes())
    async with FakeApiServer(OK, server_context(authority.server(["127.0.0.1"]))) as server:
        endpoint = endpoint_from_settings(
            f"https://127.0.0.1:{server.port}", {"ca-file": str(ca_file)}
        )
        async with using(endpoint) as get:
            with pytest.raises(httpcore2.ConnectError, match="certificate verify failed"):
                await get(endpoint)
            ca_file.write_bytes(authority.ca_file.read_bytes())
            assert (await get(endpoint)).status == 200


# --- client certificates


async def test_a_client_certificate_is_sent(tmp_path: Path, authority: Authority) -> None:
    pair = authority.server(["127.0.0.1"])
    async with FakeApiServer(OK, server_context(pair, authority.ca_file)) as server:
        url = f"https://127.0.0.1:{server.port}"
        jane = settings(authority, **pair_settings(authority.client("jane", ["dev"])))
        await ask(endpoint_from_settings(url, jane))
        assert server.requests[-1].user == "jane"
        foreign = Authority(tmp_path / "foreign").client("jane", [])
        expired = authority.client("jane", [], expired=True)
        for refused in ({}, pair_settings(foreign), pair_settings(expired)):
            with pytest.raises((httpcore2.NetworkError, httpcore2.ProtocolError)):
                await ask(endpoint_from_settings(url, settings(authority, **refused)))
        assert len(server.requests) == 1


async def test_changed_client_certificates_are_used_from_the_next_request(
    tmp_path: Path, authority: Authority
) -> None:
    cert_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"
    own = settings(authority, client_certificate=str(cert_file), client_key=str(key_file))
    context = server_context(authority.server(["127.0.0.1"]), authority.ca_file)
    _put(authority.client("first", []), cert_file, key_file)
    async with FakeApiServer(OK, context) as server:
        endpoint = endpoint_from_settings(f"https://127.0.0.1:{server.port}", own)
        async with using(endpoint) as get:
            await get(endpoint)
            await get(endpoint)
            assert server.connections == 1
            second = authority.client("second", [])
            cert_file.write_bytes(second.cert_file.read_bytes())
            with capture_logs() as logged:
                for _ in range(2):  # between the two files: they do not belong together
                    await get(endpoint)
            assert [entry["event"] for entry in logged] == ["certificates kept"]
            key_file.write_bytes(second.key_file.read_bytes())
            await get(endpoint)
            assert [seen.user for seen in server.requests] == ["first"] * 4 + ["second"]
            await until(lambda: server.open_connections == 1, "the first is closed")


async def test_a_response_can_be_read_after_its_certificates_changed(
    tmp_path: Path, authority: Authority
) -> None:
    cert_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"
    own = settings(authority, client_certificate=str(cert_file), client_key=str(key_file))
    context = server_context(authority.server(["127.0.0.1"]), authority.ca_file)
    _put(authority.client("first", []), cert_file, key_file)
    answers = Answer(b"{}", stalls_after=1, then=OK)
    async with FakeApiServer({"/apis": answers}, context) as server:
        endpoint = endpoint_from_settings(f"https://127.0.0.1:{server.port}", own)
        async with using(endpoint) as get:
            slow = await endpoint.get("/apis")
            _put(authority.client("second", []), cert_file, key_file)
            await get(endpoint)
            server.resume()
            assert b"".join([piece async for piece in slow.pieces()]) == b"{}"
            await slow.aclose()
            assert [seen.user for seen in server.requests] == ["first", "second"]


def _put(pair: KeyPair, cert_file: Path, key_file: Path) -> None:
    cert_file.write_bytes(pair.cert_file.read_bytes())
    key_file.write_bytes(pair.key_file.read_bytes())


def test_an_encrypted_key_is_refused(tmp_path: Path, authority: Authority) -> None:
    pair = authority.client("jane", [])
    key = serialization.load_pem_private_key(pair.key_file.read_bytes(), None)
    for form in (
        serialization.PrivateFormat.PKCS8,
        serialization.PrivateFormat.TraditionalOpenSSL,
    ):
        encryption = serialization.BestAvailableEncryption(SECRET.encode())
        key_file = tmp_path / "encrypted.key"
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
        own = settings(authority, **pair_settings(KeyPair(pair.cert_file, key_file)))
        with pytest.raises(InvalidConfiguration, match=r"^client-key: the key is encrypted"):
            endpoint_from_settings("https://127.0.0.1:1", own)


# --- what is sent


async def test_a_token_file_is_read_for_each_request(tmp_path: Path, authority: Authority) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("first\n")
    async with FakeApiServer(OK, server_context(authority.server(["127.0.0.1"]))) as server:
        own = settings(authority, token_file=str(token_file))
        endpoint = endpoint_from_settings(f"https://127.0.0.1:{server.port}", own)
        async with using(endpoint) as get:
            await get(endpoint)
            token_file.write_text("second\n")
            await get(endpoint)
            token_file.unlink()
            await get(endpoint)  # the last one is kept while there is no other
            tokens = [seen.values("authorization") for seen in server.requests]
            assert tokens == [["Bearer first"], ["Bearer second"], ["Bearer second"]]
            endpoint.refresh({"Authorization": "Bearer first"})  # not the one in use
            assert await endpoint.headers() == {"Authorization": "Bearer second"}
            endpoint.refresh(await endpoint.headers())
            with pytest.raises(CredentialsUnavailable, match=r"token-file: cannot read .*/token"):
                await endpoint.headers()


async def test_impersonation_is_sent_as_by_client_go() -> None:
    async with FakeApiServer(OK) as server:
        own: Mapping[str, object] = {
            "as": "jane",
            "as-groups": ["dev", "ops"],
            "as-uid": "u-1",
            "as-user-extra": {"example.com/Scope": ["a", "b"], "ü": ["ö"]},
        }
        await ask(endpoint_from_settings(f"http://127.0.0.1:{server.port}", own))
        found = [pair for pair in server.requests[-1].fields if pair[0].startswith("impersonate-")]
        assert found == [
            ("impersonate-user", "jane"),
            ("impersonate-uid", "u-1"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-extra-example.com%2fscope", "a"),
            ("impersonate-extra-example.com%2fscope", "b"),
            ("impersonate-extra-%c3%bc", "ö"),
        ]


async def test_a_path_prefix_goes_before_every_path() -> None:
    async with FakeApiServer(OK) as server:
        await ask(Endpoint(f"http://127.0.0.1:{server.port}/k8s/clusters/c-1/"))
        assert server.requests[-1].target == "/k8s/clusters/c-1/apis"


async def test_redirects_are_not_followed_and_cookies_not_kept() -> None:
    elsewhere = {"Location": "/elsewhere", "Set-Cookie": "a=b; Path=/"}
    async with FakeApiServer(Answer(b"{}", status=302, headers=elsewhere)) as server:
        endpoint = Endpoint(f"http://127.0.0.1:{server.port}")
        async with using(endpoint) as get:
            assert (await get(endpoint)).status == 302
            await get(endpoint)
        assert [seen.target for seen in server.requests] == ["/apis", "/apis"]
        assert server.requests[-1].values("cookie") == []
        assert "gzip" in server.requests[-1].values("accept-encoding")[0]
        await ask(Endpoint(f"http://127.0.0.1:{server.port}", compress=False))
        assert server.requests[-1].values("accept-encoding") == ["identity"]


async def test_http_2_is_used_where_tls_offers_it(authority: Authority) -> None:
    context = server_context(authority.server(["127.0.0.1"]), alpn=("h2", "http/1.1"))
    async with FakeApiServer(OK, context) as server:
        endpoint = endpoint_from_settings(f"https://127.0.0.1:{server.port}", settings(authority))
        async with using(endpoint) as get:
            await asyncio.gather(*(get(endpoint) for _ in range(20)))
        assert {seen.protocol for seen in server.requests} == {"h2"}
        assert server.connections == 1


@pytest.mark.parametrize("through_proxy", [False, True])
async def test_a_cancelled_handshake_leaves_no_connection(
    authority: Authority, *, through_proxy: bool
) -> None:
    greeted, gone = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer  # it never answers
        await reader.readexactly(1)
        greeted.set()
        while await reader.read(1 << 16):
            pass
        gone.set()

    async with listening(hang) as port, ForwardProxy(port) as proxy:
        own = settings(authority)
        if through_proxy:
            own |= {"proxy-url": f"http://127.0.0.1:{proxy.port}"}
        endpoint = endpoint_from_settings(f"https://127.0.0.1:{port}", own)
        async with using(endpoint) as get:
            request = asyncio.ensure_future(get(endpoint))
            await asyncio.wait_for(greeted.wait(), WITHIN_S)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            await asyncio.wait_for(gone.wait(), WITHIN_S)


@pytest.mark.parametrize("has_tls", [False, True])
async def test_no_connection_outlives_a_closed_endpoint(
    authority: Authority, *, has_tls: bool
) -> None:
    """Whatever the request does when the endpoint is closed: connect, send, or read."""
    tls = server_context(authority.server(["127.0.0.1"])) if has_tls else None
    own = settings(authority) if has_tls else {}
    async with FakeApiServer(OK, tls) as server:
        for turns in range(_TURNS_OF_A_REQUEST):
            endpoint = endpoint_from_settings(server.url, own)
            request = asyncio.ensure_future(answer_of(endpoint))
            for _ in range(1 + turns):
                await asyncio.sleep(0)
            await endpoint.aclose()
            await asyncio.wait([request])
            assert request.exception() is None or isinstance(request.exception(), FAILURES)
            await until(lambda: server.open_connections == 0, f"closed after {turns}")


async def test_a_cancelled_close_closes_all_connections() -> None:
    async with FakeApiServer(OK) as server:
        for turns in range(_TURNS_OF_A_REQUEST):
            endpoint = Endpoint(server.url)
            await asyncio.gather(*(answer_of(endpoint) for _ in range(3)))
            closing = asyncio.ensure_future(endpoint.aclose())
            for _ in range(turns):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])
            if turns:  # otherwise it has not begun
                await until(lambda: server.open_connections == 0, f"closed after {turns}")
            await endpoint.aclose()


# --- proxies


async def test_a_proxy_tunnels_tls(authority: Authority) -> None:
    pair = authority.server(["api.example.com"])
    async with (
        FakeApiServer(OK, server_context(pair)) as server,
        ForwardProxy(server.port) as proxy,
    ):
        url = f"http://jane:{SECRET}@127.0.0.1:{proxy.port}"
        endpoint = endpoint_from_settings(
            "https://api.example.com:6443", settings(authority, proxy_url=url)
        )
        assert SECRET not in repr(endpoint)
        await ask(endpoint)
        assert [seen.target for seen in proxy.requests] == ["CONNECT api.example.com:6443"]
        assert proxy.requests[-1].values("proxy-authorization")[0].startswith("Basic ")
        assert server.requests[-1].values("proxy-authorization") == []


async def test_a_proxy_forwards_plain_requests() -> None:
    async with FakeApiServer(OK) as server, ForwardProxy(server.port) as proxy:
        own = {"proxy-url": f"http://127.0.0.1:{proxy.port}"}
        await ask(endpoint_from_settings("http://api.example.com:8080/prefix", own))
        assert proxy.requests[-1].target == "GET http://api.example.com:8080/prefix/apis"
        assert server.requests[-1].target == "/prefix/apis"


async def test_the_environment_names_a_proxy_but_never_for_loopback(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = authority.server(["api.example.com", "127.0.0.1"])
    async with (
        FakeApiServer(OK, server_context(pair)) as server,
        ForwardProxy(server.port) as proxy,
    ):
        for name in ("https_proxy", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.port}")
        await ask(endpoint_from_settings("https://api.example.com", settings(authority)))
        await ask(endpoint_from_settings(f"https://127.0.0.1:{server.port}", settings(authority)))
        assert [seen.target for seen in proxy.requests] == ["CONNECT api.example.com:443"]
        assert len(server.requests) == 2


async def test_failures_behind_a_proxy_use_up_no_connections(
    tmp_path: Path, authority: Authority
) -> None:
    """More failures than connections are allowed, and then a success."""
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(Authority(tmp_path / "foreign").ca_file.read_bytes())
    pair = authority.server(["api.example.com"])
    async with (
        FakeApiServer(OK, server_context(pair)) as server,
        ForwardProxy(server.port) as proxy,
    ):
        own = {"ca-file": str(ca_file), "proxy-url": f"http://127.0.0.1:{proxy.port}"}
        endpoint = endpoint_from_settings("https://api.example.com", own)
        async with using(endpoint) as get:
            for _ in range(20):
                with pytest.raises(httpcore2.ConnectError, match="certificate verify failed"):
                    await get(endpoint)
            # Not by renewal of the connections: the context is the same until the file changes.
            ca_file.write_bytes(authority.ca_file.read_bytes())
            assert (await get(endpoint)).status == 200


async def test_the_refusal_of_a_proxy_is_an_error(authority: Authority) -> None:
    async with ForwardProxy(1, refusal="407 Proxy Authentication Required") as proxy:
        own = settings(authority, proxy_url=f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(httpcore2.ProxyError, match="407"):
            await ask(endpoint_from_settings("https://api.example.com", own))


# --- mistakes


@pytest.mark.parametrize(
    ("url", "own", "expected"),
    [
        ("ftp://a", {}, "url: want a URL"),
        ("a.example:6443", {}, "url: want a URL"),
        ("https://", {}, "url: want a URL"),
        (
            "https://a:port",
            {},
            "url: want a URL such as https://host:6443, of http or https, got 'h",
        ),
        (f"https://jane:{SECRET}@a", {}, "url: there are credentials"),
        (f"https://a/?token={SECRET}", {}, "url: want a URL"),
        ("https://a/#b", {}, "url: want a URL"),
        ("https://a", {"ca_file": "x"}, "ca_file: unknown key; did you mean ca-file?"),
        ("https://a", {"ca-file": 1}, "ca-file: want text, got a number"),
        ("https://a", {"ca-file": "/none"}, "ca-file: cannot read /none: No such file"),
        ("https://a", {"ca-file": "/dev/null"}, "ca-file: /dev/null is empty"),
        ("https://a", {"ca-file": __file__}, "ca-file: no certificate in it"),
        ("https://a", {"client-key": "k"}, "client-certificate: want"),
        ("https://a", {"client-certificate": "c"}, "client-key: want"),
        (
            "https://a",
            {"ca-file": "c", "insecure-skip-tls-verify": True},
            "ca-file: an authority beside",
        ),
        ("https://a", {"insecure-skip-tls-verify": "yes"}, "insecure-skip-tls-verify: want true"),
        ("https://a", {"token-file": "/none"}, "token-file: cannot read /none"),
        ("http://a", {"token-file": "/none"}, "token-file: the token would go unencrypted"),
        ("https://a", {"proxy-url": "socks5://p"}, "proxy-url: SOCKS"),
        ("https://a", {"proxy-url": f"ftp://j:{SECRET}@p"}, "proxy-url: want a URL"),
        ("https://a", {"as-groups": ["g"]}, "as-groups: want `as` beside it"),
        ("https://a", {"as": "a\nb"}, "as: holds a control character"),
        ("https://a", {"as": "a", "as-groups": "g"}, "as-groups: want a list, got text"),
        ("https://a", {"as": "a", "as-user-extra": {"k": [1]}}, "as-user-extra.k[0]: want text"),
    ],
)
def test_the_error_of_a_setting_names_its_key(
    url: str, own: Mapping[str, object], expected: str
) -> None:
    with pytest.raises(InvalidConfiguration) as error:
        endpoint_from_settings(url, own)
    assert str(error.value).startswith(expected)
    assert SECRET not in str(error.value)


def test_a_certificate_with_another_key_is_refused(authority: Authority) -> None:
    one, other = authority.client("a", []), authority.client("b", [])
    own = settings(authority, **pair_settings(KeyPair(one.cert_file, other.key_file)))
    with pytest.raises(InvalidConfiguration, match=r"^client-certificate: the key does not belong"):
        endpoint_from_settings("https://a", own)
    own = settings(authority, **pair_settings(KeyPair(one.cert_file, one.cert_file)))
    with pytest.raises(InvalidConfiguration, match=r"^client-certificate: want a certificate and"):
        endpoint_from_settings("https://a", own)


def test_errors_and_reprs_have_no_secret(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(f"{SECRET}\x01")
    with pytest.raises(InvalidConfiguration, match=r"^token-file: want a token") as error:
        endpoint_from_settings("https://a", {"token-file": str(token_file)})
    endpoint = Endpoint(
        "https://a.example",
        tls=Tls(key=Material("key", SECRET.encode())),
        credentials=StaticToken(SECRET, "token"),
    )
    assert SECRET not in f"{error.value} {endpoint!r}"


def test_an_unusable_certificate_later_on_is_a_failed_connection(authority: Authority) -> None:
    """Such as when files vanish before the first request."""
    tls = Tls(ca=Material("ca-file", file=authority.ca_file))
    authority.ca_file.unlink()
    with pytest.raises(httpcore2.ConnectError, match="ca-file: cannot read"):
        asyncio.run(ask(Endpoint("https://127.0.0.1:1", tls=tls)))


async def test_a_request_is_sent_again_when_the_server_has_just_closed_the_connection() -> None:
    """The server gives up an idle connection while the request is on its way."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await reader.readuntil(b"\r\n\r\n")

    async with listening(serve) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}")
        async with using(endpoint) as get:
            assert [(await get(endpoint)).status for _ in range(3)] == [200, 200, 200]
    assert len(connections) == 3


async def test_bytes_before_a_request_are_no_answer() -> None:
    """The request is sent on another connection instead."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        truth = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntruth"
        await reader.readuntil(b"\r\n\r\n")
        writer.write(truth + truth.replace(b"truth", b"a lie"))
        await reader.readuntil(b"\r\n\r\n")

    async with listening(serve) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}")
        async with using(endpoint) as get:
            assert [(await get(endpoint)).content for _ in range(3)] == [b"truth"] * 3
    assert len(connections) == 3


async def test_a_new_connection_that_is_closed_is_not_tried_again() -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        connections.append(1)
        await reader.readuntil(b"\r\n\r\n")

    async with listening(serve) as port:
        with pytest.raises(httpcore2.RemoteProtocolError):
            await ask(Endpoint(f"http://127.0.0.1:{port}"))
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("head", "piece", "end"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", b"0\r\n\r\n"),
        (b"", b"HTTP/1.1 103 A\r\n\r\n", b"HTTP/1.1 204 B\r\n\r\n"),
    ],
    ids=["chunks of a byte", "interim answers"],
)
async def test_an_answer_in_the_smallest_pieces_does_not_block_the_event_loop(
    head: bytes, piece: bytes, end: bytes
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + piece * (256 * 1024 // len(piece)) + end)
        await writer.drain()

    pauses: list[float] = []

    async def others() -> None:
        before = time.thread_time()  # other processes have theirs
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            pauses.append(now - before)
            before = now

    async with listening(serve) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}")
        async with using(endpoint) as get:
            beside = asyncio.create_task(others())
            await get(endpoint)
            beside.cancel()
    # httpcore reads a quarter of it at once. The two longest steps may collect garbage.
    assert sorted(pauses)[-3] < sum(pauses) / 6


def test_only_a_context_without_files_is_cached(authority: Authority) -> None:
    inline = RenewedContext(Tls(ca=Material("ca", data=authority.ca_file.read_bytes())))
    assert inline.cached(None) is None
    context = inline.current(None)
    assert inline.cached(None) is context
    pair = authority.client("jane", [])
    issued = ClientCertificate(pair.cert_file.read_bytes(), pair.key_file.read_bytes())
    assert inline.cached(issued) is None
    assert inline.current(issued) is inline.cached(issued)
    named = RenewedContext(Tls(ca=Material("ca", file=authority.ca_file)))
    named.current(None)
    assert named.cached(None) is None
