"""A history records each state of a cluster once and whole, and no failure as an empty cluster."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha512
from pathlib import Path

from apidiscovery_service.core.cluster import Cluster, Dialect
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import SourceState, SourceStatus
from apidiscovery_service.history.file import HistoryFile
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import MERGED, Change, ChangeKind, Retention
from apidiscovery_service.openapi.recipe import Recipe
from groups import GROUPS, document_of, widget_group
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import until

DIALECT = Dialect(
    has_creation_timestamps=True,
    aggregated=("v2",),
    addresses=(("0.0.0.0/0", "10.0.0.1:6443"),),
    version=b'{"major": "1"}',
)


def cluster(*groups: Group, core: tuple[Group, ...] = (), name: str = "east") -> Cluster:
    listed = tuple(group.name for group in reversed(groups))
    return Cluster(name, SourceStatus(name), {}, core, groups, listed, DIALECT)


def content(of: Cluster) -> tuple[object, ...]:
    return of.core, of.named, of.listed, of.dialect


@dataclass
class Remembering:
    """A history that is written, and the documents of its clusters.

    Attributes:
        documents: OpenAPI documents by cluster and path.
    """

    history: History
    documents: dict[str, dict[str, Recipe]]

    async def until(self, condition: Callable[[list[Change]], object]) -> list[Change]:
        """Wait until the changes, oldest first, are so; return them."""
        found = list[Change]()

        async def are_so() -> object:
            every = await self.history.changes(newest_first=False, limit=10**6)
            found[:] = (
                one
                for one in every
                if one.cluster != MERGED or one.kind in (ChangeKind.GROUP, ChangeKind.OPENAPI)
            )
            return condition(found)

        await until(are_so, "the changes")
        return found


@asynccontextmanager
async def remembering(path: Path | None = None) -> AsyncGenerator[Remembering]:
    documents: dict[str, dict[str, Recipe]] = {}

    async def openapi_of(name: str) -> dict[str, Recipe]:
        return documents.get(name, {})

    history = await History.open(path, Retention(), lambda name: f"etag of {name}", openapi_of)
    recording = asyncio.create_task(history.record())
    try:
        yield Remembering(history, documents)
    finally:
        recording.cancel()
        await asyncio.wait([recording])
        await history.close()


def kinds(changes: list[Change]) -> list[tuple[str, str]]:
    return [(one.kind.value, one.name) for one in changes]


unique_groups = st.lists(GROUPS, max_size=2, unique_by=lambda group: group.name)


@settings(max_examples=10)
@given(st.lists(unique_groups, min_size=1, max_size=3))
def test_clusters_are_given_back_as_they_were(states: list[list[Group]]) -> None:
    async def run() -> None:
        async with remembering() as run:
            moments: list[tuple[datetime, Cluster]] = []
            before: Cluster | None = None
            for number, groups in enumerate(states):
                named = tuple(group for group in groups if group.name)
                core = tuple(group for group in groups if not group.name)
                # Each differs from the one before, so that it is seen to be written.
                dialect = replace(DIALECT, version=b'{"major": "%d"}' % number)
                now = replace(cluster(*named, core=core), dialect=dialect)
                assert before is None or content(before) != content(now)
                before = now
                known = len(await run.until(lambda _found: True))
                run.history.clusters_changed([now], ())
                changes = await run.until(lambda found: len(found) > known)  # noqa: B023 - awaited
                moments.append((changes[-1].time, now))
                await asyncio.sleep(0.002)  # another millisecond
            for when, wanted in moments:
                assert content(await run.history.cluster_at("east", when)) == content(wanted)

    asyncio.run(run())


async def test_a_change_names_what_has_changed_when_and_why() -> None:
    async with remembering() as run:
        run.history.clusters_changed([cluster(widget_group("a.test"), widget_group("b.test"))], ())
        first = await run.until(lambda found: found)
        assert kinds(first) == [
            ("Document", ""),
            ("Group", "a.test"),
            ("Group", "b.test"),
            ("State", ""),
        ]
        assert {one.cause for one in first} == {"poll", "it answers"}
        after = cluster(widget_group("a.test", "v2"), widget_group("b.test"))
        run.history.clusters_changed([after], ())
        (change,) = (await run.until(lambda found: len(found) > 4))[4:]
        assert (change.cluster, change.kind, change.name) == ("east", ChangeKind.GROUP, "a.test")
        assert change.before == first[1].after != change.after
        assert (change.etag_before, change.etag_after) == ("etag of east", "etag of east")
        assert abs((datetime.now(UTC) - change.time).total_seconds()) < 60


async def test_hashes_that_come_a_moment_later_are_no_other_change() -> None:
    def hashed(group: Group, digest: str) -> Group:
        (version,) = group.versions
        resources = tuple(replace(r, storage_version_hash=digest) for r in version.resources)
        return replace(group, versions=(replace(version, resources=resources),))

    async with remembering() as run:
        bare = hashed(widget_group("a.test"), "")
        run.history.clusters_changed([cluster(bare)], ())
        first = await run.until(lambda found: found)
        run.history.clusters_changed([cluster(hashed(bare, "one="))], ())
        changes = await run.until(lambda found: found != first)
        assert [one.id for one in changes] == [one.id for one in first]
        then = await run.history.cluster_at("east", first[-1].time)
        assert then.named == (hashed(bare, "one="),)
        # From then on another hash is a change.
        run.history.clusters_changed([cluster(hashed(bare, "two="))], ())
        assert len(await run.until(lambda found: len(found) > len(first))) == len(first) + 1
        then = await run.history.cluster_at("east", first[-1].time)
        assert then.named == (hashed(bare, "one="),)


async def test_a_failure_is_recorded_as_a_state_and_keeps_the_content() -> None:
    async with remembering() as run:
        well = cluster(widget_group("a.test"))
        run.history.clusters_changed([well], ())
        known = len(await run.until(lambda found: found))
        down = SourceStatus("east", SourceState.STALE, error="connection refused")
        # Nothing is known any more, as after a restart without a store.
        run.history.clusters_changed([Cluster("east", down)], ())
        changes = await run.until(lambda found: len(found) > known)
        assert [(one.kind, one.cause) for one in changes[known:]] == [
            (ChangeKind.STATE, "connection refused")
        ]
        then = await run.history.cluster_at("east", changes[-1].time)
        assert content(then) == content(well)


async def test_a_cluster_that_is_gone_is_remembered_so() -> None:
    async with remembering() as run:
        run.history.clusters_changed([cluster(widget_group("a.test"))], ())
        known = len(await run.until(lambda found: found))
        run.history.clusters_changed([], ["east"])
        gone = (await run.until(lambda found: len(found) > known))[known:]
        assert {one.cause for one in gone} == {"no longer configured"}
        assert {one.after for one in gone} == {""}


async def test_another_process_that_takes_over_writes_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    east, west = cluster(widget_group("a.test")), cluster(widget_group("a.test"), name="west")
    async with remembering(path) as run:
        run.history.clusters_changed([east, west], ())
        first = await run.until(lambda found: found)
    async with remembering(path) as run:
        # What happened meanwhile is found; what did not change is not written again.
        changed = cluster(widget_group("a.test", "v2"), name="west")
        run.history.clusters_changed([east, changed], ())
        found = await run.until(lambda found: len(found) > len(first))
        assert [(one.cluster, one.name) for one in found[len(first) :]] == [("west", "a.test")]


async def test_equal_contents_of_clusters_are_there_once(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    async with remembering(path) as run:
        groups = [widget_group(f"g{number}.test") for number in range(50)]
        run.history.clusters_changed([cluster(*groups)], ())
        one = await run.until(lambda found: found)
        before = HistoryFile(path).size_bytes()
        others = [cluster(*groups, name=f"c{number}") for number in range(10)]
        run.history.clusters_changed(others, ())
        every = await run.until(lambda found: len(found) >= 11 * len(one))
        assert len({change.after for change in every}) == len({change.after for change in one})
        # The changes themselves: some 300 bytes each with their indexes.
        assert HistoryFile(path).size_bytes() - before < 10 * len(one) * 1000


EMPTY_DOCUMENT_HASH = (
    "27C74670ADB75075FAD058D5CEAF7B20C4E7786C83BAE8A32F626F9782AF34C9"
    "A33C2046EF60FD2A7878D378E29FEC851806BBD9A67878F3A9F1CDA4830763FD"
)


async def empty_document() -> bytes:
    return b"{}"


async def test_openapi_documents_are_remembered() -> None:
    async def lost() -> bytes:
        raise OSError("the store is away")

    async with remembering() as run:
        run.documents["east"] = {
            "apis/a.test/v1": Recipe("a", empty_document, EMPTY_DOCUMENT_HASH),
            "apis/b.test/v1": Recipe("b", lost, "0" * 128),
        }
        run.history.clusters_changed([cluster(widget_group("a.test"))], ())
        changes = await run.until(lambda found: ("OpenAPI", "apis/a.test/v1") in kinds(found))
        recipes = await run.history.openapi_at("east", changes[-1].time)
        assert list(recipes) == ["apis/a.test/v1"]  # the other is tried again at the next change
        assert await recipes["apis/a.test/v1"].make() == b"{}"


async def test_merged_changes_of_groups_and_openapi_documents_have_their_sources() -> None:
    async with remembering() as run:
        snapshot = Snapshot(named=document_of(widget_group("a.test")))
        run.history.merged_changed(snapshot, ["crds:a.test", "upstream:east"])
        found = await run.until(lambda found: ("Group", "a.test") in kinds(found))
        (change,) = (one for one in found if one.name == "a.test")
        assert (change.cluster, change.cause) == (MERGED, "crds:a.test, upstream:east")
        run.documents[MERGED] = {"apis/a.test/v1": Recipe("a", empty_document, EMPTY_DOCUMENT_HASH)}
        run.history.merged_documents_changed(["crds:a.test"])
        found = await run.until(lambda found: ("OpenAPI", "apis/a.test/v1") in kinds(found))
        change = found[-1]
        assert change.name == "apis/a.test/v1"
        assert "crds:a.test" in change.cause
        (recipe,) = (await run.history.openapi_at(MERGED, change.time)).values()
        assert await recipe.make() == b"{}"


async def test_an_openapi_document_that_another_cluster_publishes_is_not_made_again() -> None:
    made: list[str] = []
    contents = {path: path.encode() for path in ("apis/a.test/v1", "apis/b.test/v1")}
    digests = {path: sha512(content).hexdigest().upper() for path, content in contents.items()}

    def recipe(name: str, path: str) -> Recipe:
        async def make() -> bytes:
            made.append(name)
            return contents[path]

        return Recipe(path, make, digests[path])

    async with remembering() as run:
        both, last = ("east", "west"), "apis/b.test/v1"
        for name in both:
            run.documents[name] = {path: recipe(name, path) for path in contents}
            run.history.clusters_changed([cluster(widget_group("a.test"), name=name)], ())
            await run.until(lambda found: ("OpenAPI", last) in kinds(found))
        changes = await run.until(lambda found: kinds(found).count(("OpenAPI", last)) == len(both))
        assert made == ["east", "east"]
        assert set(await run.history.openapi_at("west", changes[-1].time)) == contents.keys()
        del run.documents["west"]["apis/a.test/v1"]
        run.history.documents_changed("west")
        changes = await run.until(lambda found: not found[-1].after)
        assert set(await run.history.openapi_at("west", changes[-1].time)) == {"apis/b.test/v1"}
