"""Documents that prove ETags: their hash by Kubernetes' rule is the ETag.

An ETag by another rule cannot be proven: whoever can write a file could put it beside any document.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from apidiscovery_client._interfaces import Document, FetchedSnapshot
from apidiscovery_client._writing import etag_of, write_aggregated
from apidiscovery_client.model import PATHS, Group, Stale, groups_by_path

SCOPE = ""  # the key in `FetchedSnapshot.etags` of the ETag of both, over gRPC
JSON_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_JSON = "application/json"
# An item's metadata; a quotation mark within a string has a backslash before it.
_METADATA = re.compile(rb'(?<=\{"metadata":\{)("name":"[^"\\]*")?(?=\}[,}])')


@dataclass(frozen=True, slots=True)
class Proven:
    """ETags with the documents, by path, whose content they are."""

    etags: Mapping[str, str]
    documents: Mapping[str, Document]


def proven(fetched: FetchedSnapshot) -> Proven:
    """Return those of the ETags that can be proven."""
    groups = groups_by_path(fetched.snapshot.groups)
    if scope := fetched.etags.get(SCOPE):
        documents: dict[str, Document] = {path: _canonical(part) for path, part in groups.items()}
        is_proven = scope_etag(documents) == scope
        return Proven({SCOPE: scope}, documents) if is_proven else Proven({}, {})
    found: dict[str, Document] = {
        path: document
        for path, part in groups.items()
        if path in fetched.etags
        and (document := _document(fetched.documents.get(path), part, fetched.etags[path]))
    }
    return Proven({path: fetched.etags[path] for path in found}, found)


def are_proven(etags: Mapping[str, str], documents: Mapping[str, Document]) -> bool:
    """Return whether the documents are the content of all these ETags."""
    return all(
        (opaque := _opaque(etag)) and opaque == _etag(path, documents)
        for path, etag in etags.items()
    )


def _etag(path: str, documents: Mapping[str, Document]) -> str:
    if path == SCOPE:
        return scope_etag(documents)
    return etag_of(documents[path].body) if path in PATHS and path in documents else ""


def scope_etag(documents: Mapping[str, Document]) -> str:
    """Return the ETag of both documents together; empty when one of them has none.

    Source: protos/apidiscovery/service/v1/discovery.proto `GetDiscoveryResponse.etag`.
    """
    etags = [etag_of(documents[path].body) if path in documents else "" for path in PATHS]
    if not all(etags):
        return ""
    return hashlib.sha512("".join(f"{etag}\n" for etag in etags).encode()).hexdigest().upper()


def _document(received: Document | None, groups: tuple[Group, ...], etag: str) -> Document | None:
    """Return the document in JSON whose ETag it is: as it came, or what it must have been."""
    opaque = _opaque(etag)
    if received is not None and received.content_type.lower().startswith(_JSON):
        return received if opaque and etag_of(received.body) == opaque else None
    return next((found for found in _encodings(groups) if etag_of(found.body) == opaque), None)


def _encodings(groups: tuple[Group, ...]) -> Iterator[Document]:
    """Yield what an API server may have hashed when it sent these groups as protobuf.

    Retained resources were not in it, unless all of the groups are of an earlier answer.
    """
    is_old = (False, True)
    for as_stated, is_dated in product((True, False) if _remembers(groups) else (True,), is_old):
        document = _canonical(groups, as_stated=as_stated)
        yield _dated(document) if is_dated else document


def _canonical(groups: tuple[Group, ...], *, as_stated: bool = True) -> Document:
    return Document(JSON_V2, write_aggregated(groups, as_stated=as_stated))


def _dated(document: Document) -> Document:
    """Return the document as releases up to 1.33 write it: with a time of creation that is null."""
    return replace(document, body=_METADATA.sub(_with_null, document.body))


def _with_null(metadata: re.Match[bytes]) -> bytes:
    name = metadata[1]
    return (name + b"," if name else b"") + b'"creationTimestamp":null'


def _remembers(groups: tuple[Group, ...]) -> bool:
    states = (version.freshness for group in groups for version in group.versions)
    return any(isinstance(state, Stale) and state.retained for state in states)


def _opaque(etag: str) -> str:
    """Return what is between the quotation marks; compressing proxies make it weak."""
    return etag.removeprefix("W/").strip('"')
