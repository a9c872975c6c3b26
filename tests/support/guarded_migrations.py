"""Runs guarded migrations one after the other, for each name in parallel: SEED ADDRESS NAME...

It prints a line of JSON for each: the agreement, and when the body began and ended, or the reason
of the interruption.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Mapping

from apidiscovery_client import DiscoveryError
from apidiscovery_client.storage_versions.migration import migration_guard
from storage_version_history import connected

_LONGEST_S = 0.6
_WAIT_S = 5.0
_PAUSE_S = 0.05


async def migrate(seed: str, address: str, name: str) -> None:
    """Migrate one resource again and again."""
    dice = random.Random(seed)  # noqa: S311 - to be repeated
    for number in itertools.count():
        async with connected(address) as channel:
            try:
                async with migration_guard(channel, name, timeout_s=_WAIT_S) as agreement:
                    began = time.monotonic()
                    await asyncio.sleep(dice.uniform(0, _LONGEST_S))
                    ended = time.monotonic()
            except DiscoveryError as error:
                _tell({"name": name, "number": number, "why": str(error)})
                await asyncio.sleep(_PAUSE_S)
                continue
        _tell(
            {
                "name": name,
                "uid": agreement.uid,
                "version": agreement.encoding_version,
                "since": int(agreement.since.timestamp()),
                "revision": int(agreement.resource_version),
                "began": began,
                "ended": ended,
            }
        )


def _tell(what: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main(seed: str, address: str, *names: str) -> None:
    """Migrate until killed."""
    async with asyncio.TaskGroup() as tasks:
        for place, name in enumerate(names):
            tasks.create_task(migrate(f"{seed} {place}", address, name))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
