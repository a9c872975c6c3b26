"""Converts declared groups to the service's model and OpenAPI documents."""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import orjson
import zstandard

from apidiscovery_service.core.model import (
    GroupVersionKind,
    Offer,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.extension_server.checking import mapping_violations, violations
from apidiscovery_service.extension_server.groups import (
    ApiGroup,
    ApiResource,
    ApiSubresource,
    ApiVersion,
)
from apidiscovery_service.extension_server.models import is_model, structural_schema
from apidiscovery_service.openapi.crd.document import kind_schema
from apidiscovery_service.openapi.generated import Given, generated_document
from apidiscovery_service.openapi.validation import (
    InvalidDocuments,
    concerning,
    validate,
)
from apidiscovery_service.sources.declarations import Declared

# OpenAPI v3 documents by group-version, such as `example.dev/v1`: as JSON text or as its values.
OwnDocuments = Mapping[str, bytes | str | Mapping[str, object]]


def contents(groups: Iterable[ApiGroup], own: OwnDocuments, *, strict: bool) -> Declared:
    """Return groups in the service's model, with a document for each version.

    Args:
        groups: The declared groups.
        own: Documents that replace those made from schemas.
        strict: Whether each of them must be of a declared group-version.

    Raises:
        InvalidFields: Fields or documents are invalid; it has all of them.
    """
    # A generator is read once; a value that is not a list is reported with all other errors.
    groups = tuple(groups) if isinstance(cast("object", groups), Iterable) else groups
    found = [*violations(groups), *mapping_violations(own, "openapi")]
    if found:
        raise InvalidFields(*found)
    versions = {
        f"{group.name}/{one.name}": (group, one) for group in groups for one in group.versions
    }
    found = list(_undeclared(own, versions.keys())) if strict else []
    texts: dict[str, bytes] = {}
    for name, document in own.items():
        if name in versions:
            texts[name] = _own_document(name, document, found)
    if found:
        raise InvalidFields(*found)
    return Declared(
        offers=tuple(_offer(group, version) for group, version in versions.values()),
        documents={
            f"apis/{name}": zstandard.compress(texts.get(name) or _document(group, version))
            for name, (group, version) in versions.items()
        },
    )


def _undeclared(own: OwnDocuments, declared: Iterable[str]) -> Iterator[FieldViolation]:
    known = tuple(declared)
    for name in own:
        if name not in known:
            wanted = f"want one of the group-versions that are declared: {', '.join(known)}"
            yield FieldViolation(f"openapi[{name!r}]", wanted)


def _own_document(name: str, document: object, found: list[FieldViolation]) -> bytes:
    """Return a document as it is served; append its errors to `found`."""
    path = f"openapi[{name!r}]"
    try:
        text = validate(_json(document))
        concerning(text, *name.split("/", 1))
    except InvalidDocuments as invalid:
        found += [FieldViolation(path, str(error)) for error in invalid.errors]
    except (TypeError, ValueError) as error:
        found.append(FieldViolation(path, f"is not JSON: {error}"))
    else:
        return text
    return b""


def _json(document: object) -> bytes:
    if isinstance(document, bytes | str):
        return document.encode() if isinstance(document, str) else document
    return orjson.dumps(document)


def _offer(group: ApiGroup, version: ApiVersion) -> Offer:
    return Offer(group.name, _version(group.name, version), group.priority, version.priority)


def _version(group: str, version: ApiVersion) -> Version:
    return Version(
        version.name, tuple(_resource(group, version.name, one) for one in version.resources)
    )


def _resource(group: str, version: str, one: ApiResource) -> Resource:
    kind = GroupVersionKind(group, version, one.kind)
    stored = one.storage_version
    return Resource(
        resource=one.plural,
        response_kind=kind,
        scope=Scope.NAMESPACED if one.namespaced else Scope.CLUSTER,
        singular_resource=one.kind.lower() if one.singular is None else one.singular,
        verbs=tuple(one.verbs),
        short_names=tuple(one.short_names),
        categories=tuple(one.categories),
        subresources=tuple(_subresource(kind, below) for below in one.below()),
        storage_version_hash=storage_version_hash(group, stored, one.kind) if stored else "",
    )


def _subresource(parent: GroupVersionKind, one: ApiSubresource) -> Subresource:
    kind = GroupVersionKind(
        one.group or parent.group, one.version or parent.version, one.kind or parent.kind
    )
    return Subresource(one.name, kind, tuple(one.verbs))


def _document(group: ApiGroup, version: ApiVersion) -> bytes:
    kinds = {
        GroupVersionKind(group.name, version.name, one.kind): _given(group, version, one)
        for one in version.resources
    }
    has_schemas = any(given.schema for given in kinds.values())
    why = "" if has_schemas else "from discovery, for no schema is declared"
    return generated_document(group.name, _version(group.name, version), why, kinds)


def _given(group: ApiGroup, version: ApiVersion, one: ApiResource) -> Given:
    list_kind = f"{one.kind}List" if one.list_kind is None else one.list_kind
    if one.schema is None:
        return Given(list_kind)
    declared = structural_schema(one.schema) if is_model(one.schema) else one.schema
    # A copy, since `kind_schema` changes it.
    schema: object = orjson.loads(orjson.dumps(dict(cast("Mapping[str, object]", declared))))
    named = {"group": group.name, "kind": one.kind, "version": version.name}
    return Given(
        list_kind, kind_schema(schema, {"x-kubernetes-group-version-kind": [named]}, ("schema",))
    )
