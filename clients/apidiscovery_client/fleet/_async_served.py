"""The clusters of a running service; `_served`, which blocks, is generated from this."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apidiscovery_formats.matrix import Matrix

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._sans_io.following import jittered_pauses
from apidiscovery_client.fleet._answer import MatrixAnswer, as_stale, may_pass
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports._async_scope import pause

if TYPE_CHECKING:  # one of them is imported when it is needed
    from apidiscovery_client.fleet._async_over_grpc import AsyncOverGrpc
    from apidiscovery_client.fleet._async_over_http import AsyncOverHttp


class AsyncServed:
    """The clusters of a service, with the freshness that it reports.

    While the service does not answer, its clusters keep their last known state, marked stale.
    """

    def __init__(self, tells: "AsyncOverHttp | AsyncOverGrpc") -> None:
        self._tells = tells
        self._told: MatrixAnswer | None = None
        self._silent_since: datetime | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters in the last answer; empty before there is one."""
        return tuple(column.name for column in self._told.matrix.columns) if self._told else ()

    async def close(self) -> None:
        """Close all connections; it may be called again."""
        await self._tells.close()

    async def snapshots(
        self, names: Iterable[str] | None, max_age_s: float | None
    ) -> dict[str, Snapshot]:
        """Return what each cluster serves, by name; raise `KeyError` for an unknown name."""
        matrix = await self.matrix(max_age_s)
        columns = {column.name: column for column in matrix.columns}
        wanted = columns if names is None else names
        return await self._tells.snapshots([columns[name] for name in wanted], max_age_s)

    async def matrix(self, _max_age_s: float | None) -> Matrix:
        """Return the matrix; the service is asked each time, conditionally."""
        try:
            return self._heard(await self._tells.matrix(self._told))
        except DiscoveryError as error:
            return self._last_known(error)

    async def states(self, interval_s: float) -> AsyncGenerator[Matrix]:
        """Yield the matrix again and again: when it is pushed, or else after each interval."""
        pauses = jittered_pauses(interval_s)
        mine: MatrixAnswer | None = None
        while True:
            if not self._tells.can_listen:
                yield await self.matrix(0)
            else:
                try:
                    async with aclosing(self._tells.listen(mine)) as pushed:
                        async for mine in pushed:
                            yield self._heard(mine)
                except DiscoveryError as error:
                    yield self._last_known(error)
            await pause(next(pauses))

    def _heard(self, told: MatrixAnswer) -> Matrix:
        self._told = told
        self._silent_since = None
        return told.matrix

    def _last_known(self, error: DiscoveryError) -> Matrix:
        """Return the last matrix, as stale; raise an error that does not pass by itself."""
        if self._told is None or not may_pass(error):
            raise error
        if self._silent_since is None:
            self._silent_since = datetime.now(UTC)
        return as_stale(self._told.matrix, self._silent_since, str(error))
