"""Snapshots of made-up servers, as the client reads them."""

from datetime import UTC, datetime

from apidiscovery_client.model import Group, Snapshot

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def snapshot(*groups: Group, **failures: str) -> Snapshot:
    """Return a snapshot of these groups; of each failure the name is that of the part, as `api`."""
    return Snapshot(
        groups=groups,
        server="https://one.example.com",
        checked_at=WHEN,
        failures={f"/{part}": reason for part, reason in failures.items()},
    )
