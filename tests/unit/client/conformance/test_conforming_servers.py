"""Correct servers pass: ours, old ones, and those below a path."""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml
from apidiscovery_cli.conformance.check import CheckOutcome, Profile
from apidiscovery_cli.conformance.exchange import Endpoint
from apidiscovery_cli.conformance.running import Report, run
from conformance_reports import numbers
from conforming import extension, kube_apiserver
from crd_manifests import CRONTABS
from fake_api_server import FakeApiServer, legacy
from http_server import served
from programs import free_port
from server import Serve, Server
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from tampering import Answered, Seen, Tampered
from waiting import eventually

API_SERVICE = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.down.example.com"},
    "spec": {
        "group": "down.example.com",
        "version": "v1",
        "groupPriorityMinimum": 2000,
        "versionPriority": 20,
        "service": {"namespace": "down", "name": "server"},
    },
}


def failed(report: Report) -> list[str]:
    return [str(result) for result in report.of(CheckOutcome.FAIL)]


def skipped(report: Report) -> dict[int, str]:
    return {result.check.number: result.seen for result in report.of(CheckOutcome.SKIP)}


def test_the_catalogue_passes_all(server: Server) -> None:
    report = run(Endpoint(url=server.url))
    assert (report.profile, report.aggregated) == (Profile.KUBE_APISERVER, "v2")
    assert (failed(report), skipped(report)) == ([], {})


def test_definitions_and_a_remote_that_is_down_pass_all(serve: Serve, tmp_path: Path) -> None:
    manifests, config = tmp_path / "all.yaml", tmp_path / "config.yaml"
    manifests.write_text(yaml.safe_dump_all([CRONTABS, API_SERVICE]), encoding="utf-8")
    services = {"services": {"down/server": f"http://127.0.0.1:{free_port()}"}}
    config.write_text(json.dumps(services), encoding="utf-8")
    flags = ("--manifests", str(manifests), "--config", str(config), "--store", "memory")
    server = serve("--catalog", "kubernetes", *flags)

    def settled() -> Report | None:
        report = run(Endpoint(url=server.url))
        return None if failed(report) else report

    report = eventually(settled, "the remote is known to be down", 60)
    assert skipped(report) == {}


async def test_a_server_without_v2beta1_passes_all() -> None:
    def tamper(seen: Seen, answer: Answered) -> Answered:
        wants_beta = bool(seen.accept) and all("v=v2beta1" in one for one in seen.accept.split(","))
        return Answered(HTTPStatus.NOT_ACCEPTABLE) if wants_beta else answer

    async with served(Tampered(kube_apiserver(), tamper)) as url:
        report = await asyncio.to_thread(run, Endpoint(url=url))
    assert (report.profile, report.aggregated) == (Profile.KUBE_APISERVER, "v2")
    assert failed(report) == []


def test_a_server_before_aggregated_discovery_passes_the_rest(old_server: Server) -> None:
    report = run(Endpoint(url=old_server.url), release=(1, 26))
    assert failed(report) == []
    assert set(skipped(report)) == {*range(4, 7), *range(10, 23), 31, 32, 35, 44, 48}
    assert set(skipped(report).values()) == {"the server has no aggregated discovery"}


def test_a_recorded_kubernetes_1_15_is_not_blamed() -> None:
    with FakeApiServer(legacy()) as fake:
        report = run(Endpoint(url=fake.url))
    assert failed(report) == []
    assert (report.release, report.aggregated) == ("1.15", "")
    assert {4, 17, 48, 50, 61} <= set(skipped(report))


async def test_an_extension_server_passes_all_mounted_and_wrapping() -> None:
    async def home(_: object) -> PlainTextResponse:
        return PlainTextResponse("home")

    mounted = Starlette(routes=[Route("/home", home), Mount("/", extension())])
    for app in (extension(), mounted):
        async with served(app) as url:
            report = await asyncio.to_thread(run, Endpoint(url=url))
            assert (report.profile, failed(report), skipped(report)) == ("extension", [], {})


async def test_a_server_behind_a_prefix_passes() -> None:
    """Links of such a server are below its own root."""
    app = Starlette(routes=[Mount("/clusters/one", kube_apiserver())])
    async with served(app) as url:
        report = await asyncio.to_thread(run, Endpoint(url=f"{url}/clusters/one"))
    assert failed(report) == []


async def test_requests_are_get_and_head_and_few() -> None:
    app = Tampered(extension())
    async with served(app) as url:
        report = await asyncio.to_thread(run, Endpoint(url=url))
    assert {seen.method for seen in app.requests} == {"GET", "HEAD"}
    assert report.requests == len(app.requests)
    assert report.requests < 60


async def test_a_definition_whose_names_are_taken_is_no_fault_of_kube_apiserver() -> None:
    """kube-apiserver lists its version only in plain documents, and answers 404 there."""

    def lists_it(value: Any) -> None:  # noqa: ANN401 - JSON
        for group in value.get("groups", [value]):
            group["versions"].append({"groupVersion": "apps/v2", "version": "v2"})

    def tamper(seen: Seen, answer: Answered) -> Answered:
        is_list = seen.path in {"/apis", "/apis/apps"} and answer.status == HTTPStatus.OK
        is_plain = is_list and answer.value("content-type") == "application/json"
        return answer.edited(lists_it) if is_plain else answer

    async with served(Tampered(kube_apiserver(), tamper)) as url:
        as_kubernetes = await asyncio.to_thread(run, Endpoint(url=url))
        as_extension = await asyncio.to_thread(run, Endpoint(url=url), profile=Profile.EXTENSION)
    assert failed(as_kubernetes) == []
    assert 44 in numbers(as_extension, CheckOutcome.FAIL)


async def test_a_kubernetes_1_26_has_openapi_as_it_was_then() -> None:
    def tamper(_: Seen, answer: Answered) -> Answered:
        if "protobuf" in answer.value("content-type"):
            return answer.having("content-type", "application/octet-stream")
        return answer

    async with served(Tampered(kube_apiserver(), tamper)) as url:
        old, new = [
            await asyncio.to_thread(run, Endpoint(url=url), release=release)
            for release in ((1, 26), (1, 27))
        ]
    assert 56 not in numbers(old, CheckOutcome.FAIL)
    assert 56 in numbers(new, CheckOutcome.FAIL)
