"""Whatever a client sends, it is told what is wrong with it, and the next one is served."""

import socket
from collections.abc import Iterator

import httpx2
import pytest
from media_types import JSON_V2, PROTOBUF_V2
from raw_http import exchange, get, parse, request
from server import Server
from waiting import WITHIN_S

TEXT_404 = b"404 page not found\n"
LEFT = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
STATUS_404 = (
    LEFT + b'"message":"the server could not find the requested resource",'
    b'"reason":"NotFound","details":{},"code":404}\n'
)
STATUS_415 = (
    LEFT + b'"message":"415: Unsupported Media Type",'
    b'"reason":"UnsupportedMediaType","details":{},"code":415}\n'
)
CLOSE = b"Connection: close\r\n\r\n"


@pytest.fixture
def port(server: Server) -> Iterator[int]:
    """Return a port; afterwards the server must serve still, and have logged no traceback."""
    before = len(server.log())
    yield server.http_port
    assert get(server.http_port, "/apis/apps").status == 200
    assert "Traceback" not in server.log()[before:]


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/storagemigration.k8s.io/v1",
        "/apis/storagemigration.k8s.io/v1/x",
        "/apis/Apps",
        "//apis",
        "/../apis",
        "/readyz/nope",
        "/livez/shutdown",
        "/apis/%FF%FE",
        "/apis/%00",
        "/openapi",
    ],
)
def test_a_path_that_nothing_serves_is_a_text(port: int, path: str) -> None:
    response = get(port, path)
    assert (response.status, response.body) == (404, TEXT_404)
    assert response.content_type == ["text/plain; charset=utf-8"]
    assert response.values("x-content-type-options") == ["nosniff"]


@pytest.mark.parametrize(
    "path",
    [
        "/apis/apps/v1/nope",
        "/apis/apps/v1/namespaces/default/pods",
        "/api/v1/nope",
        "/api/v9",
        "/api/v9/pods",
        "/apis/apps/v99",
        "/apis/apps/v99/",
        "/apis/apps/v99/deployments",
    ],
)
def test_a_path_below_what_kubernetes_serves_itself_is_a_status(port: int, path: str) -> None:
    response = get(port, path)
    assert (response.status, response.body) == (404, STATUS_404)
    assert response.content_type == ["application/json"]


@pytest.mark.parametrize(
    "path",
    [
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/x",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/pods/web/log",
        "/api/v1/pods",
    ],
)
def test_whoever_asks_for_objects_is_told_that_there_are_none(port: int, path: str) -> None:
    """What kubectl prints; kube-apiserver would answer with objects."""
    response = get(port, path)
    found = b'could not find the requested resource"'
    told = (
        b"could not find the requested resource: this server does discovery only and has no "
        b'objects; ask the API server that stores them"'
    )
    assert (response.status, response.body) == (404, STATUS_404.replace(found, told))
    assert response.content_type == ["application/json"]


@pytest.mark.parametrize(
    ("accept", "content_type", "start"),
    [
        pytest.param("*/*", "application/json", LEFT, id="any"),
        pytest.param("application/json;pretty=1", "application/json", b'{\n  "kind"', id="pretty"),
        pytest.param("application/yaml", "application/yaml", b"apiVersion: v1\n", id="yaml"),
        pytest.param(
            PROTOBUF_V2.split(";", 1)[0], PROTOBUF_V2.split(";", 1)[0], b"k8s\0", id="protobuf"
        ),
        pytest.param("text/html", "application/json", b'{\n  "kind"', id="none"),
        pytest.param(JSON_V2, "application/json", b'{\n  "kind"', id="aggregated"),
    ],
)
def test_a_status_is_in_the_form_that_the_client_accepts(
    port: int, accept: str, content_type: str, start: bytes
) -> None:
    response = get(port, "/apis/apps/v1/nope", accept)
    assert (response.status, response.content_type) == (404, [content_type])
    assert response.body.startswith(start)


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis/apps/v1", "/version", "/version/"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "BREW"])
def test_go_restful_takes_get_alone(port: int, path: str, method: str) -> None:
    response = request(port, path, method=method)
    assert response.status == 405
    if method != "HEAD":
        assert response.json()["reason"] == "MethodNotAllowed"


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/api", "text/html"),
        ("/api", "application/*"),
        ("/apis", "text/html"),
        ("/apis", "application/cbor"),
        ("/apis", ","),
        ("/apis", "garbage"),
        ("/apis", "\xe9\xff"),
        ("/apis/apps", JSON_V2),
        ("/apis/apps/v1", "application/*"),
        ("/version", "text/html"),
    ],
)
def test_what_nobody_can_read_is_not_sent(port: int, path: str, accept: str) -> None:
    response = get(port, path, accept)
    assert (response.status, response.content_type) == (406, ["application/json"])
    assert response.json()["reason"] == "NotAcceptable"


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis/apps/v1"])
def test_go_restful_looks_at_content_type(port: int, path: str) -> None:
    response = get(port, path, None, ("Content-Type", "text/plain; charset=utf-8"))
    assert (response.status, response.body) == (415, STATUS_415)
    assert get(port, path, None, ("Content-Type", "application/json; a=b")).status == 200
    assert get(port, "/apis", None, ("Content-Type", "text/plain")).status == 200


