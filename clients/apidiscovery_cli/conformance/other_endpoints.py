"""Checks of the endpoints beside discovery: OpenAPI v3 (KEP-2896) and v2, version, health."""

from urllib.parse import SplitResult, parse_qs, urlsplit

from apidiscovery_formats.media_types import JSON

from apidiscovery_cli.conformance.check import (
    Node,
    Profile,
    Section,
    SkippedError,
    document,
    expect,
)
from apidiscovery_cli.conformance.exchange import Reply
from apidiscovery_cli.conformance.subject import FORBIDDEN, NOT_FOUND, OK, Release, Subject

OPENAPI = Section("OpenAPI")
SECTION = Section("Version and health")
_ROOT = "/openapi/v3"
_HEALTH = ("/healthz", "/livez", "/readyz")
_NOT_MODIFIED, _MOVED, _NOT_ACCEPTABLE = 304, 301, 406
_PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
_PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
# The first kube-apiserver with OpenAPI v3 on by default.
_SINCE: Release = (1, 24)
# Before, kube-aggregator's own group had no document, and protobuf the Content-Type that net/http
# detects from its first bytes.
_WHOLE_SINCE: Release = (1, 27)
_AGGREGATOR = "apiregistration.k8s.io"
_UNNAMED = "application/octet-stream"


def _index(subject: Subject) -> Node:
    """Return the paths of the index.

    Raises:
        SkippedError: There is none, and the server needs none.
    """
    reply = subject.get(_ROOT, JSON)
    may_lack = subject.profile is Profile.EXTENSION or (subject.release or (1, 0)) < _SINCE
    if reply.status == NOT_FOUND and not reply.is_html and may_lack:
        raise SkippedError("the server has no OpenAPI v3")
    expect(reply.status == OK, reply, "200 and the list of documents")
    return document(reply)["paths"]


def _addresses(subject: Subject) -> dict[str, str]:
    paths = _index(subject)
    found = {name: paths[name]["serverRelativeURL"] for name in paths.names}
    for node in found.values():
        _parts(node)
    return {name: node.text for name, node in found.items()}


def _parts(address: Node) -> SplitResult:
    """Return the parts of an address."""
    try:
        return urlsplit(address.text)
    except ValueError as error:
        raise address.fail(f"an address ({error})") from None


@OPENAPI.check(
    50,
    "/openapi/v3 lists documents by path, each with its hash",
    why="kubectl joins serverRelativeURL to the server's root, and caches by the hash",
    advice="list each as /openapi/v3/PATH?hash=HASH, without a prefix of a proxy",
)
def _is_index(subject: Subject) -> None:
    paths = _index(subject)
    for name in paths.names:
        url = paths[name]["serverRelativeURL"]
        parts = _parts(url)
        is_right = parts.path == f"{_ROOT}/{name}" and not parts.netloc
        if name.startswith("/") or not is_right or "hash" not in parse_qs(parts.query):
            raise url.fail(f"{_ROOT}/{name.lstrip('/')}?hash=HASH, below the server's root")


@OPENAPI.check(
    51,
    "Every group-version has a document",
    why="kubectl explain and apply need it",
    advice="serve a document for each group-version",
)
def _is_complete(subject: Subject) -> None:
    names = set(_index(subject).names)
    reply = subject.get(_ROOT, JSON)
    for gv in subject.current_versions():
        if gv.group == _AGGREGATOR and subject.is_before(_WHOLE_SINCE):
            continue
        expect(f"apis/{gv}" in names, reply, f"apis/{gv} among the paths", "it is not there")


def _first(subject: Subject) -> tuple[str, Reply]:
    """Return the address of a document, and the answer there."""
    addresses = _addresses(subject)
    named = [f"apis/{gv}" for gv in subject.current_versions()]
    for name in named:
        if name in addresses:
            reply = subject.get(addresses[name], JSON)
            expect(reply.status == OK, reply, "200 at the address in the list")
            return addresses[name], reply
    raise SkippedError("no group-version has a document")


@OPENAPI.check(
    52,
    "A document has its hash as ETag, and is immutable",
    why="client-go gets each document once by its hash",
    advice="send the ETag, and Cache-Control: public, immutable if the hash is the present one",
)
def _is_document(subject: Subject) -> None:
    address, reply = _first(subject)
    root = document(reply)
    expect(root["openapi"].text.startswith("3."), reply, "a document with openapi: 3.x")
    stated = "".join(parse_qs(urlsplit(address).query).get("hash", ()))
    etag = reply.value("etag")
    expect(etag == f'"{stated}"', reply, f'the ETag "{stated}"', f"ETag is {etag}")
    caching = reply.value("cache-control") or ""
    seen = f"Cache-Control is {caching or 'missing'}"
    expect("immutable" in caching, reply, "Cache-Control with immutable", seen)


@OPENAPI.check(
    53,
    "An old hash leads to the present document",
    why="clients that read the list before a change ask so, and must not cache the answer",
    advice=(
        "redirect to the present address, or send the document without immutable; behind"
        " kube-aggregator only the latter gets through"
    ),
)
def _is_old(subject: Subject) -> None:
    address, _ = _first(subject)
    path = urlsplit(address).path
    reply = subject.get(f"{path}?hash={'0' * 128}", JSON)
    if reply.status == _MOVED:
        location = reply.value("location") or ""
        seen = f"Location is {location or 'missing'}"
        expect(location == address, reply, f"Location: {address}", seen)
        return
    expect(reply.status == OK, reply, "301 to the present address, or the present document")
    caching = reply.value("cache-control") or ""
    wanted = "no immutable, for the document has another hash than was asked for"
    expect("immutable" not in caching, reply, wanted, f"Cache-Control is {caching}")


