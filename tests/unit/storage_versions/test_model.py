"""Histories of servers that come, report, crash and go, with races and failures, against a model.

Each step is something that one replica does; while it does it, another replica may do something
else before any of its operations on the store, or an operation may fail: before it has happened, or
after.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise
from typing import Literal, TypeAlias, assert_never

import pytest
from apidiscovery_service.storage_versions.leases import identity
from apidiscovery_service.storage_versions.members import NotMember
from apidiscovery_service.storage_versions.model import Status, status_of
from apidiscovery_service.store import Entry, Guards, Lease, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage_version_replicas import NOON, Replica, lease_key, object_key, writes, written
from store_wrapper import DisturbedStore

HOSTS = ("a", "b", "c")
RESOURCES = ("jobs", "cronjobs")
# Replicas' clocks differ, and are put back now and then.
CLOCK_S = (0, 0, -3600, 1, 7200, 30)


@dataclass(frozen=True)
class Join:
    host: str


@dataclass(frozen=True)
class Leave:
    """By farewell, or because the lease is removed."""

    host: str
    farewell: bool


@dataclass(frozen=True)
class Report:
    host: str
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Collect:
    pass


@dataclass(frozen=True)
class Series:
    """One after the other."""

    actions: "tuple[Action, ...]"


Action: TypeAlias = Join | Leave | Report | Collect | Series


@dataclass(frozen=True)
class Disturbed:
    """What happens at an operation on the store, counted from 0."""

    at: int
    by: Action | Literal["failure", "lost answer"]


hosts = st.sampled_from(HOSTS)
reports = st.builds(
    Report,
    hosts,
    st.dictionaries(
        st.sampled_from(RESOURCES), st.sampled_from(["v1", "v2", "v3"]), min_size=1
    ).map(lambda versions: tuple(sorted(versions.items()))),
)
actions: st.SearchStrategy[Action] = st.one_of(
    reports,
    st.builds(Join, hosts),
    reports,
    st.builds(Leave, hosts, st.booleans()),
    st.just(Collect()),
)
series = st.builds(Series, st.lists(actions, min_size=2, max_size=4).map(tuple))
disturbances = st.builds(
    Disturbed, st.integers(0, 9), actions | series | st.sampled_from(["failure", "lost answer"])
)
steps = st.tuples(actions, st.lists(disturbances, max_size=3))


class RecordingStore(MemoryStore):
    """Remembers every state in which an object has been.

    Attributes:
        states: Of each life of each object.
    """

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[tuple[str, int], list[Status]] = defaultdict(list)

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        entry = await super().put(key, value, expected=expected, guard=guard, lease=lease)
        if key.startswith("storageversions/"):
            self.states[key, entry.created].append(status_of(json.loads(value)))
        return entry


@dataclass
class Acknowledged:
    """What a server was told to be there.

    Attributes:
        membership: Of its lease, when it was told.
        names: Of the objects.
    """

    membership: int
    names: set[str] = field(default_factory=set[str])


class World:
    """Two replicas, their store, and what must be in it."""

    def __init__(self) -> None:
        self.store = RecordingStore()
        self.disturbed = DisturbedStore(self.store)
        self.one = Replica(self.disturbed, now=clock(CLOCK_S))
        self.other = Replica(self.store, now=clock(CLOCK_S[2:]))
        self.acknowledged: dict[str, Acknowledged] = {}
        # What an entry can say: what was acknowledged, and what was tried since.
        self.possible: dict[tuple[str, str], set[str]] = defaultdict(set)

    async def do(self, replica: Replica, action: Action) -> None:
        """Do something; what may fail in this world may fail."""
        match action:
            case Join(host):
                await replica.beat(host)
            case Leave(host, farewell):
                if farewell:
                    await replica.members.depart(identity(host))
                else:
                    await replica.store.delete(lease_key(identity(host)))
            case Report():
                await self._report(replica, action)
            case Collect():
                await self._collect(replica)
            case Series(actions):
                for each in actions:
                    await self.do(replica, each)
            case _:
                assert_never(action)

    async def _report(self, replica: Replica, report: Report) -> None:
        server = identity(report.host)
        for resource, version in report.versions:
            self.possible[server, f"apps.{resource}"].add(f"apps/{version}")
        try:
            results = await replica.reports.report(server, [writes(*v) for v in report.versions])
        except NotMember:
            return
        lease = await self.store.get(lease_key(server))
        assert lease is not None, "acknowledged to one that is no member"
        known = self.acknowledged.get(server)
        if known is None or known.membership != lease.created:
            known = self.acknowledged[server] = Acknowledged(lease.created)
        known.names |= {result.name for result in results}
        for resource, version in report.versions:
            self.possible[server, f"apps.{resource}"] = {f"apps/{version}"}

    async def _collect(self, replica: Replica) -> None:
        guard = await self.other.take_claim()
        await replica.garbage.clear({f"apps.{resource}" for resource in RESOURCES}, guard)

    async def step(self, action: Action, disturbances: list[Disturbed]) -> int:
        """Let one replica act while it is disturbed; return the number of its operations."""
        count = -1
        told = [d for d in disturbances if not is_of_same_report(action, d.by)]

        async def before(operation: str, key: str) -> None:
            nonlocal count
            count += 1
            for each in [d for d in told if d.at == count]:
                if each.by == "failure":
                    raise StoreUnavailable(f"{operation} {key}")
                if each.by != "lost answer":
                    await self.do(self.other, each.by)

        async def after(operation: str, key: str) -> None:
            if any(d.at == count and d.by == "lost answer" for d in told):
                raise StoreUnavailable(f"{operation} {key} has happened")

        self.disturbed.before, self.disturbed.after = before, after
        try:
            await self.do(self.one, action)
        except StoreUnavailable:
            assert any(isinstance(each.by, str) for each in told)
        finally:
            self.disturbed.before = self.disturbed.after = None
        await self.check()
        return count + 1

    async def check(self) -> None:
        """Check the content of the store."""
        statuses = {f"apps.{r}": await self.other.status(f"apps.{r}") for r in RESOURCES}
        for name, status in statuses.items():
            if status is not None:
                self._check_status(name, status)
        for server, known in self.acknowledged.items():
            lease = await self.store.get(lease_key(server))
            if lease is None or lease.created != known.membership:
                continue
            for name in known.names:
                found = statuses[name]
                assert found is not None, f"{name} is missing"
                assert server in written(found), f"{name} has lost {server}"

    def _check_status(self, name: str, status: Status) -> None:
        said = written(status)
        assert len(said) == len(status.entries) > 0
        for server, version in said.items():
            assert version in self.possible[server, name]
        versions = set(said.values())
        assert status.common_encoding_version == (versions.pop() if len(versions) == 1 else None)
        assert status.condition is not None
        assert (status.condition.status == "True") == (status.common_encoding_version is not None)

    async def check_at_rest(self) -> None:
        """Check that nothing but the entries of members is left when all has been collected."""
        await self.do(self.one, Collect())
        await self.check()
        for resource in RESOURCES:
            for server in await self.other.written(f"apps.{resource}") or {}:
                assert await self.store.get(lease_key(server)) is not None
        for (key, _), states in self.store.states.items():
            check_transitions(key, states)


def check_transitions(key: str, states: list[Status]) -> None:
    for old, new in pairwise(states):
        assert old != new, f"{key} was written in vain"
        assert old.condition is not None
        assert new.condition is not None
        then, now = old.condition.last_transition_time, new.condition.last_transition_time
        assert then is not None
        assert now is not None
        if says(old) == says(new):
            assert now == then
        else:
            assert now > then


def says(status: Status) -> tuple[str | None, str]:
    assert status.condition is not None
    return status.common_encoding_version, status.condition.status


def is_of_same_report(action: Action, other: Action | str) -> bool:
    """Tell whether one server says two things at once: whichever comes last would do."""
    if isinstance(other, Series):
        return any(is_of_same_report(action, each) for each in other.actions)
    return isinstance(action, Report) and isinstance(other, Report) and action.host == other.host


def clock(offsets: tuple[int, ...]) -> Callable[[], datetime]:
    left = cycle(offsets)
    return lambda: NOON.astimezone(UTC) + timedelta(seconds=next(left))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=3, max_size=14))
def test_nothing_acknowledged_is_lost_and_all_is_as_its_entries_say(
    history: list[tuple[Action, list[Disturbed]]],
) -> None:
    async def run() -> None:
        world = World()
        for host in HOSTS[:2]:
            await world.do(world.other, Join(host))
        for action, disturbances in history:
            await world.step(action, disturbances)
        await world.check_at_rest()

    asyncio.run(run())


A1, A2, B1, B2 = (Report(host, (("jobs", v),)) for host in "ab" for v in ("v1", "v2"))
JOIN_A, JOIN_B, GO_A, GO_B = (
    Join("a"),
    Join("b"),
    Leave("a", farewell=False),
    Leave("b", farewell=True),
)

SITUATIONS: dict[str, tuple[Action, ...]] = {
    "nothing reported": (JOIN_A, JOIN_B),
    "one gone": (JOIN_A, A1, GO_A, JOIN_B),
    "one gone, one left": (JOIN_A, A1, GO_A, JOIN_B, B2),
    "one came back": (JOIN_A, A1, GO_A, JOIN_A, JOIN_B),
    "both there": (JOIN_A, A1, JOIN_B, B2),
    "all gone": (JOIN_A, A1, JOIN_B, B1, GO_A, GO_B),
}
DONE: tuple[Action, ...] = (Collect(), A1, B1, B2, JOIN_A, Leave("a", farewell=True))
BETWEEN: tuple[Action, ...] = (
    Collect(),
    B1,
    B2,
    GO_A,
    Series((JOIN_A, A1)),
    Series((JOIN_A, A2)),
    Series((JOIN_B, B1)),
    Series((GO_A, JOIN_A)),
    Series((GO_A, Collect(), JOIN_A)),
    Series((GO_A, Collect(), JOIN_A, A1)),
    Series((GO_B, Collect(), JOIN_B, B1)),
)


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_nothing_is_lost_by_any_action_between_two_operations_on_the_store(
    situation: str,
) -> None:
    for done in DONE:
        for between in BETWEEN:
            at, operations = -1, 0
            while (at := at + 1) <= operations:
                world = World()
                for action in SITUATIONS[situation]:
                    await world.do(world.other, action)
                try:
                    operations = await world.step(done, [Disturbed(at, between)])
                    await world.check_at_rest()
                except AssertionError as error:
                    raise AssertionError(f"{done}, and before operation {at}: {between}") from error


def test_the_model_would_notice_a_lost_entry() -> None:
    """The entry of a member is removed from the store."""

    async def run() -> None:
        world = World()
        await world.do(world.other, Join("a"))
        await world.step(Report("a", (("jobs", "v1"),)), [])
        await world.store.delete(object_key("apps.jobs"))
        await world.check()

    with pytest.raises(AssertionError, match=r"apps\.jobs is missing"):
        asyncio.run(run())
