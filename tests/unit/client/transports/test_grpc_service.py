"""The gRPC transports against the real service read the same as over HTTP."""

import asyncio
import random
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import grpc
import httpx2
import pytest
from apidiscovery_client import _reading
from apidiscovery_client._errors import InvalidConfiguration, ServerUnreachable
from apidiscovery_client._grpc.calls import CallRefused, GrpcServer
from apidiscovery_client._interfaces import AsyncTransport, FetchedSnapshot, Transport
from apidiscovery_client._server import StaticAccess
from apidiscovery_client.model import CURRENT, Group, Stale, Unknown
from apidiscovery_client.transports import (
    _betterproto_messages,
    _protobuf_messages,
    async_betterproto,
)
from apidiscovery_client.transports._grpc_answers import Message
from apidiscovery_client.transports._grpc_common import decoded
from apidiscovery_client.transports.async_betterproto import AsyncBetterprotoTransport
from apidiscovery_client.transports.async_grpc import AsyncGrpcTransport
from apidiscovery_client.transports.betterproto import BetterprotoTransport
from apidiscovery_client.transports.grpc import GrpcTransport
from apidiscovery_service.core.model import Freshness
from apidiscovery_service.core.source import SourceState, SourceStatus
from certificates import Authority
from groups import contribution as declared
from groups import offer as declared_offer
from groups import resource as declared_resource
from grpc_contributions import APPS, CORE, EXAMPLES, random_step
from grpc_server import Served, serving
from grpc_transports import FAMILIES, Driven, local, opened
from media_types import JSON_V2, PROTOBUF_V2
from proxies import TcpProxy
from secured import TOKENS, Secured, secured
from server import Server

LIBRARIES = ("grpcio", "betterproto", "sync-grpcio")
every_library = pytest.mark.parametrize("family", LIBRARIES)
pytestmark = pytest.mark.usefixtures("short_pauses")
SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def names(held: FetchedSnapshot) -> list[str]:
    return [found.name for found in held.snapshot.groups]


async def over_http(url: str, accept: str) -> tuple[Group, ...]:
    """Return what the documents of /api and /apis tell."""
    groups: list[Group] = []
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        for path in ("/api", "/apis"):
            answer = await client.get(path, headers={"accept": accept})
            kind = answer.headers["content-type"]
            groups += _reading.read_document(path, kind, answer.content, datetime.now(UTC)).groups
    return tuple(groups)


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_same_is_read_as_over_http(family: str, server: Server) -> None:
    async with opened(family, server.grpc) as client:
        held = await client.fetch()
        assert client.traffic.requests == 1
        async with client.listening() as listener:
            watched = await listener.next()
    assert len(held.snapshot.groups) > 10
    assert held.hashes.keys() == {group.name for group in held.snapshot.groups}
    for accept in (JSON_V2, PROTOBUF_V2):
        assert held.snapshot.groups == await over_http(server.url, accept)
    assert watched.snapshot.groups == held.snapshot.groups
    assert (watched.etags, watched.hashes) == (held.etags, held.hashes)


async def test_a_snapshot_can_be_updated_by_another_transport(family: str, server: Server) -> None:
    async with opened("grpcio", server.grpc) as first, opened(family, server.grpc) as second:
        held = await first.fetch()
        again = await second.fetch(held)
    assert again.snapshot.groups is held.snapshot.groups
    assert second.traffic.not_modified == 1
    assert second.traffic.body_bytes < first.traffic.body_bytes


