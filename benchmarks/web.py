"""What the pages for browsers cost, with thousands of definitions and a hundred clusters.

A page is measured anew: a definition changes before each request. The server may finish its
work on the change (documents, history, index) before the request: what is measured is the page
alone, not the change. What is derived from groups that have not changed is kept, as it
is in use. Chromium measures what a person sees; without Chromium these rows are skipped.
"""

import contextlib
import shutil
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import quote

import fleet
from crds import crd, fill, write_folder
from load import Sample, Target, interleaved, missing, wrk
from plain_http import Connection
from playwright.sync_api import APIResponse, Page, Route, sync_playwright
from processes import Served, child_command, cpu_s, read_line, running, serving
from report import Clock, Row
from warm import PATH, read_cases

SECTION = "web"

_DEFINITIONS, _CLUSTERS = 3000, 100
_KIND = "/ui/kinds/apps/v1/Deployment"
_SEARCH = "/ui/search?q=" + quote("rolling update")
PATHS = (
    "/ui/",
    "/ui/groups",
    "/ui/groups/apps",
    _KIND,
    _SEARCH,
    "/ui/fleet",
    "/ui/diff?from=cluster:c0001&to=cluster:c0002",
    "/ui/history",
    "/ui/storage-versions",
    "/ui/sources",
)
# `spec` is open from the beginning.
_FIELDS = (
    "spec.strategy",
    "spec.template",
    "spec.template.spec",
    "spec.template.spec.containers",
    "spec.template.spec.containers.env",
)
_FIRST_BYTE_MS, _PAINT_MS, _FIELD_MS, _SEARCH_MS = 30.0, 200.0, 50.0, 50.0
_REPEATS, _LOADS = 9, 5
_RATE_ROUNDS, _RATE_S = 3, 5
# After a change: at least so long, and until the server computes little, but not for ever.
_SETTLE_S, _LOOK_S, _QUIET_SHARE, _LONGEST_S = 0.3, 0.1, 0.1, 5.0
_ASKED = {"accept": "text/html", "accept-encoding": "gzip"}

# The time from a click to the fields in the page, in milliseconds.
_OPEN = """async name => {
    const opener = document.getElementById(name + ":open");
    const settled = new Promise(done =>
        document.addEventListener("htmx:afterSettle", done, {once: true}));
    const began = performance.now();
    opener.click();
    await settled;
    return performance.now() - began;
}"""
# The time of the first paint, which may be still to come.
_PAINT = """async () => {
    for (;;) {
        const [painted] = performance.getEntriesByName("first-contentful-paint");
        if (painted) return painted.startTime;
        await new Promise(done => setTimeout(done, 10));
    }
}"""


def measure(folder: Path, clock: Clock) -> Iterator[Row]:
    """Yield the time of each page, of paints, of field trees, and what discovery loses."""
    title = f"{_DEFINITIONS:,} definitions, {_CLUSTERS} clusters"
    if clock.out():
        yield Row(SECTION, title, "", skipped="out of time")
        return
    manifests = write_folder(folder / "web-definitions", _DEFINITIONS, ".json")
    with running(child_command("fleet", str(_CLUSTERS)), piped=True) as fake:
        ports = cast("list[int]", read_line(fake)["ports"])
        config = fleet.config(folder, ports, catalog="kubernetes:1.36")
        with serving(folder, "--config", config, "--manifests", manifests) as served:
            fleet.until_known(served)
            change = _Changes(served)
            yield _searchable(served)
            yield from _answers(served, change)
            with _chromium() as page:
                if page is None:
                    yield Row(SECTION, "in Chromium", "", skipped="needs chromium")
                    return
                yield from _paints(served, change, page)
                yield from _field_trees(served, page)
                yield _discovery(served, clock, page)