@pytest.mark.parametrize(
    ("timeout", "wrong"),
    [
        ("x", 'time: invalid duration "x"'),
        ("32", 'time: missing unit in duration "32"'),
        ("3y", 'time: unknown unit "y" in duration "3y"'),
        ("99999999999999999999s", 'time: invalid duration "99999999999999999999s"'),
    ],
)
def test_a_timeout_that_is_no_duration_is_refused_and_logged(
    server: Server, port: int, timeout: str, wrong: str
) -> None:
    before = len(server.log())
    response = get(port, f"/apis?timeout={timeout}", JSON_V2)
    assert (response.status, response.content_type) == (400, ["application/json"])
    assert response.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"invalid timeout specified in the request URL - {wrong}",
        "reason": "BadRequest",
        "code": 400,
    }
    assert "path=/apis" in server.log()[before:]


@pytest.mark.parametrize(
    "timeout", ["32s", "0", "1m30s", "-1.5h", "", "100ms&x=%zz", "1%C2%B5s", "%zz"]
)
def test_a_timeout_that_is_a_duration_changes_nothing(port: int, timeout: str) -> None:
    assert get(port, f"/apis?timeout={timeout}", JSON_V2).status == 200


@pytest.mark.parametrize("path", ["/apis/%zz", "/apis/%", "/apis/%a", "/%g0"])
def test_a_malformed_escape_is_refused_and_logged(server: Server, port: int, path: str) -> None:
    before = len(server.log())
    response = get(port, path)
    assert (response.status, response.json()["reason"]) == (400, "BadRequest")
    assert "status=400" in server.log()[before:]


def test_a_log_line_cannot_be_forged_by_a_path(server: Server, port: int) -> None:
    before = len(server.log())
    assert get(port, "/%zz%0aFORGED%0d%1b[31m").status == 400
    written = server.log()[before:]
    assert written.count("\n") == 1
    assert "\x1b" not in written


@pytest.mark.parametrize("warm", [False, True], ids=["never seen before", "seen before"])
def test_a_header_that_is_too_large_is_refused_and_logged(
    server: Server, port: int, *, warm: bool
) -> None:
    """Whether the request without that header has been answered before makes no difference."""
    path = f"/apis?warm={warm}"
    if warm:
        assert get(port, path).status == 200
    before = len(server.log())
    response = get(port, path, None, ("X-Large", "a" * 70_000))
    assert (response.status, response.content_type) == (431, ["application/json"])
    assert response.json()["code"] == 431
    assert "status=431" in server.log()[before:]


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        pytest.param(b"\0\1\2 garbage\r\n\r\n", {400}, id="garbage"),
        pytest.param(bytes.fromhex("16030100ca010000c60303") + b"\r\n\r\n", {400}, id="tls"),
        pytest.param(b"GET /apis\r\n\r\n", {400}, id="http 0.9"),
        pytest.param(b"GET /a b HTTP/1.1\r\nHost: x\r\n" + CLOSE, {400}, id="space in path"),
        pytest.param(
            b"GET /apis HTTP/1.1\r\nHost: x\r\nAccept: application/json,\r\n */*\r\n" + CLOSE,
            {400},
            id="obs-fold",
        ),
        pytest.param(b"GET /apis HTTP/1.1\r\nno colon\r\n" + CLOSE, {400}, id="no colon"),
        pytest.param(b"GET /apis HTTP/1.1\r\nX: a\0b\r\n" + CLOSE, {400}, id="NUL"),
        pytest.param(
            b"POST /apis HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            {400},
            id="two lengths",
        ),
        pytest.param(
            b"POST /apis HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + CLOSE,
            {200, 400},  # the document is sent without waiting for the body
            id="bad chunk",
        ),
        pytest.param(
            b"GET /apis HTTP/1.1\r\nX: " + b"a" * 1_100_000 + b"\r\n" + CLOSE, {431}, id="1 MiB"
        ),
        pytest.param(
            b"GET /apis HTTP/1.1\r\n" + b"X: a\r\n" * 1000 + CLOSE, {431}, id="1000 fields"
        ),
        pytest.param(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + CLOSE, {414}, id="long path"),
        pytest.param(
            b"OPTIONS * HTTP/1.1\r\nHost: x\r\n" + CLOSE, {200, 204, 400, 404}, id="OPTIONS *"
        ),
        pytest.param(
            b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n" + CLOSE, {400, 404, 405}, id="CONNECT"
        ),
    ],
)
def test_what_is_hardly_http_is_refused(port: int, sent: bytes, statuses: set[int]) -> None:
    assert parse(exchange(port, sent)).status in statuses


