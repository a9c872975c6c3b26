"""The look-ups of both dynamic clients; `_lookups`, which blocks, is generated from this.

Source: kubernetes/dynamic/discovery.py `LazyDiscoverer`.
"""

from collections import defaultdict
from collections.abc import KeysView
from functools import partial
from typing import Any, Generic, TypeVar

from apidiscovery_client._errors import NotServed
from apidiscovery_client.adapters import _dynamic
from apidiscovery_client.adapters._dynamic import Catalogues, Package, Query
from apidiscovery_client.async_client import AsyncDiscoveryClient

R = TypeVar("R")


class AsyncLookups(Generic[R]):
    """Looks resources up in one snapshot of the server.

    It answers as `LazyDiscoverer` does, with these differences. Filters other than prefix, group,
    version and kind must all match, not any one of them. The server is asked again when the
    snapshot is older than a minute, and once for a name that is not found; unchanged documents are
    not sent again. A group-version that does not answer does not affect the others: it keeps its
    last known resources, and the error says where none are known. The preferred version of a group
    is the first one that answers. Resources have no `storageVersionHash`: aggregated documents have
    none.

    Attributes:
        discovery: The client that asks the server.
    """

    _package: Package[R]
    _catalogues: Catalogues[R]
    discovery: AsyncDiscoveryClient

    async def _forget_version(self) -> None:
        """Read `version` from the server again."""
        raise NotImplementedError

    @property
    async def api_groups(
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
    ) -> list[R]:
        """Return the resources that match, in the server's order; the list may be empty.

        Args:
            prefix: `api` or `apis`.
            group: The whole name.
            api_version: A version, or group and version such as `apps/v1`.
            kind: As it is written in objects.
            kwargs: Attributes of resources, which must be equal: `name`, `singular_name`,
                `short_names`, `namespaced`, `preferred`, `verbs`, ...
        """
        query = Query.of(prefix, group, api_version, kind, **kwargs)
        with self._package.own_errors():
            try:
                return await self._found(query)
            except NotServed:
                return []

    async def get(self, **kwargs: Any) -> R:  # noqa: ANN401 - as for `search`
        """Return the one resource that `search` finds.

        Of several results it prefers those of exactly `api_version`, then those that are not lists.

        Raises:
            ResourceNotFoundError: There is none; the text says where it may still be.
            ResourceNotUniqueError: There are several, such as a kind in several versions:
                `preferred=True` is the one that the server prefers.
        """
        with self._package.own_errors():
            try:
                found = await self._found(Query.of(**kwargs))
            except NotServed as error:
                raise self._package.no_match(kwargs, error) from error
        return self._package.one_of(found, kwargs)

    async def resolve(self, text: str) -> R:
        """Return the resource that kubectl takes a name for: `deploy`, `deployments.apps`, `hpa`.

        Raises:
            ResourceNotFoundError: There is none; the text has suggestions.
            ResourceNotUniqueError: It is a category of several.
        """
        with self._package.own_errors():
            resource = (await self.discovery.resolve(text)).resource
            return (await self._found(Query.for_one(resource)))[0]

    async def parse_api_groups(
        self,
        request_resources: bool = False,  # noqa: ARG002, FBT001, FBT002 - the package's
        update: bool = False,  # noqa: FBT001, FBT002 - the package's
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """Return by prefix, group and version a `ResourceGroup`, always with its resources."""
        with self._package.own_errors():
            snapshot = await self.discovery.snapshot(max_age_s=0.0 if update else None)
            return self._catalogues.of(snapshot).tree

    async def get_resources_for_api_version(
        self,
        prefix: str | None,
        group: str | None,
        version: str | None,
        preferred: bool,  # noqa: ARG002, FBT001 - the package's
    ) -> dict[str, list[R]]:
        """Return the resources of a group-version by kind; there may be none."""
        with self._package.own_errors():
            catalogue = self._catalogues.of(await self.discovery.snapshot())
        return defaultdict(list, catalogue.kinds(prefix or "", group or "", version or ""))

    async def discover(self) -> None:
        """Ask the server if the snapshot is too old."""
        with self._package.own_errors():
            await self.discovery.snapshot()

    async def invalidate_cache(self) -> None:
        """Ask the server now."""
        await self._forget_version()
        with self._package.own_errors():
            await self.discovery.refresh()

    async def _found(self, query: Query) -> list[R]:
        return await self.discovery.look_up(
            ("kubernetes", repr(query)), partial(self._catalogues.search, query)
        )
