"""Fields that messages of several services have: times, durations, sizes and tokens of pages."""

import base64
import binascii
import json
from collections.abc import Sized
from datetime import UTC, datetime
from typing import cast

from apidiscovery.service.v1 import discovery_pb2, fleet_pb2, history_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from apidiscovery_service.errors import FieldViolation, InvalidFields

# Largest part of an answer in one message: gRPC clients accept 4 MiB by default, and one cluster,
# row or group may be large.
PART_BYTES = 3 * 1024 * 1024

# Names in one request; each is compared with everything that is served.
_MAX_NAMES = 1_000

_MAX_NANOS = 999_999_999
# What google/protobuf/timestamp.proto allows, in seconds of Unix time.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799

# Between two messages of a watch, in seconds.
_HEARTBEAT_S, _MIN_HEARTBEAT_S, _MAX_HEARTBEAT_S = 30.0, 1.0, 3600.0


def check_names(field: str, names: Sized) -> None:
    """Check the number of names in a field.

    Raises:
        InvalidFields: There are too many.
    """
    if len(names) > _MAX_NAMES:
        text = f"has {len(names)} elements, want at most {_MAX_NAMES}"
        raise InvalidFields(FieldViolation(field, text))


# Times.


def timestamp(when: datetime | None) -> Timestamp | None:
    """Return a time as a message; a time without a zone is in UTC."""
    if when is None:
        return None
    message = Timestamp()
    message.FromDatetime(when)
    return message


def time_of(field: str, message: Timestamp) -> datetime:
    """Return the time in a field, in UTC, to the microsecond.

    Raises:
        InvalidFields: It is malformed. Source: google/protobuf/timestamp.proto.
    """
    seconds, nanos = message.seconds, message.nanos
    if _FIRST_S <= seconds <= _LAST_S and 0 <= nanos <= _MAX_NANOS:
        return message.ToDatetime(UTC)
    text = f"want a time from the year 1 to 9999, got {seconds} s and {nanos} ns"
    raise InvalidFields(FieldViolation(field, text))


# Durations.


def seconds_of(field: str, duration: Duration) -> float:
    """Return the seconds of the duration in a field.

    Raises:
        InvalidFields: It is malformed. Source: google/protobuf/duration.proto.
    """
    seconds, nanos = duration.seconds, duration.nanos
    if abs(nanos) > _MAX_NANOS or (seconds < 0 < nanos) or (nanos < 0 < seconds):
        message = (
            f"want nanos of up to {_MAX_NANOS} and of the sign of seconds, "
            f"got {seconds} and {nanos}"
        )
        raise InvalidFields(FieldViolation(field, message))
    return seconds + nanos / 1e9


def duration_of(seconds: float) -> Duration:
    """Return seconds as a duration, in whole milliseconds."""
    duration = Duration()
    duration.FromMilliseconds(int(seconds * 1000))
    return duration


def heartbeat_s(
    request: discovery_pb2.WatchDiscoveryRequest
    | fleet_pb2.WatchFleetRequest
    | history_pb2.WatchChangesRequest,
) -> float:
    """Return the interval between heartbeats of a watch, in seconds.

    Raises:
        InvalidFields: It is malformed or out of range.
    """
    if not request.HasField("heartbeat_interval"):
        return _HEARTBEAT_S
    seconds = seconds_of("heartbeat_interval", request.heartbeat_interval)
    if not _MIN_HEARTBEAT_S <= seconds <= _MAX_HEARTBEAT_S:
        message = f"want {_MIN_HEARTBEAT_S:g} s to {_MAX_HEARTBEAT_S:g} s, got {seconds:g} s"
        raise InvalidFields(FieldViolation("heartbeat_interval", message))
    return seconds


# Pages.


def page_size_of(page_size: int) -> int | None:
    """Return the largest number of items of a page; None for as many as fit.

    Raises:
        InvalidFields: It is negative.
    """
    if page_size < 0:
        raise InvalidFields(FieldViolation("page_size", f"want 0 or more, got {page_size}"))
    return page_size or None


def page_token(*parts: str | int) -> str:
    """Return a page token of these parts: JSON in base64, which is opaque to callers."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def token_parts(token: str, *kinds: type) -> list[str | int]:
    """Return the parts of a page token, which are of these types.

    Raises:
        InvalidFields: It is not a token of this method.
    """
    try:
        found: object = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        found = None
    parts = cast("list[str | int]", found) if isinstance(found, list) else []
    if not parts or [type(each) for each in parts] != list(kinds):
        raise invalid_token()
    return parts


def invalid_token() -> InvalidFields:
    """Return the error of a page token that is not one of this method."""
    return InvalidFields(FieldViolation("page_token", "want the next_page_token of an answer"))
