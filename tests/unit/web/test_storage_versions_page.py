"""The page of storage versions: servers that lag, and whether a migration is safe."""

from collections.abc import Mapping

from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.leases import COMPONENT_LABEL, HOSTNAME_LABEL
from apidiscovery_service.storage_versions.model import ServerStorageVersion, Status, with_status
from apidiscovery_service.web.pages.storage_versions import Cell, skew_of

NAME = "example.dev.widgets"


def _reported(name: str, writes: Mapping[str, str]) -> Object:
    group = name.rpartition(".")[0]
    entries = tuple(
        ServerStorageVersion(server, f"{group}/{version}", (f"{group}/{version}",))
        for server, version in writes.items()
    )
    common = entries[0].encoding_version if len(set(writes.values())) == 1 else None
    return with_status({"metadata": {"name": name}, "spec": {}}, Status(entries, common))


def _lease(hostname: str) -> Object:
    labels: Object = {COMPONENT_LABEL: "widget-server", HOSTNAME_LABEL: hostname}
    return {
        "metadata": {"name": hostname, "labels": labels},
        "spec": {"renewTime": "2026-11-20T10:00:00.000001Z"},
    }


MEMBERS = {"id-1": _lease("west"), "id-2": _lease("east"), "id-3": _lease("north")}


def test_a_server_that_writes_another_version_than_most_lags() -> None:
    objects = {
        "example.dev.agreed": _reported("example.dev.agreed", {"id-1": "v1", "id-2": "v1"}),
        NAME: _reported(NAME, {"id-1": "v1", "id-2": "v2", "gone": "v2"}),
    }
    skew = skew_of(objects, MEMBERS, Snapshot())
    widgets, agreed = skew.resources
    assert (widgets.name, widgets.is_safe, widgets.lagging, widgets.wanted) == (
        NAME,
        False,
        ("west",),
        "v2",
    )
    assert widgets.cells == (
        Cell("v2", "v2"),
        Cell(),
        Cell("v1", "v1", is_lagging=True),
        Cell("v2", "v2"),
    )
    assert (agreed.is_safe, agreed.common, agreed.lagging) == (True, "v1", ())


def test_each_server_is_told_by_its_host_and_whether_it_has_gone() -> None:
    objects = {NAME: _reported(NAME, {"id-1": "v1", "id-2": "v2", "gone": "v2"})}
    servers = skew_of(objects, MEMBERS, Snapshot()).servers
    assert [(one.title, one.is_member, one.has_reported, one.lagging) for one in servers] == [
        ("east", True, True, 0),
        ("north", True, False, 0),
        ("west", True, True, 1),
        ("gone", False, True, 0),
    ]


def test_servers_that_share_a_hostname_are_told_by_identity() -> None:
    servers = skew_of({}, {"id-1": _lease("one"), "id-2": _lease("one")}, Snapshot()).servers
    assert [one.title for one in servers] == ["id-1", "id-2"]


def test_a_resource_without_reports_is_not_safe() -> None:
    (line,) = skew_of({NAME: _reported_by_none()}, {}, Snapshot()).resources
    assert (line.is_safe, line.lagging, line.common) == (False, (), "")


def _reported_by_none() -> Object:
    return with_status({"metadata": {"name": NAME}, "spec": {}}, Status())
