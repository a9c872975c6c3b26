"""How much a body may say: what is read, judged and written for it takes time, and others wait.

A value costs some microseconds at each step, and a library that reads JSON or YAML keeps the
interpreter from the first byte to the last. So bodies are bounded by what they cost and not by
their bytes alone: StorageVersions of a hundred servers have a tenth of these values. What is above
could not be stored in etcd either, whose requests end at 1.5 MiB.
"""

from apidiscovery_service.kube.objects import errors

MAX_VALUES = 10_000
"""Fields, elements and entries of a body."""

MAX_JSON_BYTES = 1536 * 1024
MAX_PROTOBUF_BYTES = 1024 * 1024
"""What has more in protobuf has more than any store takes in JSON."""
MAX_YAML_BYTES = 512 * 1024
"""libyaml takes ten times as long as a reader of JSON."""

_MAX_OUTSIDE = 512 * 1024  # bytes that are in no string: blanks and digits
# Quotes and backslashes in strings: an annotation of 256 KiB that is JSON itself has some 30 000.
_MAX_ESCAPES = 60_000
_STRUCTURE = (b",", b"[", b"{")


class Budget:
    """How many fields, elements and entries of a message may still be read, of whatever depth."""

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
    """See that a JSON text, or what may be one, is read in no time.

    Raises:
        ObjectError: It says too much; 413.
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
    """Return how many values a JSON text has at most, but for one."""
    return sum(map(text.count, _STRUCTURE))


def check_size(body: bytes, limit: int) -> None:
    """See that a body is not too long.

    Raises:
        ObjectError: It is; 413.
    """
    if len(body) > limit:
        raise errors.too_large(f"limit is {limit}")


def too_much() -> errors.ObjectError:
    """Return what is answered to a body that says too much; 413."""
    return errors.too_large(f"limit is {MAX_VALUES} values")


def _outside_of_strings(body: bytes) -> tuple[int, int]:
    """Return how many bytes are in no string, and how many of them begin a value."""
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
