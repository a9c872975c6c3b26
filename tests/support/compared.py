"""Snapshots to compare: a builder, and a strategy for small ones that differ in a little."""

from datetime import UTC, datetime

from apidiscovery_client.model import Group, Resource, Snapshot
from apidiscovery_client.testing import group, resource
from hypothesis import strategies as st

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

_PLURALS = ("widgets", "gadgets", "parts")
_WORDS = st.lists(st.sampled_from(["w", "g", "p", "all"]), max_size=2, unique=True)


def snapshot(*groups: Group, **more: str) -> Snapshot:
    """Return a snapshot of these groups; `more` are failures, by the name of the part."""
    failures = {f"/{part}": reason for part, reason in more.items()}
    server = "https://one.example.com"
    return Snapshot(groups=groups, server=server, checked_at=WHEN, failures=failures)


def small_snapshots() -> st.SearchStrategy[Snapshot]:
    """Draw snapshots with names from few, so that two of them have much in common."""
    names = st.lists(st.sampled_from(["a.example", "b.example"]), unique=True)
    groups = names.flatmap(lambda found: st.tuples(*map(_groups, found)))
    return groups.map(lambda found: snapshot(*found))


def _groups(name: str) -> st.SearchStrategy[Group]:
    versions = st.dictionaries(st.sampled_from(["v1", "v1beta1"]), _resources(), max_size=2)
    return versions.map(lambda found: group(name, **found))


def _resources() -> st.SearchStrategy[list[Resource]]:
    one = st.builds(
        resource,
        st.sampled_from(_PLURALS),
        st.sampled_from(["Widget", "Gadget"]),
        namespaced=st.booleans(),
        short_names=_WORDS,
        categories=_WORDS,
        verbs=st.lists(st.sampled_from(["get", "list"]), unique=True),
        subresources=st.lists(st.sampled_from(["status", "scale"]), unique=True),
    )
    return st.lists(one, max_size=2, unique_by=lambda found: found.name)
