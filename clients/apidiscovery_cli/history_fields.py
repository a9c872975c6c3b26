"""Compares fields of kinds in the OpenAPI documents before and after changes of a history."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import grpc
from apidiscovery.service.v1 import history_pb2
from apidiscovery_client._grpc.calls import CallRefused
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.openapi.asking import group_version_of
from apidiscovery_client.openapi.json_documents import (
    KIND_KEY,
    Object,
    UnsoundDocument,
    as_object,
    load,
)
from apidiscovery_client.schemas import Components, FieldChanges, GivenSchemas, compare_sources

from apidiscovery_cli.history_calls import HistoryClient

# The document after one change is that before the next one. Documents have up to 1 MB.
_MAX_KEPT = 32
# Errors of documents that the history has forgotten, or that are damaged.
_LOST = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.DATA_LOSS)


@dataclass(frozen=True, slots=True)
class _Document:
    """A document: its schemas, and the kinds in it by the names of their resources."""

    components: Components
    kinds: Mapping[str, frozenset[str]]


class FieldHistory:
    """Compares the documents before and after changes.

    Args:
        client: Fetches the documents.
        kinds: Kinds or plural names of resources, in lower case, that are compared; empty for all.
    """

    def __init__(self, client: HistoryClient, kinds: Collection[str] = ()) -> None:
        self._client = client
        self._kinds = frozenset(kinds)
        self._kept = dict[str, _Document]()

    def of(self, change: history_pb2.HistoryChange) -> FieldChanges | None:
        """Return the changes of fields; None unless the change is between two documents.

        Documents that cannot be fetched or read are among the failures.

        Raises:
            DiscoveryError: The server does not answer, or refuses to.
        """
        gv = group_version_of(change.name)
        is_openapi = change.kind == history_pb2.HISTORY_CHANGE_KIND_OPENAPI
        if not (gv and is_openapi and change.hash_before and change.hash_after):
            return None
        try:
            before = self._document(change, history_pb2.HISTORY_SIDE_BEFORE, change.hash_before)
            after = self._document(change, history_pb2.HISTORY_SIDE_AFTER, change.hash_after)
        except UnsoundDocument as error:
            return FieldChanges((), {change.name: str(error)})
        except CallRefused as error:
            if error.code not in _LOST:
                raise
            return FieldChanges((), {change.name: error.message})
        found = compare_sources(_source(gv, before), _source(gv, after))
        if not self._kinds:
            return found
        wanted = self._kinds | {
            kind
            for document in (before, after)
            for name in self._kinds
            for kind in document.kinds.get(name, ())
        }
        return replace(
            found, changes=tuple(one for one in found.changes if one.kind.lower() in wanted)
        )

    def _document(
        self,
        change: history_pb2.HistoryChange,
        side: history_pb2.HistorySide.ValueType,
        digest: str,
    ) -> _Document:
        if digest not in self._kept:
            content = load(self._client.openapi(change.id, side), change.name)
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[digest] = _Document(Components.of(content), _kinds(content))
        return self._kept[digest]


def _source(gv: GroupVersion, document: _Document) -> GivenSchemas:
    return GivenSchemas("", {}, {gv: document.components})


def _kinds(document: Object) -> dict[str, frozenset[str]]:
    """Return the kinds that are served at paths, in lower case, by the last word of the path."""
    found = dict[str, frozenset[str]]()
    for path, item in as_object(document.get("paths")).items():
        operations = [as_object(one) for one in as_object(item).values()]
        named = (as_object(operation.get(KIND_KEY)) for operation in operations)
        kinds = {str(one["kind"]).lower() for one in named if "kind" in one}
        name = path.rpartition("/")[2]
        found[name] = found.get(name, frozenset()) | kinds
    return found
