"""Fields of protobuf messages as bytes: what stands before a value.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from apidiscovery_service.kube.wire import varint

VARINT = 0
FIXED_64 = 1
DELIMITED = 2

_LENGTHS = tuple(varint(length) for length in range(1024))


def tag(number: int, wire_type: int) -> bytes:
    """Return what stands before a field."""
    return varint(number << 3 | wire_type)


def length(payload: bytes) -> bytes:
    """Return what stands between the tag of a delimited field and its payload."""
    size = len(payload)
    return _LENGTHS[size] if size < len(_LENGTHS) else varint(size)
