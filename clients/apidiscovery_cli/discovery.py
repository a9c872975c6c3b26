"""Asks for discovery as kubectl does, for a subcommand that runs once."""

from dataclasses import dataclass
from pathlib import Path

from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import key_in_cache
from apidiscovery_client._http.flow import HttpOptions
from apidiscovery_client._interfaces import FetchedSnapshot, SnapshotCache
from apidiscovery_client._server import Server
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports.http import HttpTransport

from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.plain_options import BadUsage, Option, Values
from apidiscovery_cli.progress import told_of

# JSON, for this process ends soon: importing protobuf takes longer than reading that.
WITH_RESOURCES = HttpOptions(protobuf=False, needs_core=True)
ONLY_GROUPS = HttpOptions(protobuf=False, needs_core=True, resources=False)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a subcommand learns what is served.

    Attributes:
        cache: None for one that keeps nothing.
        takes_kept: Whether what is kept will do, whatever its age.
    """

    server: Server
    cache: DiskCache | None
    takes_kept: bool = False


SOURCE = (
    Option(
        ("--cached",),
        "Use what is kept on disk, whatever its age; the server is asked if there is nothing.",
        reads=None,
    ),
    Option(
        ("--cache-dir",),
        "Folder to keep what servers serve in, by default apidiscovery/discovery in"
        " $KUBECACHEDIR or ~/.kube/cache.",
        path="folder",
    ),
    Option(("--no-cache",), "Neither use nor keep anything on disk.", reads=None),
    *CONNECTION,
)


def source_of(values: Values) -> Source:
    """Return the source that the options of a command name.

    Raises:
        BadUsage: They contradict each other.
        InvalidConfiguration: What they or a kubeconfig say cannot be used.
    """
    given = values.given
    server = server_of(values)
    cache = snapshot_cache(given["cache_dir"], is_off=bool(given["no_cache"]))
    if given["cached"] and cache is None:
        raise BadUsage("--cached and --no-cache cannot be used together")
    return Source(server, cache, takes_kept=bool(given["cached"]))


def snapshot_cache(folder: object, *, is_off: bool) -> DiskCache | None:
    """Return the cache in a folder, by default in that of kubectl's caches; None when it is off.

    Raises:
        BadUsage: It is off, and its folder named.
    """
    if folder and is_off:
        raise BadUsage("--cache-dir and --no-cache cannot be used together")
    if is_off:
        return None
    return DiskCache(folder if isinstance(folder, Path) else None)


def kept(source: Source) -> FetchedSnapshot | None:
    """Return what is kept of the server, whatever its age; None when there is nothing."""
    return source.cache.get(key_in_cache(source.server)) if source.cache else None


def discover(source: Source, options: HttpOptions = WITH_RESOURCES) -> Snapshot:
    """Return what a server serves now, or, where the source will have it, what is kept of it.

    Raises:
        ServerUnreachable: No answer to `/api` or `/apis`.
        RequestRefused: Another status than 200 there, save 404 at `/api`: there is no core group.
        UnexpectedDocument: A body there that is not what its Content-Type promises.
    """
    if source.takes_kept and (fetched := kept(source)):
        return fetched.snapshot
    cache: SnapshotCache | None = source.cache
    if cache is not None and not options.resources:
        cache = _WithResources(cache)
    with told_of("Asking for group-versions") as tell:
        transport = HttpTransport(source.server, options, progress=tell)
        key = key_in_cache(source.server) if cache else ""
        with DiscoveryClient(transport, cache=cache or False, cache_key=key) as client:
            return client.refresh()


def refuse_nothing(snapshot: Snapshot) -> None:
    """Raise `DiscoveryError` for a server without any group: its empty table says nothing."""
    if not snapshot.groups:
        raise DiscoveryError(
            f"{snapshot.server} serves no API at all: none of its sources has been reached, or it"
            " has none; 'apidiscovery get sources' tells which, of a server of apidiscovery"
        )


class _WithResources:
    """A cache that takes nothing of servers which were not asked for their resources."""

    def __init__(self, cache: SnapshotCache) -> None:
        self._cache = cache

    def get(self, key: str) -> FetchedSnapshot | None:
        return self._cache.get(key)

    def put(self, key: str, fetched: FetchedSnapshot) -> None:
        if all(version.stated_freshness for version in fetched.snapshot.versions):
            self._cache.put(key, fetched)
