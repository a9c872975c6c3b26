"""Manifests and registrations, and functions to apply and read them."""

import json

from apidiscovery_formats.json_values import as_list, as_object
from apidiscovery_service.core.model import Freshness
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.registrations.published import (
    PlacedGroup,
)
from apidiscovery_service.sources.registrations.record import Object
from apidiscovery_service.sources.registrations.requests import (
    Application,
    ApplyResult,
    Manifest,
    Publication,
    Query,
    Registered,
    Requester,
)
from crd_manifests import simple
from registry_server import Replica

ANYBODY = Requester()
CURRENT = {"v1": Freshness.CURRENT}


def group(name: str, *versions: str, resources: tuple[str, ...] = ("widgets",)) -> Object:
    listed: list[JSONValue] = [
        {"resource": plural, "scope": "Namespaced", "verbs": ["get", "list"]}
        for plural in resources
    ]
    return {
        "metadata": {"name": name},
        "versions": [
            {"version": v, "resources": listed, "freshness": "Current"} for v in versions or ("v1",)
        ],
    }


def publication(name: str = "east", *groups: PlacedGroup, **others: object) -> Publication:
    placed = groups or (PlacedGroup(group(f"{name}.example.com")),)
    return Publication(name, placed, **others)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def crd(plural: str = "widgets", **spec: JSONValue) -> Object:
    singular = plural.removesuffix("s")
    made = simple(plural, "example.com", singular=singular, kind=singular.capitalize())
    return {**made, "spec": {**made["spec"], **spec}}


def api_service(group_name: str = "metrics.example.com") -> Object:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group_name}"},
        "spec": {
            "group": group_name,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "metrics"},
            "insecureSkipTLSVerify": True,
        },
    }


def discovery_list(*groups: Object) -> Object:
    return {
        "apiVersion": "apidiscovery.k8s.io/v2",
        "kind": "APIGroupDiscoveryList",
        "items": list(groups),
    }


def manifest(*documents: Object, list_name: str = "", file: str = "") -> Manifest:
    return Manifest("\n---\n".join(map(json.dumps, documents)).encode(), file, list_name)


def with_metadata(document: Object, **metadata: JSONValue) -> Object:
    return {**document, "metadata": {**as_object(document["metadata"]), **metadata}}


async def apply(replica: Replica, *documents: Object, **others: object) -> list[ApplyResult]:
    application = Application((manifest(*documents, list_name="lists"),), **others)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    return list(await replica.registrations.apply(application, ANYBODY))


def content(written: ApplyResult) -> Object:
    return as_object(written.registered.record.content)


def conditions(written: ApplyResult | Registered) -> dict[str, str]:
    registered = written.registered if isinstance(written, ApplyResult) else written
    status = as_object(as_object(registered.record.content).get("status"))
    listed = map(as_object, as_list(status.get("conditions")))
    return {str(c["type"]): f"{c['status']} {c['reason']}" for c in listed}


async def stored(replica: Replica, **query: object) -> list[Registered]:
    page = await replica.registrations.list(Query(**query))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert page.next_after is None
    return list(page.registered)
