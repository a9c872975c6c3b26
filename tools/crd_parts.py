"""Make `service/apidiscovery_service/openapi/data/crd.json`: what documents of definitions share.

DOCUMENTS is a folder of OpenAPI documents `apis__GROUP__VERSION.json` that a kube-apiserver of the
newest release publishes for CustomResourceDefinitions; at least one has the subresource `scale`.
The result has their schemas of Kubernetes and their parameters. The same input gives the same file.

Usage:  python tools/crd_parts.py DOCUMENTS OUTPUT.json
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

_KUBERNETES = ("io.k8s.apimachinery.", "io.k8s.api.")

JSONObject: TypeAlias = dict[str, Any]


def crd_parts(documents: Iterable[JSONObject]) -> JSONObject:
    """Return the schemas and parameters that the documents of definitions share.

    Parameters are by the action of their operation; those of the path are under `namespace` and
    `pretty`.
    """
    schemas: JSONObject = {}
    parameters: dict[str, list[JSONObject]] = {}
    for document in documents:
        for name, schema in document["components"]["schemas"].items():
            if name.startswith(_KUBERNETES):
                _add(schemas, name, schema)
        for item in document["paths"].values():
            _add_parameters(parameters, item)
    if not any(name.endswith(".Scale") for name in schemas):
        sys.exit("no document has the subresource scale")
    return {
        "schemas": {name: schemas[name] for name in sorted(schemas)},
        "parameters": {name: parameters[name] for name in sorted(parameters)},
    }


def _add_parameters(found: dict[str, list[JSONObject]], item: JSONObject) -> None:
    shared: list[JSONObject] = item.get("parameters", [])
    for parameter in shared:
        if parameter["name"] in ("namespace", "pretty"):
            _add(found, parameter["name"], [parameter])
    of_every = [one for one in shared if one["name"] not in ("name", "namespace", "pretty")]
    for method, operation in item.items():
        if method != "parameters" and "x-kubernetes-action" in operation:
            own = [*of_every, *operation.get("parameters", [])]
            own.sort(key=lambda one: (one["name"], one["in"]))
            _add(found, operation["x-kubernetes-action"], own)


def _add(found: dict[str, Any], name: str, value: object) -> None:
    if found.setdefault(name, value) != value:
        sys.exit(f"{name} is not the same in all documents")


def main(arguments: list[str]) -> None:
    """Write the file."""
    if len(arguments) != 2:  # noqa: PLR2004 - those of the usage
        sys.exit(__doc__)
    documents, output = map(Path, arguments)
    read = (json.loads(file.read_bytes()) for file in sorted(documents.glob("*.json")))
    text = json.dumps(crd_parts(read), separators=(",", ":"), ensure_ascii=False)
    output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
