"""The rules that an object must keep before it is stored, with what is said when it does not.

Each function returns causes in Kubernetes' words and order, none for an object that keeps the
rules; `errors.invalid` makes the answer of them. Sources: kubernetes/kubernetes
pkg/apis/apiserverinternal/validation/validation.go; k8s.io/apiserver pkg/registry/rest/create.go
and update.go.
"""

from collections.abc import Iterator, Sequence

from apidiscovery_service.kube.objects import field_errors, formats, object_meta, reading
from apidiscovery_service.kube.objects.errors import Cause
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, Kind, Object
from apidiscovery_service.kube.objects.object_meta import NameRule
from apidiscovery_service.kube.objects.reading import Fields


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


def created(new: Object, kind: Kind) -> list[Cause]:
    """Return what is wrong with an object that is to be created.

    Its system fields (uid, creationTimestamp) and a generated name are filled in.
    """
    metadata = reading.mapping(new, "metadata")
    rule = _NAME_RULES[kind.kind]
    causes = [*object_meta.created(metadata, namespaced=kind.namespaced, name_rule=rule)]
    if kind.kind == STORAGE_VERSION.kind:
        causes += status(reading.mapping(new, "status"))
    return causes


def updated(new: Object, old: Object, kind: Kind) -> list[Cause]:
    """Return what keeps an object from taking the place of an old one, its status apart.

    What is wrong with labels, annotations, owners and managers is reported twice, as upstream
    does; the message has it once.
    """
    metadata = reading.mapping(new, "metadata")
    return [
        *object_meta.created(metadata, namespaced=kind.namespaced, name_rule=_path_segment),
        *object_meta.updated(metadata, reading.mapping(old, "metadata")),
    ]


def status_updated(new: Object, old: Object) -> list[Cause]:
    """Return what keeps a StorageVersion from taking the place of an old one, with its status."""
    return updated(new, old, STORAGE_VERSION) + status(reading.mapping(new, "status"))


def status(fields: Fields) -> list[Cause]:
    """Return what is wrong with the status of a StorageVersion."""
    servers = reading.mappings(fields, "storageVersions")
    return [
        *(
            cause
            for index, server in enumerate(servers)
            for cause in _server(server, f"status.storageVersions[{index}]")
        ),
        *_common_version(fields, servers),
        *_conditions(reading.mappings(fields, "conditions")),
    ]


def _server(server: Fields, field: str) -> Iterator[Cause]:
    server_id = reading.text(server, "apiServerID")
    for error in formats.dns_subdomain(server_id):
        yield field_errors.invalid(f"{field}.apiServerID", server_id, error)
    encoding = reading.text(server, "encodingVersion")
    yield from _version(encoding, f"{field}.encodingVersion")
    decodable = reading.strings(server, "decodableVersions")
    for index, version in enumerate(decodable):
        yield from _version(version, f"{field}.decodableVersions[{index}]")
    if encoding not in decodable:
        yield field_errors.invalid(
            f"{field}.decodableVersions",
            decodable or None,
            f"decodableVersions must include encodingVersion {encoding}",
        )
    for index, version in enumerate(reading.strings(server, "servedVersions")):
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
    versions = {reading.text(server, "encodingVersion") for server in servers}
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
        kind = reading.text(condition, "type")
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
    kind = reading.text(condition, "type")
    for name in ("type", "status"):
        for error in formats.qualified_name(reading.text(condition, name)):
            # Upstream shows the type also when it is the status that is wrong.
            yield field_errors.invalid(f"{field}.{name}", kind, error)
    for name in ("reason", "message"):
        if not reading.text(condition, name):
            yield field_errors.required(f"{field}.{name}", f"{name} cannot be empty")
