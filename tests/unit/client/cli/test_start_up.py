"""Commands import only what they need, as people wait for them."""

import json

import pytest
from apidiscovery_client.testing import FakeApiServer
from programs import python

# Each takes a good part of the time in which kubectl is done.
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
assert main(sys.argv[1:]) == 0
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*args: str) -> set[str]:
    outcome = python(_CODE, *args)
    assert outcome.exit_code == 0
    return set(json.loads(outcome.stderr))


@pytest.mark.parametrize(
    "command",
    [
        "api-resources",
        "api-resources -o json",
        "api-resources -o wide --namespaced=true",
        "api-versions --request-timeout 5s",
    ],
)
def test_a_listing_with_a_warm_cache_imports_nothing_slow(command: str) -> None:
    with FakeApiServer() as server:
        args = (*command.split(), "--server", server.url)
        imported("api-resources", "--server", server.url)
        modules = imported(*args)
    assert not modules & SLOW
    assert not [name for name in modules if name.startswith("apidiscovery_client.resolving")]


@pytest.mark.parametrize(
    "args",
    [
        ["get", "--help"],
        ["apply", "--help"],
        ["withdraw", "--help"],
        ["storage-versions", "wait", "--help"],
    ],
)
def test_what_asks_over_grpc_imports_nothing_that_asks_over_http(args: list[str]) -> None:
    modules = imported(*args)
    assert "grpc" in modules
    for name in ("cache", "_http", "client", "transports"):
        assert f"apidiscovery_client.{name}" not in modules


def test_a_watch_imports_no_way_to_ask_before_it_knows_which() -> None:
    modules = imported("watch", "--help")
    for name in ("apidiscovery_client._http", "apidiscovery_client.transports", "grpc"):
        assert name not in modules


@pytest.mark.parametrize("args", [[], ["--version"], ["api-resources", "--help"]])
def test_what_asks_nobody_imports_no_package_metadata_that_it_need_not(args: list[str]) -> None:
    modules = imported(*args)
    assert not modules & (SLOW - {"importlib.metadata", "email", "tempfile"})
    if args:
        assert "importlib.metadata" not in modules
