"""Expires leases and collects garbage under a claim of its own: STORE.

So several processes collect at the same time, which the claim of the servers prevents.
"""

import asyncio
import os
import sys

from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.expiry import LeaseExpiry
from apidiscovery_service.storage_versions.garbage import Garbage
from apidiscovery_service.storage_versions.members import Members
from apidiscovery_service.storage_versions.state import LEASES, OBJECTS
from apidiscovery_service.store import Guard, StoreUnavailable
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.urls import StoreUrl, open_store

_LOOK_EVERY_S = 0.5
_PAUSE_S = 0.2


async def collect(url: str) -> None:
    """Collect until killed."""
    store = await open_store(StoreUrl.parse(url), EtcdOptions())
    objects = Collection(store, STORAGE_VERSION, OBJECTS, pause_s=_PAUSE_S)
    leases = Collection(store, LEASE, LEASES, pause_s=_PAUSE_S)
    garbage = Garbage(objects, leases, Members(leases), every_s=_LOOK_EVERY_S)
    key = f"collectors/{os.getpid()}"
    guard = None
    while guard is None:
        try:
            guard = Guard(key, (await store.put(key, b"{}")).created)
        except StoreUnavailable:
            await asyncio.sleep(_PAUSE_S)
    async with asyncio.TaskGroup() as tasks:
        for work in (
            objects.follow(),
            leases.follow(),
            LeaseExpiry(leases).expire(guard),
            garbage.collect(guard),
        ):
            tasks.create_task(work)


if __name__ == "__main__":
    asyncio.run(collect(sys.argv[1]))
