"""OpenAPI documents of registrations: validated, stored, declared and listed."""

import base64
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Mapping

import grpc
import grpc.aio
import orjson
import pytest
import zstandard
from apidiscovery.service.v1 import registry_pb2
from apidiscovery_betterproto.apidiscovery.service import v1
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.registrations.published import PlacedGroup, from_json
from apidiscovery_service.sources.registrations.record import InvalidRecord, RegistrationKind
from apidiscovery_service.sources.registrations.requests import ApplyOutcome, Reference
from apidiscovery_service.store import MAX_VALUE_BYTES, Entry
from apidiscovery_service.store.memory import MemoryStore
from google.protobuf.json_format import ParseDict
from grpclib.client import Channel
from registration_setup import ANYBODY, apply, discovery_list, group, publication, stored
from registry_server import Replica, Served, following, serving
from waiting import WITHIN_S

KEY = "registrations/groups/east"
ORIGIN = "registrations:groups/east"
PATH = "apis/east.example.com/v1"


def document(
    path: str = "/apis/east.example.com/v1/widgets", **others: JSONValue
) -> dict[str, JSONValue]:
    get = {"responses": {"200": {"description": "<OK>"}}}
    return {
        "openapi": "3.0.0",
        "info": {"title": "east", "version": "v1"},
        "paths": {path: {"get": get}},
        **others,
    }


def sent(value: Mapping[str, JSONValue]) -> bytes:
    return json.dumps(value, indent=2).encode()


async def publish(replica: Replica, documents: Mapping[str, bytes], *versions: str) -> ApplyOutcome:
    placed = PlacedGroup(group("east.example.com", *versions))
    written = await replica.registrations.publish(
        publication("east", placed, documents={0: documents}), ANYBODY
    )
    return written.outcome


def declared(replica: Replica, path: str = PATH) -> bytes | None:
    packed = replica.declarations.document(ORIGIN, path)
    return None if packed is None else zstandard.decompress(packed)


