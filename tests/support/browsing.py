"""Chromium for tests of pages: errors, foreign requests, layout and accessibility."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tools import find_browser

WIDTHS = (360, 768, 1440)
# An upper bound for a busy machine.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)  # it does not have that of pages
_AXE = Path(__file__).with_name("axe-core") / "axe-4.14.1.min.js"
_HEIGHT = 900
# The default rules: WCAG 2 A and AA, and best practices. Only one of them depends on colours.
_RULES: dict[Literal["light", "dark"], str] = {
    "light": "{}",
    "dark": "{runOnly: ['color-contrast']}",
}


@dataclass
class Visit:
    """A page in the browser, and its errors.

    Attributes:
        origin: The origin of all requests.
        complaints: Messages of the console, errors of scripts, and requests to other origins.
    """

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list[str])

    def open(self, path: str, *, status: int = 200) -> None:
        """Go to a path and expect its status."""
        answer = self.page.goto(self.origin + path)
        assert answer is not None, path
        assert answer.status == status, f"{path}: {answer.status}"

    def expect_quiet(self) -> None:
        """Expect no complaint until now."""
        assert self.complaints == [], f"{self.page.url}: {self.complaints}"

    def expect_fitting(self) -> None:
        """Expect that the page does not scroll sideways at any of these widths."""
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": _HEIGHT})
            wanted = self.number("document.documentElement.scrollWidth")
            assert wanted <= width, f"{self.page.url} takes {wanted} of {width} px"

    def expect_accessible(self) -> None:
        """Expect that axe finds nothing, in light and in dark."""
        self.page.evaluate(_AXE.read_text(encoding="utf-8"))
        for scheme, rules in _RULES.items():
            self.page.emulate_media(color_scheme=scheme)
            run = f"axe.run(document, {rules}).then(found => found.violations)"
            found = cast("list[dict[str, Any]]", self.page.evaluate(run))
            told = [
                f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
                for each in found
                for node in each["nodes"][:3]
            ]
            assert not told, f"{self.page.url} ({scheme}): {told}"

    def number(self, script: str) -> float:
        return float(cast("float", self.page.evaluate(script)))


@contextmanager
def chromium() -> Generator[Browser]:
    """Run Debian's Chromium; without it skip the test, and on CI fail it."""
    path = find_browser()
    with sync_playwright() as playwright:
        browser = _launched(playwright, path)
        try:
            yield browser
        finally:
            browser.close()


def _launched(playwright: Playwright, path: str) -> Browser:
    # Root, as in containers of CI, has no sandbox.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=path, args=flags, timeout=PATIENCE_MS)


@contextmanager
def visiting(browser: Browser, origin: str, **options: Any) -> Generator[Visit]:  # noqa: ANN401 - those of Playwright
    """Open a page in a context of its own; options are those of `Browser.new_context`."""
    context: BrowserContext = browser.new_context(reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    try:
        visit = Visit(context.new_page(), origin)
        page = visit.page
        page.on("console", lambda message: visit.complaints.append(message.text))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if _is_of(request.url, origin) else visit.complaints.append(request.url)
            ),
        )
        yield visit
    finally:
        context.close()


def _is_of(url: str, origin: str) -> bool:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" == origin
