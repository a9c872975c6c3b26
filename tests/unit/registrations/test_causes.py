"""Causes of changes, for the history: users who apply, and leases that end."""

from apidiscovery_service.access import Caller
from apidiscovery_service.core.model import Freshness
from apidiscovery_service.sources.registrations.record import (
    OwnerRecord,
    RegistrationKind,
    decode_owner,
    encode_owner,
    owner_key,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    OwnerLease,
    Reference,
    Requester,
)
from registration_setup import ANYBODY, crd, manifest, publication
from registry_server import Replica, expiring, following
from waiting import until

ALICE, BOB = Requester(Caller("alice")), Requester(Caller("bob"))
WIDGETS = Reference(RegistrationKind.CRD, "widgets.example.com")
LONG = OwnerLease(3600.0, 3600.0)


def causes_of(replica: Replica) -> list[str]:
    """Return the causes of changes from now on, to which later ones are added."""
    heard: list[str] = []
    replica.registry.on_touched(lambda _groups, causes: heard.extend(causes))
    return heard


async def test_every_replica_reports_who_applied() -> None:
    one = Replica()
    two = Replica(one.store)
    async with following(one, two):
        heard = [causes_of(one), causes_of(two)]
        for plural, requester in (("widgets", ALICE), ("gadgets", ANYBODY)):
            application = Application((manifest(crd(plural)),))
            await one.registrations.apply(application, requester)
        # An apply without a change has no cause.
        await one.registrations.apply(Application((manifest(crd("widgets")),)), BOB)
        await one.registrations.publish(publication(), ALICE)
        await one.registrations.withdraw([WIDGETS], "", ALICE)
        wanted = ["apply by alice", "apply", "publish by alice", "withdraw"]
        assert heard[0] == wanted
        await until(lambda: len(heard[1]) == len(wanted))
        assert heard[1] == wanted


async def test_a_process_that_starts_knows_no_causes_and_names_sources() -> None:
    one = Replica()
    async with following(one):
        await one.registrations.publish(publication(), ALICE)
    later = Replica(one.store)
    heard = causes_of(later)
    async with following(later):
        assert heard == ["registrations:groups/east"]


async def test_a_lease_that_ends_is_the_cause_of_what_follows(replica: Replica) -> None:
    heard = causes_of(replica)
    await replica.registrations.publish(publication(owner="me", lease=LONG), ALICE)
    await shorten(replica, removal_after_s=60)
    async with expiring(replica):
        stale = {"v1": Freshness.STALE}
        await until(lambda: replica.served().get("east.example.com") == stale)
    await replica.registrations.renew("me", ALICE)
    await shorten(replica, removal_after_s=0.1)
    async with expiring(replica):
        await until(lambda: not replica.served())
    assert heard == [
        "publish by alice",
        "lease ended",
        "lease renewed",
        "lease ended",
        "lease ended",
    ]


async def shorten(replica: Replica, removal_after_s: float) -> None:
    """Give the owner a shorter lease than requests may ask for, so that the test is fast."""
    entry = await replica.store.get(owner_key("me"))
    assert entry is not None
    record = decode_owner(entry.value)
    short = OwnerRecord(record.id, record.user, 0.1, removal_after_s)
    await replica.store.put(owner_key("me"), encode_owner(short))