@OPENAPI.check(
    54,
    "Documents answer 304 to their ETag",
    why="documents are large, and kube-aggregator asks for them again and again",
    advice="compare If-None-Match with the ETag",
)
def _is_revalidated(subject: Subject) -> None:
    address, first = _first(subject)
    etag = first.value("etag")
    if etag is None:
        raise SkippedError("the document has no ETag")
    reply = subject.get(address, JSON, ("If-None-Match", etag))
    expect(reply.status == _NOT_MODIFIED, reply, "304 to the ETag that was sent before")
    expect(not reply.body, reply, "304 without a body")


@OPENAPI.check(
    55,
    "Every kind has a schema that says which kind it is",
    why="kubectl explain looks for x-kubernetes-group-version-kind, and fails without it",
    advice="add a list of group, version and kind to the schema of each kind",
)
def _is_explained(subject: Subject) -> None:
    addresses = _addresses(subject)
    for gv in subject.current_versions():
        if f"apis/{gv}" not in addresses:
            continue
        listed = document(subject.existing(gv.path, JSON))["resources"].items
        reply = subject.existing(addresses[f"apis/{gv}"], JSON)
        described = _described(document(reply))
        for resource in listed:
            kind = resource["kind"].text
            is_own = not resource["group"].value and "/" not in resource["name"].text
            verbs = [verb.value for verb in resource["verbs"].items_if_any]
            if is_own and any(verb in verbs for verb in ("get", "list", "create")):
                wanted = f"a schema with x-kubernetes-group-version-kind of {kind} in {gv}"
                is_there = repr((gv.group, gv.version, kind)) in described
                expect(is_there, reply, wanted, "there is none")


def _described(root: Node) -> set[str]:
    """Return the group, version and kind of each schema, as text since they may be any value."""
    schemas = root["components"]["schemas"]
    return {
        repr((gvk["group"].value, gvk["version"].value, gvk["kind"].value))
        for name in schemas.names
        for gvk in schemas[name]["x-kubernetes-group-version-kind"].items_if_any
    }


@OPENAPI.check(
    56,
    "Protobuf documents have their Content-Type",
    why="kubectl asks for protobuf, and decodes by Content-Type",
    advice=f"answer {_PROTOBUF}, or 406",
)
def _protobuf(subject: Subject) -> None:
    address, _ = _first(subject)
    reply = subject.get(address, _PROTOBUF_ASKED)
    if reply.status == _NOT_ACCEPTABLE:
        raise SkippedError("the server has no OpenAPI in protobuf")
    expect(reply.status == OK, reply, "200 or 406")
    seen = f"Content-Type is {reply.content_type}"
    named = _UNNAMED if subject.is_before(_WHOLE_SINCE) else _PROTOBUF
    expect(reply.content_type in {_PROTOBUF, named}, reply, _PROTOBUF, seen)
    # The first field of openapi.v3.Document is the text `openapi`.
    expect(reply.content.startswith(b"\x0a"), reply, "an openapi.v3.Document in protobuf")


@OPENAPI.check(
    57,
    "/openapi/v2 is not a page",
    why="kubectl falls back on it, and kube-aggregator where there is no v3",
    advice="serve a Swagger 2.0 document, or 404",
)
def _v2(subject: Subject) -> None:
    reply = subject.get("/openapi/v2", JSON)
    expect(not reply.is_html, reply, "JSON or a refusal, not a page")
    if reply.status == OK:
        document(reply)["swagger"].one_of("2.0")
    else:
        expect(reply.status in (NOT_FOUND, _NOT_ACCEPTABLE), reply, "200, 404 or 406")


@SECTION.check(
    60,
    "/version has major, minor and gitVersion",
    why="kubectl version and many operators ask for it",
    advice="serve a JSON object with at least these three texts",
)
def _version(subject: Subject) -> None:
    reply = subject.get("/version", "application/json")
    if reply.status == NOT_FOUND and subject.profile is Profile.EXTENSION and not reply.is_html:
        raise SkippedError("the server has no /version")
    expect(reply.status == OK, reply, "200")
    root = document(reply)
    for name in ("major", "minor", "gitVersion"):
        _ = root[name].text


@SECTION.check(
    61,
    "/healthz, /livez and /readyz say ok",
    why="probes and load balancers ask there",
    advice="answer 200 and the text ok",
)
def _health(subject: Subject) -> None:
    replies = [subject.get(path) for path in _HEALTH]
    if all(reply.status in (NOT_FOUND, FORBIDDEN) and not reply.is_html for reply in replies):
        raise SkippedError("the server has no health endpoints")
    for reply in replies:
        # /livez and /readyz exist since 1.16.
        if reply.status == NOT_FOUND and reply.asked.target != "/healthz":
            continue
        expect(reply.status == OK, reply, "200 of a healthy server")
        expect(reply.body.strip() == b"ok", reply, "the text ok")
