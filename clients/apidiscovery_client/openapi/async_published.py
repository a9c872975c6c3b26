"""OpenAPI documents for users of a client; the blocking form is made by `make generate`."""

from collections.abc import Mapping
from typing import TypeVar

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._interfaces import AsyncTransport
from apidiscovery_client.model import GroupVersion, GroupVersionKind
from apidiscovery_client.openapi.asking import (
    AsyncFetchesPaths,
    FetchedDocument,
    Flow,
    Location,
    asked_document,
    asked_index,
    group_version_of,
    key_of,
)
from apidiscovery_client.openapi.json_documents import NotExplained, Object
from apidiscovery_client.openapi.json_schema import Kind, json_schema

_T = TypeVar("_T")


class AsyncOpenApi:
    """The OpenAPI v3 documents of a server; each is fetched again only when its hash has changed.

    Every method raises `ServerUnreachable`, `RequestRefused` and `UnexpectedDocument`, and
    `InvalidConfiguration` for a server that is asked over gRPC.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._known: dict[str, FetchedDocument] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.server!r})"

    async def index(self) -> Mapping[GroupVersion, Location]:
        """Return where the document of each group-version is, in order of their keys."""
        keys = await self._run(asked_index())
        return {gv: location for key, location in keys.items() if (gv := group_version_of(key))}

    async def document(self, gv: GroupVersion) -> Object:
        """Return the document of a group-version, as JSON is read.

        Raises:
            NotExplained: The server has none.
            UnsoundDocument: It cannot be read.
        """
        location = (await self._run(asked_index())).get(key_of(gv))
        if location is None:
            raise NotExplained(f'the server has no OpenAPI document of "{gv}"')
        known = self._known.get(location.key)
        if known is None or not location.hash or known.location.hash != location.hash:
            known = await self._run(asked_document(self._transport.server, location))
            self._known[location.key] = known
        return known.parsed()

    async def schema(self, gvk: GroupVersionKind, *, strict: bool = False) -> Object:
        """Return the JSON Schema (draft 7) of a kind, with what it refers to in `definitions`.

        Args:
            gvk: The kind.
            strict: Refuse properties that are not listed, but where the API keeps them.

        Raises:
            NotExplained: The server has no such document, or the document no such kind.
            UnsoundDocument: The document cannot be read.
        """
        document = await self.document(GroupVersion(gvk.group, gvk.version))
        return json_schema(document, Kind(gvk.group, gvk.version, gvk.kind), strict=strict)

    async def _run(self, flow: Flow[_T]) -> _T:
        if not isinstance(self._transport, AsyncFetchesPaths):
            raise InvalidConfiguration(
                f"{self._transport.server}: OpenAPI documents are asked for over HTTP;"
                " make a client of the server's https:// URL"
            )
        try:
            ask = next(flow)
            while True:
                ask = flow.send(await self._transport.get(ask.path, ask.accept))
        except StopIteration as done:
            result: _T = done.value
            return result
