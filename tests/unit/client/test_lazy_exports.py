"""The package imports its parts on first use, and works without its extras."""

import ast
import inspect
import json
from importlib import import_module

import apidiscovery_client
import pytest
from apidiscovery_client._installing import install_command
from programs import python

HEAVY = {"grpc", "httpx2", "asyncio", "ssl", "google.protobuf", "betterproto", "yaml"}


IMPORTS = """
import json, sys
import apidiscovery_client
found = [sorted(sys.modules)]
for name in ("DiscoveryClient", "AsyncDiscoveryClient"):
    getattr(apidiscovery_client, name)
    found.append(sorted(sys.modules))
print(json.dumps(found))
"""


def test_an_import_loads_only_what_the_client_needs() -> None:
    """The blocking client needs no event loop, and neither needs a library outside of Python."""
    package, blocking, asynchronous = map(set, json.loads(python(IMPORTS).stdout))
    assert {name for name in package if name.startswith("apidiscovery")} == {"apidiscovery_client"}
    assert not blocking & HEAVY
    assert not asynchronous & (HEAVY - {"asyncio", "ssl"})


def test_all_exports_are_there_also_for_type_checkers() -> None:
    tree = ast.parse(inspect.getsource(apidiscovery_client))
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        name.name: statement.module
        for statement in checked.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }
    assert sorted(seen) == sorted(apidiscovery_client.__all__)
    assert seen.keys() <= set(dir(apidiscovery_client))
    for name, module in seen.items():
        assert getattr(apidiscovery_client, name) is getattr(import_module(str(module)), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
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


def test_without_betterproto_all_but_its_stubs_works() -> None:
    done = python(WITHOUT_BETTERPROTO)
    told = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert told == [f"is not installed; run: {install_command('betterproto')}"] * 2, done
