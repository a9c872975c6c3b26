"""Every page in Chromium: quiet, accessible, fitting, and readable without scripts."""

import gzip
import html
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx2
import pytest
import yaml
from browsing import visiting
from fake_api_server import FakeApiServer, builtin
from playwright.sync_api import Browser, expect
from raw_http import RawResponse, get
from repository import GOLDEN
from server import Server, serving
from waiting import WITHIN_S, eventually

DEPLOYMENT = "/ui/kinds/apps/v1/Deployment"
BUILT_S = 60.0
_FRAGMENT = ("HX-Request", "true")
_CRDS = GOLDEN / "crds" / "manifests" / "cert-manager.yaml.gz"
_DIFF = "/ui/diff?from=kubernetes%3A1.34&to=kubernetes%3A1.36"
# Chromium looks at sixteen pages in one test.
pytestmark = pytest.mark.timeout(300)
# Fixed paths, which people keep and share.
PATHS = {
    "catalogue": (
        "/ui/",
        "/ui/groups",
        "/ui/groups/apps",
        "/ui/kinds",
        DEPLOYMENT,
        "/ui/search?q=deploy",
        "/ui/search?q=nothing-has-this-name",
        "/ui/fleet",
        "/ui/diff",
        _DIFF,
        "/ui/groups/cert-manager.io",
        "/ui/kinds/cert-manager.io/v1/Certificate",
        "/ui/search?q=renewBefore",
        "/ui/history",
        "/ui/sources",
        "/ui/storage-versions",
    ),
    "fleet": (
        "/ui/",
        "/ui/fleet",
        "/ui/history",
        "/ui/sources",
        "/ui/search?q=pod",
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Server]]:
    """Return servers of the built-in catalogue with definitions, and of a half dead fleet."""
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("served")
        definitions = folder / "manifests"
        definitions.mkdir()
        (definitions / "crds.yaml").write_bytes(gzip.decompress(_CRDS.read_bytes()))
        alive = stack.enter_context(FakeApiServer(builtin()))
        flags = {
            "catalogue": (
                *("--store", "memory", "--catalog", "kubernetes"),
                *("--manifests", str(definitions)),
            ),
            "fleet": (
                *("--store", "memory", "--upstream", f"east={alive.url}"),
                *("--upstream", "gone=http://127.0.0.1:1"),
            ),
        }
        yield {
            name: stack.enter_context(serving(_made(folder / name), *each))
            for name, each in flags.items()
        }


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


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
        text = httpx2.get(url + path, trust_env=False, timeout=WITHIN_S).raise_for_status().text
        return "gone" in text and ("refused" in text or "not answer" in text)

    for path in ("/ui/", "/ui/sources"):
        eventually(partial(told, path), f"{path} tells why")


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
        page = httpx2.get(f"{server.url}/ui/kinds", trust_env=False, timeout=WITHIN_S)
        assert page.status_code == 404
        assert "need jinja2" in page.text
        assert "pip install 'apidiscovery[web]'" in page.text
        assert httpx2.get(server.url, trust_env=False, timeout=WITHIN_S).json()["paths"]


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
        first = httpx2.get(url, trust_env=False, timeout=WITHIN_S)
        again = httpx2.get(
            url, headers={"if-none-match": first.headers["etag"]}, trust_env=False, timeout=WITHIN_S
        )
        assert (first.status_code, again.status_code, again.content) == (200, 304, b""), path
        assert again.headers["etag"] == first.headers["etag"]


# --------------------------------------------------------------------------------------------------
# Kinds and the search over plain HTTP, without any script.


def page(server: Server, path: str, *lines: tuple[str, str]) -> RawResponse:
    return get(server.http_port, path, "text/html", *lines)


def text(server: Server, path: str, *lines: tuple[str, str]) -> str:
    answer = page(server, path, *lines)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def fields(shown: str) -> list[str]:
    """Return the paths of the fields that are shown."""
    return [html.unescape(found) for found in re.findall(r'<li id="([^"]+)" class="field"', shown)]


def test_a_kind_tells_its_names_and_opens_a_path(served: Mapping[str, Server]) -> None:
    shown = text(served["catalogue"], f"{DEPLOYMENT}?field=spec.strategy.rollingUpdate")
    assert "spec.strategy.rollingUpdate.maxSurge" in fields(shown)
    for wanted in ("<code>deployments</code>", "<code>deploy</code>", "Namespaced", "scale"):
        assert wanted in shown
    command = "kubectl explain deployments.spec.strategy.rollingUpdate --api-version=apps/v1"
    assert command in shown
    assert 'href="/schemas/apps/deployment_v1.json"' in shown
    assert page(served["catalogue"], "/schemas/apps/deployment_v1.json").status == 200


