"""Bounds of request bodies, which are decoded on the event loop.

A value costs some microseconds at each step, and a parser of JSON or YAML blocks the event loop
until it is done. So bodies are bounded by their cost and not by their bytes alone. StorageVersions
of a hundred servers have a tenth of these values. etcd would refuse larger ones anyway: its
requests have 1.5 MiB at most.
"""

from apidiscovery_service.kube.objects import errors

MAX_VALUES = 10_000
"""Fields, elements and entries of a body."""

MAX_JSON_BYTES = 1536 * 1024
MAX_PROTOBUF_BYTES = 1024 * 1024
"""Larger protobuf bodies are too large for any store as JSON."""
MAX_YAML_BYTES = 512 * 1024
"""libyaml takes ten times as long as a JSON parser."""

_MAX_OUTSIDE = 512 * 1024  # bytes outside of strings: blanks and digits
# Quotes and backslashes in strings: an annotation of 256 KiB that is JSON itself has some 30 000.
_MAX_ESCAPES = 60_000
_STRUCTURE = (b",", b"[", b"{")


class Budget:
    """Counts the fields, elements and entries of a message at all depths."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def spend(self, count: int = 1) -> None:
        """Count values.

        Raises:
            ObjectError: There are too many; 413.
        """
        self._left -= count
        if self._left < 0:
            raise too_much()


def check_json(body: bytes) -> None:
    """Check that JSON text can be parsed quickly; it need not be valid.

    Raises:
        ObjectError: It is too large, or has too many values; 413.
    """
    check_size(body, MAX_JSON_BYTES)
    if max(body.count(b"\\"), body.count(b'"')) > _MAX_ESCAPES:
        raise too_much()
    if len(body) <= _MAX_OUTSIDE and values(body) <= MAX_VALUES:
        return
    outside, structure = _outside_of_strings(body)
    if outside > _MAX_OUTSIDE or structure > MAX_VALUES:
        raise too_much()


def values(text: bytes) -> int:
    """Return the maximum of values in JSON text, without the outermost."""
    return sum(map(text.count, _STRUCTURE))


def check_size(body: bytes, limit: int) -> None:
    """Check the size of a body.

    Raises:
        ObjectError: It is too large; 413.
    """
    if len(body) > limit:
        raise errors.too_large(f"limit is {limit}")


def too_much() -> errors.ObjectError:
    """Return the error for a body with too many values; 413."""
    return errors.too_large(f"limit is {MAX_VALUES} values")


def _outside_of_strings(body: bytes) -> tuple[int, int]:
    """Return the bytes outside of strings, and how many of them begin a value."""
    outside = structure = 0
    in_string = False
    for piece in body.split(b'"'):
        if not in_string:
            outside += len(piece)
            structure += values(piece)
            in_string = True
        else:
            escaping = len(piece) - len(piece.rstrip(b"\\"))
            in_string = escaping % 2 == 1
    return outside, structure
