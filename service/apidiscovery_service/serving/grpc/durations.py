"""Durations of requests and responses, in seconds."""

from google.protobuf.duration_pb2 import Duration

from apidiscovery_service.errors import FieldViolation, InvalidFields

_MAX_NANOS = 999_999_999


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
