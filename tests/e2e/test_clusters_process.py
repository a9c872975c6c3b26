"""Clusters whole: what they serve at /clusters/NAME, alive and dead, and as they were."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from command_line import Outcome
from fake_api_server import Answer, FakeApiServer, Request, status
from media_types import JSON_V2, aggregated_type
from programs import free_port, kubectl, run_apidiscovery
from raw_http import RawResponse, get
from server import Serve, Server
from waiting import eventually

NONE = ("--catalog", "none", "--store", "memory")
VERSION = b'{\n  "major": "1",\n  "minor": "31",\n  "gitVersion": "v1.31.1"\n}'


class Cluster:
    """A server that answers as kube-apiserver 1.31: with null timestamps, and in both versions.

    Attributes:
        kinds: The resources of its only group.
    """

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def document(self, version: str) -> bytes:
        kind = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
        return _go({**kind, "metadata": {}, "items": self._items()}) + b"\n"

    @property
    def etag(self) -> str:
        hashed = _go({"metadata": {}, "items": self._items()})
        return hashlib.sha512(hashed).hexdigest().upper()

    def _items(self) -> list[dict[str, Any]]:
        listed = [
            {
                "resource": resource,
                "responseKind": {"group": "", "version": "", "kind": resource.capitalize()},
                "scope": "Cluster",
                "singularResource": "",
                "verbs": ["get"],
            }
            for resource in self.kinds
        ]
        versions = [{"version": "v1", "resources": listed, "freshness": "Current"}]
        return [{"metadata": {"name": "a.test", "creationTimestamp": None}, "versions": versions}]

    def __call__(self, request: Request) -> Answer:
        accept = request.headers.get("accept", "")
        if request.path == "/version":
            return Answer(VERSION)
        if request.path != "/apis":
            return status(404, "NotFound", "not found")
        for version in ("v2", "v2beta1"):
            if f"v={version};" in accept:
                tag = f'"{self.etag}"'
                if request.headers.get("if-none-match") == tag:
                    return Answer(content_type=None, status=304, headers={"ETag": tag})
                body = self.document(version)
                return Answer(body, aggregated_type(version), headers={"ETag": tag})
        return Answer(json.dumps({"kind": "APIGroupList", "groups": [{"name": "a.test"}]}).encode())


def _go(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def config(folder: Path, url: str) -> str:
    """Write a configuration with the cluster `east`, polled often; return its path."""
    path = folder / "config.json"
    options = {"url": url, "poll-interval": "200ms"}
    path.write_text(json.dumps({"upstreams": {"east": options}}))
    return str(path)


def ask(server: Server, path: str, accept: str = JSON_V2, *lines: tuple[str, str]) -> RawResponse:
    return get(server.http_port, path, accept, *lines)


def followed(server: Server, path: str, wanted: bytes) -> RawResponse:
    """Return the answer once it has a body."""
    eventually(lambda: ask(server, path).body == wanted, f"{path} is as wanted")
    return ask(server, path)


def resolve(folder: Path, server: Server, *options: str) -> Outcome:
    url = f"{server.url}/clusters/east"
    return run_apidiscovery(folder, "resolve", "widgets", "--server", url, *options)


def test_a_cluster_is_served_as_it_answers_and_after_it_died(serve: Serve, tmp_path: Path) -> None:
    east = Cluster("widgets")

    def listed() -> Outcome:
        url = f"{server.url}/clusters/east"
        return kubectl(tmp_path, "api-resources", "--server", url, "--api-group", "a.test")

    with FakeApiServer(east, port=free_port()) as upstream:
        server = serve(*NONE, "--config", config(tmp_path, upstream.url))
        alive = followed(server, "/clusters/east/apis", east.document("v2"))
        assert alive.etag == f'"{east.etag}"'
        assert not alive.values("warning")
        older = aggregated_type("v2beta1")
        assert ask(server, "/clusters/east/apis", older).body == east.document("v2beta1")
        followed(server, "/clusters/east/version", VERSION)
        # What is merged is written as a server of today writes it.
        assert b"creationTimestamp" not in ask(server, "/apis").body
        shown = listed()
        assert "widgets" in shown.stdout
        assert shown.stderr == ""
    eventually(lambda: ask(server, "/clusters/east/apis").values("warning"), "it is dead")
    dead = ask(server, "/clusters/east/apis")
    assert (dead.status, dead.body) == (200, alive.body)
    assert dead.etag == alive.etag
    assert dead.values("warning")[0].startswith(
        '299 - "this is the last known answer of cluster east: since '
    )
    again = ask(server, "/clusters/east/apis", JSON_V2, ("If-None-Match", alive.etag))
    assert again.status == 304
    assert again.values("warning")
    assert again.values("cache-control") == dead.values("cache-control") == ["no-store"]
    for _ in range(2):
        warned = listed()
        assert warned.stdout == shown.stdout
        assert warned.stderr.startswith("Warning: this is the last known answer of cluster east: ")
    resolved = resolve(tmp_path, server)
    assert (resolved.exit_code, "widgets" in resolved.stdout) == (0, True)
    assert resolved.stderr.count("\n") == 1
    strict = resolve(tmp_path, server, "--strict")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert "error: a.test/v1 has been stale since " in strict.stderr
    # kubectl keeps the headers of a 304 in its cache; a warning must not stay there.
    with FakeApiServer(east, port=upstream.port):
        eventually(lambda: not ask(server, "/clusters/east/apis").values("warning"), "it is back")
        assert listed() == shown
        assert resolve(tmp_path, server, "--strict").stderr == ""


def test_a_cluster_that_has_never_answered_is_no_empty_one(serve: Serve) -> None:
    """With a local source the server does not wait for it, and warns of it."""
    server = serve(
        *("--catalog", "kubernetes", "--store", "memory"), "--upstream", "east=http://127.0.0.1:1"
    )
    assert get(server.http_port, "/readyz").status == 200
    assert b'"apps"' in ask(server, "/apis").body
    paths = ("apis", "api", "apis/apps/v1", "version", "openapi/v3", "")
    schemas = ("schemas/", "schemas", "schemas/apps/deployment_v1.json")
    for path in (*paths, *schemas):
        answer = ask(server, f"/clusters/east/{path}", "application/json")
        assert answer.status == 503, path
        unknown = "OpenAPI of cluster east" if path in schemas else "of cluster east"
        assert f"{unknown} is not known yet" in str(answer.json()["message"])
    eventually(
        lambda: b"connection refused by 127.0.0.1:1" in ask(server, "/readyz?verbose").body,
        "it is warned of",
    )


def test_a_time_in_the_past_is_served_as_it_was(serve: Serve, tmp_path: Path) -> None:
    east = Cluster("widgets")
    with FakeApiServer(east) as upstream:
        server = serve(*NONE, "--config", config(tmp_path, upstream.url))
        before = followed(server, "/clusters/east/apis", east.document("v2"))
        merged = ask(server, "/apis")
        eventually(lambda: past(server).body == before.body, "it is remembered")
        then = _now()
        upstream.answers = after = Cluster("widgets", "gadgets")
        followed(server, "/clusters/east/apis", after.document("v2"))
        old = past(server, then)
        assert (old.status, old.body) == (200, before.body)
        assert old.etag == before.etag
        assert old.values("memento-datetime")[0].endswith("GMT")
        assert past(server, then, "/apis").body == merged.body
        too_old = past(server, "2020-01-01T00:00:00Z")
        assert too_old.status == 404
        assert "the history of cluster east begins at" in str(too_old.json()["message"])
        for text in ("yesterday", "2026-11-20", "2026-11-20T10:00:00"):
            assert past(server, text).status == 400


def _now() -> str:
    return datetime.now(UTC).isoformat()


def past(server: Server, at: str = "", path: str = "/clusters/east/apis") -> RawResponse:
    """Return the answer of a time, of now without one."""
    return ask(server, f"{path}?at={at or _now()}")
