"""Objects are got and listed in every form that kube-apiserver has."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

import pytest
import structlog
import yaml
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.sources.storage_version_api import storage_version_api
from apidiscovery_service.store import Entry, StoreFull
from metrics_text import requests
from object_server import (
    JSON,
    LEASES,
    NAMESPACED_LEASES,
    PATH,
    PROTOBUF,
    TABLE,
    ObjectServer,
    lease,
    storage_version,
)
from raw_http import RawResponse

META = "g=meta.k8s.io"
PARTIAL = f"{JSON};as=PartialObjectMetadata;v=v1;{META}"
PARTIAL_LIST = f"{JSON};as=PartialObjectMetadataList;v=v1;{META}"


def read(response: RawResponse) -> dict[str, Any]:
    return cast("dict[str, Any]", response.json())


def names(response: RawResponse) -> list[str]:
    assert response.status == 200, response.body
    return [item["metadata"]["name"] for item in read(response)["items"]]


async def test_an_empty_list_has_items(served: ObjectServer) -> None:
    """Its items are `[]`, not null, and nothing about it may be cached."""
    answer = await served.get(PATH)
    assert answer.status == 200
    assert answer.body == (
        b'{"kind":"StorageVersionList","apiVersion":"internal.apiserver.k8s.io/v1alpha1",'
        b'"metadata":{"resourceVersion":"0"},"items":[]}\n'
    )
    assert answer.content_type == [JSON]
    assert answer.values("cache-control") == ["no-cache, private"]


async def test_an_object_is_got_as_it_was_created(served: ObjectServer) -> None:
    created = await served.create("apps.deployments", labels={"a": "b"})
    got = await served.get(f"{PATH}/apps.deployments")
    assert got.status == 200
    assert got.body == created.body
    assert list(read(got)) == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert (await served.get(f"{PATH}/apps.deployments/status")).body == created.body


async def test_a_missing_object_is_a_404(served: ObjectServer) -> None:
    answer = await served.get(f"{PATH}/apps.none")
    assert answer.status == 404
    assert read(answer) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'storageversions.internal.apiserver.k8s.io "apps.none" not found',
        "reason": "NotFound",
        "details": {
            "name": "apps.none",
            "group": "internal.apiserver.k8s.io",
            "kind": "storageversions",
        },
        "code": 404,
    }


async def test_an_error_in_protobuf_has_the_same_fields(served: ObjectServer) -> None:
    answer = await served.get(f"{PATH}/apps.none", PROTOBUF)
    assert answer.status == 404
    assert answer.content_type == [PROTOBUF]
    assert answer.body.startswith(b"k8s\x00")
    for text in (b"NotFound", b"apps.none", b"storageversions", b"internal.apiserver.k8s.io"):
        assert text in answer.body


async def test_objects_are_read_as_yaml_and_protobuf(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    as_yaml = await served.get(f"{PATH}/apps.deployments", "application/yaml")
    assert as_yaml.content_type == ["application/yaml"]
    assert as_yaml.body.startswith(b"apiVersion: internal.apiserver.k8s.io/v1alpha1\n")
    as_protobuf = await served.get(PATH, PROTOBUF)
    assert as_protobuf.content_type == [PROTOBUF]
    assert as_protobuf.body.startswith(b"k8s\x00")
    assert b"StorageVersionList" in as_protobuf.body


async def test_objects_are_read_as_a_table(served: ObjectServer) -> None:
    """`kubectl get` asks for one and falls back on JSON; its rows have the metadata."""
    await served.create("apps.deployments")
    accept = f"{TABLE},{TABLE.replace('v=v1', 'v=v1beta1')},{JSON}"
    for target in (PATH, f"{PATH}/apps.deployments"):
        table = read(await served.get(target, accept))
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        columns = [column["name"] for column in table["columnDefinitions"]]
        assert columns == ["Name", "CommonEncodingVersion", "StorageVersions", "Age"]
        (row,) = table["rows"]
        assert row["cells"][:3] == ["apps.deployments", "<unset>", "<unset>"]
        assert row["object"]["kind"] == "PartialObjectMetadata"
    bare = read(await served.get(f"{PATH}?includeObject=None", TABLE))
    assert bare["rows"][0]["object"] is None
    whole = read(await served.get(f"{PATH}?includeObject=Object", TABLE))
    assert whole["rows"][0]["object"]["kind"] == "StorageVersion"


async def test_a_table_with_an_unknown_include_is_refused(served: ObjectServer) -> None:
    answer = await served.get(f"{PATH}?includeObject=Half", TABLE)
    assert answer.status == 400
    assert read(answer)["message"] == (
        'Unable to convert to Table as requested: includeObject: Invalid value: "Half": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )


async def test_metadata_can_be_read_alone(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    one = read(await served.get(f"{PATH}/apps.deployments", PARTIAL))
    assert list(one) == ["kind", "apiVersion", "metadata"]
    assert one["metadata"]["name"] == "apps.deployments"
    many = read(await served.get(PATH, PARTIAL_LIST.replace("v=v1", "v=v1beta1")))
    assert (many["kind"], many["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1beta1",
    )
    assert [item["kind"] for item in many["items"]] == ["PartialObjectMetadata"]
    protobuf = await served.get(PATH, PARTIAL_LIST.replace(JSON, PROTOBUF))
    assert protobuf.content_type == [PROTOBUF]
    assert b"PartialObjectMetadataList" in protobuf.body


FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


async def test_unsupported_forms_are_refused(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    one = f"{PATH}/apps.deployments"
    accepted = f"only the following media types are accepted: {FORMS}"
    requested = "you requested {}, but the requested object is {} (*apiserverinternal.{})".format
    for target, accept, message in (
        (PATH, PARTIAL, requested("PartialObjectMetadata", "a list", "StorageVersionList")),
        (one, PARTIAL_LIST, requested("PartialObjectMetadataList", "not a list", "StorageVersion")),
        (PATH, TABLE.replace(JSON, PROTOBUF), accepted),
        (PATH, f"{JSON};as=Chair;v=v1;{META}", accepted),
        (one, "text/html", f"406: Not Acceptable\n\nAvailable representations: {FORMS}"),
    ):
        answer = await served.get(target, accept)
        assert (answer.status, read(answer)["message"]) == (406, message)
        assert read(answer)["reason"] == "NotAcceptable"


async def test_a_watch_in_yaml_is_refused(served: ObjectServer) -> None:
    """The Status of the refusal is YAML."""
    answer = await served.get(f"{PATH}?watch=1", "application/yaml")
    assert answer.status == 406
    assert yaml.safe_load(answer.body)["message"] == (
        "only the following media types are accepted: application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )


async def test_curl_gets_indented_json(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    human = await served.request("GET", PATH, {"User-Agent": "curl/8.0"})
    assert human.body.startswith(b'{\n  "kind": "StorageVersionList"')
    asked = await served.get(f"{PATH}?pretty=true")
    assert asked.body == human.body
    plain = await served.request("GET", f"{PATH}?pretty=false", {"User-Agent": "curl/8.0"})
    assert b"\n  " not in plain.body


async def test_selectors_select(served: ObjectServer) -> None:
    await served.create("apps.deployments", labels={"tier": "front"})
    await served.create("core.pods", labels={"tier": "back"})
    assert names(await served.get(PATH)) == ["apps.deployments", "core.pods"]
    assert names(await served.get(f"{PATH}?labelSelector=tier%3Dback")) == ["core.pods"]
    assert names(await served.get(f"{PATH}?labelSelector=tier+in+(front)")) == ["apps.deployments"]
    by_name = await served.get(f"{PATH}?fieldSelector=metadata.name%3Dcore.pods")
    assert names(by_name) == ["core.pods"]


async def test_pages_are_of_one_resource_version(served: ObjectServer) -> None:
    """A change ends them with 410."""
    for name in ("a.a", "b.b", "c.c"):
        await served.create(name)
    begun = read(await served.get(f"{PATH}?limit=1"))["metadata"]
    assert begun["remainingItemCount"] == 2
    cached = f"{PATH}?limit=1&resourceVersion=0&continue={begun['continue']}"
    assert names(await served.get(cached)) == ["b.b", "c.c"]
    first = read(await served.get(f"{PATH}?limit=2"))
    token = first["metadata"]["continue"]
    assert first["metadata"]["remainingItemCount"] == 1
    second = read(await served.get(f"{PATH}?limit=2&continue={token}"))
    assert [item["metadata"]["name"] for item in second["items"]] == ["c.c"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert names(await served.get(f"{PATH}?limit=2&resourceVersion=0")) == ["a.a", "b.b", "c.c"]
    await served.create("d.d")
    expired = await served.get(f"{PATH}?limit=2&continue={token}")
    assert expired.status == 410
    rest = await served.get(f"{PATH}?limit=2&continue={read(expired)['metadata']['continue']}")
    assert names(rest) == ["c.c", "d.d"]


async def test_wrong_parameters_are_refused(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    for query, status, said in (
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("timeoutSeconds=99999999999999999999", 400, "value out of range"),
        ("resourceVersion=x", 400, "invalid resource version"),
        ("resourceVersion=999", 504, "Too large resource version: 999, current: 1"),
        ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
        ("resourceVersionMatch=Some&resourceVersion=1", 422, 'Unsupported value: "Some"'),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("watch=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422, "unless sendInitialEvents is"),
        ("watch=1&resourceVersion=x", 422, 'storageversions.internal.apiserver.k8s.io "" is'),
        ("timeout=soon", 400, "invalid timeout specified in the request URL"),
        ("labelSelector=a%3D%3D%3Db", 400, "unable to parse requirement"),
        ("fieldSelector=spec.a%3Db", 400, '"spec.a" is not a known field selector'),
        ("continue=nonsense", 400, "invalid continue token"),
    ):
        answer = await served.get(f"{PATH}?{query}")
        assert answer.status == status, query
        assert said in read(answer)["message"], query


async def test_a_field_selector_and_a_path_with_two_names_are_refused(
    served: ObjectServer,
) -> None:
    watch = "/apis/internal.apiserver.k8s.io/v1alpha1/watch/storageversions/a.b"
    answer = await served.get(f"{watch}?fieldSelector=metadata.name%3Dc.d")
    assert answer.status == 400
    assert read(answer)["message"] == "fieldSelector metadata.name doesn't match requested name"


async def test_export_is_refused(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    target = f"{PATH}/apps.deployments"
    assert (await served.get(f"{target}?export=true")).status == 400
    assert (await served.get(f"{target}?export=false")).status == 200


async def test_leases_are_read_and_not_written(served: ObjectServer) -> None:
    await served.leases.create(lease("apiserver-a"))
    for target in (LEASES, NAMESPACED_LEASES):
        listed = await served.get(target)
        assert names(listed) == ["apiserver-a"]
        assert read(listed)["kind"] == "LeaseList"
    assert names(await served.get(NAMESPACED_LEASES.replace("kube-system", "default"))) == []
    one = read(await served.get(f"{NAMESPACED_LEASES}/apiserver-a"))
    assert one["spec"]["holderIdentity"] == "apiserver-a_0"
    other = NAMESPACED_LEASES.replace("kube-system", "default")
    assert (await served.get(f"{other}/apiserver-a")).status == 404
    table = read(await served.get(NAMESPACED_LEASES, TABLE))
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Holder", "Age"]
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD"):
        answer = await served.request(method, f"{NAMESPACED_LEASES}/apiserver-a")
        assert answer.status == 405
        if method != "HEAD":
            assert read(answer)["reason"] == "MethodNotAllowed"


async def test_a_large_list_is_compressed(served: ObjectServer) -> None:
    filler = {"note": "x" * 40_000}
    for name in ("a.a", "b.b", "c.c", "d.d"):
        await served.create(name, annotations=filler)
    plain = await served.get(PATH)
    packed = await served.request("GET", PATH, {"Accept": JSON, "Accept-Encoding": "gzip"})
    assert packed.values("content-encoding") == ["gzip"]
    assert packed.values("vary") == ["Accept-Encoding"]
    assert gzip.decompress(packed.body) == plain.body
    small = await served.request("GET", f"{PATH}/a.a", {"Accept": JSON, "Accept-Encoding": "gzip"})
    assert small.values("content-encoding") == []


async def test_requests_are_counted_by_pattern(served: ObjectServer) -> None:
    await served.create("apps.deployments")
    await served.get(f"{PATH}/apps.deployments")
    await served.get(f"{PATH}/apps.none")
    assert "apps.deployments" not in served.metrics.text().decode()

    def counted(endpoint: str, code: str) -> float:
        return requests(served.port, endpoint=endpoint, code=code)

    assert await asyncio.to_thread(counted, f"{PATH}/{{name}}", "200") == 1
    assert await asyncio.to_thread(counted, f"{PATH}/{{name}}", "404") == 1
    assert await asyncio.to_thread(counted, PATH, "201") == 1


async def test_a_store_that_is_away_is_a_503(served: ObjectServer) -> None:
    await served.store.close()
    for target in (PATH, f"{PATH}/a.b", f"{PATH}?watch=1"):
        answer = await served.get(target)
        assert answer.status == 503
        assert answer.values("retry-after") == ["1"]
        assert read(answer)["reason"] == "ServiceUnavailable"


async def test_a_full_store_is_a_503_without_its_path(
    served: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put(*_: object, **__: object) -> Entry:
        raise StoreFull("no space left on device: /var/lib/store.sqlite")

    monkeypatch.setattr(served.store, "put", put)
    answer = await served.send("POST", PATH, storage_version("apps.deployments"))
    assert (answer.status, read(answer)["reason"]) == (503, "ServiceUnavailable")
    assert str(read(answer)["message"]).startswith("no space left on device: the store of the")
    assert b"/var/lib" not in answer.body


async def test_without_objects_their_paths_are_not_found() -> None:
    status, body = await answered(gateway(served=None), "POST", PATH)
    assert status == 404
    assert "this server does discovery only" in str(body["message"])


async def test_a_server_that_is_not_ready_answers_503(served: ObjectServer) -> None:
    """A 404 would mean that the object does not exist."""
    status, body = await answered(gateway(served, ready=False), "GET", f"{PATH}/a.b")
    assert (status, body["reason"]) == (503, "ServiceUnavailable")


async def test_malformed_and_too_large_requests_are_refused(served: ObjectServer) -> None:
    made = gateway(served)
    status, body = await answered(made, "POST", PATH, raw_path=b"/apis/%zz")
    assert (status, body["reason"]) == (400, "BadRequest")
    large = [(b"x-filler", b"x" * 70_000)]
    status, body = await answered(made, "POST", PATH, headers=large)
    assert (status, body["reason"]) == (431, "RequestHeaderFieldsTooLarge")


async def test_an_internal_failure_is_logged_and_not_shown(served: ObjectServer) -> None:

    async def fail() -> dict[str, Any]:
        raise ZeroDivisionError("secret")

    with structlog.testing.capture_logs() as logs:
        status, body = await answered(gateway(served), "POST", PATH, receive=fail)
    assert (status, body["message"]) == (500, "the server failed; its log says why")
    assert [log["event"] for log in logs] == ["request failed"]


def gateway(served: ObjectServer | None, *, ready: bool = True) -> Gateway:
    registry = Registry()
    registry.publish(storage_version_api())
    site = Site(Checks(), Metrics(), objects=served.answers if served else None)
    return Gateway(CurrentEncoding(registry), site, lambda: ready)


async def nothing() -> dict[str, Any]:
    raise AssertionError("a body is read")


async def answered(
    made: Gateway,
    method: str,
    path: str,
    *,
    receive: Callable[[], Awaitable[dict[str, Any]]] = nothing,
    **more: object,
) -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON that a gateway answers with."""
    sent: list[dict[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    scope: dict[str, object] = {"type": "http", "method": method, "path": path}
    scope |= {"query_string": b"", "headers": []}
    await made({**scope, **more}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])
