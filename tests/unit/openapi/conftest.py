"""What tests of OpenAPI documents share."""

import pytest
from apidiscovery_service import workers
from openapi_recipes import FakeWorkers


@pytest.fixture
async def fake_workers(monkeypatch: pytest.MonkeyPatch) -> FakeWorkers:
    """Return the fake that takes the place of the workers."""
    fake = FakeWorkers()
    monkeypatch.setattr(workers, "run", fake.run)
    return fake
