"""Checks of content negotiation."""

from functools import partial

from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND, JSON

from apidiscovery_cli.conformance.check import Check, FailedError, document, expect, some
from apidiscovery_cli.conformance.exchange import Reply
from apidiscovery_cli.conformance.subject import OK, Subject, aggregated_type, aggregated_version

_check = partial(Check, "Negotiation")
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


def _without_accept(subject: Subject) -> None:
    for path in subject.document_paths:
        for accept, whom in (
            (None, "a client that accepts anything"),
            (JSON, "a client that accepts JSON"),
        ):
            _is_plain(path, subject.get(path, accept), whom)


def _prefers_aggregated(subject: Subject) -> None:
    for path in subject.document_paths:
        for accept in (f"{subject.accept},{JSON}", f"{JSON},{subject.accept}"):
            reply = subject.get(path, accept)
            _is_aggregated(reply, "an aggregated document, which Accept has too")


def _is_aggregated(reply: Reply, wanted: str) -> None:
    expect(aggregated_version(reply.content_type) is not None, reply, wanted)


def _any_order(subject: Subject) -> None:
    version = aggregated_version(subject.accept)
    reordered = f"{JSON};as={AGGREGATED_KIND};v={version};g={AGGREGATED_GROUP}"
    _is_aggregated(subject.get("/apis", reordered), "an aggregated document, in whatever order")
    profile = f"{subject.accept};profile=nopeer"
    _is_aggregated(subject.get("/apis", profile), "an aggregated document, with profile=nopeer")


def _falls_back(subject: Subject) -> None:
    for path in subject.document_paths:
        _is_plain(
            path, subject.get(path, f"{_UNKNOWN},{JSON}"), "a client that also accepts plain JSON"
        )


def _refuses(subject: Subject) -> None:
    reply = subject.get("/apis", _UNKNOWN)
    if reply.status == OK:
        # Clients go by Content-Type, so a plain document does no harm.
        _is_plain("/apis", reply, "a client that accepts an unknown form only")
    else:
        expect(reply.status == _NOT_ACCEPTABLE, reply, "406, or an unaggregated document")


def _plain_condition(subject: Subject) -> None:
    for path in subject.document_paths:
        etag = subject.etag(subject.aggregated(path))
        reply = subject.get(path, JSON, ("If-None-Match", etag))
        _is_plain(path, reply, "a client that has the other form")


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


CHECKS = (
    _check(
        30,
        "Without an aggregated type in Accept the answer is unaggregated",
        "Python, Java and JavaScript clients, and kubectl before 1.26, know nothing else",
        "look for g, v and as in Accept; without them send APIGroupList or APIVersions",
        _without_accept,
    ),
    _check(
        31,
        "The aggregated form is preferred where both are accepted",
        "client-go accepts both, and asks once more for each group-version when it gets the other",
        "look for an aggregated clause anywhere in Accept first",
        _prefers_aggregated,
    ),
    _check(
        32,
        "The order of parameters does not matter, nor does profile",
        "their order differs between clients; kube-apiserver's peers add profile=nopeer",
        "parse the parameters instead of comparing text",
        _any_order,
    ),
    _check(
        33,
        "Unknown versions in Accept are skipped",
        "newer clients ask for newer versions before those they fall back on",
        "try the next clause of Accept",
        _falls_back,
    ),
    _check(
        34,
        "An unknown form is refused, not claimed",
        "clients cannot decode a document with a wrong Content-Type",
        "answer 406 when no clause of Accept can be served",
        _refuses,
    ),
    _check(
        35,
        "The ETag of one form does not match the other form",
        "a client that asks for the other form would get 304 and keep the wrong one",
        "negotiate before comparing If-None-Match",
        _plain_condition,
    ),
    _check(
        36,
        "?timeout=32s changes nothing",
        "client-go sends it with each request for discovery",
        "ignore unknown query parameters",
        _parameters,
    ),
)
