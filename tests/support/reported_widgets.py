"""The resource that tests of reporters report, and waiting for a reporter."""

import asyncio
from dataclasses import replace

from apidiscovery_client.storage_versions import (
    RequestAttributes,
    StorageVersionReporter,
    StoredResource,
)

WITHIN_S = 10.0
WIDGETS = StoredResource(
    group="example.dev",
    resource="widgets",
    encoding_version="example.dev/v1",
    decodable_versions=("example.dev/v1", "example.dev/v2"),
    served_versions=("example.dev/v1",),
)
WIDGETS_V2 = replace(WIDGETS, encoding_version="example.dev/v2")
CREATE = RequestAttributes("create", "example.dev", "widgets")


async def confirmed(reporter: StorageVersionReporter) -> None:
    """Wait until the gate is open."""
    async with asyncio.timeout(WITHIN_S):
        await reporter.wait_confirmed()
