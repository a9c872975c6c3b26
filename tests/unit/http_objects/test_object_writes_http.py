"""Objects are written as kube-apiserver lets them be written."""

import asyncio
import json
import socket
from typing import Any, cast

from apidiscovery_formats import negotiation
from apidiscovery_service.kube.objects.encoding import encode
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION
from object_server import (
    JSON,
    PATH,
    PROTOBUF,
    ObjectServer,
    storage_version,
)
from raw_http import RawResponse, exchange

YAML = "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
ENTRY = {"apiServerID": "a", "encodingVersion": "v1", "decodableVersions": ["v1"]}
POD_STATUS = {"storageVersions": [ENTRY], "commonEncodingVersion": "v1"}
LIMIT = 3 * 1024 * 1024


def read(response: RawResponse) -> dict[str, Any]:
    return cast("dict[str, Any]", response.json())


async def test_an_object_is_created(served: ObjectServer) -> None:
    """The server sets the status, uid, resourceVersion and creationTimestamp."""
    sent = storage_version("core.pods") | {"status": POD_STATUS}
    answer = await served.send("POST", PATH, sent)
    assert answer.status == 201
    created = read(answer)
    assert created["status"] == {}
    assert {"name", "uid", "resourceVersion", "creationTimestamp"} == set(created["metadata"])
    again = await served.send("POST", PATH, sent)
    assert (again.status, read(again)["reason"]) == (409, "AlreadyExists")


async def test_objects_are_created_from_yaml_and_protobuf(served: ObjectServer) -> None:
    manifest = b"metadata:\n  name: core.pods\n"
    made = await served.request("POST", PATH, {"Content-Type": YAML}, manifest)
    assert made.status == 201
    body = encode(storage_version("core.nodes"), STORAGE_VERSION, negotiation.PROTOBUF)
    headers = {"Content-Type": PROTOBUF, "Accept": PROTOBUF}
    answer = await served.request("POST", PATH, headers, body)
    assert (answer.status, answer.content_type) == (201, [PROTOBUF])
    assert (await served.get(f"{PATH}/core.nodes")).status == 200


