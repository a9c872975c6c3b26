"""An open page of storage versions follows what API servers report."""

from pathlib import Path

import grpc
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc as pb_grpc
from browsing import PATIENCE_MS, visiting
from playwright.sync_api import Browser, expect
from server import serving

GATE = ("--feature-gates", "StorageVersionAPI=true")


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
    browser: Browser, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, "--store", "memory", *GATE) as server,
        grpc.insecure_channel(server.grpc) as channel,
        visiting(browser, server.url) as visit,
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
