"""How a server writes its documents: learned, and kept when an answer says nothing of it."""

from collections.abc import AsyncIterator

import pytest
from apidiscovery_service.core.cluster import Dialect
from apidiscovery_service.sources.upstreams.about import AboutServer
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.spec import Limits
from fake_api_server import (
    NOT_ACCEPTABLE,
    NOT_FOUND,
    Answer,
    FakeApiServer,
    Request,
    aggregated,
    document,
)
from upstream_setup import Asking, group_list, item, spec_of

WELL = {
    "/apis": aggregated(item("a.test")),
    "/version": document({"gitVersion": "v1.36.2"}),
}


@pytest.fixture(name="server")
async def fixture_server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(WELL) as server:
        yield server


async def learned(server: FakeApiServer, probed: Answer, version: Answer) -> Dialect:
    """Return what is learned while probes for v2beta1 and `/version` are answered like this."""
    spec = spec_of(server.url, limits=Limits())
    asking = Asking(spec)
    await asking.round()

    def answers(seen: Request) -> Answer:
        if seen.path == "/version":
            return version
        return probed if "v2beta1" in seen.headers["accept"] else WELL["/apis"]

    server.answers = answers
    about = AboutServer(spec, Exchange(spec, lambda _size: None))
    try:
        return (await about.read(asking.known)).dialect
    finally:
        await asking.close()


@pytest.mark.parametrize(
    ("probed", "wanted"),
    [
        (WELL["/apis"], ("v2", "v2beta1")),
        (NOT_ACCEPTABLE, ("v2",)),
        (document(group_list("a.test/v1")), ("v2",)),
        (Answer(b"", status=500), ("v2", "v2beta1")),
        (NOT_FOUND, ("v2", "v2beta1")),
        (Answer(b"<html>", "text/html"), ("v2", "v2beta1")),
    ],
    ids=["served", "406", "plain", "500", "404", "html"],
)
async def test_only_an_answer_that_says_so_takes_a_version_away(
    server: FakeApiServer, probed: Answer, wanted: tuple[str, ...]
) -> None:
    found = await learned(server, probed, WELL["/version"])
    assert found.aggregated == wanted
    assert found.version == WELL["/version"].body


@pytest.mark.parametrize(
    "odd",
    [document({}), document([]), Answer(b"", status=500), Answer(b"{"), NOT_FOUND],
    ids=["empty", "list", "500", "half", "404"],
)
async def test_an_odd_version_is_none(server: FakeApiServer, odd: Answer) -> None:
    assert (await learned(server, WELL["/apis"], odd)).version == b""
