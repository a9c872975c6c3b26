"""A program that puts a number of snapshots into a cache.

    python cache_writer.py FOLDER KEY NAME TIMES RESOURCES [LIMIT [killed]]

It prints a line before it begins. Each snapshot has a single group of that name. With a limit in
bytes no file can become larger, as on a disk that is full; or the process is killed when one does.
"""

import resource
import signal
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._writing import etag_of, write_aggregated
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.model import Group, GroupVersion, Resource, Snapshot, Version
from snapshot_samples import SERVER, WHEN


def held_with(name: str, resources: int) -> FetchedSnapshot:
    """Return a snapshot with that many resources in one group."""
    gv = GroupVersion(name, "v1")
    found = tuple(
        Resource(gv, f"{name}{number}", "", "Cluster", None, ("get",))
        for number in range(resources)
    )
    group = Group(name, (Version(gv, found, stated_freshness="Current"),))
    etags = {"/apis": f'"{etag_of(write_aggregated([group]))}"'}
    return FetchedSnapshot(
        snapshot=Snapshot(groups=(group,), server=SERVER, checked_at=WHEN), etags=etags
    )


def main(folder: str, key: str, name: str, times: str, resources: str, *limited: str) -> None:
    """Put that many snapshots, each a second later than the one before."""
    limit(*limited)
    cache = DiskCache(Path(folder))
    held = held_with(name, int(resources))
    sys.stdout.write("started\n")
    sys.stdout.flush()
    for number in range(int(times)):
        later = WHEN + timedelta(seconds=number)
        cache.put(key, replace(held, snapshot=replace(held.snapshot, checked_at=later)))


def limit(size: str = "", consequence: str = "") -> None:
    """Limit the size of files, in bytes."""
    if consequence == "killed":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it; the write fails then
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))


if __name__ == "__main__":
    main(*sys.argv[1:])
