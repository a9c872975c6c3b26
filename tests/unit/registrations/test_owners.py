"""Owners: their users, their leases and expiry, and permissions."""

import asyncio

import pytest
import registration_setup
from apidiscovery_service.access import LOCAL, Caller
from apidiscovery_service.core.model import Freshness
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.sources.registrations import owners
from apidiscovery_service.sources.registrations.record import (
    InvalidRecord,
    OwnerRecord,
    RegistrationKind,
    decode_owner,
    encode_owner,
    owner_key,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    ApplyOutcome,
    Denied,
    NoSuchOwner,
    OwnerLease,
    Publication,
    Query,
    Reference,
    Requester,
)
from apidiscovery_service.store import Fenced, Guard, StoreRefused
from apidiscovery_service.store.memory import MemoryStore
from registration_setup import ANYBODY, CURRENT, crd, manifest, with_metadata
from registry_server import Replica, expiring, following
from store_wrapper import DisturbedStore, once
from waiting import WITHIN_S, until

ALICE, BOB = Requester(Caller("alice")), Requester(Caller("bob"))
STALE = {"v1": Freshness.STALE}

# For tests that are not about expiry.
LONG = OwnerLease(3600.0, 3600.0)


def publication(
    name: str = "east", owner: str = "me", lease: OwnerLease | None = None
) -> Publication:
    return registration_setup.publication(name, owner=owner, lease=lease)


async def owner_of(replica: Replica) -> OwnerRecord:
    entry = await replica.store.get(owner_key("me"))
    assert entry is not None
    return decode_owner(entry.value)


async def rewrite(replica: Replica, duration_s: float, removal_after_s: float) -> None:
    """Give the owner a shorter lease than requests may ask for, so that the test is fast."""
    record = await owner_of(replica)
    short = OwnerRecord(record.id, record.user, duration_s, removal_after_s)
    await replica.store.put(owner_key("me"), encode_owner(short))


# Users of owners.


@pytest.mark.process  # a worker reads documents
async def test_an_owner_belongs_to_the_user_who_created_it(replica: Replica) -> None:
    registrations = replica.registrations
    await registrations.publish(publication(lease=LONG), ALICE)
    with pytest.raises(Denied):
        await registrations.publish(publication("west"), BOB)
    with pytest.raises(Denied):
        await registrations.renew("me", BOB)
    with pytest.raises(Denied):
        await registrations.withdraw([], "me", BOB)
    assert await registrations.renew("me", ALICE) == 1200
    await registrations.withdraw([], "me", ALICE)
    await registrations.publish(publication("west"), BOB)


async def test_an_owner_without_a_user_gets_the_first_identified_one(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ANYBODY)
    await replica.registrations.renew("me", ALICE)
    with pytest.raises(Denied):
        await replica.registrations.renew("me", BOB)
    await replica.registrations.renew("me", Requester(LOCAL))
    assert (await owner_of(replica)).user == "alice"


async def test_an_owner_without_a_lease_need_not_renew(replica: Replica) -> None:
    await replica.registrations.publish(publication(), ALICE)
    assert await replica.registrations.renew("me", ALICE) is None


async def test_renewing_an_unknown_owner_is_an_error(replica: Replica) -> None:
    with pytest.raises(NoSuchOwner):
        await replica.registrations.renew("me", ALICE)
    with pytest.raises(InvalidFields):
        await replica.registrations.renew("", ALICE)


@pytest.mark.parametrize(
    ("owner", "lease", "field"),
    [
        pytest.param("Me", None, "owner", id="no name"),
        pytest.param("", LONG, "owner", id="a lease of nobody"),
        pytest.param("me", OwnerLease(0.5, 1), "lease.duration", id="too short"),
        pytest.param("me", OwnerLease(90_000, 1), "lease.duration", id="too long"),
        pytest.param("me", OwnerLease(1, -1), "lease.removal_after", id="negative"),
        pytest.param("me", OwnerLease(1, 3_000_000), "lease.removal_after", id="kept too long"),
    ],
)
async def test_leases_out_of_bounds_are_refused(
    replica: Replica, owner: str, lease: OwnerLease | None, field: str
) -> None:
    with pytest.raises(InvalidFields) as caught:
        await replica.registrations.publish(publication("east", owner, lease), ALICE)
    assert [violation.field for violation in caught.value.violations] == [field]


async def test_publishing_the_same_counts_as_renewal_and_keeps_the_lease(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ALICE)
    before = await owner_of(replica)
    again = await replica.registrations.publish(publication(), ALICE)
    assert again.outcome is ApplyOutcome.UNCHANGED
    after = await owner_of(replica)
    assert (after.duration_s, after.renewals) == (3600, before.renewals + 1)


