"""Discovery for `kubernetes_asyncio.dynamic.DynamicClient`, in its event loop.

Pass it to a client:

    from kubernetes_asyncio import client, dynamic
    from apidiscovery_client.adapters.kubernetes_asyncio import apidiscovery_discoverer

    async with (
        client.ApiClient() as api_client,
        dynamic.DynamicClient(api_client, discoverer=apidiscovery_discoverer()) as dynamic_client,
    ):
        await dynamic_client.resources.get(api_version="apps/v1", kind="Deployment")
"""

from collections.abc import AsyncIterator, Generator, Mapping
from typing import Any, ClassVar, Self, cast

import aiohttp
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.dynamic import exceptions
from kubernetes_asyncio.dynamic.client import DynamicClient
from kubernetes_asyncio.dynamic.discovery import Discoverer, ResourceGroup
from kubernetes_asyncio.dynamic.resource import Resource, ResourceList

from apidiscovery_client._http.body import PIECE_BYTES, Collected
from apidiscovery_client._http.reply import MAX_BODY_BYTES, Reply
from apidiscovery_client._interfaces import SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client._server import DEFAULT_TIMEOUT_S
from apidiscovery_client.adapters import _dynamic
from apidiscovery_client.adapters._async_borrowed import AsyncBorrowedTransport
from apidiscovery_client.adapters._async_lookups import AsyncLookups
from apidiscovery_client.adapters._dynamic import Catalogues, Settings
from apidiscovery_client.async_client import AsyncDiscoveryClient

__all__ = ["ApiDiscoverer", "apidiscovery_discoverer"]

_PACKAGE = _dynamic.Package(Resource, ResourceList, ResourceGroup, exceptions, ApiException)


def apidiscovery_discoverer(
    client: AsyncDiscoveryClient | None = None,
    *,
    cache: bool | SnapshotCache = False,
    options: ClientOptions = DEFAULT_OPTIONS,
) -> type["ApiDiscoverer"]:
    """Return the class that `DynamicClient` takes as `discoverer`.

    Args:
        client: The client to use; by default one that sends its requests through the `ApiClient` of
            the `DynamicClient`, and so needs no configuration.
        cache: Whether that client keeps snapshots on disk for other processes, or the cache to use.
        options: Cache lifetimes and retries of that client.
    """

    class Configured(ApiDiscoverer):
        _settings = Settings(client, cache, options)

    return Configured


class ApiDiscoverer(  # pyright: ignore[reportIncompatibleMethodOverride] - the base is untyped
    AsyncLookups[Resource], Discoverer
):
    """Looks resources up as `AsyncLookups` does; it is ready after `await`.

    `version` is read at once.

    Args:
        client: The `DynamicClient`.
        cache_file: Ignored; see `apidiscovery_discoverer`.

    Attributes:
        discovery: The client that asks the server; it exists after `await`.
    """

    _settings: ClassVar[Settings[AsyncDiscoveryClient]] = Settings()
    _package = _PACKAGE

    def __init__(
        self,
        client: DynamicClient,
        cache_file: str | None = None,  # noqa: ARG002 - the package passes it
    ) -> None:
        # Not the constructor of the base class, which reads and writes a cache of its own.
        self.client = client
        self._catalogues = Catalogues(client, _PACKAGE)
        self._version: dict[str, Any] = {}

    def __await__(self) -> Generator[Any, None, Self]:
        """Read `version`; the first look-up reads the rest."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        """Return what `await` does."""
        await self._forget_version()
        self.discovery = self._settings.client or await _own_client(
            self.client.client, self._settings
        )
        return self

    @property
    def version(self) -> dict[str, Any]:
        """Return the document of /version, under `kubernetes`."""
        return self._version

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the kinds of each group-version, as `LazyDiscoverer` does."""
        with _PACKAGE.own_errors():
            catalogue = self._catalogues.of(await self.discovery.snapshot())
        for kind, _ in catalogue:
            yield kind

    async def _forget_version(self) -> None:
        client = cast("Any", self.client)
        told = await client.request("get", "/version", serializer=_dynamic.just_json)
        self._version = {"kubernetes": told}


async def _own_client(
    api_client: ApiClient, settings: Settings[AsyncDiscoveryClient]
) -> AsyncDiscoveryClient:
    """Return a client that asks through an `ApiClient`."""
    told = cast("Any", api_client).configuration
    host = str(told.host).rstrip("/")
    transport = AsyncBorrowedTransport(
        host, _Sender(api_client), (aiohttp.ClientError, OSError, ApiException)
    )
    cache = settings.cache
    key = await _cache_key(host, api_client) if cache else ""
    return AsyncDiscoveryClient(transport, cache=cache, cache_key=key, options=settings.options)


class _Sender:
    """Sends requests through an `ApiClient`."""

    def __init__(self, api_client: ApiClient) -> None:
        self._api_client = cast("Any", api_client)

    async def __call__(self, path: str, headers: Mapping[str, str]) -> Reply:
        answer: aiohttp.ClientResponse = await self._api_client.call_api(
            path,
            "GET",
            header_params=dict(headers),
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=DEFAULT_TIMEOUT_S,
        )
        body = Collected("", MAX_BODY_BYTES)  # aiohttp decompresses it, piece by piece
        async with answer:
            content = await body.collect_async(answer.content.iter_chunked(PIECE_BYTES))
        told = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(str(answer.url), answer.status, told, content)


async def _cache_key(host: str, api_client: ApiClient) -> str:
    """Return the cache key, which differs by server and caller."""
    any_client = cast("Any", api_client)
    headers: dict[str, str] = dict(any_client.default_headers)
    await any_client.update_params_for_auth(headers, [], ["BearerToken"])
    return _dynamic.cache_key(host, headers, any_client.configuration)
