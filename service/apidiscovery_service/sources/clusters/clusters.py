"""Follows the clusters of folders and contexts, and has them mirrored.

A cluster that cannot be read keeps its last good content, since a half-written file must not remove
it. A cluster that leaves its folder or its kubeconfig is mirrored no longer. Of several clusters
with one name the first by place counts, so that all replicas choose the same; the others are
reported.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

import structlog
from apidiscovery_kubeconfig.connection import Connection
from apidiscovery_kubeconfig.errors import ConfigurationError
from apidiscovery_kubeconfig.files import default_files
from apidiscovery_kubeconfig.kubeconfig import Resolved, read_contexts

from apidiscovery_service.core.source import Source, SourceState, SourceStatus
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.clusters.files import ClusterFile, FolderContent, list_clusters
from apidiscovery_service.sources.upstreams.endpoint import Endpoint, endpoint_of
from apidiscovery_service.sources.upstreams.failure import shown
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.watched_files import WatchedFiles

# Interval at which unusable clusters are read again: they may need a file that is not watched.
RETRY_S = 30.0
# How long a file has to be missing: kubectl and editors empty a file before they write it.
_GONE_AFTER_S = 0.5
# How many clusters are passed on at once: each costs the event loop a fraction of a millisecond.
_AT_ONCE = 20

_MAX_WARNINGS = 50
_SHOWN = 3
_MAX_TEXT = 400

# A rank, the lowest first, and the path or context as people know it.
Place: TypeAlias = tuple[int, str]
_CONTEXT_RANK = 0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Contexts of a kubeconfig.

    Attributes:
        kubeconfig: The file; None for the files of KUBECONFIG, else ~/.kube/config.
        patterns: Patterns of their names, as of a shell.
    """

    kubeconfig: Path | None
    patterns: Sequence[str]

    @property
    def files(self) -> list[Path]:
        return [self.kubeconfig] if self.kubeconfig else default_files()

    def read(self) -> dict[str, Resolved | ConfigurationError]:
        """Return the servers of the contexts that fit, by name; blocks.

        Raises:
            ConfigurationError: A file cannot be read.
        """
        path = str(self.kubeconfig) if self.kubeconfig else None
        return read_contexts(path, self.patterns, may_be_none=True)


@dataclass(frozen=True, slots=True)
class _Good:
    """A cluster that can be used; a different fingerprint means different content."""

    spec: UpstreamSpec
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Problem:
    text: str
    since: datetime


@dataclass(slots=True)
class _Outcome:
    """The result of a look: made in a worker thread, applied in the event loop.

    Attributes:
        read: The cluster at each place that was read, or why it cannot be used.
        gone: The places that are not there any more.
        notes: Other problems.
    """

    read: dict[Place, _Good | str] = field(default_factory=dict[Place, "_Good | str"])
    gone: set[Place] = field(default_factory=set[Place])
    notes: list[str] = field(default_factory=list[str])


