"""Each fault of the fake API server, and that nothing else fails with it."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from apidiscovery_client import _reading
from apidiscovery_client.model import Group, Snapshot, Unknown
from apidiscovery_client.testing import FakeApiServer, group, resource
from asking_fake import JSON, ask
from certificates import Authority
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2

ALL = f"{PROTOBUF_V2},{JSON_V2},{JSON_V2BETA1},{JSON}"
NOW = datetime(2026, 11, 22, tzinfo=UTC)


def widgets(name: str = "example.com", **versions: str) -> Group:
    told = versions or {"v1": "Widget"}
    return group(name, **{key: [resource("widgets", kind)] for key, kind in told.items()})


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    core = group("", v1=[resource("pods", "Pod", short_names=["po"])])
    with FakeApiServer(
        [core, widgets(v1="Widget", v1beta1="Widget"), widgets("b.example")]
    ) as made:
        yield made


def listed(server: FakeApiServer, name: str = "example.com") -> dict[str, tuple[str, int]]:
    """Return the freshness and number of resources of each version, as the server lists them."""
    items = ask(server, "/apis", JSON_V2).json["items"]
    (versions,) = (item["versions"] for item in items if item["metadata"]["name"] == name)
    return {
        version["version"]: (version["freshness"], len(version.get("resources", ())))
        for version in versions
    }


def test_a_failing_group_version_is_also_listed_as_stale(server: FakeApiServer) -> None:
    server.fail("example.com/v1")
    reply = ask(server, "/apis/example.com/v1", JSON)
    assert (reply.status, reply.body) == (503, b"service unavailable\n")
    assert listed(server) == {"v1": ("Stale", 0), "v1beta1": ("Current", 1)}
    assert ask(server, "/apis/example.com/v1beta1").status == 200
    assert ask(server, "/apis").json["groups"][0]["preferredVersion"]["version"] == "v1"
    server.mend("example.com/v1")
    assert listed(server) == {"v1": ("Current", 1), "v1beta1": ("Current", 1)}
    assert ask(server, "/apis/example.com/v1", JSON).status == 200


def test_a_group_fails_in_all_its_versions(server: FakeApiServer) -> None:
    server.fail("example.com", status=500)
    assert listed(server) == {"v1": ("Stale", 0), "v1beta1": ("Stale", 0)}
    reply = ask(server, "/apis/example.com/v1beta1", JSON)
    assert (reply.status, reply.json["reason"]) == (500, "InternalError")


def test_the_core_group_can_fail(server: FakeApiServer) -> None:
    server.fail("v1")
    assert ask(server, "/api/v1").status == 503
    (item,) = ask(server, "/api", JSON_V2).json["items"]
    assert item["versions"] == [{"version": "v1", "freshness": "Stale"}]


def test_a_path_fails_alone(server: FakeApiServer) -> None:
    server.fail("/apis", status=403)
    for accept in (ALL, JSON):
        assert ask(server, "/apis", accept).json["reason"] == "Forbidden"
    assert ask(server, "/apis/").status == 403
    assert ask(server, "/api", ALL).status == 200
    assert ask(server, "/apis/example.com/v1").status == 200


def test_a_failure_has_the_body_that_is_wanted(server: FakeApiServer) -> None:
    server.fail("/api", status=502, body="<h1>Bad Gateway</h1>", content_type="text/html")
    reply = ask(server, "/api", ALL)
    assert (reply.status, reply.body) == (502, b"<h1>Bad Gateway</h1>")
    assert reply.headers["content-type"] == "text/html"


def test_a_failure_ends_after_so_many_requests(server: FakeApiServer) -> None:
    server.fail("example.com/v1", times=2)
    assert listed(server)["v1"] == ("Current", 1)
    statuses = [ask(server, "/apis/example.com/v1").status for _ in range(4)]
    assert statuses == [503, 503, 200, 200]


def test_retry_after_is_sent_a_number_of_times(server: FakeApiServer) -> None:
    server.retry_after(2)
    first, second = ask(server, "/apis", ALL), ask(server, "/apis", ALL)
    assert (first.status, first.headers["retry-after"]) == (429, "2")
    assert first.json["reason"] == "TooManyRequests"
    assert second.status == 200
    server.retry_after(1, times=2, status=503, what="/api")
    assert ask(server, "/apis", ALL).status == 200
    answers = [ask(server, "/api", JSON) for _ in range(3)]
    assert [reply.status for reply in answers] == [503, 503, 200]
    assert answers[0].headers["retry-after"] == "1"


def test_a_number_of_failures_holds_for_concurrent_requests(server: FakeApiServer) -> None:
    server.retry_after(1, times=5)
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(ask, server, "/apis", ALL) for _ in range(12)]
        statuses = [future.result().status for future in asked]
    assert (statuses.count(429), statuses.count(200)) == (5, 7)


def test_stale_versions_are_listed_as_stale_and_still_answer(server: FakeApiServer) -> None:
    before = ask(server, "/apis", JSON_V2).headers["etag"]
    server.stale("example.com/v1")
    assert listed(server)["v1"] == ("Stale", 0)
    server.stale("example.com/v1", with_resources=True)
    assert listed(server)["v1"] == ("Stale", 1)
    assert ask(server, "/apis/example.com/v1").status == 200
    assert ask(server, "/apis", JSON_V2).headers["etag"] != before
    server.mend()
    assert ask(server, "/apis", JSON_V2).headers["etag"] == before


def test_an_answer_is_held_back(server: FakeApiServer) -> None:
    server.slow(30, "/apis")
    host = server.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=10)) as connection:
        connection.request("GET", "/apis")
        server.wait_for_arrivals(1)
        assert ask(server, "/api").status == 200
        assert server.paths == ("/api",)
        server.down()
        with pytest.raises((http.client.HTTPException, OSError)):
            connection.getresponse()


def test_an_answer_comes_when_it_has_been_held_back(server: FakeApiServer) -> None:
    server.slow(0.05)
    assert ask(server, "/apis", JSON_V2).status == 200


def test_aggregated_documents_are_refused_with_406(server: FakeApiServer) -> None:
    server.refuse_aggregated()
    for path in ("/api", "/apis"):
        assert ask(server, path, ALL).status == 406
        assert ask(server, path, JSON).status == 200


def test_accept_is_dropped(server: FakeApiServer) -> None:
    server.drop_accept()
    for path in ("/api", "/apis"):
        assert ask(server, path, JSON_V2).headers["content-type"] == JSON


def test_a_broken_cache_says_that_nothing_was_modified(server: FakeApiServer) -> None:
    server.not_modified_always()
    reply = ask(server, "/apis", ALL)
    assert (reply.status, reply.body) == (304, b"")
    assert ask(server, "/apis/example.com/v1").status == 200


@pytest.mark.parametrize("accept", [ALL, JSON_V2, JSON])
def test_a_body_breaks_off(server: FakeApiServer, accept: str) -> None:
    server.truncate("/apis")
    with pytest.raises(http.client.IncompleteRead):
        ask(server, "/apis", accept)
    assert ask(server, "/api", accept).status == 200


def test_garbage_comes_under_the_right_content_type(server: FakeApiServer) -> None:
    etag = ask(server, "/apis", JSON_V2).headers["etag"]
    server.garbage()
    reply = ask(server, "/apis", JSON_V2, headers={"If-None-Match": etag})
    assert (reply.status, reply.headers["content-type"]) == (200, JSON_V2)
    with pytest.raises(_reading.UnreadableError):
        _reading.read_document("/apis", JSON_V2, reply.body, NOW)


def test_without_credentials_only_health_and_version_answer(server: FakeApiServer) -> None:
    server.unauthorized()
    for path in ("/api", "/apis", "/apis/example.com/v1", "/openapi/v3"):
        assert ask(server, path, JSON).json["reason"] == "Unauthorized"
    assert ask(server, "/version").status == ask(server, "/readyz").status == 200


def test_a_server_comes_back_on_the_same_port(server: FakeApiServer) -> None:
    host = server.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=10)) as kept:
        kept.request("GET", "/api")
        kept.getresponse().read()
        for _ in range(3):
            server.down()
            server.down()
            with pytest.raises(ConnectionRefusedError):
                ask(server, "/api")
            server.up()
            server.up()
            assert ask(server, "/api").status == 200
        assert kept.sock.recv(1) == b""  # the old connection was broken


def test_what_is_served_changes_at_any_time(server: FakeApiServer) -> None:
    def names() -> list[str]:
        return [item["metadata"]["name"] for item in ask(server, "/apis", JSON_V2).json["items"]]

    server.add(widgets("c.example"), widgets("example.com", v2="Widget"))
    assert names() == ["example.com", "b.example", "c.example"]
    assert list(listed(server)) == ["v2", "v1", "v1beta1"]
    server.add(widgets("example.com", v1="Gadget"))
    assert list(listed(server)) == ["v1", "v2", "v1beta1"]
    assert ask(server, "/apis/example.com/v1").json["resources"][0]["kind"] == "Gadget"
    server.remove("example.com/v2")
    assert ask(server, "/apis/example.com/v2").status == 404
    server.remove("b.example")
    assert names() == ["example.com", "c.example"]
    server.replace([widgets("d.example")])
    assert names() == ["d.example"]
    assert [found.name for found in server.groups] == ["d.example"]
    server.remove("d.example")
    assert names() == []


def test_adding_and_removing_leads_back_to_the_same_etag(server: FakeApiServer) -> None:
    before = ask(server, "/apis", JSON_V2)
    server.add(widgets("c.example"))
    server.remove("c.example/v1")
    assert ask(server, "/apis", JSON_V2).headers["etag"] == before.headers["etag"]
    assert ask(server, "/apis", JSON_V2).body == before.body


@pytest.mark.parametrize("act", ["fail", "stale", "remove", "mend", "garbage", "truncate"])
def test_what_is_not_served_cannot_fail(server: FakeApiServer, act: str) -> None:
    with pytest.raises(ValueError, match=r"no group-version 'nope/v1' is served, but v1, example"):
        getattr(server, act)("nope/v1")


def test_mending_all_keeps_the_release(server: FakeApiServer) -> None:
    server.old("1.26")
    server.fail("/apis")
    server.slow(30, "/api")
    server.mend()
    assert ask(server, "/apis", ALL).headers["content-type"] == JSON
    assert ask(server, "/api", ALL).status == 200


def test_requests_are_recorded(server: FakeApiServer) -> None:
    ask(server, "/apis?timeout=32s", JSON_V2, headers={"User-Agent": "me"})
    ask(server, "/nope", method="HEAD")
    first, second = server.wait_for_requests(2)
    assert (first.method, first.path, first.query, first.status) == (
        "GET",
        "/apis",
        "timeout=32s",
        200,
    )
    assert (first.headers["user-agent"], first.headers["accept"]) == ("me", JSON_V2)
    assert first.sent == len(ask(server, "/apis", JSON_V2).body)
    assert str(second) == "HEAD /nope -> 404, 0 bytes"
    server.forget_requests()
    assert server.requests == ()


def test_waiting_for_requests_times_out(server: FakeApiServer) -> None:
    ask(server, "/apis")
    with pytest.raises(TimeoutError, match=r"1 of 2 requests answered: \('/apis',\)"):
        server.wait_for_requests(2, timeout_s=0.01)
    with pytest.raises(TimeoutError, match="1 of 2 requests received"):
        server.wait_for_arrivals(2, timeout_s=0.01)


def test_a_snapshot_is_served_with_what_is_wrong_with_it(server: FakeApiServer) -> None:
    gone = widgets("gone.example")
    unknown = replace(
        gone.versions[0], resources=(), freshness=Unknown(NOW, "gone"), stated_freshness="Stale"
    )
    groups = (widgets(), replace(gone, versions=(unknown,)))
    server.replace(Snapshot(groups=groups, server="x", checked_at=NOW))
    assert listed(server, "gone.example") == {"v1": ("Stale", 0)}
    assert ask(server, "/apis/gone.example/v1").status == 503
    assert ask(server, "/apis/example.com/v1").status == 200


def test_nothing_is_left_of_a_server() -> None:
    before = set(threading.enumerate())
    with FakeApiServer([widgets()]) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        idle = socket.create_connection((host, int(port)))
        kept = http.client.HTTPConnection(host, int(port), timeout=10)
        kept.request("GET", "/apis")
        kept.getresponse().read()
        server.slow(60)
        waiting = http.client.HTTPConnection(host, int(port), timeout=10)
        waiting.request("GET", "/apis")
        server.wait_for_arrivals(2)
    assert set(threading.enumerate()) <= before
    assert idle.recv(1) == kept.sock.recv(1) == waiting.sock.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    for connection in (idle, kept, waiting):
        connection.close()


def test_a_server_that_is_down_ends_too() -> None:
    before = set(threading.enumerate())
    with FakeApiServer([]) as server:
        server.down()
    assert set(threading.enumerate()) <= before


def test_it_serves_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server(["127.0.0.1"])
    served = FakeApiServer(
        [widgets()],
        cert_file=pair.cert_file,
        key_file=pair.key_file,
        ca_file=authority.ca_file,
    )
    with served as server:
        idle = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
        context = authority.trusted()
        for _ in range(2):
            host = server.url.removeprefix("https://")
            with closing(http.client.HTTPSConnection(host, context=context)) as connection:
                connection.request("GET", "/apis")
                reply = json.load(connection.getresponse())
                assert reply["groups"][0]["name"] == "example.com"
            server.down()
            server.up()
        assert server.url.startswith("https://")
        assert str(authority.ca_file) in json.dumps(server.kubeconfig())
    idle.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x00\x00", id="TLS"),
        pytest.param(b"GARBAGE\r\n\r\n", id="no request line"),
        pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", id="too long"),
        pytest.param(b"GET /apis HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="no length"),
        pytest.param(b"GET /apis HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", id="too short a body"),
    ],
)
def test_a_malformed_request_leaves_the_server_running(server: FakeApiServer, sent: bytes) -> None:
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert ask(server, "/apis").status == 200
