"""An open page follows what changes, without moving what is read."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc as pb_grpc
from browsing import PATIENCE_MS, visiting
from fake_api_server import FakeApiServer, builtin
from playwright.sync_api import Browser, expect
from server import Server, serving


def test_an_open_overview_shows_that_a_cluster_died(browser: Browser, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    with ExitStack() as dying, FakeApiServer(builtin()) as north:
        east = dying.enter_context(FakeApiServer(builtin()))
        config.write_text(
            f"upstreams:\n"
            f"  east: {{url: '{east.url}', poll-interval: 200ms, openapi: false}}\n"
            f"  north: {{url: '{north.url}', poll-interval: 200ms, openapi: false}}\n"
        )
        with (
            serving(tmp_path, "--store", "memory", "--config", str(config)) as server,
            visiting(browser, server.url, viewport={"width": 360, "height": 300}) as visit,
        ):
            page = visit.page
            visit.open("/ui/")
            line = page.locator("#cluster-east .state")
            expect(line).to_have_text("current", timeout=PATIENCE_MS)
            page.evaluate("window.opened = 1; scrollTo(0, 150)")
            at = page.evaluate("scrollY")
            dying.close()
            expect(page.locator("#cluster-east .state")).to_have_text("stale", timeout=PATIENCE_MS)
            expect(page.locator("#cluster-north .state")).to_have_text("current")
            expect(page.locator(".live")).to_contain_text("Updated")
            assert page.evaluate("window.opened") == 1  # the page was not loaded again
            assert page.evaluate("scrollY") == at
            visit.expect_quiet()


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that has storage versions."""
    gate = ("--feature-gates", "StorageVersionAPI=true")
    with serving(tmp_path_factory.mktemp("gated"), "--store", "memory", *gate) as server:
        yield server


def test_a_search_shows_fields_as_soon_as_they_are_read(browser: Browser, gated: Server) -> None:
    """First test of this server, which has just begun to read."""
    with visiting(browser, gated.url) as visit:
        visit.open("/ui/search?q=maxSurge")
        found = visit.page.locator("#found .said").first
        expect(found).to_contain_text("maximum number of pods", timeout=PATIENCE_MS)
        visit.expect_quiet()


def _report(stub: pb_grpc.StorageVersionServiceStub, hostname: str, version: str) -> None:
    beat = stub.Heartbeat(pb.HeartbeatRequest(hostname=hostname, component="widget-server"))
    widgets = pb.ReportedResource(
        group="example.dev",
        resource="widgets",
        encoding_version=f"example.dev/{version}",
        decodable_versions=["example.dev/v1", "example.dev/v2"],
    )
    stub.Report(pb.ReportRequest(api_server_id=beat.api_server_id, resources=[widgets]))


def test_an_open_page_tells_who_lags_and_when_a_migration_is_safe(
    browser: Browser, gated: Server
) -> None:
    with (
        grpc.insecure_channel(gated.grpc) as channel,
        visiting(browser, gated.url) as visit,
    ):
        stub = pb_grpc.StorageVersionServiceStub(channel)
        visit.open("/ui/storage-versions")
        expect(visit.page.locator("main")).to_contain_text("No API server has reported")
        _report(stub, "east", "v2")
        _report(stub, "north", "v2")
        _report(stub, "west", "v1")
        visit.open("/ui/storage-versions")
        line = visit.page.locator("[id='resource-example.dev.widgets']")
        expect(line).to_contain_text("not safe: wait until west writes v2")
        visit.expect_fitting()
        visit.expect_accessible()
        _report(stub, "west", "v2")
        expect(line).to_contain_text("safe: all write v2", timeout=PATIENCE_MS)
        visit.expect_quiet()
