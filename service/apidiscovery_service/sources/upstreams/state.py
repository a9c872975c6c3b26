"""What is known of an upstream: what it served last, and whether it does still."""

from dataclasses import dataclass

from apidiscovery_service.core.model import Freshness, Group


@dataclass(frozen=True, slots=True)
class Root:
    """What is known of one path, `/api` or `/apis`; each fails by itself.

    Attributes:
        core: Whether it has the core group.
        state: `Current`, or `Stale` when the last attempt failed.
        since: When that began, RFC 3339 in UTC; empty when nothing was tried.
        error: Why it is stale, one line.
        reason: The kind of failure, as it is counted.
        etag: Of the last document, verbatim.
        old: Whether the server has no aggregated discovery.
        groups: As served last, in the server's order.
        failures: Of an old server, the group-versions that could not be had, each with the reason.
        warnings: What of the document was left out.
        listed: The names of groups in the order of the unaggregated list; empty when that is not
            known.
    """

    path: str
    core: bool
    state: Freshness = Freshness.STALE
    since: str = ""
    error: str = ""
    reason: str = ""
    etag: str = ""
    old: bool = False
    groups: tuple[Group, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        return self.state is Freshness.CURRENT


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a whole upstream.

    Attributes:
        claim: Which holder of the claim learned it: the revision at which that began.
    """

    claim: int
    roots: tuple[Root, ...]

    @property
    def bad(self) -> list[Root]:
        """The paths of which something failed."""
        return [root for root in self.roots if not root.is_current or root.failures]

    @property
    def is_well(self) -> bool:
        """Whether nothing failed."""
        return not self.bad

    @property
    def error(self) -> str:
        """Why it is not well, one line; empty when it is."""
        errors = [root.error for root in self.bad]
        # A server that is not there is not there for each path.
        reasons = {root.error.removeprefix(f"GET {root.path}: ") for root in self.bad}
        return "; ".join(errors if len(reasons) > 1 or len(errors) == 1 else reasons)
