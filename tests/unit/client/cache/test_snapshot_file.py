"""Snapshots as files: written, read back, and read from answers of a server."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._writing import write_aggregated
from apidiscovery_client.model import CURRENT, Group, GroupVersion, Snapshot, Stale, Version
from apidiscovery_client.snapshots import file
from apidiscovery_client.snapshots.file import MAX_BYTES, MAX_DEPTH, dump, load
from hypothesis import given, settings
from legacy_clusters import CLUSTERS
from media_types import JSON_V2BETA1, PROTOBUF_V2
from snapshot_samples import (
    SINCE,
    WHEN,
    builtin_held,
    crds_held,
    edge_held,
    golden,
    grpc_held,
    legacy_held,
    snapshots,
    troubled_held,
)

NAME = "cluster.json"


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(builtin_held(), id="builtin"),
        pytest.param(builtin_held(PROTOBUF_V2), id="builtin-protobuf"),
        pytest.param(crds_held(), id="crds-and-no-core"),
        pytest.param(edge_held(), id="edge"),
        pytest.param(troubled_held(), id="stale-and-remembered"),
        pytest.param(grpc_held(), id="grpc"),
        *(pytest.param(legacy_held(name), id=name) for name in CLUSTERS),
    ],
)
def test_what_is_saved_comes_back(held: FetchedSnapshot) -> None:
    data = dump(held.snapshot)
    assert load(data, NAME) == held.snapshot
    assert dump(load(data, NAME)) == data


@settings(max_examples=30)
@given(snapshots())
def test_any_snapshot_that_is_saved_comes_back(snapshot: Snapshot) -> None:
    data = dump(snapshot)
    assert load(data, NAME) == snapshot
    assert dump(load(data, NAME)) == data


def test_file_says_what_it_is_and_is_indented() -> None:
    snapshot = troubled_held().snapshot
    lines = dump(replace(snapshot, freshness=Stale(SINCE, "größer"))).decode().splitlines()
    assert lines[:9] == [
        "{",
        '  "apiVersion": "apidiscovery/v1",',
        '  "kind": "DiscoverySnapshot",',
        '  "server": "https://10.0.0.1:6443",',
        '  "checkedAt": "2026-11-20T17:59:53.123456+00:00",',
        '  "freshness": {',
        '    "freshness": "Stale",',
        '    "since": "2026-11-19T08:00:00+02:00",',
        '    "reason": "größer"',
    ]


def test_documents_of_a_file_are_those_of_the_server() -> None:
    documents = json.loads(dump(builtin_held().snapshot))["documents"]
    assert documents == {
        "/api": json.loads(golden("builtin/api.v2.json")),
        "/apis": json.loads(golden("builtin/apis.v2.json")),
    }


def test_lone_surrogate_is_saved() -> None:
    snapshot = Snapshot(groups=(), server="\ud800", checked_at=WHEN)
    assert load(dump(snapshot), NAME) == snapshot


def test_version_listed_twice_is_saved_as_the_first() -> None:
    gv = GroupVersion("a", "v1")
    twice = (Version(gv, (), Stale(SINCE, "one")), Version(gv, (), Stale(SINCE, "two")))
    snapshot = Snapshot(groups=(Group("a", twice),), server="s", checked_at=WHEN)
    data = dump(snapshot)
    assert dump(load(data, NAME)) == data


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_answer_of_a_server_is_read(version: str) -> None:
    named = load(golden(f"builtin/apis.{version}.json"), NAME, now=WHEN)
    core = load(golden(f"builtin/api.{version}.json"), NAME, now=WHEN)
    told = builtin_held(JSON_V2BETA1).snapshot.groups
    assert core.groups + named.groups == told
    assert (named.server, named.checked_at, named.freshness) == (NAME, WHEN, CURRENT)
    assert core.failures == {"/apis": "it is not in cluster.json"}
    assert named.failures == {"/api": "it is not in cluster.json"}


def test_answer_with_both_halves_is_read_with_the_core_group_first() -> None:
    body = write_aggregated(reversed(builtin_held().snapshot.groups))
    found = load(b"\xef\xbb\xbf" + body, NAME)
    assert found.failures == {}
    assert found.groups[0].name == ""
    assert set(found.groups) == set(builtin_held().snapshot.groups)


def test_answer_is_of_the_present_unless_told() -> None:
    before = datetime.now(UTC)
    found = load(golden("builtin/apis.v2.json"), NAME)
    assert before <= found.checked_at <= datetime.now(UTC)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(dump(troubled_held().snapshot)), **fields}).encode()


def answer(items: object) -> bytes:
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return json.dumps({**head, "items": items}).encode()


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", "line 1 column 1: it is not JSON: Expecting value"),
        (b'{"kind": "A",\n "x"', "line 2 column 5: it is not JSON"),
        (b"kind: Config\n", "line 1 column 1: it is not JSON"),
        (b"\x1f\x8b\x08", "it is not JSON: 'utf-8' codec can't decode byte 0x8b"),
        (b"k8s\0\n", "line 1 column 1: it is not JSON"),
        (b'{"a":' + b"1" * 10_000 + b"}", "it is not JSON: Exceeds the limit"),
        (b"[]", "the document is an array, not an object"),
        (b"7", "the document is a number, not an object"),
        (b"{}", "it has no kind; save one by `apidiscovery snapshot save`"),
        (b'{"kind":7}', "kind is a number, not a string"),
        (b'{"kind":"Status","apiVersion":"v1"}', "it is Status v1, and can only be"),
        (b'{"kind":"APIVersions"}', "it is APIVersions, which does not tell the resources"),
        (b'{"kind":"APIGroupList","apiVersion":"v1"}', "it is APIGroupList v1, which does not"),
        (b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v3"}',
         "it is APIGroupDiscoveryList apidiscovery.k8s.io/v3, and can only be"),
        (changed(apiVersion="apidiscovery/v2"), "it is DiscoverySnapshot apidiscovery/v2, and can"),
        (b"[" * 200_000, f"it has more than {MAX_DEPTH} arrays and objects within each other"),
        (answer(None).replace(b"null", b"[" * 900 + b"]" * 900), "it has more than"),
        (b" " * (MAX_BYTES + 1), f"it has {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"),
        (answer([{"metadata": {"name": "a"}, "versions": [{"version": ""}]}]),
         "items[0].versions[0].version is missing or empty"),
        (answer({}), "items is an object, not an array"),
        (answer([]).replace(b"items", b"x"), "items is missing"),
        (changed(documents=None), "documents"),
        (changed(documents={"/apis": {}}), "documents./apis.items is missing"),
        (changed(documents={"/apis": []}), "documents./apis is an array, not an object"),
        (changed(documents={"/api": {"items": [{"versions": [7]}]}}),
         "documents./api.items[0].versions[0] is a number, not an object"),
        (changed(checkedAt="now"), "checkedAt is 'now', not a time such as"),
        (changed(checkedAt=None), "checkedAt is missing or empty"),
        (changed(server=1), "server is a number, not a string"),
        (changed(failures={"/api": 1}), "failures./api is a number, not a string"),
        (changed(freshness={"freshness": "Old"}),
         "freshness.freshness is 'Old', not Current, Stale or Unknown"),
        (changed(freshness={"freshness": "Stale"}), "freshness.since is missing or empty"),
        (changed(notes={"versions": [{"groupVersion": "v1"}, {"groupVersion": 1}]}),
         "notes.versions[1].groupVersion is a number, not a string"),
        (changed(notes={"versions": [{"groupVersion": "v1", "freshness": "Stale", "since": "x"}]}),
         "notes.versions[0].since is 'x', not a time"),
        (changed(notes={"preferredVersions": {"apps": 1}}),
         "notes.preferredVersions.apps is a number, not a string"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_its_place(data: bytes, wanted: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        load(data, NAME)
    assert str(refused.value).startswith(f"{NAME}: ")
    assert wanted in str(refused.value)


def test_answer_as_deep_as_may_be_is_read_and_saved() -> None:
    extra: dict[str, object] = {}
    for _ in range(MAX_DEPTH - 4):
        extra = {"x": extra}
    data = answer([{"metadata": {"name": "a"}, "more": extra}])
    snapshot = load(data, NAME)
    assert load(dump(snapshot), NAME) == snapshot
    deeper = answer([{"metadata": {"name": "a"}, "more": {"x": extra}}])
    with pytest.raises(InvalidConfiguration, match="arrays and objects within each other"):
        load(deeper, NAME)


def test_what_could_not_be_loaded_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = builtin_held().snapshot
    deep: object = "x"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    group = replace(snapshot.groups[0], extra={"more": deep})
    wanted = f"what {snapshot.server} serves cannot be saved: it has more than {MAX_DEPTH}"
    with pytest.raises(InvalidConfiguration, match=wanted):
        dump(replace(snapshot, groups=(group,)))
    monkeypatch.setattr(file, "MAX_BYTES", len(dump(snapshot)) - 1)
    with pytest.raises(InvalidConfiguration, match=r"cannot be saved: it has [0-9]+ bytes, more"):
        dump(snapshot)