def test_a_connection_that_ends_early_harms_nobody(port: int) -> None:
    for sent in (b"", b"GET /ap", b"POST /apis HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(sent)
        assert get(port, "/apis").status == 200


def test_an_upgrade_to_a_websocket_is_passed_over(port: int) -> None:
    upgrade = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
    ]
    assert request(port, "/apis/apps", upgrade).body == get(port, "/apis/apps").body


@pytest.mark.parametrize("path", ["/apis", "/apis/apps"])
def test_the_body_of_a_post_is_not_looked_at(port: int, path: str) -> None:
    response = request(port, path, method="POST", body=b"\0" * 200_000)
    assert response.status == 200
    assert response.body == get(port, path).body


def test_after_a_body_the_connection_goes_on(port: int) -> None:
    first = b"POST /apis/apps HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\0\r\nG"
    received = exchange(port, first + b"GET /livez HTTP/1.1\r\nHost: x\r\n" + CLOSE)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.endswith(b"\r\n\r\nok")


@pytest.mark.parametrize(
    ("headers", "query", "pretty"),
    [
        pytest.param([], "", False, id="client"),
        pytest.param([("User-Agent", "curl/8.5.0")], "", True, id="curl"),
        pytest.param([("User-Agent", "Wget/1.21")], "", True, id="wget"),
        pytest.param([("User-Agent", "Mozilla/5.0 (X11)")], "", True, id="browser"),
        pytest.param([("User-Agent", "Mozilla/4.0")], "", False, id="old browser"),
        pytest.param([("User-Agent", "kubectl curl")], "", False, id="curl inside"),
        pytest.param([], "?pretty=true", True, id="true"),
        pytest.param([], "?pretty=1", True, id="1"),
        pytest.param([], "?pretty=yes", False, id="yes"),
        pytest.param([("User-Agent", "curl/8.5.0")], "?pretty=false", False, id="curl, false"),
        pytest.param([("User-Agent", "curl/8.5.0")], "?pretty=", True, id="curl, empty"),
        pytest.param([("User-Agent", "curl/8.5.0")], "?pretty=0&pretty=1", False, id="first"),
        pytest.param([("Accept", f"{JSON_V2};pretty=1")], "", True, id="accept"),
        pytest.param([("Accept", f"{JSON_V2};pretty=true")], "", False, id="accept, true"),
    ],
)
@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1"])
def test_people_get_indented_json(
    port: int, path: str, headers: list[tuple[str, str]], query: str, *, pretty: bool
) -> None:
    if path.startswith("/apis/"):
        headers = [(name, value.replace(JSON_V2, "application/json")) for name, value in headers]
    elif not any(name == "Accept" for name, _ in headers):
        headers = [*headers, ("Accept", JSON_V2)]
    accept = dict(headers).get("Accept")
    compact = get(port, path, accept and accept.partition(";pretty")[0])
    response = request(port, path + query, headers)
    assert response.status == 200
    assert response.body.startswith(b'{\n  "kind": "') is pretty
    assert response.body.endswith(b"\n") is not pretty
    assert response.json() == compact.json()
    assert response.values("etag") == compact.values("etag")


@pytest.mark.parametrize("suffix", ["application/yaml", "application/vnd.kubernetes.protobuf"])
def test_only_json_has_an_indented_form(port: int, suffix: str) -> None:
    human = get(port, "/apis", suffix, ("User-Agent", "curl/8"))
    assert human.body == get(port, "/apis", suffix).body


def test_over_http_2_too(port: int) -> None:
    with httpx2.Client(
        http1=False,
        http2=True,
        trust_env=False,
        base_url=f"http://127.0.0.1:{port}",
        timeout=WITHIN_S,
    ) as client:
        statuses = [
            client.get("/apis/%zz").status_code,
            client.post("/api", content=b"x").status_code,
            client.get("/apis", headers={"x-large": "a" * 70_000}).status_code,
            client.get("/apis/nope").status_code,
            client.get("/apis/apps/v1/nope").status_code,
        ]
        twice = client.get("/apis", headers=[("accept", "application/json"), ("accept", JSON_V2)])
    assert statuses == [400, 405, 431, 404, 404]
    assert twice.headers["content-type"] == "application/json"
