"""Both clients send as few requests over HTTP as can be, counted by the server."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from apidiscovery_client._writing import etag_of
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.client import DiscoveryClient
from either_client import Either, InThreads
from fake_api_server import Answer, FakeApiServer, builtin, legacy


def etag(answer: Answer) -> str:
    return f'"{etag_of(answer.body)}"'


def unchanged(answer: Answer) -> Answer:
    """Return what is answered once, and then that it is still so."""
    headers = {"ETag": etag(answer)}
    then = Answer(content_type=None, status=304, headers=headers)
    return replace(answer, headers=headers, then=then)


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    """Return a server of Kubernetes' built-in APIs that did not change since they were asked."""
    routes = {path: unchanged(answer) for path, answer in builtin().items()}
    with FakeApiServer(routes) as server:
        yield server


@pytest.fixture(params=["async", "sync"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


def connect(url: str, *, is_async: bool) -> Either:
    return AsyncDiscoveryClient(url) if is_async else InThreads(DiscoveryClient(url))


class Count:
    """Tells what the server was asked since the last time, by path, each with its ETag."""

    def __init__(self, fake: FakeApiServer) -> None:
        self._fake = fake
        self._told = 0

    def new(self) -> list[tuple[str, str | None]]:
        requests = self._fake.requests[self._told :]
        self._told += len(requests)
        return sorted((one.path, one.headers.get("if-none-match")) for one in requests)


COLD = [("/api", None), ("/apis", None)]
WARM = sorted((path, etag(answer)) for path, answer in builtin().items())


async def test_cold_two_requests_warm_two_that_bring_nothing(
    fake: FakeApiServer, *, is_async: bool
) -> None:
    count = Count(fake)
    async with connect(fake.url, is_async=is_async) as client:
        for name in ("deploy", "po", "services"):
            await client.resolve(name)
        assert count.new() == COLD
        received = client.traffic.body_bytes
        await client.refresh()
        assert count.new() == WARM
        assert client.traffic.not_modified == 2
        assert client.traffic.body_bytes == received


async def test_a_server_that_does_not_aggregate_is_asked_for_all_once(*, is_async: bool) -> None:
    with FakeApiServer(legacy()) as fake:
        count = Count(fake)
        async with connect(fake.url, is_async=is_async) as client:
            await client.snapshot()
            assert len(count.new()) > 20
            await client.resolve("deploy")
            assert count.new() == []
