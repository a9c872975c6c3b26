"""FleetService: clusters and the matrix, whole, selected and in pages."""

from collections.abc import AsyncGenerator

import grpc
import pytest
from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_client.fleet._wire import Received
from apidiscovery_formats.matrix import Matrix
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.kube.objects.selectors import parse_labels
from apidiscovery_service.serving.grpc import fleet_encoding
from fleet_clusters import SINCE, cluster, group
from fleet_server import (
    Served,
    Stub,
    never_asked,
    serving,
)
from grpc_errors import refusal

APPS = group("apps", "Job", "Cron", versions=("v2", "v1"))
OLDER = group("apps", "Job", "Cron")
FOREIGN = "nonsense"


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving(
        cluster("east", APPS, labels={"region": "eu", "tier": "front"}),
        cluster("north", OLDER, labels={"region": "eu"}),
        cluster("west", OLDER, state=SourceState.STALE, error="connection refused"),
    ) as served:
        yield served


@pytest.fixture(name="stub")
async def fixture_stub(served: Served) -> AsyncGenerator[Stub]:
    async with served.stub() as stub:
        yield stub


async def pages(
    stub: Stub, selection: fleet_pb2.FleetSelection | None = None
) -> list[fleet_pb2.GetMatrixResponse]:
    """Return all pages of a selection."""
    found: list[fleet_pb2.GetMatrixResponse] = []
    while not found or found[-1].next_page_token:
        request = fleet_pb2.GetMatrixRequest(
            selection=selection,
            page_token=found[-1].next_page_token if found else "",
        )
        found.append(await stub.GetMatrix(request))
    return found


def told(found: list[fleet_pb2.GetMatrixResponse]) -> Matrix:
    """Return the matrix that pages tell."""
    received = Received()
    for each in found:
        received.add_page(each.page)
    return received.matrix()


async def test_the_matrix_is_that_of_the_fleet(served: Served, stub: Stub) -> None:
    served.fleet.update([never_asked("south")])
    (only,) = await pages(stub)

    assert told([only]) == served.fleet.scope().matrix()
    assert [each.name for each in only.page.clusters] == ["east", "north", "south", "west"]
    (row,) = [row for row in only.page.rows if row.resource == "jobs"]
    assert (row.group, row.kind) == ("apps", "Job")
    assert row.agreement == fleet_pb2.FLEET_AGREEMENT_DIFFERENT
    assert [(list(cell.clusters), list(cell.versions)) for cell in row.cells] == [
        (["east"], ["v2", "v1"]),
        (["north", "west"], ["v1"]),
    ]


async def test_columns_have_reachability_and_counts(stub: Stub) -> None:
    east, north, west = (await stub.ListClusters(fleet_pb2.ListClustersRequest())).clusters

    assert (east.reachable, east.freshness) == (True, fleet_pb2.FLEET_FRESHNESS_CURRENT)
    assert not east.HasField("since")
    assert dict(east.labels) == {"region": "eu", "tier": "front"}
    assert (east.group_count, east.group_version_count, east.resource_count) == (2, 3, 3)
    assert east.version == "v1.36.2"
    assert (west.reachable, west.freshness) == (False, fleet_pb2.FLEET_FRESHNESS_STALE)
    assert west.since.ToDatetime(SINCE.tzinfo) == SINCE.replace(microsecond=0)
    assert west.reason == "connection refused"
    assert west.hash == north.hash != east.hash
    assert not east.group_versions


async def test_group_versions_are_in_order_and_no_fresher_than_their_cluster(stub: Stub) -> None:
    request = fleet_pb2.ListClustersRequest(with_group_versions=True)
    east, _, west = (await stub.ListClusters(request)).clusters

    assert [(each.group, each.version) for each in east.group_versions] == [
        ("", "v1"),
        ("apps", "v2"),
        ("apps", "v1"),
    ]
    assert {each.freshness for each in east.group_versions} == {fleet_pb2.FLEET_FRESHNESS_CURRENT}
    assert {each.freshness for each in west.group_versions} == {fleet_pb2.FLEET_FRESHNESS_STALE}


async def test_clusters_come_in_pages_also_when_one_goes_meanwhile(
    served: Served, stub: Stub
) -> None:
    first = await stub.ListClusters(fleet_pb2.ListClustersRequest(page_size=1))
    served.fleet.update([], ["east"])
    second = await stub.ListClusters(
        fleet_pb2.ListClustersRequest(page_size=1, page_token=first.next_page_token)
    )
    last = await stub.ListClusters(
        fleet_pb2.ListClustersRequest(page_size=1, page_token=second.next_page_token)
    )

    assert [[each.name for each in page.clusters] for page in (first, second, last)] == [
        ["east"],
        ["north"],
        ["west"],
    ]
    assert not last.next_page_token


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        (fleet_pb2.FleetSelection(groups=["apps"]), ["crons", "jobs"]),
        (fleet_pb2.FleetSelection(groups=[""]), ["pods"]),
        (fleet_pb2.FleetSelection(kinds=["JOB", "pods"]), ["pods", "jobs"]),
        (fleet_pb2.FleetSelection(only_different=True), ["crons", "jobs"]),
        (fleet_pb2.FleetSelection(only_different=True, kinds=["cron"]), ["crons"]),
        (fleet_pb2.FleetSelection(only_different=True, label_selector="!tier"), []),
    ],
)
async def test_rows_are_selected(
    stub: Stub, selection: fleet_pb2.FleetSelection, rows: list[str]
) -> None:
    (only,) = await pages(stub, selection)
    assert [row.resource for row in only.page.rows] == rows