async def test_the_same_for_another_owner_is_a_change(replica: Replica) -> None:
    await replica.registrations.publish(publication(), ALICE)
    other = await replica.registrations.publish(publication(owner="you"), ALICE)
    assert other.outcome is ApplyOutcome.CONFIGURED


async def test_withdrawing_an_owner_removes_only_its_registrations(replica: Replica) -> None:
    for name, owner in (("east", "me"), ("west", "me"), ("north", "you"), ("south", "")):
        await replica.registrations.publish(publication(name, owner), ALICE)
    removed = await replica.registrations.withdraw([], "me", ALICE)
    assert [one.name for one in removed] == ["east", "west"]
    assert [*replica.served()] == ["north.example.com", "south.example.com"]
    assert await replica.store.get(owner_key("me")) is None
    assert await replica.registrations.withdraw([], "me", ALICE) == []


# Expiry.


async def test_an_owner_that_stops_renewing_is_stale_and_then_removed(replica: Replica) -> None:
    seen: list[dict[str, dict[str, str]]] = []
    replica.registry.subscribe(lambda _: seen.append(replica.served()))
    await replica.registrations.publish(publication("east", lease=LONG), ALICE)
    await replica.registrations.publish(publication("west", ""), ALICE)
    await rewrite(replica, 0.1, 0.5)
    async with expiring(replica):
        await until(lambda: replica.served().get("east.example.com") == STALE)
        (page,) = (await replica.registrations.list(Query(owner="me"))).registered
        assert page.stale_since
        await until(lambda: "east.example.com" not in replica.served())
        await until(lambda: not replica.registrations.warnings())
    assert replica.served() == {"west.example.com": CURRENT}
    assert [one.get("east.example.com") for one in seen] == [CURRENT, CURRENT, STALE, None]
    with pytest.raises(NoSuchOwner):
        await replica.registrations.renew("me", ALICE)
    assert [entry.key for entry in (await replica.store.list("registrations/")).entries] == [
        "registrations/groups/west"
    ]


async def test_a_renewal_makes_a_stale_owner_current_at_once(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ALICE)
    await rewrite(replica, 0.1, 60)
    async with expiring(replica):
        await until(lambda: replica.served()["east.example.com"] == STALE)
    await replica.registrations.renew("me", ALICE)
    assert replica.served() == {"east.example.com": CURRENT}
    (page,) = (await replica.registrations.list(Query())).registered
    assert page.stale_since is None


async def test_an_owner_that_renews_never_becomes_stale(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ALICE)
    await rewrite(replica, 1.0, 60)
    stale: list[bool] = []
    replica.registry.subscribe(
        lambda _: stale.append(replica.served()["east.example.com"] == STALE)
    )
    async with expiring(replica):
        for _ in range(10):
            await asyncio.sleep(0.2)
            await replica.registrations.renew("me", ALICE)
    assert stale == []


async def test_a_process_that_takes_over_gives_every_owner_a_full_period(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ALICE)
    await rewrite(replica, 2.0, 60)
    for _ in range(4):
        async with expiring(replica):
            await asyncio.sleep(0.6)
    assert replica.served() == {"east.example.com": CURRENT}


async def test_a_former_holder_of_the_claim_cannot_mark_owners(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ALICE)
    await rewrite(replica, 0.05, 60)
    entry = await replica.store.put("claims/owners", b"one")
    await replica.store.delete("claims/owners")
    await replica.store.put("claims/owners", b"two")
    with pytest.raises(Fenced):
        async with asyncio.timeout(WITHIN_S):
            await replica.registrations.expire_owners(Guard(entry.key, entry.created))
    assert (await owner_of(replica)).stale_since == ""


async def test_every_replica_serves_a_stale_owner_as_stale() -> None:
    store = MemoryStore()
    async with following(Replica(store), Replica(store)) as (one, other):
        await one.registrations.publish(publication(lease=LONG), ALICE)
        await rewrite(one, 0.05, 60)
        async with expiring(one):
            await until(lambda: other.served().get("east.example.com") == STALE)


async def test_publications_of_a_recreated_owner_are_kept(replica: Replica) -> None:
    for name in ("east", "west"):
        await replica.registrations.publish(publication(name, lease=LONG), ALICE)
    # The owner is created again before its publications are removed.
    await replica.store.delete(owner_key("me"))
    await until(lambda: replica.served().get("west.example.com") == STALE)
    await replica.registrations.publish(publication("east", lease=LONG), ALICE)
    async with expiring(replica):
        await until(lambda: "west.example.com" not in replica.served())
        await asyncio.sleep(0.05)
    assert replica.served() == {"east.example.com": CURRENT}


