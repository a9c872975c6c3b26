"""OpenAPI documents of other API servers, through real servers, for real clients."""

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from etcd import EtcdServer
from fake_api_server import (
    Answer,
    FakeApiServer,
    aggregated,
    openapi_routes,
    served_group,
    sha512,
)
from metrics_text import total
from openapi_documents import dangling
from programs import free_port, kubectl
from raw_http import RawResponse, get
from repository import GOLDEN
from server import DRAIN_S, Serve, Server, serving
from waiting import eventually

INDEX = "/openapi/v3"
PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
KEY = "apis/batch/v1"
MADE = "apis/far.example.com/v1"
PACKAGE = "cert-manager"

VISIBLE_S = 1.0

NONE = ("--catalog", "none")
EMPTY_CORE = aggregated()


def index(server: Server) -> RawResponse:
    return get(server.http_port, INDEX)


def urls(port: int) -> dict[str, str]:
    """Return where the documents of a server are, by key; none before there is anything."""
    answer = get(port, INDEX)
    if answer.status == 503:
        return {}
    assert answer.status == 200, answer.body
    paths = cast("dict[str, dict[str, str]]", answer.json()["paths"])
    return {key: item["serverRelativeURL"] for key, item in paths.items()}


def hashes(server: Server) -> dict[str, str]:
    return {key: url.partition("?hash=")[2] for key, url in urls(server.http_port).items()}


def has_documents(server: Server, *wanted: str) -> None:
    """Wait until the index has these hashes, of whatever keys."""
    eventually(lambda: set(wanted) <= set(hashes(server).values()), "all are listed")


def explain(folder: Path, url: str, what: str) -> str:
    """Return what kubectl explains with a server; what it caches stays in the folder."""
    outcome = kubectl(folder, "--server", url, "explain", what, "--recursive")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    return outcome.stdout


def golden(name: str) -> bytes:
    return gzip.decompress((GOLDEN / name).read_bytes())


def batch_group() -> dict[str, Any]:
    """Return the group `batch` as discovery has it."""
    listed = json.loads((GOLDEN / "builtin" / "apis.v2.json").read_bytes())
    (found,) = [item for item in listed["items"] if item["metadata"]["name"] == "batch"]
    return cast("dict[str, Any]", found)


def widget_document(group: str, text: str) -> bytes:
    """Return the document of such a group, with a text of its own."""
    schema = {
        "type": "object",
        "description": text,
        "properties": {"size": {"type": "integer"}},
        "x-kubernetes-group-version-kind": [{"group": group, "version": "v1", "kind": "Widget"}],
    }
    path = {
        "get": {
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": {"group": group, "version": "v1", "kind": "Widget"},
        }
    }
    return json.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "Widgets", "version": "1"},
            "paths": {f"/apis/{group}/v1/widgets": path},
            "components": {"schemas": {f"{group}.Widget": schema}},
        },
        indent=1,
    ).encode()


def widget_routes(**texts: str) -> dict[str, Answer]:
    """Return the answers of a server with some groups, each with the text of its document."""
    groups = {f"{name}.example.com": text for name, text in texts.items()}
    documents = {f"apis/{g}/v1": widget_document(g, text) for g, text in groups.items()}
    return {
        "/api": EMPTY_CORE,
        "/apis": aggregated(*(served_group(group, "widgets") for group in groups)),
        **openapi_routes(documents),
    }


def downloads(fake: FakeApiServer) -> list[str]:
    """Return the keys of the documents that were asked for, in order."""
    return [p.removeprefix(f"{INDEX}/") for p in fake.paths if p.startswith(f"{INDEX}/")]


def often(folder: Path, **upstreams: str) -> str:
    """Write a configuration that has documents asked for often, and return its path."""
    options = {
        name: {"url": url, "openapi-interval": "200ms", "poll-interval": "200ms"}
        for name, url in upstreams.items()
    }
    file = folder / "config.json"
    file.write_text(json.dumps({"upstreams": options}))
    return str(file)


# Another server like this one.


