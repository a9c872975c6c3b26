"""Writes a week of history: what the clusters of the demo served, from recordings of releases.

It ends with what the clusters serve now, so that the server over them finds nothing new.
"""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

import httpx2
import orjson
from apidiscovery_releases import Release

from apidiscovery_service.core.cluster import Cluster, Dialect
from apidiscovery_service.core.model import Contribution, Offer, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.demo.clusters import (
    CERT_MANAGER,
    CLUSTERS,
    GATEWAY_API,
    install,
)
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.history.differences import Differences, Written
from apidiscovery_service.history.file import HistoryFile
from apidiscovery_service.history.model import ChangeKind, NewChange
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.manifests.folder import Manifests

_DAY_S, _MINUTE_S = 86400.0, 60.0
_Document: TypeAlias = tuple[str, bytes]  # hash and content
_REFUSED = "GET /apis: connection refused"


@dataclass(frozen=True, slots=True)
class _Step:
    """The state of a cluster from a time on.

    Attributes:
        days_ago: That time.
        name: The cluster.
        release: The release of Kubernetes that it served.
        packages: The definitions that were installed.
        down: Whether it did not answer.
    """

    days_ago: float
    name: str
    release: str
    packages: tuple[str, ...]
    down: bool = False


_Steps: TypeAlias = tuple[_Step, ...]


def _upgrade(days_ago: float, name: str, old: str, new: str, installed: tuple[str, ...]) -> _Steps:
    """Return the steps of an upgrade, during which a cluster does not answer for some minutes."""
    back = days_ago - 4 * _MINUTE_S / _DAY_S
    return (
        _Step(days_ago, name, old, installed, down=True),
        _Step(back, name, new, installed),
    )


_BOTH = (CERT_MANAGER, GATEWAY_API)
_WEEK: _Steps = (
    _Step(7, "east", "1.34", ()),
    _Step(7, "north", "1.33", ()),
    _Step(7, "west", "1.31", ()),
    _Step(6.2, "east", "1.34", (CERT_MANAGER,)),
    _Step(5.9, "north", "1.33", (CERT_MANAGER,)),
    *_upgrade(4.8, "east", "1.34", "1.35", (CERT_MANAGER,)),
    _Step(3.9, "east", "1.35", _BOTH),
    _Step(3.6, "west", "1.31", (GATEWAY_API,)),
    _Step(3.1, "north", "1.33", _BOTH),
    *_upgrade(2.2, "north", "1.33", "1.34", _BOTH),
    *_upgrade(1.1, "east", "1.35", "1.36", _BOTH),
    _Step(0.3, "west", "1.31", (GATEWAY_API,), down=True),
    _Step(0.29, "west", "1.31", (GATEWAY_API,)),
)


@dataclass(frozen=True, slots=True)
class _Now:
    """Answers of a running cluster that no recording has.

    Attributes:
        dialect: How it writes its documents.
        documents: Its OpenAPI documents that its release does not have, by path.
    """

    dialect: Dialect
    documents: Mapping[str, _Document]


async def write_past(file: Path, folder: Path, addresses: Mapping[str, str]) -> None:
    """Write the history of the last week.

    Args:
        file: The file of the history.
        folder: For files that are only read here.
        addresses: `host:port` of each cluster, which runs.

    Raises:
        HistoryError: It cannot be written.
    """
    packages = {name: await _offers_of(name, folder) for name in _BOTH}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        asked = [
            _ask(client, f"http://{addresses[each.name]}", Release.read(each.release))
            for each in CLUSTERS
        ]
        answers = await asyncio.gather(*asked)
    now = {cluster.name: answer for cluster, answer in zip(CLUSTERS, answers, strict=True)}
    await asyncio.to_thread(_write, file, packages, now)


def _write(file: Path, packages: Mapping[str, tuple[Offer, ...]], now: Mapping[str, _Now]) -> None:
    past = _Past(file, packages, now)
    try:
        for step in _WEEK:
            past.take(step)
    finally:
        past.close()


async def _offers_of(package: str, folder: Path) -> tuple[Offer, ...]:
    """Return the offers of a server with a package, besides the built-in APIs."""
    read = folder / "packages" / package
    read.mkdir(parents=True)
    install(read, package)
    registry = Registry()
    await Manifests([read], Declarations(registry), Metrics()).load()
    contributions = (registry.contribution(name) for name in registry.sources)
    return tuple(offer for each in contributions if each for offer in each.offers)


