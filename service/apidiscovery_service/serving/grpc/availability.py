"""Whether the server behind an APIService answers, as the condition that Kubernetes has for it.

Source: k8s.io/kube-aggregator pkg/controllers/status/remote/remote_available_controller.go and
pkg/controllers/status/local/local_available_controller.go.
"""

from dataclasses import replace
from datetime import UTC

from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.registrations.record import as_object
from apidiscovery_service.sources.registrations.requests import Registered

_STATUSES = {
    SourceState.CURRENT: ("True", "Passed", "all checks passed"),
    SourceState.STALE: ("False", "FailedDiscoveryCheck", ""),
    SourceState.PENDING: ("Unknown", "Pending", "not asked yet"),
}
_LOCAL = ("True", "Local", "Local APIServices are always available")


def with_availability(registered: Registered, status: SourceStatus | None) -> Registered:
    """Return an APIService with its condition.

    Args:
        registered: As it is kept.
        status: Of its source; None for one that no server is behind.
    """
    value, reason, message = _STATUSES[status.state] if status else _LOCAL
    condition: dict[str, JSONValue] = {
        "type": "Available",
        "status": value,
        "reason": reason,
        "message": (status.error if status else "") or message,
    }
    if status and status.since:
        condition["lastTransitionTime"] = status.since.astimezone(UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
    content = {**as_object(registered.record.content), "status": {"conditions": [condition]}}
    return replace(registered, record=replace(registered.record, content=content))
