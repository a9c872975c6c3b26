"""Discovery for `kubernetes.dynamic.DynamicClient`: two requests for all that a server serves.

A client is made with it:

    from kubernetes import config, dynamic
    from apidiscovery_client.adapters.kubernetes import apidiscovery_discoverer

    client = dynamic.DynamicClient(
        config.new_client_from_config(), discoverer=apidiscovery_discoverer()
    )
    client.resources.get(api_version="apps/v1", kind="Deployment")
"""

from collections import defaultdict
from collections.abc import Iterator, KeysView, Mapping
from functools import partial
from threading import Lock
from typing import Any, ClassVar

from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import exceptions
from kubernetes.dynamic.discovery import Discoverer, ResourceGroup
from kubernetes.dynamic.resource import Resource, ResourceList
from urllib3.exceptions import HTTPError

from apidiscovery_client._errors import NotServed
from apidiscovery_client._http.body import PIECE_BYTES, BodyError, Collected
from apidiscovery_client._http.reply import MAX_BODY_BYTES, Reply
from apidiscovery_client._interfaces import SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client._server import DEFAULT_TIMEOUT_S
from apidiscovery_client.adapters import _dynamic
from apidiscovery_client.adapters._borrowed import BorrowedTransport
from apidiscovery_client.adapters._dynamic import Catalogues, Query, Settings
from apidiscovery_client.client import DiscoveryClient

__all__ = ["ApiDiscoverer", "apidiscovery_discoverer"]

_PACKAGE = _dynamic.Package(Resource, ResourceList, ResourceGroup, exceptions, ApiException)


def apidiscovery_discoverer(
    client: DiscoveryClient | None = None,
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
    """Looks resources up in one snapshot of the server; threads may share it.

    It answers as `LazyDiscoverer` does, but for these points. Filters other than prefix, group,
    version and kind must all match, not any one of them. The server is asked again when what is
    known is older than a minute, and once for what is not found; what did not change is not sent
    again. Group-versions that do not answer leave the others alone: their resources are what was
    known last, and where nothing was the error says so; the preferred version of a group is the
    first one that answers. `version` is asked for when it is used.
    Resources have no `storageVersionHash`, which aggregated documents do not tell.

    Args:
        client: The `DynamicClient`.
        cache_file: Ignored; see `apidiscovery_discoverer`.

    Attributes:
        discovery: What is asked.
    """

    _settings: ClassVar[Settings[DiscoveryClient]] = Settings()

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the package does not type it
        cache_file: str | None = None,  # noqa: ARG002 - the package passes it
    ) -> None:
        # Not that of the base class, which reads and writes a cache of its own.
        self.client = client
        self.discovery = self._settings.client or _own_client(client.client, self._settings)
        self._catalogues = Catalogues(client, _PACKAGE)
        self._version: dict[str, Any] | None = None

    @property
    def version(self) -> dict[str, Any]:
        """Return what the server says of its release, under `kubernetes`."""
        if self._version is None:
            told = self.client.request("get", "/version", serializer=_dynamic.just_json)
            self._version = {"kubernetes": told}
        return self._version

    @property
    def api_groups(  # pyright: ignore[reportIncompatibleMethodOverride] - the base is untyped
        self,
    ) -> KeysView[str]:
        """Return the names of all groups, and the empty string."""
        return self.parse_api_groups(update=True)[_dynamic.GROUPS_PREFIX].keys()

    def search(  # pyright: ignore[reportIncompatibleMethodOverride] - the base is untyped
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
                return self._found(query)
            except NotServed:
                return []

    def get(self, **kwargs: Any) -> Resource:  # noqa: ANN401 - as for `search`
        """Return the one resource that `search` finds.

        Of several those in exactly `api_version` count, and then those that are no lists.

        Raises:
            ResourceNotFoundError: There is none; the text says where it may be nevertheless.
            ResourceNotUniqueError: There are several, such as a kind in several versions:
                `preferred=True` is the one that the server prefers.
        """
        with _PACKAGE.own_errors():
            try:
                found = self._found(Query.of(**kwargs))
            except NotServed as error:
                raise _PACKAGE.no_match(kwargs, error) from error
        return _PACKAGE.one_of(found, kwargs)

    def resolve(self, text: str) -> Resource:
        """Return what kubectl takes a name for, such as `deploy`, `deployments.apps` or `hpa`.

        Raises:
            ResourceNotFoundError: There is none; the text has suggestions.
            ResourceNotUniqueError: It is a category of several.
        """
        with _PACKAGE.own_errors():
            resource = self.discovery.resolve(text).resource
            return self._found(Query.for_one(resource))[0]

    def parse_api_groups(
        self,
        request_resources: bool = False,  # noqa: ARG002, FBT001, FBT002 - the package's
        update: bool = False,  # noqa: FBT001, FBT002 - the package's
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """Return by prefix, group and version a `ResourceGroup`, always with its resources."""
        with _PACKAGE.own_errors():
            snapshot = self.discovery.snapshot(max_age_s=0.0 if update else None)
            return self._catalogues.of(snapshot).tree

    def get_resources_for_api_version(
        self,
        prefix: str,
        group: str,
        version: str,
        preferred: bool,  # noqa: ARG002, FBT001
    ) -> defaultdict[str, list[Resource]]:
        """Return the resources of a group-version by kind; there may be none."""
        with _PACKAGE.own_errors():
            return defaultdict(
                list, self._catalogues.of(self.discovery.snapshot()).kinds(prefix, group, version)
            )

    def discover(self) -> None:
        """Ask, if what is known is too old."""
        with _PACKAGE.own_errors():
            self.discovery.snapshot()

    def invalidate_cache(self) -> None:
        """Ask the server now."""
        self._version = None
        with _PACKAGE.own_errors():
            self.discovery.refresh()

    def __iter__(self) -> Iterator[list[Resource]]:
        """Yield the resources of each kind in each group-version."""
        with _PACKAGE.own_errors():
            catalogue = self._catalogues.of(self.discovery.snapshot())
        return (resources for _, resources in catalogue)

    def _found(self, query: Query) -> list[Resource]:
        return self.discovery.look_up(
            ("kubernetes", repr(query)), partial(self._catalogues.search, query)
        )


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
        self._lock = Lock()  # a hook that renews credentials need not be safe

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
        raw = answer.response  # whose own reading decompresses without a bound
        try:
            content = body.all_of(raw.stream(PIECE_BYTES, decode_content=False))
        except BodyError:
            raw.close()
            raise
        return Reply(str(request[1]), int(answer.status), told, content)


def _cache_key(host: str, api_client: Any) -> str:  # noqa: ANN401 - as above
    """Return another name for whoever is somebody else to the server."""
    _, _, headers, *_ = api_client.param_serialize(
        "GET", "/", header_params={}, auth_settings=["BearerToken"]
    )
    return _dynamic.cache_key(host, headers, api_client.configuration)