async def _ask(client: httpx2.AsyncClient, url: str, release: Release) -> _Now:
    version, core, index = [
        (await client.get(url + path)).raise_for_status().content
        for path in ("/version", "/api", "/openapi/v3")
    ]
    paths = cast("dict[str, dict[str, str]]", orjson.loads(index)["paths"])
    documents: dict[str, _Document] = {}
    for key, entry in paths.items():
        location = entry["serverRelativeURL"]
        digest = location.partition("?hash=")[2]
        if release.openapi_hashes.get(key) != digest:
            content = (await client.get(url + location)).raise_for_status().content
            # A server that is busy lists documents without their hash.
            documents[key] = hashlib.sha512(content).hexdigest().upper(), content
    addresses = tuple(
        (each["clientCIDR"], each["serverAddress"])
        for each in orjson.loads(core)["serverAddressByClientCIDRs"]
    )
    return _Now(Dialect(addresses=addresses, version=version), documents)


class _Past:
    """Writes a history step by step."""

    def __init__(
        self, file: Path, packages: Mapping[str, tuple[Offer, ...]], now: Mapping[str, _Now]
    ) -> None:
        self._packages = packages
        self._now = now
        self._began = time.time()
        self._time = self._began
        self._file = HistoryFile(file, lambda: self._time)
        self._written: dict[str, Written] = {}

    def close(self) -> None:
        self._file.close()

    def take(self, step: _Step) -> None:
        """Write the changes of a step to its cluster."""
        self._time = self._began - step.days_ago * _DAY_S
        state, error = (SourceState.STALE, _REFUSED) if step.down else (SourceState.CURRENT, "")
        cluster = self._cluster(step, SourceStatus(f"upstream:{step.name}", state, error=error))
        fleet = Fleet()
        fleet.update([cluster])
        written = self._written.get(step.name, Written())
        found = Differences()
        found.add(step.name, written, cluster, fleet.etag(step.name), "poll")
        documents = self._documents(step)
        after = {(ChangeKind.OPENAPI, key): digest for key, (digest, _) in documents.items()}
        known = {key: each for key, each in written.hashes.items() if key[0] is ChangeKind.OPENAPI}
        changes = [
            NewChange(step.name, *key, "poll", known.get(key, ""), after.get(key, ""))
            for key in sorted(known.keys() | after.keys())
            if known.get(key) != after.get(key)
        ]
        self._file.append(
            [*found.changes, *changes],
            {**found.contents, **{h: partial(bytes, made) for h, made in documents.values()}},
        )
        self._written[step.name] = found.written[step.name]
        self._written[step.name].take(changes)

    def _cluster(self, step: _Step, status: SourceStatus) -> Cluster:
        release = Release.read(step.release)
        registry = Registry(has_creation_timestamps=release.has_creation_timestamps)
        registry.publish(kubernetes_catalog(release))
        offers = tuple(offer for name in step.packages for offer in self._packages[name])
        registry.publish(Contribution("packages", Precedence.CRD, offers))
        dialect = self._now[step.name].dialect
        if not dialect.release.startswith(f"v{step.release}."):
            dialect = replace(dialect, version=release.version_text)
        snapshot = registry.snapshot
        return Cluster(
            step.name,
            status,
            core=tuple(published.group for published in snapshot.core.groups),
            named=tuple(published.group for published in snapshot.named.groups),
            listed=tuple(published.name for published in snapshot.named.listed),
            dialect=replace(
                dialect,
                has_creation_timestamps=release.has_creation_timestamps,
                aggregated=release.aggregated_versions,
            ),
        )

    def _documents(self, step: _Step) -> dict[str, _Document]:
        release = Release.read(step.release)
        contents = release.openapi_v3_documents()
        found = {key: (release.openapi_hashes[key], text) for key, text in contents.items()}
        offered = {name: {o.group for o in offers} for name, offers in self._packages.items()}
        missing = {g for name in offered.keys() - set(step.packages) for g in offered[name]}
        of_packages = {
            key: document
            for key, document in self._now[step.name].documents.items()
            if not missing & set(key.split("/"))
        }
        return found | of_packages