def test_a_fragment_is_one_field(served: Mapping[str, Server]) -> None:
    server, path = served["catalogue"], f"{DEPLOYMENT}?field=spec.strategy"
    shown = text(server, path, _FRAGMENT)
    assert fields(shown) == ["spec.strategy", "spec.strategy.rollingUpdate", "spec.strategy.type"]
    assert "<html" not in shown
    assert fields(text(server, f"{path}&open=no", _FRAGMENT)) == ["spec.strategy"]
    assert page(server, f"{DEPLOYMENT}?field=spec.nothing", _FRAGMENT).status == 404


def test_a_missing_field_is_told_and_the_rest_of_the_path_opened(
    served: Mapping[str, Server],
) -> None:
    shown = text(served["catalogue"], f"{DEPLOYMENT}?field=spec.strategy.colour")
    assert "There is no field <code>spec.strategy.colour</code>" in shown
    assert "spec.strategy.type" in fields(shown)


def test_an_example_is_a_manifest(served: Mapping[str, Server]) -> None:
    shown = text(served["catalogue"], "/ui/kinds/cert-manager.io/v1/Certificate")
    (example,) = re.findall(r'<pre id="kind-example"[^>]*>(.*?)</pre>', shown, re.DOTALL)
    found = yaml.safe_load(html.unescape(example))
    assert (found["apiVersion"], found["kind"]) == ("cert-manager.io/v1", "Certificate")
    assert {"issuerRef", "secretName"} <= set(found["spec"])


@pytest.mark.parametrize(
    "path",
    [
        "/ui/kinds/apps/v1/Nothing",
        "/ui/kinds/apps/v9/Deployment",
        "/ui/kinds/nothing/v1/Deployment",
        f"{DEPLOYMENT}?cluster=nowhere",
    ],
)
def test_what_is_not_served_is_not_found(served: Mapping[str, Server], path: str) -> None:
    assert page(served["catalogue"], path).status == 404


def test_clusters_with_and_without_a_kind_are_told(served: Mapping[str, Server]) -> None:
    link = f'<a href="{DEPLOYMENT}?cluster=east">east</a>'
    eventually(lambda: link in text(served["fleet"], DEPLOYMENT), "east is read", BUILT_S)
    shown = text(served["fleet"], DEPLOYMENT)
    assert re.search(r"<dt>Not known in</dt>\s*<dd>gone</dd>", shown)
    other = text(served["fleet"], f"{DEPLOYMENT}?cluster=east")
    assert "as cluster <strong>east</strong> serves it" in other


def test_a_field_is_found_by_its_name_and_by_words(served: Mapping[str, Server]) -> None:
    server = served["catalogue"]

    def found(query: str) -> str:
        return text(server, f"/ui/search?q={query}", _FRAGMENT)

    eventually(
        lambda: "still being read" not in found("renewBefore"), "the index is built", BUILT_S
    )
    link = "/ui/kinds/cert-manager.io/v1/Certificate?field=spec.renewBefore#spec.renewBefore"
    for query in ("renewBefore", "renew+before", "certificate+renewBefore", "spec.renewBefore"):
        assert link in found(query), query
    assert "spec.renewBefore" in found("issued+certificate+expiry+renewed")
    assert found("cert").index(">Certificate<") < found("cert").index(">CertificateRequest<")


def test_a_search_says_whose_fields_are_not_known(served: Mapping[str, Server]) -> None:
    def found() -> str:
        return text(served["fleet"], "/ui/search?q=maxSurge", _FRAGMENT)

    said = "The fields of 2 clusters are not known."  # `east` publishes no OpenAPI
    eventually(lambda: said in found(), "what is known is read", BUILT_S)


@pytest.mark.parametrize(
    "query",
    ["%00", "%22", "*", "AND", "%22+OR+(", "x" * 5000, "%F0%9F%98%80", "%ff", "-", "name%3Ax", ""],
)
def test_any_text_has_an_answer(served: Mapping[str, Server], query: str) -> None:
    assert page(served["catalogue"], f"/ui/search?q={query}").status == 200
