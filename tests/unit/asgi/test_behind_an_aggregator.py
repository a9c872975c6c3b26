"""An application under a real server, asked by kubectl and by our own service as its aggregator."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from apidiscovery_service.extension_server import ApiGroup, ApiVersion, DiscoveryApp, discovery_app
from command_line import Outcome
from conforming import GROUPS, SHELVES
from http_server import served
from media_types import JSON_V2, JSON_V2BETA1
from programs import kubectl
from raw_http import RawResponse, get, request
from server import Serve, Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from tampering import Tampered
from waiting import eventually

from tools import find_tool

V1 = "/apis/example.dev/v1"
# What kube-aggregator up to 1.36 sends: no plain JSON to fall back on.
ASKED = (
    ("Accept", f"{JSON_V2},{JSON_V2BETA1}"),
    ("X-Remote-User", "system:kube-aggregator"),
    ("X-Remote-Group", "system:masters"),
)


async def listed(request: Request) -> JSONResponse:
    metadata = {"name": "oak", "namespace": request.path_params.get("namespace", "default")}
    item = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": metadata}
    return JSONResponse({"apiVersion": "example.dev/v1", "kind": "WidgetList", "items": [item]})


def application(discovery: DiscoveryApp) -> Starlette:
    return Starlette(
        routes=[
            Route(f"{V1}/widgets", listed),
            Route(f"{V1}/namespaces/{{namespace}}/widgets", listed),
            Mount("/", discovery),
        ]
    )


@pytest.fixture(name="discovery")
def fixture_discovery() -> DiscoveryApp:
    return discovery_app(GROUPS)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


async def ask(folder: Path, url: str, *args: str) -> Outcome:
    return await asyncio.to_thread(kubectl, _made(folder), "--server", url, *args)


async def test_kubectl_lists_explains_and_gets(discovery: DiscoveryApp, tmp_path: Path) -> None:
    find_tool("kubectl")
    async with served(application(discovery)) as url:
        resources = await ask(tmp_path, url, "api-resources", "--no-headers")
        explained = await ask(tmp_path, url, "explain", "widgets.size")
        got = await ask(tmp_path, url, "get", "wd", "-n", "forest", "-o", "json")
        versions = await ask(tmp_path, url, "api-versions")
    assert [line.split() for line in resources.stdout.splitlines()] == [
        ["shelves", "example.dev/v1", "false", "Shelf"],
        ["widgets", "wd", "example.dev/v1", "true", "Widget"],
        ["shelves", "more.example.dev/v1", "false", "Shelf"],
    ]
    assert "Its size in millimetres." in explained.stdout
    assert json.loads(got.stdout)["items"][0]["metadata"] == {"name": "oak", "namespace": "forest"}
    assert versions.stdout.split() == [
        "example.dev/v1",
        "example.dev/v1beta1",
        "more.example.dev/v1",
    ]


async def test_it_answers_exactly_what_kube_aggregator_asks(discovery: DiscoveryApp) -> None:
    async with served(application(discovery)) as url:
        port = int(url.rpartition(":")[2])

        def asked(*more: tuple[str, str]) -> RawResponse:
            return request(port, "/apis", [*ASKED, *more])

        first = await asyncio.to_thread(asked)
        assert (first.status, first.content_type, first.etag) == (
            200,
            [JSON_V2],
            f'"{discovery.etag}"',
        )
        known = await asyncio.to_thread(asked, ("If-None-Match", first.etag))
        assert (known.status, known.body, known.etag) == (304, b"", first.etag)
        assert known.content_type == []
        discovery.update(GROUPS[:1])
        changed = await asyncio.to_thread(asked, ("If-None-Match", first.etag))
        assert changed.status == 200
        assert changed.etag not in (first.etag, "")
        # The probe of its availability, and of what is there no more.
        for path, status in ((V1, 200), ("/apis/more.example.dev/v1", 404)):
            answer = await asyncio.to_thread(get, port, path, None, *ASKED[1:])
            assert answer.status == status


def services() -> list[dict[str, object]]:
    """Return an APIService for each version."""
    return [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.example.dev"},
            "spec": {
                "group": "example.dev",
                "version": version,
                "groupPriorityMinimum": 2000,
                "versionPriority": 20 + number,
                "service": {"namespace": "widgets", "name": "server"},
            },
        }
        for number, version in enumerate(("v1beta1", "v1"))
    ]


def group(server: Server) -> dict[str, tuple[str, list[str]]]:
    """Return the freshness and the resources of each version of the group."""
    items: Any = get(server.http_port, "/apis", JSON_V2).json().get("items", [])  # none in a 503
    return {
        version["version"]: (
            version["freshness"],
            [resource["resource"] for resource in version.get("resources", [])],
        )
        for item in items
        if item["metadata"]["name"] == "example.dev"
        for version in item["versions"]
    }


def becomes(server: Server, want: dict[str, tuple[str, list[str]]]) -> None:
    eventually(lambda: group(server) == want, f"the group is {want}")


BOTH = {"v1": ("Current", ["widgets", "shelves"]), "v1beta1": ("Current", ["widgets"])}


async def test_our_service_shows_it_as_its_aggregator(
    discovery: DiscoveryApp, serve: Serve, tmp_path: Path
) -> None:
    app = Tampered(application(discovery))
    file, config = tmp_path / "services.yaml", tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump_all(services()), encoding="utf-8")
    async with served(app) as url:
        config.write_text(json.dumps({"services": {"widgets/server": url}}), encoding="utf-8")
        flags = ("--manifests", str(file), "--config", str(config), "--store", "memory")
        server = await asyncio.to_thread(serve, *flags)
        await asyncio.to_thread(becomes, server, BOTH)
        document = await asyncio.to_thread(_document, server)
    schemas = document["components"]["schemas"]
    assert schemas["dev.example.v1.Widget"]["properties"]["size"]["type"] == "integer"
    first = next(seen for seen in app.requests if seen.path == "/apis")
    assert first.value("x-remote-user") == "system:kube-aggregator"


async def test_our_service_follows_its_changes_by_their_etags(
    discovery: DiscoveryApp, serve: Serve, tmp_path: Path
) -> None:
    app = Tampered(application(discovery))
    config = tmp_path / "config.yaml"

    def asked_with(etag: str) -> bool:
        return any(seen.value("if-none-match") == f'"{etag}"' for seen in app.requests)

    async with served(app) as url:
        upstreams = {"widgets": {"url": url, "poll-interval": "200ms"}}
        config.write_text(json.dumps({"upstreams": upstreams}), encoding="utf-8")
        server = await asyncio.to_thread(serve, "--config", str(config), "--store", "memory")
        await asyncio.to_thread(becomes, server, BOTH)
        before = discovery.etag
        await asyncio.to_thread(eventually, lambda: asked_with(before), "it is asked again")
        discovery.update([ApiGroup("example.dev", [ApiVersion("v1", [SHELVES])])])
        await asyncio.to_thread(becomes, server, {"v1": ("Current", ["shelves"])})
        after = discovery.etag
        await asyncio.to_thread(eventually, lambda: asked_with(after), "it is asked again")


def _document(server: Server) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: Any = get(server.http_port, "/openapi/v3/apis/example.dev/v1", "application/json")
        value: dict[str, Any] = found.json() if found.status == 200 else {}
        return value if "x-apidiscovery-generated" not in value and value else None

    return eventually(look, "the document of the application itself")


async def test_a_new_version_needs_no_restart(discovery: DiscoveryApp, tmp_path: Path) -> None:
    find_tool("kubectl")
    async with served(application(discovery)) as url:
        before = await ask(tmp_path, url, "explain", "shelves.height")
        schema = {"type": "object", "properties": {"height": {"type": "integer"}}}
        shelves = type(SHELVES)("shelves", "Shelf", namespaced=False, schema=schema)
        discovery.update([ApiGroup("example.dev", [ApiVersion("v2", [shelves])])])
        after = await ask(tmp_path / "later", url, "explain", "shelves.height")
    assert before.exit_code == 1
    assert "VERSION:    v2" in after.stdout
