"""Every page in Chromium: quiet, accessible, fitting, and readable without scripts."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx2
import pytest
from browsing import visiting
from playwright.sync_api import Browser, expect
from server import Server, eventually, serving

_DIFF = "/ui/diff?from=kubernetes%3A1.34&to=kubernetes%3A1.36"
# Fixed paths, which people keep and share.
COMMON = (
    "/ui/",
    "/ui/groups",
    "/ui/groups/apps",
    "/ui/groups/core",
    "/ui/kinds",
    "/ui/kinds?q=deploy",
    "/ui/kinds/apps/v1/Deployment",
    "/ui/kinds/core/v1/Pod",
    "/ui/search?q=deploy",
    "/ui/search?q=nothing-has-this-name",
    "/ui/fleet",
    "/ui/diff",
    _DIFF,
)
OF_DEFINITIONS = (
    "/ui/",
    "/ui/groups",
    "/ui/groups/cert-manager.io",
    "/ui/kinds/cert-manager.io/v1/Certificate",
    "/ui/search?q=renewBefore",
    "/ui/history",
    "/ui/sources",
    "/ui/storage-versions",
)
PATHS = {
    "catalogue": COMMON,
    "definitions": OF_DEFINITIONS,
    "fleet": (
        "/ui/",
        "/ui/kinds",
        "/ui/groups",
        "/ui/fleet",
        "/ui/history",
        "/ui/sources",
        "/ui/search?q=pod",
    ),
}


@pytest.fixture(params=PATHS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(served: Mapping[str, Server], kind: str) -> Server:
    return served[kind]


def test_each_page_is_quiet_accessible_and_fits(
    browser: Browser, server: Server, kind: str
) -> None:
    with visiting(browser, server.url) as visit:
        for path in PATHS[kind]:
            visit.open(path)
            expect(visit.page.locator("h1")).to_have_count(1)
            visit.expect_fitting()
            visit.expect_accessible()
            visit.expect_quiet()


def test_each_page_tells_the_same_without_scripts(
    browser: Browser, server: Server, kind: str
) -> None:
    with visiting(browser, server.url, java_script_enabled=False) as visit:
        for path in PATHS[kind]:
            visit.open(path)
            expect(visit.page.locator("h1")).to_be_visible()
            assert visit.page.locator("main").inner_text().strip()
            visit.expect_quiet()


def test_a_page_that_is_not_there_says_so(browser: Browser, served: Mapping[str, Server]) -> None:
    with visiting(browser, served["catalogue"].url) as visit:
        visit.open("/ui/kinds/apps/v1/Nothing", status=404)
        expect(visit.page.locator("h1")).to_contain_text("404")
        visit.expect_accessible()


def test_a_dead_cluster_is_told_with_its_reason(served: Mapping[str, Server]) -> None:
    url = served["fleet"].url

    def told(path: str) -> bool:
        text = httpx2.get(url + path, trust_env=False).raise_for_status().text
        return "gone" in text and ("refused" in text or "not answer" in text)

    for path in ("/ui/", "/ui/sources"):
        eventually(partial(told, path), 30.0, f"{path} tells why")


def test_the_keyboard_is_enough(browser: Browser, served: Mapping[str, Server]) -> None:
    with visiting(browser, served["catalogue"].url) as visit:
        page = visit.page
        visit.open("/ui/groups")
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        page.keyboard.press("/")
        page.keyboard.type("deployment")
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/search?q=deployment")
        expect(page.locator("main input[name=q]")).to_be_focused()  # before another key is
        found = page.locator("main a", has_text="Deployment").first
        for _ in range(60):
            if found.evaluate("link => link === document.activeElement"):
                break
            page.keyboard.press("Tab")
        expect(found).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/kinds/apps/v1/Deployment*")
        expect(page.locator("h1")).to_contain_text("Deployment")
        visit.expect_quiet()


def test_the_number_of_kinds_leads_to_all_of_them(
    browser: Browser, served: Mapping[str, Server]
) -> None:
    with visiting(browser, served["catalogue"].url) as visit:
        page = visit.page
        visit.open("/ui/")
        page.locator("#served a", has_text="kinds").click()
        page.wait_for_url("**/ui/kinds")
        assert page.locator("#kinds tbody tr").count() > 60
        expect(page.locator("#kind-apps-deployments")).to_contain_text("deploy")
        page.locator(".filters input").fill("CRON")
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/kinds?q=CRON")
        expect(page.locator("#kinds tbody tr")).to_have_count(1)
        expect(page.locator("#kinds tbody tr")).to_contain_text("CronJob")
        # The feature is off, so nothing leads to its page.
        expect(page.locator("nav a", has_text="Storage versions")).to_have_count(0)
        visit.expect_quiet()


def test_on_a_phone_the_fleet_shows_two_clusters_beside_a_kind(
    browser: Browser, served: Mapping[str, Server]
) -> None:
    with visiting(browser, served["fleet"].url, viewport={"width": 390, "height": 844}) as visit:
        visit.open("/ui/fleet?all=1")
        box = visit.page.locator(".matrix thead th").nth(2).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390


def test_an_installation_without_the_extra_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jinja2'] = None\n")
    with serving(tmp_path, "--store", "memory", env={"PYTHONPATH": str(tmp_path)}) as server:
        page = httpx2.get(f"{server.url}/ui/kinds", trust_env=False)
        assert page.status_code == 404
        assert "need jinja2" in page.text
        assert "pip install 'apidiscovery[web]'" in page.text
        assert httpx2.get(server.url, trust_env=False).json()["paths"]


def test_a_chosen_theme_stays(browser: Browser, served: Mapping[str, Server]) -> None:
    with visiting(browser, served["catalogue"].url, color_scheme="light") as visit:
        visit.open("/ui/groups")
        before = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        button = visit.page.locator("theme-switch button")
        expect(button).to_have_attribute("aria-pressed", "false")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        visit.open("/ui/")
        after = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert before != after
        visit.expect_accessible()
        visit.expect_quiet()


def test_a_page_that_the_browser_has_is_not_sent_again(served: Mapping[str, Server]) -> None:
    for path in ("/ui/groups", "/ui/kinds/apps/v1/Deployment", "/ui/storage-versions"):
        url = served["catalogue"].url + path
        first = httpx2.get(url, trust_env=False)
        again = httpx2.get(url, headers={"if-none-match": first.headers["etag"]}, trust_env=False)
        assert (first.status_code, again.status_code, again.content) == (200, 304, b""), path
        assert again.headers["etag"] == first.headers["etag"]
