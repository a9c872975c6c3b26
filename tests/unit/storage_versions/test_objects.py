"""StorageVersions are written and read by the rules of kube-apiserver."""

import asyncio
import re
from http import HTTPStatus

import pytest
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import patches, selectors
from apidiscovery_service.kube.objects.errors import Details
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.object_reads import ListOptions
from apidiscovery_service.storage_versions.object_writes import Objects, Preconditions
from apidiscovery_service.store import Store
from apidiscovery_service.store.memory import MemoryStore
from rest_objects import NAME, PREFIX, Clock, changed, named, refusal, said
from store_wrapper import DisturbedStore
from waiting import WITHIN_S

RESOURCE = f'storageversions.internal.apiserver.k8s.io "{NAME}"'
MODIFIED = (
    f"Operation cannot be fulfilled on {RESOURCE}: the object has been modified; please apply "
    "your changes to the latest version and try again"
)
STATUS: Object = {
    "storageVersions": [
        {
            "apiServerID": "apiserver-a",
            "encodingVersion": "apps/v1",
            "decodableVersions": ["apps/v1"],
        }
    ],
    "commonEncodingVersion": "apps/v1",
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def objects(store: Store, clock: Clock) -> Objects:
    return Objects(Collection(store, STORAGE_VERSION, PREFIX), clock)


# Creating.


async def test_a_created_object_has_no_status_and_new_system_fields(
    objects: Objects,
) -> None:
    created = await objects.create(
        {
            "metadata": {
                "name": NAME,
                "namespace": "somewhere",
                "labels": {"a": "b"},
                "uid": "mine",
                "creationTimestamp": "2001-01-01T00:00:00Z",
                "deletionTimestamp": "2001-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 30,
            },
            "status": STATUS,
        }
    )
    metadata = dict(metadata_of(created))
    uid = str(metadata.pop("uid"))
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", uid)
    assert metadata == {
        "name": NAME,
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"a": "b"},
    }
    assert {k: v for k, v in created.items() if k != "metadata"} == {
        "kind": "StorageVersion",
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "spec": {},
        "status": {},
    }
    assert await objects.get(NAME) == created


async def test_a_name_that_is_taken_is_refused(objects: Objects) -> None:
    await objects.create(named())
    for dry_run in (False, True):
        error = await refusal(objects.create(named(), dry_run=dry_run))
        assert said(error) == (409, "AlreadyExists", f"{RESOURCE} already exists")
        assert error.details == Details(NAME, "internal.apiserver.k8s.io", "storageversions")


async def test_a_name_is_generated(objects: Objects) -> None:
    created = await objects.create({"metadata": {"generateName": "apps.d"}})
    name = str(metadata_of(created)["name"])
    assert re.fullmatch(r"apps\.d[bcdfghjklmnpqrstvwxz2456789]{5}", name)
    assert metadata_of(created)["generateName"] == "apps.d"
    long = await objects.create({"metadata": {"generateName": f"apps.{60 * 'd'}"}}, dry_run=True)
    assert len(str(metadata_of(long)["name"])) == 63


async def test_generating_a_name_gives_up_when_all_are_taken(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = iter("b" * 5 + "b" * 5 + "c" * 5 + "b" * 40)

    def choice(_: str) -> str:
        return next(letters)

    monkeypatch.setattr("secrets.choice", choice)
    for name in ("apps.dbbbbb", "apps.dccccc"):
        created = await objects.create({"metadata": {"generateName": "apps.d"}})
        assert metadata_of(created)["name"] == name
    error = await refusal(objects.create({"metadata": {"generateName": "apps.d"}}))
    assert said(error) == (
        409,
        "AlreadyExists",
        (
            'storageversions.internal.apiserver.k8s.io "apps.dbbbbb" already exists, '
            "the server was not able to generate a unique name for the object"
        ),
    )


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        pytest.param(
            named("nodot"), 422, "name must be in the form of <group>.<resource>", id="name"
        ),
        pytest.param({"metadata": {}}, 422, "name or generateName is required", id="no name"),
        pytest.param(named(labels={"a": "b c"}), 422, "metadata.labels: Invalid value", id="label"),
        pytest.param(
            named(resourceVersion="7"),
            400,
            "resourceVersion should not be set on objects to be created",
            id="resourceVersion",
        ),
        pytest.param(
            named(managedFields=[{"manager": 1_000_000 * "m"}]), 422, "managedFields", id="manager"
        ),
    ],
)
async def test_an_invalid_object_is_not_created(
    objects: Objects, value: Object, code: int, message: str
) -> None:
    error = await refusal(objects.create(value))
    assert error.code == code
    assert message in error.message
    assert (await objects.list(ListOptions())).items == ()


