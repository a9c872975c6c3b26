"""Selects, sorts and prints resources, as kubectl api-resources does.

Source: kubernetes/kubectl pkg/cmd/apiresources (`apiresources.go`, `print_flags.go`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from apidiscovery_client._kubectl.preferred import preferred_resources
from apidiscovery_client._kubectl.printing import json_text, yaml_text
from apidiscovery_client._kubectl.table import table
from apidiscovery_client._terminal import printable
from apidiscovery_client.model import Resource, Snapshot

_HEADERS = ("NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND")
_WIDE_HEADERS = (*_HEADERS, "VERBS", "CATEGORIES")

SORT_KEYS: Mapping[str, Callable[[Resource], str]] = {
    "": lambda resource: resource.gv.group,
    "name": lambda resource: resource.name,
    "kind": lambda resource: resource.kind,
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which resources to keep.

    Attributes:
        api_group: Empty is the core group, None any.
        namespaced: None is either.
        verbs: All of them must be supported.
        categories: The resource must be in all of them.
    """

    api_group: str | None = None
    namespaced: bool | None = None
    verbs: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def has(self, resource: Resource) -> bool:
        """Return whether a resource is kept; one without verbs never is."""
        return (
            bool(resource.verbs)
            and self.api_group in (None, resource.gv.group)
            and self.namespaced in (None, resource.is_namespaced)
            and set(self.verbs) <= set(resource.verbs)
            and set(self.categories) <= set(resource.categories)
        )


def select(snapshot: Snapshot, selection: Selection, sort_by: str = "") -> list[Resource]:
    """Return the preferred resources that are selected.

    Sorted by the key of `SORT_KEYS`, then by name, then in discovery order.
    """
    value = SORT_KEYS[sort_by]
    return sorted(
        (
            resource
            for _, resources in preferred_resources(snapshot)
            for resource in resources
            if selection.has(resource)
        ),
        key=lambda resource: (value(resource), resource.name),
    )


def print_resources(resources: Sequence[Resource], output: str, *, headers: bool) -> str:
    """Return the text of `select`'s resources in one of the formats of `OUTPUTS`."""
    return OUTPUTS[output](resources, headers)


def _print_table(resources: Iterable[Resource], headers: bool) -> str:  # noqa: FBT001
    return table([*([_HEADERS] if headers else []), *map(_row, resources)])


def _print_wide(resources: Iterable[Resource], headers: bool) -> str:  # noqa: FBT001
    rows = [(*_row(r), ",".join(r.verbs), ",".join(r.categories)) for r in resources]
    return table([*([_WIDE_HEADERS] if headers else []), *rows])


def _row(resource: Resource) -> tuple[str, ...]:
    return (
        resource.name,
        ",".join(resource.short_names),
        str(resource.gv),
        "true" if resource.is_namespaced else "false",
        resource.kind,
    )


def _print_names(resources: Iterable[Resource], _headers: bool) -> str:  # noqa: FBT001
    return "".join(f"{printable(r.gvr.group_resource)}\n" for r in resources)


def _print_json(resources: Iterable[Resource], _headers: bool) -> str:  # noqa: FBT001
    return json_text(_document(resources))


def _print_yaml(resources: Iterable[Resource], _headers: bool) -> str:  # noqa: FBT001
    return yaml_text(_document(resources))


OUTPUTS: Mapping[str, Callable[[Sequence[Resource], bool], str]] = {
    "": _print_table,
    "wide": _print_wide,
    "name": _print_names,
    "json": _print_json,
    "yaml": _print_yaml,
}


def _document(resources: Iterable[Resource]) -> dict[str, object]:
    """Return the APIResourceList that kubectl 1.34 and newer print; its groupVersion is empty."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "",
        "resources": [_entry(resource) for resource in resources],
    }


def _entry(resource: Resource) -> dict[str, object]:
    """Return the JSON object of a resource, its fields in the order of meta/v1 `APIResource`."""
    optional = {
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "storageVersionHash": resource.storage_version_hash,
    }
    return {
        "name": resource.name,
        "singularName": resource.singular_name,
        "namespaced": resource.is_namespaced,
        **({"group": resource.gv.group} if resource.gv.group else {}),
        "version": resource.gv.version,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **{key: value for key, value in optional.items() if value},
    }
