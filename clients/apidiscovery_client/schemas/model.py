"""Schemas of kinds, from CustomResourceDefinitions and OpenAPI documents, and their sources."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from apidiscovery_formats.openapi.pointers import SCHEMAS, unescaped

from apidiscovery_client._fields import Fields
from apidiscovery_client.model import GroupVersion, GroupVersionKind
from apidiscovery_client.openapi.json_documents import KIND_KEY, as_list, as_object, components
from apidiscovery_client.schema_diff.versions import versions_in

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
GENERATED = "x-apidiscovery-generated"  # of documents that have kinds and no fields


@dataclass(frozen=True, slots=True)
class Components:
    """The schemas of an OpenAPI v3 document, by name."""

    schemas: Fields

    @classmethod
    def of(cls, document: Fields) -> "Components":
        """Return those of a document."""
        return cls(components(document, "schemas"))

    def resolve(self, reference: str) -> object:
        """Return the schema that a `$ref` names; None for none."""
        return self.schemas.get(unescaped(reference.removeprefix(SCHEMAS)))

    def kinds(self, gv: GroupVersion) -> dict[str, Fields]:
        """Return the schemas of the kinds of a group-version, by kind.

        A kind has ObjectMeta; lists, options and what only subresources take has not.
        """
        found = dict[str, Fields]()
        for schema in self.schemas.values():
            fields = as_object(schema)
            for named in as_list(fields.get(KIND_KEY)):
                kind = as_object(named)
                is_here = (kind.get("group"), kind.get("version")) == (gv.group, gv.version)
                if is_here and _has_object_meta(fields):
                    found[str(kind.get("kind"))] = fields
        return found


def _has_object_meta(schema: Fields) -> bool:
    metadata = as_object(as_object(schema.get("properties")).get("metadata"))
    parts = [metadata, *map(as_object, as_list(metadata.get("allOf")))]
    references = (str(part.get("$ref")) for part in parts)
    return any(reference.rpartition(".")[2] == "ObjectMeta" for reference in references)


@dataclass(frozen=True, slots=True)
class Documents:
    """Requested documents.

    Attributes:
        found: By group-version.
        failures: Why a document could not be read, in one line.
    """

    found: Mapping[GroupVersion, Components] = field(default_factory=dict[GroupVersion, Components])
    failures: Mapping[GroupVersion, str] = field(default_factory=dict[GroupVersion, str])


class SchemaSource(Protocol):
    """A source of schemas: a server, a snapshot, a release of Kubernetes, files."""

    @property
    def name(self) -> str:
        """Its name in reports and errors."""
        ...

    @property
    def definitions(self) -> Mapping[str, Fields]:
        """CustomResourceDefinitions by name, as JSON; with their status where it is known."""
        ...

    @property
    def is_partial(self) -> bool:
        """Whether it has only some kinds of a server, as files have."""
        ...

    @property
    def group_versions(self) -> frozenset[GroupVersion]:
        """Those that it has documents of, without those of its definitions."""
        ...

    def documents(self, wanted: Iterable[GroupVersion]) -> Documents:
        """Return documents of some of `group_versions`.

        Raises:
            DiscoveryError: It cannot be asked at all.
        """
        ...

    def covers(self, group: str) -> bool:
        """Tell whether a group that is not there is known not to be served."""
        ...


def versions_of(definition: Fields) -> Iterator[tuple[GroupVersionKind, Fields]]:
    """Yield the served versions of a definition of v1 or v1beta1, each with its fields."""
    spec = as_object(definition.get("spec"))
    group = str(spec.get("group") or "")
    kind = str(as_object(spec.get("names")).get("kind") or "")
    for name, version in versions_in(spec).items():
        if version.get("served") is not False:
            yield GroupVersionKind(group, name, kind), version


def defaulted(definition: Fields) -> Fields:
    """Return a CustomResourceDefinition with the names that a server gives it where it has none.

    Source: apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go
    `SetDefaults_CustomResourceDefinitionSpec`.
    """
    spec = as_object(definition.get("spec"))
    names = as_object(spec.get("names"))
    kind = str(names.get("kind") or "")
    given = {key: value for key, value in names.items() if value}
    whole = {"singular": kind.lower(), "listKind": f"{kind}List", **given}
    return {**definition, "spec": {**spec, "names": whole}}
