"""Fetches the OpenAPI v3 documents of any Kubernetes API server, each once by its hash.

Source: client-go openapi/client.go, openapi/groupversion.go; KEP-2896.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urljoin, urlsplit, urlunsplit

from apidiscovery_client._errors import RequestRefused, UnexpectedDocument
from apidiscovery_client._negotiation import ACCEPT_PLAIN
from apidiscovery_client.http.reply import Reply
from apidiscovery_client.http.session import Session
from apidiscovery_client.openapi.cache import DocumentCache, Name
from apidiscovery_client.openapi.errors import UnsoundDocument
from apidiscovery_client.openapi.json_documents import as_object, load, name_of
from apidiscovery_client.reading import UnreadableError
from apidiscovery_client.server import Server

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


Reader = Callable[[str | None, bytes], bytes]


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
    data: bytes
    is_cached: bool = False

    def parsed(self) -> dict[str, object]:
        """Return the document; raise `UnsoundDocument`."""
        return load(self.data, f"the OpenAPI document of {self.location.key}")


def _read_anything(_content_type: str | None, body: bytes) -> bytes:
    return body


def _read_protobuf(content_type: str | None, body: bytes) -> bytes:
    """Return the body of a server that knows the format; raise `UnreadableError` for others."""
    if not (content_type or "").startswith(_PROTOBUF_FAMILY):
        raise UnreadableError(f"the content type is {content_type!r}, not {PROTOBUF!r}")
    return body


class OpenApiClient:
    """Asks one server for its documents; to be used with `async with`.

    Every method raises:
        ServerUnreachable: No answer.
        RequestRefused: Another status than 200.
        UnexpectedDocument: A body that is not what was asked for, or a place on another server.
    """

    def __init__(self, server: Server, cache: DocumentCache | None = None) -> None:
        self._server = server
        self._origin = _origin(server.url)
        self._cache = cache
        self._session = Session(server)
        # For URLs that are not below /openapi/v3, a path in the server's URL does not count.
        self._root_session = Session(replace(server, url=self._origin))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._session.__aexit__(kind, error, traceback)
        await self._root_session.__aexit__(kind, error, traceback)

    async def index(self) -> Mapping[str, Location]:
        """Return where each document is, by its key such as `apis/apps/v1`, in order of the keys.

        Whatever the Content-Type: kube-apiserver calls its index plain text.
        """
        answer = await self._get(INDEX_PATH, ACCEPT_PLAIN)
        if answer.status == HTTPStatus.NOT_FOUND and not answer.is_page:
            raise RequestRefused(_NO_INDEX, url=answer.url, status=answer.status)
        return answer.read(lambda _type, body: _read_index(body))

    async def document(self, location: Location) -> FetchedDocument:
        """Return a document as JSON, from the cache if it is there under that hash."""
        if found := self._cached(location):
            return found
        fetched = await self._follow(location, ACCEPT_PLAIN)
        if self._cache and fetched.location.hash:
            await asyncio.to_thread(self._cache.put, self._name(fetched.location), fetched.data)
        return fetched

    async def protobuf(self, location: Location) -> FetchedDocument:
        """Return a document as the protobuf message gnostic openapi.v3 `Document`; never cached."""
        return await self._follow(location, _ACCEPT_PROTOBUF, _read_protobuf)

    async def documents(
        self, locations: Iterable[Location], done: Callable[[], object] = lambda: None
    ) -> list[FetchedDocument]:
        """Return several documents in order, fetched side by side; `done` is called after each.

        The first that fails ends it: what it raised is raised.
        """

        async def one(location: Location) -> FetchedDocument:
            found = await self.document(location)
            done()
            return found

        tasks = [asyncio.create_task(one(location)) for location in locations]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _cached(self, location: Location) -> FetchedDocument | None:
        if self._cache is None or not location.hash:
            return None
        data = self._cache.get(self._name(location))
        return None if data is None else FetchedDocument(location, data, is_cached=True)

    def _name(self, location: Location) -> Name:
        return Name(self._server.url, location.key, location.hash)

    async def _follow(
        self, location: Location, accept: str, read: Reader = _read_anything
    ) -> FetchedDocument:
        """Return a document, also when its hash has changed since the index was read."""
        answer = await self._get(location.url, accept)
        for _ in range(_MAX_REDIRECTS):
            target = answer.headers.get("location", "")
            if answer.status not in _MOVED or not target:
                break
            location = replace(location, url=self._moved(answer.url, target))
            answer = await self._get(location.url, accept)
        return FetchedDocument(location, answer.read(read))

    async def _get(self, url: str, accept: str) -> Reply:
        if not _USABLE_URL.fullmatch(url):
            raise UnexpectedDocument(f"{url!r} is no path on the server", url=self._server.url)
        session = self._session if url.startswith(INDEX_PATH) else self._root_session
        return await session.get(url, accept)

    def _moved(self, asked: str, target: str) -> str:
        """Return a Location as a URL on this server; raise `UnexpectedDocument` for another one."""
        url = urljoin(asked, target)
        if _origin(url) != self._origin:
            raise UnexpectedDocument(f"it redirects to another server, {url}", url=asked)
        parts = urlsplit(url)
        path = parts.path
        prefix = urlsplit(self._server.url).path
        if prefix and path.startswith(prefix + INDEX_PATH):
            path = path.removeprefix(prefix)
        return urlunsplit(("", "", path, parts.query, ""))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _read_index(body: bytes) -> dict[str, Location]:
    """Return what an index tells; raise `UnreadableError` when it is none."""
    try:
        document = load(body, "the index")
    except UnsoundDocument as error:
        raise UnreadableError(str(error)) from None
    paths = as_object(document.get("paths"))
    if paths is None:
        raise UnreadableError(f"paths is {name_of(document.get('paths'))}, not an object")
    return {key: Location(key, _url_of(key, paths[key])) for key in sorted(paths)}


def _url_of(key: str, entry: object) -> str:
    url = (as_object(entry) or {}).get("serverRelativeURL")
    if not isinstance(url, str):
        raise UnreadableError(f"paths[{key!r}].serverRelativeURL is {name_of(url)}, not a string")
    return url