async def violations(replica: Replica, documents: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return the messages of violations by field."""
    with pytest.raises(InvalidFields) as caught:
        await publish(replica, documents)
    found: dict[str, list[str]] = {}
    for violation in caught.value.violations:
        found.setdefault(violation.field, []).append(violation.message)
    return found


# --------------------------------------------------------------------------------------------------
# Accepted and kept.


async def test_a_document_is_declared_as_compact_json_by_every_replica() -> None:
    store = MemoryStore()
    async with following(Replica(store)) as (replica,):
        assert await publish(replica, {"v1": sent(document())}) is ApplyOutcome.CREATED
        assert declared(replica) == go_json.dumps(document())
    async with following(Replica(store)) as (another,):
        assert declared(another) == go_json.dumps(document())


async def test_the_same_document_again_changes_nothing(replica: Replica) -> None:
    await publish(replica, {"v1": sent(document())})
    compact = json.dumps(document()).encode()
    assert await publish(replica, {"v1": compact}) is ApplyOutcome.UNCHANGED


async def test_another_document_alone_is_a_change(replica: Replica) -> None:
    await publish(replica, {"v1": sent(document())})
    told: list[frozenset[str]] = []
    replica.declarations.on_documents(told.append)
    etag = replica.registry.snapshot.named.etag
    other = document(tags=[{"name": "t"}])
    assert await publish(replica, {"v1": sent(other)}) is ApplyOutcome.CONFIGURED
    assert declared(replica) == go_json.dumps(other)
    assert told == [frozenset({"east.example.com"})]
    assert replica.registry.snapshot.named.etag == etag


async def test_publishing_without_it_applying_or_withdrawing_removes_a_document(
    replica: Replica,
) -> None:
    async def apply_a_list() -> None:
        listed = discovery_list(group("east.example.com"))
        await apply(replica, {**listed, "metadata": {"name": "east"}})

    async def withdraw() -> None:
        (registered,) = await stored(replica)
        reference = Reference(registered.kind, registered.name)
        await replica.registrations.withdraw([reference], "", ANYBODY)

    for remove in (lambda: publish(replica, {}), apply_a_list, withdraw):
        await publish(replica, {"v1": sent(document())})
        assert declared(replica) is not None
        await remove()
        assert declared(replica) is None


async def test_each_group_version_has_its_own_document(replica: Replica) -> None:
    groups = [PlacedGroup(group(name, "v2", "v1")) for name in ("", "a.io", "b.io")]
    roots = ("api", "apis/a.io", "apis/b.io")
    values = {f"{root}/{v}": document(f"/{root}/{v}/x") for root in roots for v in ("v1", "v2")}
    documents = {
        place: {v: sent(values[f"{root}/{v}"]) for v in ("v1", "v2")}
        for place, root in enumerate(roots)
    }
    await replica.registrations.publish(publication("east", *groups, documents=documents), ANYBODY)
    for path, value in values.items():
        assert declared(replica, path) == go_json.dumps(value)


# --------------------------------------------------------------------------------------------------
# The record.


async def test_records_with_documents_have_the_format_of_records_without(replica: Replica) -> None:
    await publish(replica, {})
    without = orjson.loads((await entry_of(replica)).value)
    await publish(replica, {"v1": sent(document())})
    kept = orjson.loads((await entry_of(replica)).value)
    fields = kept["content"][0].pop("openapiV3")
    assert kept == without
    canonical = go_json.dumps(document())
    assert fields["v1"]["hash"] == hashlib.sha512(canonical).hexdigest().upper()
    assert zstandard.decompress(base64.b64decode(fields["v1"]["zstd"])) == canonical


async def entry_of(replica: Replica) -> Entry:
    entry = await replica.store.get(KEY)
    assert entry is not None
    return entry


@pytest.mark.parametrize(
    "text",
    [
        "no base64!",
        base64.b64encode(b"no zstd").decode(),
        # A megabyte that says that it is a gigabyte.
        base64.b64encode(b"\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x40").decode(),
    ],
)
async def test_a_damaged_record_is_a_warning_and_can_be_withdrawn(
    replica: Replica, text: str
) -> None:
    await publish(replica, {"v1": sent(document())})
    entry = await entry_of(replica)
    fields = orjson.loads(entry.value)
    fields["content"][0]["openapiV3"]["v1"]["zstd"] = text
    await replica.store.put(KEY, orjson.dumps(fields))
    await replica.registrations.publish(publication("other"), ANYBODY)  # seen after it
    assert declared(replica) == go_json.dumps(document())
    (warning,) = replica.registrations.warnings()
    assert "openapiV3" in warning
    (placed,) = from_json(fields["content"])
    with pytest.raises(InvalidRecord):
        placed.documents["v1"].json()
    await replica.registrations.withdraw([Reference(RegistrationKind.GROUPS, "east")], "", ANYBODY)
    assert declared(replica) is None
    assert replica.registrations.warnings() == []


# --------------------------------------------------------------------------------------------------
# Refused.


async def test_violations_have_field_and_place_and_nothing_is_registered(replica: Replica) -> None:
    wrong = document(components={"schemas": {"A": {"type": "text"}, "B": {"$ref": "C"}}})
    found = await violations(replica, {"v1": sent(wrong), "v9": sent(document())})
    first, second = found['groups[0].openapiV3["v1"]']
    assert first.startswith("$.components.schemas.A.type: want one of ")
    assert second.startswith("$.components.schemas.B['$ref']: ")
    assert found['groups[0].openapiV3["v9"]'] == ["the group has no such version"]
    assert await stored(replica) == []


async def test_a_document_of_other_paths_is_refused(replica: Replica) -> None:
    found = await violations(replica, {"v1": sent(document("/apis/apps/v1/deployments"))})
    assert found == {
        'groups[0].openapiV3["v1"]': [
            "$.paths['/apis/apps/v1/deployments']: want a path below /apis/east.example.com/v1/"
        ]
    }


async def test_a_document_that_is_too_large_once_compressed_is_refused(replica: Replica) -> None:
    repeating = {**document(), "x-text": ["text " * 100_000] * 3}
    assert len(sent(repeating)) > MAX_VALUE_BYTES
    assert await publish(replica, {"v1": sent(repeating)}) is ApplyOutcome.CREATED
    quarters = [base64.b64encode(os.urandom(MAX_VALUE_BYTES // 4)).decode() for _ in range(4)]
    noise = {**document(), "x-text": quarters}
    found = await violations(replica, {"v1": sent(noise)})
    (message,) = found['groups[0].openapiV3["v1"]']
    assert message.startswith("too large to be kept: ")
    assert message.endswith(f"want at most {MAX_VALUE_BYTES} for the whole registration")
    assert declared(replica) == go_json.dumps(repeating)


# --------------------------------------------------------------------------------------------------
# Over gRPC.


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


def request_of(documents: Mapping[str, bytes]) -> registry_pb2.PublishRequest:
    request = registry_pb2.PublishRequest(name="east")
    placed = request.groups.groups.add(openapi_v3=documents)
    ParseDict({"group": group("east.example.com")}, placed)
    return request


async def test_answers_have_hashes_and_documents_only_when_asked(served: Served) -> None:
    canonical = go_json.dumps(document())
    hashes = {"v1": hashlib.sha512(canonical).hexdigest().upper()}
    async with served.stub() as stub:
        response = await stub.Publish(request_of({"v1": sent(document())}), timeout=WITHIN_S)
        listed = await stub.ListRegistrations(
            registry_pb2.ListRegistrationsRequest(), timeout=WITHIN_S
        )
        full = await stub.ListRegistrations(
            registry_pb2.ListRegistrationsRequest(with_openapi=True), timeout=WITHIN_S
        )
    for registration in (response.registration, listed.registrations[0]):
        (placed,) = registration.groups.groups
        assert (dict(placed.openapi_v3), dict(placed.openapi_v3_hashes)) == ({}, hashes)
    (placed,) = full.registrations[0].groups.groups
    assert (dict(placed.openapi_v3), dict(placed.openapi_v3_hashes)) == ({"v1": canonical}, hashes)


async def test_pages_with_documents_stay_below_the_limit_of_clients(served: Served) -> None:
    large = sent(
        {**document(), "x-text": ["text " * 100_000] * 3}
    )  # 1.5 MB, some hundred bytes kept
    async with served.stub() as stub:
        for number in range(5):
            request = request_of({"v1": large})
            request.name = f"east{number}"
            await stub.Publish(request, timeout=WITHIN_S)
        listed = await stub.ListRegistrations(
            registry_pb2.ListRegistrationsRequest(), timeout=WITHIN_S
        )
        assert len(listed.registrations) == 5
        token, pages = "", list[list[str]]()
        while token or not pages:
            page = await stub.ListRegistrations(
                registry_pb2.ListRegistrationsRequest(with_openapi=True, page_token=token),
                timeout=WITHIN_S,
            )
            pages.append([registration.name for registration in page.registrations])
            token = page.next_page_token
    assert pages == [["east0", "east1"], ["east2", "east3"], ["east4"]]


async def test_a_wrong_document_is_an_invalid_argument_that_names_its_field(
    served: Served,
) -> None:
    async with served.stub() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Publish(request_of({"v1": b'{"openapi":'}), timeout=WITHIN_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == (
        'groups.groups[0].openapi_v3["v1"]: $: line 1 column 12: no JSON: Expecting value'
    )


async def test_betterproto_publishes_and_lists_documents(served: Served) -> None:
    request = request_of({"v1": sent(document())})
    channel = Channel("127.0.0.1", served.port)
    try:
        stub = v1.RegistryServiceStub(channel)
        await stub.publish(v1.PublishRequest().parse(request.SerializeToString()))
        listed = await stub.list_registrations(v1.ListRegistrationsRequest(with_openapi=True))
    finally:
        channel.close()
    (placed,) = listed.registrations[0].groups.groups
    assert placed.openapi_v3 == {"v1": go_json.dumps(document())}
