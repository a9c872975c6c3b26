"""A definition made to harm: its text is shown as text, and its size breaks no page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import visiting
from playwright.sync_api import Browser, expect
from server import Server, serving

_SCRIPT = (
    "<script>window.harmed=1</script><img src=x onerror='window.harmed=1'>"
    "<img src='http://203.0.113.1/x.png'> [link](javascript:window.harmed=1)"
    " ![picture](http://203.0.113.1/x.png) \u202eright to left\u202c </td></main>"
)
_LONG = "x" * 10_000
_DEPTH = 100
_FIELDS = 5_000
_PAGE = "/ui/kinds/hostile.example.com/v1/Trap"


def _definition() -> dict[str, Any]:
    deep: dict[str, Any] = {"type": "string", "description": _SCRIPT}
    for level in range(_DEPTH):
        deep = {"type": "object", "description": _SCRIPT, "properties": {f"level{level}": deep}}
    many = {f"field{number}": {"type": "string"} for number in range(_FIELDS)}
    schema = {
        "type": "object",
        "description": _SCRIPT,
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "deep": deep,
                    "many": {"type": "object", "properties": many},
                    _LONG: {"type": "string", "description": _LONG},
                    _SCRIPT: {"type": "string", "enum": [_SCRIPT], "default": _SCRIPT},
                },
            }
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "traps.hostile.example.com"},
        "spec": {
            "group": "hostile.example.com",
            "scope": "Cluster",
            "names": {"kind": "Trap", "plural": "traps", "singular": "trap"},
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    manifests: Path = folder / "manifests"
    manifests.mkdir()
    (manifests / "trap.json").write_text(json.dumps(_definition()), encoding="utf-8")
    with serving(folder, "--store", "memory", "--manifests", str(manifests)) as started:
        yield started


PATHS = (
    "/ui/",
    "/ui/groups/hostile.example.com",
    _PAGE,
    "/ui/search?q=trap",
    "/ui/search?q=" + quote(_SCRIPT),
    "/ui/search?q=" + "y" * 3000,
)


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_nothing_of_it_runs_or_leaves(browser: Browser, server: Server, *, scripts: bool) -> None:
    with visiting(browser, server.url, java_script_enabled=scripts) as visit:
        for path in PATHS:
            visit.open(path)
            expect(visit.page.locator("footer")).to_be_visible()
            if scripts:
                assert visit.page.evaluate("window.harmed") is None
                visit.expect_fitting()
            visit.expect_quiet()


def test_its_fields_open_and_are_text(browser: Browser, server: Server) -> None:
    with visiting(browser, server.url) as visit:
        visit.open(_PAGE)
        assert visit.page.locator("main img, main script").count() == 0
        assert visit.page.locator("a[href^='javascript']").count() == 0
        opened = visit.page.locator("summary, [aria-expanded='false']")
        for number in range(min(opened.count(), 3)):
            opened.nth(number).click()
        assert visit.page.evaluate("window.harmed") is None
        visit.expect_quiet()
