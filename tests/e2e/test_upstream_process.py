"""Other API servers as sources of a real server: by flags, by keys, by APIServices."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from certificates import Authority
from cluster_files import contexts
from command_line import run
from fake_api_server import (
    Answer,
    FakeApiServer,
    aggregated,
    builtin,
    document,
    legacy,
    served_group,
)
from media_types import JSON_V2
from metrics_text import total
from raw_http import get
from repository import GOLDEN
from server import Serve, Server, serving
from waiting import eventually

NONE = ("--catalog", "none", "--store", "memory")
TOKEN = "token-of-this-server"  # noqa: S105 - made up
SERVICE_DOWN = Answer(b"try again later\n", "text/plain", 503)


def api_service(
    version: str, group_priority: int, version_priority: int, ca: Path | None = None
) -> str:
    bundle = {"caBundle": base64.b64encode(ca.read_bytes()).decode()} if ca else {}
    return json.dumps(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.remote.example.com"},
            "spec": {
                "group": "remote.example.com",
                "version": version,
                "groupPriorityMinimum": group_priority,
                "versionPriority": version_priority,
                "service": {"namespace": "default", "name": "remote"},
                **bundle,
            },
        }
    )


def items(server: Server, path: str = "/apis") -> list[dict[str, Any]]:
    """Return the groups that are served; none before there is anything to serve."""
    answer = get(server.http_port, path, JSON_V2)
    return [] if answer.status == 503 else cast("list[dict[str, Any]]", answer.json()["items"])


def served(server: Server, path: str = "/apis") -> dict[str, dict[str, Any]]:
    """Return the versions that are served by `group/version`, in order."""
    return {
        f"{item.get('metadata', {}).get('name', '')}/{version['version']}": version
        for item in items(server, path)
        for version in item["versions"]
    }


def resources(version: dict[str, Any]) -> list[str]:
    return [resource["resource"] for resource in version.get("resources", ())]


def freshness(server: Server, group_version: str) -> str:
    version = served(server).get(group_version)
    return str(version["freshness"]) if version else ""


def is_current(server: Server, group_version: str) -> None:
    eventually(
        lambda: freshness(server, group_version) == "Current",
        f"{group_version} is served",
    )


def warnings(server: Server) -> list[str]:
    """Return what `/readyz?verbose` warns of; the server must be ready."""
    report = get(server.http_port, "/readyz?verbose")
    assert report.status == 200
    lines = report.body.decode().splitlines()
    return [line.removeprefix("warn: ") for line in lines if line.startswith("warn: ")]


# By flags.


def test_an_old_server_is_asked_for_each_group_version(serve: Serve) -> None:
    recorded = legacy()
    with FakeApiServer(recorded) as upstream:
        server = serve(*NONE, "--upstream", f"old={upstream.url}")
        is_current(server, "apps/v1")
    listed = json.loads(recorded["/apis"].body)["groups"]
    wanted = [version["groupVersion"] for item in listed for version in item["versions"]]
    assert sorted(served(server)) == sorted(wanted)
    listed = json.loads(recorded["/apis/apps/v1"].body)["resources"]
    names = {resource["name"].partition("/")[0] for resource in listed}
    assert set(resources(served(server)["apps/v1"])) == names
    assert "pods" in resources(served(server, "/api")["/v1"])


def test_contexts_are_clusters_and_upstreams_may_be_named_by_a_variable(
    serve: Serve, tmp_path: Path
) -> None:
    names = ("east", "west", "north", "south")
    with ExitStack() as stack:
        urls = {
            name: stack.enter_context(
                FakeApiServer({"/apis": aggregated(served_group(f"{name}.example.com", "ones"))})
            ).url
            for name in names
        }
        path = tmp_path / "kubeconfig"
        path.write_text(contexts({name: urls[name] for name in ("east", "west")}))
        variables = {
            "APIDISCOVERY_UPSTREAM": f"north={urls['north']} south={urls['south']}",
            "APIDISCOVERY_STORE": "memory",
        }
        flags = ("--kubeconfig", str(path), "--context", "east", "--context", "west")
        server = serve(*flags, env=variables)
        for name in names:
            is_current(server, f"{name}.example.com/v1")
        assert not (server.ready_file.parent / ".local").exists()


def test_there_is_no_answer_until_an_upstream_has_given_one(
    serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    routes: dict[str, Answer] = {}
    config = tmp_path / "config.yaml"
    with FakeApiServer(routes) as upstream:
        config.write_text(f'upstreams: {{east: {{url: "{upstream.url}", poll-interval: 100ms}}}}')
        server = serve(*NONE, "--config", str(config))
        for path in ("/apis", "/api", "/apis/a.example.com/v1", "/openapi/v3", "/openapi/v2"):
            answer = get(server.http_port, path)
            assert (answer.status, answer.values("retry-after")) == (503, ["5"])
            assert "no upstream has answered yet: " in answer.body.decode()
        eventually(
            lambda: "upstream:east is Stale since" in get(server.http_port, "/apis").body.decode(),
            "it says why",
        )
        ready = get(server.http_port, "/readyz/local-sources")
        assert ready.status == 500
        assert b"no upstream has answered: upstream:east is Stale since" in ready.body
        assert get(server.http_port, "/livez").status == 200
        assert "Stale" in run(capsys, "get", "sources", "--grpc-server", server.grpc).stdout
        routes["/apis"] = aggregated()
        eventually(lambda: get(server.http_port, "/readyz").status == 200, "it is ready")
        # Now it is known that there is nothing.
        assert items(server) == []
        assert get(server.http_port, "/apis", JSON_V2).status == 200


# By keys.


@dataclass(frozen=True, slots=True)
class Configured:
    """A server with an upstream for each option, and some of the upstreams."""

    server: Server
    secure: FakeApiServer
    openshift: FakeApiServer
    often: FakeApiServer
    often_routes: dict[str, Answer]


def openshift() -> dict[str, Answer]:
    """Return what an OpenShift 3 says: resources of its own beside those of the core group."""

    def listed(name: str) -> Answer:
        resource = {"name": name, "singularName": "", "namespaced": True, "verbs": ["get"]}
        resource["kind"] = name.capitalize()
        content = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]}
        return document(content)

    versions = document({"kind": "APIVersions", "versions": ["v1"]})
    return {
        "/api": versions,
        "/api/v1": listed("pods"),
        "/oapi": versions,
        "/oapi/v1": listed("routes"),
        "/apis": document({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        "/more": aggregated(served_group("more.example.com", "extras")),
    }


@pytest.fixture(scope="module", name="configured")
def fixture_configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    folder = tmp_path_factory.mktemp("upstreams")
    authority = Authority(folder / "ca")
    pair = authority.server(["127.0.0.1"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*pair)
    (folder / "token").write_text(f"{TOKEN}\n")
    secured = aggregated(
        served_group("good.example.com", "goods"),
        served_group("bad.example.com", "bads"),
        served_group("other.example.org", "others"),
    )
    large = aggregated(served_group("large.example.com", *(f"n{number}s" for number in range(200))))
    often_routes = {"/apis": aggregated(served_group("often.example.com", "ones"))}
    routes: dict[str, dict[str, Answer]] = {
        "openshift": openshift(),
        "large": {"/apis": large},
        "hanging": {"/apis": Answer(stalls=True), "/api": Answer(stalls=True)},
        "silent": {"/apis": Answer(stalls=True), "/api": Answer(stalls=True)},
        "cluster": {"/apis": aggregated(served_group("cluster.example.com", "ones"))},
        "often": often_routes,
    }
    with ExitStack() as stack:
        secure = stack.enter_context(FakeApiServer({"/apis": secured}, tls))
        fakes = {name: stack.enter_context(FakeApiServer(of)) for name, of in routes.items()}
        file = folder / "kubeconfig"
        file.write_text(contexts({"first": "http://127.0.0.1:1", "second": fakes["cluster"].url}))
        config = folder / "config.yaml"
        config.write_text(
            f"""
