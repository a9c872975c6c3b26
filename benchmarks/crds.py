"""CustomResourceDefinitions as projects ship them, the same at every run, and applying them."""

import contextlib
import subprocess
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import grpc
import orjson
import yaml
from apidiscovery.service.v1 import registry_pb2, registry_pb2_grpc
from children import UNLIMITED
from processes import child_command, read_line, running

Document: TypeAlias = dict[str, object]

PER_GROUP = 5

# Coprime to every count of definitions used here, so that steps of this size visit all of them.
_STRIDE = 1597

_PARTS = ("Backup", "Policy", "Route", "Tenant", "Volume")
_DESCRIPTION = (
    "{kind} is the schema of the {kind} API: what is wanted, and what was last seen of it."
)

# Definitions in a request, as in a large `kubectl apply`, and concurrent callers.
BATCH, AT_ONCE = 100, 4


def crd(number: int, revision: int = 0) -> Document:
    """Return one definition; another revision differs in one of its categories.

    Each group has five. A definition has about 1.5 kB of JSON: a version with five fields and a
    status, as when it is applied for the first time.
    """
    group = group_name(number)
    kind = f"{_PARTS[number % PER_GROUP]}{number}"
    names: Document = {
        "plural": f"{kind.lower()}s",
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
        "shortNames": [f"{kind[:2].lower()}{number}"],
        "categories": ["all", marker(revision)] if revision else ["all"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": crd_name(number),
            "labels": {"app.kubernetes.io/name": kind.lower(), "app.kubernetes.io/part-of": group},
            "annotations": {"example.com/documentation": f"https://docs.{group}/api/v1/{kind}"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [_version(kind)],
        },
    }


def group_name(number: int) -> str:
    """Return the group of a definition."""
    return f"g{number // PER_GROUP:03d}.example.com"


def crd_name(number: int) -> str:
    """Return the name of a definition."""
    return f"{_PARTS[number % PER_GROUP]}{number}s.{group_name(number)}".lower()


def marker(revision: int) -> str:
    """Return the category that marks a revision in discovery."""
    return f"revision{revision}"


def change(number: int, count: int) -> Document:
    """Return the `number`-th change (from 1) of one definition somewhere among `count`."""
    return crd(number * _STRIDE % count, number)


def _version(kind: str) -> Document:
    return {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": _schema(kind)},
    }


def _schema(kind: str) -> Document:
    fields: Mapping[str, Document] = {
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "schedule": {"type": "string", "description": "When it is done, in the form of cron."},
        "paused": {"type": "boolean", "description": "Whether nothing is done for now."},
        "targets": {"type": "array", "items": {"type": "string"}},
        "settings": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    status: Document = {
        "type": "object",
        "properties": {"phase": {"type": "string"}, "observedGeneration": {"type": "integer"}},
    }
    return {
        "type": "object",
        "description": _DESCRIPTION.format(kind=kind),
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "properties": fields, "required": ["schedule"]},
            "status": status,
        },
    }


def write_folder(folder: Path, count: int, suffix: str) -> Path:
    """Make a folder with a file for each of `count` definitions, `.json` or `.yaml`."""
    folder.mkdir(parents=True)
    for number in range(count):
        content = crd(number)
        if suffix == ".json":
            text = orjson.dumps(content, option=orjson.OPT_INDENT_2)
        else:
            text = yaml.dump(content, Dumper=yaml.CSafeDumper).encode()
        (folder / f"{crd_name(number)}{suffix}").write_bytes(text)
    return folder


def fill(address: str, documents: Iterable[Document]) -> None:
    """Apply documents in batches."""
    texts = list(map(orjson.dumps, documents))
    requests = [
        registry_pb2.ApplyRequest(
            manifests=[
                registry_pb2.ApplyRequest.Manifest(content=text)
                for text in texts[begin : begin + BATCH]
            ]
        )
        for begin in range(0, len(texts), BATCH)
    ]
    with (
        grpc.insecure_channel(address, options=UNLIMITED) as channel,
        ThreadPoolExecutor(AT_ONCE) as callers,
    ):
        apply = registry_pb2_grpc.RegistryServiceStub(channel).Apply
        for waiting in [callers.submit(apply, request, timeout=60.0) for request in requests]:
            waiting.result()


@contextlib.contextmanager
def applying(address: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a process that applies the document of each line."""
    with running(child_command("apply", address), piped=True) as child:
        read_line(child)
        yield child