async def test_an_object_too_large_for_a_store_is_a_413(objects: Objects) -> None:
    finalizers: list[JSONValue] = [f"example.com/{n:060}" for n in range(20_000)]
    error = await refusal(objects.create(named(finalizers=finalizers)))
    assert (error.code, error.reason) == (413, "RequestEntityTooLarge")


# Updating.


async def test_an_update_changes_metadata_and_keeps_the_status(objects: Objects) -> None:
    created = await objects.create(named())
    with_status = await objects.update(NAME, created | {"status": STATUS}, is_status=True)
    sent = changed(
        with_status,
        labels={"a": "b"},
        uid=None,
        creationTimestamp="2001-01-01T00:00:00Z",
        generation=9,
        namespace="elsewhere",
    )
    no_status: Object = {"status": {}}
    updated = await objects.update(NAME, sent | no_status)
    assert metadata_of(updated) == {
        **metadata_of(with_status),
        "resourceVersion": "3",
        "labels": {"a": "b"},
    }
    assert updated["status"] == with_status["status"] == STATUS


async def test_an_update_of_the_status_keeps_all_else(objects: Objects) -> None:
    kept: Object = {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["example.com/a"],
        "managedFields": [{"manager": "me", "operation": "Update"}],
    }
    created = await objects.create(named() | {"metadata": {"name": NAME, **kept}})
    sent = changed(created, labels={"x": "y"}, annotations=None, finalizers=None)
    sent = changed(sent, managedFields=None, ownerReferences=[{"uid": "1"}])
    updated = await objects.update(NAME, sent | {"status": STATUS}, is_status=True)
    assert metadata_of(updated) == metadata_of(created) | {"resourceVersion": "2"}
    assert updated["status"] == STATUS


async def test_conditions_of_a_status_are_taken_as_they_are_given(objects: Objects) -> None:
    created = await objects.create(named())
    condition: Object = {
        "type": "AllEncodingVersionsEqual",
        "status": "Unknown",
        "lastTransitionTime": "2001-01-01T00:00:00Z",
        "reason": "Because",
        "message": "who knows",
    }
    status: Object = {"conditions": [condition]}
    updated = await objects.update(NAME, created | {"status": status}, is_status=True)
    assert updated["status"] == status
    bad: Object = {"conditions": [condition, condition]}
    error = await refusal(objects.update(NAME, updated | {"status": bad}, is_status=True))
    assert error.code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "the type of the condition is not unique" in error.message


async def test_an_update_that_changes_nothing_writes_nothing(
    objects: Objects, store: Store
) -> None:
    created = await objects.create(named(labels={"a": "b"}))
    assert await objects.update(NAME, created) == created
    assert await objects.update(NAME, created, is_status=True) == created
    assert await objects.patch(NAME, lambda current: current) == created
    assert (await store.list(PREFIX)).revision == 1


@pytest.mark.parametrize("version", [None, "", "0", "000"])
async def test_an_update_needs_a_resource_version(objects: Objects, version: str | None) -> None:
    created = await objects.create(named())
    for is_status in (False, True):
        error = await refusal(
            objects.update(NAME, changed(created, resourceVersion=version), is_status=is_status)
        )
        assert said(error) == (
            422,
            "Invalid",
            (
                f"{RESOURCE} is invalid: metadata.resourceVersion: Invalid value: 0x0: "
                "must be specified for an update"
            ),
        )
        assert error.details is not None
        assert error.details.kind == "storageversions"


async def test_an_update_of_an_older_state_is_a_conflict(objects: Objects) -> None:
    created = await objects.create(named())
    await objects.update(NAME, changed(created, labels={"a": "b"}))
    for is_status in (False, True):
        error = await refusal(objects.update(NAME, created, is_status=is_status))
        assert said(error) == (409, "Conflict", MODIFIED)
    error = await refusal(objects.update(NAME, changed(created, resourceVersion="x")))
    assert error.code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert 'strconv.ParseUint: parsing "x": invalid syntax' in error.message


async def test_a_missing_object_is_a_404(objects: Objects) -> None:
    sent = named(resourceVersion="1")
    for doing in (
        objects.get(NAME),
        objects.update(NAME, sent),
        objects.update(NAME, sent, is_status=True),
        objects.patch(NAME, lambda current: current),
        objects.patch(NAME, lambda current: current, is_status=True),
        objects.delete(NAME),
        objects.delete(NAME, dry_run=True),
    ):
        assert said(await refusal(doing)) == (404, "NotFound", f"{RESOURCE} not found")


