"""A fake DiscoveryService: it answers as a test says, also as no real one would."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

import grpc
from apidiscovery.service.v1 import discovery_pb2 as pb
from apidiscovery.v2 import discovery_pb2 as v2
from google.protobuf.message import Message
from grpc_fakes import End, aio_server
from grpc_server import SERVICE

_REQUESTS: dict[str, type[Message]] = {
    "GetDiscovery": pb.GetDiscoveryRequest,
    "ListSources": pb.ListSourcesRequest,
    "WatchDiscovery": pb.WatchDiscoveryRequest,
}


class Hang(NamedTuple):
    """Sends nothing more until the caller has left."""


Entry: TypeAlias = Message | bytes | End | Hang
Asked: TypeAlias = tuple[str, Any, dict[str, str]]


@dataclass
class Scripted:
    """The answers of a server, and the calls that arrived.

    Attributes:
        gets: The next answers of GetDiscovery.
        sources: The next answers of ListSources.
        watches: The messages of the next watches; after its messages a watch ends with OK.
        asked: Method, request and metadata of each call, in order.
        gone: Set whenever a caller leaves a watch that hangs.
    """

    gets: deque[Entry] = field(default_factory=deque[Entry])
    sources: deque[Entry] = field(default_factory=deque[Entry])
    watches: deque[Iterable[Entry]] = field(default_factory=deque[Iterable[Entry]])
    asked: list[Asked] = field(default_factory=list[Asked])
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""

    def requests(self, method: str) -> list[Any]:
        return [request for name, request, _ in self.asked if name == method]

    async def _once(self, method: str, data: bytes, context: Any) -> bytes:  # noqa: ANN401 - generic by type
        self._note(method, data, context)
        queue = self.gets if method == "GetDiscovery" else self.sources
        entry = queue.popleft() if queue else End(grpc.StatusCode.UNIMPLEMENTED, "not scripted")
        return await self._encoded(entry, context)

    async def _watch(self, data: bytes, context: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - generic by type
        self._note("WatchDiscovery", data, context)
        script = self.watches.popleft() if self.watches else [Hang()]
        for entry in script:
            yield await self._encoded(entry, context)

    def _note(self, method: str, data: bytes, context: Any) -> None:  # noqa: ANN401 - generic by type
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        self.asked.append((method, _REQUESTS[method].FromString(data), metadata))

    async def _encoded(self, entry: Entry, context: Any) -> bytes:  # noqa: ANN401 - generic by type
        if isinstance(entry, End):
            await context.abort(entry.code, entry.message, entry.trailers)
        if isinstance(entry, Hang):
            try:
                await asyncio.Event().wait()
            finally:
                self.gone.set()
        assert isinstance(entry, Message | bytes)
        return entry if isinstance(entry, bytes) else entry.SerializeToString()

    def handler(self) -> grpc.GenericRpcHandler:
        def once(method: str) -> Any:  # noqa: ANN401 - generic by type
            async def answer(data: bytes, context: Any) -> bytes:  # noqa: ANN401 - generic by type
                return await self._once(method, data, context)

            return cast("Any", grpc.unary_unary_rpc_method_handler(answer))

        methods = {method: once(method) for method in ("GetDiscovery", "ListSources")}
        methods["WatchDiscovery"] = grpc.unary_stream_rpc_method_handler(self._watch)
        return grpc.method_handlers_generic_handler(SERVICE, methods)


@asynccontextmanager
async def scripted(script: Scripted | None = None, port: int = 0) -> AsyncGenerator[Scripted]:
    """Serve a script, from the beginning or from where another server has stopped."""
    script = script or Scripted()
    handlers = (script.handler(),)
    async with aio_server(
        lambda server: server.add_generic_rpc_handlers(handlers), f"127.0.0.1:{port}"
    ) as script.address:
        yield script


def group(name: str, *resources: str, freshness: str = "Current") -> v2.APIGroupDiscovery:
    """Return a group with one version and these resources."""
    item = v2.APIGroupDiscovery()
    item.metadata.name = name
    version = item.versions.add(version="v1", freshness=freshness)
    for resource in resources:
        added = version.resources.add(resource=resource, scope="Namespaced", verbs=["get", "list"])
        added.response_kind.kind = resource.capitalize()
    return item


def whole(*groups: v2.APIGroupDiscovery, etag: str = "E") -> pb.GetDiscoveryResponse:
    """Return the whole document; the hash of each group is `1`."""
    answer = pb.GetDiscoveryResponse(etag=etag, group_hashes=_hashes(groups))
    for item in groups:
        (answer.v2.groups if item.metadata.name else answer.v2.core).items.append(item)
    answer.v2.SetInParent()
    return answer


def changed(item: v2.APIGroupDiscovery, position: int, hashed: str = "2") -> pb.ChangedGroup:
    return pb.ChangedGroup(name=item.metadata.name, hash=hashed, position=position, v2=item)


def changes(
    *groups: pb.ChangedGroup, removed: Iterable[str] = (), etag: str = "F"
) -> pb.WatchDiscoveryResponse:
    """Return a message of a watch."""
    delta = pb.DiscoveryDelta(changed=groups, removed=removed)
    return pb.WatchDiscoveryResponse(
        changes=pb.WatchDiscoveryResponse.Changes(etag=etag, delta=delta)
    )


def heartbeat(etag: str = "F") -> pb.WatchDiscoveryResponse:
    return pb.WatchDiscoveryResponse(heartbeat=pb.WatchDiscoveryResponse.Heartbeat(etag=etag))


def _hashes(groups: Iterable[v2.APIGroupDiscovery]) -> list[pb.GroupHash]:
    return [pb.GroupHash(name=item.metadata.name, hash="1") for item in groups]
