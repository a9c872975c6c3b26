"""Kinds of registrations; registrations and sources as objects and tables, in kubectl's forms."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias, cast

import click
from apidiscovery.service.v1 import discovery_pb2, registry_pb2
from apidiscovery_client import DiscoveryError
from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.go_text import human_duration
from apidiscovery_formats.json_values import as_list, as_object
from apidiscovery_formats.times import time_text
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp

from apidiscovery_cli.printing import json_text, table, yaml_text

Object: TypeAlias = dict[str, JSONValue]

WRITERS: Mapping[str, Callable[[object], str]] = {"json": json_text, "yaml": yaml_text}

_FILES = (".json", ".yaml", ".yml")
_UNKNOWN = "<unknown>"
_SHOWN_NAMES = 3
_STATES = {
    registry_pb2.REGISTRATION_STATE_CURRENT: "Current",
    registry_pb2.REGISTRATION_STATE_STALE: "Stale",
}
_SOURCE_STATES = {
    discovery_pb2.SOURCE_STATE_CURRENT: "Current",
    discovery_pb2.SOURCE_STATE_STALE: "Stale",
    discovery_pb2.SOURCE_STATE_PENDING: "Pending",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of registrations.

    Attributes:
        number: Its number in registry.proto.
        prefix: Singular resource and group, which kubectl prints before the slash.
        plural: Resource and group in errors of API servers.
        api_kind: The kind in a manifest.
        api_group: The group in a manifest.
        words: Its names on the command line, the first one for help.
    """

    number: registry_pb2.RegistrationKind.ValueType
    prefix: str
    plural: str
    api_kind: str
    api_group: str
    words: tuple[str, ...]

    @property
    def aliases(self) -> Iterator[str]:
        """Its names on the command line, also followed by the group."""
        for word in self.words:
            yield word
            yield f"{word}.{self.api_group}"


CRD = Kind(
    registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION,
    "customresourcedefinition.apiextensions.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "CustomResourceDefinition",
    "apiextensions.k8s.io",
    ("crds", "crd", "customresourcedefinitions", "customresourcedefinition"),
)
API_SERVICE = Kind(
    registry_pb2.REGISTRATION_KIND_API_SERVICE,
    "apiservice.apiregistration.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "APIService",
    "apiregistration.k8s.io",
    ("apiservices", "apiservice"),
)
GROUPS = Kind(
    registry_pb2.REGISTRATION_KIND_GROUPS,
    "groups",
    "groups",
    "APIGroupDiscoveryList",
    "apidiscovery.k8s.io",
    ("groups", "group", "registrations", "registration"),
)
KINDS = (CRD, API_SERVICE, GROUPS)

_BY_NUMBER = {kind.number: kind for kind in KINDS}
_BY_ALIAS = {alias: kind for kind in KINDS for alias in kind.aliases}


def of_number(number: registry_pb2.RegistrationKind.ValueType) -> Kind:
    """Return the kind with a number; an unknown one is named by its number."""
    unknown = Kind(number, f"kind-{number}", f"kind-{number}", "", "", ())
    return _BY_NUMBER.get(number, unknown)


def of_word(word: str) -> Kind:
    """Return the kind with a name, in any case; raise `click.UsageError` for none."""
    kind = _BY_ALIAS.get(word.lower())
    if kind is None:
        known = ", ".join(kind.words[0] for kind in KINDS)
        hint = "; files are given with -f" if word.endswith(_FILES) else ""
        raise click.UsageError(f"there is no type {word!r}, only {known}{hint}")
    return kind


def named(words: Sequence[str]) -> list[tuple[Kind, str]]:
    """Return the kinds and names in `TYPE NAME...` or `TYPE/NAME...`, in order, without duplicates.

    The name is empty for a type alone. Raises `click.UsageError` for anything else.

    Source: kubectl's resource arguments, cli-runtime pkg/resource/builder.go
    `ResourceTypeOrNameArgs`.
    """
    if not any("/" in word for word in words):
        kind = of_word(words[0])
        return list(dict.fromkeys((kind, name) for name in words[1:] or ("",)))
    found: list[tuple[Kind, str]] = []
    for word in words:
        type_, slash, name = word.partition("/")
        if not (slash and name) or "/" in name:
            raise click.UsageError(f"want TYPE/NAME everywhere or nowhere, got {word!r}")
        found.append((of_word(type_), name))
    return list(dict.fromkeys(found))


def short_name(registration: registry_pb2.Registration) -> str:
    """Return it as kubectl's -o name does: `apiservice.apiregistration.k8s.io/v1.example.com`."""
    return f"{of_number(registration.kind).prefix}/{registration.name}"


def object_of(registration: registry_pb2.Registration) -> Object:
    """Return the manifest, with the revision as its resourceVersion, keys sorted.

    So it can be edited and applied again, and is refused after a concurrent change. Groups become a
    discovery list with a name, which Kubernetes' own lists do not have.
    """
    if registration.WhichOneof("content") == "groups":
        fields = _discovery_list(registration.groups)
        metadata: Object = {"name": registration.name}
    else:
        fields = _manifest(registration)
        metadata = as_object(fields.get("metadata"))
    metadata = {**metadata, "resourceVersion": str(registration.revision)}
    return _sorted({**fields, "metadata": metadata})


def _discovery_list(groups: registry_pb2.PublishedGroups) -> Object:
    items = [
        {**MessageToDict(published.group), "metadata": {"name": published.group.metadata.name}}
        for published in groups.groups
    ]
    return {
        "apiVersion": "apidiscovery.k8s.io/v2",
        "kind": "APIGroupDiscoveryList",
        "items": items,
    }