async def test_a_body_of_another_type_is_refused(served: ObjectServer) -> None:
    answer = await served.send("POST", PATH, storage_version("core.pods"), "text/plain")
    assert answer.status == 415
    assert read(answer)["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


async def test_unknown_and_duplicate_fields_are_warned_of_refused_or_ignored(
    served: ObjectServer,
) -> None:
    body = (
        b'{"metadata":{"name":"core.pods","name":"core.pods"},"spec":{"replicas":1},"extra":"\\""}'
    )
    said = ['duplicate field "metadata.name"', 'unknown field "spec.replicas"']
    warned = await served.request("POST", f"{PATH}?dryRun=All", {"Content-Type": JSON}, body)
    assert warned.status == 201
    warnings = warned.values("warning")
    for text in (*said, 'unknown field "extra"'):
        escaped = text.replace('"', '\\"')
        assert f'299 - "{escaped}"' in warnings
    assert len(warnings) == 3
    strict = await served.request(
        "POST", f"{PATH}?fieldValidation=Strict", {"Content-Type": JSON}, body
    )
    assert strict.status == 400
    for text in said:
        assert text in read(strict)["message"]
    ignored = await served.request(
        "POST", f"{PATH}?fieldValidation=Ignore", {"Content-Type": JSON}, body
    )
    assert ignored.status == 201
    assert ignored.values("warning") == []


async def test_invalid_options_are_refused(served: ObjectServer) -> None:
    for query, said in (
        ("fieldValidation=Loose", 'supported values: "", "Ignore", "Strict", "Warn"'),
        ("dryRun=Some", "dryRun: Unsupported value"),
        ("dryRun=", "dryRun: Unsupported value"),
        ("fieldManager=a%00b", "fieldManager: Invalid value"),
        (f"fieldManager={'a' * 129}", "fieldManager: Too long: may not be more than 128 bytes"),
    ):
        answer = await served.send("POST", f"{PATH}?{query}", storage_version("core.pods"))
        assert answer.status == 422, query
        message = read(answer)["message"]
        assert message.startswith('CreateOptions.meta.k8s.io "" is invalid: '), query
        assert said in message
    assert not served.objects.view


async def test_a_dry_run_writes_nothing(served: ObjectServer) -> None:
    answer = await served.send("POST", f"{PATH}?dryRun=All", storage_version("core.pods"))
    assert answer.status == 201
    assert (await served.get(f"{PATH}/core.pods")).status == 404
    await served.create("core.pods")
    assert (await served.request("DELETE", f"{PATH}/core.pods?dryRun=All")).status == 200
    patched = await served.send(
        "PATCH", f"{PATH}/core.pods?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH
    )
    assert read(patched)["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in read(await served.get(f"{PATH}/core.pods"))["metadata"]


async def test_an_object_is_updated(served: ObjectServer) -> None:
    """An update needs the present resourceVersion; the status stays."""
    value = read(await served.create("core.pods"))
    value["metadata"]["labels"] = {"a": "b"}
    value["status"] = POD_STATUS
    done = await served.send("PUT", f"{PATH}/core.pods", value)
    assert done.status == 200
    assert read(done)["metadata"]["labels"] == {"a": "b"}
    assert read(done)["status"] == {}
    stale = await served.send("PUT", f"{PATH}/core.pods", value)
    assert (stale.status, read(stale)["reason"]) == (409, "Conflict")
    assert "the object has been modified; please apply your changes" in read(stale)["message"]
    other = await served.send("PUT", f"{PATH}/core.nodes", value)
    assert other.status == 400
    assert read(other)["message"] == (
        "the name of the object (core.pods) does not match the name on the URL (core.nodes)"
    )


async def test_a_status_is_updated(served: ObjectServer) -> None:
    value = read(await served.create("core.pods"))
    value["metadata"]["labels"] = {"a": "b"}
    value["status"] = POD_STATUS
    done = await served.send("PUT", f"{PATH}/core.pods/status", value)
    assert done.status == 200
    assert read(done)["status"] == POD_STATUS
    assert "labels" not in read(done)["metadata"]
    wrong = read(done) | {"status": {"storageVersions": [ENTRY | {"encodingVersion": "v2"}]}}
    refused = await served.send("PUT", f"{PATH}/core.pods/status", wrong)
    assert refused.status == 422
    assert read(refused)["details"]["causes"]


async def test_an_object_of_another_kind_is_refused(served: ObjectServer) -> None:
    wrong = storage_version("core.pods") | {"kind": "Lease"}
    answer = await served.send("POST", PATH, wrong)
    assert (answer.status, read(answer)["reason"]) == (400, "BadRequest")


async def test_an_object_is_patched(served: ObjectServer) -> None:
    await served.create("core.pods")
    patch = {"metadata": {"labels": {"a": "b"}}}
    done = await served.send("PATCH", f"{PATH}/core.pods", patch, MERGE_PATCH)
    assert done.status == 200
    assert read(done)["metadata"]["labels"] == {"a": "b"}


async def test_a_status_is_patched(served: ObjectServer) -> None:
    await served.create("core.pods")
    done = await served.send(
        "PATCH", f"{PATH}/core.pods/status", {"status": POD_STATUS}, MERGE_PATCH
    )
    assert read(done)["status"] == POD_STATUS


async def test_invalid_patches_are_refused(served: ObjectServer) -> None:
    await served.create("core.pods")
    target = f"{PATH}/core.pods"
    answer = await served.send("PATCH", target, {}, "application/json-patch+json")
    assert (answer.status, read(answer)["reason"]) == (415, "UnsupportedMediaType")
    assert read(answer)["message"].endswith(f"accepted media types include: {MERGE_PATCH}")
    forced = await served.send("PATCH", f"{target}?force=true", {}, MERGE_PATCH)
    assert forced.status == 422
    assert (await served.send("PATCH", target, "text", MERGE_PATCH)).status == 400
    unknown = {"spec": {"replicas": 1}}
    warned = await served.send("PATCH", target, unknown, MERGE_PATCH)
    assert warned.values("warning") == ['299 - "unknown field \\"spec.replicas\\""']
    strict = await served.send("PATCH", f"{target}?fieldValidation=Strict", unknown, MERGE_PATCH)
    assert strict.status == 422


async def test_an_object_is_deleted_if_its_preconditions_hold(served: ObjectServer) -> None:
    uid = read(await served.create("core.pods"))["metadata"]["uid"]
    target = f"{PATH}/core.pods"
    wrong = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
    assert (await served.send("DELETE", target, wrong)).status == 409
    stale = {"preconditions": {"resourceVersion": "999"}}
    assert (await served.send("DELETE", target, stale)).status == 409
    right = {"preconditions": {"uid": uid}, "gracePeriodSeconds": 5}
    done = await served.send("DELETE", target, right)
    assert done.status == 200
    assert read(done) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "core.pods",
            "group": "internal.apiserver.k8s.io",
            "kind": "storageversions",
            "uid": uid,
        },
    }
    assert (await served.request("DELETE", target)).status == 404