async def test_an_object_with_another_uid_is_not_updated(objects: Objects) -> None:
    first = await objects.create(named())
    await objects.delete(NAME)
    uid = metadata_of(first)["uid"]
    error = await refusal(objects.update(NAME, first))
    assert f"Precondition failed: UID in precondition: {uid}, UID in object meta: " in str(error)
    second = await objects.create(named())
    error = await refusal(objects.update(NAME, first))
    assert error.reason == "Conflict"
    assert error.message.endswith(f"UID in object meta: {metadata_of(second)['uid']}")


async def test_the_name_must_be_that_of_the_url(objects: Objects) -> None:
    created = await objects.create(named())
    error = await refusal(objects.update("apps.others", created))
    assert said(error) == (
        400,
        "BadRequest",
        f"the name of the object ({NAME}) does not match the name on the URL (apps.others)",
    )
    error = await refusal(objects.update(NAME, changed(created, name=None)))
    assert "was undeterminable: name must be provided" in error.message
    error = await refusal(objects.patch(NAME, lambda value: changed(value, name="a.b")))
    assert error.code == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"deletionTimestamp": "2001-01-01T00:00:00Z"}, id="deletionTimestamp"),
        pytest.param({"deletionGracePeriodSeconds": 5}, id="deletionGracePeriodSeconds"),
    ],
)
async def test_only_a_deletion_marks_an_object_deleted(objects: Objects, metadata: Object) -> None:
    created = await objects.create(named())
    error = await refusal(objects.update(NAME, changed(created, **metadata)))
    assert error.code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "field is immutable" in error.message


# Patching.


async def test_a_patch_is_applied_to_the_stored_object(objects: Objects) -> None:
    await objects.create(named(labels={"a": "b"}))

    def change(current: Object) -> Object:
        patch = b'{"metadata":{"labels":{"c":"d"}},"status":{"commonEncodingVersion":"v1"}}'
        return patches.apply(patches.MERGE_PATCH, patch, current, STORAGE_VERSION).object

    patched = await objects.patch(NAME, change)
    assert metadata_of(patched)["labels"] == {"a": "b", "c": "d"}
    assert patched["status"] == {}
    error = await refusal(objects.patch(NAME, change, is_status=True))
    assert "status.commonEncodingVersion" in error.message


async def test_a_patch_that_names_another_revision_is_refused(objects: Objects) -> None:
    await objects.create(named())
    error = await refusal(objects.patch(NAME, lambda now: changed(now, resourceVersion="77")))
    assert said(error) == (409, "Conflict", MODIFIED)


async def test_no_patch_is_lost_to_another(objects: Objects) -> None:
    await objects.create(named())

    async def label(number: int) -> None:
        def change(current: Object) -> Object:
            labels = metadata_of(current).get("labels", {})
            assert isinstance(labels, dict)
            return changed(current, labels={**labels, f"l{number}": "x"})

        await objects.patch(NAME, change)

    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(label(number) for number in range(20)))
    now = await objects.get(NAME)
    assert metadata_of(now)["labels"] == {f"l{number}": "x" for number in range(20)}


async def test_a_concurrent_write_conflicts_with_an_update_and_repeats_a_patch() -> None:
    store = DisturbedStore(MemoryStore())
    objects = Objects(Collection(store, STORAGE_VERSION, PREFIX))
    created = await objects.create(named())
    others = 1

    async def overtake(operation: str, key: str) -> None:
        """Let somebody else write just before."""
        nonlocal others
        if operation == "put" and others:
            others -= 1
            entry = await store.store.get(key)
            assert entry is not None
            await store.store.put(key, entry.value)

    store.before = overtake
    error = await refusal(objects.update(NAME, changed(created, labels={"a": "b"})))
    assert said(error) == (409, "Conflict", MODIFIED)
    others = 3
    patched = await objects.patch(NAME, lambda now: changed(now, labels={"c": "d"}))
    assert (metadata_of(patched)["labels"], others) == ({"c": "d"}, 0)


# Deleting.


async def test_a_deletion_returns_the_removed_object(objects: Objects) -> None:
    created = await objects.create(named())
    deleted = await objects.delete(NAME)
    uid = str(metadata_of(created)["uid"])
    assert deleted.object == created
    assert deleted.details == Details(NAME, "internal.apiserver.k8s.io", "storageversions", uid)
    assert (await refusal(objects.get(NAME))).reason == "NotFound"


