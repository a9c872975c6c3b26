"""No check passes because it has found nothing to look at."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from apidiscovery_cli.conformance import Endpoint, Outcome, Profile, Report, run
from raw_http import AGG

PLAIN = "application/json"
EMPTY_AGGREGATED = (
    b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}'
)
EMPTY_PLAIN = b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}'


@contextmanager
def always(
    status: int, body: bytes, content_type: str = PLAIN, location: str = ""
) -> Generator[str]:
    """Run a server with one answer to everything, and give its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            if location:
                self.send_header("Location", location)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - as the library calls it

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def numbers(report: Report, outcome: Outcome) -> set[int]:
    return {result.check.number for result in report.of(outcome)}


@pytest.mark.parametrize(
    ("status", "body", "content_type", "location"),
    [
        (200, b"{}", PLAIN, ""),
        (200, b"", PLAIN, ""),
        (200, b"null", PLAIN, ""),
        (200, b"[]", PLAIN, ""),
        (500, b"broken", "text/plain", ""),
        (302, b"", PLAIN, "/apis"),
        (301, b"", PLAIN, "http://127.0.0.1:1/apis"),
    ],
)
@pytest.mark.parametrize("profile", list(Profile))
def test_a_server_that_has_nothing_passes_nothing(
    status: int, body: bytes, content_type: str, location: str, profile: Profile
) -> None:
    with always(status, body, content_type, location) as url:
        report = run(Endpoint(url=url), profile=profile)
    assert numbers(report, Outcome.PASS) == set()
    assert not report.passed


def test_without_groups_nothing_is_said_of_groups() -> None:
    with always(200, EMPTY_AGGREGATED, AGG) as url:
        report = run(Endpoint(url=url), profile=Profile.EXTENSION)
    assert numbers(report, Outcome.SKIP) >= {3, 13, 14, 15, 16}


def test_without_groups_nothing_is_said_of_unaggregated_groups() -> None:
    with always(200, EMPTY_PLAIN) as url:
        report = run(Endpoint(url=url), profile=Profile.EXTENSION)
    assert numbers(report, Outcome.SKIP) >= {3, 8, 42, 43}
    assert 45 in numbers(report, Outcome.FAIL)  # a list of groups at /api
