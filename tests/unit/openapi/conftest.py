"""What tests of OpenAPI documents share."""

import pytest
from apidiscovery_service import workers
from openapi_recipes import FakeWorkers


@pytest.fixture
async def fake_workers(monkeypatch: pytest.MonkeyPatch) -> FakeWorkers:
    """Return what stands for the workers in this test."""
    fake = FakeWorkers()
    monkeypatch.setattr(workers, "run", fake.run)
    return fake
