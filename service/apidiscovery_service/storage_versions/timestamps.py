"""Moments as Kubernetes writes them.

Source: k8s.io/apimachinery pkg/apis/meta/v1/time.go and micro_time.go.
"""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return this moment in UTC."""
    return datetime.now(UTC)


def seconds(moment: datetime) -> str:
    """Return a moment as metav1.Time, `2026-01-02T03:04:05Z`."""
    return _text(moment, "seconds")


def micros(moment: datetime) -> str:
    """Return a moment as metav1.MicroTime, `2026-01-02T03:04:05.000006Z`."""
    return _text(moment, "microseconds")


def _text(moment: datetime, precision: str) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"
