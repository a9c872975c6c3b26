"""Validates objects before they are stored.

Each function returns causes in Kubernetes' words and order, none for a valid object;
`errors.invalid` makes the answer of them. Where upstream iterates over a map in any order, this
module does so in the order of the keys.

Sources: k8s.io/apimachinery pkg/api/validation/objectmeta.go and
pkg/apis/meta/v1/validation/validation.go; kubernetes/kubernetes
pkg/apis/apiserverinternal/validation/validation.go; k8s.io/apiserver pkg/registry/rest/create.go
and update.go.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.objects import field_errors, formats, json_fields
from apidiscovery_service.kube.objects.errors import Cause
from apidiscovery_service.kube.objects.json_fields import Fields
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, Object, ObjectKind

NameRule: TypeAlias = Callable[[str, bool], list[str]]
"""Validates a name or, if the flag is set, the beginning of one."""

ANNOTATIONS_MAX = 256 * 1024

_IMMUTABLE = "field is immutable"
_MANAGER_MAX = 128
_SUBRESOURCE_MAX = 256


def _metadata_created(
    metadata: Fields, *, namespaced: bool, name_rule: NameRule
) -> Iterator[Cause]:
    """Validate the metadata of a new object; its name has been generated."""
    generate_name = json_fields.text(metadata, "generateName")
    if generate_name:
        for error in name_rule(generate_name, True):  # noqa: FBT003 - Kubernetes' signature
            yield field_errors.invalid("metadata.generateName", generate_name, error)
    name = json_fields.text(metadata, "name")
    if not name:
        yield field_errors.required("metadata.name", "name or generateName is required")
    else:
        for error in name_rule(name, False):  # noqa: FBT003
            yield field_errors.invalid("metadata.name", name, error)
    yield from _namespace(json_fields.text(metadata, "namespace"), namespaced=namespaced)
    yield from _generation(metadata)
    yield from _maps(metadata)
    yield from _owners(json_fields.mappings(metadata, "ownerReferences"))
    yield from _finalizers(json_fields.strings(metadata, "finalizers"))
    yield from _managers(json_fields.mappings(metadata, "managedFields"))


def _metadata_updated(metadata: Fields, old: Fields) -> Iterator[Cause]:
    """Validate the metadata of an object that replaces one with the metadata `old`."""
    if old.get("deletionTimestamp") is not None:
        yield from _no_new_finalizers(metadata, old)
    if not json_fields.text(metadata, "resourceVersion"):
        yield field_errors.invalid(
            "metadata.resourceVersion", "", "must be specified for an update"
        )
    yield from _generation(metadata)
    generation = json_fields.integer(metadata, "generation")
    if generation < json_fields.integer(old, "generation"):
        yield field_errors.invalid("metadata.generation", generation, "must not be decremented")
    for field in ("name", "namespace", "uid"):
        value = json_fields.text(metadata, field)
        if value != json_fields.text(old, field):
            yield field_errors.invalid(f"metadata.{field}", value, _IMMUTABLE)
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(field) != old.get(field):
            yield field_errors.invalid(f"metadata.{field}", metadata.get(field), _IMMUTABLE)
    yield from _maps(metadata)
    yield from _owners(json_fields.mappings(metadata, "ownerReferences"))
    yield from _managers(json_fields.mappings(metadata, "managedFields"))


def _namespace(namespace: str, *, namespaced: bool) -> Iterator[Cause]:
    field = "metadata.namespace"
    if not namespaced:
        if namespace:
            yield field_errors.forbidden(field, "not allowed on this type")
    elif not namespace:
        yield field_errors.required(field, "")
    else:
        for error in formats.dns_label(namespace):
            yield field_errors.invalid(field, namespace, error)


def _generation(metadata: Fields) -> Iterator[Cause]:
    generation = json_fields.integer(metadata, "generation")
    if generation < 0:
        yield field_errors.invalid(
            "metadata.generation", generation, "must be greater than or equal to 0"
        )


def _maps(metadata: Fields) -> Iterator[Cause]:
    for key, value in sorted(json_fields.string_map(metadata, "labels").items()):
        for error in formats.qualified_name(key):
            yield field_errors.invalid("metadata.labels", key, error)
        for error in formats.label_value(value):
            yield field_errors.invalid("metadata.labels", value, error)
    annotations = json_fields.string_map(metadata, "annotations")
    for key in sorted(annotations):
        # As a label's key, but a prefix may have capital letters.
        for error in formats.qualified_name(key.lower()):
            yield field_errors.invalid("metadata.annotations", key, error)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_MAX:
        yield field_errors.too_long("metadata.annotations", ANNOTATIONS_MAX)


def _owners(owners: Sequence[Fields]) -> Iterator[Cause]:
    field = "metadata.ownerReferences"
    first = ""
    for index, owner in enumerate(owners):
        yield from _owner(owner, f"{field}[{index}]")
        if owner.get("controller") is not True:
            continue
        name = f"{json_fields.text(owner, 'kind')}/{json_fields.text(owner, 'name')}"
        if first:
            yield field_errors.invalid(
                field,
                owners,
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {first} and {name}',
            )
        first = first or name


def _owner(owner: Fields, field: str) -> Iterator[Cause]:
    api_version = json_fields.text(owner, "apiVersion")
    version = "" if api_version.count("/") > 1 else api_version.rpartition("/")[2]
    if api_version and not version:
        yield field_errors.invalid(
            f"{field}.apiVersion", api_version, "must be <group>/<version> or <version>"
        )
    for name in ("apiVersion", "kind", "name", "uid"):
        if not json_fields.text(owner, name):
            yield field_errors.required(f"{field}.{name}", "must not be empty")
    if (api_version, json_fields.text(owner, "kind")) == ("v1", "Event"):
        yield field_errors.invalid(
            field, owner, "/v1, Kind=Event is disallowed from being an owner"
        )


def _finalizers(finalizers: Sequence[str]) -> Iterator[Cause]:
    field = "metadata.finalizers"
    for finalizer in finalizers:
        for error in formats.qualified_name(finalizer):
            yield field_errors.invalid(field, finalizer, error)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield field_errors.invalid(
            field, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"
        )


def _no_new_finalizers(metadata: Fields, old: Fields) -> Iterator[Cause]:
    before = json_fields.strings(old, "finalizers")
    new = sorted(set(json_fields.strings(metadata, "finalizers")) - set(before))
    if new:
        # Upstream prints the list as Go source.
        shown = f"[]string{{{', '.join(map(quote, new))}}}"
        yield field_errors.forbidden(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers {shown}",
        )


def _managers(entries: Sequence[Fields]) -> Iterator[Cause]:
    for index, entry in enumerate(entries):
        field = f"metadata.managedFields[{index}]"
        operation = json_fields.text(entry, "operation")
        if not operation:
            yield field_errors.required(f"{field}.operation", "must not be empty")
        elif operation not in {"Apply", "Update"}:
            yield field_errors.not_supported(f"{field}.operation", operation, ("Apply", "Update"))
        fields_type = json_fields.text(entry, "fieldsType")
        if fields_type not in {"", "FieldsV1"}:
            yield field_errors.invalid(f"{field}.fieldsType", fields_type, "must be `FieldsV1`")
        yield from manager(json_fields.text(entry, "manager"), f"{field}.manager")
        if len(json_fields.text(entry, "subresource").encode()) > _SUBRESOURCE_MAX:
            yield field_errors.too_long(f"{field}.subresource", _SUBRESOURCE_MAX)


def manager(name: str, field: str) -> Iterator[Cause]:
    """Validate the name of a field manager."""
    if len(name.encode()) > _MANAGER_MAX:
        yield field_errors.too_long(field, _MANAGER_MAX)
    position = 0
    for character in name:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            yield field_errors.invalid(field, name, detail)
        position += len(character.encode())


def _storage_version_name(name: str, prefix: bool) -> list[str]:  # noqa: FBT001 - a NameRule
    del prefix  # upstream checks generateName as if it were the name
    return formats.storage_version_name(name)


def _subdomain(name: str, prefix: bool) -> list[str]:  # noqa: FBT001 - a NameRule
    return formats.dns_subdomain(formats.without_trailing_dash(name) if prefix else name)


def _path_segment(name: str, prefix: bool) -> list[str]:  # noqa: FBT001 - a NameRule
    return formats.path_segment_prefix(name) if prefix else formats.path_segment(name)


_NAME_RULES: dict[str, NameRule] = {
    STORAGE_VERSION.kind: _storage_version_name,
    LEASE.kind: _subdomain,
}


def created(new: Object, kind: ObjectKind) -> list[Cause]:
    """Validate a new object; its system fields and a generated name are filled in."""
    metadata = json_fields.mapping(new, "metadata")
    rule = _NAME_RULES[kind.kind]
    causes = [*_metadata_created(metadata, namespaced=kind.namespaced, name_rule=rule)]
    if kind.kind == STORAGE_VERSION.kind:
        causes += status(json_fields.mapping(new, "status"))
    return causes


def updated(new: Object, old: Object, kind: ObjectKind) -> list[Cause]:
    """Validate an object that replaces an old one, without its status.

    Errors of labels, annotations, owners and managers are reported twice, as upstream does; the
    message has them once.
    """
    metadata = json_fields.mapping(new, "metadata")
    return [
        *_metadata_created(metadata, namespaced=kind.namespaced, name_rule=_path_segment),
        *_metadata_updated(metadata, json_fields.mapping(old, "metadata")),
    ]


def status_updated(new: Object, old: Object) -> list[Cause]:
    """Validate a StorageVersion with its status that replaces an old one."""
    return updated(new, old, STORAGE_VERSION) + status(json_fields.mapping(new, "status"))


def status(fields: Fields) -> list[Cause]:
    """Validate the status of a StorageVersion."""
    servers = json_fields.mappings(fields, "storageVersions")
    return [
        *(
            cause
            for index, server in enumerate(servers)
            for cause in _server(server, f"status.storageVersions[{index}]")
        ),
        *_common_version(fields, servers),
        *_conditions(json_fields.mappings(fields, "conditions")),
    ]


def _server(server: Fields, field: str) -> Iterator[Cause]:
    server_id = json_fields.text(server, "apiServerID")
    for error in formats.dns_subdomain(server_id):
        yield field_errors.invalid(f"{field}.apiServerID", server_id, error)
    encoding = json_fields.text(server, "encodingVersion")
    yield from _version(encoding, f"{field}.encodingVersion")
    decodable = json_fields.strings(server, "decodableVersions")
    for index, version in enumerate(decodable):
        yield from _version(version, f"{field}.decodableVersions[{index}]")
    if encoding not in decodable:
        yield field_errors.invalid(
            f"{field}.decodableVersions",
            decodable or None,
            f"decodableVersions must include encodingVersion {encoding}",
        )
    for index, version in enumerate(json_fields.strings(server, "servedVersions")):
        place = f"{field}.servedVersions[{index}]"
        yield from _version(version, place)
        if version not in decodable:
            yield field_errors.invalid(
                place,
                version,
                f"individual served version : {version} must be included in "
                f"decodableVersions : [{' '.join(decodable)}]",
            )


def _version(version: str, field: str) -> Iterator[Cause]:
    errors = formats.api_version(version)
    if errors:
        yield field_errors.invalid(field, version, ",".join(errors))


def _common_version(fields: Fields, servers: Sequence[Fields]) -> Iterator[Cause]:
    field = "status.commonEncodingVersion"
    # A pointer in Go: an empty string is a value, and not the same as none.
    given = fields.get("commonEncodingVersion")
    versions = {json_fields.text(server, "encodingVersion") for server in servers}
    if len(versions) != 1:
        if given is not None:
            yield field_errors.invalid(
                field,
                given,
                "should be nil if servers do not agree on the same encoding version, "
                "or if there is no server reporting the supported versions yet",
            )
        return
    (actual,) = versions
    if given is None:
        yield field_errors.invalid(field, None, f"the common encoding version is {actual}")
    elif given != actual:
        yield field_errors.invalid(field, given, f"the actual common encoding version is {actual}")


def _conditions(conditions: Sequence[Fields]) -> Iterator[Cause]:
    last_seen = dict[str, int]()
    for index, condition in enumerate(conditions):
        # Without `.conditions`: so upstream has it.
        field = f"status[{index}]"
        kind = json_fields.text(condition, "type")
        if kind in last_seen:
            yield field_errors.invalid(
                f"{field}.type",
                kind,
                "the type of the condition is not unique, "
                f"it also appears in conditions[{last_seen[kind]}]",
            )
        last_seen[kind] = index
        yield from _condition(condition, field)


def _condition(condition: Fields, field: str) -> Iterator[Cause]:
    kind = json_fields.text(condition, "type")
    for name in ("type", "status"):
        for error in formats.qualified_name(json_fields.text(condition, name)):
            # Upstream shows the type also when it is the status that is wrong.
            yield field_errors.invalid(f"{field}.{name}", kind, error)
    for name in ("reason", "message"):
        if not json_fields.text(condition, name):
            yield field_errors.required(f"{field}.{name}", f"{name} cannot be empty")
