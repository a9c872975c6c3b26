"""Deltas of GetDiscovery lead from the known groups to exactly the served ones."""

import random
from dataclasses import replace

import pytest
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from apidiscovery_service.core.model import Contribution
from grpc_contributions import (
    APPS,
    CORE,
    EXAMPLES,
    contribution,
    offer,
    one_group,
    replace_all,
    resource,
    transitions,
)
from grpc_holding import Holding
from grpc_server import serving
from hypothesis import given
from hypothesis import strategies as st
from waiting import WITHIN_S

SCOPE_CORE, SCOPE_GROUPS, SCOPE_ALL = (
    discovery_pb2.DISCOVERY_SCOPE_CORE,
    discovery_pb2.DISCOVERY_SCOPE_GROUPS,
    discovery_pb2.DISCOVERY_SCOPE_ALL,
)


async def whole(
    stub: "discovery_pb2_grpc.DiscoveryServiceAsyncStub",
    scope: discovery_pb2.DiscoveryScope.ValueType,
) -> discovery_pb2.GetDiscoveryResponse:
    return await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest(scope=scope), timeout=WITHIN_S)


async def delta_to(
    stub: "discovery_pb2_grpc.DiscoveryServiceAsyncStub",
    known: discovery_pb2.KnownGroups,
    scope: discovery_pb2.DiscoveryScope.ValueType = SCOPE_ALL,
) -> discovery_pb2.GetDiscoveryResponse:
    request = discovery_pb2.GetDiscoveryRequest(scope=scope, known_groups=known)
    response = await stub.GetDiscovery(request, timeout=WITHIN_S)
    assert response.WhichOneof("result") == "delta"
    return response


async def assert_in_step(
    stub: "discovery_pb2_grpc.DiscoveryServiceAsyncStub",
    held: Holding,
    scope: discovery_pb2.DiscoveryScope.ValueType,
) -> None:
    """Check that a client that applies deltas holds the same as one that reads documents."""
    response = await delta_to(stub, held.known, scope)
    held.apply(response.delta)
    document = await whole(stub, scope)
    assert held == Holding.of(document)
    assert held.etag(scope) == response.etag == document.etag
    assert response.group_hashes == document.group_hashes


async def test_only_what_differs_is_sent() -> None:
    async with serving(CORE, APPS, *EXAMPLES) as served, served.stub() as stub:
        known = Holding.of(await whole(stub, SCOPE_ALL)).known
        served.registry.withdraw(EXAMPLES[1].source, EXAMPLES[0].source)
        served.registry.publish(one_group("c.example.com", resource("jobs")))
        delta = (await delta_to(stub, known)).delta
        assert [(c.name, c.position) for c in delta.changed] == [("c.example.com", 1)]
        assert list(delta.removed) == ["a.example.com", "b.example.com"]


@pytest.mark.parametrize(
    ("scope", "changed", "removed"),
    [
        pytest.param(SCOPE_CORE, [], [""], id="core"),
        pytest.param(SCOPE_GROUPS, ["apps"], ["z.example.com"], id="groups"),
        pytest.param(SCOPE_ALL, ["apps"], ["", "z.example.com"], id="all"),
    ],
)
async def test_known_groups_out_of_scope_are_not_removed(
    scope: discovery_pb2.DiscoveryScope.ValueType, changed: list[str], removed: list[str]
) -> None:
    """Selection and knowledge are two things (envoy#16063)."""
    known = discovery_pb2.KnownGroups(hashes={"": "old", "apps": "old", "z.example.com": "old"})
    async with serving(APPS) as served, served.stub() as stub:
        delta = (await delta_to(stub, known, scope)).delta
    assert [group.name for group in delta.changed] == changed
    assert list(delta.removed) == removed


async def test_made_up_names_are_removed_and_made_up_hashes_replaced() -> None:
    hashes = {"": "", "apps": "made up", "zz": "", "aa": "made up", "\N{SNOWMAN}": "x"}
    async with serving(CORE, APPS) as served, served.stub() as stub:
        delta = (await delta_to(stub, discovery_pb2.KnownGroups(hashes=hashes))).delta
    assert [group.name for group in delta.changed] == ["", "apps"]
    assert list(delta.removed) == ["aa", "zz", "\N{SNOWMAN}"]


async def test_a_group_that_only_moves_is_sent_with_its_new_place() -> None:
    async with serving(*EXAMPLES) as served, served.stub() as stub:
        held = Holding.of(await whole(stub, SCOPE_GROUPS))
        served.registry.publish(one_group("d.example.com", priority=2000))
        delta = (await delta_to(stub, held.known, SCOPE_GROUPS)).delta
        assert [(c.name, c.position) for c in delta.changed] == [("d.example.com", 0)]
        await assert_in_step(stub, held, SCOPE_GROUPS)
        assert [item.name[0] for item in held.named] == ["d", "a", "b", "c", "e"]


async def test_a_moved_version_is_a_change_of_its_group() -> None:
    both = contribution(
        "both",
        offer("apps", version="v1"),
        replace(offer("apps", version="v2"), version_priority=1),
    )
    turned = replace(both, offers=tuple(replace(o, version_priority=9) for o in both.offers))
    async with serving(both) as served, served.stub() as stub:
        held = Holding.of(await whole(stub, SCOPE_GROUPS))
        served.registry.publish(turned)
        assert len((await delta_to(stub, held.known, SCOPE_GROUPS)).delta.changed) == 1
        await assert_in_step(stub, held, SCOPE_GROUPS)
        assert [version.version for version in held.named[0].message.versions] == ["v2", "v1"]


async def test_hashes_are_those_of_another_server_fed_in_another_order() -> None:
    contributions = [CORE, APPS, *EXAMPLES]
    shuffled = random.Random(3).sample(contributions, len(contributions))  # noqa: S311 - seeded
    async with serving(*contributions) as one, serving(*shuffled) as other:
        async with one.stub() as stub:
            first = await whole(stub, SCOPE_ALL)
        async with other.stub() as stub:
            second = await delta_to(stub, Holding.of(first).known)
    assert second.delta.ByteSize() == 0
    assert (second.etag, second.group_hashes) == (first.etag, first.group_hashes)


@given(transitions, st.sampled_from([SCOPE_CORE, SCOPE_GROUPS, SCOPE_ALL]))
async def test_a_delta_leads_from_any_state_to_any_other(
    transition: tuple[list[Contribution], list[Contribution]],
    scope: discovery_pb2.DiscoveryScope.ValueType,
) -> None:
    held = Holding()
    async with serving() as served, served.stub() as stub:
        for contributions in transition:
            replace_all(served.registry, contributions)
            await assert_in_step(stub, held, scope)
