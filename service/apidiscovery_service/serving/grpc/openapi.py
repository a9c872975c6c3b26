"""OpenAPIService: the documents that HTTP serves too, sent in chunks."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from apidiscovery.service.v1 import discovery_pb2, openapi_pb2
from apidiscovery_formats.openapi.keys import group_of, group_version_of, key_of
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
)

from apidiscovery_service.errors import DiscoveryError, FieldViolation, InvalidFields
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.body import (
    Body,
    DocumentForm,
    DocumentSource,
    Index,
    server_relative_url,
)
from apidiscovery_service.serving.grpc.calls import (
    Behaviour,
    CallFailed,
    Context,
    Service,
    Stream,
    Streams,
    error_info,
)
from apidiscovery_service.serving.grpc.unread import count_body

SERVICE = openapi_pb2.DESCRIPTOR.services_by_name["OpenAPIService"]

# Larger chunks are not faster, and unread chunks of slow readers stay in memory.
CHUNK_BYTES = 512 * 1024

# They keep an outline below the 4 MiB that clients accept by default.
MAX_KEYS = 20_000
MAX_KEY_BYTES = 1024 * 1024

_KEYS_AT_ONCE = 500

# Source: k8s.io/kube-openapi pkg/handler3/handler.go.
_MEDIA_TYPES = {
    DocumentForm.JSON: "application/json",
    DocumentForm.PROTOBUF: "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
}

_FORMS = {
    openapi_pb2.OPEN_API_DOCUMENT_FORM_UNSPECIFIED: DocumentForm.JSON,
    openapi_pb2.OPEN_API_DOCUMENT_FORM_JSON: DocumentForm.JSON,
    openapi_pb2.OPEN_API_DOCUMENT_FORM_PROTOBUF: DocumentForm.PROTOBUF,
}


class OpenAPIService(Service):
    """The methods of OpenAPIService.

    Args:
        documents: The documents.
        metrics: Counts calls.
        enabled: Whether the feature gate is on.
        ready: Whether the local sources are in the snapshot.
    """

    def __init__(
        self,
        documents: DocumentSource,
        metrics: Metrics,
        *,
        enabled: bool = True,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        off = "the feature gate OpenAPIV3 of the server is off"
        super().__init__(SERVICE, metrics, ready, "" if enabled else off)
        self.streams = Streams(are_finite=True)
        self._documents = documents
        self._index_response: tuple[Index, openapi_pb2.GetIndexResponse] | None = None

    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods."""
        return {"GetIndex": self.index, "GetDocument": self.document, "GetBundle": self.bundle}

    def translated(self, error: DiscoveryError) -> DiscoveryError:
        """Return UNAVAILABLE for a document that cannot be made now, as HTTP answers 503."""
        if isinstance(error, InvalidFields | CallFailed):
            return error
        return CallFailed(code_pb2.UNAVAILABLE, f"a document cannot be made: {error}")

    async def index(
        self, request: openapi_pb2.GetIndexRequest, _context: Context
    ) -> openapi_pb2.GetIndexResponse:
        """Answer GetIndex."""
        index = await self._documents.index()
        if request.if_none_match.strip('"') == index.etag:
            return openapi_pb2.GetIndexResponse(
                etag=index.etag, not_modified=discovery_pb2.NotModified()
            )
        if self._index_response is None or self._index_response[0] is not index:
            self._index_response = index, _index_response(index)  # 6 ms for 3,000 documents
        return self._index_response[1]

    async def document(self, request: openapi_pb2.GetDocumentRequest, stream: Stream) -> None:
        """Answer GetDocument."""
        key, form = _key_of(request), _form_of(request.form)
        known = request.if_none_match.strip('"')
        if known and known == await self._documents.hash_of(key):
            header = openapi_pb2.OpenAPIDocumentHeader(
                key=key, hash=known, media_type=_MEDIA_TYPES[form], not_modified=True
            )
            body = None
        else:
            body = await self._documents.body(key, form, "identity")
            if body is None:
                raise _not_found(key)
            header = _header(body, form)
        header.superseded = bool(request.hash) and request.hash != header.hash
        count_body(stream.context, len(body.data) if body else 0)
        await stream.send(openapi_pb2.GetDocumentResponse(header=header))
        await _send(stream, body, openapi_pb2.GetDocumentResponse)

    async def bundle(self, request: openapi_pb2.GetBundleRequest, stream: Stream) -> None:
        """Answer GetBundle."""
        form = _form_of(request.form)
        _check_keys(request)
        chosen = await self._chosen(request.keys, request.known_hashes)
        await stream.send(openapi_pb2.GetBundleResponse(outline=chosen.outline))
        for key in chosen.wanted:
            await self._send_next(key, form, stream)

    async def _chosen(self, keys: Sequence[str], known: Mapping[str, str]) -> "_Chosen":
        """Compare the documents of a caller with the current ones."""
        if keys:
            return _compared(await self._hashes(set(keys)), known, "")
        index = await self._documents.index()
        return _compared({**dict.fromkeys(known), **index.entries}, known, index.etag)

    async def _hashes(self, keys: Iterable[str]) -> dict[str, str | None]:
        """Return the hash of each document; None where there is none."""
        found: dict[str, str | None] = {}
        for number, key in enumerate(keys):
            if number % _KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)  # known hashes are returned without waiting
            found[key] = await self._documents.hash_of(key)
        return found

    async def _send_next(self, key: str, form: DocumentForm, stream: Stream) -> None:
        """Send one document of a bundle; only one at a time is in memory."""
        body = await self._documents.body(key, form, "identity")
        if body is None:
            await stream.send(openapi_pb2.GetBundleResponse(gone=key))
            return
        count_body(stream.context, len(body.data))
        await stream.send(openapi_pb2.GetBundleResponse(header=_header(body, form)))
        await _send(stream, body, openapi_pb2.GetBundleResponse)
        count_body(stream.context, 0)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The outline of a bundle, and the sorted keys of the documents to send."""

    outline: openapi_pb2.GetBundleResponse.Outline
    wanted: Sequence[str]


def _compared(
    current: Mapping[str, str | None], known: Mapping[str, str], index_etag: str
) -> _Chosen:
    """Return what differs.

    Args:
        current: The hash of each document, empty where it is not known yet; None where there is no
            document.
        known: The hashes that the caller has.
        index_etag: The ETag of the index that `current` is from.
    """
    keys = sorted(current)
    existing = [key for key in keys if current[key] is not None]
    unchanged = [key for key in existing if current[key] and known.get(key) == current[key]]
    wanted = sorted(set(existing).difference(unchanged))
    outline = openapi_pb2.GetBundleResponse.Outline(
        index_etag=index_etag,
        documents=len(wanted),
        unchanged=unchanged,
        gone=[key for key in keys if current[key] is None],
    )
    return _Chosen(outline, wanted)


def _check_keys(request: openapi_pb2.GetBundleRequest) -> None:
    """Check that the outline of a request has room for its keys.

    Raises:
        InvalidFields: It has not, or a key is empty.
    """
    violations: list[FieldViolation] = []
    for field, keys in (("keys", request.keys), ("known_hashes", request.known_hashes)):
        if len(keys) > MAX_KEYS:
            violations.append(FieldViolation(field, f"want at most {MAX_KEYS}, got {len(keys)}"))
        if "" in keys:
            violations.append(FieldViolation(field, "want keys, got an empty one"))
    size = sum(len(key.encode()) for keys in (request.keys, request.known_hashes) for key in keys)
    if size > MAX_KEY_BYTES:
        message = f"want keys of at most {MAX_KEY_BYTES} bytes together, got {size}"
        violations.append(FieldViolation("keys", message))
    if violations:
        raise InvalidFields(*violations)


def _key_of(request: openapi_pb2.GetDocumentRequest) -> str:
    """Return the key of the requested document.

    Raises:
        InvalidFields: There is none.
    """
    match request.WhichOneof("document"):
        case "key" if request.key:
            return request.key
        case "group_version" if request.group_version.version:
            group, version = request.group_version.group, request.group_version.version
            return key_of(group, version)
        case "group_version":
            raise InvalidFields(FieldViolation("group_version.version", "required"))
        case _:
            raise InvalidFields(FieldViolation("key", "want a key, or a group_version"))


def _form_of(form: openapi_pb2.OpenAPIDocumentForm.ValueType) -> DocumentForm:
    """Return the requested form.

    Raises:
        InvalidFields: It is unknown.
    """
    if form not in _FORMS:
        raise InvalidFields(FieldViolation("form", f"want one of DocumentForm, got {form}"))
    return _FORMS[form]


def _index_response(index: Index) -> openapi_pb2.GetIndexResponse:
    notes = index.notes
    entries = [_entry(key, digest, notes.get(key, "")) for key, digest in index.entries.items()]
    return openapi_pb2.GetIndexResponse(
        etag=index.etag, index=openapi_pb2.OpenAPIIndex(entries=entries)
    )


def _entry(key: str, digest: str, note: str) -> openapi_pb2.OpenAPIIndexEntry:
    group, version = _group_version(key)
    return openapi_pb2.OpenAPIIndexEntry(
        key=key,
        group=group,
        version=version,
        hash=digest,
        server_relative_url=server_relative_url(key, digest),
        note=note,
    )


def _group_version(key: str) -> tuple[str, str]:
    """Return the group and version of a document; empty where it has none.

    >>> _group_version("apis/apps/v1"), _group_version("apis/apps"), _group_version("api/v1")
    (('apps', 'v1'), ('apps', ''), ('', 'v1'))
    """
    return group_version_of(key) or (group_of(key) or "", "")


def _header(body: Body, form: DocumentForm) -> openapi_pb2.OpenAPIDocumentHeader:
    return openapi_pb2.OpenAPIDocumentHeader(
        key=body.key, hash=body.hash, media_type=_MEDIA_TYPES[form], size_bytes=len(body.data)
    )


async def _send(stream: Stream, body: Body | None, message: Callable[..., Message]) -> None:
    """Send a document, each chunk when the caller has room for it."""
    data = memoryview(body.data if body else b"")
    for start in range(0, len(data), CHUNK_BYTES):
        await stream.send(message(chunk=bytes(data[start : start + CHUNK_BYTES])))


def _not_found(key: str) -> CallFailed:
    shown = key[:300]
    info = error_info("DOCUMENT_NOT_FOUND", key=shown)
    return CallFailed(code_pb2.NOT_FOUND, f"there is no document {shown!r}", info)
