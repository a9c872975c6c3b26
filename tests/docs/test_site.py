"""The site that `make docs` builds: complete, without broken links, and without a network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2
import pytest
from apidiscovery_cli.group import OWN
from apidiscovery_client.checking import model as checking
from apidiscovery_client.diffing import findings
from apidiscovery_client.upgrading import model as upgrading
from repository import ROOT
from server import Server
from waiting import WITHIN_S

from tools import find_browser

# Neither says how long it takes: the site 15 s on two idle cores.
BUILD_S = 200.0
BROWSER_S = 60.0

pytestmark = pytest.mark.timeout(300)  # the first test builds the site

# What a browser loads by itself, by element; a link that a reader follows is not among them.
_LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
_CSS_URL = re.compile(r"""(?:@import|url\()\s*['"]?(?:https?:)?//""")


class Page(HTMLParser):
    """The identifiers of a page, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids, self.links, self.loaded = {""}, list[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.ids |= {told.get("id", ""), told.get("name", "")}
        if tag == "a" and "href" in told:
            self.links.append(told["href"])
        if _LOADED.get(tag, "") in told and told.get("rel") != "canonical":
            self.loaded.append(told[_LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built without a network: every proxy is a closed port."""
    folder = tmp_path_factory.mktemp("site")
    closed = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **closed, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_links_lead_to_pages_and_to_places_in_them(pages: dict[Path, Page]) -> None:
    broken = [
        (path.name, link)
        for path, page in pages.items()
        if path.name != "404.html"  # its links are from the root of a server
        for link in page.links
        if not _leads_somewhere(link, path, pages)
    ]
    assert broken == []


def test_a_page_loads_nothing_from_another_origin(site: Path, pages: dict[Path, Page]) -> None:
    assert {url for page in pages.values() for url in page.loaded if urlsplit(url).netloc} == set()
    styles = {path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert styles
    assert [name for name, text in styles.items() if _CSS_URL.search(text)] == []


def test_the_search_works_from_disk_in_a_browser_without_a_network(
    site: Path, tmp_path: Path
) -> None:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    options += [f"--user-data-dir={tmp_path}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    done = subprocess.run(  # noqa: S603 - our own arguments
        [find_browser(), *options, "--dump-dom", f"{(site / 'index.html').as_uri()}?q=kubeconform"],
        check=True,
        capture_output=True,
        text=True,
        timeout=BROWSER_S,
    )
    assert re.search(r"\d+ matching documents", done.stdout)


def test_the_reference_has_each_command(site: Path) -> None:
    text = _text(site / "reference/cli.html")
    assert [name for name in (*OWN, "serve") if f"Usage: apidiscovery {name}" not in text] == []


def test_the_reference_has_each_metric_of_a_server(site: Path, server: Server) -> None:
    exposed = httpx2.get(f"{server.url}/metrics", timeout=WITHIN_S).text
    names = set(re.findall(r"^# TYPE (\S+)", exposed, re.MULTILINE))
    text = _text(site / "reference/metrics.html")
    assert {name for name in names if name.removesuffix("_created") not in text} == set()


def test_the_reference_has_each_method(site: Path) -> None:
    text = _text(site / "reference/grpc.html")
    protos = (ROOT / "protos/apidiscovery/service/v1").glob("*.proto")
    methods = [
        method
        for path in protos
        for method in re.findall(r"^  rpc (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(methods) > 10
    assert [method for method in methods if f".{method}" not in text] == []


def test_the_rules_are_explained() -> None:
    text = (ROOT / "docs/comparing.md").read_text(encoding="utf-8")
    rules = [*findings.Rule, *checking.Rule, *upgrading.Rule]
    assert [rule for rule in rules if f"`{rule}`" not in text] == []


def test_the_recording_of_the_terminal_is_what_the_commands_print() -> None:
    command = [sys.executable, "tools/record_terminal.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")


def _leads_somewhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme == "https"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if target not in pages:
        return target.is_file()
    return unquote(parts.fragment) in pages[target].ids


def _text(path: Path) -> str:
    """Return the text of a page without its elements."""
    return "".join(_texts(path))


def _texts(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for piece in re.split(r"<[^>]*>", text):
        yield piece.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
