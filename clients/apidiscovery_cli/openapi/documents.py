"""Fetches the OpenAPI v3 documents of any Kubernetes API server, each once by its hash.

The cache on disk is verified when it is read: a file is named for the SHA-512 of its content, or,
where a server's hash is not that, begins with the SHA-512 of the rest. Files are written whole and
never changed; the least recently used are removed when there are too many.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from apidiscovery_client._http.flow import HttpOptions
from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS
from apidiscovery_client._private_files import PrivateFolder, cache_folder
from apidiscovery_client._server import Server
from apidiscovery_client.openapi.asking import (
    INDEX_PATH,
    FetchedDocument,
    Flow,
    Location,
    asked_document,
    asked_index,
    asked_protobuf,
    origin,
)
from apidiscovery_client.transports.async_http import AsyncHttpTransport

MAX_BYTES = 256 << 20  # all documents of a large cluster are 20 MB
MAX_FILES = 2000

_SHA512 = re.compile(r"[0-9A-Fa-f]{128}")
_SUFFIXES = (".json", ".checked")
_DIGEST_CHARACTERS = 128


def default_folder() -> Path:
    """Return the folder for documents, by the rule of `cache_folder`."""
    return cache_folder("openapi")


@dataclass(frozen=True, slots=True)
class Name:
    """What identifies the content of a document.

    Attributes:
        server: Where it is from, without credentials.
        key: Of the document in the server's index.
        hash: As the server states it, in its URL.
    """

    server: str
    key: str
    hash: str

    @property
    def is_digest(self) -> bool:
        """Whether the hash may be the SHA-512 of the content."""
        return _SHA512.fullmatch(self.hash) is not None

    @property
    def file(self) -> str:
        """Return the name of the file, made of hexadecimal digits whatever the server says."""
        if self.is_digest:
            return f"{self.hash.upper()}.json"
        return f"{_digest(repr((self.server, self.key, self.hash)).encode())}.checked"


@dataclass(frozen=True, slots=True)
class DocumentCache:
    """A folder of documents; nothing in it is needed, and no failure of it is an error.

    Attributes:
        max_bytes: Of all files together.
    """

    folder: Path
    max_bytes: int = MAX_BYTES
    max_files: int = MAX_FILES

    def get(self, name: Name) -> bytes | None:
        """Return the content; None when it is not there, damaged, or not only ours to write."""
        files = self._files
        try:
            content = files.read(name.file)
        except OSError:
            return None
        document = _checked(name, content)
        with contextlib.suppress(OSError):
            files.remove(name.file) if document is None else files.mark_used(name.file)
        return document

    def put(self, name: Name, document: bytes) -> None:
        """Keep a content, unless it does not have the digest that it is named for."""
        digest = _digest(document)
        if name.is_digest and digest != name.hash.upper():
            return
        content = document if name.is_digest else digest.encode() + b"\n" + document
        with contextlib.suppress(OSError):
            self._files.write(name.file, content)

    @property
    def _files(self) -> PrivateFolder:
        return PrivateFolder(self.folder, _SUFFIXES, self.max_bytes, self.max_files)


def _digest(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest().upper()


def _checked(name: Name, content: bytes) -> bytes | None:
    """Return the document in a file; None when its digest is another."""
    if name.is_digest:
        return content if _digest(content) == name.hash.upper() else None
    stated, document = content[:_DIGEST_CHARACTERS], content[_DIGEST_CHARACTERS + 1 :]
    return document if stated == _digest(document).encode() else None


_T = TypeVar("_T")


class OpenApiClient:
    """Asks one server for its documents; to be used with `async with`.

    Every method raises:
        ServerUnreachable: No answer.
        RequestRefused: Another status than 200.
        UnexpectedDocument: A body that is not what was asked for, or a place on another server.
    """

    def __init__(
        self,
        server: Server,
        cache: DocumentCache | None = None,
        *,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        options = HttpOptions(warn=warn)
        self._server = server
        self._cache = cache
        self._transport = AsyncHttpTransport(server, options)
        # For URLs that are not below /openapi/v3, a path in the server's URL does not count.
        self._root = AsyncHttpTransport(replace(server, url=origin(server.url)), options)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transport.close()
        await self._root.close()

    async def index(self) -> Mapping[str, Location]:
        """Return where each document is, by its key such as `apis/apps/v1`, in their order."""
        return await self._run(asked_index())

    async def document(self, location: Location) -> FetchedDocument:
        """Return a document as JSON, from the cache if it is there under that hash."""
        if found := self._cached(location):
            return found
        fetched = await self._run(asked_document(self._server.url, location))
        if self._cache and fetched.location.hash:
            await asyncio.to_thread(self._cache.put, self._name(fetched.location), fetched.data)
        return fetched

    async def protobuf(self, location: Location) -> FetchedDocument:
        """Return a document as the protobuf message gnostic openapi.v3 `Document`; never cached."""
        return await self._run(asked_protobuf(self._server.url, location))

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

    async def _run(self, flow: Flow[_T]) -> _T:
        try:
            ask = next(flow)
            while True:
                is_below = ask.path.startswith(INDEX_PATH)
                transport = self._transport if is_below else self._root
                async with self._slots:
                    answer = await transport.get(ask.path, ask.accept)
                ask = flow.send(answer)
        except StopIteration as done:
            result: _T = done.value
            return result
