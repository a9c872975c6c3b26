"""Sources of schemas: manifests, API servers, and what was read before."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeVar, cast
from urllib.parse import urlsplit

from apidiscovery_client._errors import (
    DiscoveryError,
    InvalidConfiguration,
    RequestRefused,
)
from apidiscovery_client._fields import Fields
from apidiscovery_client._http.flow import Ask
from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS
from apidiscovery_client._interfaces import Transport
from apidiscovery_client.manifests import Manifest
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.openapi.asking import (
    INDEX_PATH,
    FetchesPaths,
    Flow,
    Location,
    asked_document,
    asked_index,
    group_version_of,
    key_of,
)
from apidiscovery_client.openapi.json_documents import as_object
from apidiscovery_client.schemas.listing import listed
from apidiscovery_client.schemas.model import (
    GENERATED,
    Components,
    Documents,
    defaulted,
    versions_of,
)

_T = TypeVar("_T")
GROUP = "apiextensions.k8s.io"
KIND = "CustomResourceDefinition"

_DEFINITIONS = f"/apis/{GROUP}/v1/customresourcedefinitions"
_PAGE = 40  # definitions in an answer; the largest that are known have 1 MB
# Servers without definitions, and callers that may not list them.
_NOT_READABLE = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class GivenSchemas:
    """Schemas that are in memory; in all else as `SchemaSource`."""

    name: str
    definitions: Mapping[str, Fields]
    known: Mapping[GroupVersion, Components] = field(default_factory=dict[GroupVersion, Components])
    failures: Mapping[GroupVersion, str] = field(default_factory=dict[GroupVersion, str])
    is_partial: bool = False

    @property
    def group_versions(self) -> frozenset[GroupVersion]:
        """Those of documents, also of ones that could not be had."""
        return frozenset({*self.known, *self.failures})

    def documents(self, wanted: Iterable[GroupVersion]) -> Documents:
        """Return some of the documents."""
        names = set(wanted)
        return Documents(
            {gv: found for gv, found in self.known.items() if gv in names},
            {gv: why for gv, why in self.failures.items() if gv in names},
        )

    def covers(self, group: str) -> bool:
        """Tell whether it is whole."""
        del group
        return not self.is_partial


def schemas_of_manifests(manifests: Iterable[Manifest], name: str) -> GivenSchemas:
    """Return the CustomResourceDefinitions among manifests.

    Args:
        manifests: Of any kinds.
        name: Of the source.

    Raises:
        InvalidConfiguration: There is none, or two have one name.
    """
    found = dict[str, Manifest]()
    for manifest in manifests:
        if not is_definition(manifest):
            continue
        known = found.setdefault(definition_name(manifest.fields), manifest)
        if known is not manifest:
            raise InvalidConfiguration(
                f"{manifest.path}:{manifest.line}: {manifest.name} is also in"
                f" {known.path}:{known.line}; want one of each name"
            )
    if not found:
        raise InvalidConfiguration(
            f"{name}: there is no {KIND} in it; want manifests of {GROUP}, or a snapshot of"
            " `apidiscovery snapshot save --schemas`"
        )
    definitions = {key: defaulted(manifest.fields) for key, manifest in found.items()}
    return GivenSchemas(name, definitions, is_partial=True)


def is_definition(manifest: Manifest) -> bool:
    """Tell whether a manifest is a CustomResourceDefinition."""
    return manifest.kind == KIND and manifest.api_version.startswith(f"{GROUP}/")


def definition_name(definition: Fields) -> str:
    """Return what the server calls a definition: its plural and its group."""
    spec = as_object(definition.get("spec"))
    plural = as_object(spec.get("names")).get("plural")
    return f"{plural}.{spec.get('group')}"


class ServedSchemas:
    """The schemas of an API server, which is asked for as little as is needed.

    The definitions are read at once where the caller may list them. Documents are fetched side by
    side when they are wanted.

    Args:
        transport: Over HTTP; it stays open.
        name: Of the server in reports.

    Raises:
        InvalidConfiguration: The transport is not over HTTP.
        DiscoveryError: The server does not answer.
    """

    is_partial = False

    def __init__(self, transport: Transport, name: str) -> None:
        if not isinstance(transport, FetchesPaths):
            raise InvalidConfiguration(
                f"{name}: schemas are asked for over HTTP; name the server's https:// URL or a"
                " context"
            )
        self.name = name
        self._server = transport.server
        self._transport: FetchesPaths = transport
        self.definitions: Mapping[str, Fields] = {
            definition_name(found): found for found in self._read_definitions()
        }
        defined = {
            GroupVersion(gvk.group, gvk.version)
            for found in self.definitions.values()
            for gvk, _ in versions_of(found)
        }
        self._locations: dict[GroupVersion, Location] = {
            gv: _below(self._server, location)
            for key, location in self._run(asked_index()).items()
            if (gv := group_version_of(key)) and gv not in defined
        }

    @property
    def group_versions(self) -> frozenset[GroupVersion]:
        """Those that the index of OpenAPI documents lists, without those of definitions."""
        return frozenset(self._locations)

    def covers(self, group: str) -> bool:
        """Tell that a server knows all that it serves."""
        del group
        return True

    def documents(self, wanted: Iterable[GroupVersion]) -> Documents:
        """Return documents; one that fails does not fail others."""
        names = [gv for gv in dict.fromkeys(wanted) if gv in self._locations]
        found, failures = dict[GroupVersion, Components](), dict[GroupVersion, str]()
        with ThreadPoolExecutor(MAX_CONCURRENT_REQUESTS) as pool:
            for gv, told in zip(names, pool.map(self._document, names), strict=True):
                if isinstance(told, str):
                    failures[gv] = told
                else:
                    found[gv] = told
        return Documents(found, failures)

    def _document(self, gv: GroupVersion) -> Components | str:
        try:
            fetched = self._run(asked_document(self._server, self._locations[gv]))
            document = fetched.parsed()
        except DiscoveryError as error:
            return str(error)
        if document.get(GENERATED):
            return "its document was made from discovery and has no fields"
        return Components.of(document)

    def _read_definitions(self) -> Iterator[Fields]:
        """Yield the definitions; none where the caller may not list them.

        Raises:
            RequestRefused: The list breaks off: a part of them would look like removals.
        """
        has_begun = False
        try:
            for found in listed(self._transport, _DEFINITIONS, "definitions", limit=_PAGE):
                has_begun = True
                yield defaulted(found)
        except RequestRefused as error:
            if has_begun or error.status not in _NOT_READABLE:
                raise

    def _run(self, flow: Flow[_T]) -> _T:
        try:
            ask: Ask = next(flow)
            while True:
                ask = flow.send(self._transport.get(ask.path, ask.accept))
        except StopIteration as done:
            return cast("_T", done.value)


def _below(server: str, location: Location) -> Location:
    """Return a location by its path below the server's URL, which some indexes repeat."""
    prefix = urlsplit(server).path
    if prefix and location.url.startswith(f"{prefix}{INDEX_PATH}"):
        return replace(location, url=location.url.removeprefix(prefix))
    return location


def all_of(source: ServedSchemas) -> GivenSchemas:
    """Return all schemas of a server, for a snapshot.

    Documents that could not be had are among `failures`. Of the definitions, what the server notes
    about their writers is left out.
    """
    documents = source.documents(sorted(source.group_versions, key=key_of))
    definitions = {name: _bare(found) for name, found in source.definitions.items()}
    return GivenSchemas(source.name, definitions, documents.found, documents.failures)


def _bare(definition: Fields) -> Fields:
    metadata = {"name": definition_name(definition)}
    status = as_object(definition.get("status"))
    stored = {key: status[key] for key in ("storedVersions",) if key in status}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": KIND,
        "metadata": metadata,
        "spec": definition.get("spec"),
        "status": stored,
    }
