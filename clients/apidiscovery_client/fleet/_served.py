"""The blocking form of `_async_served`, made by `make generate`. DO NOT EDIT."""

from collections.abc import Generator, Iterable
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apidiscovery_formats.matrix import Matrix

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._sans_io.following import jittered_pauses
from apidiscovery_client.fleet._answer import MatrixAnswer, as_stale, may_pass
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports._scope import pause

if TYPE_CHECKING:  # one of them is imported when it is needed
    from apidiscovery_client.fleet._over_grpc import OverGrpc
    from apidiscovery_client.fleet._over_http import OverHttp


class Served:
    """The clusters of a service, with the freshness that it reports.

    While the service does not answer, its clusters keep their last known state, marked stale.
    """

    def __init__(self, tells: "OverHttp | OverGrpc") -> None:
        self._tells = tells
        self._told: MatrixAnswer | None = None
        self._silent_since: datetime | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters in the last answer; empty before there is one."""
        return tuple(column.name for column in self._told.matrix.columns) if self._told else ()

    def close(self) -> None:
        """Close all connections; it may be called again."""
        self._tells.close()

    def snapshots(
        self, names: Iterable[str] | None, max_age_s: float | None
    ) -> dict[str, Snapshot]:
        """Return what each cluster serves, by name; raise `KeyError` for an unknown name."""
        matrix = self.matrix(max_age_s)
        columns = {column.name: column for column in matrix.columns}
        wanted = columns if names is None else names
        return self._tells.snapshots([columns[name] for name in wanted], max_age_s)

    def matrix(self, _max_age_s: float | None) -> Matrix:
        """Return the matrix; the service is asked each time, conditionally."""
        try:
            return self._heard(self._tells.matrix(self._told))
        except DiscoveryError as error:
            return self._last_known(error)

    def states(self, interval_s: float) -> Generator[Matrix]:
        """Yield the matrix again and again: when it is pushed, or else after each interval."""
        pauses = jittered_pauses(interval_s)
        mine: MatrixAnswer | None = None
        while True:
            if not self._tells.can_listen:
                yield self.matrix(0)
            else:
                try:
                    with closing(self._tells.listen(mine)) as pushed:
                        for mine in pushed:
                            yield self._heard(mine)
                except DiscoveryError as error:
                    yield self._last_known(error)
            pause(next(pauses))

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
