"""Answers of API servers of all releases, and of proxies that change headers."""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from apidiscovery.meta.v1 import discovery_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery_client._reading import read_document
from apidiscovery_client._writing import document_json, group_list_fields, resource_list_fields
from apidiscovery_client.model import Group, GroupVersion
from fake_api_server import NOT_ACCEPTABLE, NOT_FOUND, Answer, Request, Respond
from google.protobuf.json_format import Parse
from legacy_clusters import recorded
from media_types import aggregated_type
from repository import GOLDEN

PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class Release:
    """The behaviour of servers of some releases.

    Attributes:
        aggregated: The supported versions of aggregated documents.
        reads_parameters: Whether parameters of a clause in Accept count.
        many_clauses: Whether Accept may have several clauses.
        cluster: The recorded cluster with the unaggregated documents; empty for a new release.
    """

    aggregated: tuple[str, ...] = ()
    reads_parameters: bool = True
    many_clauses: bool = True
    cluster: str = ""


RELEASES: Mapping[str, Release] = {
    "1.7": Release(reads_parameters=False, cluster="kubernetes-v1.7.0"),
    "openshift 4.1": Release(cluster="openshift-v4.1.0-rc.3"),
    "1.15": Release(cluster="kubernetes-v1.15.0"),
    "1.26": Release(),
    "1.27": Release(("v2beta1",)),
    "1.30": Release(("v2", "v2beta1")),
    "1.33": Release(("v2",)),
    "not by apiserver": Release(many_clauses=False),
}


@cache
def plain_documents(cluster: str) -> Mapping[str, bytes]:
    """Return unaggregated JSON by path."""
    if cluster:
        return recorded(cluster)
    core, named = (new_groups(path) for path in ("/api", "/apis"))
    versions = [version for group in (*core, *named) for version in group.versions]
    return {
        "/api": b'{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}',
        "/apis": document_json(group_list_fields(named)),
        **{version.gv.path: document_json(resource_list_fields(version)) for version in versions},
    }


@cache
def new_groups(path: str) -> tuple[Group, ...]:
    """Return the groups of a new release."""
    body = (GOLDEN / f"builtin{path}.v2.json").read_bytes()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return read_document("/apis", aggregated_type(), body, now).groups


def respond(release: Release) -> Respond:
    """Return the answers of a server of a release."""

    def answer(request: Request) -> Answer:
        accept = request.headers.get("accept", "application/json")
        clauses = accept.split(",")
        if len(clauses) > 1 and not release.many_clauses:
            return NOT_ACCEPTABLE
        for clause in clauses:
            found = _answer(release, request, clause)
            if found is not None:
                return found
        return NOT_ACCEPTABLE

    return answer


def _answer(release: Release, request: Request, clause: str) -> Answer | None:
    """Return the answer to a clause of Accept; None if there is none."""
    media_type, _, parameters = clause.partition(";")
    if parameters and release.reads_parameters:
        version = parameters.split(";")[1].removeprefix("v=")
        if version in release.aggregated and request.path in ("/api", "/apis"):
            return _aggregated(request, media_type, version, clause)
        return None
    document = plain_documents(release.cluster).get(request.path)
    if document is None:
        return NOT_FOUND
    if media_type == PROTOBUF:
        return Answer(_as_protobuf(document), PROTOBUF)
    return Answer(document, "application/json")


def _aggregated(request: Request, media_type: str, version: str, clause: str) -> Answer:
    file = f"builtin{request.path}"
    etag = (GOLDEN / f"{file}.etag").read_text().strip()
    if request.headers.get("if-none-match") == etag:
        return Answer(b"", None, 304, {"ETag": etag})
    end = "pb" if media_type == PROTOBUF else "json"
    body = (GOLDEN / f"{file}.{version}.{end}").read_bytes()
    return Answer(body, clause, headers={"ETag": etag, "Vary": "Accept"})


def _as_protobuf(document: bytes) -> bytes:
    kind = str(json.loads(document)["kind"])
    made = {
        "APIVersions": discovery_pb2.APIVersions,
        "APIGroupList": discovery_pb2.APIGroupList,
    }[kind]()
    raw = Parse(document, made, ignore_unknown_fields=True).SerializeToString()
    meta = runtime_pb2.TypeMeta(kind=kind)
    return b"k8s\0" + runtime_pb2.Unknown(type_meta=meta, raw=raw).SerializeToString()


def halves(core: Release, named: Release) -> Respond:
    """Return the answers of a cluster whose `/api` is of another release than its `/apis`."""

    def answer(request: Request) -> Answer:
        is_core = request.path == "/api" or request.path.startswith("/api/")
        return respond(core if is_core else named)(request)

    return answer


# Proxies.


def with_accept(accept: str | None) -> Callable[[Respond], Respond]:
    """Return a proxy that replaces Accept, or drops it for None."""

    def proxy(inner: Respond) -> Respond:
        def answer(request: Request) -> Answer:
            headers = {name: value for name, value in request.headers.items() if name != "accept"}
            return inner(replace(request, headers=headers | ({"accept": accept} if accept else {})))

        return answer

    return proxy


def with_content_type(content_type: str | None) -> Callable[[Respond], Respond]:
    """Return a proxy that replaces Content-Type, or drops it for None."""

    def proxy(inner: Respond) -> Respond:
        return lambda request: replace(inner(request), content_type=content_type)

    return proxy


def compressing(inner: Respond) -> Respond:
    """Return a proxy that compresses bodies for clients that accept gzip."""

    def answer(request: Request) -> Answer:
        found = inner(request)
        if "gzip" not in request.headers.get("accept-encoding", "") or not found.body:
            return found
        headers = {**found.headers, "Content-Encoding": "gzip"}
        return replace(found, body=gzip.compress(found.body, 1), headers=headers)

    return answer


def gv_of(path: str) -> GroupVersion:
    """Return the group-version of a path such as `/apis/apps/v1`."""
    parts = path.split("/")
    return GroupVersion(parts[2] if parts[1] == "apis" else "", parts[-1])
