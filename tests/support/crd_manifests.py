"""CustomResourceDefinitions and APIServices as documents."""

from copy import deepcopy
from typing import Any

from apidiscovery_service.sources.crds.model import CustomResourceDefinition
from apidiscovery_service.sources.crds.reading import read_crd
from apidiscovery_service.sources.fields import InvalidField, Node, path_text

SCHEMA: dict[str, Any] = {"openAPIV3Schema": {"type": "object"}}

# The definition of the project's conformance checks.
CRONTABS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "crontabs.stable.example.com"},
    "spec": {
        "group": "stable.example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "crontabs",
            "kind": "CronTab",
            "shortNames": ["ct"],
            "categories": ["all"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": SCHEMA,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
            },
            {"name": "v1beta1", "served": True, "storage": False, "schema": SCHEMA},
            {"name": "v2alpha1", "served": False, "storage": False, "schema": SCHEMA},
        ],
    },
}

API_SERVICE: dict[str, Any] = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.remote.example.com"},
    "spec": {
        "group": "remote.example.com",
        "version": "v1",
        "groupPriorityMinimum": 2000,
        "versionPriority": 20,
        "service": {"namespace": "default", "name": "remote"},
    },
}


def edited(document: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    """Return a copy with a field such as `spec.versions[0].name` changed; `...` removes it."""
    copy = deepcopy(document)
    steps = field.replace("[", ".").replace("]", "").split(".")
    *way, last = [int(step) if step.isdigit() else step for step in steps]
    place: Any = copy
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return copy


def simple(plural: str, group: str = "a.example", **fields: object) -> dict[str, Any]:
    """Return a CustomResourceDefinition of one version.

    Args:
        plural: The kind is the same with a capital letter, without the last letter.
        group: The group.
        fields: Fields of `names`, as `kind` and `shortNames`; `created` and `status`.
    """
    metadata: dict[str, Any] = {"name": f"{plural}.{group}"}
    if created := fields.pop("created", None):
        metadata["creationTimestamp"] = created
    status = {"status": found} if (found := fields.pop("status", None)) is not None else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural[:-1].capitalize(), **fields},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}],
        },
        **status,
    }


def nested_schema(levels: int) -> dict[str, Any]:
    """Return a schema of objects within objects, each of which takes two levels."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels // 2):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def crd(document: object) -> CustomResourceDefinition:
    return read_crd(Node(document))


def told(error: InvalidField) -> list[str]:
    """Return the wrong fields of an error, each with the reason."""
    return [f"{path_text(one.path)}: {one}" for one in (error, *error.others)]
