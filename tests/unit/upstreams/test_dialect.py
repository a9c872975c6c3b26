"""The dialect of a server: read once, and kept when an answer is of no use."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
from apidiscovery_service.core.cluster import Dialect
from apidiscovery_service.sources.upstreams.dialect import DialectReader
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.rounds import Rounds
from apidiscovery_service.sources.upstreams.state import Known, Root
from fake_api_server import (
    NOT_ACCEPTABLE,
    NOT_FOUND,
    Answer,
    FakeApiServer,
    Request,
    aggregated,
    document,
)
from upstream_setup import group_list, item, spec_of

VERSION = document({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
VERSIONS = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
}
GROUPS = aggregated(item("a.test"), etag='"A"')


def well(request: Request) -> Answer:
    """Answer as a server that is well."""
    if request.path == "/version":
        return VERSION
    if request.path == "/api" and request.is_plain:
        return document(VERSIONS)
    if request.path == "/api":
        return aggregated(item(""), etag='"C"')
    return GROUPS


@asynccontextmanager
async def dialect_read(
    server: FakeApiServer, then: Callable[[Request], Answer] | None = None
) -> AsyncGenerator[Known]:
    """Request discovery once, and then the dialect."""
    spec = spec_of(server.url, core_paths=("/api",))
    exchange = Exchange(spec, lambda _: None)
    known = Known(7, tuple(Root(path, core) for path, core in spec.paths))
    known = await Rounds(spec, exchange, frozenset).round(known)
    server.answers = then or server.answers
    try:
        yield await DialectReader(spec, exchange, lambda: 1).read(known)
    finally:
        await spec.endpoint.aclose()


async def dialect_where(probed: Answer, version: Answer) -> Dialect:
    """Return the dialect with these answers to probes for v2beta1 and to `/version`."""

    def odd(request: Request) -> Answer:
        if request.path == "/version":
            return version
        return probed if "v2beta1" in request.headers["accept"] else well(request)

    async with FakeApiServer(well) as server, dialect_read(server, odd) as known:
        return known.dialect


async def test_release_and_addresses_are_read() -> None:
    async with FakeApiServer(well) as server, dialect_read(server) as known:
        assert b'"v1.36.0"' in known.dialect.version
        assert known.dialect.addresses == (("0.0.0.0/0", "10.0.0.1:6443"),)
        # No request goes to the address that a server states.
        assert {request.headers["host"] for request in server.requests} == {
            server.url.removeprefix("http://")
        }


@pytest.mark.parametrize(
    ("probed", "wanted"),
    [
        (GROUPS, ("v2", "v2beta1")),
        (NOT_ACCEPTABLE, ("v2",)),
        (document(group_list("a.test/v1")), ("v2",)),
        (Answer(b"", status=500), ("v2", "v2beta1")),
        (NOT_FOUND, ("v2", "v2beta1")),
        (Answer(b"<html>", "text/html"), ("v2", "v2beta1")),
    ],
    ids=["served", "406", "plain", "500", "404", "html"],
)
async def test_only_406_and_plain_answers_remove_a_version(
    probed: Answer, wanted: tuple[str, ...]
) -> None:
    found = await dialect_where(probed, VERSION)
    assert found.aggregated == wanted
    assert found.version == VERSION.body


@pytest.mark.parametrize(
    "odd",
    [document({}), document([]), Answer(b"", status=500), Answer(b"{"), NOT_FOUND],
    ids=["empty", "list", "500", "half", "404"],
)
async def test_a_malformed_version_is_empty(odd: Answer) -> None:
    assert (await dialect_where(GROUPS, odd)).version == b""
