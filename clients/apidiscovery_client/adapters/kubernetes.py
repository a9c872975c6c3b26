"""Discovery for `kubernetes.dynamic.DynamicClient`: two requests for everything.

Pass it to a client:

    from kubernetes import config, dynamic
    from apidiscovery_client.adapters.kubernetes import apidiscovery_discoverer

    client = dynamic.DynamicClient(
        config.new_client_from_config(), discoverer=apidiscovery_discoverer()
    )
    client.resources.get(api_version="apps/v1", kind="Deployment")
"""

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, ClassVar

from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import exceptions
from kubernetes.dynamic.discovery import Discoverer, ResourceGroup
from kubernetes.dynamic.resource import Resource, ResourceList
from urllib3.exceptions import HTTPError

from apidiscovery_client._http.body import PIECE_BYTES, BodyError, Collected
from apidiscovery_client._http.reply import MAX_BODY_BYTES, Reply
from apidiscovery_client._interfaces import SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client._server import DEFAULT_TIMEOUT_S
from apidiscovery_client.adapters import _dynamic
from apidiscovery_client.adapters._borrowed import BorrowedTransport
from apidiscovery_client.adapters._dynamic import Catalogues, Settings
from apidiscovery_client.adapters._lookups import Lookups
from apidiscovery_client.client import DiscoveryClient

__all__ = ["ApiDiscoverer", "apidiscovery_discoverer"]

_PACKAGE = _dynamic.Package(Resource, ResourceList, ResourceGroup, exceptions, ApiException)


def apidiscovery_discoverer(
    client: DiscoveryClient | None = None,
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
    Lookups[Resource], Discoverer
):
    """Looks resources up as `Lookups` does; threads may share it.

    `version` is read on first use.

    Args:
        client: The `DynamicClient`.
        cache_file: Ignored; see `apidiscovery_discoverer`.

    Attributes:
        discovery: The client that asks the server.
    """

    _settings: ClassVar[Settings[DiscoveryClient]] = Settings()
    _package = _PACKAGE

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the package does not type it
        cache_file: str | None = None,  # noqa: ARG002 - the package passes it
    ) -> None:
        # Not the constructor of the base class, which reads and writes a cache of its own.
        self.client = client
        self.discovery = self._settings.client or _own_client(client.client, self._settings)
        self._catalogues = Catalogues(client, _PACKAGE)
        self._version: dict[str, Any] | None = None

    @property
    def version(self) -> dict[str, Any]:
        """Return the document of /version, under `kubernetes`."""
        if self._version is None:
            told = self.client.request("get", "/version", serializer=_dynamic.just_json)
            self._version = {"kubernetes": told}
        return self._version

    def __iter__(self) -> Iterator[list[Resource]]:
        """Yield the resources of each kind in each group-version."""
        with _PACKAGE.own_errors():
            catalogue = self._catalogues.of(self.discovery.snapshot())
        return (resources for _, resources in catalogue)

    def _forget_version(self) -> None:
        self._version = None


def _own_client(api_client: Any, settings: Settings[DiscoveryClient]) -> DiscoveryClient:  # noqa: ANN401
    """Return a client that asks through an `ApiClient`."""
    host = str(api_client.configuration.host).rstrip("/")
    transport = BorrowedTransport(host, _Sender(api_client), (HTTPError, OSError, ApiException))
    cache = settings.cache
    key = _cache_key(host, api_client) if cache else ""
    return DiscoveryClient(transport, cache=cache, cache_key=key, options=settings.options)


class _Sender:
    """Sends requests through an `ApiClient`; threads may share it."""

    def __init__(self, api_client: Any) -> None:  # noqa: ANN401 - not typed well
        self._api_client = api_client
        self._lock = Lock()  # a hook that renews credentials need not be thread-safe

    def __call__(self, path: str, headers: Mapping[str, str]) -> Reply:
        with self._lock:
            request = self._api_client.param_serialize(
                "GET",
                path,
                header_params={"Accept-Encoding": "gzip", **headers},
                auth_settings=["BearerToken"],
            )
        answer = self._api_client.call_api(*request, _request_timeout=DEFAULT_TIMEOUT_S)
        told = {str(name).lower(): str(value) for name, value in answer.headers.items()}
        body = Collected(told.get("content-encoding", ""), MAX_BODY_BYTES)
        raw = answer.response  # its own methods decompress without a limit
        try:
            content = body.all_of(raw.stream(PIECE_BYTES, decode_content=False))
        except BodyError:
            raw.close()
            raise
        return Reply(str(request[1]), int(answer.status), told, content)


def _cache_key(host: str, api_client: Any) -> str:  # noqa: ANN401 - as above
    """Return the cache key, which differs by server and caller."""
    _, _, headers, *_ = api_client.param_serialize(
        "GET", "/", header_params={}, auth_settings=["BearerToken"]
    )
    return _dynamic.cache_key(host, headers, api_client.configuration)
