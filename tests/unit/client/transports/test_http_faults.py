"""Failures over HTTP are reported, and the earlier snapshot is kept."""

import gzip
import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery_client import _fields
from apidiscovery_client._errors import (
    ClientClosed,
    InvalidConfiguration,
    RequestRefused,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client._http.flow import HttpOptions
from apidiscovery_client._http.reply import MAX_RETRIES
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._package import VERSION
from apidiscovery_client._reading import protobuf
from apidiscovery_client._server import Headers, Server
from apidiscovery_client.model import CURRENT, GroupVersion, Stale, Unknown
from fake_api_server import Answer, FakeApiServer, Request, Respond, aggregated, status
from fetching import KINDS, fetching
from media_types import aggregated_type
from programs import refusing
from skewed_answers import RELEASES, respond

NEW, OLD = respond(RELEASES["1.33"]), respond(RELEASES["1.15"])
APPS = GroupVersion("apps", "v1")
DOWN = Answer(b"service unavailable\n", "text/plain", 503)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# For judgements of answers: both transports leave them to the same code.
blocking = pytest.mark.parametrize("kind", ["blocking"])


def but(inner: Respond, answers: Mapping[str, Answer]) -> Respond:
    """Return what answers some paths in another way."""

    def answer(request: Request) -> Answer:
        return answers.get(request.path) or inner(request)

    return answer


def fetched(
    kind: str, answer: Respond, held: FetchedSnapshot | None = None, **options: int
) -> FetchedSnapshot:
    wished = HttpOptions(**options)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - flags are numbers, too
    with FakeApiServer(answer) as server, fetching(kind, server.url, wished) as transport:
        return transport.fetch(held)


# One wrong answer.


def compressed(body: bytes) -> Answer:
    return Answer(body, aggregated_type(), headers={"Content-Encoding": "gzip"})


@blocking
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(Answer(b"<html>"), "the body is not JSON", id="garbage"),
        pytest.param(Answer(b"", None, 304), "nothing was said to be known", id="304"),
        pytest.param(compressed(b"{}"), "cannot be decoded", id="not compressed"),
        pytest.param(
            compressed(gzip.compress(b"", mtime=0) * 5000), "more than 4096 parts", id="parts"
        ),
    ],
)
def test_wrong_document_is_an_error(kind: str, answer: Answer, message: str) -> None:
    with pytest.raises(UnexpectedDocument, match=message):
        fetched(kind, but(NEW, {"/apis": answer}))


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({}, id="plain"),
        pytest.param({"/apis": compressed(gzip.compress(bytes(1 << 20)))}, id="compressed"),
    ],
)
def test_size_of_a_body_is_bounded(kind: str, answers: Mapping[str, Answer]) -> None:
    with pytest.raises(UnexpectedDocument, match="the body exceeds 5000 bytes"):
        fetched(kind, but(NEW, answers), max_body_bytes=5000)


