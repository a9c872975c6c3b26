"""Settings of the tests of transports."""

import pytest
from apidiscovery_client.transports import _grpc_watching
from heap import freeze_heap


@pytest.fixture(scope="module", autouse=True)
def _frozen_heap() -> None:
    """Keep objects of other tests out of garbage collections; `fetching` alone makes hundreds."""
    freeze_heap()


@pytest.fixture(params=["grpcio", "sync-betterproto"])
def family(request: pytest.FixtureRequest) -> str:
    """Return a gRPC transport for asyncio and a blocking one, each with other messages.

    That is enough where only the content of messages matters. Where connections and calls do,
    `every_library` has each library that makes them.
    """
    return str(request.param)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_grpc_watching, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(_grpc_watching, "LONGEST_WAIT_S", 0.05)
