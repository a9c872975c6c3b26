"""The merge of contributions: in any order, and by the rules of kube-apiserver."""

import hashlib
from functools import cmp_to_key
from itertools import permutations

import pytest
from apidiscovery_formats.negotiation import JSON, PROTOBUF, Representation
from apidiscovery_service.core.chunks import PublishedGroup
from apidiscovery_service.core.model import (
    CORE_GROUP,
    LAST_RANK,
    Contribution,
    Freshness,
    Group,
    Offer,
    Precedence,
    Version,
)
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.encoding import aggregated, plain
from apidiscovery_service.errors import InvalidContribution
from decoded import go_text, groups_of_value, json_object
from groups import SOURCES, contribution, contributions, offer, resource, without_hashes
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kube_versions import contract_less

V2_JSON = Representation(JSON, "v2")
V2_PROTOBUF = Representation(PROTOBUF, "v2")


def published(*contributions_: Contribution) -> Snapshot:
    return Registry().publish(*contributions_)


def names(snapshot: Snapshot) -> list[str]:
    return [group.name for group in snapshot.named.groups]


def listed(snapshot: Snapshot) -> list[str]:
    return [group.name for group in snapshot.named.listed]


def versions(snapshot: Snapshot, group: str) -> list[str]:
    return [version.version for version in snapshot.named.by_name[group].group.versions]


def seen(snapshot: Snapshot) -> tuple[object, ...]:
    """Return all that a client can see of a snapshot."""
    documents = (snapshot.core, snapshot.named)
    return (
        [aggregated.encode(d, r) for d in documents for r in (V2_JSON, V2_PROTOBUF)],
        plain.encode(plain.group_list(snapshot.named), Representation(JSON)),
        [d.etag for d in documents],
        [(group.name, group.hash) for d in documents for group in d.groups],
        listed(snapshot),
    )


# --------------------------------------------------------------------------------------------------
# The rules of kube-apiserver, applied from scratch.


class Oracle:
    """kube-apiserver's rules over the latest contributions, without state between calls."""

    def __init__(self, latest: dict[str, Contribution]) -> None:
        self.winners: dict[str, list[Offer]] = {}
        offered = [(c.precedence, c.source, o) for c in latest.values() for o in c.offers]
        for group_version in {(o.group, o.version.version) for _, _, o in offered}:
            candidates = [
                (precedence, source, o)
                for precedence, source, o in offered
                if (o.group, o.version.version) == group_version
            ]
            best = min(candidates, key=lambda candidate: candidate[:2])[2]
            self.winners.setdefault(best.group, []).append(best)

    def group(self, name: str) -> Group:
        def before(a: Offer, b: Offer) -> int:
            for left, right in (
                (-a.version_priority, -b.version_priority),
                (a.version_rank, b.version_rank),
            ):
                if left != right:
                    return -1 if left < right else 1
            left_name, right_name = a.version.version, b.version.version
            if contract_less(left_name, right_name) or contract_less(right_name, left_name):
                return -1 if contract_less(left_name, right_name) else 1
            return -1 if left_name < right_name else 1

        return Group(
            name, tuple(o.version for o in sorted(self.winners[name], key=cmp_to_key(before)))
        )

    def place(self, name: str) -> tuple[int, int, str]:
        highest = max(o.group_priority for o in self.winners[name])
        ranks = [o.group_rank for o in self.winners[name] if o.group_priority == highest]
        return (-highest, min(ranks), name)

    def document(self, *, core: bool) -> list[Group]:
        chosen = [name for name in self.winners if (name == CORE_GROUP) == core]
        return [self.group(name) for name in sorted(chosen, key=self.place)]

    def listed(self) -> list[str]:
        """Return the groups as the aggregator comes upon them among its APIService objects."""
        services = sorted(
            (-o.group_priority, o.group_rank, f"{o.version.version}.{name}", name)
            for name, offers in self.winners.items()
            for o in offers
            if name != CORE_GROUP
        )
        first = [name for *_, name in services if name == "apiregistration.k8s.io"]
        return list(dict.fromkeys([*first, *(name for *_, name in services)]))

    def check(self, snapshot: Snapshot) -> None:
        for core, document in ((True, snapshot.core), (False, snapshot.named)):
            groups = self.document(core=core)
            assert [p.group for p in document.groups] == groups
            body = json_object(aggregated.encode(document, V2_JSON))
            assert groups_of_value(body) == list(map(without_hashes, groups))
            hashed = go_text({"metadata": {}, "items": body["items"]})
            assert document.etag == hashlib.sha512(hashed).hexdigest().upper()
        assert listed(snapshot) == self.listed()


def latest(history: list[Contribution]) -> dict[str, Contribution]:
    return {c.source: c for c in history}