async def test_an_object_goes_with_its_last_finalizer(objects: Objects, clock: Clock) -> None:
    finalizers: list[JSONValue] = ["example.com/a", "example.com/b"]
    created = await objects.create(named(finalizers=finalizers))
    marked = await objects.delete(NAME)
    assert marked.details is None
    assert metadata_of(marked.object) == metadata_of(created) | {
        "resourceVersion": "2",
        "deletionTimestamp": "2026-01-02T03:04:05Z",
        "deletionGracePeriodSeconds": 0,
    }
    clock.now = clock.now.replace(year=2027)
    assert (await objects.delete(NAME)).object == marked.object
    error = await refusal(objects.create(named()))
    assert error.message == f"object is being deleted: {RESOURCE} already exists"
    one_left = await objects.update(NAME, changed(marked.object, finalizers=finalizers[:1]))
    assert metadata_of(one_left)["deletionTimestamp"] == "2026-01-02T03:04:05Z"
    more = await refusal(objects.update(NAME, changed(one_left, finalizers=[*finalizers, "c.d/e"])))
    assert more.code == HTTPStatus.UNPROCESSABLE_ENTITY
    none_left = changed(one_left, finalizers=None)
    assert await objects.update(NAME, none_left, dry_run=True) == none_left
    assert await objects.get(NAME) == one_left
    assert await objects.update(NAME, none_left) == none_left
    assert (await refusal(objects.get(NAME))).reason == "NotFound"


async def test_a_deletion_is_refused_unless_its_preconditions_hold(objects: Objects) -> None:
    created = await objects.create(named())
    uid = str(metadata_of(created)["uid"])
    error = await refusal(objects.delete(NAME, Preconditions(uid="other")))
    resource = f'StorageVersion.internal.apiserver.k8s.io "{NAME}"'
    assert said(error) == (
        409,
        "Conflict",
        (
            f"Operation cannot be fulfilled on {resource}: the UID in the precondition (other) "
            f"does not match the UID in record ({uid}). The object might have been deleted and "
            "then recreated"
        ),
    )
    error = await refusal(objects.delete(NAME, Preconditions(resource_version="9"), dry_run=True))
    assert error.message == (
        f"Operation cannot be fulfilled on {resource}: the ResourceVersion in the precondition "
        "(9) does not match the ResourceVersion in record (1). The object might have been modified"
    )
    assert (await objects.delete(NAME, Preconditions(uid, "1"))).details is not None


async def test_only_selected_objects_of_a_collection_are_deleted(objects: Objects) -> None:
    for name in ("a.a", "b.b", "c.c"):
        await objects.create(named(name, labels={"name": name}))
    held = await objects.create(named("d.d", labels={"name": "d.d"}, finalizers=["x.y/z"]))
    options = ListOptions(selection=selectors.parse("name notin (b.b)"))
    listed = await objects.delete_collection(options)
    assert [metadata_of(item)["name"] for item in listed.items] == ["a.a", "c.c", "d.d"]
    left = (await objects.list(ListOptions())).items
    assert [metadata_of(item)["name"] for item in left] == ["b.b", "d.d"]
    assert "deletionTimestamp" in metadata_of(left[1])
    assert "deletionTimestamp" not in metadata_of(held)


async def test_a_dry_run_validates_and_writes_nothing(objects: Objects, store: Store) -> None:
    created = await objects.create(named(), dry_run=True)
    assert "resourceVersion" not in metadata_of(created)
    assert (await objects.list(ListOptions())).items == ()
    created = await objects.create(named(finalizers=["x.y/z"]))
    sent = changed(created, labels={"a": "b"})
    assert await objects.update(NAME, sent, dry_run=True) == sent
    assert await objects.patch(NAME, lambda _: sent, dry_run=True) == sent
    status = await objects.update(NAME, created | {"status": STATUS}, dry_run=True, is_status=True)
    assert status == created | {"status": STATUS}
    assert await objects.patch(NAME, lambda _: status, dry_run=True, is_status=True) == status
    assert "deletionTimestamp" in metadata_of((await objects.delete(NAME, dry_run=True)).object)
    await objects.delete_collection(ListOptions(), dry_run=True)
    invalid = changed(created, labels={"a": "b c"})
    assert (await refusal(objects.update(NAME, invalid, dry_run=True))).code == 422
    assert await objects.get(NAME) == created
    assert (await store.list(PREFIX)).revision == 1
