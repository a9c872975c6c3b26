"""Reading CustomResourceDefinitions into the model."""

from dataclasses import replace

from apidiscovery_service.sources.crds import approval as crd_approval
from apidiscovery_service.sources.crds import validation as crd_validation
from apidiscovery_service.sources.crds.model import (
    Condition,
    CrdVersion,
    CustomResourceDefinition,
    Names,
    StatedStatus,
    packed,
)
from apidiscovery_service.sources.fields import Fields, Findings, Node, object_json

_NAMES = ("plural", "singular", "kind", "listKind", "shortNames", "categories")
_VERSION = (
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
)
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_OBSERVED = ("observedGeneration",)


def read_crd(node: Node) -> CustomResourceDefinition:
    """Return a CustomResourceDefinition that a server has accepted already.

    Schemas are not validated. One that is not structural does not prevent discovery; its kind is
    published as an object without known fields.

    Raises:
        InvalidField: A field is not valid in Kubernetes; `others` has the further ones.
    """
    return _read(node, schemas=False)


def read_applied_crd(node: Node) -> CustomResourceDefinition:
    """Return a CustomResourceDefinition that is applied to this server.

    Schemas have to be valid and structural, also those that an update does not change. Kubernetes
    accepts some errors in these, since its objects may be older than its rules.

    Raises:
        InvalidField: A field is not valid in Kubernetes; `others` has the further ones.
    """
    return _read(node, schemas=True)


def _read(node: Node, *, schemas: bool) -> CustomResourceDefinition:
    findings = Findings()
    top = Fields(node, findings, ("kind", "apiVersion", "metadata", "spec", "status"))
    metadata = top.object("metadata")
    spec = top.required_object(
        "spec", "group", "names", "scope", "versions", "conversion", "preserveUnknownFields"
    )
    annotations = metadata.object("annotations") if metadata else None
    names = _names(spec.required_object("names", *_NAMES))
    versions = spec.objects("versions", *_VERSION)
    read = CustomResourceDefinition(
        name=metadata.text("name") if metadata else "",
        group=spec.text("group"),
        scope=spec.text("scope"),
        names=_with_defaults(names),
        versions=tuple(map(_version, versions)),
        approval=annotations.text(crd_approval.ANNOTATION) if annotations else "",
        created=metadata.text("creationTimestamp") if metadata else "",
        terminating=metadata is not None and metadata.text("deletionTimestamp") != "",
        finalizers=metadata.texts("finalizers") if metadata else (),
        stated=_stated(top),
    )
    crd_validation.check(read, top, spec, versions, schemas=schemas)
    findings.raise_any()
    return read


def _names(fields: Fields) -> Names:
    return Names(
        plural=fields.text("plural"),
        singular=fields.text("singular"),
        kind=fields.text("kind"),
        list_kind=fields.text("listKind"),
        short_names=fields.texts("shortNames"),
        categories=fields.texts("categories"),
    )


def _with_defaults(names: Names) -> Names:
    """Fill in defaults.

    Source: pkg/apis/apiextensions/v1/defaults.go:SetDefaults_CustomResourceDefinitionSpec.
    """
    return replace(
        names,
        singular=names.singular or names.kind.lower(),
        list_kind=names.list_kind or (f"{names.kind}List" if names.kind else ""),
    )


def _version(fields: Fields) -> CrdVersion:
    subresources = fields.object("subresources", "status", "scale")
    return CrdVersion(
        name=fields.text("name"),
        served=fields.flag("served"),
        storage=fields.flag("storage"),
        status=subresources is not None and "status" in subresources,
        scale=subresources is not None and "scale" in subresources,
        packed=packed(object_json(fields.value, fields.path)),
    )


def _stated(top: Fields) -> StatedStatus | None:
    """Return the status; None for an empty one, as generated manifests have."""
    status = top.object("status", "conditions", "acceptedNames", "storedVersions", *_OBSERVED)
    if status is None:
        return None
    accepted = status.object("acceptedNames", *_NAMES)
    names = _names(accepted) if accepted else None
    stated = StatedStatus(
        accepted=None if names == Names("", "", "", "") else names,
        conditions=tuple(map(_condition, status.objects("conditions", *_CONDITION, *_OBSERVED))),
        stored_versions=status.texts("storedVersions"),
    )
    return None if stated == StatedStatus() else stated


def _condition(fields: Fields) -> Condition:
    return Condition(*(fields.text(name) for name in _CONDITION))
