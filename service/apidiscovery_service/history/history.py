"""Remembers changes, and returns what was served at a time.

One of the processes that share a store writes (`record`, under a claim). It writes the difference
to what the file has, so a change is written once, also after a crash or a takeover.
Reading and writing have a thread of their own, and nobody who applies or polls waits for them.
"""

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias, TypeVar

import structlog

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.history.contents import (
    cluster_at,
    group_or_damage,
    release_or_damage,
)
from apidiscovery_service.history.differences import Differences, Written
from apidiscovery_service.history.file import HistoryFile
from apidiscovery_service.history.model import (
    EVERYTHING,
    MERGED,
    Change,
    ChangeFilter,
    ChangeKind,
    ContentDamaged,
    HistoryError,
    NewChange,
    NotRecorded,
    Retention,
)
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.store.urls import StoreUrl
from apidiscovery_service.waiting import Wakeup

# Changes that come together are written together. When writing takes long, as while the first
# answers of a fleet come in, there is a longer pause: nobody waits for it, but for its computing.
_SETTLE_S = 0.05
_PAUSE_AFTER = 4.0  # times as long as writing took
_LONGEST_PAUSE_S = 5.0
_RETRY_S = 5.0
_COMPACT_EVERY_S = 600.0
_COMPACT_PAUSE_S = 0.02
# OpenAPI documents are written together until there are so many bytes of them.
_STEP_BYTES = 2**20
# So many clusters are looked at without a pause.
_AT_ONCE = 20
# Other processes may write.
LOOK_EVERY_S = 1.0

ReadContent: TypeAlias = Group | str | ContentDamaged | None
T = TypeVar("T")

_READERS: Mapping[ChangeKind, Callable[[str, Callable[[str], bytes]], ReadContent]] = {
    ChangeKind.GROUP: group_or_damage,
    ChangeKind.DOCUMENT: release_or_damage,
}

_log = structlog.get_logger(__name__)


def history_path(store: StoreUrl) -> Path | None:
    """Return the file of the history beside a store; None for one in memory."""
    if store.path is None:
        return None
    return store.path.with_name(f"{store.path.stem}.history{store.path.suffix}")


