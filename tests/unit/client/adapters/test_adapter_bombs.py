"""Decompression is bounded also through clients of other packages."""

import gzip
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import kr8s.asyncio
import pytest
from apidiscovery_client import UnexpectedDocument
from apidiscovery_client.adapters import kr8s as kr8s_adapter
from apidiscovery_client.adapters import kubernetes as kubernetes_adapter
from apidiscovery_client.adapters import kubernetes_asyncio as kubernetes_asyncio_adapter
from apidiscovery_client.adapters._async_borrowed import AsyncBorrowedTransport
from apidiscovery_client.adapters._borrowed import BorrowedTransport
from fake_api_server import Answer, FakeApiServer, Request, document
from kubernetes import client as kube
from kubernetes_asyncio import client as kube_asyncio
from media_types import aggregated_type


@cache
def packed() -> bytes:
    return gzip.compress(bytes((64 << 20) + 1), 1)


def bomb(request: Request) -> Answer:
    if request.path.startswith("/version"):  # which kr8s asks for by itself
        return document({"major": "1", "minor": "35", "gitVersion": "v1.35.0"})
    return Answer(packed(), aggregated_type(), headers={"Content-Encoding": "gzip"})


@pytest.fixture
def url() -> Iterator[str]:
    with FakeApiServer(bomb) as server:
        yield server.url


EXCEEDS = pytest.raises(UnexpectedDocument, match="the body exceeds 67108864 bytes")


def test_a_bomb_is_refused_through_kubernetes(url: str) -> None:
    api_client = cast("Any", kube.ApiClient)(cast("Any", kube.Configuration)(host=url))
    send = cast("Any", kubernetes_adapter)._Sender(api_client)  # noqa: SLF001 - apart from what it retries
    transport = BorrowedTransport(url, send, ())
    with EXCEEDS:
        transport.fetch(None)


async def test_a_bomb_is_refused_through_kubernetes_asyncio(url: str) -> None:
    configuration = cast("Any", kube_asyncio.Configuration)(host=url)
    async with cast("Any", kube_asyncio.ApiClient)(configuration) as api_client:
        send = cast("Any", kubernetes_asyncio_adapter)._Sender(api_client)  # noqa: SLF001 - as above
        transport = AsyncBorrowedTransport(url, send, ())
        with EXCEEDS:
            await transport.fetch(None)


async def test_a_bomb_is_refused_through_kr8s(url: str) -> None:
    api = cast("Any", await kr8s.asyncio.api(url=url))
    send = cast("Any", kr8s_adapter)._Sender(api)  # noqa: SLF001 - as above
    transport = AsyncBorrowedTransport(url, send, ())
    try:
        with EXCEEDS:
            await transport.fetch(None)
    finally:
        await api._session.aclose()  # noqa: SLF001 - kr8s has no other way
