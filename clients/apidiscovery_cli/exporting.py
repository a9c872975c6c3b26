"""What a server serves in the forms of other tools: Helm's API versions, kubeconform's schemas."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from apidiscovery_client.model import CURRENT, GroupVersion, GroupVersionKind, Resource, Snapshot
from apidiscovery_client.openapi.asking import key_of
from apidiscovery_client.openapi.json_documents import Fields, Object
from apidiscovery_client.openapi.json_schema import Kind, file_names, json_schema, kinds

_NO_KIND = GroupVersionKind("", "", "")
# Names of kinds, groups and versions: RFC 1123, in any case.
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_TEMPLATE = "{{ .ResourceKind }}{{ .KindSuffix }}.json"


def helm_api_versions(snapshot: Snapshot) -> list[str]:
    """Return `apps/v1`, `apps/v1/Deployment` and so on, sorted, each once.

    Kinds of subresources are there too, below the group-version of their resource: `v1/Eviction`,
    `apps/v1/Scale`. Versions that are not current are left out, as by client-go.
    Source: helm pkg/action/action.go `GetVersionSet`; client-go discovery/aggregated_discovery.go
    `convertAPIGroup`.
    """
    found: set[str] = set()
    for version in snapshot.versions:
        if version.freshness == CURRENT:
            found.add(str(version.gv))
            for resource in version.resources:
                found |= {f"{version.gv}/{kind}" for kind in _kinds(resource) if kind}
    return sorted(found)


def _kinds(resource: Resource) -> Iterator[str]:
    told = (resource.response_kind, *(below.response_kind for below in resource.subresources))
    for kind in told:
        if kind is not None and kind != _NO_KIND:
            yield kind.kind


@dataclass(frozen=True, slots=True)
class Schemas:
    """Schemas as files for kubeconform.

    Attributes:
        files: Schemas by the name of their file.
        hidden: Kinds whose file kubeconform does not find, as another kind has its name:
            kubeconform uses only the first label of a group.
        unfit: Kinds without a file, whose names Kubernetes would not allow.
    """

    files: Mapping[str, Object]
    hidden: tuple[Kind, ...]
    unfit: tuple[Kind, ...]


def kind_schemas(
    documents: Iterable[tuple[str, Fields]], *, strict: bool = False
) -> dict[Kind, Object]:
    """Return the JSON Schema of each kind in OpenAPI v3 documents.

    Args:
        documents: Each with its key in the index, such as `apis/apps/v1`. A document counts for
            the kinds of its own group-version only.
        strict: Whether to refuse properties that are not listed.
    """
    return {
        kind: json_schema(document, kind, strict=strict)
        for key, document in documents
        for kind in kinds(document)
        if key_of(GroupVersion(kind.group, kind.version)) == key
    }


def kubeconform_schemas(found: Mapping[Kind, Object]) -> Schemas:
    """Return schemas of kinds as files with the names that kubeconform looks for."""
    unfit = tuple(kind for kind in found if not _NAME.fullmatch(kind.file_name(whole_group=True)))
    names = file_names({kind: schema for kind, schema in found.items() if kind not in unfit})
    hidden = tuple(kind for kind, name in names.items() if name != kind.file_name())
    return Schemas({name: found[kind] for kind, name in names.items()}, hidden, unfit)


def schema_location(folder: Path) -> str:
    """Return what kubeconform's `-schema-location` must be for schemas in a folder.

    Source: kubeconform pkg/registry/registry.go `schemaPath`.
    """
    return f"{folder.absolute().as_posix()}/{_TEMPLATE}"