async def test_clusters_are_selected_by_labels_and_compared_alone(
    served: Served, stub: Stub
) -> None:
    found = told(await pages(stub, fleet_pb2.FleetSelection(label_selector="region=eu,!tier")))
    listed = await stub.ListClusters(fleet_pb2.ListClustersRequest(label_selector="tier=front"))

    assert found == served.fleet.scope().selected(parse_labels("region=eu,!tier")).matrix()
    assert [column.name for column in found.columns] == ["north"]
    assert [each.name for each in listed.clusters] == ["east"]


async def test_a_caller_with_the_matrix_gets_not_modified(served: Served, stub: Stub) -> None:
    (only,) = await pages(stub)
    request = fleet_pb2.GetMatrixRequest(if_none_match=only.hash)

    same = await stub.GetMatrix(request)
    served.fleet.update([cluster("east", OLDER)])
    other = await stub.GetMatrix(request)

    assert (same.WhichOneof("result"), same.hash) == ("not_modified", only.hash)
    assert other.WhichOneof("result") == "page"
    assert other.hash != only.hash


@pytest.mark.parametrize("page_size", [1, 2, 3, 100])
async def test_pages_are_of_one_state(served: Served, stub: Stub, page_size: int) -> None:
    whole = served.fleet.scope().matrix()
    found = [await stub.GetMatrix(fleet_pb2.GetMatrixRequest(page_size=page_size))]
    while token := found[-1].next_page_token:
        served.fleet.update([cluster(f"new-{len(found)}", group("other", "Thing"))])
        request = fleet_pb2.GetMatrixRequest(page_size=page_size, page_token=token)
        found.append(await stub.GetMatrix(request))

    assert told(found) == whole
    assert {each.hash for each in found} == {found[0].hash}
    assert [len(each.page.rows) for each in found[:-1]] == [page_size] * (len(found) - 1)
    assert not any(each.page.clusters for each in found[1:])


async def test_messages_are_cut_by_size(
    served: Served, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_encoding, "PART_BYTES", 100)
    found = await pages(stub)

    assert len(found) > len(served.fleet.clusters)
    assert told(found) == served.fleet.scope().matrix()


async def test_a_page_of_a_forgotten_state_is_refused(served: Served, stub: Stub) -> None:
    first = await stub.GetMatrix(fleet_pb2.GetMatrixRequest(page_size=1))
    for number in range(20):
        served.fleet.update([cluster("east", group(f"g{number}", "Thing"))])
        await stub.GetMatrix(fleet_pb2.GetMatrixRequest(page_size=1))

    error = await refusal(
        stub.GetMatrix(fleet_pb2.GetMatrixRequest(page_token=first.next_page_token))
    )

    assert error.code() == grpc.StatusCode.ABORTED
    assert "begin again" in str(error.details())


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            fleet_pb2.GetMatrixRequest(
                selection=fleet_pb2.FleetSelection(label_selector="region in eu")
            ),
            "selection.label_selector: unable to parse requirement: found 'eu' expected: '('",
        ),
        (
            fleet_pb2.GetMatrixRequest(
                selection=fleet_pb2.FleetSelection(label_selector="a" * 5000)
            ),
            "selection.label_selector: has 5000 characters, want at most 4096",
        ),
        (
            fleet_pb2.GetMatrixRequest(selection=fleet_pb2.FleetSelection(kinds=["a"] * 1001)),
            "selection.kinds: has 1001 elements, want at most 1000",
        ),
        (fleet_pb2.GetMatrixRequest(page_size=-1), "page_size: want 0 or more, got -1"),
        (
            fleet_pb2.GetMatrixRequest(page_token=FOREIGN),
            "page_token: want the next_page_token of an answer",
        ),
    ],
)
async def test_wrong_fields_are_named(
    stub: Stub, request_: fleet_pb2.GetMatrixRequest, said: str
) -> None:
    error = await refusal(stub.GetMatrix(request_))

    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert said in str(error.details())


@pytest.mark.parametrize("token", ["nonsense", "W10=", "WzFd", "W3RydWVd", "WyJhIiwgImIiLCAxXQ=="])
async def test_a_foreign_token_is_refused(stub: Stub, token: str) -> None:
    error = await refusal(stub.ListClusters(fleet_pb2.ListClustersRequest(page_token=token)))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_token_is_for_its_own_selection(stub: Stub) -> None:
    first = await stub.GetMatrix(fleet_pb2.GetMatrixRequest(page_size=1))
    error = await refusal(
        stub.GetMatrix(
            fleet_pb2.GetMatrixRequest(
                selection=fleet_pb2.FleetSelection(only_different=True),
                page_token=first.next_page_token,
            )
        )
    )
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_it_is_unavailable_until_the_sources_are_read() -> None:
    async with serving(ready=False) as served, served.stub() as stub:
        error = await refusal(stub.GetMatrix(fleet_pb2.GetMatrixRequest()))
    assert error.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_matrix_above_the_default_limit_comes_in_messages_below_it() -> None:
    kinds = [
        tuple(group(f"g{n}.example.com", f"Kind{n}", f"Other{n}") for n in range(kind, kind + 150))
        for kind in range(10)
    ]
    clusters = [cluster(f"{'long-name-' * 20}-{n:04}", *kinds[n % 10]) for n in range(100)]
    async with serving(*clusters) as served, served.stub() as stub:
        found = await pages(stub)
        whole = served.fleet.scope().matrix()

    assert sum(page.ByteSize() for page in found) > 4 * 1024 * 1024
    assert told(found) == whole
