"""Apply writes a CustomResourceDefinition once, with the status that it will have."""

import asyncio
import gzip
import itertools
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

import pytest
from apidiscovery_formats.json_values import as_object
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.crds import names as crd_names
from apidiscovery_service.sources.registrations.record import (
    Object,
    RegistrationKind,
    encode,
    key_of,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    ApplyOutcome,
    Manifest,
    NotServed,
    Reference,
)
from apidiscovery_service.sources.registrations.table import Table
from apidiscovery_service.store import StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from registration_setup import ANYBODY, apply, conditions, content, crd, stored, with_metadata
from registry_server import Replica, following
from repository import GOLDEN
from store_wrapper import StoreWrapper
from waiting import WITHIN_S

WIDGETS = key_of(RegistrationKind.CRD, "widgets.example.com")


class ObservedStore(StoreWrapper):
    """Records its calls; a test can act before each write."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.asked: list[str] = []
        self.before_put: Callable[[str], Awaitable[None]] | None = None

    async def disturb(self, operation: str, key: str) -> None:
        if operation in ("get", "put"):
            self.asked.append(operation)
        if operation == "put" and self.before_put is not None:
            await self.before_put(key)


def named(plural: str, **names: JSONValue) -> Object:
    return crd(plural, names={"plural": plural, "kind": plural.capitalize(), **names})


def labelled(value: str) -> Object:
    return with_metadata(crd(), labels={"a": value})


async def established(replica: Replica) -> list[str]:
    """Return the definitions that are Established in the store."""
    return [
        registered.name
        for registered in await stored(replica)
        if conditions(registered).get("Established", "").startswith("True")
    ]


async def test_an_apply_is_one_write() -> None:
    store = ObservedStore()
    async with following(Replica(store)) as (replica,):
        for document in (crd(), labelled("b"), crd(scope="Namespaced")):
            store.asked.clear()
            await apply(replica, document)
            assert store.asked == ["get", "put"]
        (held,) = await stored(replica)
        assert conditions(held)["Established"] == "True InitialNamesAccepted"


async def test_an_unchanged_definition_is_not_written() -> None:
    store = ObservedStore()
    async with following(Replica(store)) as (replica,):
        (first,) = await apply(replica, crd())
        store.asked.clear()
        (again,) = await apply(replica, crd())
        assert (again.outcome, again.registered) == (ApplyOutcome.UNCHANGED, first.registered)
        assert store.asked == ["get"]


async def test_a_replica_that_is_behind_acknowledges_no_apply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "apidiscovery_service.sources.registrations.table.VISIBLE_WITHIN_S"
    monkeypatch.setattr(module, 0.01)
    store = MemoryStore()
    behind = Replica(store)
    async with following(Replica(store)) as (other,):
        await apply(other, labelled("first"))
        await behind.registrations.load()
        (second,) = await apply(other, labelled("second"))
        for label in ("second", "first"):
            # A stored state that this replica does not serve is not acknowledged, changed or not.
            with pytest.raises(NotServed):
                await apply(behind, labelled(label))
            (held,) = await stored(other)
            assert as_object(as_object(held.record.content)["metadata"])["labels"] == {"a": label}
            assert (held.revision == second.registered.revision) == (label == "second")


async def test_a_removal_by_another_replica_is_acknowledged_only_when_it_is_not_served_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "apidiscovery_service.sources.registrations.table.VISIBLE_WITHIN_S"
    monkeypatch.setattr(module, 0.01)
    store = MemoryStore()
    behind = Replica(store)
    widgets = [Reference(RegistrationKind.CRD, "widgets.example.com")]
    async with following(Replica(store)) as (other,):
        await apply(other, crd())
        await behind.registrations.load()
        await other.registrations.withdraw(widgets, "", ANYBODY)
        with pytest.raises(NotServed):
            await behind.registrations.withdraw(widgets, "", ANYBODY)
        await behind.registrations.load()
        assert await behind.registrations.withdraw(widgets, "", ANYBODY) == []


async def test_a_conflicting_write_of_another_replica_is_merged() -> None:
    store = ObservedStore()
    async with following(Replica(store), Replica(store)) as (one, other):
        await apply(one, labelled("first"))

        async def intrude(_key: str) -> None:
            store.before_put = None
            await other.registrations.withdraw(
                [Reference(RegistrationKind.CRD, "widgets.example.com")], "", ANYBODY
            )
            await apply(other, crd(scope="Namespaced"))

        store.before_put = intrude
        (written,) = await apply(one, labelled("second"))
        (held,) = await stored(one)
        assert written.outcome is ApplyOutcome.CONFIGURED
        assert held == written.registered
        assert as_object(content(written)["metadata"])["labels"] == {"a": "second"}
        assert conditions(held)["Established"] == "True InitialNamesAccepted"


@pytest.mark.parametrize("seed", range(10))
async def test_of_concurrent_applies_of_the_same_names_one_is_established(seed: int) -> None:
    pauses = random.Random(seed)  # noqa: S311 - no secret
    store = ObservedStore()

    async def pause(_key: str) -> None:
        for _ in range(pauses.randrange(8)):
            await asyncio.sleep(0)

    store.before_put = pause
    wishes = [named(plural, kind="Same", shortNames=["s"]) for plural in ("as", "bs", "cs")]
    pauses.shuffle(wishes)
    async with following(Replica(store)) as (replica,):
        answers = await asyncio.gather(*(apply(replica, wish) for wish in wishes))
        (winner,) = await established(replica)
        told = [w for (w,) in answers if conditions(w)["Established"].startswith("True")]
        assert [one.registered.name for one in told] == [winner]
        reference = Reference(RegistrationKind.CRD, winner)
        await asyncio.gather(
            replica.registrations.withdraw([reference], "", ANYBODY),
            apply(replica, named("ds", kind="Same")),
        )
        (winner,) = await established(replica)
        assert conditions_served(replica) == [winner]


def conditions_served(replica: Replica) -> list[str]:
    """Return the definitions that are Established in discovery."""
    statuses = replica.declarations.statuses("example.com")
    return [name for name, status in statuses.items() if status.is_true(crd_names.ESTABLISHED)]


async def test_in_one_request_the_first_by_name_gets_the_names(replica: Replica) -> None:
    late, early = await apply(replica, named("bs", kind="Same"), named("as", kind="Same"))
    assert conditions(early)["NamesAccepted"] == "True NoConflicts"
    assert conditions(late)["Established"] == "False NotAccepted"
    assert await established(replica) == conditions_served(replica) == ["as.example.com"]


async def test_all_of_one_request_are_created_at_one_time() -> None:
    seconds = itertools.count(1_700_000_000)
    async with following(Replica(clock=lambda: next(seconds))) as (replica,):
        late, early = await apply(replica, named("bs", kind="Same"), named("as", kind="Same"))
        assert conditions(early)["NamesAccepted"] == "True NoConflicts"
        assert conditions(late)["NamesAccepted"] == "False ListKindConflict"


async def test_the_status_of_a_crd_that_gets_freed_names_is_written() -> None:
    store = ObservedStore()
    async with following(Replica(store)) as (replica,):
        await apply(replica, named("as", shortNames=["s"]))
        (waiting,) = await apply(replica, named("bs", shortNames=["s"]))
        assert conditions(waiting)["NamesAccepted"] == "False ShortNamesConflict"
        store.asked.clear()
        await apply(replica, named("as", shortNames=["t"]))
        assert store.asked == ["get", "put", "get", "put"]
        assert await established(replica) == ["as.example.com", "bs.example.com"]


async def test_names_that_move_within_a_request_are_never_accepted_twice() -> None:
    store = ObservedStore()
    async with following(Replica(store)) as (replica,):
        await apply(replica, named("as", shortNames=["s"]))

        async def fail(key: str) -> None:
            if key.endswith("as.example.com"):
                raise StoreUnavailable("for a moment")

        store.before_put = fail
        freed, taking = named("as", shortNames=["t"]), named("bs", shortNames=["s"])
        with pytest.raises(StoreUnavailable):
            await apply(replica, taking, freed)
        assert await established(replica) == ["as.example.com"]
        store.before_put = None
        _, (written,) = await apply(replica, labelled("a")), await apply(replica, taking)
        assert conditions(written)["Established"] == "False NotAccepted"
        await apply(replica, taking, freed)
        assert len(await established(replica)) == 3


async def test_names_that_another_replica_accepts_meanwhile_are_not_accepted_twice() -> None:
    store = ObservedStore()
    async with following(Replica(store), Replica(store)) as (one, other):

        async def intrude(key: str) -> None:
            if key.endswith("as.example.com"):
                store.before_put = None
                await apply(other, named("cs", kind="Same"))

        store.before_put = intrude
        await apply(one, named("as"), named("bs", kind="Same"))
        assert await established(one) == ["as.example.com", "cs.example.com"]


async def test_an_incomplete_status_is_completed(replica: Replica) -> None:
    await apply(replica, crd())
    entry = await replica.store.get(WIDGETS)
    assert entry is not None
    record = record_of(entry)
    body = as_object(record.content)
    status = {k: v for k, v in as_object(body["status"]).items() if k != "conditions"}
    value = encode(replace(record, content={**body, "status": status}))
    await replica.store.put(WIDGETS, value)
    await apply(replica, named("as"))
    assert await established(replica) == ["as.example.com", "widgets.example.com"]


async def test_after_a_cancelled_apply_statuses_are_decided_once_the_watch_has_caught_up() -> None:
    store = ObservedStore()
    entered, released = asyncio.Event(), asyncio.Event()

    async def hang(_key: str) -> None:
        entered.set()
        await released.wait()

    async with following(Replica(store)) as (replica,):
        store.before_put = hang
        given_up = asyncio.create_task(apply(replica, named("as", kind="Same")))
        await entered.wait()
        given_up.cancel()
        await asyncio.wait([given_up])
        store.before_put = None
        store.asked.clear()
        await apply(replica, named("bs", kind="Same"))
        assert store.asked == ["get", "put", "get", "put", "get"]
        store.asked.clear()
        await apply(replica, named("bs", kind="Same", shortNames=["b"]))
        assert store.asked == ["get", "put"]


async def test_concurrent_applies_of_several_groups_do_not_deadlock() -> None:
    def of(group: str) -> Object:
        return with_metadata(crd(group=group), name=f"widgets.{group}")

    groups = [f"g{number}.example" for number in range(5)]
    async with following(Replica()) as (replica,), asyncio.timeout(WITHIN_S):
        await asyncio.gather(
            *(apply(replica, *map(of, random.sample(groups, 5))) for _ in range(20))
        )
        assert len(await stored(replica)) == 5


@pytest.mark.parametrize("package", ["argo-cd", "cert-manager", "gateway-api"])
async def test_a_prepared_change_equals_the_stored_one_once_read(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = GOLDEN / f"crds/manifests/{package}.yaml.gz"
    text = gzip.decompress(await asyncio.to_thread(file.read_bytes))
    replica, reading = Replica(), Replica()
    async with following(replica):
        with monkeypatch.context() as patch:
            patch.setattr("apidiscovery_service.sources.registrations.table._row", _never)
            for applied in (
                text,
                text.replace(b"\n  name: ", b"\n  finalizers: [example.com/a]\n  name: "),
            ):
                await replica.registrations.apply(Application((Manifest(applied),)), ANYBODY)
        entries = (await replica.store.list("")).entries
        reading.registrations = type(reading.registrations)(replica.store, reading.declarations)
        await reading.registrations.load()
        table, read = _table(replica), _table(reading)
        assert entries
        assert dict(table.rows) == dict(read.rows)


def _never(*_: object) -> str:
    return "was read"


def _table(replica: Replica) -> Table:
    return cast("Table", vars(replica.registrations)["_table"])
