"""Events of a watch, and their frames in a stream.

Sources: k8s.io/apiserver pkg/endpoints/handlers/response.go (watchEncoder); k8s.io/apimachinery
pkg/runtime/serializer/json/json.go (Framer) and protobuf/protobuf.go (NewRawSerializer,
lengthDelimitedFrameWriter).
"""

from enum import StrEnum
from struct import Struct

from apidiscovery_formats.negotiation import JSON, PROTOBUF, Serializer

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.go_structs import in_go_form
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from apidiscovery_service.kube.wire import delimited

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events of a watch."""

_LENGTH = Struct(">I")


class EventType(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


def frame(event: EventType, body: bytes, serializer: Serializer) -> bytes:
    r"""Return one event as a frame of a stream.

    Args:
        event: What happened.
        body: The object, or the Status of an error, as `encoding.encode` returns it, in the same
            serializer and not pretty.
        serializer: JSON (`{"type":...,"object":...}` and a line feed) or protobuf (the length in
            four bytes, then a WatchEvent without envelope around the object with its own).

    Raises:
        ValueError: The serializer does not stream.
    """
    if serializer is JSON:
        return b'{"type":"%s","object":%s}\n' % (event.encode(), body.rstrip(b"\n"))
    if serializer is not PROTOBUF:
        raise ValueError(f"{serializer.media_type} does not stream; offer JSON and protobuf alone")
    message = delimited(1, event.encode()) + delimited(2, delimited(1, body))
    return _LENGTH.pack(len(message)) + message


def bookmark(
    kind: ObjectKind, resource_version: str, *, initial_events_end: bool = False
) -> Object:
    """Return the object of a BOOKMARK, which has nothing but a resourceVersion.

    Args:
        kind: The kind that is watched.
        resource_version: The revision up to which all events were sent.
        initial_events_end: Whether it ends the initial events of a `sendInitialEvents` watch.
    """
    metadata: dict[str, JSONValue] = {"resourceVersion": resource_version}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    head: Object = {"kind": kind.kind, "apiVersion": kind.api_version}
    return head | in_go_form(kind.struct, {"metadata": metadata})
