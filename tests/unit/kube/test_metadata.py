"""Reading and changing the metadata of objects."""

from apidiscovery_service.kube.objects.kinds import LEASE
from apidiscovery_service.kube.objects.metadata import (
    finalizers_of,
    is_terminating,
    metadata_of,
    with_metadata,
)
from kube_samples import made


def test_changed_metadata_is_a_copy_in_the_order_of_go() -> None:
    item = made(LEASE, metadata={"name": "a", "uid": "u", "finalizers": ["f"]})

    changed = with_metadata(
        item, {"resourceVersion": "7", "generateName": "g", "finalizers": None, "uid": "v"}
    )

    assert list(metadata_of(changed).items()) == [
        ("name", "a"),
        ("generateName", "g"),
        ("uid", "v"),
        ("resourceVersion", "7"),
    ]
    assert list(changed) == list(item)
    assert item == made(LEASE, metadata={"name": "a", "uid": "u", "finalizers": ["f"]})


def test_an_object_without_metadata_has_empty_metadata() -> None:
    assert metadata_of({}) == {}
    assert metadata_of(with_metadata({}, {"name": "a"})) == {"name": "a"}


def test_an_object_terminates_from_its_deletion_to_its_last_finalizer() -> None:
    item = made(LEASE, metadata={"name": "a", "finalizers": ["f"]})
    deleted = with_metadata(item, {"deletionTimestamp": "2026-01-02T03:04:05Z"})

    assert [is_terminating(each) for each in (item, deleted, {})] == [False, True, False]
    assert [finalizers_of(each) for each in (item, deleted, {})] == [["f"], ["f"], []]
