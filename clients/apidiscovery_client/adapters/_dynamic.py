"""The resources of a snapshot as objects of `kubernetes` and `kubernetes_asyncio`.

Both packages have the same classes. The objects equal those that the packages' own discoverers make
from the unaggregated documents of the same server.
Source: kubernetes/dynamic/discovery.py `LazyDiscoverer`.
"""

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from apidiscovery_client._errors import (
    AmbiguousResource,
    DiscoveryError,
    NotServed,
    RequestRefused,
    ServerUnreachable,
)
from apidiscovery_client._interfaces import SnapshotCache
from apidiscovery_client._sans_io.options import DEFAULT_OPTIONS, ClientOptions
from apidiscovery_client._writing import resource_list_fields
from apidiscovery_client.cache.keys import key
from apidiscovery_client.model import Current, Group, Resource, Snapshot, Version
from apidiscovery_client.resolving import Resolver

CORE_PREFIX = "api"
GROUPS_PREFIX = "apis"
CORE_VERSION = "v1"

# Arguments of the packages' constructors, which fields of a server's document must not set.
_NOT_OF_A_SERVER = (
    "self",
    "parent",
    "prefix",
    "api_version",
    "client",
    "preferred",
    "subresources",
)

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Settings(Generic[C]):
    """How a discoverer asks.

    Attributes:
        client: The client to use; None for one of its own.
        cache: Whether that client keeps snapshots on disk, or the cache to use.
        options: Cache lifetimes and retries of that client.
    """

    client: C | None = None
    cache: bool | SnapshotCache = False
    options: ClientOptions = DEFAULT_OPTIONS


class Package(Generic[R]):
    """The classes and errors of one package.

    Attributes:
        resource: Makes a `Resource`.
        resource_list: Makes a `ResourceList`.
        resource_list_type: The class of a `ResourceList`.
        resource_group: Makes a `ResourceGroup` of whether it is preferred, and resources by kind.
    """

    def __init__(
        self,
        resource: type[R],
        resource_list: type,
        resource_group: type,
        exceptions: Any,  # noqa: ANN401 - a module that is not typed
        api_error: type[Exception],
    ) -> None:
        self.resource = cast("Callable[..., R]", resource)
        self.resource_list = cast("Callable[..., R]", resource_list)
        self.resource_list_type = resource_list
        self.resource_group = cast(
            "Callable[[bool, Mapping[str, list[R]]], object]", resource_group
        )
        self._exceptions = exceptions
        self._api_error = api_error

    @contextmanager
    def own_errors(self) -> Generator[None]:
        """Raise the errors of the package in place of ours."""
        try:
            yield
        except NotServed as error:
            raise self._exceptions.ResourceNotFoundError(str(error)) from error
        except AmbiguousResource as error:
            raise self._exceptions.ResourceNotUniqueError(str(error)) from error
        except DiscoveryError as error:
            own = self._own_error(error)
        else:
            return
        raise own

    def no_match(self, wanted: Mapping[str, object], error: NotServed) -> Exception:
        """Return the error of `get` for no result; the text says where the resource may be."""
        return self._not_found(f"{wanted}{_doubt(error)}")

    def one_of(self, found: list[R], wanted: Mapping[str, object]) -> R:
        """Return the one of several results that `get` prefers.

        Raises:
            ResourceNotFoundError: There is none.
            ResourceNotUniqueError: There are several.
        """
        found = self._narrowed(found, wanted.get("api_version"))
        if not found:
            raise self._not_found(str(wanted))
        if len(found) > 1:
            text = f"Multiple matches found for {wanted}: {found}"
            raise self._exceptions.ResourceNotUniqueError(text)
        return found[0]

    def _not_found(self, what: str) -> Exception:
        error: Exception = self._exceptions.ResourceNotFoundError(f"No matches found for {what}")
        return error

    def _narrowed(self, found: list[R], api_version: object) -> list[R]:
        if len(found) > 1 and api_version:
            found = [one for one in found if cast("Any", one).group_version == api_version]
        if len(found) > 1 and not all(isinstance(one, self.resource_list_type) for one in found):
            found = [one for one in found if not isinstance(one, self.resource_list_type)]
        return found

    def _own_error(self, error: DiscoveryError) -> Exception:
        """Return the error of the package for one of ours."""
        if isinstance(error, RequestRefused):
            refused = cast("Any", self._api_error)(status=error.status, reason=error.message)
            own: Exception = self._exceptions.api_exception(refused)
            return own
        if isinstance(error, ServerUnreachable) and isinstance(error.__cause__, Exception):
            return error.__cause__
        return error


