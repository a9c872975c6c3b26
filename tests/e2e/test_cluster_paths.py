"""Paths below `/clusters`: whatever is asked, each answer is that of one cluster, or an error."""

import http.client
import json
from collections.abc import Iterator
from functools import partial

import pytest
from fake_api_server import Answer, FakeApiServer, aggregated, document, openapi_routes
from hypothesis import given
from hypothesis import strategies as st
from media_types import JSON_V2
from raw_http import get
from server import Server, serving
from upstream_setup import item, openapi_document
from waiting import WITHIN_S, eventually

# Names that are prefixes of others, also by whole segments.
NAMES = ("east", "east-1", "east/1", "east/1/a", "eu", "api", "apis", "e" * 200, "a.b_c:d")
# A cluster without a document in v2.
BARE = "bare"
INDEX = "/openapi/v3"


def group_of(name: str) -> str:
    """Return the only group that a cluster serves."""
    return f"g{NAMES.index(name)}.example.com"


class Fakes:
    """A server for each name, with a group of its own."""

    def __init__(self) -> None:
        self.servers = {name: FakeApiServer(routes(name)) for name in NAMES}
        self.servers[BARE] = FakeApiServer({"/api": aggregated(), "/apis": aggregated()})

    def config(self) -> str:
        upstreams = {
            name: {
                "url": server.url,
                "poll-interval": "100ms",
                "openapi-interval": "100ms",
            }
            for name, server in self.servers.items()
        }
        return json.dumps({"catalog": "none", "store": "memory", "upstreams": upstreams})


def routes(name: str, title: str = "") -> dict[str, Answer]:
    key = f"apis/{group_of(name)}/v1"
    v2 = {"swagger": "2.0", "info": {"title": title or name, "version": "1"}, "paths": {}}
    return {
        "/api": aggregated(),
        "/apis": aggregated(item(group_of(name))),
        "/openapi/v2": document(v2),
        **openapi_routes({key: openapi_document(title or name)}),
    }


@pytest.fixture(scope="module", name="fakes")
def fixture_fakes() -> Iterator[Fakes]:
    fakes = Fakes()
    for server in fakes.servers.values():
        server.__enter__()
    yield fakes
    for server in fakes.servers.values():
        server.__exit__()


@pytest.fixture(scope="module", name="server")
def fixture_server(fakes: Fakes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    config = folder / "config.json"
    config.write_text(fakes.config(), encoding="utf-8")
    with serving(folder, "--config", str(config)) as server:
        for name in NAMES:
            eventually(partial(has_v2, server, name), f"the document of {name}")
        yield server


def has_v2(server: Server, name: str, title: str = "") -> bool:
    """Tell whether the v2 document of a cluster is served, with this title."""
    answer = get(server.http_port, f"/clusters/{name}/openapi/v2")
    return answer.status == 200 and title.encode() in answer.body


def ask(server: Server, target: str, method: str = "GET") -> tuple[int, bytes]:
    """Send a request target as it is, and return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=WITHIN_S)
    try:
        connection.putrequest(method, target)
        connection.putheader("Accept", JSON_V2 + ",application/json")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_its_own_cluster(server: Server, name: str) -> None:
    status, body = ask(server, f"/clusters/{name}/apis")
    assert status == 200
    assert [one["metadata"]["name"] for one in json.loads(body)["items"]] == [group_of(name)]
    assert ask(server, f"/clusters/{name}/apis/{group_of(name)}/v1")[0] == 200
    for other in NAMES:
        if other != name:
            assert ask(server, f"/clusters/{name}/apis/{group_of(other)}/v1")[0] == 404
    v2 = json.loads(ask(server, f"/clusters/{name}/openapi/v2")[1])
    assert v2["info"]["title"] == name


def test_an_encoded_slash_is_a_slash(server: Server) -> None:
    """As in all paths: servers and proxies before us decode it or not."""
    plain = ask(server, "/clusters/east/1/apis")
    assert ask(server, "/clusters/east%2F1/apis") == plain
    assert ask(server, "/clusters/east%2f1%2fapis") == plain


_SEGMENTS = st.sampled_from(
    (
        *NAMES,
        *(name.upper() for name in NAMES),
        *(group_of(name) for name in NAMES),
        *("", ".", "..", "%2e%2e", "%2E", "%2F", "%2f..%2f", "%00", "%0d%0a", "%", "%zz", "%ff"),
        *("clusters", "api", "apis", "v1", "openapi", "v2", "v3", "version", "metrics", "healthz"),
        *("east%2F1", "e%61st", "east;x=1", "east%3F", "x" * 3000, "%e2%80%8b", "*"),
    )
)
_PATHS = st.lists(_SEGMENTS, max_size=8).map(lambda parts: "/clusters/" + "/".join(parts))
_STATUSES = frozenset((200, 301, 304, 400, 404, 405, 406, 414, 431, 503))


@given(path=_PATHS, method=st.sampled_from(("GET", "HEAD", "POST", "DELETE")))
def test_no_path_leads_to_another_cluster_or_out_of_it(
    server: Server, path: str, method: str
) -> None:
    status, body = ask(server, path, method)
    assert status in _STATUSES
    named = [name for name in NAMES if group_of(name).encode() in body]
    assert len(named) <= 1  # what one path answers is of one cluster
    assert b"Traceback" not in body
    if named and status == 200:
        # Nothing in a path is resolved: it begins with the name, decoded.
        decoded = path.replace("%2F", "/").replace("%2f", "/").replace("%61", "a")
        assert f"{decoded}/".startswith(f"/clusters/{named[0]}/")


def test_nothing_is_said_of_a_name_that_is_none(server: Server) -> None:
    unknown = ask(server, "/clusters/west/apis")
    assert unknown == (404, b"404 page not found\n")
    assert ask(server, "/clusters/east-/apis") == unknown
    assert ask(server, "/clusters/eas/apis") == unknown
    assert ask(server, "/clusters//apis") == unknown
    assert ask(server, "/clusters/east/metrics")[0] == 404
    assert ask(server, "/clusters/east/readyz")[0] == 404
    assert ask(server, "/clusters/east/apis/b.test")[0] == 404


def test_an_odd_timeout_is_refused(server: Server) -> None:
    status, body = ask(server, "/clusters/east/apis?timeout=soon")
    assert (status, json.loads(body)["reason"]) == (400, "BadRequest")
    assert ask(server, "/clusters/east/apis?timeout=32s")[0] == 200


def test_documents_that_change_alone_are_served_at_once(fakes: Fakes, server: Server) -> None:
    """Answers are cached, but not beyond a change, though discovery is the same."""
    port, name = server.http_port, "eu"
    path = f"/clusters/{name}/openapi/v3/apis/{group_of(name)}/v1"
    eventually(lambda: get(port, path).body == openapi_document(name), "it is read")
    fakes.servers[name].answers = routes(name, "other")
    eventually(lambda: get(port, path).body == openapi_document("other"), "it changes")
    eventually(partial(has_v2, server, name, "other"), "v2 too")


def test_a_cluster_without_v2_document_has_none(server: Server) -> None:
    path = f"/clusters/{BARE}/openapi/v2"
    eventually(lambda: get(server.http_port, path).status == 404, "it is known to have none")
