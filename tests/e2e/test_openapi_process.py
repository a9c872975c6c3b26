"""OpenAPI of a real server: what is told is described at once, and by every replica."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from apidiscovery.openapi.v3 import openapi_pb2 as v3_pb2
from apidiscovery.service.v1 import openapi_pb2, registry_pb2
from apidiscovery.service.v1.openapi_pb2_grpc import OpenAPIServiceStub
from crd_manifests import edited, simple
from fake_api_server import sha512
from media_types import JSON_V2
from openapi_process import (
    INDEX,
    PROTOBUF,
    apply,
    canonical,
    crontabs,
    describing,
    document,
    index,
    is_not_found,
    publication,
    publish,
    registry,
    withdraw,
)
from programs import kubectl
from raw_http import get
from server import Serve, Server, serving
from waiting import WITHIN_S, eventually

GENERATED = "x-apidiscovery-generated"
# Until what one process has written is served by another, as docs/reliability.md guarantees.
SHARED_S = 10.0

CRONTAB = "apis/stable.example.com/v1"
NONE = ("--catalog", "none")


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that knows nothing at first; each test has groups of its own."""
    folder = tmp_path_factory.mktemp("openapi")
    with serving(folder, *NONE, "--store", "memory") as server:
        yield server


# Published.


def test_a_published_document_is_served_as_kubernetes_writes_it(server: Server) -> None:
    wanted = describing("shop.example.com")
    key = publish(server, "shop.example.com", wanted)
    answer = document(server, key)
    assert (answer.status, answer.body) == (200, canonical(wanted))
    assert answer.etag == f'"{sha512(canonical(wanted))}"'
    assert index(server)[key] == sha512(canonical(wanted))
    binary = document(server, key, PROTOBUF)
    assert (binary.content_type, binary.etag) == ([PROTOBUF], answer.etag)
    (schema,) = v3_pb2.Document.FromString(binary.body).components.schemas.additional_properties
    assert (schema.name, schema.value.schema.description) == ("com.example.Thing", "A thing.")


def test_kubectl_explains_what_is_published(server: Server, tmp_path: Path) -> None:
    group = "told.example.com"
    publish(server, group, describing(group, "What nobody else tells."))
    flags = ("--server", server.url, "explain", "--api-version", f"{group}/v1")
    whole = kubectl(tmp_path, *flags, "things")
    assert (whole.exit_code, whole.stderr) == (0, "")
    assert whole.stdout.startswith(f"GROUP:      {group}\nKIND:       Thing\nVERSION:    v1\n")
    assert "What nobody else tells." in whole.stdout
    field = kubectl(tmp_path, *flags, "things.size")
    assert "FIELD: size <integer>" in field.stdout
    assert "How large <it> is." in field.stdout


def test_what_is_published_again_without_its_document_has_a_generated_one(server: Server) -> None:
    group = "plain.example.com"
    key = publish(server, group, describing(group))
    carried = index(server)[key]
    publish(server, group)
    made = document(server, key).json()
    assert GENERATED in made
    assert f"/apis/{group}/v1/things" in cast("dict[str, object]", made["paths"])
    moved = get(server.http_port, f"{INDEX}/{key}?hash={carried}")
    assert moved.status == 301
    assert moved.values("location") == [f"{INDEX}/{key}?hash={index(server)[key]}"]
    publish(server, group, describing(group))
    assert index(server)[key] == carried
    withdraw(server, registry_pb2.REGISTRATION_KIND_GROUPS, "plain")
    assert is_not_found(server, key)


def test_the_document_of_an_owner_who_is_silent_stays(server: Server) -> None:
    group = "silent.example.com"
    request = publication(group, describing(group))
    request.owner = "silent"
    request.lease.duration.FromTimedelta(timedelta(seconds=3))
    request.lease.removal_after.FromTimedelta(timedelta(seconds=60))
    with registry(server) as stub:
        stub.Publish(request, timeout=WITHIN_S)
    key = f"apis/{group}/v1"
    before = index(server)[key]

    def freshness() -> str:
        items = cast("list[Any]", get(server.http_port, "/apis", JSON_V2).json()["items"])
        (item,) = [item for item in items if item["metadata"]["name"] == group]
        return str(item["versions"][0]["freshness"])

    assert freshness() == "Current"
    eventually(lambda: freshness() == "Stale", "the owner is missed")
    answer = document(server, key)
    assert (answer.body, index(server)[key]) == (canonical(describing(group)), before)


