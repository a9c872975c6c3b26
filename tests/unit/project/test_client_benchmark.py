"""The servers that clients are measured with: they answer as what they stand for, and count."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPResponse

import pytest
from apidiscovery_client import GroupVersion
from apidiscovery_client._reading import read_document, read_resources
from repository import ROOT

BENCHMARKS = ROOT / "benchmarks"
V2 = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
JSON, PROTOBUF = f"application/json{V2}", f"application/vnd.kubernetes.protobuf{V2}"

Counts = dict[str, int | str]


class Server:
    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, str(BENCHMARKS / "client_servers.py"), *arguments]
        self._process = subprocess.Popen(  # noqa: S603 - ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = str(self._line()["address"])

    def tell(self, what: str) -> Counts:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._line()

    def get(self, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection(self.address, timeout=20)
        try:
            connection.request(
                "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
            )
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def close(self) -> None:
        self._process.communicate(timeout=20)

    def _line(self) -> Counts:
        assert self._process.stdout is not None
        line: Counts = json.loads(self._process.stdout.readline())
        return line


Start = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Server] = []

    def make(*arguments: str) -> Server:
        started.append(Server(*arguments))
        return started[-1]

    yield make
    for server in reversed(started):
        server.close()


@pytest.fixture
def server(start: Start) -> Server:
    return start("http", "0")


def groups(server: Server, accept: str) -> list[str]:
    response, body = server.get("/apis", Accept=accept)
    half = read_document("/apis", response.headers["Content-Type"], body, datetime.now(tz=UTC))
    return [group.name for group in half.groups]


@pytest.mark.parametrize("accept", [JSON, PROTOBUF, "application/json"])
def test_each_representation_names_the_62_groups_beside_the_core(
    server: Server, accept: str
) -> None:
    found = groups(server, accept)
    assert len(found) == 62
    assert {"apps", "dead.example.com"} < set(found)


def test_there_are_123_group_versions_of_four_resources_each(server: Server) -> None:
    now = datetime.now(tz=UTC)
    versions = [
        version
        for path in ("/api", "/apis")
        for group in read_document(path, JSON, server.get(path, Accept=JSON)[1], now).groups
        for version in group.versions
    ]
    assert len(versions) == 123
    assert {len(version.resources) for version in versions} == {4}


def test_the_first_representation_that_is_accepted_is_sent(server: Server) -> None:
    response, _ = server.get("/apis", Accept=f"text/html,{PROTOBUF}, {JSON},application/json")
    assert response.headers["Content-Type"] == PROTOBUF


def test_who_has_the_document_gets_304_without_a_body_or_a_type(server: Server) -> None:
    first, _ = server.get("/apis", Accept=JSON)
    again, body = server.get("/apis", Accept=PROTOBUF, If_None_Match=first.headers["Etag"])
    assert (again.status, body, again.headers["Content-Type"]) == (304, b"", None)


def test_only_large_answers_are_compressed_and_only_when_asked(server: Server) -> None:
    codings = {
        (path, asked): server.get(path, Accept=JSON, Accept_Encoding=asked)[0].headers[
            "Content-Encoding"
        ]
        for path in ("/api", "/apis")
        for asked in ("gzip", "identity")
    }
    assert codings == {
        ("/api", "gzip"): None,
        ("/api", "identity"): None,
        ("/apis", "gzip"): "gzip",
        ("/apis", "identity"): None,
    }


def test_a_dead_group_is_stale_and_503_and_all_others_are_there(server: Server) -> None:
    server.tell("dead")
    _, body = server.get("/apis", Accept=JSON)
    half = read_document("/apis", JSON, body, datetime.now(tz=UTC))
    stale = [v.gv for g in half.groups for v in g.versions if v.stated_freshness == "Stale"]
    assert stale == [GroupVersion("dead.example.com", "v1")]
    assert server.get("/apis/dead.example.com/v1")[0].status == 503
    assert server.get("/apis/apps/v1")[0].status == 200


def test_a_new_definition_is_served_and_defined(server: Server) -> None:
    assert server.get("/apis/new.example.com/v1")[0].status == 404
    server.tell("gadget")
    response, body = server.get("/apis/new.example.com/v1")
    gv = GroupVersion("new.example.com", "v1")
    found = read_resources(gv, response.headers["Content-Type"], body)
    assert [(one.name, one.is_namespaced) for one in found] == [("gadgets", False)]
    _, listed = server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=500")
    names = [item["metadata"]["name"] for item in json.loads(listed)["items"]]
    assert "gadgets.new.example.com" in names


def test_questions_for_discovery_are_counted_and_those_for_objects_are_told(
    server: Server,
) -> None:
    etag = server.get("/api", Accept=JSON)[0].headers["Etag"]
    server.get("/api", Accept=JSON, If_None_Match=etag)
    _, body = server.get("/apis/apps/v1")
    server.get("/apis/apps/v1/namespaces/default/deployments?limit=500")
    counts = server.tell("count")
    assert (counts["requests"], counts["not_modified"]) == (3, 1)
    assert int(counts["body_bytes"]) > len(body)
    assert int(counts["sent_bytes"]) > int(counts["body_bytes"])
    assert counts["objects"] == "/apis/apps/v1/namespaces/default/deployments\n"


def test_the_proxy_hands_on_all_and_counts_what_comes_back(start: Start, server: Server) -> None:
    proxy = start("proxy", server.address, "0.001")
    assert proxy.get("/apis", Accept=JSON)[1] == server.get("/apis", Accept=JSON)[1]
    own, through = server.tell("count"), proxy.tell("count")
    assert int(through["sent_bytes"]) * 2 == int(own["sent_bytes"])


@pytest.mark.parametrize("module", ["client_sessions.py", "client_servers.py"])
def test_examples_are_right(module: str) -> None:
    command = [sys.executable, "-m", "doctest", module]
    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
