"""Servers with one fault each, and the checks that find it: every check can fail."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from apidiscovery_cli.conformance.check import CheckOutcome, Profile
from apidiscovery_cli.conformance.exchange import Asked, Endpoint, Reply, Session
from apidiscovery_cli.conformance.running import CHECKS, Report, run
from apidiscovery_cli.conformance.subject import Subject
from apidiscovery_service.extension_server import ApiGroup, ApiVersion, discovery_app
from apidiscovery_service.serving.http.messages import Application
from conformance_reports import numbers
from conforming import SHELVES, extension, kube_apiserver
from http_server import served
from media_types import JSON_V2, PROTOBUF_V2
from tampering import Answered, Disguise, Seen, Tamper, Tampered, undisguised, untouched

HTML = Answered(200, (("content-type", "text/html"),), b"<!DOCTYPE html><p>Not here</p>")
ERROR = Answered(500, (("content-type", "application/json"),), b'{"kind":"Status","code":500}')
REFUSED = Answered(406, (("content-type", "application/json"),), b'{"kind":"Status","code":406}')
PLAIN = "application/json"
V1 = "/apis/example.dev/v1"


def is_aggregated(answer: Answered) -> bool:
    return answer.value("content-type") == JSON_V2


def when(condition: Callable[[Seen], object], then: Callable[[Answered], Answered]) -> Tamper:
    """Return what changes the answers to some requests."""

    def tamper(seen: Seen, answer: Answered) -> Answered:
        return then(answer) if condition(seen) else answer

    return tamper


def of_aggregated(then: Callable[[Answered], Answered]) -> Tamper:
    """Return what changes aggregated JSON, on a server that has no protobuf to differ from."""

    def tamper(seen: Seen, answer: Answered) -> Answered:
        if "vnd.kubernetes.protobuf" in seen.accept:
            return REFUSED
        return then(answer) if is_aggregated(answer) and answer.body else answer

    return tamper


def edited(edit: Callable[[Any], object]) -> Tamper:
    """Return what changes the items of aggregated JSON."""
    return of_aggregated(lambda answer: answer.edited(lambda value: edit(value["items"])))


def at(path: str, then: Callable[[Answered], Answered]) -> Tamper:
    return when(lambda seen: seen.path == path, then)


def openapi(then: Callable[[Answered], Answered], path: str = "/openapi/v3/apis/") -> Tamper:
    return when(lambda seen: seen.path.startswith(path), then)


def index(edit: Callable[[dict[str, Any]], object]) -> Tamper:
    return at("/openapi/v3", lambda answer: answer.edited(lambda value: edit(value["paths"])))


def always(answer: Answered) -> Callable[[Answered], Answered]:
    return lambda _: answer


def without(*names: str) -> Disguise:
    """Return what hides header fields of requests for discovery."""

    def disguise(seen: Seen) -> Seen:
        kept = tuple(pair for pair in seen.headers if pair[0] not in names)
        return replace(seen, headers=kept) if "openapi" not in seen.path else seen

    return disguise


def without_on_openapi(seen: Seen) -> Seen:
    kept = tuple(pair for pair in seen.headers if pair[0] != "if-none-match")
    return replace(seen, headers=kept) if "openapi" in seen.path else seen


def prefers_plain(seen: Seen) -> Seen:
    headers = tuple(
        (name, PLAIN if name == "accept" and PLAIN in value.split(",") else value)
        for name, value in seen.headers
    )
    return replace(seen, headers=headers)


def _no_kinds(value: dict[str, Any]) -> None:
    for schema in value["components"]["schemas"].values():
        schema.pop("x-kubernetes-group-version-kind", None)


def _last_preferred(value: dict[str, Any]) -> None:
    for group in value.get("groups", [value]):
        group["preferredVersion"] = group["versions"][-1]


def _reversed(value: dict[str, Any]) -> None:
    for group in value.get("groups", [value]):
        group["versions"].reverse()
        group["preferredVersion"] = group["versions"][0]


def is_plain_groups(seen: Seen) -> bool:
    is_named = seen.path in ("/apis", "/apis/example.dev", "/apis/more.example.dev")
    return is_named and seen.accept in ("", PLAIN) and "if-none-match" not in dict(seen.headers)


def without_vary(answer: Answered) -> Answered:
    kept = tuple(pair for pair in answer.headers if pair != ("vary", "Accept"))
    return replace(answer, headers=kept)


def random_etags() -> Tamper:
    numbers = itertools.count()
    return lambda _, answer: (
        answer.having("etag", f'"{next(numbers)}"') if is_aggregated(answer) else answer
    )


def one_etag_for_all() -> Tamper:
    numbers = itertools.count()

    def change(answer: Answered) -> Answered:
        number = next(numbers)
        return answer.edited(
            lambda value: value["items"][0]["versions"][0]["resources"][0].update(
                shortNames=[f"w{number}"]
            )
        )

    return of_aggregated(change)


def other_protobuf() -> Tamper:
    """Return what calls something in protobuf by another name of the same length."""

    def change(_: Seen, answer: Answered) -> Answered:
        if answer.value("content-type") != PROTOBUF_V2:
            return answer
        return answer.saying(answer.body.replace(b"shelves", b"benches"))

    return change


def _resource(items: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = items[0]["versions"][0]["resources"][0]
    return found


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a server, and the numbers of the checks that must find it."""

    what: str
    found_by: set[int]
    tamper: Tamper = untouched
    disguise: Disguise = undisguised


