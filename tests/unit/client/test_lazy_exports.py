"""Importing the package costs next to nothing, and everything can be had from it."""

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from typing import cast

import apidiscovery_client
import pytest
from apidiscovery_client._installing import install_command
from programs import python

HEAVY = {"grpc", "httpx2", "asyncio", "ssl", "google.protobuf", "betterproto", "yaml"}


def in_child(program: str) -> object:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", f"import json, sys\n{program}"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def modules_after(program: str) -> set[str]:
    loaded = in_child(f"{program}\nprint(json.dumps(sorted(sys.modules)))")
    return set(cast("list[str]", loaded))


def test_the_package_imports_nothing_of_its_own() -> None:
    loaded = modules_after("import apidiscovery_client")
    assert {name for name in loaded if name.startswith("apidiscovery")} == {"apidiscovery_client"}
    assert not loaded & HEAVY


def test_importing_takes_less_than_60_ms() -> None:
    program = "import time\nt = time.perf_counter()\nimport apidiscovery_client\n"
    timing = f"{program}print(json.dumps(time.perf_counter() - t))"
    assert min(float(str(in_child(timing))) for _ in range(3)) < 0.06


def test_the_client_for_threads_needs_no_event_loop_and_no_other_library() -> None:
    loaded = modules_after("from apidiscovery_client import DiscoveryClient")
    assert not loaded & HEAVY


def test_the_client_for_asyncio_needs_no_other_library() -> None:
    loaded = modules_after("from apidiscovery_client import AsyncDiscoveryClient")
    assert not loaded & (HEAVY - {"asyncio", "ssl"})


@pytest.mark.parametrize("name", apidiscovery_client.__all__)
def test_what_is_exported_is_there(name: str) -> None:
    assert name in dir(apidiscovery_client)
    assert getattr(apidiscovery_client, name) is not None


def test_type_checkers_see_what_there_is() -> None:
    tree = ast.parse(inspect.getsource(apidiscovery_client))
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        name.name: statement.module
        for statement in checked.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }
    assert sorted(seen) == sorted(apidiscovery_client.__all__)
    for name, module in seen.items():
        assert getattr(apidiscovery_client, name) is getattr(import_module(str(module)), name)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = apidiscovery_client.Nothing


WITHOUT_BETTERPROTO = """
import importlib, pkgutil, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"betterproto", "grpclib"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import apidiscovery_client as ours
for module in pkgutil.walk_packages(ours.__path__, "apidiscovery_client."):
    if "betterproto" not in module.name:
        importlib.import_module(module.name)
for client in (ours.DiscoveryClient, ours.AsyncDiscoveryClient):
    try:
        client("grpc://127.0.0.1:1", stubs="betterproto")
    except ours.InvalidConfiguration as error:
        print(error)
    client("grpc://127.0.0.1:1")
"""


WITHOUT_GRPC = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"grpc", "google"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import asyncio
import apidiscovery_client as ours
from apidiscovery_client.testing import FakeApiServer

async def kind(url):
    async with ours.AsyncDiscoveryClient(url) as client:
        return (await client.resolve("deploy")).resource.kind

with FakeApiServer() as server:
    with ours.DiscoveryClient(server.url) as client:
        print(client.resolve("deploy").resource.kind)
    print(asyncio.run(kind(server.url)))
    print({request.headers["accept"].partition(";")[0] for request in server.requests})
for client in (ours.DiscoveryClient, ours.AsyncDiscoveryClient):
    try:
        client("grpc://127.0.0.1:1")
    except ours.InvalidConfiguration as error:
        print(error)
"""


def test_without_grpc_the_clients_ask_http_for_json() -> None:
    done = python(WITHOUT_GRPC)
    missing = f"grpcio is not installed; run: {install_command('grpc')}"
    told = ["Deployment", "Deployment", "{'application/json'}", missing, missing]
    assert done.stdout.splitlines() == told, done


def test_all_but_its_own_stubs_works_without_betterproto() -> None:
    done = python(WITHOUT_BETTERPROTO)
    told = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert told == [f"is not installed; run: {install_command('betterproto')}"] * 2, done
