"""The interface of sources, and their status as operators and clients see it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

UPSTREAM = "upstream:"
"""Prefix of the names of sources that are clusters; the name of the cluster follows."""


class SourceState(StrEnum):
    """Whether a source offers what its server serves now."""

    CURRENT = "Current"
    STALE = "Stale"
    PENDING = "Pending"


@dataclass(frozen=True, slots=True)
class CertificateExpiry:
    """When the certificates of a connection expire; None if there is none.

    Attributes:
        server: The certificate of the server, as last seen.
        client: The certificate that the server is shown.
    """

    server: datetime | None = None
    client: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The status of one source.

    Attributes:
        name: As in its contribution.
        since: Time of the last change of `state`; None if not known.
        error: Why it is stale; empty when it is not. One line, without secrets.
        address: Its URL, without credentials; empty for a local source.
        withheld: Why its groups are not served, whatever it answers; empty if they are.
        certificates: The certificates of the connection to it.
    """

    name: str
    state: SourceState = SourceState.CURRENT
    since: datetime | None = None
    error: str = ""
    address: str = ""
    withheld: str = ""
    certificates: CertificateExpiry = CertificateExpiry()


class Source:
    """Publishes contributions. The methods do nothing unless a kind of source defines them."""

    async def load(self) -> None:
        """Publish the first contributions.

        Raises:
            StoreUnavailable: The store does not answer; the caller tries again.
            StoreDamaged: The store has to be repaired; the caller tries again.
        """

    async def follow(self) -> None:
        """Publish changes until cancelled, or return at once if there are none."""

    def warnings(self) -> Iterable[str]:
        """Return a line for each problem, for `/readyz?verbose`."""
        return ()

    def states(self) -> Iterable[SourceStatus]:
        """Return the status of each source of this kind whose state can change."""
        return ()