# Defined.


def test_a_definition_has_its_document_as_soon_as_it_is_applied(server: Server) -> None:
    group = "cron.example.org"
    key = f"apis/{group}/v1"
    assert is_not_found(server, key)
    apply(server, crontabs(group, "first"))
    before = index(server)
    first = document(server, key)
    assert (first.status, first.etag) == (200, f'"{sha512(first.body)}"')
    assert b'"description":"first"' in first.body
    apply(server, crontabs(group, "second"))
    after = index(server)
    assert [name for name in after if after[name] != before.get(name)] == [key]
    assert before.keys() == after.keys()
    moved = get(server.http_port, f"{INDEX}/{key}?hash={before[key]}")
    assert (moved.status, moved.body) == (301, b"")
    assert moved.values("location") == [f"{INDEX}/{key}?hash={after[key]}"]
    assert b'"description":"second"' in document(server, key).body
    withdraw(server, registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION, f"crontabs.{group}")
    assert is_not_found(server, key)
    assert is_not_found(server, f"apis/{group}/v1beta1")


def test_a_definition_has_a_schema_at_once(server: Server) -> None:
    path = "/schemas/fresh.example.com/thing_v1.json"
    assert get(server.http_port, path).status == 404
    apply(server, simple("things", "fresh.example.com"))
    answer = get(server.http_port, path)
    assert (answer.status, answer.json()["title"]) == (200, "Thing fresh.example.com/v1")
    assert b"fresh.example.com/thing_v1.json" in get(server.http_port, "/schemas/").body


def test_a_definition_whose_names_are_taken_has_no_document(server: Server) -> None:
    group = "taken.example.org"
    second = edited(simple("cogs", group, kind="Gear"), "spec.versions[0].name", "v2")
    apply(server, simple("gears", group, kind="Gear"))
    apply(server, second)
    assert index(server)[f"apis/{group}/v1"]
    assert is_not_found(server, f"apis/{group}/v2")
    # Once the names are free it is established, and described.
    withdraw(server, registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION, f"gears.{group}")
    assert is_not_found(server, f"apis/{group}/v1")
    assert f"/apis/{group}/v2/namespaces/{{namespace}}/cogs" in (
        cast("dict[str, object]", document(server, f"apis/{group}/v2").json()["paths"])
    )


# Over gRPC.


@pytest.mark.parametrize("key", [CRONTAB, "apis/shop.example.com/v1", "apis/plain.example.com/v1"])
def test_grpc_has_the_hashes_and_the_bytes_of_http(server: Server, key: str) -> None:
    apply(server, crontabs("stable.example.com"))
    publish(server, "shop.example.com", describing("shop.example.com"))
    publish(server, "plain.example.com")
    with grpc.insecure_channel(server.grpc) as channel:
        stub = OpenAPIServiceStub(channel)
        found = stub.GetIndex(openapi_pb2.GetIndexRequest())
        assert f'"{found.etag}"' == get(server.http_port, INDEX).etag
        assert {entry.key: entry.hash for entry in found.index.entries} == index(server)
        for form, accept in (
            (openapi_pb2.OPEN_API_DOCUMENT_FORM_JSON, None),
            (openapi_pb2.OPEN_API_DOCUMENT_FORM_PROTOBUF, PROTOBUF),
        ):
            header, *pieces = stub.GetDocument(openapi_pb2.GetDocumentRequest(key=key, form=form))
            assert header.header.hash == index(server)[key]
            whole = b"".join(piece.chunk for piece in pieces)
            assert whole == document(server, key, accept).body


# Replicas.


def test_servers_of_one_store_state_the_same(serve: Serve, tmp_path: Path) -> None:
    store = ("--store", f"sqlite:{tmp_path / 'store.sqlite'}")
    one, other = (serve(*NONE, *store) for _ in range(2))
    key = publish(one, "shop.example.com", describing("shop.example.com"))
    apply(other, crontabs("stable.example.com"))
    eventually(lambda: CRONTAB in index(one), "what the other wrote is described", SHARED_S)
    eventually(lambda: key in index(other), "what the one wrote is described", SHARED_S)
    for path, accept in ((INDEX, None), ("/apis", JSON_V2)):
        answers = [get(server.http_port, path, accept) for server in (one, other)]
        assert answers[0].body == answers[1].body
        assert answers[0].etag == answers[1].etag
    assert document(one, key).body == document(other, key).body
