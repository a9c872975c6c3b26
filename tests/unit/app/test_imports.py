"""What is imported late: packages of the server that few use, and the server in its workers."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Sequence

import pytest

_FOR_PAGES = ("jinja2", "markdown_it", "apidiscovery_client.diffing", "apidiscovery_service.web")
_FOR_UPSTREAMS = ("httpx2", "httpcore2", "h2")
_FOR_SERVERS = ("grpc", "jinja2", "structlog", "apidiscovery_service.serving")
_READERS = ("openapi.generated", "openapi.schema_text", "web.comparing", "web.search_fields")


@pytest.mark.process
def test_packages_for_pages_and_upstreams_are_imported_when_they_are_used() -> None:
    server = ("apidiscovery_service.app.command", "apidiscovery_service.app.run")
    assert imported(_FOR_PAGES + _FOR_UPSTREAMS, by=server) == []


@pytest.mark.process
def test_a_worker_that_reads_documents_imports_no_server() -> None:
    readers = [f"apidiscovery_service.{name}" for name in _READERS]
    assert imported(_FOR_SERVERS, by=("apidiscovery_service.workers", *readers)) == []


def imported(wanted: Sequence[str], *, by: Iterable[str]) -> object:
    """Return those of some modules that a process has after it imported others."""
    code = f"import sys, {', '.join(by)}; print(sorted({{*{wanted!r}}} & sys.modules.keys()))"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return ast.literal_eval(done.stdout)
