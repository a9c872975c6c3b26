"""Requests of pages of other origins, by the Fetch standard."""

import httpx2
import pytest
from apidiscovery_service.app.settings import cors_origin
from apidiscovery_service.errors import InvalidConfiguration
from connect_server import GET, Connected, connected
from groups import contribution
from structlog.testing import capture_logs

FIRST = contribution("a", "example.com/v1")
PAGE = "http://localhost:5173"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "connect-protocol-version,content-type",
}
READ = f"{GET}?connect=v1&encoding=json&message=%7B%7D"


async def preflight(served: Connected, origin: str) -> httpx2.Response:
    return await served.http.options(GET, headers={"origin": origin, **PREFLIGHT})


async def test_a_page_of_an_allowed_origin_may_call_and_read() -> None:
    async with connected(FIRST, origins=[PAGE]) as served:
        answer = await preflight(served, PAGE)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert answer.headers["access-control-allow-methods"] == "GET, HEAD, POST"
        allowed = answer.headers["access-control-allow-headers"].lower().split(", ")
        assert {"connect-protocol-version", "content-type", "authorization"} <= {*allowed}
        # The answer that is kept for all origins has the fields of each.
        for origin, expected in ((PAGE, PAGE), ("http://evil.example", None), (PAGE, PAGE)):
            read = await served.http.get(READ, headers={"origin": origin})
            assert read.status_code == 200
            assert read.headers.get("access-control-allow-origin") == expected
            assert "Origin" in read.headers["vary"]
        assert "ETag" in read.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in read.headers


async def test_pages_of_other_origins_may_not_read() -> None:
    async with connected(FIRST, origins=[PAGE]) as served:
        for origin in ("http://localhost:5174", "https://localhost:5173", "null"):
            answer = await preflight(served, origin)
            assert "access-control-allow-origin" not in answer.headers


async def test_a_refused_origin_is_logged_once_with_the_flag_that_allows_it() -> None:
    async with connected(FIRST, origins=[PAGE]) as served:
        with capture_logs() as logs:
            for origin in (PAGE, "http://127.0.0.1:5173", "http://127.0.0.1:5173"):
                await preflight(served, origin)
            refused = [line for line in logs if line["event"] == "origin refused"]
            assert [line["origin"] for line in refused] == ["http://127.0.0.1:5173"]
            assert refused[0]["allow"] == "--cors-origin http://127.0.0.1:5173"
            for number in range(100):
                await preflight(served, f"http://{number}.example")
        assert len([line for line in logs if line["event"] == "origin refused"]) == 32


async def test_all_origins_can_be_allowed() -> None:
    async with connected(FIRST, origins=["*"]) as served:
        answer = await preflight(served, "http://any.example")
        assert answer.headers["access-control-allow-origin"] == "*"
        read = await served.http.get(READ, headers={"origin": "http://any.example"})
        assert read.headers["access-control-allow-origin"] == "*"
        assert (await served.http.get(READ)).headers.get("access-control-allow-origin") is None


async def test_without_origins_no_page_may_read() -> None:
    async with connected(FIRST) as served:
        answer = await preflight(served, PAGE)
        assert answer.status_code == 405
        read = await served.http.get(READ, headers={"origin": PAGE})
        assert "access-control-allow-origin" not in read.headers


@pytest.mark.parametrize(
    "origin", ["*", "http://localhost:5173", "https://tools.example.com", "http://[::1]:80"]
)
def test_an_origin_is_taken_as_browsers_send_it(origin: str) -> None:
    assert cors_origin(origin) == origin


@pytest.mark.parametrize(
    "origin", ["", "localhost", "http://localhost/", "http://*", "HTTP://A", "http://a:b", "null"]
)
def test_a_malformed_origin_is_refused(origin: str) -> None:
    with pytest.raises(InvalidConfiguration, match="want an origin without a path, such as"):
        cors_origin(origin)
