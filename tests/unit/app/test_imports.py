"""Late imports of the server, which start it a fifth faster."""

import subprocess
import sys

import pytest

_FOR_PAGES = ("jinja2", "markdown_it", "apidiscovery_client.diffing", "apidiscovery_service.web")
_FOR_UPSTREAMS = ("httpx2", "httpcore2", "h2")


@pytest.mark.process
def test_packages_for_pages_and_upstreams_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, apidiscovery_service.app.command, apidiscovery_service.app.run;"
        f"print(sorted(set({_FOR_PAGES + _FOR_UPSTREAMS}) & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