class History:
    """The changes of all clusters and of the merged APIs. Used in the event loop.

    Args:
        thread: Does the work of the file; it has one worker.
        file: The file.
        keep: See `open`.
        etag_of: See `open`.
        openapi_of: See `open`.
    """

    def __init__(
        self,
        thread: ThreadPoolExecutor,
        file: HistoryFile,
        keep: Retention,
        etag_of: Callable[[str], str],
        openapi_of: Callable[[str], Awaitable[Mapping[str, Recipe]]],
    ) -> None:
        self._thread = thread
        self._file = file
        self._keep = keep
        self._etag_of = etag_of
        self._openapi_of = openapi_of
        self._current: dict[str, Cluster] = {}
        self._merged = Snapshot()
        self._dirty: dict[str, set[str]] = {}
        self._noted = asyncio.Event()
        # The documents of this server may have to be made, for which nothing else waits.
        self._document_causes: set[str] = set()
        self._documents_noted = asyncio.Event()
        # Differences are those to what was written last, so one step is written after the other.
        self._writing = asyncio.Lock()
        self._written: dict[str, Written] = {}
        self._problem = ""
        self.news = Wakeup()

    @classmethod
    async def open(
        cls,
        path: Path | None,
        keep: Retention,
        etag_of: Callable[[str], str],
        openapi_of: Callable[[str], Awaitable[Mapping[str, Recipe]]],
    ) -> Self:
        """Open the file of a history.

        Args:
            path: The file; None for a history in memory.
            keep: What is kept.
            etag_of: Returns the ETag of the named groups of a cluster, by its name.
            openapi_of: Returns the OpenAPI documents that a cluster publishes, by path; of `MERGED`
                those that this server serves.

        Raises:
            HistoryError: It cannot be opened.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        loop = asyncio.get_running_loop()
        try:
            file = await loop.run_in_executor(thread, HistoryFile, path)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(thread, file, keep, etag_of, openapi_of)

    async def close(self) -> None:
        """Write nothing more."""
        with suppress(HistoryError):
            await self._run(self._file.close)
        self._thread.shutdown(wait=True)

    def warnings(self) -> Sequence[str]:
        """Return a line for what is wrong with the file."""
        return [f"history: {self._problem}"] if self._problem else []

    # What changes.

    def clusters_changed(self, changed: Iterable[Cluster], gone: Iterable[str]) -> None:
        """Note clusters as they are now, and the names of those that are gone."""
        for cluster in changed:
            self._current[cluster.name] = cluster
            self._note(cluster.name, "poll")
        for name in gone:
            self._current.pop(name, None)
            self._note(name, "no longer configured")

    def documents_changed(self, name: str) -> None:
        """Note that a cluster publishes other OpenAPI documents."""
        if name in self._current:
            self._note(name, "poll")

    def merged_changed(self, snapshot: Snapshot, causes: Iterable[str]) -> None:
        """Note what this server serves now.

        Args:
            snapshot: That.
            causes: The sources whose change led to it.
        """
        self._merged = snapshot
        self._note(MERGED, *causes)

    def merged_documents_changed(self, causes: Iterable[str]) -> None:
        """Note that OpenAPI documents of what this server serves may be others.

        Args:
            causes: The sources whose change led to it, where discovery stays the same.
        """
        self._document_causes.update(causes)
        self._documents_noted.set()

    def _note(self, name: str, *causes: str) -> None:
        self._dirty.setdefault(name, set()).update(causes)
        self._noted.set()

    # Writing.

    async def record(self, _guard: object = None) -> None:
        """Write changes until cancelled; for the one process that holds the claim."""
        self._written = {}
        hashes = await self._until_it_works(self._file.latest)
        for name, known in hashes.items():
            self._written[name] = Written(known)
            if name not in self._current and name != MERGED:
                self._note(name, "no longer configured")
        for name in (MERGED, *self._current):
            self._note(name)
        beside = [
            asyncio.create_task(work) for work in (self._compact(), self._record_merged_documents())
        ]
        pause_s = 0.0
        try:
            while True:
                await self._noted.wait()
                await asyncio.sleep(max(pause_s, _SETTLE_S))
                self._noted.clear()
                dirty = dict(self._dirty)
                began = time.monotonic()
                await self._write(dirty)
                pause_s = min((time.monotonic() - began) * _PAUSE_AFTER, _LONGEST_PAUSE_S)
                for name, causes in dirty.items():
                    if name == MERGED:
                        self.merged_documents_changed(causes)
                    else:
                        await self._write_openapi(name, causes)
        finally:
            for task in beside:
                task.cancel()

    async def _record_merged_documents(self) -> None:
        while True:
            await self._documents_noted.wait()
            await asyncio.sleep(_SETTLE_S)
            self._documents_noted.clear()
            causes, self._document_causes = self._document_causes, set()
            if MERGED in self._written:
                try:
                    await self._write_openapi(MERGED, causes)
                except DiscoveryError as error:
                    _log.info("documents not remembered", reason=str(error))

    async def _write(self, dirty: Mapping[str, set[str]]) -> None:
        """Write what has changed of some clusters, in one step."""
        now: dict[str, tuple[Cluster | None, str]] = {}
        for place, name in enumerate(dirty):
            self._dirty.pop(name, None)
            cluster = self._now(name)
            is_known = cluster is not None and cluster.named is not None
            now[name] = cluster, self._etag_of(name) if is_known else ""
            if place % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        # Thousands of groups may be new: in a thread, while nobody else uses what was written.
        async with self._writing:
            found = await self._run(lambda: self._differences(now, dirty))
            if found.changes:
                await self._append(found.changes, found.contents)
            self._written |= found.written

    def _now(self, name: str) -> Cluster | None:
        return _merged(self._merged) if name == MERGED else self._current.get(name)

    def _differences(
        self, now: Mapping[str, tuple[Cluster | None, str]], causes: Mapping[str, Iterable[str]]
    ) -> Differences:
        found = Differences()
        for name, (cluster, etag) in now.items():
            known = self._written.get(name, Written())
            found.add(name, known, cluster, etag, _joined(causes[name]))
        return found

    async def _write_openapi(self, name: str, causes: Iterable[str]) -> None:
        """Write which OpenAPI documents of a cluster have changed."""
        is_there = name == MERGED or name in self._current
        recipes: Mapping[str, Recipe] = {}
        if is_there:
            recipes = await self._openapi_of(name)
        before = {
            key: h
            for (kind, key), h in self._written[name].hashes.items()
            if kind is ChangeKind.OPENAPI
        }
        if is_there and not recipes:
            return  # nobody has asked for them yet
        cause = _joined(causes)
        after = {key: recipe.hash for key, recipe in recipes.items()}
        changed = [k for k in sorted(before.keys() | after.keys()) if before.get(k) != after.get(k)]
        wanted = {after[key] for key in changed if key in after}
        missing = await self._until_it_works(lambda: self._file.missing(wanted))
        # Documents that other clusters publish as well are written in one step.
        known = [key for key in changed if after.get(key, "") not in missing]
        changes = [_of_document(name, key, cause, before, after) for key in known]
        if changes:
            await self._take(name, changes, {})
        pending: list[NewChange] = []
        made: dict[str, bytes] = {}
        for key in (key for key in changed if after.get(key) in missing):
            try:
                content = await recipes[key].make()
            except (DiscoveryError, OSError) as error:
                _log.info("document not remembered", cluster=name, key=key, reason=str(error))
                continue
            pending.append(_of_document(name, key, cause, before, after))
            made[after[key]] = content
            if sum(map(len, made.values())) >= _STEP_BYTES:
                await self._take(name, pending, made)
                pending, made = [], {}
        if pending:
            await self._take(name, pending, made)

    async def _take(
        self, name: str, changes: Sequence[NewChange], documents: Mapping[str, bytes]
    ) -> None:
        contents = {digest: partial(bytes, content) for digest, content in documents.items()}
        async with self._writing:
            await self._append(changes, contents)
            self._written[name].take(changes)

    async def _append(
        self, changes: Sequence[NewChange], contents: Mapping[str, Callable[[], bytes]]
    ) -> None:
        await self._until_it_works(lambda: self._file.append(changes, contents))
        self.news.ring()

    async def _compact(self) -> None:
        while True:
            has_more = False
            with suppress(HistoryError):
                has_more = await self._run(lambda: self._file.compact(self._keep))
            await asyncio.sleep(_COMPACT_PAUSE_S if has_more else _COMPACT_EVERY_S)

    async def _until_it_works(self, work: Callable[[], T]) -> T:
        """Return the result of work on the file; while it fails, say so and try again."""
        while True:
            try:
                result = await self._run(work)
            except HistoryError as error:
                if str(error) != self._problem:
                    _log.warning("history cannot be written, trying again", reason=str(error))
                self._problem = str(error)
                await asyncio.sleep(_RETRY_S)
            else:
                self._problem = ""
                return result

    # Reading.

    async def changes(
        self,
        only: ChangeFilter = EVERYTHING,
        *,
        before: int | None = None,
        after: int = 0,
        limit: int = 1000,
        newest_first: bool = True,
    ) -> tuple[Change, ...]:
        """Return changes; arguments and errors as those of `HistoryFile.changes`."""
        return await self._read(
            lambda: self._file.changes(
                only, before=before, after=after, limit=limit, newest_first=newest_first
            )
        )

    async def cluster_at(self, name: str, when: datetime) -> Cluster:
        """Return a cluster as it was at a time; `MERGED` for what this server itself served.

        Raises:
            NotRecorded: The history has nothing of it, or not from so long ago.
            ContentDamaged: What is needed is damaged.
            HistoryError: The history cannot be read.
        """
        return await self._read(
            lambda: cluster_at(name, self._file.state_at(name, when), self._file.content)
        )

    async def openapi_at(self, name: str, when: datetime) -> Mapping[str, Recipe]:
        """Return the OpenAPI documents of a cluster at a time, by path; raise as `cluster_at`."""
        state = await self._read(lambda: self._file.state_at(name, when))
        content = self._file.content  # without `_read`: making documents logs why one fails
        return {
            key: Recipe(("history", digest), partial(self._run, partial(content, digest)), digest)
            for (kind, key), digest in state.items()
            if kind is ChangeKind.OPENAPI
        }

    async def following(
        self, only: ChangeFilter, after: int, limit: int = 1000
    ) -> tuple[tuple[Change, ...], int]:
        """Return changes after an id, the oldest first, and the id to continue with."""
        return await self._read(lambda: self._file.following(only, after, limit))

    async def change(self, number: int) -> Change | None:
        """Return a change by its id; None if there is none."""
        return await self._read(lambda: self._file.change(number))

    async def last_id(self) -> int:
        """Return the greatest id that any change has or had; 0 for none."""
        return await self._read(self._file.last_id)

    async def read_sides(self, change: Change) -> tuple[ReadContent, ReadContent]:
        """Return the content before and after a change of a group or of its surroundings.

        Returns:
            Groups, or the releases of the server; None for nothing, or why one cannot be read.

        Raises:
            HistoryError: The history cannot be read.
        """
        return (await self.read_all_sides([change]))[0]

    async def read_all_sides(
        self, changes: Iterable[Change]
    ) -> list[tuple[ReadContent, ReadContent]]:
        """Return the sides of each change, as `read_sides` does."""
        return await self._read(lambda: [self._read_sides(change) for change in changes])

    def _read_sides(self, change: Change) -> tuple[ReadContent, ReadContent]:
        read = _READERS.get(change.kind)
        if read is None:
            return None, None
        return (
            read(change.before, self._file.content) if change.before else None,
            read(change.after, self._file.content) if change.after else None,
        )

    async def content(self, key: str) -> bytes:
        """Return a content by its hash.

        Raises:
            ContentDamaged: It is damaged, or missing.
            HistoryError: The history cannot be read.
        """
        return await self._read(lambda: self._file.content(key))

    async def _read(self, work: Callable[[], T]) -> T:
        """Return the result of reading, and log why it fails: callers are not told the details."""
        try:
            return await self._run(work)
        except NotRecorded:
            raise
        except HistoryError as error:
            _log.warning("history cannot be read", reason=str(error))
            raise

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _merged(snapshot: Snapshot) -> Cluster:
    """Return what this server serves as if it were a cluster."""
    return Cluster(
        MERGED,
        SourceStatus(MERGED),
        core=tuple(published.group for published in snapshot.core.groups),
        named=tuple(published.group for published in snapshot.named.groups),
        listed=tuple(published.name for published in snapshot.named.listed),
    )


def _joined(causes: Iterable[str]) -> str:
    return ", ".join(sorted(causes)) or "first seen by this process"


def _of_document(
    cluster: str, key: str, cause: str, before: Mapping[str, str], after: Mapping[str, str]
) -> NewChange:
    return NewChange(
        cluster, ChangeKind.OPENAPI, key, cause, before.get(key, ""), after.get(key, "")
    )
