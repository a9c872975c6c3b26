"""Equal groups of upstreams are one object, in poller and follower and across clusters."""

from functools import partial
from weakref import ref

import pytest
from apidiscovery_service.core.model import (
    Freshness,
    Group,
    Resource,
    Scope,
    Version,
    shared,
    shared_version,
)
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS
from apidiscovery_service.store.memory import MemoryStore
from fake_api_server import Answer, FakeApiServer, Request, aggregated, document
from upstream_setup import Running, group_list, item, resource_list, running, spec_of
from waiting import until

_HASH = "kJb5UvWLuWw="


def _old(seen: Request) -> Answer:
    if seen.path == "/apis":
        return document(group_list("a.test/v1"))
    listed = resource_list("a.test/v1", "widgets")
    listed["resources"][0]["storageVersionHash"] = _HASH  # type: ignore[index] # it is a list
    return document(listed)


def _modern(seen: Request) -> Answer:
    is_aggregated = seen.path == "/apis" and not seen.is_plain
    return aggregated(item("a.test")) if is_aggregated else _old(seen)


def _version(run: Running, name: str) -> Version | None:
    contribution = run.registry.contribution(f"upstream:{name}")
    offers = contribution.offers if contribution else ()
    return offers[0].version if offers else None


def _has_list(run: Running, name: str) -> bool:
    version = _version(run, name)
    return version is not None and version.resources[0].storage_version_hash == _HASH


@pytest.mark.parametrize("answers", [_modern, _old])
async def test_equal_versions_of_clusters_and_in_the_store_are_one_object(answers: object) -> None:
    store = MemoryStore()
    async with FakeApiServer(answers) as server:  # type: ignore[arg-type] # one of two functions
        specs = [spec_of(server.url, name) for name in ("east", "west")]
        async with running(store, *specs) as run:
            for spec in specs:
                await until(partial(_has_list, run, spec.name), "its list was read")
            served = _version(run, "east")
            assert served is _version(run, "west")
            entry = await store.get(KNOWN_RECORDS.key(specs[0].id))
            assert entry
            recorded = await KNOWN_RECORDS.read(store, entry)
            assert recorded.roots[-1].groups[0].versions[0] is served


def test_groups_with_equal_versions_are_one_object_and_others_share_versions() -> None:
    one, same, other = (
        shared((Group(name, (Version("v1", listed=("a",)), Version(last))),))[0]
        for name, last in (("a.test", "v2"), ("a.test", "v2"), ("a.test", "v3"))
    )
    assert one is same
    assert one != other
    assert one.versions[0] is other.versions[0]


def test_a_shared_version_lives_as_long_as_it_is_used() -> None:
    first = shared_version(Version("v1", listed=("gone",)))
    assert shared_version(Version("v1", listed=("gone",))) is first
    watched = ref(first)
    del first
    assert watched() is None


def test_only_equal_versions_are_shared() -> None:
    # CPython gives both numbers the hash -2.
    one, other = Version(-1), Version(-2)  # type: ignore[arg-type] # texts with an equal hash are rare
    assert hash(one) == hash(other)
    assert shared_version(one) is one
    assert shared_version(other) is other


def test_enum_members_and_equal_texts_are_shared() -> None:
    words = Version("v1", (Resource("a", None, Scope.CLUSTER, "", None),), Freshness.STALE)
    texts = Version("v1", (Resource("a", None, "Cluster", "", None),), "Stale")
    assert shared_version(words) is shared_version(texts)
