"""Protobuf around and in documents: single fields, empty metadata, Kubernetes' envelope.

Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf/protobuf.go for the envelope.
"""

from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.runtime.v1 import runtime_pb2

_MAGIC = b"k8s\x00"


def varint(number: int) -> bytes:
    """Return an integer of at most 64 bits as a base 128 varint; as int64 if it is negative."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def delimited(number: int, payload: bytes) -> bytes:
    """Return a length-delimited field: a message, a string or bytes."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def payload_of(field: bytes) -> bytes:
    """Return the payload of a field that `delimited` made, with a number below 16."""
    start = 1
    while field[start] & 0x80:
        start += 1
    return field[start + 1 :]


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return a Kubernetes protobuf body: the magic, then runtime.Unknown around the object.

    Args:
        api_version: Empty in documents that are sent without one.
        kind: Kind of the object.
        raw: The encoded object.
    """
    unknown = runtime_pb2.Unknown(
        type_meta=runtime_pb2.TypeMeta(api_version=api_version, kind=kind),
        raw=raw,
        content_encoding="",
        content_type="",
    )
    return _MAGIC + unknown.SerializeToString()


def list_meta() -> meta_pb2.ListMeta:
    """Return the empty metadata of a list; every scalar is set, as Kubernetes writes them all."""
    metadata = meta_pb2.ListMeta(self_link="", resource_version="")
    # The field is called `continue`, which Python cannot write as an attribute.
    setattr(metadata, "continue", "")
    return metadata
