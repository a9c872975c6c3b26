"""What every kind of source has in common, so that the process need not know them apart."""

from collections.abc import Iterable

from apidiscovery_service.core.source_status import SourceStatus


class Source:
    """Publishes contributions; a kind of source defines what differs from none."""

    async def load(self) -> None:
        """Publish what is there at the start.

        Raises:
            StoreUnavailable: The store cannot be asked now; it is called again then.
            StoreDamaged: The same, until somebody mends the store.
        """

    async def follow(self) -> None:
        """Publish changes until cancelled, or return at once where there are none."""

    def warnings(self) -> Iterable[str]:
        """Return a line for each thing that is wrong, for `/readyz?verbose`."""
        return ()

    def states(self) -> Iterable[SourceStatus]:
        """Return how far each source of this kind can be believed, where that can change."""
        return ()
