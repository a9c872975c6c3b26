"""The Status with which a request is refused, in the form that its client reads.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go `ErrorNegotiated`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery.meta.v1 import meta_pb2, status_pb2
from apidiscovery.runtime.v1 import runtime_pb2

from apidiscovery_client.kubectl.go_yaml import yaml_text

SERVICE_UNAVAILABLE = 503

_JSON = "application/json"
_YAML = "application/yaml"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
# In the order of apimachinery pkg/runtime/serializer/codec_factory.go: what a wildcard means.
_SERIALIZED = (_JSON, _YAML, _PROTOBUF)
_MAGIC = b"k8s\x00"  # apimachinery pkg/runtime/serializer/protobuf/protobuf.go
_REASON = "ServiceUnavailable"
_GO_ESCAPES = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


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
    content_type = _negotiated(accept)
    if content_type == _PROTOBUF:
        return Body(content_type, _protobuf(message))
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASON,
        "code": SERVICE_UNAVAILABLE,
    }
    text = yaml_text(status) if content_type == _YAML else _json_text(status)
    return Body(content_type, text.encode())


def _negotiated(accept: str) -> str:
    """Return the first media type that is admitted, by weight and then the most exact first."""
    for media_range in sorted(_ranges(accept), key=_Range.rank):
        for media_type in _SERIALIZED:
            if media_range.admits(media_type):
                return media_type
    return _JSON


@dataclass(frozen=True, slots=True)
class _Range:
    main: str
    sub: str
    weight: float

    def rank(self) -> tuple[float, bool, bool]:
        return -self.weight, self.main == "*", self.sub == "*"

    def admits(self, media_type: str) -> bool:
        main, _, sub = media_type.partition("/")
        return self.main in (main, "*") and self.sub in (sub, "*")


def _ranges(accept: str) -> Iterator[_Range]:
    """Yield the clauses that do not ask for another kind of object, such as a Table."""
    for clause in accept.split(","):
        media_range, *pieces = (piece.strip() for piece in clause.split(";"))
        parameters = {name: value for name, _, value in (piece.partition("=") for piece in pieces)}
        main, slash, sub = media_range.lower().partition("/")
        if parameters.keys().isdisjoint(("as", "g", "v")) and (slash or main == "*"):
            yield _Range(main, sub or "*", _weight(parameters.get("q", "1")))


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0


def _json_text(status: object) -> str:
    """Return one line, with what Go's encoding/json escapes: `<nil>` is among it."""
    compact = json.dumps(status, ensure_ascii=False, separators=(",", ":"))
    return compact.translate(_GO_ESCAPES) + "\n"


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