def packaged(name: str, folder: Path) -> Path:
    """Write the definitions of a project into a folder; return the folder."""
    packed = GOLDEN / "crds" / "manifests" / f"{name}.yaml.gz"
    (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


@pytest.fixture(scope="module", name="upstream")
def fixture_upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of definitions, and of a group whose document it makes from discovery."""
    folder, manifests = tmp_path_factory.mktemp("upstream"), tmp_path_factory.mktemp("packages")
    packaged(PACKAGE, manifests)
    routes = {"/api": EMPTY_CORE, "/apis": aggregated(served_group("far.example.com", "widgets"))}
    with FakeApiServer(routes) as fake:
        own = ("--manifests", str(manifests), "--upstream", f"far={fake.url}")
        with serving(folder, *NONE, "--store", "memory", *own) as started:
            eventually(lambda: MADE in urls(started.http_port), "all are listed")
            yield started


@pytest.fixture(scope="module", name="mirror")
def fixture_mirror(upstream: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("mirror")
    flags = (*NONE, "--store", "memory", "--upstream", f"east={upstream.url}")
    with serving(folder, *flags) as started:
        has_documents(started, *hashes(upstream).values())
        yield started


def test_a_mirror_has_the_index_of_what_it_mirrors(upstream: Server, mirror: Server) -> None:
    assert len(urls(upstream.http_port)) > 3
    assert index(mirror).body == index(upstream).body
    assert index(mirror).etag == index(upstream).etag


def test_a_mirror_has_the_same_documents_in_either_form(upstream: Server, mirror: Server) -> None:
    for key, url in urls(upstream.http_port).items():
        for accept in ("application/json", PROTOBUF):
            theirs = get(upstream.http_port, url, accept)
            ours = get(mirror.http_port, url, accept)
            assert (theirs.status, ours.status) == (200, 200), key
            assert ours.body == theirs.body, key
            assert (ours.content_type, ours.etag) == (theirs.content_type, theirs.etag), key
    assert b'"x-apidiscovery-generated"' in get(mirror.http_port, f"{INDEX}/{MADE}").body


@pytest.mark.parametrize("what", ["certificate.spec", "widget"])
def test_a_mirror_explains_what_its_upstream_does(
    upstream: Server, mirror: Server, tmp_path: Path, what: str
) -> None:
    ours = explain(tmp_path, mirror.url, what)
    assert ours == explain(tmp_path, upstream.url, what)
    assert "KIND:" in ours


# A server that has no OpenAPI v3.


def test_an_old_servers_one_document_becomes_those_of_group_versions(
    serve: Serve, tmp_path: Path
) -> None:
    folder = "openapi-v2-to-v3"
    discovery = {"/api": EMPTY_CORE, "/apis": aggregated(batch_group())}
    reference = golden(f"{folder}/v3_batch.v1.json.gz")
    old = {**discovery, "/openapi/v2": Answer(golden(f"{folder}/v2_batch.v1.json.gz"))}
    with (
        FakeApiServer(old) as fake,
        FakeApiServer({**discovery, **openapi_routes({KEY: reference})}) as newer,
    ):
        server = serve(*NONE, "--store", "memory", "--upstream", f"old={fake.url}")

        def converted() -> dict[str, Any]:
            found = get(server.http_port, f"{INDEX}/{KEY}")
            body = cast("dict[str, Any]", json.loads(found.body)) if found.status == 200 else {}
            return {} if "x-apidiscovery-generated" in body else body

        body = eventually(converted, "it is converted")
        assert body["paths"] == json.loads(reference)["paths"]
        assert dangling(body) == []
        assert "io.k8s.api.batch.v1.CronJob" in body["components"]["schemas"]
        for what in ("cronjob.spec", "job"):
            ours = explain(tmp_path, server.url, what)
            assert ours == explain(tmp_path, newer.url, what)
    assert fake.paths.count("/openapi/v2") == 1


# What is gone, and what changes.


def test_what_an_upstream_published_outlives_it(serve: Serve, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    packaged(PACKAGE, packages)
    manifest = tmp_path / "widgets.json"
    own = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    manifest.write_text(json.dumps({**own, "items": [served_group("own.example.com", "widgets")]}))
    upstream = serve(*NONE, "--store", "memory", "--manifests", str(packages))
    own_flags = ("--store", f"sqlite:{tmp_path / 'store'}", "--manifests", str(manifest))
    # The same address for both, so that kubectl knows it: client-go takes no resources from a
    # discovery document that says it is stale, and goes by what it has cached.
    own_address = ("--http", f"127.0.0.1:{free_port()}", "--grpc", "off")
    flags = (*NONE, *own_flags, "--upstream", f"east={upstream.url}", *own_address)
    server = serve(*flags, addresses=False)
    has_documents(server, *hashes(upstream).values())
    before = index(server)
    assert "apis/own.example.com/v1" in hashes(server)
    bodies = {key: get(server.http_port, url).body for key, url in urls(server.http_port).items()}
    text = explain(tmp_path, server.url, "certificate.spec")

    upstream.process.kill()
    upstream.process.wait()
    server.stop()
    again = serve(*flags, addresses=False)
    assert (index(again).body, index(again).etag) == (before.body, before.etag)
    for key, url in urls(again.http_port).items():
        assert get(again.http_port, url).body == bodies[key]
        assert sha512(bodies[key]) == url.partition("?hash=")[2]
    assert explain(tmp_path, again.url, "certificate.spec") == text
    assert index(again).body == before.body


def test_of_one_change_one_document_is_downloaded(serve: Serve, tmp_path: Path) -> None:
    routes = widget_routes(east="one", west="one", north="one")
    with FakeApiServer(routes) as fake:
        server = serve(*NONE, "--store", "memory", "--config", often(tmp_path, far=fake.url))
        documents = (
            widget_document(f"{name}.example.com", "one") for name in ("east", "west", "north")
        )
        has_documents(server, *map(sha512, documents))
        before = hashes(server)
        assert sorted(downloads(fake)) == sorted(key for key in before if key.startswith("apis/"))

        routes.update(widget_routes(east="one", west="two", north="one"))
        changed = sha512(widget_document("west.example.com", "two"))
        has_documents(server, changed)
        assert hashes(server) == {**before, "apis/west.example.com/v1": changed}
        assert downloads(fake)[3:] == ["apis/west.example.com/v1"]
        assert "two" in explain(tmp_path, server.url, "widgets.west.example.com")

        # What is in no document any more is not asked for either.
        asked = fake.paths.count(INDEX)
        eventually(lambda: fake.paths.count(INDEX) > asked + 2, "it is asked again")
        assert len(downloads(fake)) == 4


def test_a_change_is_on_every_replica_within_a_second(serve: Serve, tmp_path: Path) -> None:
    routes = widget_routes(east="one", west="one")
    with EtcdServer(tmp_path / "etcd") as etcd, FakeApiServer(routes) as fake:
        store = ("--store", f"etcd://{etcd.endpoint}/documents")
        flags = (*NONE, *store, "--config", often(tmp_path, far=fake.url))
        servers = [serve(*flags), serve(*flags)]
        for server in servers:
            has_documents(server, sha512(widget_document("west.example.com", "one")))
        took: list[float] = []
        for text in ("two", "three", "four"):
            routes.update(widget_routes(east="one", west=text))
            began = time.monotonic()
            wanted = sha512(widget_document("west.example.com", text))
            for server in servers:
                has_documents(server, wanted)
            took.append(time.monotonic() - began)
            assert len({(index(server).body, index(server).etag) for server in servers}) == 1
            for server in servers:
                body = get(server.http_port, f"{INDEX}/apis/west.example.com/v1?hash={wanted}").body
                assert body == widget_document("west.example.com", text)
        assert min(took) < VISIBLE_S  # a busy machine may delay the others
        polls = "apidiscovery_upstream_openapi_polls_total"
        counts = [total(server.http_port, polls, upstream="far") for server in servers]
        assert sorted(map(bool, counts)) == [False, True]


# Behind an APIService; and not at all.


def test_a_server_behind_an_apiservice_has_its_documents_passed_on(
    serve: Serve, tmp_path: Path
) -> None:
    group = "remote.example.com"
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "remote"},
        },
    }
    manifest = tmp_path / "service.json"
    manifest.write_text(json.dumps(service))
    config = tmp_path / "config.json"
    with FakeApiServer(widget_routes(remote="far away", other="not asked for")) as fake:
        config.write_text(json.dumps({"services": {"default/remote": fake.url}}))
        flags = ("--store", "memory", "--manifests", str(manifest), "--config", str(config))
        server = serve(*NONE, *flags)
        wanted = widget_document(group, "far away")
        has_documents(server, sha512(wanted))
        assert set(hashes(server)) == {"version", f"apis/{group}/v1"}
        assert get(server.http_port, f"{INDEX}/apis/{group}/v1").body == wanted
        assert "far away" in explain(tmp_path, server.url, "widget")
        assert downloads(fake) == [f"apis/{group}/v1"]
        asked = next(r for r in fake.requests if r.path == INDEX)
        assert asked.headers["x-remote-user"] == "system:aggregator"

        config_off = ("--feature-gates", "OpenAPIV3=false")
        before = len([path for path in fake.paths if path.startswith("/openapi")])
        upstream = ("--upstream", f"east={fake.url}")
        without = serve(*NONE, *flags, *upstream, *config_off)
        eventually(lambda: b"other.example.com" in get(without.http_port, "/apis").body, "served")
        polls = "apidiscovery_upstream_polls_total"
        eventually(lambda: total(without.http_port, polls, upstream="default/remote:443"), "asked")
        for path in (INDEX, f"{INDEX}/api/v1", "/openapi/v2"):
            answer = get(without.http_port, path)
            assert (answer.status, answer.body) == (404, b"404 page not found\n")
        assert b"openapi" not in get(without.http_port, "/").body
        without.stop()
        assert len([path for path in fake.paths if path.startswith("/openapi")]) == before


def _slow_to_read() -> bytes:
    """Return a document of which every bit is allowed, and which takes many seconds to read."""
    schema = b'{"properties":{"a":' * 60 + b"{}" + b"}}" * 60
    schemas = b",".join(b'"s%d":%s' % (number, schema) for number in range(8_000))
    return b'{"openapi":"3.0.0","components":{"schemas":{' + schemas + b"}}}"


def test_a_server_ends_in_the_middle_of_reading(serve: Serve) -> None:
    routes = widget_routes(east="fine")
    key = f"{INDEX}/apis/east.example.com/v1"
    routes[key] = Answer(_slow_to_read())
    with FakeApiServer(routes) as fake:
        server = serve(*NONE, "--store", "memory", "--upstream", f"far={fake.url}")
        received = "apidiscovery_upstream_received_bytes_total"
        eventually(
            lambda: total(server.http_port, received, upstream="far") > len(routes[key].body),
            "it has come",
        )
        assert not total(server.http_port, "apidiscovery_upstream_openapi_polls_total")
        assert server.stop() < DRAIN_S
