"""Documents are written as Kubernetes writes them, and as they were read."""

import json
import operator
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from apidiscovery_client import _reading, _writing
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Stale,
    Subresource,
    Unknown,
    Version,
)
from hypothesis import given
from hypothesis import strategies as st
from legacy_clusters import CLUSTERS, converted, recorded
from media_types import aggregated_type
from repository import GOLDEN

NOW = datetime(2026, 11, 22, tzinfo=UTC)
JSON = "application/json"
DOCUMENTS = ("builtin/api", "builtin/apis", "edge/edge", "crds/apis")
VERSIONS = ("v2", "v2beta1")


def decoded(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return what is written, read again."""
    found: dict[str, Any] = json.loads(_writing.document_json(fields))
    return found


def read(
    body: bytes, content_type: str, path: Literal["/api", "/apis"] = "/apis"
) -> tuple[Group, ...]:
    return _reading.read_document(path, content_type, body, NOW).groups


def golden(name: str, version: str) -> tuple[Group, ...]:
    return read((GOLDEN / f"{name}.{version}.json").read_bytes(), aggregated_type(version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_is_that_of_kubernetes(name: str, version: str) -> None:
    body = (GOLDEN / f"{name}.{version}.json").read_bytes()
    assert _writing.write_aggregated(golden(name, version), version) == body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_protobuf_is_that_of_kubernetes(name: str, version: str) -> None:
    body = (GOLDEN / f"{name}.{version}.pb").read_bytes()
    assert _writing.write_protobuf(golden(name, version), version) == body
    from_protobuf = read(body, aggregated_type(version, "vnd.kubernetes.protobuf"))
    assert _writing.write_protobuf(from_protobuf, version) == body
    json_body = (GOLDEN / f"{name}.{version}.json").read_bytes()
    assert _writing.write_aggregated(from_protobuf, version) == json_body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["builtin/api", "builtin/apis", "edge/edge"])
def test_the_etag_is_that_of_kubernetes(name: str, version: str) -> None:
    etag = (GOLDEN / f"{name}.etag").read_text().strip().strip('"')
    assert _writing.etag_of((GOLDEN / f"{name}.{version}.json").read_bytes()) == etag


@pytest.mark.parametrize("version", VERSIONS)
def test_the_etag_is_that_of_a_live_server(version: str) -> None:
    headers = (GOLDEN / f"crds/apis.{version}.json.headers").read_text().lower()
    etag = _writing.etag_of((GOLDEN / f"crds/apis.{version}.json").read_bytes())
    assert f'etag: "{etag.lower()}"' in headers
    assert etag == etag.upper()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="another object"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}\n', id="unaggregated"),
        pytest.param(
            b'{"kind": "APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}',
            id="spaces",
        ),
        pytest.param(
            b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v3","items":[]}\n',
            id="another version",
        ),
    ],
)
def test_a_body_that_kubernetes_does_not_write_has_no_etag(body: bytes) -> None:
    assert _writing.etag_of(body) == ""


def test_the_etag_of_an_empty_document_is_known() -> None:
    body = _writing.write_aggregated([])
    assert _writing.etag_of(body).startswith("E31D92F2F415F58D79E51A08706C00FE868ED961736AD66A")
    assert _writing.etag_of(body.rstrip()) == _writing.etag_of(body)
    assert _writing.etag_of(body + b"\n") != _writing.etag_of(body)


def crd_groups() -> tuple[Group, ...]:
    return golden("crds/apis", "v2")


def without_hashes(document: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return a resource list without what aggregated documents do not have; order is by chance."""
    for line in document["resources"]:
        line.pop("storageVersionHash", None)
    document["resources"].sort(key=operator.itemgetter("name"))
    return document


@pytest.mark.parametrize("group", [pytest.param(found, id=found.name) for found in crd_groups()])
def test_groups_and_lists_of_crds_are_those_of_a_live_server(group: Group) -> None:
    folder = GOLDEN / "crds" / "groups"
    assert (
        _writing.document_json(_writing.group_fields(group))
        == (folder / f"{group.name}.json").read_bytes()
    )
    for version in group.versions:
        file = folder / f"{group.name}__{version.name}.json"
        told = without_hashes(json.loads(file.read_bytes()))
        written = without_hashes(decoded(_writing.resource_list_fields(version)))
        assert json.dumps(written) == json.dumps(told)


@pytest.mark.parametrize("file", sorted((GOLDEN / "crds" / "groups").glob("*__*.json")))
def test_an_unaggregated_list_comes_back_byte_for_byte(file: Path) -> None:
    from apidiscovery_client import _writing_protobuf

    group, _, version = file.stem.partition("__")
    gv = GroupVersion(group, version)
    read_version = Version(gv, _reading.read_resources(gv, JSON, file.read_bytes()))
    assert _writing.document_json(_writing.resource_list_fields(read_version)) == file.read_bytes()
    written = _writing_protobuf.unaggregated(_writing.resource_list_fields(read_version))
    assert written == file.with_suffix(".pb").read_bytes()


def test_builtin_unaggregated_documents_come_back() -> None:
    folder = GOLDEN / "builtin-unaggregated"
    core = read((folder / "api.json").read_bytes(), JSON, "/api")
    named = read((folder / "apis.json").read_bytes(), JSON, "/apis")
    told = json.loads((folder / "api.json").read_bytes())
    address = told["serverAddressByClientCIDRs"][0]["serverAddress"]
    assert decoded(_writing.core_versions_fields(core[0], address)) == told
    assert decoded(_writing.group_list_fields(named)) == json.loads(
        (folder / "apis.json").read_bytes()
    )
    gv, body = GroupVersion("", "v1"), (folder / "api__v1.json").read_bytes()
    version = Version(gv, _reading.read_resources(gv, JSON, body))
    assert decoded(_writing.resource_list_fields(version)) == json.loads(body)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_lists_of_old_clusters_are_aggregated_as_by_kubernetes(
    cluster: str,
) -> None:
    for path, entry in converted(cluster).items():
        gv = GroupVersion(*["", *path.split("/")[2:]][-2:])
        resources = _reading.read_resources(gv, JSON, recorded(cluster)[path])
        document = json.loads(
            _writing.write_aggregated([Group(gv.group, (Version(gv, resources),))])
        )
        assert json.dumps(document["items"][0]["versions"][0]) == json.dumps(entry)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_lists_of_old_clusters_come_back(cluster: str) -> None:
    for path, body in recorded(cluster).items():
        document = json.loads(body)
        if document.get("kind") != "APIResourceList":
            continue
        gv = GroupVersion(*(["", *document["groupVersion"].split("/")])[-2:])
        version = Version(gv, _reading.read_resources(gv, JSON, body))
        written = decoded(_writing.resource_list_fields(version))
        assert lines(written) == lines(document), path


def lines(document: Any) -> Mapping[str, object]:  # noqa: ANN401 - JSON of any shape
    """Return the lines of a list; those before 1.7 have no singular names."""
    return {line["name"]: {"singularName": "", **line} for line in document["resources"]}


def one_version(freshness: Freshness, stated: str = "", *names: str) -> Group:
    gv = GroupVersion("example.com", "v1")
    kind = GroupVersionKind("", "", "Widget")
    resources = tuple(Resource(gv, name, "", "Namespaced", kind, ("get",)) for name in names)
    return Group("example.com", (Version(gv, resources, freshness, stated),))


@pytest.mark.parametrize(
    ("group", "word"),
    [
        pytest.param(one_version(CURRENT), "Current", id="current"),
        pytest.param(one_version(Stale(NOW, "gone")), "Stale", id="stale"),
        pytest.param(one_version(Unknown(NOW, "gone")), "Stale", id="unknown"),
        pytest.param(one_version(CURRENT, "Fresh"), "Fresh", id="as it was said"),
    ],
)
def test_freshness_is_written_as_stated_or_else_as_it_is(group: Group, word: str) -> None:
    version = json.loads(_writing.write_aggregated([group]))["items"][0]["versions"][0]
    assert version == {"version": "v1", "freshness": word}


def test_remembered_resources_are_left_out_only_when_that_is_asked_for() -> None:
    retained = one_version(Stale(NOW, "gone", retained=True), "Stale", "widgets")
    told = one_version(Stale(NOW, "gone"), "Stale", "widgets")
    assert b"widgets" in _writing.write_aggregated([retained])
    assert b"widgets" not in _writing.write_aggregated([retained], as_stated=True)
    assert b"widgets" in _writing.write_aggregated([told], as_stated=True)
    assert b"widgets" in _writing.write_protobuf([retained])


def test_unknown_fields_follow_those_that_are_known_at_every_level() -> None:
    body = (
        b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":'
        b'[{"metadata":{"name":"a.example","labels":{"b":"c"}},"versions":[{"version":"v1","resources":'
        b'[{"resource":"ws","responseKind":{"group":"","version":"","kind":"W"},"scope":"Cluster",'
        b'"singularResource":"w","verbs":["get"],"subresources":[{"subresource":"s","verbs":["get"],'
        b'"z":[1,null]}],"y":{"a":1}}],"freshness":"Current","x":true}],"w":"v"}]}\n'
    )
    assert _writing.write_aggregated(read(body, aggregated_type("v2"))) == body


def test_unknown_fields_stay_in_the_encoding_in_which_they_came() -> None:
    body = bytearray((GOLDEN / "edge/edge.v2.pb").read_bytes())
    assert read(bytes(body), aggregated_type("v2", "vnd.kubernetes.protobuf"))
    group = replace(
        one_version(CURRENT, "Current", "widgets"),
        extra={_writing.PROTOBUF_EXTRA: b"\x9a\x06\x01!", "note": "!"},
    )
    encoded = _writing.write_protobuf([group])
    (back,) = read(encoded, aggregated_type("v2", "vnd.kubernetes.protobuf"))
    assert back.extra == {_writing.PROTOBUF_EXTRA: b"\x9a\x06\x01!"}
    assert _writing.write_protobuf([back]) == encoded
    assert b"protobuf" not in _writing.write_aggregated([group])
    assert json.loads(_writing.write_aggregated([group]))["items"][0]["note"] == "!"


def test_creation_timestamps_of_older_servers_can_be_written() -> None:
    group = Group("a.example", (), extra={"metadata": {"creationTimestamp": None}})
    body = _writing.write_aggregated([group])
    assert b'"metadata":{"name":"a.example","creationTimestamp":null}' in body


def test_surrogates_are_replaced_as_by_go() -> None:
    group = one_version(CURRENT, "Current", "a\ud800b")
    assert "a\ufffdb".encode() in _writing.write_aggregated([group])
    assert "a\ufffdb".encode() in _writing.write_protobuf([group])


def test_the_preferred_version_is_the_stated_or_the_first() -> None:
    first, second = (Version(GroupVersion("a.example", name)) for name in ("v2", "v1"))
    stale_first = replace(first, freshness=Unknown(NOW, "gone"))
    plain = decoded(_writing.group_fields(Group("a.example", (stale_first, second))))
    said = decoded(_writing.group_fields(Group("a.example", (first, second), "v1")))
    assert plain["preferredVersion"] == {"groupVersion": "a.example/v2", "version": "v2"}
    assert said["preferredVersion"] == {"groupVersion": "a.example/v1", "version": "v1"}


def test_a_server_without_a_core_group_has_no_versions_there() -> None:
    document = decoded(_writing.core_versions_fields(None, "10.0.0.1:6443"))
    assert document["versions"] == []


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
kinds = st.builds(GroupVersionKind, texts, texts, texts)
many_texts = st.lists(texts, max_size=2).map(tuple)
no_extra = st.just(cast("dict[str, object]", {}))
subresources = st.builds(
    Subresource,
    names,
    st.none() | kinds,
    many_texts,
    st.lists(kinds, max_size=2).map(tuple),
    extra=no_extra,  # or hypothesis makes some up
)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    name = draw(names)
    return Group(name, tuple(draw(st.lists(versions(name), max_size=2))))


@st.composite
def versions(draw: st.DrawFn, group: str) -> Version:
    gv = GroupVersion(group, draw(names))
    drawn = draw(st.lists(resources(gv), max_size=2))
    stated = draw(st.sampled_from(["Current", "Stale"]))
    reason = f"stale GroupVersion discovery: {gv}"
    stale = Stale(NOW, reason) if drawn else Unknown(NOW, reason)
    return Version(gv, tuple(drawn), CURRENT if stated == "Current" else stale, stated)


def resources(gv: GroupVersion) -> st.SearchStrategy[Resource]:
    return st.builds(
        Resource,
        gv=st.just(gv),
        name=names,
        singular_name=texts,
        scope=texts,
        response_kind=st.none() | kinds,
        verbs=many_texts,
        short_names=many_texts,
        categories=many_texts,
        subresources=st.lists(subresources, max_size=2).map(tuple),
        storage_version_hash=st.just(""),
        extra=no_extra,
    )


@given(st.lists(groups(), max_size=2).map(tuple), st.sampled_from(VERSIONS))
def test_written_groups_are_read_back(written: tuple[Group, ...], version: str) -> None:
    body = _writing.write_aggregated(written, version)
    assert read(body, aggregated_type(version)) == written
    assert _writing.write_aggregated(read(body, aggregated_type(version)), version) == body
    assert len(_writing.etag_of(body)) == 128
    protobuf = _writing.write_protobuf(written, version)
    assert read(protobuf, aggregated_type(version, "vnd.kubernetes.protobuf")) == written


def test_each_resource_is_written_once() -> None:
    many = golden("builtin/apis", "v2") * 100
    assert sum(len(version.resources) for group in many for version in group.versions) > 5000
    began = time.process_time()
    _writing.write_aggregated(many)
    assert time.process_time() - began < 2  # a twentieth is usual; it would grow with the square
