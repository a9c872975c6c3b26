"""Snapshots as a client holds them: from recorded answers, and random ones."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._reading import read_document, read_resources
from apidiscovery_client._writing import etag_of, write_aggregated
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Stale,
    Subresource,
    Unknown,
    Version,
)
from hypothesis import strategies as st
from legacy_clusters import recorded
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2
from repository import GOLDEN

WHEN = datetime(2026, 11, 20, 17, 59, 53, 123456, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))
SINCE = datetime(2026, 11, 19, 8, 0, tzinfo=EAST)
SERVER = "https://10.0.0.1:6443"
SUFFIXES = {JSON_V2: "v2.json", JSON_V2BETA1: "v2beta1.json", PROTOBUF_V2: "v2.pb"}


def held_of(
    core: bytes | None,
    named: bytes | None,
    content_type: str = JSON_V2,
    etags: Mapping[str, str] | None = None,
) -> FetchedSnapshot:
    """Return the snapshot after these answers of `/api` and `/apis`; None stands for a 503."""
    bodies = {"/api": core, "/apis": named}
    documents = {
        path: Document(content_type, body) for path, body in bodies.items() if body is not None
    }
    groups = tuple(
        group
        for path in ("/api", "/apis")
        if path in documents
        for group in read_document(path, content_type, documents[path].body, WHEN).groups
    )
    return FetchedSnapshot(
        snapshot=Snapshot(
            groups=groups,
            server=SERVER,
            checked_at=WHEN,
            failures={path: "503: it is starting" for path, body in bodies.items() if body is None},
        ),
        etags=_etags(documents) if etags is None else etags,
        documents=documents,
    )


def builtin_held(content_type: str = JSON_V2) -> FetchedSnapshot:
    """Return the snapshot of a kube-apiserver without custom resources."""
    suffix = SUFFIXES[content_type]
    return held_of(
        golden(f"builtin/api.{suffix}"),
        golden(f"builtin/apis.{suffix}"),
        content_type,
        {f"/{name}": golden(f"builtin/{name}.etag").decode().strip() for name in ("api", "apis")},
    )


def crds_held(content_type: str = JSON_V2) -> FetchedSnapshot:
    """Return the snapshot of a server of custom resources whose `/api` fails."""
    (etag,) = [
        line.partition(" ")[2].strip()
        for line in golden("crds/apis.v2.json.headers").decode().splitlines()
        if line.startswith("etag:")
    ]
    return held_of(
        None, golden(f"crds/apis.{SUFFIXES[content_type]}"), content_type, {"/apis": etag}
    )


def edge_held() -> FetchedSnapshot:
    """Return the snapshot of a server whose answers have every edge case."""
    return held_of(None, golden("edge/edge.v2.json"))


def old_release_held(content_type: str) -> FetchedSnapshot:
    """Return the snapshot of a kube-apiserver before 1.34, whose items have a null time."""
    now = builtin_held().documents
    core, named = _dated(now["/api"].body), _dated(now["/apis"].body)
    held = held_of(core, named)
    return (
        held if content_type == JSON_V2 else replace(builtin_held(content_type), etags=held.etags)
    )


def grpc_held() -> FetchedSnapshot:
    """Return the snapshot of a server over gRPC."""
    groups = builtin_held().snapshot.groups
    etags = [
        etag_of(write_aggregated(group for group in groups if bool(group.name) is is_named))
        for is_named in (False, True)
    ]
    scope = hashlib.sha512("".join(f"{etag}\n" for etag in etags).encode()).hexdigest().upper()
    snapshot = Snapshot(groups=groups, server="127.0.0.1:50051", checked_at=WHEN)
    hashes = {group.name: f"hash-of-{group.name}" for group in groups}
    return FetchedSnapshot(snapshot=snapshot, etags={"": scope}, hashes=hashes)


def troubled_held() -> FetchedSnapshot:
    """Return a snapshot with a stale, a retained and an unknown version."""
    beta = GroupVersion("metrics.example", "v1beta1")
    states: Mapping[str, tuple[Freshness, tuple[Resource, ...]]] = {
        "v1": (Stale(SINCE, "stale GroupVersion discovery: metrics.example/v1"), ()),
        "v1beta1": (Stale(SINCE, "no endpoints", retained=True), (_metrics(beta),)),
        "v1alpha1": (Unknown(SINCE, "nie erreicht: größer"), ()),
    }
    versions = tuple(
        Version(
            GroupVersion("metrics.example", name),
            resources
            or ((_metrics(GroupVersion("metrics.example", "v1")),) if name == "v1" else ()),
            freshness,
            "Stale",
        )
        for name, (freshness, resources) in states.items()
    )
    group = Group("metrics.example", versions)
    body = write_aggregated([group], as_stated=True)
    held = held_of(golden("builtin/api.v2.json"), body)
    core = held.snapshot.groups[0]
    return replace(held, snapshot=replace(held.snapshot, groups=(core, group)))


@cache
def legacy_held(cluster: str) -> FetchedSnapshot:
    """Return the snapshot of a recorded cluster without aggregated discovery."""
    answers = recorded(cluster)
    groups: list[Group] = []
    for path in ("/api", "/apis"):
        half = read_document(path, "application/json", answers[path], WHEN)
        groups += [_with_resources(group, answers) for group in half.groups]
    snapshot = Snapshot(groups=tuple(groups), server=SERVER, checked_at=WHEN)
    return FetchedSnapshot(snapshot=snapshot)


def golden(name: str) -> bytes:
    """Return a recorded answer."""
    return (GOLDEN / name).read_bytes()


def _etags(documents: Mapping[str, Document]) -> dict[str, str]:
    return {path: f'"{etag_of(document.body)}"' for path, document in documents.items()}


def _dated(body: bytes) -> bytes:
    named = body.replace(b'"},"versions":', b'","creationTimestamp":null},"versions":')
    return named.replace(
        b'{"metadata":{},"versions"', b'{"metadata":{"creationTimestamp":null},"versions"'
    )


def _metrics(gv: GroupVersion) -> Resource:
    kind = GroupVersionKind("", "", "NodeMetrics")
    return Resource(gv, "nodes", "", "Cluster", kind, ("get", "list"))


def _with_resources(group: Group, answers: Mapping[str, bytes]) -> Group:
    versions = tuple(
        replace(
            version,
            resources=read_resources(version.gv, "application/json", answers[version.gv.path]),
            freshness=CURRENT,
        )
        if version.gv.path in answers
        else version
        for version in group.versions
    )
    return replace(group, versions=versions)


# Random snapshots.

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_NAMES = st.text("abcxyz.-é", min_size=1, max_size=6)
_TIMES = st.builds(
    datetime.fromtimestamp, st.integers(0, 1_700_000_000), st.sampled_from([UTC, EAST])
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_NO_EXTRAS: dict[str, object] = {}
_EXTRAS = st.just(_NO_EXTRAS) | st.dictionaries(
    st.text("xyz", min_size=1, max_size=3), _JSON, max_size=2
)
_PROTOBUF_EXTRAS = st.dictionaries(st.just("protobuf:"), st.binary(max_size=4), max_size=1)
_KINDS = st.none() | st.builds(GroupVersionKind, _TEXT, _TEXT, _TEXT)
_LISTS = st.lists(_TEXT, max_size=2).map(tuple)


def snapshots(*, with_protobuf: bool = True) -> st.SearchStrategy[Snapshot]:
    """Draw snapshots with any content that a server may send."""
    extras = _EXTRAS | _PROTOBUF_EXTRAS if with_protobuf else _EXTRAS
    return st.builds(
        Snapshot,
        groups=_groups(extras),
        server=_TEXT,
        checked_at=_TIMES,
        failures=st.dictionaries(st.sampled_from(["/api", "/apis"]), _TEXT, max_size=2),
        freshness=_freshness(),
    )


def _freshness() -> st.SearchStrategy[Freshness]:
    return (
        st.just(CURRENT)
        | st.builds(Stale, _TIMES, _TEXT, retained=st.booleans())
        | st.builds(Unknown, _TIMES, _TEXT)
    )


def _groups(
    extras: st.SearchStrategy[object],
) -> st.SearchStrategy[tuple[Group, ...]]:
    names = st.lists(_NAMES, max_size=3, unique=True).flatmap(
        lambda found: st.sampled_from([[*found], ["", *found]])
    )
    return names.flatmap(lambda found: st.tuples(*(_group(name, extras) for name in found)))


def _group(name: str, extras: st.SearchStrategy[object]) -> st.SearchStrategy[Group]:
    versions = st.lists(_NAMES, max_size=2, unique=True).flatmap(
        lambda found: st.tuples(
            *(_version(GroupVersion(name, version), extras) for version in found)
        )
    )
    return st.builds(Group, st.just(name), versions, stated_preference=_TEXT, extra=extras)


def _version(gv: GroupVersion, extras: st.SearchStrategy[object]) -> st.SearchStrategy[Version]:
    return st.builds(
        Version,
        st.just(gv),
        st.lists(_resource(gv, extras), max_size=2, unique_by=lambda found: found.name).map(tuple),
        _freshness(),
        st.sampled_from(["", "Current", "Stale", "Odd"]),
        extras,
    )


def _resource(gv: GroupVersion, extras: st.SearchStrategy[object]) -> st.SearchStrategy[Resource]:
    subresource = st.builds(
        Subresource, _NAMES, _KINDS, _LISTS,
        st.lists(st.builds(GroupVersionKind, _TEXT, _TEXT, _TEXT), max_size=1).map(tuple), extras,
    )  # fmt: skip
    return st.builds(
        Resource,
        gv=st.just(gv),
        name=_NAMES,
        singular_name=_TEXT,
        scope=_TEXT,
        response_kind=_KINDS,
        verbs=_LISTS,
        short_names=_LISTS,
        categories=_LISTS,
        subresources=st.lists(subresource, max_size=2).map(tuple),
        storage_version_hash=_TEXT,
        extra=extras,
    )
