"""The status of a StorageVersion as an object and as the model."""

from datetime import UTC, datetime, timedelta

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.model import (
    Condition,
    ServerStorageVersion,
    Status,
    generation_of,
    server_ids,
    status_of,
    with_status,
)
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(max_size=5)
moments = st.integers(-62_000_000_000, 253_402_300_799).map(
    lambda seconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
lists = st.lists(texts, max_size=3).map(tuple)
statuses = st.builds(
    Status,
    st.lists(st.builds(ServerStorageVersion, texts, texts, lists, lists), max_size=3).map(tuple),
    st.none() | texts,
    st.lists(
        st.builds(Condition, texts, texts, texts, texts, st.integers(0), st.none() | moments),
        max_size=3,
    ).map(tuple),
)

BARE: Object = {
    "kind": "StorageVersion",
    "metadata": {"name": "apps.jobs", "generation": 7},
    "spec": {},
}


@given(statuses)
def test_what_is_written_is_read_again(status: Status) -> None:
    value = with_status(BARE, status)
    assert status_of(value) == status
    assert list(value) == [*BARE, "status"]


def test_fields_are_in_the_order_of_kubernetes_and_empty_ones_are_left_out() -> None:
    since = datetime(2026, 7, 24, tzinfo=UTC)
    status = Status(
        (
            ServerStorageVersion("a", "apps/v1", ("apps/v1",), ("apps/v1",)),
            ServerStorageVersion("b", ""),
        ),
        "apps/v1",
        (Condition("T", "True", "R", "M", 1, since), Condition("U", "Unknown", "")),
    )
    assert go_json.dumps(with_status(BARE, status)["status"]).decode() == (
        '{"storageVersions":[{"apiServerID":"a","encodingVersion":"apps/v1",'
        '"decodableVersions":["apps/v1"],"servedVersions":["apps/v1"]},{"apiServerID":"b"}],'
        '"commonEncodingVersion":"apps/v1","conditions":[{"type":"T","status":"True",'
        '"observedGeneration":1,"lastTransitionTime":"2026-07-24T00:00:00Z","reason":"R",'
        '"message":"M"},{"type":"U","status":"Unknown","lastTransitionTime":null,"reason":""}]}'
    )
    assert with_status(BARE, Status())["status"] == {}


def test_an_object_without_status_has_an_empty_one() -> None:
    assert status_of(BARE) == Status()
    assert server_ids(BARE) == []
    assert generation_of(BARE) == 7
    assert generation_of({"metadata": {}}) == 0


def test_servers_are_in_the_order_of_their_entries() -> None:
    assert server_ids(
        with_status(BARE, Status((ServerStorageVersion("b", ""), ServerStorageVersion("a", ""))))
    ) == ["b", "a"]