class _Changes:
    """Changes one definition, so that every page is made again; waits until that is worked off."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._revision = 0

    def __call__(self) -> None:
        self._revision += 1
        fill(self._served.grpc, [crd(_DEFINITIONS, self._revision)])
        time.sleep(_SETTLE_S)
        deadline = time.perf_counter() + _LONGEST_S
        while time.perf_counter() < deadline:
            before = cpu_s(self._served.pid)
            time.sleep(_LOOK_S)
            if cpu_s(self._served.pid) - before <= _LOOK_S * _QUIET_SHARE:
                return


def _judged(name: str, found_ms: Sequence[float], budget_ms: float) -> Row:
    median = statistics.median(found_ms)
    return Row(
        SECTION,
        name,
        f"<= {budget_ms:g} ms",
        f"median {median:.1f} ms, largest {max(found_ms):.1f} ms",
        passed=median <= budget_ms,
        numbers={"ms": list(found_ms)},
    )


def _searchable(served: Served) -> Row:
    """Ask until all fields are found: the index is made at the first search."""
    client, began = Connection(served.http), time.perf_counter()
    while True:
        body = client.get(_SEARCH, {"accept": "text/html"}).body
        if b"spec.strategy.rollingUpdate" in body and b"still being read" not in body:
            break
        if time.perf_counter() - began > 120:  # noqa: PLR2004 - far more than it takes
            return Row(SECTION, "first search: fields are found after", "", skipped="not in 120 s")
        time.sleep(0.1)
    took = time.perf_counter() - began
    name = "first search: the index of fields is there after"
    return Row(SECTION, name, "", f"{took:.1f} s", numbers={"seconds": took})


def _answers(served: Served, change: Callable[[], None]) -> Iterator[Row]:
    client = Connection(served.http)
    for path in PATHS:
        found: list[float] = []
        for _ in range(_REPEATS):
            change()
            began = time.perf_counter()
            answer = client.get(path, _ASKED)
            found.append((answer.head_at - began) * 1000)
            if answer.status != 200:  # noqa: PLR2004 - of HTTP
                raise OSError(f"{path}: {answer.status}")
        yield _judged(f"{path}: first byte, made anew", found, _FIRST_BYTE_MS)
    found = []
    for word in ("backup12", "rolling update", "cron", "spec.schedule", "deploy", "po", "tenant2"):
        began = time.perf_counter()
        client.get(f"/ui/search?q={quote(word)}", {**_ASKED, "hx-request": "true"})
        found.append((time.perf_counter() - began) * 1000)
    yield _judged("search, seven questions", found, _SEARCH_MS)


@contextlib.contextmanager
def _chromium() -> Generator[Page | None]:
    path = shutil.which("chromium")
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser.new_page()
        finally:
            browser.close()


def _paints(served: Served, change: Callable[[], None], page: Page) -> Iterator[Row]:
    for path in PATHS:
        found: list[float] = []
        for _ in range(_LOADS):
            change()
            page.goto(f"http://{served.http}{path}")
            found.append(float(cast("float", page.evaluate(_PAINT))))
        yield _judged(f"{path}: first contentful paint in Chromium, made anew", found, _PAINT_MS)


def _field_trees(served: Served, page: Page) -> Iterator[Row]:
    found: list[float] = []
    for _ in range(_LOADS):
        page.goto(f"http://{served.http}{_KIND}")
        found += [float(cast("float", page.evaluate(_OPEN, name))) for name in _FIELDS]
    yield _judged("fields of Deployment: one level opened by a click", found, _FIELD_MS)


def _discovery(served: Served, clock: Clock, page: Page) -> Row:
    """Compare the rate of `/apis` alone, beside a browser with recorded pages, and with pages.

    All of them share the cores, so the browser alone takes something: what the pages cost is the
    difference to recorded ones, for which the browser does the same and the server nothing.
    """
    name = f"{PATH}, 304, while Chromium loads all pages again and again"
    if reason := missing("wrk"):
        return Row(SECTION, name, "", skipped=reason)
    (case,) = read_cases(served.http, ["304"])
    recorded: dict[str, APIResponse] = {}

    def answer(route: Route) -> None:
        url = route.request.url
        if url.endswith("/ui/events"):  # it has no end
            route.abort()
            return
        if url not in recorded:
            recorded[url] = route.fetch()
        route.fulfill(response=recorded[url])

    def load_pages() -> None:
        for path in PATHS:
            page.goto(f"http://{served.http}{path}")

    def rate(browse: Callable[[], None]) -> Sample:
        target = Target(served.pid, f"http://{served.http}{PATH}")
        with ThreadPoolExecutor(1) as thread:
            measured = thread.submit(wrk, target, case.headers, _RATE_S)
            while not measured.done():
                browse()
        return measured.result()

    def rate_recorded() -> Sample:
        page.route("**/*", answer)
        load_pages()
        found = rate(load_pages)
        page.unroute("**/*")
        return found

    runs: dict[str, Callable[[], Sample]] = {
        "alone": partial(rate, partial(time.sleep, _LOOK_S)),
        "recorded": rate_recorded,
        "served": partial(rate, load_pages),
    }
    samples = interleaved(runs, _RATE_ROUNDS, clock.out)
    found = {key: statistics.median(s.rate for s in each) for key, each in samples.items()}
    ratio = found["served"] / found["recorded"]
    return Row(
        SECTION,
        name,
        "",
        f"{ratio:.2f}; {found['served']:,.0f}/s, with recorded pages {found['recorded']:,.0f}/s,"
        f" without Chromium {found['alone']:,.0f}/s",
        ratio=ratio,
        numbers={**found},
    )
