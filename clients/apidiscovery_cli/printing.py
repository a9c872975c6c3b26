"""Tables, JSON and YAML, to the byte as kubectl prints them.

Source: kubernetes/kubectl pkg/cmd/apiresources/print_flags.go.
"""

from collections.abc import Iterable, Sequence
from typing import cast

from apidiscovery_client._terminal import printable
from apidiscovery_client.model import Resource
from apidiscovery_formats import go_json


def json_text(value: object) -> str:
    """Return indented JSON as cli-runtime printers/json.go writes it, with a line feed."""
    return go_json.dumps_indented(value, 4) + "\n"


def yaml_text(value: object) -> str:
    """Return block YAML, keys sorted, as cli-runtime printers/yaml.go writes it."""
    from apidiscovery_formats import go_yaml  # noqa: PLC0415 - slow, and rarely needed

    return go_yaml.text(cast("go_json.JSONValue", value))


_HEADERS = ("NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND")
_WIDE_HEADERS = (*_HEADERS, "VERBS", "CATEGORIES")

_MIN_WIDTH = 6
_PADDING = 3


def table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return the rows as lines, every column but the last padded to its widest cell.

    The widths are those of cli-runtime printers/tabwriter.go `GetNewTabWriter`, counted in code
    points, of what is safe for a terminal: names come from servers.

    >>> print(table([("NAME", "KIND"), ("pods", "Pod")]), end="")
    NAME   KIND
    pods   Pod
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [
        max(_MIN_WIDTH, *(len(cell) + _PADDING for cell in column))
        for column in zip(*cells, strict=True)
    ]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        + f"{row[-1]}\n"
        for row in cells
    )


# The first is the default, a table.
OUTPUTS = ("", "wide", "name", "json", "yaml")


def print_resources(resources: Sequence[Resource], output: str, *, headers: bool) -> str:
    """Return the text of `select`'s resources in one of `OUTPUTS`."""
    match output:
        case "name":
            return "".join(f"{printable(r.gvr.group_resource)}\n" for r in resources)
        case "json":
            return json_text(_document(resources))
        case "yaml":
            return yaml_text(_document(resources))
        case "wide":
            rows = [(*_row(r), ",".join(r.verbs), ",".join(r.categories)) for r in resources]
            return table([*([_WIDE_HEADERS] if headers else []), *rows])
        case _:
            return table([*([_HEADERS] if headers else []), *map(_row, resources)])


def _row(resource: Resource) -> tuple[str, ...]:
    return (
        resource.name,
        ",".join(resource.short_names),
        str(resource.gv),
        "true" if resource.is_namespaced else "false",
        resource.kind,
    )


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