async def test_a_crd_with_finalizers_outlives_its_owner_terminating(replica: Replica) -> None:
    held_back = with_metadata(crd(), finalizers=["example.com/clean-up"])
    application = Application((manifest(held_back),), "me", LONG)
    await replica.registrations.apply(application, ALICE)
    await rewrite(replica, 0.05, 0.05)
    async with expiring(replica):
        await until(lambda: not replica.served() or _is_terminating(replica))
    (left,) = (await replica.registrations.list(Query())).registered
    assert (left.record.owner, left.stale_since) == ("", None)
    assert replica.served() == {"example.com": CURRENT}


def _is_terminating(replica: Replica) -> bool:
    definition = replica.declarations.crd("widgets.example.com")
    return definition is not None and definition.terminating


async def test_an_owner_that_is_removed_while_it_publishes_can_publish_again(
    replica: Replica,
) -> None:
    async with expiring(replica):
        for _ in range(40):
            await replica.registrations.publish(publication(lease=LONG), ALICE)
            await asyncio.gather(
                replica.store.delete(owner_key("me")),
                replica.registrations.publish(publication("west", lease=LONG), ALICE),
            )
    await replica.registrations.publish(publication("last", lease=LONG), ALICE)
    assert replica.served()["last.example.com"] == CURRENT


async def test_an_unreadable_owner_keeps_its_registrations() -> None:
    replica = Replica()
    async with following(replica):
        await replica.registrations.publish(publication(lease=LONG), ALICE)
        entry = await replica.store.get(owner_key("me"))
        assert entry is not None
        await replica.store.put(owner_key("me"), b'{"format":2}')
        started_later = Replica(replica.store)
        async with following(started_later), expiring(started_later):
            await started_later.registrations.publish(publication("west", ""), ALICE)
            await asyncio.sleep(0.05)
            assert started_later.served()["east.example.com"] == CURRENT
            (page,) = (await started_later.registrations.list(Query(owner="me"))).registered
            assert page.stale_since is None
            with pytest.raises(InvalidRecord, match="registrations/owners/me in the store cannot"):
                await started_later.registrations.renew("me", ALICE)
            # Once it is readable, it expires like any other.
            await replica.store.put(owner_key("me"), entry.value)
            await rewrite(replica, 0.05, 0.05)
            await until(lambda: "east.example.com" not in started_later.served())


async def test_a_stale_owner_that_is_unreadable_keeps_its_registrations(replica: Replica) -> None:
    await replica.registrations.publish(publication(lease=LONG), ALICE)
    await rewrite(replica, 0.05, 1.0)
    async with expiring(replica):
        await until(lambda: replica.served()["east.example.com"] == STALE)
        await replica.store.put(owner_key("me"), b"nonsense")
        await until(lambda: replica.served()["east.example.com"] == CURRENT)
        await asyncio.sleep(1.2)
        assert replica.served()["east.example.com"] == CURRENT


async def test_an_admin_can_remove_an_unreadable_owner(replica: Replica) -> None:
    admin = Requester(Caller("root"), is_admin=True)
    await replica.registrations.publish(publication(), ALICE)
    await replica.store.put(owner_key("me"), b"nonsense")
    with pytest.raises(InvalidRecord):
        await replica.registrations.withdraw([], "me", ALICE)
    removed = await replica.registrations.withdraw([], "me", admin)
    assert [one.name for one in removed] == ["east"]
    assert (replica.served(), replica.registrations.warnings()) == ({}, [])


async def test_a_refusal_of_the_store_does_not_end_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "_RETRY_S", 0.05)
    store = DisturbedStore(MemoryStore())
    refusals: list[str] = []

    async def refuse() -> None:
        """Refuse a write, as etcd does while roles are changed."""
        refusals.append("permission denied")
        raise StoreRefused(refusals[0])

    async with following(Replica(store)) as (replica,):
        await replica.registrations.publish(publication(lease=LONG), ALICE)
        await rewrite(replica, 0.05, 60)
        store.before = once("put", owner_key("me"), refuse)
        async with expiring(replica):
            await until(lambda: replica.served()["east.example.com"] == STALE)
    assert len(refusals) == 1


async def test_a_named_registration_is_withdrawn_whoever_owns_it(replica: Replica) -> None:
    await replica.registrations.publish(publication("east", "me"), ALICE)
    await replica.registrations.publish(publication("west", ""), ALICE)
    west = Reference(RegistrationKind.GROUPS, "west")
    removed = await replica.registrations.withdraw([west], "me", ALICE)
    assert [one.name for one in removed] == ["east", "west"]
    assert replica.served() == {}