def _manifest(registration: registry_pb2.Registration) -> Object:
    try:
        fields = cast("object", json.loads(registration.manifest))
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise DiscoveryError(f"{short_name(registration)}: the server sent no JSON object")
    return cast("Object", fields)


def _sorted(value: Object) -> Object:
    """Return the object with the keys of every level in order, as Go writes maps."""
    return cast("Object", json.loads(json.dumps(value, sort_keys=True)))


def document(objects: Sequence[Object], *, always_list: bool) -> Object:
    """Return the one object, or a `List` of all, as kubectl get and kubectl apply print them."""
    if len(objects) == 1 and not always_list:
        return objects[0]
    return {
        "apiVersion": "v1",
        "items": list(objects),
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def sources_document(sources: Iterable[discovery_pb2.DiscoverySource]) -> Object:
    """Return sources as discovery.proto's ListSourcesResponse in JSON."""
    return {"sources": [MessageToDict(source) for source in sources]}


Registrations: TypeAlias = Sequence[registry_pb2.Registration]


def registrations_table(
    kind: Kind, found: Registrations, now: datetime, *, wide: bool, headers: bool
) -> str:
    """Return the table of a kind, aligned as in kubectl; empty without rows."""
    head, row = _TABLES[kind]
    rows = [row(registration, now, wide) for registration in found]
    return table([*([head] if headers else []), *rows]) if rows else ""


def _crd_row(registration: registry_pb2.Registration, _now: datetime, _wide: bool) -> list[str]:  # noqa: FBT001 - one signature for every table
    return [registration.name, time_text(_time(registration.created))]


def _api_service_row(
    registration: registry_pb2.Registration,
    now: datetime,
    _wide: bool,  # noqa: FBT001 - one signature for every table
) -> list[str]:
    """Source: kube-aggregator pkg/registry/apiservice/etcd/etcd.go `ConvertToTable`."""
    manifest = _manifest(registration)
    service = as_object(as_object(manifest.get("spec")).get("service"))
    address = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    age = human_age(now, registration.created)
    return [registration.name, address, _available(as_object(manifest.get("status"))), age]


def _available(status: Object) -> str:
    for fields in map(as_object, as_list(status.get("conditions"))):
        if fields.get("type") == "Available":
            value, reason = str(fields.get("status", "")), fields.get("reason")
            return f"{value} ({reason})" if reason and value != "True" else value
    return "Unknown"


def _groups_row(registration: registry_pb2.Registration, now: datetime, wide: bool) -> list[str]:  # noqa: FBT001 - one signature for every table
    names = [published.group.metadata.name for published in registration.groups.groups]
    return [
        registration.name,
        _listed([name or '""' for name in names], wide=wide),
        registration.owner or "<none>",
        _STATES.get(registration.state, _UNKNOWN),
        human_age(now, registration.created),
    ]


_Row: TypeAlias = Callable[[registry_pb2.Registration, datetime, bool], list[str]]
_TABLES: Mapping[Kind, tuple[tuple[str, ...], _Row]] = {
    CRD: (("NAME", "CREATED AT"), _crd_row),
    API_SERVICE: (("NAME", "SERVICE", "AVAILABLE", "AGE"), _api_service_row),
    GROUPS: (("NAME", "GROUPS", "OWNER", "STATE", "AGE"), _groups_row),
}


def sources_table(
    found: Sequence[discovery_pb2.DiscoverySource], *, wide: bool, headers: bool
) -> str:
    """Return the table of sources; wide has their addresses and every group-version.

    A group-version that another source serves instead is listed with that source.
    """
    last = [*(["ADDRESS"] if wide else []), "ERROR"]
    head = ["NAME", "STATE", "SINCE", "GROUP-VERSIONS", "SHADOWED", *last]
    rows = [_source_row(source, wide=wide) for source in found]
    return table([*([head] if headers else []), *rows]) if rows else ""


def _source_row(source: discovery_pb2.DiscoverySource, *, wide: bool) -> list[str]:
    offered = [f"{gv.group}/{gv.version}".lstrip("/") for gv in source.group_versions]
    shadowed = [
        f"{name} by {gv.shadowed_by}"
        for name, gv in zip(offered, source.group_versions, strict=True)
        if gv.shadowed_by
    ]
    return [
        source.name,
        _SOURCE_STATES.get(source.state, _UNKNOWN),
        time_text(_time(source.since)) if source.HasField("since") else _UNKNOWN,
        f"- ({source.withheld})" if source.withheld else _listed(offered, wide=wide),
        "-" if source.withheld else _listed(shadowed, wide=wide),
        *([source.address or "<none>"] if wide else []),
        source.error or "<none>",
    ]


def _listed(names: Sequence[str], *, wide: bool) -> str:
    """Return the first names and the number of the others; all names when wide.

    Source: kubernetes pkg/printers/internalversion/printers.go `formatEndpoints`.
    """
    if not names:
        return "<none>"
    more = 0 if wide else len(names) - _SHOWN_NAMES
    if more <= 0:
        return ",".join(names)
    return f"{','.join(names[:_SHOWN_NAMES])} + {more} more..."


def _time(moment: Timestamp) -> datetime:
    try:
        return moment.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, UTC)


def human_age(now: datetime, since: Timestamp) -> str:
    """Return an age as `human_duration` does; `<unknown>` without a time."""
    if not since.seconds:
        return _UNKNOWN
    return human_duration(int((now - _time(since)).total_seconds()))
