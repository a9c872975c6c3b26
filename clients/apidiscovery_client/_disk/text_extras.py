"""Puts fields that this package does not know into JSON, also those that came as protobuf.

The latter are bytes under `protobuf:NUMBER`, which JSON documents leave out; here they are base64
under `base64:NUMBER`.
"""

import binascii
from collections.abc import Callable, Mapping
from dataclasses import replace

from apidiscovery_client._writing import PROTOBUF_EXTRA
from apidiscovery_client.model import NO_EXTRAS, Group, Resource, Subresource, Version

_BASE64 = "base64:"
# An unaggregated document may have unknown fields of these names. A document of v2 has no place
# for them: they would be read as what they are not.
_TAKEN = frozenset(
    {
        *("versions", "version", "resources", "freshness"),
        *("resource", "responseKind", "scope", "singularResource", "verbs"),
        *("shortNames", "categories", "subresources", "subresource", "acceptedTypes"),
    }
)

Extra = Mapping[str, object]
Change = Callable[[Extra], Extra]


def with_text(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups with nothing but JSON in their extras."""
    return _changed(groups, _text)


def with_bytes(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return the groups as they were before `with_text`."""
    return _changed(groups, _bytes)


def _text(extra: Extra) -> Extra:
    return dict(_text_item(*item) for item in extra.items() if item[0] not in _TAKEN)


def _text_item(name: str, value: object) -> tuple[str, object]:
    if not (isinstance(value, bytes) and name.startswith(PROTOBUF_EXTRA)):
        return name, value
    return _BASE64 + name.removeprefix(PROTOBUF_EXTRA), _encoded(value)


def _bytes(extra: Extra) -> Extra:
    return dict(_bytes_item(*item) for item in extra.items())


def _bytes_item(name: str, value: object) -> tuple[str, object]:
    """Return the field as it was; one that is not as `with_text` writes it was never another."""
    if not (isinstance(value, str) and name.startswith(_BASE64)):
        return name, value
    try:
        decoded = binascii.a2b_base64(value.encode())
    except (binascii.Error, UnicodeEncodeError):
        return name, value
    if _encoded(decoded) != value:
        return name, value
    return PROTOBUF_EXTRA + name.removeprefix(_BASE64), decoded


def _encoded(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()  # base64 takes longer to import


def _changed(groups: tuple[Group, ...], change: Change) -> tuple[Group, ...]:
    if not any(map(_has_extra, groups)):
        return groups
    return tuple(_group(group, change) for group in groups)


def _has_extra(group: Group) -> bool:
    """Tell it quickly, for there are none as long as servers are not newer than this package."""
    return bool(group.extra) or any(
        version.extra
        or any(
            resource.extra or any(below.extra for below in resource.subresources)
            for resource in version.resources
        )
        for version in group.versions
    )


def _group(group: Group, change: Change) -> Group:
    versions = tuple(_version(version, change) for version in group.versions)
    return replace(group, versions=versions, extra=_or_none(change(group.extra)))


def _version(version: Version, change: Change) -> Version:
    resources = tuple(_resource(resource, change) for resource in version.resources)
    return replace(version, resources=resources, extra=_or_none(change(version.extra)))


def _resource(resource: Resource, change: Change) -> Resource:
    below = tuple(_subresource(found, change) for found in resource.subresources)
    return replace(resource, subresources=below, extra=_or_none(change(resource.extra)))


def _subresource(subresource: Subresource, change: Change) -> Subresource:
    return replace(subresource, extra=_or_none(change(subresource.extra)))


def _or_none(extra: Extra) -> Extra:
    return extra or NO_EXTRAS
