"""Reads the dialect of a server, so that its documents can be written as it writes them.

The dialect is not in discovery: the versions of the aggregated document, the addresses in `/api`,
and the release in `/version`.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar, cast

import structlog
from apidiscovery_formats.json_values import as_list

from apidiscovery_service.core.cluster import Addresses, Dialect
from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import AGGREGATED, AGGREGATED_VERSIONS, Exchange
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root

_VERSION = "/version"
_MAX_VERSION_BYTES = 16 * 1024

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class DialectReader:
    """Reads the dialect of one server, and again after each change of its discovery.

    Args:
        spec: The server.
        exchange: Sends the requests.
        rounds: Returns the number of rounds after which an unchanged server is asked again.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        exchange: Exchange,
        rounds: Callable[[], int],
    ) -> None:
        self._spec = spec
        self._exchange = exchange
        self._rounds = rounds
        self._passed = 0
        self._seen: tuple[tuple[str, bool], ...] | None = None

    async def read(self, known: Known) -> Known:
        """Return what is known, with the dialect of the server; unreadable parts stay as before.

        Args:
            known: The result of a round of discovery.
        """
        named = next((root for root in known.roots if not root.core), None)
        if self._spec.kind is UpstreamKind.SERVICE or named is None or not named.is_current:
            return known
        self._passed += 1
        seen = tuple((root.etag, root.old) for root in known.roots)
        if seen == self._seen and self._passed < self._rounds():
            return known
        self._passed = 0
        before = known.dialect
        version, addresses, aggregated = await asyncio.gather(
            self._part(_VERSION, _checked_version, before.version),
            self._addresses(known, before.addresses),
            self._aggregated(named, before),
        )
        self._seen = seen
        dialect = replace(before, version=version, addresses=addresses, aggregated=aggregated)
        return replace(known, dialect=dialect)

    async def _addresses(self, known: Known, before: Addresses) -> Addresses:
        core = next((root for root in known.roots if root.core), None)
        if core is None or not core.is_current or not core.groups:
            return before
        return await self._part(core.path, read_addresses, before)

    async def _part(self, path: str, reader: Callable[[Body], T], before: T) -> T:
        try:
            return await self._exchange.plain(path, reader)
        except UpstreamFailed as failure:
            return self._kept(path, failure, before)

    async def _aggregated(self, root: Root, before: Dialect) -> tuple[str, ...]:
        """Return the versions of the aggregated document; the ETag keeps the answers short.

        Only 406 and an unaggregated document mean that the server lacks a version.
        """
        if root.old:
            return ()
        found: list[str] = []
        try:
            for version, media_type in zip(AGGREGATED_VERSIONS, AGGREGATED, strict=True):
                answer = await self._exchange.get(root.path, media_type, etag=root.etag)
                is_whole = answer.status == HTTPStatus.OK
                if answer.status == HTTPStatus.NOT_MODIFIED or (is_whole and answer.is_aggregated):
                    found.append(version)
                elif answer.status != HTTPStatus.NOT_ACCEPTABLE and not (
                    is_whole and answer.is_plain_json
                ):
                    raise answer.wrong("200, 304 or 406")
        except UpstreamFailed as failure:
            return self._kept(root.path, failure, before.aggregated or AGGREGATED_VERSIONS)
        return tuple(found) or before.aggregated or AGGREGATED_VERSIONS

    def _kept(self, path: str, failure: UpstreamFailed, before: T) -> T:
        _log.debug("dialect not read", upstream=self._spec.name, path=path, reason=str(failure))
        return before


def _checked_version(body: Body) -> bytes:
    document = parsed(body) if len(body) <= _MAX_VERSION_BYTES else None
    if not isinstance(document, dict) or not cast("dict[str, object]", document).get("gitVersion"):
        raise UpstreamFailed(Reason.MALFORMED, "want a small JSON object with gitVersion")
    return bytes(body)


def read_addresses(body: Body) -> Addresses:
    """Return the `serverAddressByClientCIDRs` of an APIVersions, without malformed items.

    Raises:
        UpstreamFailed: It is not a JSON object.
    """
    document = parsed(body)
    if not isinstance(document, dict):
        raise UpstreamFailed(Reason.MALFORMED, "want an object")
    fields = cast("dict[str, object]", document)
    return tuple(
        (str(item.get("clientCIDR", "")), str(item.get("serverAddress", "")))
        for item in as_list(fields.get("serverAddressByClientCIDRs"))
        if isinstance(item, Mapping)
    )