# --------------------------------------------------------------------------------------------------
# Order independence.


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Contribution], list[list[Contribution]]]:
    """Return the contribution of each source, and batches that end with those in some order.

    Each may be preceded by others of its source, which it supersedes.
    """
    final = [
        draw(contributions(st.just(source))) for source in draw(st.sets(st.sampled_from(SOURCES)))
    ]
    queues = [[*draw(st.lists(contributions(st.just(c.source)), max_size=2)), c] for c in final]
    order: list[Contribution] = []
    while any(queues):
        order.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    batches: list[list[Contribution]] = []
    for made in order:
        if not batches or draw(st.booleans()):
            batches.append([])
        batches[-1].append(made)
    return final, batches


@given(histories())
def test_the_result_depends_only_on_the_last_contribution_of_each_source(
    history: tuple[list[Contribution], list[list[Contribution]]],
) -> None:
    final, batches = history
    registry = Registry()
    for batch in batches:
        registry.publish(*batch)
    assert seen(registry.snapshot) == seen(published(*final))


@given(st.lists(contributions(), max_size=4), contributions(st.just("late")))
def test_a_contribution_that_is_withdrawn_leaves_no_trace(
    history: list[Contribution], late: Contribution
) -> None:
    registry = Registry()
    for made in history:
        registry.publish(made)
    before, sources = registry.snapshot, registry.sources
    registry.publish(late)
    after = registry.withdraw(late.source)
    assert seen(after) == seen(before)
    assert [p.group for p in after.named.groups] == [p.group for p in before.named.groups]
    assert registry.sources == sources
    assert registry.publish(*latest(history).values()) is after


