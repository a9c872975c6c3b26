"""The Status with which a request is refused, in the form that its client reads.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go `ErrorNegotiated`.
"""

from dataclasses import dataclass
from typing import cast

from apidiscovery.meta.v1 import meta_pb2, status_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery_formats import go_json, go_yaml
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, negotiate

SERVICE_UNAVAILABLE = 503

_MAGIC = b"k8s\x00"  # apimachinery pkg/runtime/serializer/protobuf/protobuf.go
_REASON = "ServiceUnavailable"


@dataclass(frozen=True, slots=True)
class Body:
    """A body and its Content-Type."""

    content_type: str
    content: bytes


def unavailable(message: str, accept: str) -> Body:
    """Return a Status of code 503.

    Args:
        message: What a person reads.
        accept: The Accept header; empty when there is none. Where it admits nothing that can be
            written the body is JSON: an error is not hidden behind a negotiation that failed.
    """
    chosen = negotiate(accept)
    serializer = chosen.serializer if chosen else JSON
    if serializer is PROTOBUF:
        return Body(serializer.media_type, _protobuf(message))
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASON,
        "code": SERVICE_UNAVAILABLE,
    }
    text = (
        go_yaml.text(cast("go_json.JSONValue", status))
        if serializer is YAML
        else go_json.dumps(status) + "\n"
    )
    return Body(serializer.media_type, text.encode())


def _protobuf(message: str) -> bytes:
    """Return the Status as gogo writes it, every scalar whether empty or not."""
    metadata = meta_pb2.ListMeta(self_link="", resource_version="")
    setattr(metadata, "continue", "")  # no attribute in Python's grammar
    status = status_pb2.Status(
        metadata=metadata,
        status="Failure",
        message=message,
        reason=_REASON,
        code=SERVICE_UNAVAILABLE,
    )
    unknown = runtime_pb2.Unknown(
        type_meta=runtime_pb2.TypeMeta(api_version="v1", kind="Status"),
        raw=status.SerializeToString(),
        content_encoding="",
        content_type="",
    )
    return _MAGIC + unknown.SerializeToString()
