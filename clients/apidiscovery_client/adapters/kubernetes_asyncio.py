"""Discovery for `kubernetes_asyncio.dynamic.DynamicClient`, in its event loop.

A client is made with it:

    from kubernetes_asyncio import client, dynamic
    from apidiscovery_client.adapters.kubernetes_asyncio import apidiscovery_discoverer

    async with (
        client.ApiClient() as api_client,
        dynamic.DynamicClient(api_client, discoverer=apidiscovery_discoverer()) as dynamic_client,
    ):
        await dynamic_client.resources.get(api_version="apps/v1", kind="Deployment")
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Generator, KeysView, Mapping
from functools import partial
from typing import Any, ClassVar, Self, cast

import aiohttp
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.dynamic import exceptions
from kubernetes_asyncio.dynamic.client import DynamicClient
from kubernetes_asyncio.dynamic.discovery import Discoverer, ResourceGroup
from kubernetes_asyncio.dynamic.resource import Resource, ResourceList

from apidiscovery_client._errors import NotServed
from apidiscovery_client._http.body import PIECE_BYTES, Collected
from apidiscovery_client._http.reply import MAX_BODY_BYTES, Reply
from apidiscovery_client._interfaces import SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client._server import DEFAULT_TIMEOUT_S
from apidiscovery_client.adapters import _dynamic
from apidiscovery_client.adapters._async_borrowed import AsyncBorrowedTransport
from apidiscovery_client.adapters._dynamic import Catalogues, Query, Settings
from apidiscovery_client.async_client import AsyncDiscoveryClient

__all__ = ["ApiDiscoverer", "apidiscovery_discoverer"]

_PACKAGE = _dynamic.Package(Resource, ResourceList, ResourceGroup, exceptions, ApiException)


def apidiscovery_discoverer(
    client: AsyncDiscoveryClient | None = None,
    *,
    cache: bool | SnapshotCache = False,
    options: ClientOptions = DEFAULT_OPTIONS,
) -> type["ApiDiscoverer"]:
    """Return what `DynamicClient` takes as `discoverer`.

    Args:
        client: What to ask; by default a client of its own, that asks through the `ApiClient` of
            the `DynamicClient` and so needs no configuration.
        cache: Whether that client keeps snapshots on disk for other processes, and where.
        options: How long it believes what is known.
    """

    class Configured(ApiDiscoverer):
        _settings = Settings(client, cache, options)

    return Configured


class ApiDiscoverer(Discoverer):
    """Looks resources up in one snapshot of the server; it is ready after `await`.

    It differs from `LazyDiscoverer` as `adapters.kubernetes.ApiDiscoverer` does, but that
    `version` is asked for at once.

    Args:
        client: The `DynamicClient`.
        cache_file: Ignored; see `apidiscovery_discoverer`.

    Attributes:
        discovery: What is asked; there after `await`.
    """

    _settings: ClassVar[Settings[AsyncDiscoveryClient]] = Settings()
    discovery: AsyncDiscoveryClient

    def __init__(
        self,
        client: DynamicClient,
        cache_file: str | None = None,  # noqa: ARG002 - the package passes it
    ) -> None:
        # Not that of the base class, which reads and writes a cache of its own.
        self.client = client
        self._catalogues = Catalogues(client, _PACKAGE)
        self._version: dict[str, Any] = {}

    def __await__(self) -> Generator[Any, None, Self]:
        """Ask for `version`, and let the first look-up ask for the rest."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        """Return what `await` does."""
        await self._load_server_info()
        self.discovery = self._settings.client or await _own_client(
            self.client.client, self._settings
        )
        return self

    @property
    def version(self) -> dict[str, Any]:
        """Return what the server says of its release, under `kubernetes`."""
        return self._version

    @property
    async def api_groups(  # pyright: ignore[reportIncompatibleMethodOverride] - the base is untyped
        self,
    ) -> KeysView[str]:
        """Return the names of all groups, and the empty string."""
        return (await self.parse_api_groups(update=True))[_dynamic.GROUPS_PREFIX].keys()

    async def search(
        self,
        prefix: str | None = None,
        group: str | None = None,
        api_version: str | None = None,
        kind: str | None = None,
        **kwargs: Any,  # noqa: ANN401 - values to compare with
    ) -> list[Resource]:
        """Return the resources that match, in the server's order; the list may be empty.

        Args:
            prefix: `api` or `apis`.
            group: All of its name.
            api_version: A version, or group and version such as `apps/v1`.
            kind: As it is written in objects.
            kwargs: Attributes of resources, which must be equal: `name`, `singular_name`,
                `short_names`, `namespaced`, `preferred`, `verbs`, ...
        """
        query = Query.of(prefix, group, api_version, kind, **kwargs)
        with _PACKAGE.own_errors():
            try:
                return await self._found(query)
            except NotServed:
                return []

    async def get(self, **kwargs: Any) -> Resource:  # noqa: ANN401 - as for `search`
        """Return the one resource that `search` finds.

        Of several those in exactly `api_version` count, and then those that are no lists.

        Raises:
            ResourceNotFoundError: There is none; the text says where it may be nevertheless.
            ResourceNotUniqueError: There are several, such as a kind in several versions:
                `preferred=True` is the one that the server prefers.
        """
        with _PACKAGE.own_errors():
            try:
                found = await self._found(Query.of(**kwargs))
            except NotServed as error:
                raise _PACKAGE.no_match(kwargs, error) from error
        return _PACKAGE.one_of(found, kwargs)

    async def resolve(self, text: str) -> Resource:
        """Return what kubectl takes a name for, such as `deploy`, `deployments.apps` or `hpa`.

        Raises:
            ResourceNotFoundError: There is none; the text has suggestions.
            ResourceNotUniqueError: It is a category of several.
        """
        with _PACKAGE.own_errors():
            resource = (await self.discovery.resolve(text)).resource
            return (await self._found(Query.for_one(resource)))[0]

    async def parse_api_groups(
        self,
        request_resources: bool = False,  # noqa: ARG002, FBT001, FBT002 - the package's
        update: bool = False,  # noqa: FBT001, FBT002 - the package's
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """Return by prefix, group and version a `ResourceGroup`, always with its resources."""
        with _PACKAGE.own_errors():
            snapshot = await self.discovery.snapshot(max_age_s=0.0 if update else None)
            return self._catalogues.of(snapshot).tree

    async def get_resources_for_api_version(
        self,
        prefix: str | None,
        group: str | None,
        version: str | None,
        preferred: bool,  # noqa: ARG002, FBT001 - the package's
    ) -> dict[str, list[Resource]]:
        """Return the resources of a group-version by kind; there may be none."""
        with _PACKAGE.own_errors():
            catalogue = self._catalogues.of(await self.discovery.snapshot())
        return defaultdict(list, catalogue.kinds(prefix or "", group or "", version or ""))

    async def discover(self) -> None:
        """Ask, if what is known is too old."""
        with _PACKAGE.own_errors():
            await self.discovery.snapshot()

    async def invalidate_cache(self) -> None:
        """Ask the server now, also for its version."""
        await self._load_server_info()
        with _PACKAGE.own_errors():
            await self.discovery.refresh()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the kinds of each group-version, as `LazyDiscoverer` does."""
        with _PACKAGE.own_errors():
            catalogue = self._catalogues.of(await self.discovery.snapshot())
        for kind, _ in catalogue:
            yield kind

    async def _load_server_info(self) -> None:
        client = cast("Any", self.client)
        told = await client.request("get", "/version", serializer=_dynamic.just_json)
        self._version = {"kubernetes": told}

    async def _found(self, query: Query) -> list[Resource]:
        return await self.discovery.look_up(
            ("kubernetes_asyncio", repr(query)), partial(self._catalogues.search, query)
        )


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
            content = await body.all_that_come(answer.content.iter_chunked(PIECE_BYTES))
        told = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(str(answer.url), answer.status, told, content)


async def _cache_key(host: str, api_client: ApiClient) -> str:
    """Return another name for whoever is somebody else to the server."""
    any_client = cast("Any", api_client)
    headers: dict[str, str] = dict(any_client.default_headers)
    await any_client.update_params_for_auth(headers, [], ["BearerToken"])
    return _dynamic.cache_key(host, headers, any_client.configuration)
