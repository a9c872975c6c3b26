"""Checks of the aggregated documents: apidiscovery.k8s.io, KEP-3352."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

from apidiscovery_client._reading import ParsedDocument, UnreadableError, read_document
from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND, JSON, PROTOBUF

from apidiscovery_cli.conformance.check import (
    FailedError,
    Node,
    Section,
    SkippedError,
    document,
    expect,
    some,
)
from apidiscovery_cli.conformance.exchange import Reply
from apidiscovery_cli.conformance.subject import OK, Subject, aggregated_type, aggregated_version

SECTION = Section("Aggregated documents")
_REFUSALS = (404, 405, 406, 415)


@SECTION.check(
    10,
    "Content-Type says whether a document is aggregated",
    why="clients rely on it: a document of the other form is empty or an error to them",
    advice=f"send {aggregated_type('v2')} with an aggregated document, {JSON} with others",
)
def _states_type(subject: Subject) -> None:
    """Check that Content-Type states whether a document is aggregated, both ways."""
    replies = [subject.get(path, aggregated_type("v2")) for path in subject.document_paths]
    documents = (reply for reply in replies if reply.status == OK)
    for reply in some(documents, "aggregated discovery"):
        is_aggregated = document(reply)["kind"].text == AGGREGATED_KIND
        says_so = aggregated_version(reply.content_type) is not None
        what = "an aggregated document" if is_aggregated else "another document"
        seen = f"{what} as {reply.content_type or 'no Content-Type'}"
        wanted = f"{aggregated_type('v2')} for an aggregated document, and only for one"
        expect(is_aggregated == says_so, reply, wanted, seen)


@SECTION.check(
    11,
    "Content-Type is written as Kubernetes writes it",
    why="client-go 0.26.0 to 0.27.1 compare it as text: no charset, no spaces, parameters g, v, as",
    advice=f"send exactly {aggregated_type('v2')}",
)
def _exact_type(subject: Subject) -> None:
    for reply in subject.documents():
        wanted = subject.accept
        expect(reply.content_type == wanted, reply, wanted, f"Content-Type is {reply.content_type}")


@SECTION.check(
    12,
    "The list has kind, apiVersion and items, each with versions",
    why="clients decode it into types that take anything else for empty",
    advice="write an APIGroupDiscoveryList",
)
def _shape(subject: Subject) -> None:
    for reply in subject.documents():
        root = document(reply)
        root["kind"].one_of(AGGREGATED_KIND)
        root["apiVersion"].one_of(f"{AGGREGATED_GROUP}/{aggregated_version(reply.content_type)}")
        for item in root["items"].items:
            versions = item["versions"].items
            if not versions:
                raise item["versions"].fail("at least one version")
            for version in versions:
                _ = version["version"].text, version["resources"].items_if_any


def _versions(reply: Reply) -> Iterator[Node]:
    for item in document(reply)["items"].items:
        yield from item["versions"].items


def _resources(subject: Subject) -> list[Node]:
    found = (
        resource
        for reply in subject.documents()
        for version in _versions(reply)
        for resource in version["resources"].items_if_any
    )
    return some(found, "resource")


@SECTION.check(
    13,
    "Each group, version and resource occurs once",
    why="clients differ in which duplicate they use",
    advice="merge what has the same name",
)
def _unique(subject: Subject) -> None:
    lists = [document(reply)["items"].items for reply in subject.documents()]
    for items in some(filter(None, lists), "group"):
        _check_unique(
            [item["metadata"]["name"] for item in items], "a name that no other group has"
        )
        for item in items:
            versions = item["versions"].items
            _check_unique([one["version"] for one in versions], "a version that occurs once")
            for version in versions:
                resources = version["resources"].items_if_any
                wanted = "a resource that occurs once"
                _check_unique([one["resource"] for one in resources], wanted)


def _check_unique(nodes: list[Node], wanted: str) -> None:
    seen: set[str] = set()
    for node in nodes:
        value = repr(node.value)  # which may be anything
        if value in seen:
            raise node.fail(wanted)
        seen.add(value)


@SECTION.check(
    14,
    "Every resource and subresource has a responseKind",
    why="client-go 0.26.0 to 0.26.3 panics without it (kubernetes#116603)",
    advice="write group, version and kind; empty texts where they are not known",
)
def _response_kinds(subject: Subject) -> None:
    for resource in _resources(subject):
        for node in (resource, *resource["subresources"].items_if_any):
            for name in ("group", "version", "kind"):
                if not isinstance(node["responseKind"][name].value, str):
                    raise node["responseKind"].fail("an object with group, version and kind")


@SECTION.check(
    15,
    "Resources have a name, a scope, a singular and verbs",
    why="kubectl builds URLs from the name and the scope",
    advice="write resource, scope (Cluster or Namespaced), singularResource and verbs",
)
def _fields(subject: Subject) -> None:
    for resource in _resources(subject):
        _ = resource["resource"].text
        resource["scope"].one_of("Cluster", "Namespaced")
        if not isinstance(resource["singularResource"].value, str):
            raise resource["singularResource"].fail("text")
        for verb in resource["verbs"].items_if_any:
            _ = verb.text
        for below in resource["subresources"].items_if_any:
            _ = below["subresource"].text, below["verbs"].items_if_any


@SECTION.check(
    16,
    "Each version is Current or Stale",
    why="clients look for Stale; clients differ in how they treat another word",
    advice="write freshness: Current, or Stale where only the last known state is available",
)
def _freshness(subject: Subject) -> None:
    found = (version for reply in subject.documents() for version in _versions(reply))
    for version in some(found, "group-version"):
        version["freshness"].one_of("Current", "Stale")


@SECTION.check(
    17,
    "There is a strong ETag",
    why="without it kube-aggregator and client-go get the whole document each time",
    advice="send the hash of the document in quotes",
)
def _has_etag(subject: Subject) -> None:
    for reply in subject.documents():
        etag = reply.value("etag") or ""
        is_strong = len(etag) > 2 and etag[0] == etag[-1] == '"'  # noqa: PLR2004 - its quotes
        wanted = 'a strong ETag in quotes, such as "4F2C"'
        expect(is_strong, reply, wanted, f"ETag is {etag or 'missing'}")


@SECTION.check(
    18,
    "The ETag changes when the document does, and only then",
    why="clients would miss changes, or get the same document again and again",
    advice="hash the document, in a stable order",
)
def _etag_of_content(subject: Subject) -> None:
    for path in subject.document_paths:
        first, second = subject.aggregated(path), subject.aggregated(path, again=True)
        subject.etag(first)
        same = document(first).value == document(second).value
        etags = first.value("etag"), second.value("etag")
        seen = f"{etags[0]}, then {etags[1]}, of {'the same' if same else 'another'} document"
        wanted = "the same ETag as long as the document is the same, and only so long"
        expect(same == (etags[0] == etags[1]), second, wanted, seen)


@SECTION.check(
    19,
    "Vary names Accept",
    why="shared caches would serve one client the form that another one asked for",
    advice="send Vary: Accept with aggregated documents",
)
def _varies(subject: Subject) -> None:
    for reply in subject.documents():
        names = {name.strip().lower() for line in reply.values("vary") for name in line.split(",")}
        seen = f"Vary is {', '.join(sorted(names)) or 'missing'}"
        expect(names & {"accept", "*"}, reply, "Vary: Accept", seen)


@SECTION.check(
    20,
    "Documents are compressed on request only, with the same content",
    why="client-go accepts gzip, others nothing",
    advice="compress if Accept-Encoding has gzip; send Content-Encoding and Vary: Accept-Encoding",
)
def _compressed(subject: Subject) -> None:
    for path in subject.document_paths:
        plain = subject.aggregated(path)
        seen = f"Content-Encoding is {plain.value('content-encoding')}"
        unasked = plain.value("content-encoding") in (None, "identity")
        expect(unasked, plain, "no compression, as none was accepted", seen)
        reply = subject.aggregated(path, ("Accept-Encoding", "gzip"))
        coding = reply.value("content-encoding") or "identity"
        expect(coding in ("gzip", "identity"), reply, "gzip or nothing", f"it is {coding}")
        same = document(reply).value == document(plain).value
        expect(same, reply, "the same document as without compression")
        varies = "accept-encoding" in ",".join(reply.values("vary")).lower()
        expect(coding == "identity" or varies, reply, "Vary: Accept-Encoding", "it is not there")


@SECTION.check(
    21,
    "Protobuf has the content of JSON",
    why="clients prefer either",
    advice="make both from the same data, or refuse protobuf with 406",
)
def _protobuf(subject: Subject) -> None:
    now = datetime.now(UTC)
    for path in subject.document_paths:
        plain = subject.aggregated(path)
        version = subject.version or "v2"
        reply = subject.get(path, aggregated_type(version, PROTOBUF))
        if reply.status in _REFUSALS:
            raise SkippedError("the server has no protobuf")
        expect(reply.status == OK, reply, "200 or 406")
        is_right = reply.content_type == aggregated_type(version, PROTOBUF)
        seen = f"Content-Type is {reply.content_type}"
        expect(is_right, reply, aggregated_type(version, PROTOBUF), seen)
        same = _read(path, reply, now).groups == _read(path, plain, now).groups
        expect(same, reply, "the same content as in JSON", "it has another content")


def _read(path: str, reply: Reply, now: datetime) -> ParsedDocument:
    where: Literal["/api", "/apis"] = "/api" if path == "/api" else "/apis"
    try:
        return read_document(where, reply.content_type, reply.content, now)
    except UnreadableError as error:
        raise FailedError(str(error), "a document as promised", reply.asked) from None
    except (ValueError, json.JSONDecodeError) as error:
        raise FailedError(str(error), "a whole document", reply.asked) from None


@SECTION.check(
    22,
    "HEAD has the ETag of GET",
    why="monitors detect changes with it",
    advice="answer HEAD as GET without the body, or with 405",
)
def _head(subject: Subject) -> None:
    reply = subject.get("/apis", subject.accept, method="HEAD")
    expect(reply.status in (OK, 405), reply, "200, or 405 if there is no HEAD")
    if reply.status == OK:
        etag = subject.aggregated().value("etag")
        seen = f"ETag is {reply.value('etag')}"
        expect(reply.value("etag") == etag, reply, f"the ETag of GET, {etag}", seen)
