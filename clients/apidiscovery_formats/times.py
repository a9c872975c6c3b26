"""Times as Kubernetes writes them: RFC 3339 in UTC."""

from datetime import UTC, datetime


def time_text(when: datetime, precision: str = "seconds") -> str:
    """Return a time as `2026-01-02T03:04:05Z`, as metav1.Time; a fraction is cut off.

    Args:
        when: With its time zone.
        precision: `milliseconds`, or `microseconds` as metav1.MicroTime.
    """
    return when.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"