class Clusters(Source):
    """Clusters that come and go at run time.

    Args:
        mirror: Called with the specifications of changed clusters, and with the names of clusters
            that are mirrored no longer.
        spec_of: Returns the specification of a cluster by its name and endpoint; raises
            `InvalidConfiguration`. Called in a thread.
        folders: Folders with a file for each cluster.
        contexts: Contexts to follow; None for none.
        taken: The names of other clusters.
        is_trusted: Whether files of the folders may name programs and other files.
        retry_s: Interval at which unusable clusters are read again.
    """

    def __init__(  # noqa: PLR0913 - those behind the star have names
        self,
        mirror: Callable[[Sequence[UpstreamSpec], Sequence[str]], object],
        spec_of: Callable[[str, Endpoint], UpstreamSpec],
        *,
        folders: Sequence[Path] = (),
        contexts: Contexts | None = None,
        taken: Iterable[str] = (),
        is_trusted: bool = False,
        retry_s: float = RETRY_S,
    ) -> None:
        self._mirror = mirror
        self._spec_of = spec_of
        self._folders = tuple(dict.fromkeys(folders))
        self._contexts = contexts
        self._taken = frozenset(taken)
        self._is_trusted = is_trusted
        self._retry_s = retry_s
        config_files = contexts.files if contexts else []
        self._config_files = frozenset(config_files)
        self._files = WatchedFiles((*self._folders, *config_files), self._find)
        # The results of the last look; used by the thread that looks.
        self._listings: dict[Path, FolderContent] = {}
        self._unlisted: dict[Path, str] = {}
        self._named: set[Place] = set()
        self._unmatched: list[str] = []
        self._missing: dict[Place, float] = {}
        self._retried_at = time.monotonic()
        # The state in the event loop.
        self._good: dict[Place, _Good] = {}
        self._mirrored: dict[str, UpstreamSpec] = {}
        self._problems: dict[Place, _Problem] = {}
        self._conflicts: dict[Place, _Problem] = {}
        self._notes: list[str] = []

    async def load(self) -> None:
        """Read everything for the first time; a broken file or context is only reported.

        Raises:
            InvalidConfiguration: The kubeconfig cannot be read at all.
        """
        outcome = await asyncio.to_thread(self._look)
        error = outcome.read.get((_CONTEXT_RANK, self._kubeconfig_place))
        if isinstance(error, str):
            raise InvalidConfiguration(f"--contexts: {error}")
        await self._apply(outcome)

    async def follow(self) -> None:
        """Follow changes until cancelled; a cluster comes and goes within about a second."""
        async for _ in self._files.events():
            await self._apply(await asyncio.to_thread(self._look))

    def warnings(self) -> list[str]:
        """Return a line for each file and context that cannot be used, bounded."""
        lines = [problem.text for _, problem in sorted(self._all_problems())] + self._notes
        if len(lines) > _MAX_WARNINGS:
            lines = [*lines[:_MAX_WARNINGS], f"{len(lines) - _MAX_WARNINGS} more such lines"]
        return [f"clusters: {line}" for line in lines]

    def states(self) -> list[SourceStatus]:
        """Return the status of each file and context that cannot be used now."""
        return [
            SourceStatus(
                f"clusters:{place[1]}",
                SourceState.STALE if self._is_mirrored(place) else SourceState.PENDING,
                problem.since,
                problem.text,
            )
            for place, problem in sorted(self._all_problems())
        ]

    def _is_mirrored(self, place: Place) -> bool:
        return place in self._good and place not in self._conflicts

    def _all_problems(self) -> Iterator[tuple[Place, _Problem]]:
        yield from (self._conflicts | self._problems).items()

    # Looking, in a thread.

    def _find(self) -> Iterator[Path]:
        """Yield all files; those of a folder that cannot be listed now are as they were."""
        yield from self._config_files
        for folder in self._folders:
            try:
                self._listings[folder] = list_clusters(folder)
                self._unlisted.pop(folder, None)
            except OSError as error:
                place = error.filename or folder
                self._unlisted[folder] = f"{place}: cannot be listed: {error.strerror}"
            for cluster in self._clusters_of(folder):
                yield from cluster.files

    def _clusters_of(self, folder: Path) -> tuple[ClusterFile, ...]:
        listing = self._listings.get(folder)
        return listing.clusters if listing else ()

    def _look(self) -> _Outcome:
        """Read new, changed and unusable clusters; nothing is applied."""
        outcome = _Outcome()
        changed = frozenset(self._files.look().changed)
        now = time.monotonic()
        is_retry = now - self._retried_at >= self._retry_s
        if is_retry:
            self._retried_at = now
        again = self._problems.keys() if is_retry else frozenset[Place]()
        present: set[Place] = set()
        for rank, folder in enumerate(self._folders, _CONTEXT_RANK + 1):
            for cluster in self._clusters_of(folder):
                place = rank, cluster.place
                present.add(place)
                if folder in self._unlisted:
                    continue
                if place in again or not changed.isdisjoint(cluster.files):
                    self._read_file(place, cluster, outcome)
        if self._contexts:
            is_broken = any(rank == _CONTEXT_RANK for rank, _ in again)
            if is_broken or not changed.isdisjoint(self._config_files):
                self._read_contexts(self._contexts, outcome)
            present |= self._named
        outcome.gone |= self._confirmed_gone(present, now)
        outcome.notes = [*self._unlisted.values(), *self._unmatched, *self._folder_notes()]
        return outcome

    def _read_file(self, place: Place, cluster: ClusterFile, outcome: _Outcome) -> None:
        """Read a file; one with the same content is not parsed: all of a mount change together."""

        def read() -> Connection:
            return cluster.read(is_trusted=self._is_trusted)

        self._take(place, cluster.name, cluster.digest(), read, outcome)

    def _read_contexts(self, contexts: Contexts, outcome: _Outcome) -> None:
        """Read all contexts; while the kubeconfig cannot be read they stay as they were."""
        whole = _CONTEXT_RANK, self._kubeconfig_place
        try:
            found = contexts.read()
        except ConfigurationError as error:
            outcome.read[whole] = shown(str(error), _MAX_TEXT)
            self._named |= {whole}
            return
        outcome.gone.add(whole)  # as a problem
        self._named = set()
        for name, result in found.items():
            place = _CONTEXT_RANK, f"{self._kubeconfig_place}, context {name}"
            self._named.add(place)

            def read(result: Resolved | ConfigurationError = result) -> Connection:
                if isinstance(result, ConfigurationError):
                    raise result
                return result.connection

            fingerprint = result.fingerprint if isinstance(result, Resolved) else ""
            self._take(place, name, fingerprint, read, outcome)
        self._unmatched = [
            f"{self._kubeconfig_place}: no context fits {pattern!r}"
            for pattern in contexts.patterns
            if not any(fnmatchcase(name, pattern) for name in found)
        ]

    @property
    def _kubeconfig_place(self) -> str:
        return " and ".join(sorted(map(str, self._config_files)))

    def _take(
        self,
        place: Place,
        name: str,
        fingerprint: str,
        read: Callable[[], Connection],
        outcome: _Outcome,
    ) -> None:
        """Read one cluster; for the same fingerprint the same specification is kept."""
        before = self._good.get(place)
        if before and fingerprint and before.fingerprint == fingerprint:
            outcome.read[place] = before
            return
        try:
            spec = self._spec_of(name, endpoint_of(read()))
            outcome.read[place] = _Good(spec, fingerprint)
        except (ConfigurationError, InvalidConfiguration) as error:
            text = str(error)
            outcome.read[place] = text if text.startswith(place[1]) else f"{place[1]}: {text}"
        except Exception as error:  # noqa: BLE001 - one file must not stop the watch of all
            _log.exception("cluster cannot be read", file=place[1])
            outcome.read[place] = f"{place[1]}: the reader failed: {type(error).__name__}"

    def _confirmed_gone(self, present: set[Place], now: float) -> set[Place]:
        """Return the places that have been missing for a while."""
        known = self._good.keys() | self._problems.keys()
        self._missing = {place: self._missing.get(place, now) for place in known - present}
        return {place for place, at in self._missing.items() if now - at >= _GONE_AFTER_S}

    def _folder_notes(self) -> Iterator[str]:
        for folder, listing in self._listings.items():
            if listing.unread:
                names = ", ".join(each.name for each in listing.unread[:_SHOWN])
                yield (
                    f"{folder}: folders in it are not read ({len(listing.unread)}: {names}): each"
                    " needs a file `value` or `kubeconfig`, or `server` and `config`; give"
                    " --clusters for others"
                )
            elif not listing.clusters:
                yield f"{folder}: no cluster in it"

    # Applying, in the event loop.

    async def _apply(self, outcome: _Outcome) -> None:
        for place in outcome.gone:
            self._problems.pop(place, None)
            self._good.pop(place, None)
        for number, (place, found) in enumerate(outcome.read.items()):
            if not number % _AT_ONCE:
                await asyncio.sleep(0)  # a line of the log takes 40 us, and there may be thousands
            if isinstance(found, str):
                self._note_problem(place, found)
            else:
                self._problems.pop(place, None)
                self._good[place] = found
        for note in outcome.notes:
            if note not in self._notes:
                _log.warning("clusters are not complete", reason=note)
        self._notes = outcome.notes
        await self._mirror_all(self._wanted())

    def _note_problem(self, place: Place, text: str) -> None:
        text = shown(text, _MAX_TEXT)
        before = self._problems.get(place)
        if before and before.text == text:
            return
        since = before.since if before else datetime.now(UTC)
        self._problems[place] = _Problem(text, since)
        kept = ", its last good content is kept" if self._is_mirrored(place) else ""
        _log.warning(f"cluster cannot be used{kept}", reason=text)

    def _wanted(self) -> dict[str, UpstreamSpec]:
        """Return the clusters by name, the first of each name by place; note the conflicts."""
        wanted: dict[str, UpstreamSpec] = {}
        holders: dict[str, str] = dict.fromkeys(self._taken, "an upstream of the configuration")
        conflicts: dict[Place, _Problem] = {}
        for place, good in sorted(self._good.items(), key=lambda item: item[0]):
            name = good.spec.name
            if name in holders:
                text = f"{place[1]}: {holders[name]} is called {name}, too; rename one of the two"
                before = self._conflicts.get(place)
                if before is None or before.text != text:
                    before = _Problem(text, datetime.now(UTC))
                    _log.warning("cluster cannot be used", reason=text)
                conflicts[place] = before
            else:
                holders[name] = place[1]
                wanted[name] = good.spec
        self._conflicts = conflicts
        return wanted

    async def _mirror_all(self, wanted: Mapping[str, UpstreamSpec]) -> None:
        """Mirror exactly these clusters, a few at a time."""
        changed = [spec for name, spec in wanted.items() if self._mirrored.get(name) is not spec]
        gone = [name for name in self._mirrored if name not in wanted]
        for start in range(0, max(len(changed), len(gone)), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            self._mirror(changed[part], gone[part])
            for spec in changed[part]:
                verb = "changed" if spec.name in self._mirrored else "added"
                _log.info(f"cluster {verb}", cluster=spec.name, address=spec.endpoint.url)
                self._mirrored[spec.name] = spec
            for name in gone[part]:
                _log.info("cluster removed", cluster=name)
                del self._mirrored[name]
            await asyncio.sleep(0)
