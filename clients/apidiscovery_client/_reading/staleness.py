"""How fresh a version is, by what an aggregated document says of it."""

from datetime import datetime

from apidiscovery_client.model import CURRENT, Freshness, GroupVersion, Stale, Unknown

STALE = "Stale"
NOT_READ = "its resources have not been read"


def freshness(gv: GroupVersion, stated: str, now: datetime, *, has_resources: bool) -> Freshness:
    """Return the freshness; any other word than `Stale` is current, as it is for client-go.

    Source: client-go discovery/aggregated_discovery.go `convertAPIGroup` (the text, too).
    """
    if stated != STALE:
        return CURRENT
    reason = f"stale GroupVersion discovery: {gv}"
    return Stale(now, reason) if has_resources else Unknown(now, reason)