upstreams:
  secure:
    url: {secure.url}
    ca-file: {authority.ca_file}
    token-file: {folder / "token"}
    allow: ["*.example.com"]
    deny: [bad.example.com]
  openshift:
    url: {fakes["openshift"].url}
    core-paths: [/api, /oapi]
    named-paths: [/apis, /more]
  large:
    url: {fakes["large"].url}
    max-body-bytes: 2000
  hanging:
    url: {fakes["hanging"].url}
    timeout: 500ms
  silent:
    url: {fakes["silent"].url}
    timeout: 10m
  cluster:
    kubeconfig: {file}
    context: second
  often:
    url: {fakes["often"].url}
    poll-interval: 100ms
"""
        )
        with serving(folder, *NONE, "--config", str(config)) as server:
            yield Configured(server, secure, fakes["openshift"], fakes["often"], often_routes)


def test_a_hanging_upstream_keeps_no_other_waiting(configured: Configured) -> None:
    """They would wait for ten minutes."""
    is_current(configured.server, "cluster.example.com/v1")
    is_current(configured.server, "often.example.com/v1")


def test_authority_token_and_filter_hold(configured: Configured) -> None:
    is_current(configured.server, "good.example.com/v1")
    assert not {"bad.example.com/v1", "other.example.org/v1"} & set(served(configured.server))
    assert configured.secure.requests
    for request in configured.secure.requests:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in configured.server.log()
    assert TOKEN not in get(configured.server.http_port, "/metrics").body.decode()


def test_other_paths_are_asked(configured: Configured) -> None:
    server = configured.server
    is_current(server, "more.example.com/v1")
    core = served(server, "/api")["/v1"]
    assert {"pods", "routes"} <= set(resources(core))
    assert "/oapi/v1" in configured.openshift.paths


def test_the_poll_interval_holds(configured: Configured) -> None:
    server = configured.server
    is_current(server, "often.example.com/v1")
    configured.often_routes["/apis"] = aggregated(served_group("often.example.com", "twos"))
    eventually(lambda: resources(served(server)["often.example.com/v1"]) == ["twos"], "it is asked")


def test_what_fails_is_told_of_and_blocks_nothing(configured: Configured) -> None:
    server = configured.server

    def told() -> dict[str, str]:
        lines = {line.partition(" is ")[0]: line for line in warnings(server)}
        return lines if {"upstream:large", "upstream:hanging"} <= set(lines) else {}

    lines = eventually(told, "both are warned of")
    assert "2000" in lines["upstream:large"]
    assert "Stale since" in lines["upstream:large"]
    assert "large.example.com/v1" not in served(server)
    assert not {"upstream:secure", "upstream:often"} & set(lines)
    port = server.http_port
    state = "apidiscovery_upstream_state"
    assert total(port, state, source="upstream:large", state="Stale") == 1
    assert total(port, state, source="upstream:secure", state="Current") == 1
    assert total(port, "apidiscovery_upstream_polls_total", upstream="often", result="Success") > 1
    assert total(port, "apidiscovery_upstream_received_bytes_total", upstream="secure") > 100
    assert total(port, "apidiscovery_upstream_seconds_since_success", upstream="often") < 30


def test_every_source_is_listed_with_its_address(
    configured: Configured, capsys: pytest.CaptureFixture[str]
) -> None:
    server = configured.server
    is_current(server, "good.example.com/v1")
    shown = run(capsys, "get", "sources", "--grpc-server", server.grpc, "-o", "json")
    listed = {source["name"]: source for source in json.loads(shown.stdout)["sources"]}
    secure = listed["upstream:secure"]
    assert secure["address"] == configured.secure.url
    assert [f"{gv['group']}/{gv['version']}" for gv in secure["groupVersions"]] == [
        "good.example.com/v1"
    ]
    assert {"upstream:hanging", "upstream:large", "upstream:cluster"} <= set(listed)


# By APIServices.


def test_an_api_service_is_served_with_its_priorities_and_known_through_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    manifests = tmp_path / "services"
    manifests.mkdir()
    for version, priority in (("v1", 10), ("v2", 20)):
        (manifests / f"{version}.json").write_text(api_service(version, 17900, priority))
    routes = {"/apis": SERVICE_DOWN}
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    with FakeApiServer(routes) as upstream:
        config = tmp_path / "config.yaml"
        config.write_text(f"services: {{default/remote: '{upstream.url}'}}\n")
        flags = ["--catalog", "kubernetes", "--manifests", str(manifests), "--store", store]
        flags += ["--config", str(config)]
        server = serve(*flags)
        # It was never there: nothing is known, and nobody is sent to it.
        assert freshness(server, "remote.example.com/v1") == "Stale"
        assert resources(served(server)["remote.example.com/v1"]) == []
        is_unavailable(server)
        assert any(line.startswith("apiservice:v1.remote") for line in warnings(server))

        one = served_group("remote.example.com", "ones")
        one["versions"] += served_group("remote.example.com", "twos", version="v2")["versions"]
        routes["/apis"] = aggregated(one, served_group("hidden.example.com", "any"))
        for version in ("v1", "v2"):
            is_current(server, f"remote.example.com/{version}")
        assert "hidden.example.com/v1" not in served(server)
        assert warnings(server) == []
        ordered = list(served(server))
        # Between apps (17800) and apiregistration.k8s.io (18000), the greater version first.
        place = ordered.index("remote.example.com/v2")
        assert ordered[place + 1] == "remote.example.com/v1"
        assert ordered.index("apiregistration.k8s.io/v1") < place < ordered.index("apps/v1")
        plain = get(server.http_port, "/apis/remote.example.com/v1")
        assert (plain.status, plain.json()["kind"]) == (200, "APIResourceList")
        unavailable = "aggregator_unavailable_apiservice"
        assert total(server.http_port, unavailable, name="v1.remote.example.com") == 0
        server.stop()

        routes["/apis"] = SERVICE_DOWN
        again = serve(*flags)
        known = served(again)["remote.example.com/v1"]
        assert (resources(known), known["freshness"]) == (["ones"], "Stale")
        is_unavailable(again)
        assert total(again.http_port, unavailable, name="v1.remote.example.com") == 1
        assert any(line.startswith("apiservice:v1.remote") for line in warnings(again))


def is_unavailable(server: Server) -> None:
    for version in ("v1", "v2"):
        answer = get(server.http_port, f"/apis/remote.example.com/{version}")
        assert (answer.status, answer.body) == (503, b"service unavailable\n")


def test_a_service_is_verified_by_its_name_and_shown_who_asks(serve: Serve, tmp_path: Path) -> None:
    authority, clients = Authority(tmp_path / "ca"), Authority(tmp_path / "clients")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients.ca_file)
    tls.load_cert_chain(*authority.server(["remote.default.svc"]))
    tls.verify_mode = ssl.CERT_REQUIRED
    pair = clients.client("front-proxy", [])
    manifest = tmp_path / "service.json"
    manifest.write_text(api_service("v1", 2000, 10, authority.ca_file))
    with FakeApiServer(
        {"/apis": aggregated(served_group("remote.example.com", "ones"))}, tls
    ) as upstream:
        config = tmp_path / "config.yaml"
        config.write_text(
            f"services: {{'default/remote:443': '{upstream.url}'}}\n"
            f"proxy-client-cert-file: {pair.cert_file}\n"
            f"proxy-client-key-file: {pair.key_file}\n"
        )
        server = serve(*NONE, "--manifests", str(manifest), "--config", str(config))
        is_current(server, "remote.example.com/v1")
        assert resources(served(server)["remote.example.com/v1"]) == ["ones"]
        server.stop()


def test_a_server_is_served_byte_for_byte_and_at_once_after_a_restart(
    serve: Serve, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    with FakeApiServer(builtin()) as upstream:
        flags = ("--catalog", "none", "--store", store, "--upstream", f"east={upstream.url}")
        server = serve(*flags)
        is_current(server, "apps/v1")
        for path in ("api", "apis"):
            wanted = (GOLDEN / "builtin" / f"{path}.v2.json").read_bytes()
            assert get(server.http_port, f"/{path}", JSON_V2).body == wanted
        server.stop()
    again = serve(*flags)
    versions = served(again)
    assert {version["freshness"] for version in versions.values()} == {"Stale"}
    stale = wanted.replace(b'"freshness":"Current"', b'"freshness":"Stale"')
    assert get(again.http_port, "/apis", JSON_V2).body == stale
    (line,) = eventually(lambda: warnings(again), "it is warned of")
    assert line.startswith("upstream:east is Stale since ")
