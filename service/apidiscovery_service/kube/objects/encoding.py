"""Encodes objects and lists, byte for byte as kube-apiserver does.

Sources: k8s.io/apimachinery pkg/runtime/serializer/json/json.go (doEncode) and
protobuf/protobuf.go; k8s.io/apiserver pkg/endpoints/handlers/response.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apidiscovery_formats import go_yaml
from apidiscovery_formats.negotiation import PROTOBUF, YAML, Serializer

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import messages
from apidiscovery_service.kube.objects.kinds import PARTIAL_OBJECT_METADATA, Object, ObjectKind
from apidiscovery_service.kube.wire import envelope


@dataclass(frozen=True, slots=True)
class ListMeta:
    """The metadata of a list.

    Attributes:
        resource_version: The revision of the list.
        continue_token: Where the next page begins; empty on the last one.
        remaining: The number of objects after this page; None when unknown or zero.
    """

    resource_version: str = ""
    continue_token: str = ""
    remaining: int | None = None

    def fields(self) -> dict[str, JSONValue]:
        """Return it as JSON."""
        fields: dict[str, JSONValue] = {}
        if self.resource_version:
            fields["resourceVersion"] = self.resource_version
        if self.continue_token:
            fields["continue"] = self.continue_token
        if self.remaining is not None:
            fields["remainingItemCount"] = self.remaining
        return fields


def encode(
    value: Object, kind: ObjectKind, serializer: Serializer, *, pretty: bool = False
) -> bytes:
    """Return the body of one object.

    Args:
        value: The object, in the form of `decoding.Decoded.object`.
        kind: Its kind.
        serializer: How to write it.
        pretty: Whether JSON is indented; of no effect on the others.
    """
    if serializer is PROTOBUF:
        message = messages.message_of(kind.message, value)
        return envelope(str(value["apiVersion"]), str(value["kind"]), messages.encoded(message))
    return encode_value(value, serializer, pretty=pretty)


def encode_list(
    kind: ObjectKind,
    items: Sequence[Object],
    metadata: ListMeta,
    serializer: Serializer,
    *,
    pretty: bool = False,
) -> bytes:
    """Return the body of a list.

    Args:
        kind: The kind of the objects.
        items: The objects. In the list they have no `kind` and `apiVersion`, but for
            PartialObjectMetadata.
        metadata: The metadata of the list.
        serializer: How to write it.
        pretty: Whether JSON is indented; of no effect on the others.

    Raises:
        ValueError: There are no lists of the kind.
    """
    if kind.list_message is None:
        raise ValueError(f"there are no lists of {kind.kind}")
    typed = kind.message is PARTIAL_OBJECT_METADATA.message
    value: Object = {
        "metadata": metadata.fields(),
        "items": items if typed else [_without_type(item) for item in items],
    }
    if serializer is PROTOBUF:
        message = messages.message_of(kind.list_message, value)
        return envelope(kind.api_version, kind.list_kind, messages.encoded(message))
    head: Object = {"kind": kind.list_kind, "apiVersion": kind.api_version}
    return encode_value(head | value, serializer, pretty=pretty)


def encode_value(
    value: Mapping[str, JSONValue], serializer: Serializer, *, pretty: bool = False
) -> bytes:
    """Return the body of a JSON object without protobuf form, such as a Table.

    Args:
        value: The object, keys in order.
        serializer: JSON or YAML.
        pretty: Whether JSON is indented.

    Raises:
        ValueError: The serializer is protobuf.
    """
    if serializer is PROTOBUF:
        raise ValueError(f"{value.get('kind')} has no protobuf; offer JSON and YAML alone")
    if serializer is YAML:
        return go_yaml.dump(value)
    return go_json.dumps_pretty(value) if pretty else go_json.dumps(value) + b"\n"


def _without_type(item: Object) -> Object:
    return {name: field for name, field in item.items() if name not in ("kind", "apiVersion")}
