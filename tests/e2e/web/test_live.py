"""An open page follows what changes: it shows a cluster that dies, without moving what is read."""

from contextlib import ExitStack
from pathlib import Path

from browsing import PATIENCE_MS, visiting
from fake_api_server import FakeApiServer, builtin
from playwright.sync_api import Browser, expect
from server import serving


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


def test_a_search_shows_fields_as_soon_as_they_are_read(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "--store", "memory") as server, visiting(browser, server.url) as visit:
        visit.open("/ui/search?q=maxSurge")
        found = visit.page.locator("#found .said").first
        expect(found).to_contain_text("maximum number of pods", timeout=PATIENCE_MS)
        visit.expect_quiet()
