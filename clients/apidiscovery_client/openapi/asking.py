"""The requests for OpenAPI v3 documents, without I/O.

Source: client-go openapi/client.go, openapi/groupversion.go; KEP-2896.
"""

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable
from urllib.parse import parse_qs, urljoin, urlsplit, urlunsplit

from apidiscovery_formats.openapi import keys

from apidiscovery_client._errors import RequestRefused, UnexpectedDocument
from apidiscovery_client._fields import name_of
from apidiscovery_client._http.flow import Ask
from apidiscovery_client._http.reply import Reply
from apidiscovery_client._negotiation import ACCEPT_PLAIN
from apidiscovery_client._reading import UnreadableError
from apidiscovery_client.model import GroupVersion, GroupVersionResource
from apidiscovery_client.openapi.json_documents import UnsoundDocument, as_object, is_object, load

INDEX_PATH = "/openapi/v3"
PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"

_PROTOBUF_FAMILY = "application/com.github.proto-openapi.spec.v3"  # then . or @, by release
_ACCEPT_PROTOBUF = f"{PROTOBUF},application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
_NO_INDEX = "it has no OpenAPI v3 documents, which Kubernetes serves from release 1.24 on"
_MAX_REDIRECTS = 3
_MOVED = (
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
)
_USABLE_URL = re.compile(r"/[!-.0-\[\]-~][!-\[\]-~]*")  # no second slash, backslash, space, control


T = TypeVar("T")
Reader: TypeAlias = Callable[[str | None, bytes], bytes]
Flow: TypeAlias = Generator[Ask, Reply, T]


@runtime_checkable
class FetchesPaths(Protocol):
    """Asks one server for any path; transports over HTTP do."""

    def get(self, path: str, accept: str) -> Reply:
        """Return what the server answers, whatever its status.

        Raises:
            DiscoveryError: No answer came.
        """
        ...


@runtime_checkable
class AsyncFetchesPaths(Protocol):
    """The same as `FetchesPaths`, for asyncio."""

    async def get(self, path: str, accept: str) -> Reply:
        """Return what `FetchesPaths.get` does."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """Where a document is: its key in the index, and its URL there."""

    key: str
    url: str

    @property
    def hash(self) -> str:
        """Return the hash that the URL states; empty when there is none."""
        return parse_qs(urlsplit(self.url).query).get("hash", [""])[0]


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A document as the server sent it.

    Attributes:
        location: Where it was in the end, after redirects.
        is_cached: Whether it is from the cache.
    """

    location: Location
    data: bytes = field(repr=False)
    is_cached: bool = False

    def parsed(self) -> dict[str, object]:
        """Return the document; raise `UnsoundDocument`."""
        return load(self.data, f"the OpenAPI document of {self.location.key}")


def key_of(named: GroupVersion | GroupVersionResource) -> str:
    """Return the key of a group-version's document, such as `api/v1` or `apis/apps/v1`."""
    return keys.key_of(named.group, named.version)


def group_version_of(key: str) -> GroupVersion | None:
    """Return what the document of a key is about; None where it is about no group-version."""
    found = keys.group_version_of(key)
    return GroupVersion(*found) if found else None


def _read_anything(_content_type: str | None, body: bytes) -> bytes:
    return body


def _read_protobuf(content_type: str | None, body: bytes) -> bytes:
    """Return the body of a server that knows the format; raise `UnreadableError` for others."""
    if not (content_type or "").startswith(_PROTOBUF_FAMILY):
        raise UnreadableError(f"the content type is {content_type!r}, not {PROTOBUF!r}")
    return body


def asked_index() -> Flow[Mapping[str, Location]]:
    """Return where each document is, by its key such as `apis/apps/v1`, in order of the keys.

    Whatever the Content-Type: kube-apiserver calls its index plain text.

    Raises:
        RequestRefused: Another status than 200.
        UnexpectedDocument: It is not an index.
    """
    answer = yield Ask(INDEX_PATH, ACCEPT_PLAIN)
    if answer.status == HTTPStatus.NOT_FOUND and not answer.is_page:
        raise RequestRefused(_NO_INDEX, url=answer.url, status=answer.status)
    return answer.read(lambda _type, body: _read_index(body))


def asked_document(
    server: str, location: Location, accept: str = ACCEPT_PLAIN, read: Reader = _read_anything
) -> Flow[FetchedDocument]:
    """Return a document, also when its hash has changed since the index was read.

    Raises:
        RequestRefused: Another status than 200.
        UnexpectedDocument: It is not what was asked for, or in a place on another server.
    """
    answer = yield _ask(server, location, accept)
    for _ in range(_MAX_REDIRECTS):
        target = answer.headers.get("location", "")
        if answer.status not in _MOVED or not target:
            break
        location = replace(location, url=_moved(server, answer.url, target))
        answer = yield _ask(server, location, accept)
    return FetchedDocument(location, answer.read(read))


def asked_protobuf(server: str, location: Location) -> Flow[FetchedDocument]:
    """Return a document as the protobuf message gnostic openapi.v3 `Document`; raise the same."""
    return asked_document(server, location, _ACCEPT_PROTOBUF, _read_protobuf)


def origin(url: str) -> str:
    """Return a URL without its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _ask(server: str, location: Location, accept: str) -> Ask:
    if not _USABLE_URL.fullmatch(location.url):
        raise UnexpectedDocument(f"{location.url!r} is not a path on the server", url=server)
    return Ask(location.url, accept)


def _moved(server: str, asked: str, target: str) -> str:
    """Return a Location as a URL on this server; raise `UnexpectedDocument` for another one."""
    url = urljoin(asked, target)
    if origin(url) != origin(server):
        raise UnexpectedDocument(f"it redirects to another server, {url}", url=asked)
    parts = urlsplit(url)
    path = parts.path
    prefix = urlsplit(server).path
    if prefix and path.startswith(prefix + INDEX_PATH):
        path = path.removeprefix(prefix)
    return urlunsplit(("", "", path, parts.query, ""))


def _read_index(body: bytes) -> dict[str, Location]:
    """Return what an index tells; raise `UnreadableError` when it is none."""
    try:
        document = load(body, "the index")
    except UnsoundDocument as error:
        raise UnreadableError(str(error)) from None
    paths = document.get("paths")
    if not is_object(paths):
        raise UnreadableError(f"paths is {name_of(paths)}, not an object")
    return {key: Location(key, _url_of(key, paths[key])) for key in sorted(paths)}


def _url_of(key: str, entry: object) -> str:
    url = as_object(entry).get("serverRelativeURL")
    if not isinstance(url, str):
        raise UnreadableError(f"paths[{key!r}].serverRelativeURL is {name_of(url)}, not a string")
    return url
