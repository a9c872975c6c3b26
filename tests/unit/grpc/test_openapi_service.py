"""OpenAPIService: index, documents and bundles, as both families of stubs see them."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from unittest.mock import AsyncMock, MagicMock

import betterproto
import grpc
import pytest
from apidiscovery.openapi.v3 import openapi_pb2 as v3_pb2
from apidiscovery.service.v1 import openapi_pb2, openapi_pb2_grpc
from apidiscovery_betterproto.apidiscovery.service import v1
from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.body import Body, DocumentForm, Index
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import AdmissionInterceptor, DiscoveryService
from apidiscovery_service.serving.grpc import openapi as openapi_service
from apidiscovery_service.serving.grpc.calls import Stream
from apidiscovery_service.serving.grpc.openapi import CHUNK_BYTES, OpenAPIService
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)
from grpc_errors import details_of, refusal, violations_of
from grpc_server import GrpcServed
from waiting import WITHIN_S, until

M = TypeVar("M")

UNKNOWN = cast("openapi_pb2.OpenAPIDocumentForm.ValueType", 99)
PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
LARGE = bytes(range(256)) * 20_000  # 5 MB, more than a default client takes in one message

REAL = b'{"openapi":"3.0.0","info":{"title":"batch","version":"1"},"paths":{}}'

CONTENT = {
    "api": b"{}",
    "api/v1": b'{"core":1}',
    "apis/apps": b'{"group":1}',
    "apis/apps/v1": LARGE,
    "apis/batch/v1": b'{"batch":1}',
    "version": b'{"version":1}',
}


def digest(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest().upper()


class BrokenError(DiscoveryError):
    """A document cannot be made."""


@dataclass
class FakeDocuments:
    """Documents that stand in a dictionary.

    Attributes:
        made: The bodies that were asked for, in order.
        on_made: Called before each.
    """

    content: dict[str, bytes] = field(default_factory=CONTENT.copy)
    made: list[tuple[str, DocumentForm]] = field(default_factory=list[tuple[str, DocumentForm]])
    on_made: Callable[[str], object] = lambda _: None

    async def index(self) -> Index:
        entries = {key: digest(content) for key, content in sorted(self.content.items())}
        etag = digest(repr(entries).encode())
        return Index(entries, b"", etag, {"apis/batch/v1": "from discovery"})

    async def hash_of(self, key: str) -> str | None:
        return digest(self.content[key]) if key in self.content else None

    async def body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
        assert coding == "identity"
        self.made.append((key, form))
        self.on_made(key)
        if key not in self.content:
            return None
        content = self.content[key]
        data = content if form is DocumentForm.JSON else b"\x0a" + content
        return Body(key, digest(content), data)


@dataclass
class Served(GrpcServed):
    documents: FakeDocuments = field(repr=False)  # asyncio writes what a fixture returned

    def stub(self) -> AbstractAsyncContextManager["openapi_pb2_grpc.OpenAPIServiceAsyncStub"]:
        return self.connected(openapi_pb2_grpc.OpenAPIServiceStub)


@asynccontextmanager
async def serving(
    documents: Documents | None = None, *, enabled: bool = True, access: Access | None = None
) -> AsyncGenerator[Served]:
    """Serve documents, of a fake where no others are given."""
    registry = Registry()
    served = Served(FakeDocuments())
    metrics = served.metrics
    discovery = DiscoveryService(registry, CurrentEncoding(registry), FeatureGates(), metrics)
    service = OpenAPIService(
        documents or served.documents, metrics, enabled=enabled, ready=lambda: served.ready
    )
    interceptors = [AdmissionInterceptor(access, metrics)] if access else []
    async with served.running(discovery, service, interceptors=interceptors):
        yield served


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


def made(message: Callable[..., M], fields: Mapping[str, object]) -> M:
    """Return a message of these fields."""
    return message(**fields)


async def index_of(served: Served, if_none_match: str = "") -> openapi_pb2.GetIndexResponse:
    async with served.stub() as stub:
        request = openapi_pb2.GetIndexRequest(if_none_match=if_none_match)
        return await stub.GetIndex(request, timeout=WITHIN_S)


async def document_of(
    served: Served, **fields: object
) -> tuple[openapi_pb2.OpenAPIDocumentHeader, bytes, Sequence[int]]:
    """Return header, document and the size of each piece."""
    async with served.stub() as stub:
        call = stub.GetDocument(made(openapi_pb2.GetDocumentRequest, fields), timeout=WITHIN_S)
        parts = [part async for part in cast("AsyncIterable[Any]", call)]
    assert [part.WhichOneof("part") for part in parts] == ["header"] + ["chunk"] * (len(parts) - 1)
    chunks = [part.chunk for part in parts[1:]]
    return parts[0].header, b"".join(chunks), [len(chunk) for chunk in chunks]


async def bundle_of(
    served: Served, **fields: object
) -> tuple[openapi_pb2.GetBundleResponse.Outline, dict[str, bytes], list[str]]:
    """Return the outline, the documents in order, and the keys of those removed meanwhile."""
    async with served.stub() as stub:
        call = stub.GetBundle(made(openapi_pb2.GetBundleRequest, fields), timeout=WITHIN_S)
        parts = [part async for part in cast("AsyncIterable[Any]", call)]
    assert parts[0].WhichOneof("part") == "outline"
    documents: dict[str, bytes] = {}
    gone: list[str] = []
    key = ""
    for part in parts[1:]:
        match part.WhichOneof("part"):
            case "header":
                key = part.header.key
                documents[key] = b""
            case "chunk":
                documents[key] += part.chunk
            case _:
                gone.append(part.gone)
    return parts[0].outline, documents, gone


# --------------------------------------------------------------------------------------------------
# The index.


async def test_the_index_has_every_document_with_hash_and_url(served: Served) -> None:
    response = await index_of(served)
    entries = response.index.entries
    assert [entry.key for entry in entries] == sorted(CONTENT)
    by_key = {entry.key: entry for entry in entries}
    apps = by_key["apis/apps/v1"]
    assert (apps.group, apps.version, apps.hash) == ("apps", "v1", digest(LARGE))
    assert apps.server_relative_url == f"/openapi/v3/apis/apps/v1?hash={digest(LARGE)}"
    assert by_key["apis/batch/v1"].note == "from discovery"
    named = {key: (entry.group, entry.version) for key, entry in by_key.items()}
    assert named["api/v1"] == ("", "v1")
    assert named["apis/apps"] == ("apps", "")
    assert named["version"] == named["api"] == ("", "")


async def test_an_index_that_the_caller_has_is_not_sent(served: Served) -> None:
    etag = (await index_of(served)).etag
    for known in (etag, f'"{etag}"'):
        response = await index_of(served, known)
        assert (response.WhichOneof("result"), response.etag) == ("not_modified", etag)
    served.documents.content["api"] = b"[]"
    assert (await index_of(served, etag)).WhichOneof("result") == "index"


async def test_an_index_is_encoded_once() -> None:
    keys = [f"apis/g{number}.example/v1" for number in range(4000)]
    index = Index(dict.fromkeys(keys, "A" * 128), b"", "E", {keys[0]: "a note"})

    class Many(FakeDocuments):
        async def index(self) -> Index:
            return index

    service = OpenAPIService(Many(), Metrics())
    asked = [service.index(openapi_pb2.GetIndexRequest(), MagicMock()) for _ in range(3)]
    first, *others = await asyncio.gather(*asked)
    assert [entry.key for entry in first.index.entries] == keys
    assert first.index.entries[0].note == "a note"
    assert all(other is first for other in others)


async def test_a_bundle_of_many_keys_does_not_hold_the_loop(served: Served) -> None:
    yields = 0

    async def count() -> None:
        nonlocal yields
        while True:
            await asyncio.sleep(0)
            yields += 1

    counting = asyncio.create_task(count())
    keys = [f"apis/none{number}.example/v1" for number in range(20_000)]
    service = OpenAPIService(served.documents, Metrics())
    stream = AsyncMock(spec=Stream)
    await service.bundle(openapi_pb2.GetBundleRequest(keys=keys), stream)
    counting.cancel()
    assert yields >= 30
    (sent,) = stream.send.await_args_list
    assert len(sent.args[0].outline.gone) == 20_000


# --------------------------------------------------------------------------------------------------
# Documents.


async def test_a_large_document_comes_in_pieces_that_default_clients_take(served: Served) -> None:
    header, data, sizes = await document_of(served, key="apis/apps/v1")
    assert data == LARGE
    assert header.size_bytes == len(LARGE) == sum(sizes)
    assert max(sizes) <= CHUNK_BYTES < 1024 * 1024
    assert (header.key, header.hash) == ("apis/apps/v1", digest(LARGE))
    assert header.media_type == "application/json"
    assert not header.superseded
    assert not header.not_modified


@pytest.mark.parametrize(
    ("group", "version", "key"), [("", "v1", "api/v1"), ("batch", "v1", "apis/batch/v1")]
)
async def test_a_document_is_found_by_its_group_version(
    served: Served, group: str, version: str, key: str
) -> None:
    wanted = openapi_pb2.OpenAPIGroupVersion(group=group, version=version)
    header, data, _ = await document_of(served, group_version=wanted)
    assert (header.key, data) == (key, CONTENT[key])


async def test_protobuf_has_its_media_type_and_the_hash_of_the_json(served: Served) -> None:
    header, data, _ = await document_of(
        served, key="api/v1", form=openapi_pb2.OPEN_API_DOCUMENT_FORM_PROTOBUF
    )
    assert data == b"\x0a" + CONTENT["api/v1"]
    assert (header.media_type, header.hash) == (PROTOBUF, digest(CONTENT["api/v1"]))
    assert header.size_bytes == len(data)


async def test_another_hash_returns_the_current_document_as_superseded(served: Served) -> None:
    header, data, _ = await document_of(served, key="api", hash=digest(b"{}"))
    assert (header.superseded, data) == (False, b"{}")
    header, data, _ = await document_of(served, key="api", hash="0" * 128)
    assert (header.superseded, header.hash, data) == (True, digest(b"{}"), b"{}")


async def test_a_document_that_the_caller_has_is_neither_made_nor_sent(served: Served) -> None:
    current = digest(LARGE)
    for known in (current, f'"{current}"'):
        header, data, _ = await document_of(served, key="apis/apps/v1", if_none_match=known)
        assert (header.not_modified, header.hash, header.size_bytes) == (True, current, 0)
        assert data == b""
    assert served.documents.made == []
    header, data, _ = await document_of(served, key="apis/apps/v1", if_none_match="0" * 128)
    assert (header.not_modified, data) == (False, LARGE)
    header, _, _ = await document_of(served, key="api", hash="0", if_none_match=digest(b"{}"))
    assert header.superseded
    assert header.not_modified


@pytest.mark.parametrize("known", ["", "0" * 128])
async def test_a_document_that_is_not_there_is_not_found(served: Served, known: str) -> None:
    awaited = document_of(served, key="apis/none/v1", if_none_match=known)
    error = await refusal(awaited)
    (info,) = details_of(error)
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert (info.reason, dict(info.metadata)) == ("DOCUMENT_NOT_FOUND", {"key": "apis/none/v1"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["key"]),
        ({"key": ""}, ["key"]),
        ({"group_version": openapi_pb2.OpenAPIGroupVersion(group="a")}, ["group_version.version"]),
        ({"key": "api", "form": UNKNOWN}, ["form"]),
    ],
)
async def test_requests_for_documents_are_checked(
    served: Served, fields: dict[str, Any], expected: list[str]
) -> None:
    error = await refusal(document_of(served, **fields))
    assert [*violations_of(error)] == expected


# --------------------------------------------------------------------------------------------------
# Bundles.


async def test_a_bundle_of_all_has_every_document_in_order(served: Served) -> None:
    outline, documents, gone = await bundle_of(served)
    assert documents == CONTENT
    assert list(documents) == sorted(CONTENT)
    assert outline.documents == len(CONTENT)
    assert [*outline.unchanged, *outline.gone, *gone] == []
    assert outline.index_etag == (await index_of(served)).etag


async def test_a_bundle_has_only_what_differs_and_names_the_rest(served: Served) -> None:
    known = {key: digest(content) for key, content in CONTENT.items()}
    known |= {"api": "0" * 128, "apis/old/v1": "1" * 128}
    outline, documents, _ = await bundle_of(served, known_hashes=known)
    assert documents == {"api": b"{}"}
    assert outline.documents == 1
    assert list(outline.unchanged) == sorted(CONTENT.keys() - {"api"})
    assert list(outline.gone) == ["apis/old/v1"]
    assert served.documents.made == [("api", DocumentForm.JSON)]


async def test_a_bundle_of_chosen_keys_has_no_others(served: Served) -> None:
    keys = ["version", "apis/none/v1", "api", "version"]
    outline, documents, _ = await bundle_of(
        served,
        keys=keys,
        known_hashes={"api": digest(b"{}"), "apis/old/v1": "0"},
        form=openapi_pb2.OPEN_API_DOCUMENT_FORM_PROTOBUF,
    )
    assert documents == {"version": b"\x0a" + CONTENT["version"]}
    assert (outline.documents, outline.index_etag) == (1, "")
    assert (list(outline.unchanged), list(outline.gone)) == (["api"], ["apis/none/v1"])


async def test_a_document_removed_meanwhile_is_named_in_its_place(served: Served) -> None:
    content = served.documents.content
    served.documents.on_made = lambda key: content.pop("api/v1", None) if key == "api" else None
    outline, documents, gone = await bundle_of(served)
    assert outline.documents == len(CONTENT)
    assert documents.keys() == CONTENT.keys() - {"api/v1"}
    assert gone == ["api/v1"]


async def test_a_slow_reader_delays_the_next_documents(served: Served) -> None:
    served.documents.content = {f"apis/g{n}/v1": LARGE for n in range(8)}
    async with served.stub() as stub:
        call = stub.GetBundle(openapi_pb2.GetBundleRequest(), timeout=WITHIN_S)
        await until(lambda: served.documents.made)
        await asyncio.sleep(0.2)  # in which a reader would have had it all
        assert len(served.documents.made) < 5
        parts = [part async for part in cast("AsyncIterable[Any]", call)]
    assert sum(len(part.chunk) for part in parts) == 8 * len(LARGE)


async def test_a_reader_that_goes_ends_the_making(served: Served) -> None:
    served.documents.content = {f"apis/g{n}/v1": LARGE for n in range(8)}
    async with served.stub() as stub:
        call = stub.GetBundle(openapi_pb2.GetBundleRequest(), timeout=WITHIN_S)
        await until(lambda: served.documents.made)
        call.cancel()
    counted = b'method="GetBundle"'
    await until(lambda: counted in served.metrics.text())
    assert len(served.documents.made) < 5


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"form": UNKNOWN}, ["form"]),
        ({"keys": ["", "api"], "known_hashes": {"": ""}}, ["keys", "known_hashes"]),
        ({"keys": [f"{n}" for n in range(openapi_service.MAX_KEYS + 1)]}, ["keys"]),
        ({"known_hashes": {"k" * (openapi_service.MAX_KEY_BYTES + 1): ""}}, ["keys"]),
    ],
)
async def test_requests_for_bundles_are_checked(
    served: Served, fields: dict[str, Any], expected: list[str]
) -> None:
    error = await refusal(bundle_of(served, **fields))
    assert [*violations_of(error)] == expected


# --------------------------------------------------------------------------------------------------
# When it does not serve.


@pytest.mark.parametrize("call", [index_of, document_of, bundle_of])
async def test_nothing_is_served_until_the_sources_are_read(
    served: Served, call: Callable[[Served], Any]
) -> None:
    served.ready = False
    error = await refusal(call(served))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("call", [index_of, document_of, bundle_of])
async def test_without_the_feature_gate_nothing_is_implemented(
    call: Callable[[Served], Any],
) -> None:
    async with serving(enabled=False) as served:
        error = await refusal(call(served))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_document_that_cannot_be_made_fails_with_the_reason(served: Served) -> None:
    def fail(_: str) -> None:
        raise BrokenError("no such luck")

    served.documents.on_made = fail
    error = await refusal(document_of(served, key="api"))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details() == "a document cannot be made: no such luck"


# --------------------------------------------------------------------------------------------------
# betterproto.


async def test_betterproto_reads_index_document_and_bundle(served: Served) -> None:
    async with served.grpclib_channel() as channel:
        stub = v1.OpenApiServiceStub(channel)
        index = await stub.get_index(v1.GetIndexRequest())
        assert [entry.key for entry in index.index.entries] == sorted(CONTENT)
        request = v1.GetDocumentRequest(
            group_version=v1.OpenApiGroupVersion(group="apps", version="v1")
        )
        parts = [part async for part in stub.get_document(request)]
        assert parts[0].header.size_bytes == len(LARGE)
        assert b"".join(part.chunk for part in parts[1:]) == LARGE
        bundle = [
            part
            async for part in stub.get_bundle(
                v1.GetBundleRequest(known_hashes={"apis/apps/v1": digest(LARGE), "old": ""})
            )
        ]
        assert bundle[0].outline.unchanged == ["apis/apps/v1"]
        assert bundle[0].outline.gone == ["old"]
        headers = [
            p.header.key for p in bundle if betterproto.which_one_of(p, "part")[0] == "header"
        ]
        assert headers == sorted(CONTENT.keys() - {"apis/apps/v1"})


# --------------------------------------------------------------------------------------------------
# Documents of recipes.


class OneRecipe:
    """A group-version with a document."""

    def groups(self) -> Sequence[str]:
        return ["batch"]

    def of_group(self, group: str) -> Mapping[str, Recipe]:
        async def make() -> bytes:
            return REAL

        return {"apis/batch/v1": Recipe("1", make)} if group == "batch" else {}

    def common(self) -> Mapping[str, Recipe]:
        return {}


async def test_the_documents_of_the_server_are_served() -> None:
    async with serving(Documents(OneRecipe())) as served:
        (entry,) = (await index_of(served)).index.entries
        assert (entry.key, entry.hash) == ("apis/batch/v1", digest(REAL))
        header, data, _ = await document_of(served, key=entry.key, hash=entry.hash)
        assert (header.superseded, data) == (False, REAL)
        form = openapi_pb2.OPEN_API_DOCUMENT_FORM_PROTOBUF
        _, encoded, _ = await document_of(served, key=entry.key, form=form)
        assert v3_pb2.Document.FromString(encoded).info.title == "batch"
        _, documents, _ = await bundle_of(served)
        assert documents == {entry.key: REAL}
