"""Discovery for `kr8s`: one `Api` object looks kinds up in one snapshot of its server.

An `Api` is told to use it:

    import kr8s
    from apidiscovery_client.adapters.kr8s import use

    api = kr8s.api()
    use(api)
    kr8s.get("deploy", api=api)
"""

import asyncio
import hashlib
import re
import weakref
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httpx
from kr8s import APITimeoutError, ServerError
from kr8s.asyncio import Api

from apidiscovery_client._errors import (
    AmbiguousResource,
    ClientClosed,
    NotServed,
    RequestRefused,
    ServerUnreachable,
)
from apidiscovery_client._http.body import Collected
from apidiscovery_client._http.reply import MAX_BODY_BYTES, Reply
from apidiscovery_client._interfaces import SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client._server import DEFAULT_TIMEOUT_S
from apidiscovery_client.adapters._async_borrowed import AsyncBorrowedTransport
from apidiscovery_client.adapters._dynamic import api_resources
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.cache.keys import key
from apidiscovery_client.model import Current, GroupVersion, Resource
from apidiscovery_client.resolving import Resolver

__all__ = ["release", "use"]

_VERSION = re.compile(r"v\d[a-z0-9]*")  # as kr8s tells a version from the beginning of a group
_OVERRIDDEN = (
    "async_lookup_kind",
    "async_api_resources",
    "async_api_resources_uncached",
    "async_api_versions",
)


def use(
    api: Api,
    client: AsyncDiscoveryClient | None = None,
    *,
    cache: bool | SnapshotCache = False,
    options: ClientOptions = DEFAULT_OPTIONS,
) -> AsyncDiscoveryClient:
    """Let an `Api` look kinds up with a discovery client, and return that; nothing is sent yet.

    It applies to this object alone, until `release`: to its methods, and to functions such as
    `kr8s.get` that are given it or find it by its arguments. Requests go through its session.
    Differences from kr8s' own look-up:

    - A name means what it means for kubectl. With a group and a version only that group-version
      counts; without a group, any group that has the version.
    - The server is asked again when the snapshot is older than a minute, and once for a name that
      is not found; unchanged documents are not sent again.
    - A group-version that does not answer does not affect the others.
    - `api_resources` and `api_versions` are in the server's order of preference.

    Args:
        api: Of `kr8s` or `kr8s.asyncio`, and connected. It must run on asyncio.
        client: The client to use; by default one that sends its requests through the session of the
            `Api`, and so needs no configuration.
        cache: Whether that client keeps snapshots on disk for other processes, or the cache to use.
        options: Cache lifetimes and retries of that client.

    Returns:
        A client that belongs to the event loop of the `Api` (for sync `kr8s`, in its own thread).
    """
    client = client or _own_client(api, cache, options)
    lookups = _Lookups(client)
    for name in _OVERRIDDEN:
        setattr(api, name, getattr(lookups, name))
    return client


def release(api: Api) -> None:
    """Let an `Api` look kinds up by itself again."""
    for name in _OVERRIDDEN:
        vars(api).pop(name, None)


