"""Encodes aggregated documents from one cached fragment for each group.

v2 and v2beta1 differ in `apiVersion` alone, so they share fragments. Fragments belong to their
group and outlive the snapshot.
"""

from collections.abc import Iterator

import orjson
from apidiscovery.v2 import discovery_pb2
from apidiscovery_formats import go_yaml
from apidiscovery_formats.media_types import AGGREGATED_GROUP, AGGREGATED_KIND
from apidiscovery_formats.negotiation import JSON, YAML, Representation

from apidiscovery_service.core.chunks import Chunk, PublishedGroup
from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.snapshot import Document
from apidiscovery_service.encoding.compression import block, gzip_member, last_block
from apidiscovery_service.kube import go_json, wire
from apidiscovery_service.kube.objects.messages import message_of
from apidiscovery_service.kube.wire import list_meta

_ITEMS_FIELD = 2

_LIST_METADATA = wire.delimited(1, list_meta().SerializeToString())


def encode(document: Document, representation: Representation) -> bytes:
    """Return the body of an aggregated document."""
    api_version = f"{AGGREGATED_GROUP}/{representation.aggregated}"
    if representation.serializer is JSON:
        if representation.pretty:
            return _pretty_json(document, representation)
        return b"".join(json_parts(document, representation))
    if representation.serializer is YAML:
        return _yaml(document, api_version)
    return wire.envelope(api_version, AGGREGATED_KIND, list_message(document))


def encode_gzip(document: Document, representation: Representation) -> bytes:
    """Return compact JSON, gzipped chunk by chunk.

    Only new chunks are compressed. The result is up to a quarter larger than in one piece.
    """
    head, *middle, tail = json_parts(document, representation)
    blocks = [block(head)]
    blocks += [_chunk_block(chunk, comma) for chunk, comma in _with_commas(document)]
    blocks.append(last_block(tail))
    return gzip_member(blocks, (head, *middle, tail))


# The block of each chunk but the first begins with a comma.
_BLOCK_AFTER = {b"": "deflate", b",": "deflate after a comma"}


def _with_commas(document: Document) -> Iterator[tuple[Chunk, bytes]]:
    for place, chunk in enumerate(document.chunks):
        yield chunk, b"," if place else b""


def _chunk_block(chunk: Chunk, comma: bytes) -> bytes:
    name = _BLOCK_AFTER[comma]
    compressed = chunk.fragments.get(name)
    if compressed is None:
        compressed = chunk.fragments[name] = block(comma + chunk.json)
    return compressed


def json_parts(document: Document, representation: Representation) -> tuple[bytes, ...]:
    """Return compact JSON with its line feed: head, chunks, commas between them, tail."""
    api_version = f"{AGGREGATED_GROUP}/{representation.aggregated}"
    head = f'{{"kind":"{AGGREGATED_KIND}","apiVersion":"{api_version}","metadata":{{}},"items":['
    parts = [head.encode()]
    for chunk, comma in _with_commas(document):
        parts += (comma, chunk.json) if comma else (chunk.json,)
    return (*parts, b"]}\n")


def _pretty_json(document: Document, representation: Representation) -> bytes:
    """Return indented JSON, made group by group to use less memory."""
    if not document.groups:
        return go_json.indent(b"".join(json_parts(document, representation)))
    api_version = f"{AGGREGATED_GROUP}/{representation.aggregated}"
    head = (
        f'{{\n  "kind": "{AGGREGATED_KIND}",\n  "apiVersion": "{api_version}",\n'
        '  "metadata": {},\n  "items": [\n    '
    )
    # Line feeds in JSON text are never in strings.
    items = [go_json.indent(group.json).replace(b"\n", b"\n    ") for group in document.groups]
    return b"".join((head.encode(), b",\n    ".join(items), b"\n  ]\n}"))


def _yaml(document: Document, api_version: str) -> bytes:
    if not document.groups:
        return go_yaml.dump(
            {"apiVersion": api_version, "items": [], "kind": AGGREGATED_KIND, "metadata": {}}
        )
    head = f"apiVersion: {api_version}\nitems:\n".encode()
    tail = f"kind: {AGGREGATED_KIND}\nmetadata: {{}}\n".encode()
    return b"".join((head, *map(_yaml_item, document.groups), tail))


def _yaml_item(group: PublishedGroup) -> bytes:
    text = group.fragments.get("yaml")
    if text is None:
        text = group.fragments["yaml"] = go_yaml.dump_item(orjson.loads(group.json))
    return text


def list_message(document: Document) -> bytes:
    """Return the encoded `APIGroupDiscoveryList`, of v2 and v2beta1 alike, without envelope."""
    return b"".join((_LIST_METADATA, *map(_item_field, document.groups)))


def group_message(group: PublishedGroup) -> bytes:
    """Return the encoded `APIGroupDiscovery`, of v2 and v2beta1 alike."""
    return wire.payload_of(_item_field(group))


def _item_field(group: PublishedGroup) -> bytes:
    field = group.fragments.get("protobuf")
    if field is None:
        encoded = group_of(group.group).SerializeToString()
        field = group.fragments["protobuf"] = wire.delimited(_ITEMS_FIELD, encoded)
    return field


def group_of(group: Group) -> discovery_pb2.APIGroupDiscovery:
    """Return a group as a message."""
    return message_of(discovery_pb2.APIGroupDiscovery, group_value(group))
