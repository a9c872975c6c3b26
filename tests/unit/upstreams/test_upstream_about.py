"""What a server tells about how it writes its documents."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from apidiscovery_service.sources.upstreams.about import AboutServer
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.rounds import Rounds
from apidiscovery_service.sources.upstreams.state import Known, Root
from fake_api_server import AGG, Answer, FakeApiServer, Request, aggregated, document
from upstream_setup import item, spec_of

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
VERSIONS = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
}


def well(request: Request) -> Answer:
    """Answer as a server that is well."""
    if request.path == "/version":
        return document(VERSION)
    if request.path == "/api" and request.is_plain:
        return document(VERSIONS)
    if request.path == "/api":
        return aggregated(item(""), etag='"C"')
    return aggregated(item("a.test"), etag='"A"')


@asynccontextmanager
async def learned(server: FakeApiServer) -> AsyncGenerator[Known]:
    """Ask a server once for discovery and for how it writes it."""
    spec = spec_of(server.url, core_paths=("/api",))
    exchange = Exchange(spec, lambda _: None)
    known = Known(7, tuple(Root(path, core) for path, core in spec.paths))
    known = await Rounds(spec, exchange, frozenset).round(known)
    try:
        yield await AboutServer(spec, exchange).read(known)
    finally:
        await spec.endpoint.aclose()


async def test_release_and_addresses_are_learned() -> None:
    async with FakeApiServer(well) as server, learned(server) as known:
        assert b'"v1.36.0"' in known.dialect.version
        assert known.dialect.addresses == (("0.0.0.0/0", "10.0.0.1:6443"),)
        # The address that a server tells is passed on, and never asked.
        assert {request.headers["host"] for request in server.requests} == {
            server.url.removeprefix("http://")
        }


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_never_followed(status: int) -> None:
    async with FakeApiServer(well) as elsewhere:

        def respond(request: Request) -> Answer:
            is_discovery = AGG in request.headers["accept"] and "," in request.headers["accept"]
            if is_discovery:
                return well(request)
            return Answer(b"", "", status, {"Location": f"{elsewhere.url}{request.target}"})

        async with FakeApiServer(respond) as server, learned(server) as known:
            asked = [request.target for request in server.requests]
            assert "/version" in asked
            assert asked.count("/api") > 1
            assert (known.dialect.version, known.dialect.addresses) == (b"", ())
        assert elsewhere.requests == []
