"""Makes the JSON Schemas of a server's kinds, in files where kubeconform looks for them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from apidiscovery_client.openapi.json_documents import Fields, Object
from apidiscovery_client.openapi.json_schema import Kind, file_names, json_schema, kinds

# Of kinds, groups and versions, RFC 1123 without regard to case.
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_TEMPLATE = "{{ .ResourceKind }}{{ .KindSuffix }}.json"


@dataclass(frozen=True, slots=True)
class Schemas:
    """What is to be written.

    Attributes:
        files: Schemas by the name of their file.
        hidden: Kinds whose file kubeconform does not find, as another kind has its name: of a
            group it knows the first label only.
        unfit: Kinds without a file: Kubernetes would allow no such name, and a folder should not
            have it.
    """

    files: Mapping[str, Object]
    hidden: tuple[Kind, ...]
    unfit: tuple[Kind, ...]


def kubeconform_schemas(
    documents: Iterable[tuple[str, Fields]], *, strict: bool = False
) -> Schemas:
    """Return the schemas of all kinds in OpenAPI v3 documents.

    Args:
        documents: Each with its key in the index, such as `apis/apps/v1`. Only what a document
            tells of its own group-version counts.
        strict: Whether to refuse properties that are not listed.
    """
    found = {
        kind: json_schema(document, kind, strict=strict)
        for key, document in documents
        for kind in kinds(document)
        if _key(kind) == key
    }
    unfit = tuple(kind for kind in found if not _NAME.fullmatch(kind.file_name(whole_group=True)))
    names = file_names({kind: schema for kind, schema in found.items() if kind not in unfit})
    hidden = tuple(kind for kind, name in names.items() if name != kind.file_name())
    return Schemas({name: found[kind] for kind, name in names.items()}, hidden, unfit)


def schema_location(folder: Path) -> str:
    """Return what kubeconform's `-schema-location` must be for schemas in a folder.

    Source: kubeconform pkg/registry/registry.go `schemaPath`.
    """
    return f"{folder.absolute().as_posix()}/{_TEMPLATE}"


def _key(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
