"""An upstream that dies, comes back or answers without groups: its polls and its messages."""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from apidiscovery_kubeconfig.validity import valid_until
from apidiscovery_service.core.source import CertificateExpiry
from apidiscovery_service.sources.upstreams.endpoint import endpoint_from_settings
from apidiscovery_service.sources.upstreams.reachability import GRPC_PORT
from apidiscovery_service.sources.upstreams.spec import Timing, UpstreamLimits
from apidiscovery_service.store.memory import MemoryStore
from certificates import Authority
from fake_api_server import DOWN, FakeApiServer, aggregated, listening, server_context
from grpc_fakes import aio_server
from programs import free_port
from structlog.testing import capture_logs
from upstream_setup import Ask, Running, item, mirrored, running, spec_of
from waiting import until

_GOOD = {"/apis": aggregated(item("a.test"))}
_EMPTY = {"/apis": aggregated()}


# --------------------------------------------------------------------------------------------------
# When it is polled again.


@pytest.mark.parametrize(("poll_s", "longest_s"), [(60.0, 60.0), (2.0, 4.0), (0.1, 0.5)])
def test_the_pause_after_failures_is_bounded_by_the_interval(
    poll_s: float, longest_s: float
) -> None:
    timing = Timing(poll_s=poll_s)
    pauses = [timing.pause_s(failures) for failures in range(1, 100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.5, longest_s)


async def test_a_server_that_accepts_connections_again_is_polled_at_once() -> None:
    slow = Timing(poll_s=3600, first_retry_s=3600, last_retry_s=3600)
    port = free_port()
    spec = spec_of(f"http://127.0.0.1:{port}", timing=slow)
    async with running(MemoryStore(), spec) as run:
        await until(lambda: run.state() == "Stale", "it is not reached")
        await asyncio.sleep(0.5)  # the poller tries to connect only now
        async with FakeApiServer(_GOOD, None, port):
            await until(lambda: run.freshness("a.test") == "Current", "it is asked")


async def test_a_server_that_accepts_connections_and_fails_is_not_polled_in_a_loop() -> None:
    slow = Timing(poll_s=3600, first_retry_s=3600, last_retry_s=3600)
    async with FakeApiServer({"/apis": DOWN}) as server:
        async with running(MemoryStore(), spec_of(server.url, timing=slow)) as run:
            await until(lambda: run.state() == "Stale", "it is not reached")
            await asyncio.sleep(0.2)
        assert server.paths == ["/apis"]


# --------------------------------------------------------------------------------------------------
# Whether its answer is accepted.


async def test_two_answers_a_poll_apart_remove_all_groups() -> None:
    timing = Timing(poll_s=0.3, first_retry_s=0.01, last_retry_s=0.01)
    async with mirrored(MemoryStore(), _GOOD, timing=timing) as (server, run):
        await until(lambda: run.freshness("a.test") == "Current", "it is read")
        begun = time.monotonic()
        server.answers = _EMPTY
        await until(lambda: run.freshness("a.test") == "Stale", "it is doubted")
        asked = server.paths.count("/apis")
        assert run.error() == (
            "GET /apis: answered without any group, where there were 1; "
            "accepted after 2 such answers, this is number 1"
        )
        await until(lambda: run.group("a.test") is None, "it is believed")
        assert time.monotonic() - begun > 0.2
        assert server.paths.count("/apis") - asked <= 3
        assert run.state() == "Current"


async def test_a_doubt_ends_when_the_groups_are_back(ask: Ask) -> None:
    async with FakeApiServer(_GOOD) as server:
        one = ask(spec_of(server.url, timing=Timing(poll_s=0, empty_answers=2)))
        for answers, groups in ((_GOOD, 1), (_EMPTY, 1), (_GOOD, 1), (_EMPTY, 1), (_EMPTY, 0)):
            server.answers = answers
            assert len((await one.round()).groups) == groups


async def test_one_answer_is_enough_where_so_configured(ask: Ask) -> None:
    async with FakeApiServer(_GOOD) as server:
        one = ask(spec_of(server.url, timing=Timing(empty_answers=1)))
        await one.round()
        server.answers = _EMPTY
        root = await one.round()
    assert (root.groups, root.error) == ((), "")


# --------------------------------------------------------------------------------------------------
# Messages.


async def test_death_and_recovery_are_logged_once_each() -> None:
    with capture_logs() as logs:
        async with mirrored(MemoryStore(), _GOOD) as (server, run):
            await until(lambda: run.freshness("a.test") == "Current", "it is read")
            for answers, state in (({"/apis": DOWN}, "Stale"), (_GOOD, "Current")):
                server.answers = answers
                await _until_polled_as(server, run, state)
    assert [(e["event"], e["log_level"], e.get("reason")) for e in _of_upstream(logs)] == [
        ("upstream answers", "info", None),
        (
            "upstream fails, its last known state is kept",
            "warning",
            "GET /apis: got status 503, want 200 or 304",
        ),
        ("upstream answers again", "info", None),
    ]


async def _until_polled_as(server: FakeApiServer, run: Running, state: str) -> None:
    """Wait for a state, and for some more polls."""
    await until(lambda: run.state() == state, state)
    asked = server.paths.count("/apis") + 3
    await until(lambda: server.paths.count("/apis") >= asked, "some more polls")


def _of_upstream(logs: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    return [e for e in logs if e.get("upstream") == "east" and e["log_level"] != "debug"]


async def _error(url: str) -> str:
    """Return why an upstream cannot be reached, by its status; the log says the same."""
    with capture_logs() as logs:
        async with running(
            MemoryStore(), spec_of(url, limits=UpstreamLimits(exchange_s=30))
        ) as run:
            await until(lambda: run.state() == "Stale", "it is not reached")
            await until(lambda: _of_upstream(logs), "it is logged")
            shown = run.error()
    (entry,) = _of_upstream(logs)
    assert entry["event"] == "upstream cannot be reached, trying again"
    assert entry["reason"] == shown
    return shown.removeprefix("GET /apis: ")


async def test_the_error_names_a_refused_connection() -> None:
    port = free_port()
    assert await _error(f"http://127.0.0.1:{port}") == f"connection refused by 127.0.0.1:{port}"


async def test_the_error_names_an_unknown_host() -> None:
    assert await _error("http://nosuch.invalid") == "name not known: nosuch.invalid"


@pytest.mark.parametrize(
    ("scheme", "answer", "error"),
    [
        pytest.param(
            "https",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "this port does not speak TLS; want an http:// URL",
            id="https",
        ),
        pytest.param(
            "http",
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "this port speaks TLS; want an https:// URL",
            id="http, as the server says",
        ),
    ],
)
async def test_the_error_of_a_wrong_scheme_names_the_right_one(
    scheme: str, answer: bytes, error: str
) -> None:
    async def handle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    async with listening(handle) as port:
        assert await _error(f"{scheme}://127.0.0.1:{port}") == error


async def test_the_error_of_http_to_a_port_with_tls_says_so(tmp_path: Path) -> None:
    pair = Authority(tmp_path).server(["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    async with FakeApiServer(_GOOD, context) as server:
        error = await _error(server.url.replace("https:", "http:"))
    assert error == "this port speaks TLS; want an https:// URL"


async def test_ends_of_certificates_are_shown_even_after_one_has_expired(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_pair, client_pair = authority.server(["127.0.0.1"]), authority.client("eva", [])
    wanted = CertificateExpiry(
        *(valid_until(pair.cert_file.read_bytes()) for pair in (server_pair, client_pair))
    )
    names = ("ca-file", "client-certificate", "client-key")
    files = (authority.ca_file, client_pair.cert_file, client_pair.key_file)
    store = MemoryStore()
    port = free_port()  # for two servers, one after the other
    async with FakeApiServer(_GOOD, server_context(server_pair), port) as server:
        spec = replace(
            spec_of(server.url),
            endpoint=endpoint_from_settings(
                f"https://127.0.0.1:{port}", dict(zip(names, map(str, files), strict=True))
            ),
        )
        async with running(store, spec) as run:
            await until(lambda: _certificates(run) == wanted, "both are known")
    expired = server_context(authority.server(["127.0.0.1"], expired=True))
    async with FakeApiServer(_GOOD, expired, port), running(store, spec) as run:
        await until(lambda: "expired" in run.error(), "it is not trusted any more")
        assert _certificates(run) == wanted


def _certificates(run: Running) -> CertificateExpiry:
    return next((status.certificates for status in run.upstreams.states()), CertificateExpiry())


async def test_the_error_of_http_to_a_grpc_port_says_so() -> None:
    async with aio_server(lambda _: None) as address:
        assert await _error(f"http://{address}") == GRPC_PORT
