"""Checks of content negotiation."""

from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND, JSON

from apidiscovery_cli.conformance.check import FailedError, Section, document, expect, some
from apidiscovery_cli.conformance.exchange import Reply
from apidiscovery_cli.conformance.subject import OK, Subject, aggregated_type, aggregated_version

SECTION = Section("Negotiation")
_NOT_ACCEPTABLE = 406
_UNKNOWN = aggregated_type("v99")
_KINDS = {"/api": "APIVersions", "/apis": "APIGroupList"}


def _is_plain(path: str, reply: Reply, whom: str) -> None:
    expect(reply.status == OK, reply, f"200 to {whom}")
    expect(not reply.is_html, reply, "JSON, not a page")
    kind = document(reply)["kind"]
    seen = f"{kind.value!r} as {reply.content_type}"
    is_plain = kind.value == _KINDS[path] and aggregated_version(reply.content_type) is None
    expect(is_plain, reply, f"an unaggregated {_KINDS[path]}", seen)


@SECTION.check(
    30,
    "Without an aggregated type in Accept the answer is unaggregated",
    why="Python, Java and JavaScript clients, and kubectl before 1.26, know nothing else",
    advice="look for g, v and as in Accept; without them send APIGroupList or APIVersions",
)
def _without_accept(subject: Subject) -> None:
    for path in subject.document_paths:
        for accept, whom in (
            (None, "a client that accepts anything"),
            (JSON, "a client that accepts JSON"),
        ):
            _is_plain(path, subject.get(path, accept), whom)


@SECTION.check(
    31,
    "The aggregated form is preferred where both are accepted",
    why="client-go accepts both, and asks once more for each group-version when it gets the other",
    advice="look for an aggregated clause anywhere in Accept first",
)
def _prefers_aggregated(subject: Subject) -> None:
    for path in subject.document_paths:
        for accept in (f"{subject.accept},{JSON}", f"{JSON},{subject.accept}"):
            reply = subject.get(path, accept)
            _is_aggregated(reply, "an aggregated document, which Accept has too")


def _is_aggregated(reply: Reply, wanted: str) -> None:
    expect(aggregated_version(reply.content_type) is not None, reply, wanted)


@SECTION.check(
    32,
    "The order of parameters does not matter, nor does profile",
    why="their order differs between clients; kube-apiserver's peers add profile=nopeer",
    advice="parse the parameters instead of comparing text",
)
def _any_order(subject: Subject) -> None:
    version = aggregated_version(subject.accept)
    reordered = f"{JSON};as={AGGREGATED_KIND};v={version};g={AGGREGATED_GROUP}"
    _is_aggregated(subject.get("/apis", reordered), "an aggregated document, in whatever order")
    profile = f"{subject.accept};profile=nopeer"
    _is_aggregated(subject.get("/apis", profile), "an aggregated document, with profile=nopeer")


@SECTION.check(
    33,
    "Unknown versions in Accept are skipped",
    why="newer clients ask for newer versions before those they fall back on",
    advice="try the next clause of Accept",
)
def _falls_back(subject: Subject) -> None:
    for path in subject.document_paths:
        _is_plain(
            path, subject.get(path, f"{_UNKNOWN},{JSON}"), "a client that also accepts plain JSON"
        )


@SECTION.check(
    34,
    "An unknown form is refused, not claimed",
    why="clients cannot decode a document with a wrong Content-Type",
    advice="answer 406 when no clause of Accept can be served",
)
def _refuses(subject: Subject) -> None:
    reply = subject.get("/apis", _UNKNOWN)
    if reply.status == OK:
        # Clients go by Content-Type, so a plain document does no harm.
        _is_plain("/apis", reply, "a client that accepts an unknown form only")
    else:
        expect(reply.status == _NOT_ACCEPTABLE, reply, "406, or an unaggregated document")


@SECTION.check(
    35,
    "The ETag of one form does not match the other form",
    why="a client that asks for the other form would get 304 and keep the wrong one",
    advice="negotiate before comparing If-None-Match",
)
def _plain_condition(subject: Subject) -> None:
    for path in subject.document_paths:
        etag = subject.etag(subject.aggregated(path))
        reply = subject.get(path, JSON, ("If-None-Match", etag))
        _is_plain(path, reply, "a client that has the other form")


@SECTION.check(
    36,
    "?timeout=32s changes nothing",
    why="client-go sends it with each request for discovery",
    advice="ignore unknown query parameters",
)
def _parameters(subject: Subject) -> None:
    found = [(path, subject.get(path, JSON)) for path in subject.document_paths]
    documents = ((path, want) for path, want in found if _has_kind(want))
    for path, want in some(documents, "document to ask for so"):
        reply = subject.get(f"{path}?timeout=32s", JSON)
        same = (reply.status, reply.body) == (want.status, want.body)
        expect(same, reply, "the answer as without ?timeout=32s")


def _has_kind(reply: Reply) -> bool:
    if reply.status != OK:
        return False
    try:
        return bool(document(reply)["kind"].text)
    except FailedError:
        return False
