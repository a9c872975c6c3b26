"""A cluster before its upgrade: the discovery of a release, with objects and metrics."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from apidiscovery_releases import Release
from fake_api_server import NOT_FOUND, Answer, Request, Respond, Routes, document, status
from media_types import aggregated_type

Json = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
STORAGE_VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
SERVICE = "/api/v1/namespaces/shop/services/converter"
FORBIDDEN = status(403, "Forbidden", "nobody may not read it")


def metrics(*called: tuple[str, str, str, str]) -> Answer:
    """Return metrics of calls: group, version, resource, and the release that removes it."""
    lines = ['apiserver_storage_objects{resource="pods"} 3']
    for group, version, resource, removed in called:
        labels = {
            "group": group,
            "removed_release": removed,
            "resource": resource,
            "subresource": "",
            "version": version,
        }
        told = ",".join(f'{name}="{value}"' for name, value in labels.items())
        lines.append(f"apiserver_requested_deprecated_apis{{{told}}} 1")
    return Answer("\n".join([*lines, ""]).encode(), "text/plain; version=0.0.4")


def items(*objects: Mapping[str, object]) -> Answer:
    """Return a list of objects."""
    return document({"kind": "List", "metadata": {}, "items": objects})


def with_condition(name: str, kind: str, value: str, reason: str = "", message: str = "") -> Json:
    """Return an object with one condition."""
    condition = {"type": kind, "status": value, "reason": reason, "message": message}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def crd(
    stored: Sequence[str],
    conversion: Mapping[str, object] | None = None,
    **versions: Mapping[str, object],
) -> Json:
    """Return a definition of widgets with these versions; the last one is stored."""
    last = [*versions][-1]
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "conversion": conversion or {"strategy": "None"},
            "versions": [
                {"name": name, "served": True, "storage": name == last, **fields}
                for name, fields in versions.items()
            ],
        },
        "status": {"storedVersions": list(stored)},
    }


def webhook(**client: object) -> Json:
    """Return a conversion by a webhook."""
    return {"strategy": "Webhook", "webhook": {"clientConfig": client}}


def cluster(name: str = "1.31", changed: Routes | None = None, *more: object) -> Respond:
    """Return the answers of a cluster without objects and without calls in its metrics.

    Args:
        name: The release.
        changed: Other answers, by path.
        more: Groups of the aggregated document, after those of the release.
    """
    release = Release(name)
    apis = json.loads(release.aggregated("/apis"))
    apis["items"] += more
    routes: Routes = {
        "/api": Answer(release.aggregated("/api"), aggregated_type()),
        "/apis": Answer(json.dumps(apis).encode(), aggregated_type()),
        "/version": Answer(release.version_text),
        "/metrics": metrics(),
        CRDS: items(),
        API_SERVICES: items(),
        **(changed or {}),
    }

    def respond(request: Request) -> Answer:
        return routes.get(request.path, NOT_FOUND)

    return respond