class _Lookups:
    """Replaces methods of an `Api`, without a reference to it."""

    def __init__(self, client: AsyncDiscoveryClient) -> None:
        self._client = client

    async def async_lookup_kind(
        self,
        kind: str,
        skip_cache: bool = False,  # noqa: FBT001, FBT002 - as in kr8s
    ) -> tuple[str, str, bool]:
        """Return the kind with its group-version, the plural, and whether it is namespaced.

        Raises:
            ValueError: There is none; the text says where it may still be.
        """
        wanted = _Wanted.of(kind)
        with _own_errors(kind):
            if skip_cache:
                await self._client.refresh()
            found = await self._client.look_up(("kr8s", kind), wanted.found)
        separator = "." if found.gv.group else "/"
        singular = found.singular_name or found.kind.lower()
        return f"{singular}{separator}{found.gv}", found.name, found.is_namespaced

    async def async_api_resources(self) -> list[dict[str, Any]]:
        """Return the entries of the lists of all group-versions, each with its `version`."""
        with _own_errors(""):
            snapshot = await self._client.snapshot()
        return [
            {"version": str(version.gv), **line}
            for version in snapshot.versions
            for line in api_resources(version)
        ]

    async def async_api_resources_uncached(self) -> list[dict[str, Any]]:
        """Return the same from a new answer of the server."""
        with _own_errors(""):
            await self._client.refresh()
        return await self.async_api_resources()

    async def async_api_versions(self) -> AsyncGenerator[str]:
        """Yield all group-versions."""
        with _own_errors(""):
            snapshot = await self._client.snapshot()
        for version in snapshot.versions:
            yield str(version.gv)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The parts of a text for kr8s; empty for those that it lacks."""

    name: str
    group: str
    version: str

    @classmethod
    def of(cls, text: str) -> "_Wanted":
        """Return the parts of `deploy`, `ingress.v1.networking.k8s.io`, `pod/v1` and the like.

        Source: kr8s/_objects.py `parse_kind`.
        """
        head, _, version = text.lower().partition("/")
        name, _, group = head.partition(".")
        first, dot, rest = group.partition(".")
        if dot and _VERSION.fullmatch(first):
            return cls(name, rest, first)
        if not group:
            group, _, version = version.rpartition("/")
        return cls(name, group, version)

    def found(self, resolver: Resolver) -> Resource:
        """Return the resource; raise `NotServed`, `AmbiguousResource`."""
        if not self.version:
            text = f"{self.name}.{self.group}" if self.group else self.name
            return resolver.resolve(text).resource
        if not self.group:
            return resolver.resolve(f"{self.name}.{self.version}.").resource
        return self._exactly(resolver)

    def _exactly(self, resolver: Resolver) -> Resource:
        snapshot, gv = resolver.snapshot, GroupVersion(self.group, self.version)
        version = snapshot.version(gv)
        found = self._best(version.resources) if version else None
        if found:
            return found
        unsure = dict(snapshot.failures)
        if version and not version.resources and not isinstance(version.freshness, Current):
            unsure[str(gv)] = version.freshness.reason
        text = f"{self.name}.{self.version}.{self.group}"
        raise NotServed(text, checked_at=snapshot.checked_at, unsure=unsure)

    def _best(self, resources: Iterable[Resource]) -> Resource | None:
        """Return the resource of that name, else of that kind, else of that short name."""
        known = [resource for resource in resources if resource.kind]
        ways = (
            [one for one in known if self.name in (one.name, one.singular_name)],
            [one for one in known if self.name == one.kind.lower()],
            [one for one in known if self.name in one.short_names],
        )
        return next((found[0] for found in ways if found), None)


@contextmanager
def _own_errors(kind: str) -> Generator[None]:
    """Raise the errors of the package in place of ours."""
    try:
        yield
    except (NotServed, AmbiguousResource) as error:
        raise ValueError(f"Kind {kind} not found: {error}") from error
    except RequestRefused as error:
        raise ServerError(str(error), status=str(error.status)) from error
    except ServerUnreachable as error:
        own = error.__cause__ or error
    else:
        return
    raise own


def _own_client(
    api: Api,
    cache: bool | SnapshotCache,  # noqa: FBT001 - as `use` has it
    options: ClientOptions,
) -> AsyncDiscoveryClient:
    server = api.auth.server.rstrip("/")
    errors = (httpx.HTTPError, APITimeoutError, ServerError, OSError)
    transport = AsyncBorrowedTransport(server, _Sender(api), errors)
    auth = api.auth
    token = hashlib.sha256((auth.token or "").encode()).hexdigest()
    files = (auth.client_cert_file, auth.client_key_file, auth.server_ca_file)
    route = repr((auth.proxy, auth.tls_server_name))
    place = key(server, token, trust=repr([str(file) for file in files]), route=route)
    return AsyncDiscoveryClient(transport, cache=cache, cache_key=place, options=options)


class _Sender:
    """Sends requests through the session of an `Api`.

    It does not keep the `Api` alive, as `kr8s.api()` would return it to others.
    """

    def __init__(self, api: Api) -> None:
        self._api = weakref.ref(api)
        self._server = api.auth.server
        self._session = _Session()

    async def __call__(self, path: str, headers: Mapping[str, str]) -> Reply:
        api = self._api()
        if api is None:
            raise ClientClosed(self._server)
        async with self._session.shared():
            answer = await _asked(api, path, headers)
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            async with self._session.alone():
                return await _asked_with_new_credentials(api, path, headers)
        return answer


class _Session:
    """Coordinates requests: to renew credentials kr8s closes the session that others use."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._unused = asyncio.Event()
        self._unused.set()
        self._users = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        """Use the session together with others; wait while one has it alone."""
        async with self._turn:
            self._users += 1
            self._unused.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Use the session alone: wait for the others, and let new ones wait."""
        async with self._turn:
            await self._unused.wait()
            yield


async def _asked_with_new_credentials(api: Api, path: str, headers: Mapping[str, str]) -> Reply:
    """Return the answer after kr8s has read its credentials again."""
    try:
        return await _asked(api, path, headers, raise_for_status=True)
    except ServerError as error:
        if error.response is None:
            raise
        return _reply(error.response, error.response.content)
    except httpx.HTTPStatusError as error:  # 304, for one
        return _reply(error.response, error.response.content)


async def _asked(
    api: Api, path: str, headers: Mapping[str, str], *, raise_for_status: bool = False
) -> Reply:
    # A whole URL: kr8s asks for `/apis/` otherwise, where Kubernetes has no aggregated document.
    # Source: k8s.io/kube-aggregator pkg/apiserver/apiserver.go `Config.NewWithDelegate`.
    call = cast("Any", api).call_api(
        base=api.auth.server.rstrip("/"),
        version="",
        url=path.removeprefix("/"),
        raise_for_status=raise_for_status,
        stream=True,
        headers={"Accept-Encoding": "gzip", **headers},
        timeout=DEFAULT_TIMEOUT_S,
    )
    async with call as answer:
        response = cast("httpx.Response", answer)
        if response.is_stream_consumed:
            return _reply(response, response.content)
        body = Collected(response.headers.get("content-encoding", ""), MAX_BODY_BYTES)
        return _reply(response, await body.collect_async(response.aiter_raw()))


def _reply(answer: httpx.Response, body: bytes) -> Reply:
    told = {name.lower(): value for name, value in answer.headers.items()}
    return Reply(str(answer.url), answer.status_code, told, body)