@dataclass(frozen=True, slots=True)
class Query:
    """A query; a part that is empty or None matches anything.

    Attributes:
        filters: Attributes that a resource must have, all of them.
    """

    prefix: str | None
    group: str | None
    api_version: str | None
    kind: str | None
    filters: Mapping[str, object]

    @classmethod
    def of(
        cls,
        prefix: str | None = None,
        group: str | None = None,
        api_version: str | None = None,
        kind: str | None = None,
        **filters: object,
    ) -> "Query":
        """Return a query as users write it: `api_version` may include the group."""
        if not group and api_version and "/" in api_version:
            group, _, api_version = api_version.partition("/")
        return cls(prefix, group, api_version, kind, filters)

    @classmethod
    def for_one(cls, resource: Resource) -> "Query":
        """Return a query whose first result is that resource."""
        gv = resource.gv
        prefix = GROUPS_PREFIX if gv.group else CORE_PREFIX
        return cls(prefix, gv.group, gv.version, resource.kind, {"name": resource.name})

    def admits(self, prefix: str, group: str, version: str) -> bool:
        """Whether that group-version may have a match."""
        return (
            self.prefix in (None, "", prefix)
            and self.group in (None, "", group)
            and self.api_version in (None, "", version)
        )


class Catalogue(Generic[R]):
    """The resources of a snapshot, as objects of one package.

    Attributes:
        tree: By prefix, group and version the package's `ResourceGroup`.
    """

    def __init__(self, snapshot: Snapshot, client: object, package: Package[R]) -> None:
        self._snapshot = snapshot
        self._client = client
        self._package = package
        self._kinds: dict[tuple[str, str, str], dict[str, list[R]]] = {}
        self.tree: dict[str, dict[str, dict[str, Any]]] = {CORE_PREFIX: {"": {}}, GROUPS_PREFIX: {}}
        core = snapshot.group("")
        if core is None:
            self._add(CORE_PREFIX, "", CORE_VERSION, {}, preferred=True)
        else:
            self._add_group(core)
        # The list of any objects, which has no group.
        anything = {"List": [package.resource_list(client)]}
        self._add(GROUPS_PREFIX, "", CORE_VERSION, anything, preferred=True)
        for group in snapshot.groups:
            if group.name:
                self._add_group(group)

    def kinds(self, prefix: str, group: str, version: str) -> Mapping[str, list[R]]:
        """Return the resources of a group-version by kind, with the kinds of lists; maybe none."""
        return self._kinds.get((prefix, group, version), {})

    def __iter__(self) -> Iterator[tuple[str, list[R]]]:
        """Yield the kinds of each group-version, and the resources of each."""
        for kinds in self._kinds.values():
            yield from kinds.items()

    def search(self, query: Query) -> list[R]:
        """Return the matches in the server's order; raise `NotServed` when there are none.

        All attributes must match. The packages take the first resource that matches one of them.
        """
        found: list[R] = []
        for place, kinds in self._kinds.items():
            if query.admits(*place):
                wanted = [query.kind] if query.kind else list(kinds)
                found += [one for kind in wanted for one in self._matches(kinds, kind, query)]
        if not found:
            raise NotServed(
                _text(query), checked_at=self._snapshot.checked_at, unsure=self._unsure(query)
            )
        return found

    def _matches(self, kinds: Mapping[str, list[R]], kind: str, query: Query) -> Iterator[R]:
        for one in kinds.get(kind, ()):
            judged = self._base(kinds, one)
            if not query.filters or (
                judged is not None
                and all(getattr(judged, name) == value for name, value in query.filters.items())
            ):
                yield one

    def _base(self, kinds: Mapping[str, list[R]], one: R) -> R | None:
        """Return the resource with the attributes: itself, or for a list the resource in it."""
        if not isinstance(one, self._package.resource_list_type):
            return one
        bases = kinds.get(cast("Any", one).base_kind, ())
        return bases[0] if bases else None

    def _add_group(self, group: Group) -> None:
        prefix = GROUPS_PREFIX if group.name else CORE_PREFIX
        for version in group.versions:
            is_preferred = version.name == group.preferred_version
            kinds = self._made(prefix, version, preferred=is_preferred)
            self._add(prefix, group.name, version.name, kinds, preferred=is_preferred)

    def _add(
        self, prefix: str, group: str, version: str, kinds: dict[str, list[R]], *, preferred: bool
    ) -> None:
        self._kinds[prefix, group, version] = kinds
        versions = self.tree[prefix].setdefault(group, {})
        versions[version] = self._package.resource_group(preferred, kinds)

    def _made(self, prefix: str, version: Version, *, preferred: bool) -> dict[str, list[R]]:
        """Return the resources of a group-version by kind, each followed by its list."""
        lines, below = _lines(version)
        group, name = version.gv.group, version.gv.version
        kinds: dict[str, list[R]] = {}
        for line in lines:
            made = self._package.resource(
                prefix=prefix,
                group=group,
                api_version=name,
                client=self._client,
                preferred=preferred,
                subresources=below.get(line["name"]),
                **line,
            )
            kinds.setdefault(line["kind"], []).append(made)
            of_many = self._package.resource_list(
                self._client, group=group, api_version=name, base_kind=line["kind"]
            )
            kinds.setdefault(f"{line['kind']}List", []).append(of_many)
        return kinds

    def _unsure(self, query: Query) -> dict[str, str]:
        """Return why a resource may still be served, as `NotServed.unsure`."""
        unsure = {
            str(version.gv): version.freshness.reason
            for version in self._snapshot.versions
            if not isinstance(version.freshness, Current)
            and not version.resources
            and query.admits(_prefix(version), version.gv.group, version.gv.version)
        }
        unsure |= {
            path: reason
            for path, reason in self._snapshot.failures.items()
            if query.prefix in (None, "", path.strip("/"))
        }
        if not isinstance(self._snapshot.freshness, Current):
            unsure[self._snapshot.server] = self._snapshot.freshness.reason
        return unsure


