"""A person logs in with a token, sees what it may see and nothing else, and logs out."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import httpx2
import pytest
from browsing import visiting
from certificates import Authority
from fake_api_server import FakeApiServer, builtin
from playwright.sync_api import Browser, Cookie, Page, expect
from server import serving
from waiting import eventually

TOKENS = {"rita": "secret-of-rita", "ada": "secret-of-ada"}
HIDDEN = "hidden-cluster"
_PROTOCOL = "performance.getEntriesByType('navigation')[0].nextHopProtocol"
PAGES = (
    "/ui/",
    "/ui/groups",
    "/ui/groups/apps",
    "/ui/kinds/apps/v1/Deployment",
    "/ui/search?q=pod",
    f"/ui/search?q={HIDDEN}",
    "/ui/fleet",
    f"/ui/fleet?cluster={HIDDEN}",
    "/ui/history",
    f"/ui/history?cluster={HIDDEN}",
    f"/ui/diff?from={HIDDEN}&to=east",
    "/ui/storage-versions",
    "/ui/sources",
)


@dataclass(frozen=True, slots=True)
class Served:
    """A server over TLS with two clusters, one of which `rita` may not see."""

    origin: str
    trusting: ssl.SSLContext

    def get(self, path: str, who: str = "", cookie: str = "") -> httpx2.Response:
        """Ask as a script does, with a token or a cookie."""
        headers = {"Authorization": f"Bearer {TOKENS[who]}"} if who else {"Cookie": cookie}
        with httpx2.Client(verify=self.trusting, timeout=60, trust_env=False) as client:
            return client.get(self.origin + path, headers=headers)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("logging-in")
    authority = Authority(folder / "ca")
    pair = authority.server(["127.0.0.1"])
    tokens = [f"{token},{user},{user}\n" for user, token in TOKENS.items()]
    (folder / "tokens.csv").write_text("".join(tokens))
    with ExitStack() as stack:
        urls = {
            name: stack.enter_context(FakeApiServer(builtin())).url for name in ("east", HIDDEN)
        }
        config = {
            "upstreams": urls,
            "access": [
                {"role": "reader", "users": ["rita"], "clusters": ["east"]},
                {"role": "admin", "users": ["ada"]},
            ],
            "tls-cert-file": str(pair.cert_file),
            "tls-private-key-file": str(pair.key_file),
            "token-auth-file": str(folder / "tokens.csv"),
        }
        path = folder / "config.json"
        path.write_text(json.dumps(config))
        flags = ("--store", "memory", "--history", "90d,64MiB", "--config", str(path))
        server = stack.enter_context(serving(folder, *flags))
        trusting = authority.trusted()
        yield Served(f"https://127.0.0.1:{server.http_port}", trusting)


def _cookies(page: Page) -> Mapping[str, Cookie]:
    return {each.get("name", ""): each for each in page.context.cookies()}


def test_a_person_logs_in_and_out(browser: Browser, served: Served) -> None:
    with visiting(browser, served.origin, ignore_https_errors=True) as visit:
        page = visit.page
        visit.open("/ui/groups/apps")
        assert page.url.startswith(f"{served.origin}/ui/login?next=")
        visit.expect_accessible()
        visit.expect_fitting()
        visit.expect_quiet()

        page.get_by_label("Bearer token").fill("unknown")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not known")
        visit.complaints.clear()  # the browser notes a 401

        page.get_by_label("Bearer token").fill(TOKENS["rita"])
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/ui/groups/apps")
        session = _cookies(page)["__Host-apidiscovery-session"]
        assert session.get("secure")
        assert session.get("httpOnly")
        assert session.get("sameSite") == "Strict"
        assert session.get("expires") == -1
        assert TOKENS["rita"] not in json.dumps(page.context.cookies())
        assert TOKENS["rita"] not in page.content()
        visit.expect_accessible()

        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/ui/login")
        visit.open("/ui/")
        assert "/ui/login" in page.url
        # It has ended on the server too, whatever a browser kept.
        field = f"__Host-apidiscovery-session={session.get('value')}"
        assert served.get("/ui/", cookie=field).status_code == 303
        visit.expect_quiet()


def test_a_form_without_its_token_changes_nothing(browser: Browser, served: Served) -> None:
    with visiting(browser, served.origin, ignore_https_errors=True) as visit:
        page = visit.page
        visit.open("/ui/login")
        page.locator("input[name=form]").evaluate("field => { field.value = 'forged'; }")
        page.get_by_label("Bearer token").fill(TOKENS["ada"])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("expired")
        assert "__Host-apidiscovery-session" not in _cookies(page)


def test_an_unknown_caller_gets_no_page(served: Served) -> None:
    for path in (*PAGES, "/ui/events"):
        answer = served.get(path)
        assert answer.status_code in (303, 401), path
        assert HIDDEN in path or HIDDEN not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_a_hidden_cluster_is_nowhere(served: Served, path: str) -> None:
    if HIDDEN in path:
        other = path.replace(HIDDEN, "never-existed")

        def is_like_one_that_never_existed() -> bool:
            shown = served.get(path, "rita").text.replace(HIDDEN, "never-existed")
            return shown == served.get(other, "rita").text

        # Pages of the search count the documents that it has read meanwhile.
        eventually(is_like_one_that_never_existed, "the page tells nothing")
    else:
        assert HIDDEN not in served.get(path, "rita").text


def test_an_admin_sees_all_clusters(served: Served) -> None:
    assert HIDDEN in served.get("/ui/", "ada").text


def test_more_pages_than_http1_has_connections_stay_open_over_tls(
    browser: Browser, served: Served
) -> None:
    """Every open page holds a stream of events; browsers open six HTTP/1.1 connections a host."""
    with visiting(browser, served.origin, ignore_https_errors=True) as visit:
        visit.open("/ui/login")
        visit.page.get_by_label("Bearer token").fill(TOKENS["rita"])
        visit.page.get_by_role("button", name="Log in").click()
        visit.page.wait_for_url("**/ui/")
        pages = [visit.page, *(visit.page.context.new_page() for _ in range(7))]
        for page in pages:
            with page.expect_response("**/ui/events*"):
                page.goto(f"{served.origin}/ui/")
            assert page.evaluate(_PROTOCOL) == "h2"
