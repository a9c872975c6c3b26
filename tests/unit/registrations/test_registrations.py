"""Registrations on a store in memory: publish, withdraw, list, and faults of the store."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

import pytest
from apidiscovery_service import workers
from apidiscovery_service.access import Caller
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.registrations.published import (
    PlacedGroup,
    from_json,
    offers_of,
    to_json,
    violations,
)
from apidiscovery_service.sources.registrations.record import Record, RegistrationKind, encode
from apidiscovery_service.sources.registrations.requests import (
    ApplyOutcome,
    ApplyResult,
    Denied,
    Query,
    Reference,
    Requester,
    RevisionMismatch,
)
from apidiscovery_service.store import Batch, Listing, StoreRefused, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.observed import ObservedStore
from hypothesis import given
from hypothesis import strategies as st
from registration_setup import (
    ANYBODY,
    CURRENT,
    api_service,
    apply,
    crd,
    group,
    publication,
    stored,
)
from registry_server import Replica, following
from store_wrapper import RestorableStore
from waiting import until

# Publish.


async def test_a_publication_is_served_once_it_is_acknowledged(replica: Replica) -> None:
    written = await replica.registrations.publish(publication(), ANYBODY)
    assert written.outcome is ApplyOutcome.CREATED
    assert replica.served() == {"east.example.com": CURRENT}
    assert replica.registry.sources == ("registrations:groups/east",)


async def test_a_publication_without_documents_starts_no_worker(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "run", None)
    written = await replica.registrations.publish(publication(), ANYBODY)
    assert written.outcome is ApplyOutcome.CREATED


async def test_other_replicas_serve_and_withdraw_a_publication() -> None:
    store = MemoryStore()
    async with following(Replica(store), Replica(store)) as (one, other):
        await one.registrations.publish(publication("east"), ANYBODY)
        await other.registrations.publish(publication("west"), ANYBODY)
        await until(lambda: one.served() == other.served() and len(one.served()) == 2)
        assert one.registry.snapshot.named.etag == other.registry.snapshot.named.etag
        await other.registrations.withdraw(
            [Reference(RegistrationKind.GROUPS, "east")], "", ANYBODY
        )
        assert "east.example.com" not in other.served()
        await until(lambda: "east.example.com" not in one.served())


async def test_a_new_replica_serves_everything() -> None:
    store = MemoryStore()
    async with following(Replica(store)) as (first,):
        await first.registrations.publish(publication(), ANYBODY)
        await apply(first, crd(), api_service())
    async with following(Replica(store)) as (second,):
        assert second.registry.snapshot.named.etag == first.registry.snapshot.named.etag
        assert list(second.declarations.api_services) == ["v1.metrics.example.com"]


async def test_publishing_the_same_again_changes_nothing_at_any_revision(replica: Replica) -> None:
    first = await replica.registrations.publish(publication(expected=0), ANYBODY)
    for expected in (0, first.registered.revision, 12345, None):
        again = await replica.registrations.publish(publication(expected=expected), ANYBODY)
        assert again.outcome is ApplyOutcome.UNCHANGED
        assert again.registered == first.registered


async def test_an_unexpected_revision_is_refused_with_the_present_one(replica: Replica) -> None:
    other = PlacedGroup(group("other.example.com"))
    with pytest.raises(RevisionMismatch) as caught:
        await replica.registrations.publish(publication(expected=7), ANYBODY)
    assert caught.value.revision == 0
    first = await replica.registrations.publish(publication(), ANYBODY)
    with pytest.raises(RevisionMismatch) as caught:
        await replica.registrations.publish(publication("east", other, expected=0), ANYBODY)
    assert caught.value.revision == first.registered.revision
    assert (caught.value.kind, caught.value.name) == (RegistrationKind.GROUPS, "east")
    second = await replica.registrations.publish(
        publication("east", other, expected=first.registered.revision), ANYBODY
    )
    assert second.outcome is ApplyOutcome.CONFIGURED
    assert second.registered.record.created == first.registered.record.created
    assert replica.served() == {"other.example.com": CURRENT}


async def test_of_writers_that_expect_the_same_revision_one_wins(replica: Replica) -> None:
    first = await replica.registrations.publish(publication(), ANYBODY)
    results = await asyncio.gather(
        *(
            replica.registrations.publish(
                publication(
                    "east",
                    PlacedGroup(group(f"g{n}.example.com")),
                    expected=first.registered.revision,
                ),
                ANYBODY,
            )
            for n in range(20)
        ),
        return_exceptions=True,
    )
    won = [result for result in results if isinstance(result, ApplyResult)]
    lost = [result for result in results if isinstance(result, RevisionMismatch)]
    assert (len(won), len(lost)) == (1, 19)
    assert {error.revision for error in lost} == {won[0].registered.revision}


async def test_writers_that_expect_no_revision_succeed_and_the_last_wins(replica: Replica) -> None:
    results = await asyncio.gather(
        *(
            replica.registrations.publish(
                publication("east", PlacedGroup(group(f"g{n}.example.com"))), ANYBODY
            )
            for n in range(20)
        )
    )
    last = max(results, key=lambda written: written.registered.revision)
    assert [*replica.served()] == [from_json(last.registered.record.content)[0].name]
    assert len({written.registered.revision for written in results}) == 20


async def test_a_caller_without_permission_cannot_change_a_group(replica: Replica) -> None:
    mine = Requester(Caller("me"), lambda groups: None if groups <= {"me.example.com"} else "no")
    await replica.registrations.publish(publication("east"), ANYBODY)
    with pytest.raises(Denied):
        await replica.registrations.publish(publication("west"), mine)
    with pytest.raises(Denied):
        await replica.registrations.publish(
            publication("east", PlacedGroup(group("me.example.com"))), mine
        )
    with pytest.raises(Denied):
        await replica.registrations.withdraw([Reference(RegistrationKind.GROUPS, "east")], "", mine)
    await replica.registrations.publish(publication("me"), mine)
    assert [*replica.served()] == ["east.example.com", "me.example.com"]


async def test_a_registration_that_is_too_large_is_refused_by_name(replica: Replica) -> None:
    large = PlacedGroup(group("a.example.com", resources=tuple(f"r{n:08000}" for n in range(140))))
    with pytest.raises(InvalidFields) as caught:
        await replica.registrations.publish(publication("east", large), ANYBODY)
    (violation,) = caught.value.violations
    assert violation.field == "groups"
    assert "at most 1048576" in violation.message


# Groups and their places.


def test_every_invalid_field_is_reported() -> None:
    wrong = [
        PlacedGroup(group("Not-a-name"), 0, (5, 6)),
        PlacedGroup(
            {
                "metadata": {"name": "b.example.com"},
                "versions": [
                    {"version": "v1", "resources": [{"resource": "a"}, {"scope": "Cluster"}]},
                    {"version": "1"},
                    {"version": "v2", "resources": [{"resource": "ok", "scope": "Cluster"}]},
                ],
            },
            20_001,
        ),
        PlacedGroup({"metadata": {"name": "c.example.com"}, "versions": []}),
    ]
    assert [violation.field for violation in violations(wrong)] == [
        "groups[0].groupPriorityMinimum",
        "groups[0].versionPriorities",
        "groups[1].groupPriorityMinimum",
        "groups[0].group.metadata.name",
        "groups[1].group.versions[0].resources[0].scope",
        "groups[1].group.versions[0].resources[1].resource",
        "groups[1].group.versions[1].version",
        "groups[2].group.versions",
    ]


def test_a_duplicate_group_is_reported() -> None:
    twice = [PlacedGroup(group("a.example.com")), PlacedGroup(group("a.example.com"))]
    assert [v.field for v in violations(twice)] == ["groups[1].group.metadata.name"]


def test_a_group_without_priority_is_raised_to_those_after_it() -> None:
    offers = offers_of(
        [
            PlacedGroup(group("a.example.com")),
            PlacedGroup(group("b.example.com"), 15_000),
            PlacedGroup(group("c.example.com")),
            PlacedGroup(group("apps"), 10),
            PlacedGroup(group("d.example.com", "v1", "v2"), None, (3, 7)),
        ]
    )
    assert [(o.group, o.group_priority, o.version_priority) for o in offers] == [
        ("a.example.com", 15_000, 15),
        ("b.example.com", 15_000, 15),
        ("c.example.com", 1_000, 15),
        ("apps", 10, 15),
        ("d.example.com", 1_000, 3),
        ("d.example.com", 1_000, 7),
    ]
    assert [offer.group_rank for offer in offers] == [0, 1, 2, 3, 4, 4]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("apps", "batch", "a.example.com", "b.example.com")),
            st.none() | st.integers(1, 20_000),
        ),
        unique_by=lambda drawn: drawn[0],
    )
)
def test_groups_keep_their_order_and_their_priorities(
    drawn: list[tuple[str, int | None]],
) -> None:
    groups = [PlacedGroup(group(name), priority) for name, priority in drawn]
    assert from_json(to_json(groups)) == groups
    offers = offers_of(groups)
    for place, (_, priority) in enumerate(drawn):
        if priority is not None:
            assert offers[place].group_priority == priority
        else:
            assert all(offers[place].group_priority >= o.group_priority for o in offers[place:])


# Withdraw.


async def test_withdraw_returns_what_it_removed_and_ignores_the_rest(replica: Replica) -> None:
    written = await replica.registrations.publish(publication(), ANYBODY)
    references = [
        Reference(RegistrationKind.GROUPS, "east"),
        Reference(RegistrationKind.CRD, "none.example.com", 5),
    ]
    removed = await replica.registrations.withdraw(references, "", ANYBODY)
    assert removed == [Reference(RegistrationKind.GROUPS, "east", written.registered.revision)]
    assert replica.served() == {}
    assert await replica.registrations.withdraw(references, "", ANYBODY) == []


async def test_withdraw_of_another_revision_removes_nothing(replica: Replica) -> None:
    await replica.registrations.publish(publication("east"), ANYBODY)
    west = await replica.registrations.publish(publication("west"), ANYBODY)
    references = [
        Reference(RegistrationKind.GROUPS, "east"),
        Reference(RegistrationKind.GROUPS, "west", 999),
    ]
    with pytest.raises(RevisionMismatch) as caught:
        await replica.registrations.withdraw(references, "", ANYBODY)
    assert caught.value.revision == west.registered.revision
    assert len(replica.served()) == 2


# List.


async def test_lists_are_sorted_filtered_and_paged(replica: Replica) -> None:
    await apply(replica, api_service(), crd("b"), crd("a"))
    for name in ("north", "east", "west"):
        await replica.registrations.publish(publication(name, owner="me"), ANYBODY)
    every = [(one.kind, one.name) for one in await stored(replica)]
    assert every == [
        (RegistrationKind.GROUPS, "east"),
        (RegistrationKind.GROUPS, "north"),
        (RegistrationKind.GROUPS, "west"),
        (RegistrationKind.CRD, "a.example.com"),
        (RegistrationKind.CRD, "b.example.com"),
        (RegistrationKind.API_SERVICE, "v1.metrics.example.com"),
    ]
    crds = await stored(replica, kinds=frozenset([RegistrationKind.CRD]))
    assert [one.name for one in crds] == ["a.example.com", "b.example.com"]
    assert len(await stored(replica, owner="me")) == 3
    named = await stored(replica, names=frozenset(["east", "a.example.com"]))
    assert [one.name for one in named] == ["east", "a.example.com"]

    paged: list[tuple[RegistrationKind, str]] = []
    after: tuple[RegistrationKind, str] | None = None
    for _ in range(10):
        page = await replica.registrations.list(Query(size=2, after=after))
        paged += [(one.kind, one.name) for one in page.registered]
        after = page.next_after
        if after is None:
            break
        # A new entry before the place does not move the entries after it.
        await replica.registrations.publish(publication("aaa"), ANYBODY)
    assert paged == every


async def test_a_page_stays_below_the_message_limit_of_clients(replica: Replica) -> None:
    large = tuple(f"r{n:08000}" for n in range(90))
    for n in range(5):
        placed = PlacedGroup(group(f"g{n}.example.com", resources=large))
        await replica.registrations.publish(publication(f"n{n}", placed), ANYBODY)
    page = await replica.registrations.list(Query())
    assert 0 < len(page.registered) < 5
    rest = await replica.registrations.list(Query(after=page.next_after))
    assert len(page.registered) + len(rest.registered) == 5


# The store.


async def test_an_unreadable_entry_is_a_warning_and_keeps_its_content(replica: Replica) -> None:
    await replica.registrations.publish(publication(), ANYBODY)
    await replica.store.put("registrations/groups/east", b'{"format":2}')
    await replica.store.put("registrations/groups/west", b"nonsense")
    await replica.registrations.publish(publication("north"), ANYBODY)
    assert [*replica.served()] == ["east.example.com", "north.example.com"]
    assert len(replica.registrations.warnings()) == 2
    await replica.store.delete("registrations/groups/west")
    await replica.registrations.publish(publication("south"), ANYBODY)
    (warning,) = replica.registrations.warnings()
    assert "want format 1, got 2" in warning
    listed = await stored(replica)
    assert [one.name for one in listed] == ["north", "south"]
    # Withdrawing the unreadable entry removes the last content too.
    removed = await replica.registrations.withdraw(
        [Reference(RegistrationKind.GROUPS, "east")], "", ANYBODY
    )
    assert [one.name for one in removed] == ["east"]
    assert [*replica.served()] == ["north.example.com", "south.example.com"]
    assert replica.registrations.warnings() == []


async def test_an_invalid_entry_is_not_listed_and_is_a_warning() -> None:
    wrong: list[JSONValue] = [{"group": {"metadata": {"name": "Wrong"}, "versions": []}}]
    for value in (
        encode(Record("", "", "2026-01-01T00:00:00Z", wrong)),
        encode(Record("", "", "yesterday", to_json([PlacedGroup(group("a.example.com"))]))),
    ):
        async with following(Replica()) as (replica,):
            await replica.registrations.publish(publication(), ANYBODY)
            await replica.store.put("registrations/groups/east", value)
            await replica.registrations.publish(publication("north"), ANYBODY)
            assert [one.name for one in await stored(replica)] == ["north"]
            (warning,) = replica.registrations.warnings()
            assert warning.startswith("store: registrations/groups/east: ")


async def test_compacted_changes_are_read_from_a_listing() -> None:
    store = MemoryStore(history=3)
    writer, reader = Replica(store), Replica(store)
    async with following(writer):
        for name in ("east", "west"):
            await writer.registrations.publish(publication(name), ANYBODY)
        await reader.registrations.load()
        for name in ("a", "b", "c", "d"):
            await writer.registrations.publish(publication(name), ANYBODY)
        await writer.registrations.withdraw(
            [Reference(RegistrationKind.GROUPS, "east")], "", ANYBODY
        )
        task = asyncio.create_task(reader.registrations.follow())
        try:
            await until(lambda: reader.served() == writer.served())
        finally:
            task.cancel()
    assert len(reader.served()) == 5


async def test_a_publication_without_the_store_is_unavailable(replica: Replica) -> None:
    await cast("MemoryStore", replica.store).close()
    with pytest.raises(StoreUnavailable):
        await replica.registrations.publish(publication(), ANYBODY)


class LockedStore(MemoryStore):
    """A store that refuses everything while it is locked, as etcd after a change of passwords."""

    locked = False

    def _refuse_if_locked(self) -> None:
        if self.locked:
            raise StoreRefused("authentication failed")

    async def list(self, prefix: str) -> Listing:
        self._refuse_if_locked()
        return await super().list(prefix)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        self._refuse_if_locked()
        async with aclosing(super().watch(prefix, after)) as batches:
            async for batch in batches:
                self._refuse_if_locked()
                yield batch


async def test_a_store_that_refuses_for_a_while_is_followed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.following.PAUSE_S", 0.05)
    monkeypatch.setattr("apidiscovery_service.store.memory.NEWS_EVERY_S", 0.05)
    locked = LockedStore()
    store = ObservedStore(locked)
    async with following(Replica(store)) as (replica,):
        await replica.registrations.publish(publication("east"), ANYBODY)
        locked.locked = True
        await store.put("registrations/other", b"ends the watch")
        await until(store.warnings)
        warning = store.warnings()[0]
        assert re.match(r"store: following fails, \d+ times since 2", warning)
        assert warning.endswith("Z: authentication failed")
        assert [*replica.served()] == ["east.example.com"]
        await store.delete("registrations/other")
        locked.locked = False
        await replica.registrations.publish(publication("west"), ANYBODY)
        assert [*replica.served()] == ["east.example.com", "west.example.com"]
        await until(lambda: not store.warnings())


async def test_a_restored_backup_with_the_same_revisions_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.following.PAUSE_S", 0.02)
    store, backup = RestorableStore(), Replica()
    for registrations, names in (
        (Replica(store.behind), ("east", "west")),
        (backup, ("north", "east")),
    ):
        async with following(registrations):
            for name in names:
                await registrations.registrations.publish(publication(name), ANYBODY)
            again = publication("east", PlacedGroup(group(f"of-{names[0]}.example.com")))
            await registrations.registrations.publish(again, ANYBODY)
    async with following(Replica(store)) as (replica,):
        assert sorted(replica.served()) == ["of-east.example.com", "west.example.com"]
        await store.restore(cast("MemoryStore", backup.store))
        await until(lambda: replica.served() == backup.served())
        assert sorted(replica.served()) == ["north.example.com", "of-north.example.com"]


async def test_a_write_to_a_restored_store_is_acknowledged_once_it_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.following.PAUSE_S", 0.3)
    store = RestorableStore()
    async with following(Replica(store)) as (replica,):
        for name in ("north", "east", "west"):
            await replica.registrations.publish(publication(name), ANYBODY)
        await store.restore(MemoryStore())
        await asyncio.sleep(0.05)  # the watch has broken, and the next attempt is still to come
        await replica.registrations.publish(publication("south"), ANYBODY)
        assert [*replica.served()] == ["south.example.com"]
