"""OpenAPIService of a real server, with the stubs of both families: it has what HTTP has."""

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import betterproto
import grpc
import pytest
from apidiscovery.service.v1 import openapi_pb2
from apidiscovery.service.v1.openapi_pb2_grpc import OpenAPIServiceStub
from apidiscovery_betterproto.apidiscovery.service import v1
from grpclib.client import Channel
from openapi_process import (
    INDEX,
    PROTOBUF,
    apply,
    crontabs,
    describing,
    digest,
    document,
    index,
    publish,
)
from raw_http import get
from server import Server, serving

CRONTAB = "apis/stable.example.com/v1"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What GetBundle sends.

    Attributes:
        documents: By key, in the order in which they came.
    """

    unchanged: list[str]
    gone: list[str]
    documents: dict[str, bytes]


def pieced(outline: Any, parts: Iterator[tuple[str, bytes]]) -> Bundle:  # noqa: ANN401 - of either family
    """Put pieces together; a part is a key that begins a document, or a piece of the last one."""
    documents: dict[str, bytes] = {}
    key = ""
    for header, chunk in parts:
        key = header or key
        documents[key] = documents.get(key, b"") + chunk
    assert outline.documents == len(documents)
    return Bundle(list(outline.unchanged), list(outline.gone), documents)


def grpcio_hashes(server: Server) -> dict[str, str]:
    with grpc.insecure_channel(server.grpc) as channel:
        response = OpenAPIServiceStub(channel).GetIndex(openapi_pb2.GetIndexRequest())
    assert f'"{response.etag}"' == get(server.http_port, INDEX).etag
    return {entry.key: entry.hash for entry in response.index.entries}


def grpcio_document(server: Server, key: str, *, protobuf: bool) -> bytes:
    form = (
        openapi_pb2.OPEN_API_DOCUMENT_FORM_PROTOBUF
        if protobuf
        else openapi_pb2.OPEN_API_DOCUMENT_FORM_JSON
    )
    request = openapi_pb2.GetDocumentRequest(key=key, form=form)
    with grpc.insecure_channel(server.grpc) as channel:
        header, *pieces = OpenAPIServiceStub(channel).GetDocument(request)
    assert header.header.hash == index(server)[key]
    return b"".join(piece.chunk for piece in pieces)


def grpcio_bundle(server: Server, known: Mapping[str, str]) -> Bundle:
    with grpc.insecure_channel(server.grpc) as channel:
        call = OpenAPIServiceStub(channel).GetBundle(
            openapi_pb2.GetBundleRequest(known_hashes=known)
        )
        first, *parts = call
    return pieced(first.outline, ((part.header.key, part.chunk) for part in parts))


@contextmanager
def betterproto_stub(server: Server) -> Generator[v1.OpenApiServiceStub]:
    host, _, port = server.grpc.rpartition(":")
    channel = Channel(host, int(port))
    try:
        yield v1.OpenApiServiceStub(channel)
    finally:
        channel.close()


def betterproto_hashes(server: Server) -> dict[str, str]:
    async def ask() -> v1.GetIndexResponse:
        with betterproto_stub(server) as stub:
            return await stub.get_index(v1.GetIndexRequest())

    return {entry.key: entry.hash for entry in asyncio.run(ask()).index.entries}


def betterproto_document(server: Server, key: str, *, protobuf: bool) -> bytes:
    request = v1.GetDocumentRequest(key=key, form=v1.OpenApiDocumentForm(2 if protobuf else 1))

    async def ask() -> list[v1.GetDocumentResponse]:
        with betterproto_stub(server) as stub:
            return [part async for part in stub.get_document(request)]

    header, *pieces = asyncio.run(ask())
    assert header.header.hash == index(server)[key]
    return b"".join(piece.chunk for piece in pieces)


def betterproto_bundle(server: Server, known: Mapping[str, str]) -> Bundle:
    request = v1.GetBundleRequest(known_hashes=dict(known))

    async def ask() -> list[v1.GetBundleResponse]:
        with betterproto_stub(server) as stub:
            return [part async for part in stub.get_bundle(request)]

    first, *parts = asyncio.run(ask())
    return pieced(first.outline, map(betterproto_part, parts))


def betterproto_part(part: v1.GetBundleResponse) -> tuple[str, bytes]:
    name, _ = betterproto.which_one_of(part, "part")
    return (part.header.key, b"") if name == "header" else ("", part.chunk)


@dataclass(frozen=True, slots=True)
class Family:
    """What one family of stubs gives."""

    hashes: Callable[[Server], dict[str, str]]
    document: Callable[..., bytes]
    bundle: Callable[[Server, Mapping[str, str]], Bundle]


FAMILIES = {
    "grpcio": Family(grpcio_hashes, grpcio_document, grpcio_bundle),
    "betterproto": Family(betterproto_hashes, betterproto_document, betterproto_bundle),
}


@pytest.fixture(scope="module", name="described")
def fixture_described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of built-in, defined and published groups."""
    with serving(tmp_path_factory.mktemp("described"), "--store", "memory") as server:
        apply(server, crontabs("stable.example.com"))
        publish(server, "shop.example.com", describing("shop.example.com"))
        publish(server, "plain.example.com")
        yield server


FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@FAMILY
def test_grpc_has_the_hashes_of_http(described: Server, family: Family) -> None:
    found = family.hashes(described)
    assert found == index(described)
    assert found.keys() >= {"api/v1", "apis/apps/v1", CRONTAB, "apis/shop.example.com/v1"}


@FAMILY
@pytest.mark.parametrize(
    "key", ["apis/apps/v1", CRONTAB, "apis/shop.example.com/v1", "apis/plain.example.com/v1"]
)
def test_grpc_has_the_bytes_of_http(described: Server, family: Family, key: str) -> None:
    assert family.document(described, key, protobuf=False) == document(described, key).body
    binary = document(described, key, PROTOBUF).body
    assert family.document(described, key, protobuf=True) == binary


@FAMILY
def test_a_bundle_has_only_what_differs(described: Server, family: Family) -> None:
    current = index(described)
    known = {**current, CRONTAB: "0" * 128, "apis/gone.example.com/v1": "0" * 128}
    del known["apis/apps/v1"]
    bundle = family.bundle(described, known)
    assert bundle.gone == ["apis/gone.example.com/v1"]
    assert bundle.unchanged == sorted(current.keys() - bundle.documents.keys())
    assert list(bundle.documents) == ["apis/apps/v1", CRONTAB]
    for key, data in bundle.documents.items():
        assert digest(data) == current[key]
    assert family.bundle(described, current).documents == {}