async def test_an_object_is_deleted_after_its_last_finalizer(served: ObjectServer) -> None:
    """The status is 202 only with orphanDependents, the older parameter."""
    await served.create("core.pods", finalizers=["example.com/hold"])
    target = f"{PATH}/core.pods"
    first = await served.request("DELETE", f"{target}?propagationPolicy=Foreground")
    assert first.status == 200
    assert read(first)["metadata"]["deletionTimestamp"]
    assert (await served.request("DELETE", f"{target}?orphanDependents=false")).status == 202
    freed = await served.send("PATCH", target, {"metadata": {"finalizers": None}}, MERGE_PATCH)
    assert freed.status == 200
    assert (await served.get(target)).status == 404


async def test_deletions_with_invalid_options_are_refused(served: ObjectServer) -> None:
    await served.create("core.pods")
    for query, status in (
        ("propagationPolicy=Sideways", 422),
        ("propagationPolicy=Orphan&orphanDependents=true", 422),
        ("gracePeriodSeconds=soon", 400),
        ("dryRun=Some", 422),
    ):
        for target in (f"{PATH}/core.pods", PATH):
            answer = await served.request("DELETE", f"{target}?{query}")
            assert answer.status == status, query
    assert (await served.get(f"{PATH}/core.pods")).status == 200


async def test_selected_objects_are_deleted(served: ObjectServer) -> None:
    await served.create("core.pods", labels={"a": "b"})
    await served.create("core.nodes")
    done = await served.request("DELETE", f"{PATH}?labelSelector=a%3Db")
    assert read(done)["kind"] == "StorageVersionList"
    assert [item["metadata"]["name"] for item in read(done)["items"]] == ["core.pods"]
    left = read(await served.get(PATH))["items"]
    assert [item["metadata"]["name"] for item in left] == ["core.nodes"]


async def test_other_methods_are_refused(served: ObjectServer) -> None:
    for method, target in (
        ("PUT", PATH),
        ("POST", f"{PATH}/a.b"),
        ("DELETE", f"{PATH}/a.b/status"),
    ):
        answer = await served.send(method, target, {})
        assert (answer.status, read(answer)["reason"]) == (405, "MethodNotAllowed")


async def test_a_body_in_chunks_is_read_and_bounded(served: ObjectServer) -> None:

    def sent(body: bytes) -> bytes:
        head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked"
        chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        return exchange(served.port, f"{head}\r\n\r\n".encode() + chunk)

    small = json.dumps(storage_version("core.pods")).encode()
    assert b" 201 " in (await asyncio.to_thread(sent, small)).partition(b"\r\n")[0]
    large = await asyncio.to_thread(sent, b" " * (LIMIT + 1))
    assert b" 413 " in large.partition(b"\r\n")[0]


async def test_nothing_is_written_for_a_client_that_leaves_while_it_sends(
    served: ObjectServer,
) -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head.encode())
    await served.create("core.pods")
    listed = json.loads((await served.get(PATH)).body)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["core.pods"]
