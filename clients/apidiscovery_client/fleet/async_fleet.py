"""A fleet of clusters, which this process asks by itself or a service shows, for asyncio."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from apidiscovery_formats import matrix
from apidiscovery_formats.matrix import Column, Delta, Matrix

from apidiscovery_client._connecting import Flags, grpc_target, http_target, refuse_unknown
from apidiscovery_client._errors import DiscoveryError, NotYetServed
from apidiscovery_client._sans_io.options import SYSTEM_CLOCK
from apidiscovery_client._server import Server
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.fleet._async_asked import AsyncAsked
from apidiscovery_client.fleet._async_over_http import AsyncOverHttp
from apidiscovery_client.fleet._async_served import AsyncServed
from apidiscovery_client.fleet._members import servers_of_contexts
from apidiscovery_client.model import Snapshot
from apidiscovery_client.resolving import Resolution, Resolver
from apidiscovery_client.resolving.common_version import CommonVersion, best_common_version
from apidiscovery_client.transports._async_scope import pause

AT_ONCE = 32


class AsyncFleet:
    """Clusters by name: each a client or a snapshot, or with `of_server` those of a service.

    A cluster that cannot be asked keeps its column, with the last known state or as unknown.
    Clients are closed with the fleet.

    Args:
        members: The clusters; a URL or server gets a client of its own.
        labels: Of each cluster, by its name.
        cache: Whether what is known of clusters is kept on disk for other processes.
        at_once: How many clusters are asked at a time.
        progress: Called after each answer, in any thread, with how many clusters have answered or
            failed, and of how many.
    """

    def __init__(
        self,
        members: Mapping[str, AsyncDiscoveryClient | Snapshot | Server | str],
        *,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        cache: bool = False,
        at_once: int = AT_ONCE,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self._source: AsyncAsked | AsyncServed = AsyncAsked(
            members, labels or {}, cache=cache, at_once=at_once, progress=progress
        )

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | Path | None = None,
        contexts: Iterable[str] = ("*",),
        *,
        cache: bool = False,
        at_once: int = AT_ONCE,
    ) -> Self:
        """Return the fleet of the contexts of a kubeconfig.

        Args:
            path: The file; by default those of KUBECONFIG, or ~/.kube/config.
            contexts: Patterns for names, as of a shell: `prod-*`.
            cache: As for the class.
            at_once: The same.

        Raises:
            InvalidConfiguration: A file cannot be read, or no context matches a pattern. A context
                that cannot be used is a cluster of which nothing is known, with the reason.
        """
        servers = servers_of_contexts(tuple(contexts), kubeconfig=str(path) if path else None)
        return cls(servers, cache=cache, at_once=at_once)

    @classmethod
    def of_server(
        cls,
        target: str | Server | None = None,
        *,
        selector: str = "",
        at_once: int = AT_ONCE,
        **flags: Unpack[Flags],
    ) -> Self:
        """Return the fleet of a running service (`apidiscovery serve`), which asks the clusters.

        When the service does not answer, its clusters stay as they were last known, and stale. Over
        gRPC changes are pushed; snapshots have what the matrix tells, which is no category and of
        each resource the kind, verbs and names of its preferred version.

        Args:
            target: `https://host:8443`, `http://127.0.0.1:8080`, `grpc://host:50051`,
                `grpcs://host:50051`; None for the server of the flags.
            selector: A label selector for clusters, such as `region=eu`; empty for all.
            at_once: How many clusters the service is asked for at a time.
            flags: Options named after kubectl's flags: `token`, `certificate_authority`,
                `request_timeout_s` and others.

        Raises:
            TypeError: There is no flag of such a name.
            InvalidConfiguration: The configuration cannot be used.
        """
        refuse_unknown(flags, Flags.__optional_keys__, ("selector", "at_once"))
        server = grpc_target(target, flags)
        fleet = cls({})
        if server is None:
            over_http = AsyncOverHttp(http_target(target, flags), selector, at_once)
            fleet._source = AsyncServed(over_http)
        else:
            from apidiscovery_client.fleet._async_over_grpc import (  # noqa: PLC0415 - heavy
                AsyncOverGrpc,
            )

            fleet._source = AsyncServed(AsyncOverGrpc(server, selector))
        return fleet

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters, in the order in which they were given.

        Those of a service are the names in its last answer, sorted; none before there is one.
        """
        return self._source.names

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.names)} clusters>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the clients; the fleet may be closed again."""
        await self._source.close()

    async def snapshots(
        self, names: Iterable[str] | None = None, *, max_age_s: float | None = None
    ) -> dict[str, Snapshot]:
        """Return what each cluster serves, by name.

        A cluster that does not answer, and of which nothing is known, has a snapshot without
        groups whose `failures` tell why.

        Args:
            names: Of the clusters to ask; None for all.
            max_age_s: As for `AsyncDiscoveryClient.snapshot`.

        Raises:
            KeyError: There is no cluster of a name.
            DiscoveryError: As `matrix`.
        """
        return await self._source.snapshots(names, max_age_s)

    async def clusters(self, *, max_age_s: float | None = None) -> tuple[Column, ...]:
        """Return how fresh each cluster is, its release, and how much it serves.

        Args:
            max_age_s: As for `AsyncDiscoveryClient.snapshot`.

        Raises:
            DiscoveryError: As `matrix`.
        """
        return (await self.matrix(max_age_s=max_age_s)).columns

    async def matrix(self, *, max_age_s: float | None = None) -> Matrix:
        """Return which cluster serves which resource, with a column for each cluster.

        Args:
            max_age_s: As for `AsyncDiscoveryClient.snapshot`. A service is asked each time,
                conditionally.

        Raises:
            DiscoveryError: A service does not answer, and nothing is known, or it refuses us.
        """
        return await self._source.matrix(max_age_s)

    async def watch(self, *, interval_s: float = 5.0) -> AsyncGenerator[Delta]:
        """Yield what changes in the matrix; first all that is there.

        Leave it with `contextlib.aclosing`.

        Args:
            interval_s: Between two questions to a cluster or service, which are conditional, and
                between two connections to a service that pushes changes, in seconds.

        Raises:
            DiscoveryError: As `matrix`.
        """
        before = Matrix((), ())
        is_first = True
        async with aclosing(self._source.states(interval_s)) as states:
            async for after in states:
                if is_first or after != before:
                    yield matrix.delta(before, after)
                before, is_first = after, False

    async def best_common_version(
        self, wanted: str, clusters: Iterable[str] | None = None
    ) -> CommonVersion:
        """Return the version of a resource that clusters have in common and like best.

        Args:
            wanted: A name as in `AsyncDiscoveryClient.resolve`, without a version.
            clusters: Their names; None for all.

        Raises:
            NotServed: No cluster is known to have such a resource.
            AmbiguousResource: It is another resource in another cluster.
            NoCommonVersion: No version is certainly served by all of them.
            KeyError: There is no cluster of a name.
        """
        return best_common_version(wanted, await self.snapshots(clusters))

    async def wait_for(
        self, wanted: str, *, in_all: bool = True, timeout_s: float = 30.0
    ) -> dict[str, Resolution]:
        """Return what a name means in each cluster that serves it, by the cluster's name.

        Args:
            wanted: A name as in `AsyncDiscoveryClient.resolve`.
            in_all: Whether to wait until every cluster serves it, and not only one.
            timeout_s: How long to wait, in seconds.

        Raises:
            NotYetServed: It is not served in time in every cluster, or in none; `missing` tells
                why, by cluster.
        """
        deadline = SYSTEM_CLOCK.monotonic() + timeout_s
        delay_s = 0.1
        while True:
            found: dict[str, Resolution] = {}
            missing: dict[str, str] = {}
            for name, snapshot in (await self.snapshots(max_age_s=0)).items():
                try:
                    found[name] = Resolver(snapshot).resolve(wanted, strict=True)
                except DiscoveryError as error:
                    missing[name] = str(error)
            if found and not (missing and in_all):
                return found
            left_s = deadline - SYSTEM_CLOCK.monotonic()
            if left_s <= 0:
                raise NotYetServed(wanted, timeout_s=timeout_s, missing=missing)
            await pause(min(delay_s, left_s))
            delay_s = min(2 * delay_s, 2.0)
