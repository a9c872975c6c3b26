"""What the traffic writes, and how it is found again in the answers.

Every write puts a word of its own into the content of its group, a category of its only resource.
So an answer in any form tells of each group which write it shows.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from apidiscovery.service.v1 import registry_pb2
from apidiscovery.v2 import discovery_pb2 as v2_pb2
from google.protobuf.json_format import ParseDict

from tests.robustness.history import THERE

_PREFIX = "op"
VERSION = "v1"
PLURAL = "things"


@dataclass(frozen=True, slots=True)
class Told:
    """What a document tells: by group the value that stands there, and which groups are Stale."""

    values: Mapping[str, str]
    stale: tuple[str, ...] = ()


def value(number: int) -> str:
    return f"{_PREFIX}{number:06}"


def published(group: str, content: str) -> registry_pb2.PublishedGroups:
    """Return what Publish takes to put a value into a group."""
    groups = [{"group": discovery_item(group, content)}]
    return ParseDict({"groups": groups}, registry_pb2.PublishedGroups())


def definition(group: str, content: str) -> bytes:
    """Return the CustomResourceDefinition that puts a value into a group."""
    names = {"plural": PLURAL, "singular": "thing", "kind": "Thing", "categories": [content]}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": VERSION, "served": True, "storage": True, "schema": schema}
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": definition_name(group)},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    ).encode()


def definition_name(group: str) -> str:
    return f"{PLURAL}.{group}"


def discovery_item(group: str, content: str) -> dict[str, object]:
    """Return a group with a value as an item of an aggregated document in JSON."""
    resource = {
        "resource": PLURAL,
        "responseKind": {"group": group, "version": VERSION, "kind": "Thing"},
        "scope": "Namespaced",
        "singularResource": "thing",
        "verbs": ["get", "list"],
        "categories": [content],
    }
    version = {"version": VERSION, "resources": [resource], "freshness": "Current"}
    return {"metadata": {"name": group}, "versions": [version]}


def of_aggregated(body: bytes) -> Told:
    """Read an aggregated document.

    Raises:
        ValueError, KeyError, TypeError: It is none.
    """
    items = cast("list[dict[str, object]]", json.loads(body).get("items", ()))
    values, stale = dict[str, str](), list[str]()
    for item in items:
        group = cast("dict[str, str]", item["metadata"])["name"]
        versions = cast("list[dict[str, object]]", item["versions"])
        words = [
            word
            for version in versions
            for resource in cast("list[dict[str, list[str]]]", version.get("resources", ()))
            for word in resource.get("categories", ())
        ]
        values[group] = _value(words)
        if any(version.get("freshness") != "Current" for version in versions):
            stale.append(group)
    return Told(values, tuple(stale))


def of_message(group: v2_pb2.APIGroupDiscovery) -> str:
    """Return the value that a group has over gRPC."""
    return _value(
        [word for v in group.versions for resource in v.resources for word in resource.categories]
    )


def of_group_list(body: bytes) -> Told:
    """Read an APIGroupList, which names groups."""
    groups = cast("list[dict[str, str]]", json.loads(body)["groups"])
    return Told({group["name"]: THERE for group in groups})


def of_index(body: bytes) -> Told:
    """Read the index of OpenAPI documents: `apis/GROUP/VERSION` each, and some above."""
    paths = cast("dict[str, object]", json.loads(body)["paths"])
    split = [path.split("/") for path in paths]
    return Told({parts[1]: THERE for parts in split if len(parts) == 3 and parts[0] == "apis"})


def _value(words: list[str]) -> str:
    return next((word for word in words if word.startswith(_PREFIX)), THERE)
