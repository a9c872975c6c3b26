"""Objects as a server stores them: fields that it sets, and defaults.

Sources: k8s.io/apiserver pkg/registry/rest/create.go and update.go: BeforeCreate, BeforeUpdate;
k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go and etcd.go.
"""

import uuid
from collections.abc import Iterator, Mapping

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_service.kube import field_messages
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.metadata import finalizers_of, is_terminating, metadata_of
from apidiscovery_service.sources.registrations import published
from apidiscovery_service.sources.registrations.record import Object, RegistrationKind

# Set by the server, whatever a manifest says.
_SET_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_DROPPED = ("managedFields", "selfLink", "resourceVersion", "generateName", *_SET_BY_SERVER)

_TERMINATING: Object = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; "
    "CustomResource deletion will begin soon",
}


def is_deleted(manifest: Mapping[str, JSONValue]) -> bool:
    """Whether an object terminates and has no finalizers, so that writing it deletes it."""
    return is_terminating(manifest) and not finalizers_of(manifest)


def groups_of(kind: RegistrationKind, content: JSONValue) -> frozenset[str]:
    """Return the API groups that a registration concerns."""
    if kind is RegistrationKind.GROUPS:
        return frozenset(placed.name for placed in published.from_json(content))
    return frozenset([str(as_object(as_object(content).get("spec")).get("group") or "")])


def update_violations(manifest: Object, current: Object) -> Iterator[tuple[str, str]]:
    """Yield field and message of changes that a CustomResourceDefinition does not allow.

    Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go:
    validateCustomResourceDefinitionSpecUpdate; k8s.io/apimachinery
    pkg/api/validation/objectmeta.go:ValidateObjectMetaAccessorUpdate.
    """
    before, after = as_object(current.get("spec")), as_object(manifest.get("spec"))
    if _is_established(current):
        kind_before, kind_after = (as_object(s.get("names")).get("kind") for s in (before, after))
        if before.get("scope") != after.get("scope"):
            yield "spec.scope", _immutable(after.get("scope"))
        if kind_before != kind_after:
            yield "spec.names.kind", _immutable(kind_after)
    if is_terminating(current):
        fresh = [name for name in finalizers_of(manifest) if name not in finalizers_of(current)]
        if fresh:
            message = "no new finalizers can be added if the object is being deleted"
            detail = f"{message}, found new finalizers {fresh}"
            yield "metadata.finalizers", field_messages.forbidden(detail)


def _immutable(value: JSONValue) -> str:
    return field_messages.invalid(value, "field is immutable")


def _is_established(manifest: Object) -> bool:
    conditions = map(as_object, as_list(as_object(manifest.get("status")).get("conditions")))
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def with_defaults(kind: RegistrationKind, manifest: Object) -> Object:
    """Return a manifest with the defaults of its kind.

    Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go.
    """
    spec = as_object(manifest.get("spec"))
    if kind is not RegistrationKind.CRD:
        return manifest
    names = as_object(spec.get("names"))
    of_kind = str(names.get("kind") or "")
    defaults = {"singular": of_kind.lower(), "listKind": f"{of_kind}List"}
    names |= {name: value for name, value in defaults.items() if not names.get(name)}
    conversion = as_object(spec.get("conversion")) or {"strategy": "None"}
    webhook = as_object(conversion.get("webhook"))
    client = as_object(webhook.get("clientConfig"))
    service = as_object(client.get("service"))
    if service and service.get("port") is None:
        client = {**client, "service": {**service, "port": 443}}
        conversion = {**conversion, "webhook": {**webhook, "clientConfig": client}}
    return {**manifest, "spec": {**spec, "names": names, "conversion": conversion}}


def created(kind: RegistrationKind, manifest: Object, now: str) -> Object:
    """Return a manifest as a new object."""
    metadata: Object = {"uid": str(uuid.uuid4()), "creationTimestamp": now}
    if kind is RegistrationKind.CRD:
        metadata["generation"] = 1
    return _object(manifest, metadata, None)


def updated(kind: RegistrationKind, manifest: Object, current: Object) -> Object:
    """Return a manifest as the object that takes the place of another."""
    before = metadata_of(current)
    metadata = {name: before[name] for name in _SET_BY_SERVER if name in before}
    generation = before.get("generation")
    former = with_defaults(kind, current)  # older releases stored no defaults
    if isinstance(generation, int) and manifest.get("spec") != former.get("spec"):
        metadata["generation"] = generation + 1
    return _object(manifest, metadata, _status_after(manifest, current))


def _status_after(manifest: Object, current: Object) -> JSONValue:
    """Return the status of an object after its spec is replaced.

    A new storage version is added to `storedVersions`. One that is no longer in the spec is
    dropped, where kube-apiserver would refuse: objects stored in it are not here.
    """
    status = as_object(current.get("status"))
    stored = status.get("storedVersions")
    if not isinstance(stored, list):
        return current.get("status")
    listed = as_list(as_object(manifest.get("spec")).get("versions"))
    versions = {str(v.get("name")): v.get("storage") is True for v in map(as_object, listed)}
    remaining: list[JSONValue] = [name for name in as_list(stored) if name in versions]
    remaining += [name for name, storage in versions.items() if storage and name not in remaining]
    return {**status, "storedVersions": remaining}


def _object(manifest: Object, metadata: Object, status: JSONValue) -> Object:
    given = {k: v for k, v in metadata_of(manifest).items() if k not in _DROPPED}
    made = {k: v for k, v in manifest.items() if k != "status"} | {"metadata": given | metadata}
    return made if status is None else {**made, "status": status}


def terminating(manifest: Object, now: str) -> Object:
    """Return a CustomResourceDefinition that terminates, with the condition that says so."""
    if is_terminating(manifest):
        return manifest
    before = metadata_of(manifest)
    metadata: Object = {**before, "deletionTimestamp": now, "deletionGracePeriodSeconds": 0}
    generation = before.get("generation")
    if isinstance(generation, int):
        metadata["generation"] = generation + 1
    status = as_object(manifest.get("status"))
    others = [
        condition
        for condition in as_list(status.get("conditions"))
        if as_object(condition).get("type") != _TERMINATING["type"]
    ]
    conditions: JSONValue = [*others, {**_TERMINATING, "lastTransitionTime": now}]
    return {**manifest, "metadata": metadata, "status": {**status, "conditions": conditions}}


def with_status(manifest: Object, status: Mapping[str, JSONValue], now: str) -> Object:
    """Return an object with a status; conditions whose `status` is the same keep their time."""
    since = {
        (condition.get("type"), condition.get("status")): condition.get("lastTransitionTime")
        for condition in map(
            as_object, as_list(as_object(manifest.get("status")).get("conditions"))
        )
    }
    conditions: list[JSONValue] = []
    for condition in map(as_object, as_list(status.get("conditions"))):
        at = since.get((condition.get("type"), condition.get("status"))) or now
        conditions.append({**condition, "lastTransitionTime": at})
    return {**manifest, "status": {**status, "conditions": conditions}}
