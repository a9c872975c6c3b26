"""A real server is told hostile schemas: it says so, answers everybody, and stays small."""

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import zstandard
from apidiscovery_service.openapi.body import WHOLE_BYTES
from apidiscovery_service.openapi.crd.problems import MAX_DEPTH, MAX_VALUES
from crd_manifests import nested_schema, simple
from fake_api_server import FakeApiServer, aggregated, openapi_routes, served_group, sha512
from openapi_process import apply, describing, document, index, publication, registry
from raw_http import RawResponse, get, request
from server import Server, serving
from waiting import WITHIN_S, eventually

# Of all its memory, in KiB; an idle one has 100 MiB.
MAX_RSS_KIB = 600 * 1024
# Within which all documents of an upstream have been looked at.
SEEN_S = 60.0

# Answers that a poller gets at least while the hostile set is worked through.
MIN_POLLS = 50


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server without a catalogue; each test has groups of its own."""
    folder = tmp_path_factory.mktemp("hostile")
    with serving(folder, "--catalog", "none", "--store", "memory") as server:
        yield server


def definition(group: str, schema: object) -> dict[str, Any]:
    crd = simple("things")
    crd["metadata"]["name"] = f"things.{group}"
    crd["spec"]["group"] = group
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return crd


def wide(count: int) -> dict[str, Any]:
    fields = {f"field{number}": {"type": "string"} for number in range(count)}
    return {"type": "object", "properties": fields}


TAKEN = {
    "wide": wide(20_000),
    "deep": nested_schema(MAX_DEPTH - 4),
    "escapes": {"type": "object", "description": "<&>\n" * 50_000},
    "enum": {
        "type": "object",
        "properties": {"a": {"type": "integer", "enum": list(range(50_000))}},
    },
}
REFUSED = {
    "deep": (nested_schema(2 * MAX_DEPTH), "nest"),
    "enum": (
        {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"] * MAX_VALUES}}},
        f"has more than {MAX_VALUES} values",
    ),
}


@contextmanager
def polled(server: Server) -> Generator[list[RawResponse]]:
    """Ask for `/apis` again and again from a thread of its own until the block ends."""
    answers: list[RawResponse] = []
    over = threading.Event()

    def poll() -> None:
        while not over.wait(0.02):
            answers.append(get(server.http_port, "/apis"))

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join(WITHIN_S)


def rss_kib(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def refusal(server: Server, crd: dict[str, Any]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        apply(server, crd)
    error = cast("grpc.Call", caught.value)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    return error.details() or ""


def test_schemas_at_limits_are_served_whole_and_keep_nobody_waiting(server: Server) -> None:
    with polled(server) as answers:
        for name, schema in TAKEN.items():
            group = f"{name}.taken.example.com"
            apply(server, definition(group, schema))
            answer = document(server, f"apis/{group}/v1")
            assert "x-apidiscovery-generated" not in answer.json()
            merged = get(server.http_port, "/openapi/v2").body.decode()
            assert f"/apis/{group}/v1/things" in merged
        for name, (schema, reason) in REFUSED.items():
            assert reason in refusal(server, definition(f"{name}.refused.example.com", schema))
    assert len(answers) >= MIN_POLLS
    assert {answer.status for answer in answers} == {200}
    assert rss_kib(server) < MAX_RSS_KIB


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#/components/schemas/com.example.Thing"}, "com.example.Thing"),
        ({"enum": [1] * 1_000_000}, "want at most 1000000 values"),
    ],
    ids=["cycle", "enum"],
)
def test_a_hostile_document_is_refused(server: Server, schema: object, reason: str) -> None:
    group = "carried.example.com"
    carried = describing(group)
    carried["components"]["schemas"]["com.example.Thing"] = schema
    with registry(server) as stub, pytest.raises(grpc.RpcError) as caught:
        stub.Publish(publication(group, carried), timeout=WITHIN_S)
    assert reason in (cast("grpc.Call", caught.value).details() or "")


def test_a_carried_document_with_a_key_twice_is_refused_with_the_key(server: Server) -> None:
    """Readers differ in which of the two counts, so nobody may be given both."""
    group = "twice.example.com"
    request = publication(group, describing(group))
    text = request.groups.groups[0].openapi_v3["v1"]
    for doubled in (
        text.replace(b'"openapi"', b'"openapi": "3.0.0", "openapi"', 1),
        text.replace(b'"size"', b'"size": {"type": "string"}, "size"', 1),
        text.replace(
            b'"openapi"', b'"x-wide": ' + json.dumps(wide(9000)).encode() + b', "openapi"'
        ).replace(b'"field8999"', b'"field8998"'),
    ):
        assert doubled != text
        request.groups.groups[0].openapi_v3["v1"] = doubled
        with registry(server) as stub, pytest.raises(grpc.RpcError) as caught:
            stub.Publish(request, timeout=WITHIN_S)
        error = cast("grpc.Call", caught.value)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "is duplicated" in (error.details() or "")


def hostile_document(group: str, schema: object) -> bytes:
    """Return a document like those that extension API servers have, with this schema."""
    document = describing(group)
    document["components"]["schemas"]["com.example.Thing"] = schema
    return json.dumps(document).encode()


# What an upstream says in place of a document, and what `/readyz?verbose` has of it.
UPSTREAM_REFUSED = {
    "deep": (hostile_document("deep.up.example.com", nested_schema(400)), "nest"),
    "deepest": (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "nest"),
    "lists": (b'{"x-a":[' + b"[]," * 5_100_000 + b"1]}", "more than"),
    "cut": (hostile_document("cut.up.example.com", wide(5000))[:-9], "want JSON"),
    "spaces": (b" " * (8 * 1024 * 1024), "want JSON"),
    "paths": (
        b'{"openapi": "3.0.0", "paths": []}',
        "upstream far: OpenAPI: GET /openapi/v3/apis/paths.up.example.com/v1",
    ),
}
UPSTREAM_TAKEN = {
    "wide": hostile_document("wide.up.example.com", wide(20_000)),
    "long": hostile_document("long.up.example.com", {"description": '"' * 1_000_000}),
    "texts": hostile_document("texts.up.example.com", {"description": "<&>\n" * 30_000}),
    "levels": hostile_document("levels.up.example.com", nested_schema(150)),
}


def test_hostile_documents_of_an_upstream_are_passed_on_or_said_to_be_refused(
    tmp_path: Path,
) -> None:
    bodies = {name: body for name, (body, _) in UPSTREAM_REFUSED.items()} | UPSTREAM_TAKEN
    groups = {f"{name}.up.example.com": body for name, body in bodies.items()}
    routes = {
        "/api": aggregated(),
        "/apis": aggregated(*(served_group(group, "things") for group in groups)),
        **openapi_routes({f"apis/{group}/v1": body for group, body in groups.items()}),
    }
    flags = ("--catalog", "none", "--store", "memory")
    with (
        FakeApiServer(routes) as fake,
        serving(tmp_path, *flags, "--upstream", f"far={fake.url}") as mirror,
    ):
        eventually(lambda: get(mirror.http_port, "/readyz").status == 200, "it is ready", SEEN_S)
        with polled(mirror) as answers:
            for name, body in UPSTREAM_TAKEN.items():
                eventually(partial(has_hash, mirror, sha512(body)), f"{name} is taken", SEEN_S)
            for name, (_, reason) in UPSTREAM_REFUSED.items():
                group = f"{name}.up.example.com"
                eventually(partial(is_refused, mirror, group, reason), f"{name} is refused", SEEN_S)
                # Something is served in its place.
                assert "x-apidiscovery-generated" in document(mirror, f"apis/{group}/v1").json()
            for name, body in UPSTREAM_TAKEN.items():
                assert document(mirror, f"apis/{name}.up.example.com/v1").body == body
            assert get(mirror.http_port, "/openapi/v2").json()["swagger"] == "2.0"
            assert rss_kib(mirror) < MAX_RSS_KIB
    assert {answer.status for answer in answers} == {200}


def has_hash(server: Server, wanted: str) -> bool:
    return wanted in index(server).values()


def is_refused(server: Server, group: str, reason: str) -> bool:
    lines = get(server.http_port, "/readyz?verbose").body.decode().splitlines()
    return any(group in line and reason in line for line in lines)


def test_a_large_merged_document_is_the_same_in_every_coding_and_in_parts(server: Server) -> None:
    apply(server, *(definition(f"{name}.taken.example.com", one) for name, one in TAKEN.items()))
    path, port = "/openapi/v2", server.http_port
    whole = get(port, path)
    assert len(whole.body) > WHOLE_BYTES
    assert json.loads(whole.body)["swagger"] == "2.0"
    packed = request(port, path, [("Accept-Encoding", "zstd")])
    with zstandard.ZstdDecompressor().stream_reader(packed.body) as reader:
        assert reader.read() == whole.body
    head = request(port, path, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.values("content-length") == [str(len(whole.body))]
    begin, end = WHOLE_BYTES - 5, WHOLE_BYTES + 200_000
    part = request(port, path, [("Range", f"bytes={begin}-{end - 1}")])
    assert (part.status, part.body) == (206, whole.body[begin:end])
    assert part.values("content-range") == [f"bytes {begin}-{end - 1}/{len(whole.body)}"]
    same = request(port, path, [("If-None-Match", whole.etag)])
    assert (same.status, same.body, head.etag, packed.etag) == (304, b"", whole.etag, whole.etag)
