"""StorageVersions are read by the rules of kube-apiserver: one, all, or page by page."""

import base64
import json

import pytest
from apidiscovery_service.kube.objects import selectors
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.object_reads import ListOptions
from apidiscovery_service.storage_versions.object_writes import Objects
from apidiscovery_service.store import Store
from rest_objects import NAME, PREFIX, named, refusal, said


@pytest.fixture
def objects(store: Store) -> Objects:
    return Objects(Collection(store, STORAGE_VERSION, PREFIX))


def names_of(items: tuple[Object, ...]) -> str:
    return "".join(str(metadata_of(item)["name"])[0] for item in items)


async def test_a_list_is_read_in_pages_of_one_state(objects: Objects, store: Store) -> None:
    for name in "cabed":
        await objects.create(named(f"{name}.{name}"))
    first = await objects.list(ListOptions(limit=2))
    assert (names_of(first.items), first.metadata.remaining) == ("ab", 3)
    assert first.metadata.resource_version == "5"
    given = first.metadata.continue_token
    content = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    assert content.items() >= {"v": "meta.k8s.io/v1", "rv": 5, "start": "b.b\0"}.items()
    # A write elsewhere in the store does not matter.
    await store.put("leases/kube-system/a", b"{}")
    second = await objects.list(ListOptions(limit=2, continue_token=given))
    assert (names_of(second.items), second.metadata.remaining) == ("cd", 1)
    last = await objects.list(ListOptions(limit=2, continue_token=second.metadata.continue_token))
    assert (names_of(last.items), last.metadata.remaining) == ("e", None)
    assert (last.metadata.continue_token, last.metadata.resource_version) == ("", "5")
    await objects.delete("e.e")
    error = await refusal(objects.list(ListOptions(limit=2, continue_token=given)))
    assert (error.code, error.reason) == (410, "Expired")
    assert error.message.startswith("The provided continue parameter is too old to display")
    # The token of the error continues with the present state.
    latest = await objects.list(ListOptions(continue_token=error.continue_token))
    assert names_of(latest.items) == "cd"


def token(**fields: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("?", "", id="no base64"),
        pytest.param(token(), "", id="no fields"),
        pytest.param(token(v="meta.k8s.io/v1", rv=True, start="a"), "rv is not a number", id="rv"),
        pytest.param(token(v="meta.k8s.io/v1", rv=-1, start="../a"), "../a", id="start"),
        pytest.param(
            token(v="meta.k8s.io/v2", rv=1, start="a"), "encoded version meta.k8s.io/v2", id="v"
        ),
    ],
)
async def test_a_malformed_token_is_refused(objects: Objects, text: str, problem: str) -> None:
    error = await refusal(objects.list(ListOptions(limit=2, continue_token=text)))
    assert error.code == 400
    assert error.message.startswith("invalid continue token: continue key is not valid: ")
    assert error.message.endswith(problem)


async def test_a_list_is_narrowed_by_labels_and_fields(objects: Objects) -> None:
    for name in "abcd":
        await objects.create(named(f"{name}.{name}", labels={"odd": str(name in "ac").lower()}))
    odd = selectors.parse("odd=true")
    assert names_of((await objects.list(ListOptions(odd))).items) == "ac"
    page = await objects.list(ListOptions(odd, limit=1))
    assert (names_of(page.items), page.metadata.remaining) == ("a", None)
    rest = await objects.list(
        ListOptions(odd, limit=1, continue_token=page.metadata.continue_token)
    )
    assert (names_of(rest.items), rest.metadata.continue_token) == ("c", "")
    field = selectors.parse(field_selector="metadata.name=b.b")
    assert names_of((await objects.list(ListOptions(field))).items) == "b"


@pytest.mark.parametrize(
    ("version", "match", "limit"),
    [("1", "", 0), ("0", "", 0), ("2", "", 1), ("1", "NotOlderThan", 1)],
)
async def test_a_list_accepts_an_older_state(
    objects: Objects, version: str, match: str, limit: int
) -> None:
    for name in ("a.a", "b.b"):
        await objects.create(named(name))
    asked = ListOptions(limit=limit, resource_version=version, resource_version_match=match)
    assert (await objects.list(asked)).metadata.resource_version == "2"


@pytest.mark.parametrize(
    ("version", "match", "code", "message"),
    [
        ("1", "", 410, "The resourceVersion for the provided list is too old."),
        ("1", "Exact", 410, "The resourceVersion for the provided list is too old."),
        ("3", "", 504, "Timeout: Too large resource version: 3, current: 2"),
        ("x", "", 400, 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": inv'),
        ("18446744073709551616", "", 400, "value out of range"),
        ("", "Exact", 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("1", "Newest", 422, '"Newest": supported values: "Exact", "NotOlderThan", ""'),
        ("0", "Exact", 422, 'Match "exact" is forbidden for resourceVersion "0"'),
    ],
)
async def test_a_list_of_another_state_is_refused(
    objects: Objects, version: str, match: str, code: int, message: str
) -> None:
    for name in ("a.a", "b.b"):
        await objects.create(named(name))
    asked = ListOptions(limit=1, resource_version=version, resource_version_match=match)
    error = await refusal(objects.list(asked))
    assert error.code == code
    assert message in error.message


async def test_a_read_may_not_be_older_than_a_revision(objects: Objects, store: Store) -> None:
    created = await objects.create(named())
    await store.put("leases/kube-system/a", b"{}")
    for version in ("", "0", "1", "2"):
        assert await objects.get(NAME, version) == created
    error = await refusal(objects.get(NAME, "3"))
    assert said(error) == (504, "Timeout", "Timeout: Too large resource version: 3, current: 2")
    assert error.details is not None
    assert (error.details.causes[0].reason, error.details.retry_after_s) == (
        "ResourceVersionTooLarge",
        1,
    )


async def test_a_continued_list_takes_no_version_of_its_own(objects: Objects) -> None:
    for name in ("a.a", "b.b"):
        await objects.create(named(name))
    given = (await objects.list(ListOptions(limit=1))).metadata.continue_token
    asked = ListOptions(limit=1, continue_token=given, resource_version="2")
    assert "specifying resource version is not allowed" in str(await refusal(objects.list(asked)))


async def test_an_unreadable_object_is_a_500(objects: Objects, store: Store) -> None:
    await store.put(PREFIX + NAME, b"?")
    for doing in (objects.get(NAME), objects.create(named(), dry_run=True), objects.delete(NAME)):
        error = await refusal(doing)
        assert (error.code, error.reason) == (500, "InternalError")
        assert PREFIX + NAME in error.message
