"""A client of DiscoveryService that applies deltas and computes ETags.

It shares no code with the service: it follows the rules in the protos.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.service.v1 import discovery_pb2
from apidiscovery.v2 import discovery_pb2 as v2_pb2
from apidiscovery.v2beta1 import discovery_pb2 as v2beta1_pb2

GroupMessage: TypeAlias = v2_pb2.APIGroupDiscovery | v2beta1_pb2.APIGroupDiscovery
DocumentMessage: TypeAlias = (
    discovery_pb2.DiscoveryDocumentV2 | discovery_pb2.DiscoveryDocumentV2Beta1
)


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    hash: str
    message: GroupMessage


@dataclass
class Holding:
    """The groups that a client holds, in order."""

    core: list[Item] = field(default_factory=list[Item])
    named: list[Item] = field(default_factory=list[Item])

    @classmethod
    def of(cls, response: discovery_pb2.GetDiscoveryResponse) -> "Holding":
        """Take a whole document."""
        document = document_of(response)
        messages = [*document.core.items, *document.groups.items]
        held = cls()
        for told, message in zip(response.group_hashes, messages, strict=True):
            assert told.name == message.metadata.name
            (held.named if told.name else held.core).append(Item(told.name, told.hash, message))
        return held

    def apply(self, delta: discovery_pb2.DiscoveryDelta) -> None:
        """Remove the removed and the changed groups, then insert the changed ones."""
        assert list(delta.removed) == sorted(set(delta.removed))
        places = [(changed.name != "", changed.position) for changed in delta.changed]
        assert places == sorted(places)
        assert set(delta.removed) <= self.hashes.keys()
        out = {*delta.removed, *(changed.name for changed in delta.changed)}
        assert len(out) == len(delta.removed) + len(delta.changed)
        for items in (self.core, self.named):
            items[:] = [item for item in items if item.name not in out]
        for changed in delta.changed:
            items = self.named if changed.name else self.core
            assert changed.position <= len(items)
            items.insert(changed.position, _item(changed))

    @property
    def hashes(self) -> dict[str, str]:
        return {item.name: item.hash for item in (*self.core, *self.named)}

    @property
    def known(self) -> discovery_pb2.KnownGroups:
        return discovery_pb2.KnownGroups(hashes=self.hashes)

    def etag(self, scope: discovery_pb2.DiscoveryScope.ValueType) -> str:
        """Compute the ETag from the messages."""
        core, named = _etag(self.core), _etag(self.named)
        match scope:
            case discovery_pb2.DISCOVERY_SCOPE_CORE:
                return core
            case discovery_pb2.DISCOVERY_SCOPE_GROUPS:
                return named
            case _:
                return hashlib.sha512(f"{core}\n{named}\n".encode()).hexdigest().upper()


def document_of(response: discovery_pb2.GetDiscoveryResponse) -> DocumentMessage:
    """Return the document of an answer, which must have one."""
    match response.WhichOneof("result"):
        case "v2":
            return response.v2
        case "v2beta1":
            return response.v2beta1
        case other:
            raise AssertionError(other)


def _item(changed: discovery_pb2.ChangedGroup) -> Item:
    kind = changed.WhichOneof("group")
    assert kind is not None
    message = changed.v2 if kind == "v2" else changed.v2beta1
    assert message.metadata.name == changed.name
    return Item(changed.name, changed.hash, message)


def _etag(items: list[Item]) -> str:
    document: Mapping[str, object] = {
        "metadata": {},
        "items": [_group(item.message) for item in items],
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha512(text.encode()).hexdigest().upper()


# The keys have the order of the Go structs, which also leave out empty ones. No test has an empty
# list of verbs, which protobuf cannot tell from none, or characters that Go escapes.


def _group(group: GroupMessage) -> Mapping[str, object]:
    name = group.metadata.name
    value: dict[str, object] = {"metadata": {"name": name} if name else {}}
    if group.versions:
        value["versions"] = [_version(version) for version in group.versions]
    return value


def _version(
    version: v2_pb2.APIVersionDiscovery | v2beta1_pb2.APIVersionDiscovery,
) -> Mapping[str, object]:
    value: dict[str, object] = {"version": version.version}
    if version.resources:
        value["resources"] = [_resource(resource) for resource in version.resources]
    if version.freshness:
        value["freshness"] = version.freshness
    return value


def _resource(
    resource: v2_pb2.APIResourceDiscovery | v2beta1_pb2.APIResourceDiscovery,
) -> Mapping[str, object]:
    value: dict[str, object] = {"resource": resource.resource}
    if resource.HasField("response_kind"):
        value["responseKind"] = _kind(resource.response_kind)
    value |= {
        "scope": resource.scope,
        "singularResource": resource.singular_resource,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        value["shortNames"] = list(resource.short_names)
    if resource.categories:
        value["categories"] = list(resource.categories)
    if resource.subresources:
        value["subresources"] = [_subresource(below) for below in resource.subresources]
    return value


def _subresource(
    subresource: v2_pb2.APISubresourceDiscovery | v2beta1_pb2.APISubresourceDiscovery,
) -> Mapping[str, object]:
    value: dict[str, object] = {"subresource": subresource.subresource}
    if subresource.HasField("response_kind"):
        value["responseKind"] = _kind(subresource.response_kind)
    if subresource.accepted_types:
        value["acceptedTypes"] = [_kind(kind) for kind in subresource.accepted_types]
    value["verbs"] = list(subresource.verbs)
    return value


def _kind(kind: meta_pb2.GroupVersionKind) -> Mapping[str, object]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
