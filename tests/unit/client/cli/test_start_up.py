"""Commands import only what they need, as people wait for them."""

import json

import pytest
from apidiscovery_client.testing import FakeApiServer
from command_line import run
from programs import python

# Each takes a good part of the time that kubectl takes.
SLOW = {
    "apidiscovery",
    "asyncio",
    "betterproto",
    "concurrent.futures",
    "email",
    "google.protobuf",
    "grpc",
    "http.client",
    "httpx2",
    "importlib.metadata",
    "logging",
    "multiprocessing",
    "ssl",
    "tempfile",
    "yaml",
}
_CODE = """
import json, sys
from apidiscovery_cli.main import main
for line in sys.argv[1:]:
    assert main(line.split()) == 0, line
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*lines: str) -> set[str]:
    """Return the modules of a process that has run these command lines."""
    outcome = python(_CODE, *lines)
    assert outcome.exit_code == 0, outcome.stderr
    return set(json.loads(outcome.stderr))


def test_listings_with_a_warm_cache_import_nothing_slow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FakeApiServer() as server:
        assert run(capsys, "api-resources", "--server", server.url).exit_code == 0
        modules = imported(
            f"api-resources --server {server.url}",
            f"api-resources -o json --server {server.url}",
            f"api-resources -o wide --namespaced=true --server {server.url}",
            f"api-versions --request-timeout 30s --server {server.url}",
        )
    assert not modules & SLOW
    assert not [name for name in modules if name.startswith("apidiscovery_client.resolving")]


def test_commands_over_grpc_import_no_http() -> None:
    modules = imported(
        "get --help", "apply --help", "withdraw --help", "storage-versions wait --help"
    )
    assert "grpc" in modules
    for name in ("cache", "_http", "client", "transports"):
        assert f"apidiscovery_client.{name}" not in modules


def test_a_watch_imports_no_transport_before_it_connects() -> None:
    modules = imported("watch --help")
    for name in ("apidiscovery_client._http", "apidiscovery_client.transports", "grpc"):
        assert name not in modules


def test_only_the_list_of_commands_reads_package_metadata() -> None:
    assert not imported("--version", "api-resources --help") & SLOW
    assert not imported("") & (SLOW - {"importlib.metadata", "email", "tempfile"})
