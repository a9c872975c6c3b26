"""Package the responses of a kube-apiserver, for `service/apidiscovery_service/releases`.

The folder of recorded responses is that of an empty server with default settings:

- `version.json`, `api.json`, `apis.json`: `/version`, `/api`, `/apis`;
- `api.v2.json`, `apis.v2.json`, `api.v2beta1.json`, `apis.v2beta1.json`: the latter two aggregated,
  if the release has that form;
- `lists/api__v1.json`, `lists/apis__GROUP__VERSION.json`: the lists of resources;
- `openapi.tar.xz` with `openapi/v3/index.json`, `openapi/v3/apis__GROUP__VERSION.json` for each
  path of the index with `__` for `/`, and `openapi/v2.json`; all JSON, as served.

The folder of CustomResourceDefinitions has documents `apis__GROUP__VERSION.json` that such a server
publishes for some of them; at least one has the subresource `scale`. Their common parts become
`crd.json`, which only the release that is served by default needs.

The same input gives the same archive.

Usage:  python tools/package_release.py RECORDED [CRD_DOCUMENTS] OUTPUT.tar.zst
"""

import io
import json
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import zstandard

_KUBERNETES = ("io.k8s.apimachinery.", "io.k8s.api.")
# In this order, so that discovery is read without unpacking the documents.
_DISCOVERY = (
    *("version.json", "api.json", "apis.json", "api.v2.json", "apis.v2.json"),
    *("api.v2beta1.json", "apis.v2beta1.json"),
)
_LEVEL = 22

JSONObject: TypeAlias = dict[str, Any]


def files(recorded: Path, crds: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of an archive, in order."""
    for name in _DISCOVERY:
        if (recorded / name).exists():
            yield name, (recorded / name).read_bytes()
    for file in sorted((recorded / "lists").iterdir()):
        yield f"lists/{file.name}", file.read_bytes()
    if crds is not None:
        shared = crd_parts(json.loads(file.read_bytes()) for file in sorted(crds.glob("*.json")))
        yield "crd.json", json.dumps(shared, separators=(",", ":"), ensure_ascii=False).encode()
    with tarfile.open(recorded / "openapi.tar.xz") as archive:
        members = {member.name: member for member in archive if member.isfile()}
        index = "openapi/v3/index.json"
        for name in (index, *sorted(members.keys() - {index})):
            content = archive.extractfile(members[name])
            if content is None:
                sys.exit(f"{name} of openapi.tar.xz is no file")
            yield name, content.read()


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


def archived(contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Return files as one compressed archive."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in contents:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return zstandard.ZstdCompressor(level=_LEVEL).compress(plain.getvalue())


def main(arguments: list[str]) -> None:
    """Write the archive."""
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    recorded, *crds, output = map(Path, arguments)
    output.write_bytes(archived(files(recorded, crds[0] if crds else None)))


if __name__ == "__main__":
    main(sys.argv[1:])
