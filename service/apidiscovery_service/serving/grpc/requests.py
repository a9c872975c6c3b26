"""What a discovery request asks for, checked field by field."""

from collections.abc import Sequence
from dataclasses import dataclass

from apidiscovery.service.v1 import discovery_pb2

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.serving.grpc.durations import seconds_of

DEFAULT_HEARTBEAT_S = 30.0
_MIN_HEARTBEAT_S = 1.0
_MAX_HEARTBEAT_S = 3600.0

_VERSION_NAMES = {
    discovery_pb2.DISCOVERY_VERSION_V2: "v2",
    discovery_pb2.DISCOVERY_VERSION_V2BETA1: "v2beta1",
}

# Scope -> (with the core group, with the named groups).
_SCOPES = {
    discovery_pb2.DISCOVERY_SCOPE_UNSPECIFIED: (True, True),
    discovery_pb2.DISCOVERY_SCOPE_CORE: (True, False),
    discovery_pb2.DISCOVERY_SCOPE_GROUPS: (False, True),
    discovery_pb2.DISCOVERY_SCOPE_ALL: (True, True),
}


class NoCommonVersion(Exception):
    """The caller reads none of the document versions that are served."""

    def __init__(self, offered: Sequence[str]) -> None:
        names = ", ".join(offered) or "none: aggregated discovery is switched off"
        super().__init__(f"no document version in accept_versions is served; offered: {names}")
        self.offered = tuple(offered)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of the state is wanted, and as what.

    Attributes:
        version: `v2` or `v2beta1`.
    """

    core: bool
    named: bool
    version: str


def selection(
    accept_versions: Sequence[discovery_pb2.DiscoveryVersion.ValueType],
    scope: discovery_pb2.DiscoveryScope.ValueType,
    offered: Sequence[str],
) -> Selection:
    """Return what a request selects.

    Args:
        accept_versions: In order of preference; empty for v2. Those that are not known here are
            passed over: a newer client may name them.
        scope: The scope.
        offered: The versions that are served.

    Raises:
        InvalidFields: The scope is not known, or an accepted version is the unspecified one.
        NoCommonVersion: None of the accepted versions is served.
    """
    if scope not in _SCOPES:
        raise InvalidFields(FieldViolation("scope", f"want one of DiscoveryScope, got {scope}"))
    accepted = accept_versions or (discovery_pb2.DISCOVERY_VERSION_V2,)
    for place, version in enumerate(accepted):
        if version == discovery_pb2.DISCOVERY_VERSION_UNSPECIFIED:
            field = f"accept_versions[{place}]"
            raise InvalidFields(FieldViolation(field, "want a version, got the unspecified one"))
    core, named = _SCOPES[scope]
    for version in accepted:
        name = _VERSION_NAMES.get(version)
        if name in offered:
            return Selection(core, named, name or "")
    raise NoCommonVersion(offered)


def heartbeat_s(request: discovery_pb2.WatchDiscoveryRequest) -> float:
    """Return the longest silence of a watch, in seconds.

    Raises:
        InvalidFields: It is malformed or out of range.
    """
    if not request.HasField("heartbeat_interval"):
        return DEFAULT_HEARTBEAT_S
    seconds = seconds_of("heartbeat_interval", request.heartbeat_interval)
    if not _MIN_HEARTBEAT_S <= seconds <= _MAX_HEARTBEAT_S:
        message = f"want {_MIN_HEARTBEAT_S:g} s to {_MAX_HEARTBEAT_S:g} s, got {seconds:g} s"
        raise InvalidFields(FieldViolation("heartbeat_interval", message))
    return seconds
