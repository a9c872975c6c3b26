"""Messages of FleetService: how they become matrices and snapshots."""

import pytest
from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_client._errors import (
    DiscoveryError,
    InvalidConfiguration,
    RequestRefused,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client.fleet._answer import as_stale, may_pass
from apidiscovery_client.fleet._wire import Received, snapshot_of
from apidiscovery_client.model import Current, Stale, Unknown
from apidiscovery_client.transports._grpc_answers import InconsistentError
from apidiscovery_formats.matrix import Agreement, Freshness
from fleet_clusters import SINCE as AT

CURRENT = fleet_pb2.FLEET_FRESHNESS_CURRENT
SINCE = AT.replace(microsecond=0)  # as messages have it


def cluster(name: str, **fields: object) -> fleet_pb2.FleetCluster:
    return fleet_pb2.FleetCluster(name=name, freshness=CURRENT, **fields)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def row(resource: str, *clusters: str, unknown: str = "") -> fleet_pb2.FleetRow:
    cell = fleet_pb2.FleetCell(
        clusters=clusters, versions=["v1"], preferred_version="v1", kind="Job", scope="Namespaced"
    )
    lacking = fleet_pb2.FleetCell(clusters=[unknown], unknown_versions=["v2"])
    cells = [cell, lacking] if unknown else [cell]
    return fleet_pb2.FleetRow(group="batch", resource=resource, kind="Job", cells=cells)


def received(
    *rows: fleet_pb2.FleetRow, clusters: tuple[fleet_pb2.FleetCluster, ...] = ()
) -> Received:
    made = Received()
    made.add_page(fleet_pb2.GetMatrixResponse.Page(clusters=clusters, rows=rows))
    return made


def test_a_row_with_a_cluster_that_was_not_told_is_refused() -> None:
    with pytest.raises(InconsistentError, match="'west', which is not listed"):
        received(row("jobs", "west"), clusters=(cluster("east"),)).matrix()


def test_an_unknown_freshness_of_a_later_release_is_unknown() -> None:
    odd = fleet_pb2.FleetCluster(name="east")
    odd.freshness = 9  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue]
    matrix = received(row("jobs", "east"), clusters=(odd,)).matrix()

    assert matrix.columns[0].freshness is Freshness.UNKNOWN
    assert matrix.rows[0].agreement is Agreement.UNSURE


def test_rows_that_did_not_change_are_the_same_objects() -> None:
    made = received(row("crons", "east"), row("jobs", "east"), clusters=(cluster("east"),))
    before = made.matrix()
    made.change(
        fleet_pb2.WatchFleetResponse.Changes(
            hash="1", delta=fleet_pb2.FleetDelta(rows=[row("jobs", "east")])
        )
    )
    after = made.matrix()

    assert after.rows[0] is before.rows[0]
    assert after.rows[1] is not before.rows[1]


def test_a_part_of_a_state_has_no_hash() -> None:
    made = received(row("jobs", "east"), clusters=(cluster("east"),))
    made.hash = "known"
    assert made.change(fleet_pb2.WatchFleetResponse.Changes(delta=fleet_pb2.FleetDelta())) is None
    assert not made.hash


def test_a_snapshot_has_the_order_of_the_cluster_and_what_never_answered() -> None:
    east = cluster(
        "east",
        group_versions=[
            fleet_pb2.FleetGroupVersion(group="z", version="v1", freshness=CURRENT),
            fleet_pb2.FleetGroupVersion(group="batch", version="v1", freshness=CURRENT),
        ],
    )
    matrix = received(
        row("jobs", "west", unknown="east"), clusters=(east, cluster("west"))
    ).matrix()

    found = snapshot_of(east, matrix)

    assert [group.name for group in found.groups] == ["z", "batch"]
    assert [(v.name, type(v.freshness)) for v in found.groups[1].versions] == [
        ("v1", Current),
        ("v2", Unknown),
    ]


def test_a_snapshot_is_no_fresher_than_its_column() -> None:
    stale = cluster("east", reason="refused")
    stale.freshness = fleet_pb2.FLEET_FRESHNESS_STALE
    stale.since.FromDatetime(SINCE)
    unknown = fleet_pb2.FleetCluster(name="west", reason="never asked")
    matrix = received(row("jobs", "east"), clusters=(stale, unknown)).matrix()

    assert snapshot_of(stale, matrix).freshness == Stale(SINCE, "refused")
    nothing = snapshot_of(unknown, matrix)
    assert isinstance(nothing.freshness, Unknown)
    assert nothing.failures == dict.fromkeys(("/api", "/apis"), "never asked")


def test_a_silent_service_makes_current_columns_stale_and_no_others() -> None:
    silent = fleet_pb2.FleetCluster(name="west", reason="never asked")
    matrix = received(row("jobs", "east"), clusters=(cluster("east"), silent)).matrix()

    east, west = as_stale(matrix, SINCE, "no answer").columns

    assert (east.freshness, east.since) == (Freshness.STALE, "2026-11-23T12:00:00Z")
    assert (west.freshness, west.reason) == (Freshness.UNKNOWN, "never asked")


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ServerUnreachable("gone", url=""), True),
        (UnexpectedDocument("nonsense", url=""), True),
        (RequestRefused("busy", url="", status=503), True),
        (RequestRefused("busy", url="", status=429), True),
        (RequestRefused("no", url="", status=403), False),
        (RequestRefused("who", url="", status=401), False),
        (RequestRefused("what", url="", status=400), False),
        (InvalidConfiguration("how"), False),
    ],
)
def test_refusals_are_never_hidden_behind_what_is_known(
    error: DiscoveryError, *, passes: bool
) -> None:
    assert may_pass(error) is passes