@pytest.mark.parametrize("seed", [1, 2])
async def test_deltas_lead_to_the_whole_document_after_any_history(family: str, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret
    async with serving() as served, opened(family, served.target) as client:
        held = await client.fetch()
        for _ in range(15):
            for _ in range(rng.randint(0, 3)):
                random_step(served.registry, rng)
            asked = client.traffic.requests
            held = await client.fetch(held)
            assert client.traffic.requests == asked + 1
            fresh = await client.fetch()
            assert held.snapshot.groups == fresh.snapshot.groups
            assert (list(held.hashes.items()), held.etags) == (
                list(fresh.hashes.items()),
                fresh.etags,
            )


async def test_a_watch_leads_to_the_whole_document_after_any_history(family: str) -> None:
    rng = random.Random(3)  # noqa: S311 - no secret
    async with (
        serving() as served,
        opened(family, served.target) as client,
        client.listening() as listener,
    ):
        held = await listener.next()
        for _ in range(10):
            for _ in range(rng.randint(1, 3)):
                random_step(served.registry, rng)
            whole = await client.fetch()
            while held.etags != whole.etags:
                held = await listener.next()
            assert held.snapshot.groups == whole.snapshot.groups
            assert list(held.hashes.items()) == list(whole.hashes.items())


async def test_fetching_goes_on_at_another_replica(family: str) -> None:
    async with serving(CORE, APPS) as one, serving(CORE, APPS, EXAMPLES[0]) as other:
        async with opened(family, one.target) as client:
            held = await client.fetch()
        async with opened(family, other.target) as client:
            after = await client.fetch(held)
    assert names(after) == ["", "apps", "a.example.com"]
    assert after.snapshot.groups[:2] == held.snapshot.groups
    assert after.snapshot.groups[1] is held.snapshot.groups[1]


@every_library
async def test_a_removal_missed_while_away_is_told_by_the_next_replica(family: str) -> None:
    async with (
        serving(CORE, APPS, EXAMPLES[0]) as one,
        serving(CORE, APPS) as other,
        _Switch(one) as switch,
        opened(family, switch.address) as client,
        client.listening() as listener,
    ):
        first = await listener.next()
        await switch.to(other)
        second = await listener.until(lambda held: len(held.hashes) == 2)
    assert names(first) == ["", "apps", "a.example.com"]
    assert names(second) == ["", "apps"]
    assert second.snapshot.groups[1] is first.snapshot.groups[1]


class _Switch(TcpProxy):
    """An address behind which servers change, as behind a load balancer."""

    def __init__(self, served: Served) -> None:
        super().__init__(served.target)

    async def to(self, served: Served) -> None:
        """Lead new connections to another server, and end those that are."""
        self._target = served.target
        self.drop()
        await asyncio.sleep(0)


@every_library
async def test_a_network_that_is_cut_and_mended_is_survived(family: str) -> None:
    async with (
        serving(CORE, APPS) as served,
        TcpProxy(served.target) as network,
        opened(family, network.address, heartbeat_s=1.0, unreachable_s=1.0) as client,
        client.listening() as listener,
    ):
        first = await listener.next()
        network.cut()
        stale = await listener.until(lambda held: held.snapshot.freshness != CURRENT)
        served.registry.publish(EXAMPLES[0])
        network.mend()
        network.drop()
        current = await listener.until(lambda held: held.snapshot.freshness == CURRENT)
        if len(current.hashes) < 3:  # what was under way when the network was cut
            current = await listener.until(lambda held: len(held.hashes) == 3)
    assert stale.snapshot.groups is first.snapshot.groups
    assert names(current) == ["", "apps", "a.example.com"]


async def test_a_stale_upstream_is_told_with_its_error(family: str) -> None:
    stale = declared(
        "upstream:east",
        declared_offer("a.example/v1", resources=(declared_resource(),), freshness=Freshness.STALE),
        declared_offer("a.example/v2", freshness=Freshness.STALE),
    )
    async with serving(CORE, stale) as served, opened(family, served.target) as client:
        served.statuses = (
            SourceStatus("upstream:east", SourceState.STALE, SINCE, "connection refused"),
        )
        held = await client.fetch()
    versions = {version.name: version for version in held.snapshot.groups[1].versions}
    reason = "upstream:east: connection refused"
    assert versions["v1"].freshness == Stale(SINCE, reason)
    assert versions["v2"].freshness == Unknown(SINCE, reason)


async def test_a_service_that_offers_v2beta1_only_is_read(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(CORE, APPS) as served, opened(family, served.target) as client:
        whole = await client.fetch()
        for messages in (_protobuf_messages.MESSAGES, _betterproto_messages.MESSAGES):
            library = replace(messages.library, versions=list(messages.library.versions)[1:])
            monkeypatch.setattr(messages, "library", library)  # as an old client asks
        beta = await client.fetch()
        served.registry.publish(EXAMPLES[0])
        after = await client.fetch(beta)
    assert beta.snapshot.groups == whole.snapshot.groups
    assert names(after) == ["", "apps", "a.example.com"]


async def test_a_service_that_is_not_ready_refuses(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apidiscovery_client._grpc.calls.RETRY_WAITS_S", ())
    async with serving(CORE, ready=False) as served, opened(family, served.target) as client:
        with pytest.raises(CallRefused, match="still reading") as caught:
            await client.fetch()
    assert caught.value.code == grpc.StatusCode.UNAVAILABLE


def tls_server(
    running: Secured, token: str | None = None, authority: Authority | None = None, **more: str
) -> GrpcServer:
    """Return the server with what both libraries need for TLS."""
    ca_file = (authority or running.authority).ca_file
    return GrpcServer(
        address=f"127.0.0.1:{running.grpc_front.port}",
        credentials=grpc.ssl_channel_credentials(ca_file.read_bytes()),
        context=ssl.create_default_context(cafile=ca_file),
        token=token,
        request_timeout_s=10,
        tls_server_name=more.get("name"),
    )


async def test_a_token_is_sent_over_tls(tmp_path: Path) -> None:
    async with secured(tmp_path) as running:
        for family in LIBRARIES:
            server = tls_server(running, TOKENS["rita"], name="localhost")
            async with opened(family, server) as client, client.listening() as listener:
                held = await client.fetch()
                assert (await listener.next()).snapshot.groups == held.snapshot.groups
            async with opened(family, tls_server(running, TOKENS["nemo"])) as client:
                with pytest.raises(CallRefused) as caught:
                    await client.fetch()
            assert caught.value.code == grpc.StatusCode.PERMISSION_DENIED


async def test_a_certificate_that_is_not_of_the_server_is_told(tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    async with secured(tmp_path) as running:
        for server, said in (
            (tls_server(running, authority=other), "is not trusted"),
            (tls_server(running, name="elsewhere.example"), "for another name"),
        ):
            for family in LIBRARIES:
                async with opened(family, server) as client:
                    with pytest.raises(ServerUnreachable, match=said):
                        await client.fetch()


class Rotating:
    """Has another token once it is told that the first one was refused."""

    identity = "rotating"

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    def headers(self) -> Sequence[tuple[str, str]]:
        return (("Authorization", f"Bearer {self.tokens[0]}"),)

    def tls(self) -> None:
        return None

    def refused(self) -> bool:
        del self.tokens[0]
        return True


async def test_a_token_that_is_refused_is_renewed_once(tmp_path: Path) -> None:
    async with secured(tmp_path) as running:
        for family, listens in product(LIBRARIES, (False, True)):
            access = Rotating("of yesterday", TOKENS["rita"])
            async with opened(family, replace(tls_server(running), access=access)) as client:
                await (_heard(client) if listens else client.fetch())
            assert access.tokens == [TOKENS["rita"]]
        for family in LIBRARIES:
            access = Rotating("of yesterday", "of tomorrow", "unused")
            async with opened(family, replace(tls_server(running), access=access)) as client:
                with pytest.raises(CallRefused) as caught:
                    await client.fetch()
            assert caught.value.code == grpc.StatusCode.UNAUTHENTICATED
            assert access.tokens == ["of tomorrow", "unused"]


async def _heard(client: Driven) -> FetchedSnapshot:
    async with client.listening() as listener:
        return await listener.next()


@every_library
async def test_a_token_that_cannot_be_sent_is_told_without_it(family: str) -> None:
    async with serving(CORE) as served:
        server = replace(local(served.target), access=StaticAccess(token="gehe\u00efm"))  # noqa: S106 - of nothing
        async with opened(family, server) as client:
            with pytest.raises(InvalidConfiguration, match="authorization for") as caught:
                await client.fetch()
    assert "gehe" not in str(caught.value)


def test_betterproto_over_tls_wants_a_context() -> None:
    credentials = grpc.ssl_channel_credentials()
    server = replace(local("127.0.0.1:1"), credentials=credentials)
    with pytest.raises(InvalidConfiguration, match="context"):
        AsyncBetterprotoTransport(server)


@pytest.mark.parametrize("family", ["grpcio", "sync-grpcio", "sync-betterproto"])
def test_grpcio_over_tls_wants_credentials_and_is_never_in_plain_text(family: str) -> None:
    server = replace(local("127.0.0.1:1"), context=ssl.create_default_context())
    with pytest.raises(InvalidConfiguration, match="credentials"):
        FAMILIES[family](server)


@every_library
async def test_fetches_side_by_side_share_a_transport(family: str, server: Server) -> None:
    async with opened(family, server.grpc) as client:
        held = await client.fetch()
        several = await asyncio.gather(*(client.fetch(held) for _ in range(5)), client.fetch())
    assert all(one.snapshot.groups == held.snapshot.groups for one in several)
    assert client.traffic.requests == 7


def test_they_are_transports() -> None:
    transports: list[Transport] = [
        GrpcTransport(local("127.0.0.1:1")),
        BetterprotoTransport(local("127.0.0.1:1")),
    ]
    asynchronous: list[AsyncTransport] = [
        AsyncGrpcTransport(local("127.0.0.1:1")),
        AsyncBetterprotoTransport(local("127.0.0.1:1")),
    ]
    assert {(one.server, one.can_listen) for one in transports} == {("127.0.0.1:1", True)}
    assert {(one.server, one.can_listen) for one in asynchronous} == {("127.0.0.1:1", True)}
    for transport in transports:
        transport.close()


async def test_betterproto_decodes_a_large_answer_apart_from_the_event_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[bool] = []

    def noted(data: bytes, read: Callable[[bytes], Message]) -> Message:
        places.append(threading.current_thread() is threading.main_thread())
        return decoded(data, read)

    monkeypatch.setattr(async_betterproto, "decoded", noted)
    async with opened("betterproto", server.grpc) as client:
        held = await client.fetch()
        await client.fetch(replace(held, etags={}))
    assert places == [False, True]