class RegistryMachine(RuleBasedStateMachine):
    """Publishes and withdraws, and compares with the oracle after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.latest: dict[str, Contribution] = {}
        self.heard: list[Snapshot] = []
        self.former = self.registry.snapshot
        self.registry.subscribe(self.heard.append)

    @rule(batch=st.lists(contributions(), max_size=3))
    def publish(self, batch: list[Contribution]) -> None:
        self.latest |= {c.source: c for c in batch}
        assert self.registry.publish(*batch) is self.registry.snapshot

    @rule(sources=st.lists(st.sampled_from([*SOURCES, "unknown"]), max_size=2))
    def withdraw(self, sources: list[str]) -> None:
        for source in sources:
            self.latest.pop(source, None)
        assert self.registry.withdraw(*sources) is self.registry.snapshot

    @rule(twice=contributions(), among=st.lists(contributions(), max_size=2))
    def refuse(self, twice: Contribution, among: list[Contribution]) -> None:
        bad = Contribution(
            twice.source, twice.precedence, (*twice.offers, offer("x.y/v1"), offer("x.y/v1"))
        )
        with pytest.raises(InvalidContribution):
            self.registry.publish(*among, bad)

    @invariant()
    def is_what_the_contract_says(self) -> None:
        Oracle(self.latest).check(self.registry.snapshot)
        assert self.registry.sources == tuple(sorted(self.latest))

    @invariant()
    def listeners_hear_of_changes_alone(self) -> None:
        changed = self.registry.snapshot is not self.former
        assert self.heard == ([self.registry.snapshot] if changed else [])
        self.former = self.registry.snapshot
        self.heard.clear()


RegistryMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=12)
TestRegistryMachine = RegistryMachine.TestCase

# --------------------------------------------------------------------------------------------------
# Who wins.

WINS = [
    pytest.param(Precedence.AGGREGATOR, Precedence.BUILTIN, id="aggregator-over-builtin"),
    pytest.param(Precedence.BUILTIN, Precedence.CATALOG, id="builtin-over-catalogue"),
    pytest.param(Precedence.CATALOG, Precedence.CRD, id="catalogue-over-crd"),
]


@pytest.mark.parametrize(("stronger", "weaker"), WINS)
def test_the_lower_number_wins_a_group_version_whole_until_it_is_withdrawn(
    stronger: Precedence, weaker: Precedence
) -> None:
    shadowed = offer("a.example/v1", resources=(resource("weak"),), priority=2000)
    winner = offer("a.example/v1", resources=(resource("strong"),))
    registry = Registry()
    registry.publish(contribution("a-weak", shadowed, "a.example/v2", precedence=weaker))
    alone = registry.snapshot
    registry.publish(contribution("z-strong", winner, precedence=stronger))
    group = registry.snapshot.named.by_name["a.example"]
    assert group.group.versions == (Version("v2"), winner.version)
    assert group.key == (-1000, LAST_RANK, "a.example")
    assert seen(registry.withdraw("z-strong")) == seen(alone)


def test_sources_of_equal_precedence_win_by_name() -> None:
    a = contribution("a", offer("g.example/v1", resources=(resource("of-a"),)))
    b = contribution("b", offer("g.example/v1", resources=(resource("of-b"),)))
    group = published(b, a).named.by_name["g.example"].group
    assert group.versions[0].resources == (resource("of-a"),)


def test_a_source_that_becomes_stronger_takes_over_with_the_same_offers() -> None:
    offers = (offer("g.example/v1", resources=(resource("of-z"),)),)
    registry = Registry()
    registry.publish(contribution("a", "g.example/v1"), contribution("z", *offers))
    registry.publish(contribution("z", *offers, precedence=Precedence.BUILTIN))
    assert registry.snapshot.named.groups[0].group.versions == (offers[0].version,)


def test_a_stale_version_keeps_its_resources_and_is_a_change() -> None:
    registry = Registry()
    current = registry.publish(contribution("a", offer("g.example/v1", resources=(resource(),))))
    stale = offer("g.example/v1", resources=(resource(),), freshness=Freshness.STALE)
    after = registry.publish(contribution("a", stale))
    assert after.named.groups[0].group.versions == (Version("v1", (resource(),), "Stale"),)
    assert after.named.etag != current.named.etag


# --------------------------------------------------------------------------------------------------
# Places.


@pytest.mark.parametrize(
    ("offers", "in_document", "in_list"),
    [
        pytest.param(
            [offer("a.example/v1", priority=1), offer("b.example/v1", priority=2)],
            ["b.example", "a.example"],
            ["b.example", "a.example"],
            id="by-priority",
        ),
        pytest.param(
            [offer("b.example/v1"), offer("a.example/v1")],
            ["a.example", "b.example"],
            ["a.example", "b.example"],
            id="ties-by-name",
        ),
        pytest.param(
            [offer("b.example/v1"), offer("a.example/v1beta1")],
            ["a.example", "b.example"],
            ["b.example", "a.example"],
            id="ties-in-the-list-by-name-of-the-APIService",
        ),
        pytest.param(
            [offer("b.example/v1", rank=1), offer("a.example/v1", rank=2)],
            ["b.example", "a.example"],
            ["b.example", "a.example"],
            id="ranks-before-names",
        ),
        pytest.param(
            [
                offer("a.example/v1", priority=5),
                offer("b.example/v1", priority=1),
                offer("b.example/v2", priority=9),
            ],
            ["b.example", "a.example"],
            ["b.example", "a.example"],
            id="greatest-priority-of-a-group-counts",
        ),
        pytest.param(
            [
                offer("a.example/v1", rank=0, priority=1),
                offer("a.example/v2", rank=9),
                offer("b.example/v1", rank=5),
            ],
            ["b.example", "a.example"],
            ["b.example", "a.example"],
            id="rank-of-the-greatest-priority-counts",
        ),
        pytest.param(
            [offer("a.example/v1", priority=20000), offer("apiregistration.k8s.io/v1", priority=1)],
            ["a.example", "apiregistration.k8s.io"],
            ["apiregistration.k8s.io", "a.example"],
            id="list-begins-with-apiregistration",
        ),
        pytest.param(
            [offer("a-b.example/v1"), offer("a.b.example/v1"), offer("a/v1")],
            ["a", "a-b.example", "a.b.example"],
            ["a", "a-b.example", "a.b.example"],
            id="names-by-bytes",
        ),
    ],
)
def test_groups_stand_in_this_order(
    offers: list[Offer], in_document: list[str], in_list: list[str]
) -> None:
    for order in permutations(offers):
        snapshot = published(contribution("a", *order))
        assert (names(snapshot), listed(snapshot)) == (in_document, in_list)


@pytest.mark.parametrize(
    ("offers", "wanted"),
    [
        pytest.param(
            [offer("g/v1", version_priority=15), offer("g/v2", version_priority=30)],
            ["v2", "v1"],
            id="by-priority",
        ),
        pytest.param(
            [offer("g/v1", version_priority=30), offer("g/v2", version_priority=15)],
            ["v1", "v2"],
            id="priority-before-name",
        ),
        pytest.param(
            [offer("g/v1beta1"), offer("g/v10"), offer("g/v2"), offer("g/foo")],
            ["v10", "v2", "v1beta1", "foo"],
            id="ties-kube-aware",
        ),
        pytest.param(
            [offer("g/v1", version_rank=1), offer("g/v2", version_rank=2)],
            ["v1", "v2"],
            id="ranks-before-names",
        ),
    ],
)
def test_versions_stand_in_this_order(offers: list[Offer], wanted: list[str]) -> None:
    for order in permutations(offers):
        assert versions(published(contribution("a", *order)), "g") == wanted


def test_the_core_group_has_a_document_of_its_own() -> None:
    snapshot = published(contribution("a", "v1", "g.example/v1"))
    assert [group.name for group in snapshot.core.groups] == [CORE_GROUP]
    assert (names(snapshot), listed(snapshot)) == (["g.example"], ["g.example"])


# --------------------------------------------------------------------------------------------------
# Contributions that change nothing, or little.


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([offer("g/v1"), offer("g/v1")], id="same-offer-twice"),
        pytest.param(
            [offer("g/v1"), offer("h/v1"), offer("g/v1", priority=9)], id="other-priority"
        ),
        pytest.param([offer("v1"), offer("v1")], id="core"),
    ],
)
def test_an_invalid_contribution_leaves_everything_as_it_was(bad: list[Offer]) -> None:
    registry = Registry()
    heard: list[Snapshot] = []
    before = registry.publish(contribution("a", "old.example/v1"))
    registry.subscribe(heard.append)
    name = f"{bad[0].group}/v1".lstrip("/")
    with pytest.raises(InvalidContribution, match=f"'a' offers {name} twice"):
        registry.publish(contribution("good", "good.example/v1"), contribution("a", *bad))
    assert (registry.snapshot, registry.sources, heard) == (before, ("a",), [])
    assert registry.publish(contribution("a", "old.example/v1")) is before


@pytest.mark.parametrize(
    "again",
    [
        pytest.param([contribution("a", "g/v1", "h/v1")], id="same"),
        pytest.param([contribution("a", "h/v1", "g/v1")], id="other-order"),
        pytest.param([contribution("z", "g/v1")], id="shadowed"),
        pytest.param(
            [contribution("a"), contribution("a", "g/v1", "h/v1")], id="superseded-at-once"
        ),
        pytest.param([contribution("empty")], id="empty"),
        pytest.param([], id="nothing"),
        pytest.param(
            [contribution("a", "g/v1", "h/v1", precedence=Precedence.AGGREGATOR)], id="precedence"
        ),
    ],
)
def test_an_update_without_a_change_keeps_the_snapshot_and_calls_no_listener(
    again: list[Contribution],
) -> None:
    registry = Registry()
    before = registry.publish(contribution("a", "g/v1", "h/v1"))
    heard: list[Snapshot] = []
    registry.subscribe(heard.append)
    assert registry.publish(*again) is before
    assert registry.withdraw("unknown") is before
    assert heard == []


def test_a_change_of_one_group_keeps_all_others_with_their_fragments() -> None:
    registry = Registry()
    many = [offer(f"g{i:03}.example/v1", resources=(resource(),)) for i in range(150)]
    before = registry.publish(contribution("a", *many, "v1"))
    aggregated.encode(before.named, V2_PROTOBUF)
    made = {group.name: group.fragments["protobuf"] for group in before.named.groups}
    changed = offer("g070.example/v1", resources=(resource("other"),))
    after = registry.publish(contribution("a", *many[:70], changed, *many[71:], "v1"))
    others = [
        (old, new)
        for old, new in zip(before.named.groups, after.named.groups, strict=True)
        if old is not new
    ]
    assert [old.name for old, _ in others] == ["g070.example"]
    assert others[0][1].fragments == {}
    assert after.core is before.core
    aggregated.encode(after.named, V2_PROTOBUF)
    kept = {g.name for g in after.named.groups if g.fragments["protobuf"] is made[g.name]}
    assert made.keys() - kept == {"g070.example"}


def test_a_group_that_only_moves_has_another_hash_and_the_same_content() -> None:
    registry = Registry()
    before = registry.publish(contribution("a", "g/v1", "h/v1")).named.by_name["h"]
    after = registry.publish(contribution("a", "g/v1", offer("h/v1", priority=2000)))
    assert names(after) == ["h", "g"]
    moved: PublishedGroup = after.named.by_name["h"]
    assert (moved.group, moved.json) == (before.group, before.json)
    assert moved.hash != before.hash


def test_listeners_hear_of_a_group_with_its_causes_also_if_only_its_source_changes() -> None:
    registry = Registry()
    heard: list[tuple[frozenset[str], frozenset[str]]] = []
    registry.on_touched(lambda groups, causes: heard.append((groups, causes)))
    registry.publish(contribution("a", "g/v1"))
    registry.update([contribution("b", "g/v1")], (), cause="apply by ada")
    before = registry.snapshot
    assert registry.withdraw("a") is before
    registry.withdraw("nobody")
    assert registry.winners("g") == {"v1": "b"}
    registry.withdraw("b")
    group = frozenset(["g"])
    assert heard == [(group, frozenset([each])) for each in ("a", "apply by ada", "b", "b")]


def test_a_contribution_that_cannot_be_encoded_changes_nothing() -> None:
    registry = Registry()
    registry.publish(contribution("a", "g/v1"))
    before = registry.snapshot
    broken = offer("g/v1", resources=(resource("\ud800"),))
    with pytest.raises(TypeError, match="surrogates"):
        registry.publish(Contribution("a", Precedence.BUILTIN, (broken,)))
    assert registry.snapshot is before
    assert registry.publish(contribution("a", "g/v1")) is before