@blocking
def test_number_of_values_in_a_body_is_bounded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In protobuf, two bytes stand for a group, which takes sixty bytes or more in memory."""
    monkeypatch.setattr(_fields, "MAX_VALUES", 10_000)
    monkeypatch.setattr(protobuf, "MAX_ENTRIES", 1000)
    many = Answer(b"[" + b"[]," * 10_000 + b"0]", aggregated_type())
    with pytest.raises(UnexpectedDocument, match="more than 10000 values"):
        fetched(kind, but(NEW, {"/apis": many}))
    meta = runtime_pb2.TypeMeta(kind="APIGroupDiscoveryList", api_version="apidiscovery.k8s.io/v2")
    groups = runtime_pb2.Unknown(type_meta=meta, raw=b"\x12\x00" * 1001).SerializeToString()
    kept = aggregated_type().replace("json", "vnd.kubernetes.protobuf")
    with pytest.raises(UnexpectedDocument, match="more than 1000 resources"):
        fetched(kind, but(NEW, {"/apis": Answer(b"k8s\0" + groups, kept)}))


def test_body_that_ends_early_is_no_answer(kind: str) -> None:
    cut = Answer(b"{", aggregated_type(), length=100)
    with pytest.raises(ServerUnreachable, match=r"received 1 bytes, expected 100"):
        fetched(kind, but(NEW, {"/apis": cut}))


def test_redirect_is_not_followed(kind: str) -> None:
    moved = Answer(b"", None, 302, {"Location": "http://127.0.0.1:1/"})
    with pytest.raises(RequestRefused, match=r"302: redirects are not followed"):
        fetched(kind, but(NEW, {"/apis": moved}))


@pytest.mark.parametrize("raw", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n"])
def test_what_is_not_http_is_no_answer(kind: str, raw: bytes) -> None:
    with pytest.raises(ServerUnreachable):
        fetched(kind, lambda _: Answer(raw=raw))


def test_refused_connection_is_told(kind: str) -> None:
    with (
        refusing() as address,
        fetching(kind, f"http://{address}") as transport,
        pytest.raises(ServerUnreachable, match="was refused"),
    ):
        transport.fetch()


def test_server_that_stalls_is_not_waited_for(kind: str) -> None:
    with FakeApiServer(Answer(stalls=True)) as server:
        quick = Server(url=server.url, request_timeout_s=0.2)
        with (
            fetching(kind, quick) as transport,
            pytest.raises(ServerUnreachable, match=r"/api: no answer within 0\.2 s"),
        ):
            transport.fetch()


# Patience and credentials.


@pytest.mark.parametrize("code", [429, 500, 503])
def test_busy_server_is_asked_again_when_it_says(kind: str, code: int) -> None:
    busy = [replace(status(code, "", "busy"), headers={"Retry-After": "0"})] * 2

    def answer(request: Request) -> Answer:
        return busy.pop() if request.path == "/apis" and busy else NEW(request)

    with FakeApiServer(answer) as server, fetching(kind, server.url) as transport:
        assert transport.fetch().snapshot.group("apps")
    assert server.paths.count("/apis") == 3


@blocking
@pytest.mark.parametrize(
    ("wait", "times"),
    [
        pytest.param("0", 1 + MAX_RETRIES, id="again and again"),
        pytest.param("3600", 1, id="too long"),
        pytest.param("Wed, 21 Oct 2015 07:28:00 GMT", 1, id="a date"),
        pytest.param("9" * 5000, 1, id="absurd"),
    ],
)
def test_patience_ends(kind: str, wait: str, times: int) -> None:
    busy = replace(status(429, "", "busy"), headers={"Retry-After": wait})
    with (
        FakeApiServer(but(NEW, {"/apis": busy})) as server,
        fetching(kind, server.url) as transport,
        pytest.raises(RequestRefused, match="429: busy"),
    ):
        transport.fetch()
    assert server.paths.count("/apis") == times


@pytest.mark.parametrize("wait", ["5", "0"], ids=["in a pause", "in a request"])
def test_the_last_refusal_is_told_when_time_is_up(kind: str, wait: str) -> None:
    refusal = replace(status(503, "", "no source\nanswers"), headers={"Retry-After": wait})
    left = [refusal]

    def answer(request: Request) -> Answer:
        if request.path != "/apis":
            return NEW(request)
        return left.pop() if left else Answer(stalls=True)

    with FakeApiServer(answer) as server:
        quick = Server(url=server.url, request_timeout_s=4)
        with fetching(kind, quick) as transport, pytest.raises(RequestRefused) as caught:
            transport.fetch()
    told = "503: no source answers; no other answer within 4 s"
    assert str(caught.value) == f"GET {server.url}/apis: {told}"


class Renewing:
    """An access with several tokens, which counts refusals."""

    def __init__(self, *tokens: str) -> None:
        self.identity = "renewing"
        self.refusals = 0
        self._tokens = list(tokens)

    def headers(self) -> Headers:
        return (
            ("Authorization", f"Bearer {self._tokens[0]}"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "bé"),
        )

    def tls(self) -> None:
        return None

    def refused(self) -> bool:
        self.refusals += 1
        if len(self._tokens) == 1:
            return False
        self._tokens.pop(0)
        return True


def guarded(inner: Respond) -> Respond:
    def answer(request: Request) -> Answer:
        is_known = request.headers.get("authorization") == "Bearer new"
        return inner(request) if is_known else status(401, "Unauthorized", "Unauthorized")

    return answer


def test_refused_credentials_are_renewed_once_for_all_requests(kind: str) -> None:
    access = Renewing("old", "new")
    with (
        FakeApiServer(guarded(OLD)) as server,
        fetching(kind, Server(url=server.url, access=access)) as transport,
    ):
        assert transport.fetch().snapshot.group("apps")
    assert access.refusals == 1
    shown = [request.headers["authorization"] for request in server.requests]
    # One of the first two may have been sent only after the other one was refused.
    assert shown.count("Bearer old") in (1, 2)


@blocking
def test_without_other_credentials_401_is_the_answer(kind: str) -> None:
    access = Renewing("old")
    with (
        FakeApiServer(guarded(NEW)) as server,
        fetching(kind, Server(url=server.url, access=access)) as transport,
        pytest.raises(RequestRefused, match="401: Unauthorized"),
    ):
        transport.fetch()
    assert (access.refusals, len(server.requests)) == (1, 2)


def test_credentials_that_cannot_be_had_are_told_as_they_are(kind: str) -> None:
    class Broken(Renewing):
        def headers(self) -> Headers:
            raise InvalidConfiguration("users[0].exec: no such program")

    with (
        FakeApiServer(NEW) as server,
        fetching(kind, Server(url=server.url, access=Broken("a"))) as transport,
        pytest.raises(InvalidConfiguration, match="no such program"),
    ):
        transport.fetch()
    assert server.requests == []


def test_headers_go_out_line_by_line_in_utf_8(kind: str) -> None:
    with FakeApiServer(NEW) as server:
        known = Server(url=server.url, access=Renewing("a"), compress=False)
        with fetching(kind, known) as transport:
            transport.fetch()
    sent = server.requests[0]
    assert sent.values("impersonate-group") == ["a", "bé"]
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["user-agent"] == f"apidiscovery/{VERSION}"


# The earlier snapshot.


@blocking
def test_group_version_that_fails_is_unknown_and_later_stale(kind: str) -> None:
    broken = but(OLD, {"/apis/apps/v1": DOWN})
    first = fetched(kind, broken)
    reason = "the server is currently unable to handle the request"
    (unknown,) = first.snapshot.troubled
    assert (unknown.gv, unknown.resources) == (APPS, ())
    assert isinstance(unknown.freshness, Unknown)
    assert unknown.freshness.reason == reason
    known = fetched(kind, OLD, first)
    assert known.snapshot.troubled == ()
    stale = fetched(kind, broken, known)
    again = fetched(kind, broken, stale)
    assert again.snapshot.groups is stale.snapshot.groups
    (version,) = again.snapshot.troubled
    assert version.resources
    assert version.freshness == Stale(stale.snapshot.checked_at, reason, retained=True)
    assert fetched(kind, OLD, again).snapshot.groups == known.snapshot.groups


def test_group_version_whose_answer_breaks_off_is_unknown(kind: str) -> None:
    held = fetched(kind, but(OLD, {"/apis/apps/v1": Answer(b"{", length=9)}))
    assert [version.gv for version in held.snapshot.troubled] == [APPS]


@blocking
def test_core_document_may_be_missing(kind: str) -> None:
    held = fetched(kind, but(OLD, {"/api/v1": Answer(b"", "text/plain", 404)}))
    core = held.snapshot.version(GroupVersion("", "v1"))
    assert core
    assert (core.resources, core.freshness) == ((), CURRENT)


@blocking
def test_core_group_may_be_missing(kind: str) -> None:
    held = fetched(kind, but(NEW, {"/api": Answer(b"", "text/plain", 404)}))
    assert held.snapshot.group("") is None
    assert held.snapshot.failures == {}


@blocking
def test_version_that_the_server_calls_stale_keeps_its_resources(kind: str) -> None:
    widget = {"resource": "as", "responseKind": {"kind": "A"}, "scope": "Cluster", "verbs": ["get"]}

    def answer(freshness: str, *resources: object) -> Respond:
        version = {"version": "v1", "resources": resources, "freshness": freshness}
        group = {"metadata": {"name": "a.io"}, "versions": [version]}
        return but(NEW, {"/apis": aggregated(group)})

    known = fetched(kind, answer("Current", widget))
    stale = fetched(kind, answer("Stale"), known).snapshot
    told = "stale GroupVersion discovery: a.io/v1"
    assert stale.troubled[0].resources == known.snapshot.groups[1].versions[0].resources
    assert stale.troubled[0].freshness == Stale(stale.checked_at, told, retained=True)
    fresh = fetched(kind, answer("Stale")).snapshot
    assert fresh.troubled[0].freshness == Unknown(fresh.checked_at, told)


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_answer_that_the_server_marks_as_old_is_stale_as_a_whole(kind: str, path: str) -> None:
    """RFC 7234, 5.5.1; a 304 without the mark makes it current again."""
    told = 'said to be, 110 - of "east"'
    reason = '299 - "said to be, 110 - of \\"east\\""'

    def marked(value: str) -> Respond:
        def answer(request: Request) -> Answer:
            given = NEW(request)
            if request.path != path:
                return given
            return replace(given, headers={**given.headers, "Warning": value})

        return answer

    answers = marked(f'{reason}, 110 - "Response is Stale"')
    with FakeApiServer(answers) as server, fetching(kind, server.url) as transport:
        first = transport.fetch()
        second = transport.fetch(first)
        server.answers = marked(reason)
        third = transport.fetch(second)
    assert first.snapshot.freshness == Stale(first.snapshot.checked_at, told)
    assert second.snapshot.freshness == first.snapshot.freshness
    assert third.snapshot.freshness == CURRENT
    assert first.snapshot.troubled == ()
    assert third.snapshot.groups is first.snapshot.groups
    assert transport.traffic.not_modified == 4


@blocking
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_half_that_fails_is_kept_and_comes_back_by_304(kind: str, path: str) -> None:
    with FakeApiServer(NEW) as server, fetching(kind, server.url) as transport:
        first = transport.fetch()
        server.answers = but(NEW, {path: DOWN})
        second = transport.fetch(first)
        third = transport.fetch(second)
        server.answers = NEW
        fourth = transport.fetch(third)
    reason = f"GET {server.url}{path}: 503: the server is currently unable to handle the request"
    kept = second.snapshot.troubled
    assert {bool(version.gv.group) for version in kept} == {path == "/apis"}
    stale = Stale(second.snapshot.checked_at, reason, retained=True)
    assert all(version.freshness == stale for version in kept)
    assert third.snapshot.groups is second.snapshot.groups
    assert fourth.snapshot.groups == first.snapshot.groups
    assert fourth.etags == first.etags
    assert transport.traffic.not_modified == 4


@blocking
def test_half_of_an_old_server_that_fails_is_kept(kind: str) -> None:
    first = fetched(kind, OLD)
    second = fetched(kind, but(OLD, {"/apis": DOWN}), first)
    assert {version.gv for version in second.snapshot.troubled} == {
        version.gv for version in first.snapshot.versions if version.gv.group
    }
    assert fetched(kind, OLD, second).snapshot.groups == first.snapshot.groups


@blocking
def test_core_that_fails_is_told_in_the_snapshot_or_raised(kind: str) -> None:
    broken = but(NEW, {"/api": status(403, "Forbidden", "no")})
    held = fetched(kind, broken)
    assert list(held.snapshot.failures) == ["/api"]
    assert held.snapshot.failures["/api"].endswith("/api: 403: no")
    assert held.snapshot.group("apps")
    assert held.etags.keys() == {"/apis"}
    assert fetched(kind, broken, held).snapshot.failures.keys() == {"/api"}
    assert fetched(kind, NEW, held).snapshot.failures == {}
    with pytest.raises(RequestRefused, match="403: no"):
        fetched(kind, broken, needs_core=True)


@blocking
@pytest.mark.parametrize("is_held", [True, False])
def test_when_both_fail_the_first_error_is_raised(kind: str, *, is_held: bool) -> None:
    held = fetched(kind, NEW) if is_held else None
    broken = but(NEW, {"/api": status(403, "", "no"), "/apis": DOWN})
    with pytest.raises(RequestRefused, match="/api: 403: no"):
        fetched(kind, broken, held)


@blocking
def test_refusal_of_the_caller_comes_before_other_errors(kind: str) -> None:
    broken = but(NEW, {"/api": DOWN, "/apis": status(401, "Unauthorized", "who?")})
    with pytest.raises(RequestRefused, match="/apis: 401: who"):
        fetched(kind, broken, fetched(kind, NEW))


@blocking
@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize("release", ["1.33", "1.15"])
def test_401_and_403_at_one_path_are_raised_though_there_is_a_snapshot(
    kind: str, release: str, path: str, code: int
) -> None:
    server = respond(RELEASES[release])
    held = fetched(kind, server)
    with pytest.raises(RequestRefused, match=f"{path}: {code}: not you") as error:
        fetched(kind, but(server, {path: status(code, "", "not you")}), held)
    assert error.value.is_of_the_caller
    assert fetched(kind, server, held).snapshot.groups == held.snapshot.groups


@blocking
def test_401_at_one_path_is_raised_without_a_snapshot(kind: str) -> None:
    broken = but(NEW, {"/api": status(401, "Unauthorized", "who?")})
    with pytest.raises(RequestRefused, match="/api: 401: who"):
        fetched(kind, broken)


@blocking
def test_401_of_the_plain_request_comes_before_the_first_error(kind: str) -> None:
    def answer(request: Request) -> Answer:
        if request.path != "/api":
            return NEW(request)
        is_plain = "as=" not in request.headers["accept"]
        return status(401, "Unauthorized", "who?") if is_plain else Answer(b"<html>")

    with pytest.raises(RequestRefused, match="/api: 401: who"):
        fetched(kind, answer, fetched(kind, NEW))


@blocking
@pytest.mark.parametrize("etag", ["a\r\nb", "é", '"x"'])
def test_etag_that_cannot_be_sent_is_not(kind: str, etag: str) -> None:
    held = fetched(kind, NEW)
    odd = replace(held, etags={"/api": etag, "/apis": etag})
    assert fetched(kind, NEW, odd).snapshot.groups is held.snapshot.groups


# Connections.


def test_connections_are_used_again_and_replaced_when_the_server_ends_them(kind: str) -> None:
    both_asked = threading.Barrier(2)  # else one connection may do for both

    def answer(request: Request) -> Answer:
        both_asked.wait(20)
        return NEW(request)

    with FakeApiServer(answer) as server, fetching(kind, server.url) as transport:
        held = transport.fetch()
        for _ in range(3):
            held = transport.fetch(held)
        assert server.connections == 2
        server.drop_connections()
        transport.fetch(held)
        assert server.connections <= 4
    assert transport.traffic.not_modified == 8


def test_at_most_sixteen_requests_are_under_way(kind: str) -> None:
    lock, under_way, most = threading.Lock(), 0, 0
    all_run = threading.Event()

    def answer(request: Request) -> Answer:
        nonlocal under_way, most
        if request.path.count("/") < 3:
            return OLD(request)
        with lock:
            under_way += 1
            most = max(most, under_way)
            if under_way == 16:
                all_run.set()
        all_run.wait(10)
        with lock:
            under_way -= 1
        return OLD(request)

    held = fetched(kind, answer)
    assert held.snapshot.troubled == ()
    assert most == 16


def test_closed_transport_says_so(kind: str) -> None:
    with FakeApiServer(NEW) as server, fetching(kind, server.url) as transport:
        transport.fetch()
        transport.close()
        with pytest.raises(ClientClosed):
            transport.fetch()
