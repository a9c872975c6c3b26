"""Decodes bodies into the model without the service's own code."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Subresource, Version

JSONObject = dict[str, Any]

_HTML = {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}


def go_text(value: object) -> bytes:
    """Return JSON as Go writes it, by the standard library and Go's list of escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: _HTML[match[0]], text).encode()


def json_object(body: bytes) -> JSONObject:
    value: JSONObject = json.loads(body)
    return value


def yaml_object(body: bytes) -> JSONObject:
    value: JSONObject = yaml.load(body, yaml.CSafeLoader)
    return value


def unwrapped(body: bytes) -> runtime_pb2.Unknown:
    """Return the envelope of a Kubernetes protobuf body."""
    assert body[:4] == b"k8s\0"
    return runtime_pb2.Unknown.FromString(body[4:])


# --------------------------------------------------------------------------------------------------
# From JSON values.


def _value_kind(value: JSONObject | None) -> GroupVersionKind | None:
    return None if value is None else GroupVersionKind(**value)


def _taken(value: JSONObject, *names: str) -> JSONObject:
    """Return the value, which must have no other field."""
    assert value.keys() <= set(names), value
    return value


def _value_verbs(value: JSONObject) -> tuple[str, ...] | None:
    return None if value["verbs"] is None else tuple(value["verbs"])


def _value_subresource(value: JSONObject) -> Subresource:
    _taken(value, "subresource", "responseKind", "acceptedTypes", "verbs")
    return Subresource(
        value["subresource"],
        _value_kind(value.get("responseKind")),
        _value_verbs(value),
        tuple(GroupVersionKind(**kind) for kind in value.get("acceptedTypes", ())),
    )


_RESOURCE_FIELDS = (
    *("resource", "responseKind", "scope", "singularResource", "verbs"),
    *("shortNames", "categories", "subresources"),
)


def _value_resource(value: JSONObject) -> Resource:
    _taken(value, *_RESOURCE_FIELDS)
    return Resource(
        value["resource"],
        _value_kind(value.get("responseKind")),
        value["scope"],
        value["singularResource"],
        _value_verbs(value),
        tuple(value.get("shortNames", ())),
        tuple(value.get("categories", ())),
        tuple(map(_value_subresource, value.get("subresources", ()))),
    )


def _value_version(value: JSONObject) -> Version:
    _taken(value, "version", "resources", "freshness")
    resources = tuple(map(_value_resource, value.get("resources", ())))
    return Version(value["version"], resources, value.get("freshness", ""))


def groups_of_value(value: Mapping[str, Any]) -> list[Group]:
    """Return the groups of an aggregated document, in order."""
    return [
        Group(
            _taken(item, "metadata", "versions")["metadata"].get("name", ""),
            tuple(map(_value_version, item.get("versions", ()))),
        )
        for item in value["items"]
    ]


# --------------------------------------------------------------------------------------------------
# From protobuf messages, which cannot tell no verbs from empty verbs.


def _kind(message: meta_pb2.GroupVersionKind) -> GroupVersionKind:
    return GroupVersionKind(message.group, message.version, message.kind)


def _response_kind(
    message: discovery_pb2.APIResourceDiscovery | discovery_pb2.APISubresourceDiscovery,
) -> GroupVersionKind | None:
    return _kind(message.response_kind) if message.HasField("response_kind") else None


def _subresources(
    messages: Iterable[discovery_pb2.APISubresourceDiscovery],
) -> tuple[Subresource, ...]:
    return tuple(
        Subresource(
            m.subresource, _response_kind(m), tuple(m.verbs), tuple(map(_kind, m.accepted_types))
        )
        for m in messages
    )


def _resource(message: discovery_pb2.APIResourceDiscovery) -> Resource:
    return Resource(
        message.resource,
        _response_kind(message),
        message.scope,
        message.singular_resource,
        tuple(message.verbs),
        tuple(message.short_names),
        tuple(message.categories),
        _subresources(message.subresources),
    )


def groups_of_message(message: discovery_pb2.APIGroupDiscoveryList) -> list[Group]:
    """Return the groups of an aggregated document; absent verbs are read as empty ones."""
    return [
        Group(
            item.metadata.name,
            tuple(
                Version(v.version, tuple(map(_resource, v.resources)), v.freshness)
                for v in item.versions
            ),
        )
        for item in message.items
    ]
