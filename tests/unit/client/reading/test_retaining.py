"""Resources of a version are kept while the server cannot list them."""

from datetime import UTC, datetime

from apidiscovery_client._reading import retained
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    Group,
    GroupVersion,
    Resource,
    Stale,
    Unknown,
    Version,
)

EARLIER, NOW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
V1 = GroupVersion("example.io", "v1")
OLD = (Resource(V1, "olds", "", "Cluster", None, ()),)
NEW = (Resource(V1, "news", "", "Cluster", None, ()),)


def groups(resources: tuple[Resource, ...], freshness: Freshness) -> tuple[Group, ...]:
    return (Group("example.io", (Version(V1, resources, freshness, "Stale"),)),)


def test_earlier_resources_are_kept() -> None:
    now = groups((), Unknown(NOW, "down"))
    kept = groups(OLD, Stale(NOW, "down", retained=True))
    assert retained(now, groups(OLD, CURRENT)) == kept


def test_a_stale_version_keeps_the_time_since_when() -> None:
    now = groups((), Unknown(NOW, "still down"))
    for before in (Stale(EARLIER, "down", retained=True), Stale(EARLIER, "down")):
        kept = Stale(EARLIER, "still down", retained=True)
        assert retained(now, groups(OLD, before)) == groups(OLD, kept)
    unknown = groups((), Unknown(EARLIER, "still down"))
    assert retained(now, groups((), Unknown(EARLIER, "down"))) == unknown


def test_resources_that_a_server_lists_of_a_stale_version_are_not_replaced() -> None:
    told = groups(NEW, Stale(NOW, "down"))
    assert retained(told, groups(OLD, CURRENT)) == told
    since = groups(NEW, Stale(EARLIER, "down"))
    assert retained(told, groups(OLD, Stale(EARLIER, "x", retained=True))) == since


def test_current_versions_and_those_without_earlier_ones_are_the_same_objects() -> None:
    current, unknown = groups((), CURRENT), groups((), Unknown(NOW, "down"))
    assert retained(current, groups(OLD, CURRENT))[0] is current[0]
    assert retained(unknown, None) is unknown
    other = (Group("other.io", ()),)
    assert retained(unknown, other)[0] is unknown[0]
