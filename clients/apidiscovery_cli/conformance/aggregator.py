"""Checks that replay the requests of kube-aggregator to an extension API server.

Source: kube-aggregator pkg/apiserver/handler_discovery.go and
pkg/controllers/status/remote/remote_available_controller.go.
"""

from apidiscovery_client.model import GroupVersion
from apidiscovery_formats.media_types import AGGREGATED_KIND, JSON

from apidiscovery_cli.conformance.check import (
    FailedError,
    Profile,
    Section,
    SkippedError,
    document,
    expect,
    some,
)
from apidiscovery_cli.conformance.exchange import Reply
from apidiscovery_cli.conformance.subject import (
    AGGREGATED_SINCE,
    AGGREGATOR_ACCEPT,
    AGGREGATOR_HEADERS,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    Subject,
)

SECTION = Section("Behind kube-aggregator")
_TIMEOUT_S = 5.0
_NOT_ACCEPTABLE, _NOT_MODIFIED = 406, 304
_REDIRECTIONS, _REFUSALS = range(300, 400), range(400, 500)


def _as_aggregator(subject: Subject) -> Reply:
    return subject.get("/apis", AGGREGATOR_ACCEPT, *AGGREGATOR_HEADERS[1:])


@SECTION.check(
    1,
    "It answers kube-aggregator, which accepts only aggregated JSON",
    why="kube-aggregator asks so each minute; after 503 or an error the group is Stale everywhere",
    advice="answer the aggregated document, or 406 Not Acceptable, as Kubernetes does without it",
)
def _answers(subject: Subject) -> None:
    reply = _as_aggregator(subject)
    if subject.version is not None:
        return
    if (
        subject.profile is Profile.KUBE_APISERVER
        and (subject.release or (1, 0)) >= AGGREGATED_SINCE
    ):
        raise FailedError(
            str(reply), "an aggregated document, which Kubernetes has since 1.27", reply.asked
        )
    if reply.status == OK and not reply.is_html:
        # Another check covers the Content-Type of aggregated documents.
        document(reply)["kind"].one_of("APIGroupList", AGGREGATED_KIND)
        return
    falls_back = reply.status in (_NOT_ACCEPTABLE, NOT_FOUND)
    wanted = (
        "an aggregated document, or 406 or an unaggregated one so that the client can fall back"
    )
    expect(falls_back, reply, wanted)


@SECTION.check(
    2,
    "It answers discovery within 5 seconds",
    why="kube-aggregator waits no longer, and then publishes the group as Stale",
    advice="keep the documents in memory; call no other server while answering",
)
def _in_time(subject: Subject) -> None:
    replies = [_as_aggregator(subject)]
    replies += [_resources(subject, gv) for gv, _ in subject.versions()]
    for reply in replies:
        seen = f"it took {reply.took_s:.1f} s"
        expect(reply.took_s < _TIMEOUT_S, reply, f"an answer within {_TIMEOUT_S:g} s", seen)


def _resources(subject: Subject, gv: GroupVersion) -> Reply:
    return subject.get(gv.path, JSON)


@SECTION.check(
    3,
    "Each group-version answers at /apis/GROUP/VERSION",
    why=(
        "kube-aggregator refuses every user request with 503 while this is not 2xx, and"
        " namespaces cannot be deleted meanwhile"
    ),
    advice="serve an APIResourceList at the path of each group-version",
)
def _available(subject: Subject) -> None:
    for gv, is_stale in some(subject.versions(), "group-version"):
        reply = _resources(subject, gv)
        if is_stale and reply.status == UNAVAILABLE:
            continue  # its server does not answer, as the document states
        expect(reply.status == OK, reply, "200, which marks the server available")
    unserved = [] if subject.version else list(filter(subject.is_unserved, subject.listed()))
    if unserved:
        raise SkippedError(
            f"{', '.join(map(str, unserved))} answers 404, as with a definition whose names are"
            " taken; all others answer"
        )


@SECTION.check(
    4,
    "It answers 304 to If-None-Match with its own ETag",
    why=(
        "kube-aggregator and client-go ask with the ETag that they have; otherwise each asks for"
        " the whole document each time"
    ),
    advice="compare If-None-Match with the quoted ETag, and answer 304 with the same ETag, no body",
)
def _revalidated(subject: Subject) -> None:
    for path in subject.document_paths:
        first = subject.aggregated(path)
        etag = subject.etag(first)
        reply = subject.aggregated(path, ("If-None-Match", etag))
        expect(reply.status == _NOT_MODIFIED, reply, "304 to the ETag that was sent before")
        expect(not reply.body, reply, "304 without a body")
        sent = reply.value("etag")
        expect(sent in (None, etag), reply, f"the same ETag, {etag}", f"ETag is {sent}")


@SECTION.check(
    5,
    "304 does not change the Content-Type",
    why=(
        "client-go's HTTP cache takes the header fields of a 304 for the stored document, and then"
        " reads an aggregated document as another one"
    ),
    advice="leave Content-Type out of 304, or send the full one",
)
def _keeps_type(subject: Subject) -> None:
    for path in subject.document_paths:
        first = subject.aggregated(path)
        reply = subject.aggregated(path, ("If-None-Match", subject.etag(first)))
        if reply.status != _NOT_MODIFIED:
            raise SkippedError("the server does not answer 304")
        wanted = f"no Content-Type, or {first.content_type}"
        seen = f"Content-Type is {reply.content_type}"
        expect(reply.content_type in ("", first.content_type), reply, wanted, seen)


@SECTION.check(
    6,
    "It answers the document to an If-None-Match with another ETag",
    why="a client would keep a stale document for ever",
    advice="answer 304 only if the ETag is the present one",
)
def _changed(subject: Subject) -> None:
    for path in subject.document_paths:
        subject.etag(subject.aggregated(path))
        reply = subject.aggregated(path, ("If-None-Match", f'"{"0" * 128}"'))
        expect(reply.status == OK, reply, "200 to an ETag that the server never sent")
        expect(reply.body, reply, "the document in a 200")


@SECTION.check(
    7,
    "Nothing is redirected",
    why="kube-aggregator turns redirections of extension API servers into 502",
    advice="answer at the path itself, with and without a trailing slash",
)
def _no_redirection(subject: Subject) -> None:
    paths = ["/apis", "/openapi/v3", *(gv.path for gv, _ in subject.versions())]
    for path in paths:
        reply = _as_aggregator(subject) if path == "/apis" else subject.get(path, JSON)
        moved = reply.status in _REDIRECTIONS and reply.value("location") is not None
        seen = f"{reply.status} to {reply.value('location')}"
        expect(not moved, reply, "an answer without a redirection", seen)


@SECTION.check(
    8,
    "Refusals are a Status, not a page",
    why="client-go shows the message of a Status; a page does not help its users",
    advice="answer 406 and a Status of reason NotAcceptable",
)
def _status_errors(subject: Subject) -> None:
    """Check that refusals have a Status or plain text, not a page."""
    reply = subject.get("/apis", f"{JSON};g=example.com;v=v1;as=Nothing")
    expect(not reply.is_html, reply, "a Status or text, not a page")
    if reply.status == OK:
        raise SkippedError("the server refuses no form of a document")
    expect(reply.status in _REFUSALS, reply, "406, or another status of a request that is wrong")
    if reply.status == _NOT_ACCEPTABLE and reply.body and reply.content_type.startswith(JSON):
        document(reply)["kind"].one_of("Status")