def from_aggregator(seen: Seen) -> bool:
    return seen.value("x-remote-user") == "system:kube-aggregator"


FAULTS = [
    Fault(
        "503 for kube-aggregator", {1}, when(from_aggregator, always(replace(ERROR, status=503)))
    ),
    Fault("a page for kube-aggregator", {1}, when(from_aggregator, always(HTML))),
    Fault(
        "no answer for a group-version",
        {3, 43, 48, 55},
        at(V1, lambda answer: replace(answer, status=500)),
    ),
    Fault("If-None-Match is not looked at", {4}, disguise=without("if-none-match")),
    Fault(
        "another ETag in 304",
        {4},
        lambda _, answer: answer.having("etag", '"other"') if answer.status == 304 else answer,
    ),
    Fault(
        "304 as plain JSON",
        {5},
        lambda seen, answer: (
            answer.having("content-type", PLAIN)
            if answer.status == 304 and "openapi" not in seen.path
            else answer
        ),
    ),
    Fault(
        "304 to any ETag",
        {6},
        when(
            lambda seen: seen.accept == JSON_V2 and seen.value("if-none-match").startswith('"000'),
            always(Answered(304)),
        ),
    ),
    Fault(
        "a redirected group-version",
        {3, 7, 40, 43, 48, 55},
        at(V1, always(Answered(301, (("location", f"{V1}/"),)))),
    ),
    Fault(
        "a page instead of a Status",
        {8},
        when(lambda seen: "g=example.com" in seen.accept, always(replace(HTML, status=406))),
    ),
    Fault(
        "aggregated documents as plain JSON",
        {10},
        of_aggregated(lambda answer: answer.having("content-type", PLAIN)),
    ),
    Fault(
        "spaces in Content-Type",
        {11},
        of_aggregated(lambda answer: answer.having("content-type", JSON_V2.replace(";", "; "))),
    ),
    Fault(
        "another apiVersion",
        {12},
        of_aggregated(lambda answer: answer.edited(lambda value: value.pop("apiVersion"))),
    ),
    Fault(
        "a resource twice",
        {13},
        edited(lambda items: items[0]["versions"][0]["resources"].append(_resource(items))),
    ),
    Fault("no responseKind", {14, 48}, edited(lambda items: _resource(items).pop("responseKind"))),
    Fault(
        "no responseKind of a subresource",
        {14, 48},
        edited(lambda items: _resource(items)["subresources"][0].pop("responseKind")),
    ),
    Fault(
        "another scope",
        {15},
        edited(lambda items: items[1]["versions"][0]["resources"][0].update(scope="World")),
    ),
    Fault("no singular", {15}, edited(lambda items: _resource(items).pop("singularResource"))),
    Fault(
        "another word for Current",
        {16},
        edited(lambda items: items[0]["versions"][0].update(freshness="Fresh")),
    ),
    Fault(
        "no ETag",
        {17},
        lambda seen, answer: answer if "openapi" in seen.path else answer.having("etag", None),
    ),
    Fault(
        "weak ETags",
        {17},
        lambda seen, answer: (
            answer.having("etag", f"W/{answer.value('etag')}")
            if answer.value("etag") and "openapi" not in seen.path
            else answer
        ),
    ),
    Fault("another ETag each time", {4, 18, 22}, random_etags()),
    Fault("an ETag for different documents", {18, 20, 48}, one_etag_for_all()),
    Fault("no Vary", {19}, of_aggregated(without_vary)),
    Fault(
        "compressed unasked",
        {20},
        disguise=lambda seen: (
            replace(seen, headers=(*seen.headers, ("accept-encoding", "gzip")))
            if seen.path == "/apis" and seen.accept == JSON_V2
            else seen
        ),
    ),
    Fault("another content in protobuf", {21}, other_protobuf()),
    Fault("500 to HEAD", {22}, when(lambda seen: seen.method == "HEAD", always(ERROR))),
    Fault(
        "an aggregated document for everybody",
        {30},
        disguise=lambda seen: (
            replace(seen, headers=(("accept", JSON_V2),))
            if seen.path == "/apis" and not seen.accept
            else seen
        ),
    ),
    Fault("plain JSON if it is accepted", {31}, disguise=prefers_plain),
    Fault(
        "parameters in one order only",
        {32},
        when(lambda seen: ";as=APIGroupDiscoveryList;v" in seen.accept, always(REFUSED)),
    ),
    Fault(
        "406 to anything unknown", {33}, when(lambda seen: "v=v99" in seen.accept, always(REFUSED))
    ),
    Fault(
        "what was asked for, whatever it is",
        {34},
        when(
            lambda seen: seen.accept.endswith("v=v99;as=APIGroupDiscoveryList"),
            lambda answer: replace(answer, status=200),
        ),
    ),
    Fault(
        "304 to the ETag of the other form",
        {35},
        when(
            lambda seen: seen.accept == PLAIN and seen.value("if-none-match"), always(Answered(304))
        ),
    ),
    Fault("400 to ?timeout", {36}, when(lambda seen: "timeout" in seen.query, always(ERROR))),
    Fault(
        "a charset",
        {40},
        lambda seen, answer: (
            answer.having("content-type", f"{PLAIN}; charset=utf-8")
            if answer.value("content-type") == PLAIN
            and answer.status == 200
            and seen.path.startswith("/apis")
            else answer
        ),
    ),
    Fault(
        "the last version is preferred",
        {41},
        when(is_plain_groups, lambda answer: answer.edited(_last_preferred)),
    ),
    Fault("no documents of groups", {42}, at("/apis/example.dev", always(REFUSED))),
    Fault(
        "another groupVersion",
        {43},
        at(V1, lambda answer: answer.edited(lambda value: value.update(groupVersion="v1"))),
    ),
    Fault(
        "versions in another order",
        {44},
        when(is_plain_groups, lambda answer: answer.edited(_reversed)),
    ),
    Fault("a page at /api", {45}, at("/api", always(HTML))),
    Fault(
        "a page for unknown groups",
        {46},
        when(lambda seen: "invalid" in seen.path, always(replace(HTML, status=404))),
    ),
    Fault(
        "an empty group where there is none",
        {46},
        when(lambda seen: "invalid" in seen.path, lambda answer: replace(answer, status=200)),
    ),
    Fault(
        "500 for unknown resources",
        {47},
        when(lambda seen: seen.path.endswith("-nothing"), always(ERROR)),
    ),
    Fault(
        "other verbs in aggregated documents",
        {48},
        edited(lambda items: _resource(items).update(verbs=["get"])),
    ),
    Fault(
        "an address elsewhere",
        {50},
        index(lambda paths: paths.update(version={"serverRelativeURL": "/elsewhere?hash=0"})),
    ),
    Fault(
        "a document is missing", {51}, index(lambda paths: paths.pop("apis/example.dev/v1beta1"))
    ),
    Fault(
        "nothing is immutable",
        {52},
        openapi(lambda answer: answer.having("cache-control", "no-cache")),
    ),
    Fault(
        "an old hash is redirected elsewhere",
        {53},
        when(
            lambda seen: seen.query.startswith("hash=000"),
            always(Answered(301, (("location", "/nowhere"),))),
        ),
    ),
    Fault(
        "an old hash is immutable",
        {53},
        when(
            lambda seen: seen.query.startswith("hash=000"),
            lambda answer: answer.having("cache-control", "public, immutable"),
        ),
    ),
    Fault("documents are sent again", {54}, disguise=without_on_openapi),
    Fault(
        "schemas do not say of which kind they are",
        {55},
        when(
            lambda seen: seen.path.startswith("/openapi/v3/apis") and seen.accept == PLAIN,
            lambda answer: answer.edited(_no_kinds) if answer.body else answer,
        ),
    ),
    Fault(
        "protobuf as anything",
        {56},
        when(
            lambda seen: "proto-openapi" in seen.accept,
            lambda answer: answer.having("content-type", "application/octet-stream"),
        ),
    ),
    Fault("a page at /openapi/v2", {57}, openapi(always(HTML), "/openapi/v2")),
    Fault("no version", {60}, at("/version", always(ERROR))),
    Fault("not ready", {61}, at("/readyz", always(ERROR))),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncGenerator[tuple[Tampered, str]]:
    """Yield a correct server to change, and its URL."""
    app = Tampered(extension())
    async with served(app) as url:
        yield app, url


async def report_of(app: Application) -> Report:
    async with served(app) as url:
        return await asyncio.to_thread(run, Endpoint(url=url))


@pytest.mark.parametrize("broken", FAULTS, ids=lambda broken: broken.what.replace(" ", "-"))
@pytest.mark.asyncio(loop_scope="module")
async def test_a_fault_fails_the_checks_that_are_about_it(
    server: tuple[Tampered, str], broken: Fault
) -> None:
    app, url = server
    app.tamper, app.disguise = broken.tamper, broken.disguise
    report = await asyncio.to_thread(run, Endpoint(url=url))
    failed = {result.check.number: result for result in report.of(CheckOutcome.FAIL)}
    assert set(failed) == broken.found_by, [str(result) for result in failed.values()]
    assert all(result.seen and result.wanted for result in failed.values())
    assert report.profile is Profile.EXTENSION
    assert not report.passed


def test_every_check_has_a_fault_that_it_finds() -> None:
    elsewhere = {2}  # below, for it needs no server that is slow
    found = {number for broken in FAULTS for number in broken.found_by}
    assert found | elsewhere == {check.number for check in CHECKS}


class SlowSession(Session):
    """A session that says of every answer that it took six seconds."""

    def ask(self, asked: Asked, *, again: bool = False) -> Reply:
        return replace(super().ask(asked, again=again), took_s=6.0)


async def test_an_answer_after_five_seconds_is_too_late() -> None:
    (in_time,) = (check for check in CHECKS if check.number == 2)
    async with served(extension()) as url:
        subject = await asyncio.to_thread(Subject, Endpoint(url=url))
        subject.session = SlowSession(Endpoint(url=url))
        with pytest.raises(Exception, match=r"it took 6\.0 s; want an answer within 5 s"):
            await asyncio.to_thread(in_time.run, subject)


async def test_a_kube_apiserver_has_to_have_aggregated_discovery_since_1_27() -> None:
    without_aggregated = Tampered(
        kube_apiserver(),
        when(
            lambda seen: (
                "APIGroupDiscoveryList" in seen.accept and PLAIN not in seen.accept.split(",")
            ),
            always(REFUSED),
        ),
    )
    async with served(without_aggregated) as url:
        report = await asyncio.to_thread(run, Endpoint(url=url))
        older = await asyncio.to_thread(run, Endpoint(url=url), release=(1, 26))
    assert numbers(report, CheckOutcome.FAIL) == {1}
    assert (report.profile, report.release) == (Profile.KUBE_APISERVER, "1.36")
    assert numbers(older, CheckOutcome.FAIL) == set()


async def test_the_core_group_has_to_be_v1_and_alone() -> None:
    def two_groups(seen: Seen, answer: Answered) -> Answered:
        if seen.path != "/api":
            return answer
        return of_aggregated(
            lambda found: found.edited(
                lambda value: value["items"].append(
                    {**value["items"][0], "metadata": {"name": "b"}}
                )
            )
        )(seen, answer)

    report = await report_of(Tampered(kube_apiserver(), two_groups))
    assert numbers(report, CheckOutcome.FAIL) == {45}


async def test_api_is_checked_beside_apis() -> None:
    report = await report_of(Tampered(kube_apiserver(), at("/api", without_vary)))
    assert numbers(report, CheckOutcome.FAIL) == {19}


async def test_a_server_without_aggregated_discovery_is_not_blamed() -> None:
    def old(seen: Seen) -> Seen:
        """Ask for the plain form whatever is accepted, as a server does that ignores parameters."""
        headers = tuple((n, PLAIN if n == "accept" else v) for n, v in seen.headers)
        return replace(seen, headers=headers) if seen.path == "/apis" else seen

    report = await report_of(Tampered(extension(), disguise=old))
    assert report.passed
    assert report.aggregated == ""
    assert {4, 11, 17, 44, 48} <= numbers(report, CheckOutcome.SKIP)


async def test_a_server_with_errors_alone_has_a_report() -> None:
    app = discovery_app([ApiGroup("example.dev", [ApiVersion("v1", [SHELVES])])])
    report = await report_of(Tampered(app, lambda _seen, _answer: ERROR))
    assert {1, 30, 41, 60, 61} <= numbers(report, CheckOutcome.FAIL)
