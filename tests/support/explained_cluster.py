"""An API server of recorded discovery and OpenAPI documents, and one of edge cases."""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from fake_api_server import Answer, Routes, document, openapi_routes
from media_types import aggregated_type
from repository import GOLDEN

REAL = (GOLDEN / "openapi-v3", GOLDEN / "crds" / "openapi")
COMMANDS = GOLDEN / "explain" / "commands.txt"
ANSWERS = GOLDEN / "explain" / "answers.json.gz"

_SCHEMA = "#/components/schemas/"
_LONG = "https://example.com/" + "a-very-long-word/" * 8
_PARAGRAPHS = (
    "First paragraph with  two spaces, a\ttab and a no-break\u00a0space, until the line is full."
    "\n\n  Indented second one: " + _LONG + " and on.\n"
    "\n- a list\n- of 項目と絵文字 🎉 that are wider than they are long, which nobody counts\r\n"
    "ends with spaces   \n\n\n"
)


def commands() -> list[str]:
    """Return the arguments of every `explain` whose answer is recorded, one line each."""
    return COMMANDS.read_text().splitlines()


def answers() -> dict[str, tuple[int, str, str]]:
    """Return exit code, stdout and stderr of kubectl, by command."""
    recorded: dict[str, tuple[int, str, str]] = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    return {command: (code, out, err) for command, (code, out, err) in recorded.items()}


def real_documents() -> dict[str, bytes]:
    """Return recorded documents by key."""
    return {key: gzip.decompress(file.read_bytes()) for key, file in _files()}


def _files() -> Iterator[tuple[str, Path]]:
    for folder in REAL:
        for file in sorted(folder.glob("api*.json.gz")):
            yield file.name.removesuffix(".json.gz").replace("__", "/"), file


def cluster() -> Routes:
    """Return the answers of a server with Kubernetes' own APIs, real CRDs and edge cases."""
    edge = json.dumps(edge_document()).encode()
    return {
        **discovery(),
        **openapi_routes({**real_documents(), "apis/example.com/v1": edge}),
        "/version": document({"major": "1", "minor": "32", "gitVersion": "v1.32.4"}),
    }


def discovery() -> Routes:
    built_in = json.loads((GOLDEN / "builtin" / "apis.v2.json").read_bytes())
    crds = json.loads((GOLDEN / "crds" / "apis.v2.json").read_bytes())
    names = {item["metadata"]["name"] for item in built_in["items"]}
    more = [item for item in crds["items"] if item["metadata"]["name"] not in names]
    built_in["items"] += [*more, _EDGE_GROUP, _OTHER_GROUP]
    core = (GOLDEN / "builtin" / "api.v2.json").read_bytes()
    return {
        "/api": Answer(core, aggregated_type()),
        "/apis": document(built_in, aggregated_type()),
    }


def _resource(plural: str, kind: str, group: str, version: str, *short: str) -> dict[str, object]:
    return {
        "resource": plural,
        "responseKind": {"group": group, "version": version, "kind": kind},
        "scope": "Namespaced",
        "singularResource": plural.removesuffix("s"),
        "verbs": ["get"],
        "shortNames": list(short),
    }


_EDGE_GROUP = {
    "metadata": {"name": "example.com"},
    "versions": [
        {
            "version": version,
            "resources": [
                _resource("widgets", "Widget", "example.com", version, "wd"),
                _resource("nowheres", "Nowhere", "example.com", version),
                _resource("unknowns", "Unknown", "example.com", version),
            ],
        }
        for version in ("v1", "v2")
    ],
}
_OTHER_GROUP = {
    "metadata": {"name": "example.com.other"},
    "versions": [
        {
            "version": "v1",
            "resources": [
                _resource("widgets", "Widget", "example.com.other", "v1", "wd"),
                _resource("gadgets", "Gadget", "example.com.other", "v1", "wd"),
            ],
        }
    ],
}


def edge_document() -> dict[str, object]:
    """Return a document with schemas that are rare in real ones."""
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    unknown = {**kind, "kind": "Unknown"}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Edge", "version": "v1"},
        "paths": {
            "/apis/example.com/v1/widgets": {"get": {}, "post": _operation(kind)},
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}": {"get": _operation(kind)},
            "/apis/example.com/v1/unknowns": {"get": _operation(unknown)},
        },
        "components": {"schemas": _edge_schemas(kind)},
    }


def _operation(kind: Mapping[str, str]) -> dict[str, object]:
    return {
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": kind,
    }


def _edge_schemas(kind: Mapping[str, str]) -> dict[str, object]:
    tree = {"$ref": _SCHEMA + "example.Tree"}
    part = {"$ref": _SCHEMA + "example.Part"}
    return {
        "example.Widget": {
            "description": _PARAGRAPHS,
            "type": "object",
            "required": ["spec", "names"],
            "properties": {"spec": _edge_spec(), "names": {"type": "array", "items": {
                "type": "array", "items": {"type": "string"}}}},
            "x-kubernetes-group-version-kind": [{**kind, "kind": "Other"}, kind],
        },
        "example.Part": {
            "description": "A part.\n\nOf two paragraphs.",
            "type": "object",
            "properties": {"weight": {"type": "number", "description": "In grams."}},
        },
        "example.Tree": {
            "description": "A tree.",
            "type": "object",
            "required": ["children"],
            "properties": {
                "children": {"type": "array", "items": tree, "description": "Trees below."},
                "byName": {"type": "object", "additionalProperties": tree},
                "part": {"allOf": [part], "description": "Its part.", "default": {}},
            },
        },
        "example.Text": {"type": "string", "format": "date-time", "description": "A text."},
        "example.Extended": {
            "allOf": [part, {"properties": {"color": {"type": "string", "enum": ["red", "blue"]}}}],
            "properties": {"own": {"type": "boolean"}},
        },
    }  # fmt: skip


def _edge_spec() -> dict[str, object]:
    anything = [1, 1.5, 1000000, 123456789, 1e21, 2.5e-7, True, None, [1, "a"], {"b": 1, "a": None}]
    return {
        "type": "object",
        "description": "",
        "properties": {
            "any": {"description": "No type."},
            "anyMap": {"type": "object", "additionalProperties": True},
            "chain": {"type": "object", "additionalProperties": {
                "type": "object", "additionalProperties": {"type": "integer"}}},
            "elsewhere": {"$ref": "https://example.com/schemas#/Thing"},
            "enumFew": {"type": "string", "enum": ["", "a", "b"], "description": "Few."},
            "enumMany": {"type": "string", "enum": ["a", "b", "c", "d", "e"]},
            "enumMixed": {"enum": anything, "type": "string"},
            "enumNumbers": {"type": "number", "enum": [0, -1, 100000, 0.0001, 0.00001, 1e20]},
            "extended": {"$ref": _SCHEMA + "example.Extended"},
            "intOrString": {"anyOf": [{"type": "integer"}, {"type": "string"}],
                            "x-kubernetes-int-or-string": True},
            "long": {"type": "string", "description": _LONG * 2},
            "missing": {"$ref": _SCHEMA + "example.Missing"},
            "paragraphs": {"type": "string", "description": _PARAGRAPHS},
            "text": {"$ref": _SCHEMA + "example.Text"},
            "tree": {"$ref": _SCHEMA + "example.Tree"},
            "trees": {"type": "array", "items": {
                "allOf": [{"$ref": _SCHEMA + "example.Tree"}], "default": {}}},
            "wrapped": {"allOf": [{"$ref": _SCHEMA + "example.Text"}], "description": "Wrapped."},
        },
    }  # fmt: skip