class Catalogues(Generic[R]):
    """The catalogue of the current snapshot; it stays the same object while nothing changes."""

    def __init__(self, client: object, package: Package[R]) -> None:
        self._client = client
        self._package = package
        self._made: tuple[Snapshot, Catalogue[R]] | None = None

    def of(self, snapshot: Snapshot) -> Catalogue[R]:
        """Return the catalogue of a snapshot."""
        made = self._made
        if made is None or not _is_same(made[0], snapshot):
            made = self._made = (snapshot, Catalogue(snapshot, self._client, self._package))
        return made[1]

    def search(self, query: Query, resolver: Resolver) -> list[R]:
        """Return the matches in a resolver's snapshot; raise `NotServed` when there are none."""
        return self.of(resolver.snapshot).search(query)


def api_resources(version: Version) -> Iterator[dict[str, Any]]:
    """Yield the entries of an `APIResourceList`, without subresources."""
    return iter(_lines(version)[0])


def just_json(_client: object, told: dict[str, Any]) -> dict[str, Any]:
    """Return an answer unchanged; a serializer for a dynamic client."""
    return told


def cache_key(host: str, headers: Mapping[str, str], configuration: Any) -> str:  # noqa: ANN401 - of either package
    """Return the cache key of a server and its caller.

    Args:
        host: Its URL.
        headers: The headers of every request.
        configuration: Has the files for TLS, and the proxy.
    """
    shown = hashlib.sha256(repr(sorted(headers.items())).encode()).hexdigest()
    told = configuration
    files = (told.cert_file, told.key_file, told.ssl_ca_cert, told.verify_ssl)
    return key(host, shown, trust=repr(files), route=repr((told.proxy, told.tls_server_name)))


def _doubt(error: NotServed) -> str:
    """Return the end of `No matches found for ...`; empty where no doubt is left."""
    reasons = ", ".join(f"{name} ({why})" for name, why in error.unsure.items())
    return f"; it may be in parts that did not answer: {reasons}" if reasons else ""


def _lines(version: Version) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the resources of a list, and by resource and name their subresources."""
    resources: list[dict[str, Any]] = []
    below: dict[str, dict[str, Any]] = {}
    for told in cast("list[dict[str, Any]]", resource_list_fields(version)["resources"]):
        line = {
            name: list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value
            for name, value in told.items()
            if name not in _NOT_OF_A_SERVER
        }
        parent, is_below, name = str(line["name"]).partition("/")
        if is_below:
            below.setdefault(parent, {})[name] = line
        elif line["kind"]:
            line.pop("group", None)  # as the packages do: the group is that of the list
            resources.append(line)
    return resources, below


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    """Whether the catalogues of two snapshots are the same."""
    is_same = one.groups is other.groups and one.freshness == other.freshness
    return is_same and one.failures == other.failures


def _prefix(version: Version) -> str:
    return GROUPS_PREFIX if version.gv.group else CORE_PREFIX


def _text(query: Query) -> str:
    told = {
        "prefix": query.prefix,
        "group": query.group,
        "api_version": query.api_version,
        "kind": query.kind,
    }
    told = {name: value for name, value in told.items() if value}
    return ", ".join(f"{name}={value!r}" for name, value in {**told, **query.filters}.items())
