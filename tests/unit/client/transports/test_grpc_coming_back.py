"""A fetch over gRPC soon finds a server that is back, and gives up dead connections."""

import asyncio
import gc
import socket
import time

import pytest
from apidiscovery_client._errors import ServerUnreachable
from apidiscovery_client._interfaces import FetchedSnapshot
from grpc_transports import local, opened
from programs import free_port
from proxies import TcpProxy
from scripted_discovery import Scripted, group, scripted, whole

SOON_S = 10.0  # after the server is back

every_library = pytest.mark.parametrize("family", ["grpcio", "betterproto", "sync-grpcio"])


def script_of(count: int) -> Scripted:
    script = Scripted()
    script.gets.extend([whole(group("", "pods"))] * count)
    return script


@every_library
async def test_a_server_that_was_away_for_long_is_found_soon(family: str) -> None:
    port = free_port()
    async with scripted(script_of(1), port) as script, opened(family, script.address) as client:
        await client.fetch()
    async with opened(family, script.address) as client:
        for _ in range(2):
            with pytest.raises(ServerUnreachable):
                await client.fetch()
        assert client.traffic.requests == 10
        async with scripted(script_of(1), port):
            began = time.monotonic()
            await client.fetch()
            assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize("family", ["grpcio", "sync-grpcio"])
async def test_a_silent_connection_is_given_up_soon(family: str) -> None:
    async with (
        scripted(script_of(1)) as script,
        TcpProxy(script.address) as proxy,
        opened(family, local(proxy.address)) as client,
    ):
        proxy.cut()
        asked = asyncio.create_task(client.fetch())
        await proxy.taken.wait()
        proxy.strand()
        began = time.monotonic()
        await asked
        assert time.monotonic() - began < SOON_S


async def test_after_a_timeout_the_next_connection_is_new() -> None:
    """The other end may be gone without a sign; grpclib alone would find out after 50 s."""
    async with (
        scripted(script_of(2)) as script,
        TcpProxy(script.address) as proxy,
        opened("betterproto", local(proxy.address, 3.0)) as client,
    ):
        await client.fetch()
        proxy.strand()
        with pytest.raises(ServerUnreachable, match="no answer within"):
            await client.fetch()
        await client.fetch()


async def test_connecting_has_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with an address whose machine is gone: nothing answers to the first packet."""
    monkeypatch.setattr("apidiscovery_client._grpc.calls.CONNECT_LOCALLY_S", 0.05)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filling in (first, second):
            filling.settimeout(0)
            filling.connect_ex(full.getsockname())
        address = f"127.0.0.1:{full.getsockname()[1]}"
        async with opened("betterproto", local(address, None)) as client:
            with pytest.raises(ServerUnreachable, match=r"no connection within 0\.05 s"):
                await client.fetch()
            assert client.traffic.requests == 5


@pytest.mark.parametrize("family", ["grpcio", "betterproto"])
async def test_closing_at_any_point_of_a_fetch_leaves_no_connection(family: str) -> None:
    """A connection that is left open is a ResourceWarning of grpclib."""
    async with scripted(script_of(25)) as script:
        for steps in range(25):
            async with opened(family, local(script.address)) as client:
                asked = asyncio.create_task(client.fetch())
                for _ in range(steps):
                    await asyncio.sleep(0)
                await client.close()
                [found] = await asyncio.gather(asked, return_exceptions=True)
            assert isinstance(found, FetchedSnapshot | ServerUnreachable)
    gc.collect()
