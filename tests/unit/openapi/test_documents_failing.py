"""Documents that cannot be made: fallbacks, retries and timeouts."""

import asyncio
from collections.abc import Mapping

import orjson
import pytest
from apidiscovery_service.openapi import documents as documents_module
from apidiscovery_service.openapi import making
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.making import DocumentUnavailable
from apidiscovery_service.openapi.recipe import Recipe
from fake_api_server import sha512
from openapi_recipes import FakeRecipes, recipes_of
from structlog.testing import capture_logs
from waiting import WITHIN_S, until

pytestmark = pytest.mark.usefixtures("fake_workers")


async def test_a_document_that_cannot_be_made_is_replaced() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    recipes.failing["apis/a.example/v1"] = InvalidOpenAPI(("spec", 0), "wanted more")
    documents = Documents(recipes, cache_bytes=0)
    instead = b'{"why":"$.spec[0]: wanted more"}'
    with capture_logs() as logs:
        index = await documents.index()
        assert index.entries["apis/a.example/v1"] == sha512(instead)
        assert index.notes == {"apis/a.example/v1": "cannot be made: $.spec[0]: wanted more"}
        for _ in range(2):
            body = await documents.body("apis/a.example/v1")
            assert body is not None
            assert (body.data, body.hash) == (instead, sha512(instead))
    assert recipes.makes["apis/a.example/v1"] == 1
    assert documents.warnings() == ["apis/a.example/v1: cannot be made: $.spec[0]: wanted more"]
    assert str(logs).count("wanted more") == 1


async def test_a_document_that_could_not_be_read_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "apis/a.example/v1"
    recipes = recipes_of(key)
    recipes.failing[key] = OSError("the secret place is not there")
    documents = Documents(recipes)
    monkeypatch.setattr(making, "_RETRY_S", 0.0)
    instead = sha512(b'{"why":"the document could not be read"}')
    with capture_logs() as logs:
        while recipes.makes[key] < 3:
            await asyncio.sleep(0)
            assert (await documents.index()).entries == {key: instead}
            assert await documents.hash_of(key) == instead
            assert documents.warnings() == [
                f"{key}: cannot be made: the document could not be read"
            ]
    assert str(logs).count("an OpenAPI document could not be read") == 1
    recipes.failing.clear()

    async def is_made() -> bool:
        return await documents.hash_of(key) != instead

    await until(is_made, "the document is made")
    assert await documents.hash_of(key) == sha512(b'{"of":"apis/a.example/v1"}')
    assert documents.warnings() == []


async def test_a_document_of_a_known_hash_is_not_replaced_while_it_cannot_be_read() -> None:
    key = "apis/a.example/v1"
    recipes = recipes_of(key)
    known = recipes.stated[key] = sha512(recipes.texts["a.example"][key])
    recipes.failing[key] = OSError("the store is away")
    documents = Documents(recipes)
    for _ in range(2):
        assert (await documents.index()).entries == {key: known}
        with pytest.raises(DocumentUnavailable, match="could not be read"):
            await documents.body(key)
    recipes.failing.clear()
    body = await documents.body(key)
    assert body is not None
    assert body.hash == known


async def test_a_failure_is_not_tried_again_at_once() -> None:
    key = "apis/a.example/v1"
    recipes = recipes_of(key)
    recipes.failing[key] = OSError("not there")
    documents = Documents(recipes)
    await documents.index()
    recipes.failing.clear()
    await documents.index()
    await documents.body(key)
    assert recipes.makes[key] == 1


async def test_without_a_document_in_its_place_it_is_unavailable() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    recipes.fallbacks = False
    recipes.failing["apis/a.example/v1"] = InvalidOpenAPI((), "is bad")
    documents = Documents(recipes)
    for _ in range(2):
        assert list((await documents.index()).entries) == ["apis/b.example/v1"]
        with pytest.raises(DocumentUnavailable, match=r"apis/a.example/v1 .* is bad"):
            await documents.hash_of("apis/a.example/v1")
        with pytest.raises(DocumentUnavailable):
            await documents.body("apis/a.example/v1")
    assert recipes.makes["apis/a.example/v1"] == 1
    recipes.texts["a.example"]["apis/a.example/v1"] = b"{}"
    recipes.failing.clear()
    documents.changed(["a.example"])
    assert await documents.hash_of("apis/a.example/v1") == sha512(b"{}")


async def test_equal_failures_are_one_warning() -> None:
    recipes = recipes_of(*(f"apis/g{number}.example/v1" for number in range(5)))
    recipes.failing = {key: InvalidOpenAPI((), "is bad") for key in recipes.texts["g0.example"]}
    for number in range(1, 5):
        recipes.failing[f"apis/g{number}.example/v1"] = InvalidOpenAPI((), "is worse")
    documents = Documents(recipes)
    await documents.index()
    names = "apis/g1.example/v1, apis/g2.example/v1, apis/g3.example/v1 and 1 more"
    assert documents.warnings() == [
        "apis/g0.example/v1: cannot be made: $: is bad",
        f"{names}: cannot be made: $: is worse",
    ]


async def test_a_note_is_no_warning() -> None:
    recipes = recipes_of("apis/a.example/v1")
    recipes.notes = {"apis/a.example/v1": "from discovery"}
    documents = Documents(recipes)
    assert (await documents.index()).notes == recipes.notes
    assert documents.warnings() == []


async def test_a_document_in_the_place_of_another_is_the_one_that_is_stated() -> None:
    key = "apis/a.example/v1"
    recipes = recipes_of(key)
    recipes.failing[key] = InvalidOpenAPI((), "is bad")
    documents = Documents(recipes)
    before = await documents.hash_of(key)
    recipes.discovery = '"new":1,'
    documents.changed(["a.example"])
    body = await documents.body(key)
    assert body is not None
    assert body.data == b'{"new":1,"why":"$: is bad"}'
    assert await documents.hash_of(key) == body.hash != before
    assert (await documents.index()).entries == {key: body.hash}


async def test_a_document_that_never_arrives_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"apis/g{number}.example/v1" for number in range(100)]
    recipes = recipes_of(*keys)
    recipes.hanging = set(keys[:50])
    monkeypatch.setattr(making, "_TURN_S", 0.001)
    monkeypatch.setattr(making, "_TIMEOUT_S", 0.5)
    documents = Documents(recipes)
    async with asyncio.timeout(WITHIN_S):
        index = await documents.index()
    late = {key for key in keys if index.notes.get(key)}
    assert late == recipes.hanging
    assert {index.entries[key] for key in late} == {sha512(b'{"why":"the document took too long"}')}
    assert recipes.at_once <= 16


async def test_a_document_that_does_not_arrive_delays_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [f"apis/g{number}.example/v1" for number in range(30)]
    recipes = recipes_of(*keys)
    monkeypatch.setattr(making, "_TURN_S", 0.001)
    documents = Documents(recipes)
    before = await documents.index()
    monkeypatch.setattr(documents_module, "_INDEX_WAIT_S", 0.05)
    for number, key in enumerate(keys):
        recipes.texts[f"g{number}.example"][key] = b"{}"
    recipes.hanging = set(keys[:20])
    documents.changed(f"g{number}.example" for number in range(30))
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*map(documents.body, keys[20:]))
        first, second = await documents.index(), await documents.index()
        third = await documents.index()
    assert first.entries.keys() == second.entries.keys() == set(keys)
    assert {key for key in keys if third.entries[key] == before.entries[key]} == recipes.hanging
    recipes.released.set()
    for _ in range(1000):
        await asyncio.sleep(0)
        if set((await documents.index()).entries.values()) == {sha512(b"{}")}:
            break
    assert set((await documents.index()).entries.values()) == {sha512(b"{}")}
    assert set(recipes.makes.values()) == {2}


async def test_the_first_index_lists_slow_documents_without_a_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, quick = "apis/a.example/v1", "apis/b.example/v1"
    recipes = recipes_of(slow, quick)
    recipes.hanging.add(slow)
    monkeypatch.setattr(documents_module, "_INDEX_WAIT_S", 2.0)
    documents = Documents(recipes)
    async with asyncio.timeout(WITHIN_S):
        index = await documents.index()
        monkeypatch.setattr(documents_module, "_INDEX_WAIT_S", 1000.0)
        assert await documents.index() is index  # it waits for the same but once
        recipes.texts["b.example"][quick] = b"{}"
        documents.changed(["b.example"])
        assert (await documents.index()).entries == {slow: "", quick: sha512(b"{}")}
        asked = asyncio.create_task(documents.body(slow))
        recipes.released.set()
        body = await asked
        assert body is not None
        assert (await documents.index()).entries[slow] == body.hash
    urls = orjson.loads(index.body)["paths"]
    assert urls[slow] == {"serverRelativeURL": f"/openapi/v3/{slow}"}
    assert urls[quick] == {"serverRelativeURL": f"/openapi/v3/{quick}?hash={index.entries[quick]}"}
    assert recipes.makes == {slow: 1, quick: 2}


async def test_a_document_that_is_asked_for_waits_for_few_of_an_index() -> None:
    keys = [f"apis/g{number}.example/v1" for number in range(100)]
    recipes = recipes_of(*keys)
    recipes.gate = asyncio.Event()
    documents = Documents(recipes)
    index = asyncio.create_task(documents.index())
    for _ in range(50):
        await asyncio.sleep(0)
    last = next(key for key in keys if not recipes.makes[key])
    asked = asyncio.create_task(documents.body(last))
    for _ in range(20):
        await asyncio.sleep(0)
    recipes.gate.set()
    await asked
    assert recipes.makes.total() < 10
    await index


async def test_the_merged_document_waits_for_slow_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, quick = "apis/a.example/v1", "apis/b.example/v1"
    recipes = recipes_of(slow, quick)
    recipes.hanging.add(slow)
    monkeypatch.setattr(documents_module, "_INDEX_WAIT_S", 2.0)
    documents = Documents(recipes)
    merging = asyncio.create_task(documents.merged_v2())
    assert "" in (await documents.index()).entries.values()
    recipes.released.set()
    merged = await merging
    assert await documents.merged_v2() == merged
    assert recipes.makes == {slow: 2, quick: 2}  # for their hashes, and to be merged


async def test_a_retry_changes_nothing_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "apis/a.example/v1"
    recipes = recipes_of(key)
    recipes.failing[key] = OSError("not there")
    documents = Documents(recipes)
    monkeypatch.setattr(making, "_RETRY_S", 0.0)
    before = await documents.index()
    recipes.hanging.add(key)
    async with asyncio.timeout(WITHIN_S):
        assert await documents.index() is before
        await recipes.until_begun(key, 2)
        assert await documents.index() is before
        assert await documents.hash_of(key) == before.entries[key]
        body = await documents.body(key)
    assert body is not None
    assert body.hash == before.entries[key]
    recipes.released.set()


async def test_a_listed_document_stays_listed_while_it_cannot_be_read() -> None:
    key = "apis/a.example/v1"
    recipes = recipes_of(key)
    recipes.fallbacks = False
    documents = Documents(recipes)
    before = await documents.index()
    recipes.texts["a.example"][key] = b"{}"
    recipes.failing[key] = OSError("not there")
    documents.changed(["a.example"])
    assert (await documents.index()).entries == before.entries
    with pytest.raises(DocumentUnavailable):
        await documents.body(key)


async def test_a_group_whose_recipes_could_not_be_read_is_read_again() -> None:
    class Broken(FakeRecipes):
        broken = True

        def of_group(self, group: str) -> Mapping[str, Recipe]:
            if self.broken:
                raise OSError(group)
            return super().of_group(group)

    recipes = Broken({"a.example": {"apis/a.example/v1": b"{}"}})
    documents = Documents(recipes)
    with pytest.raises(OSError, match=r"a\.example"):
        await documents.index()
    recipes.broken = False
    assert list((await documents.index()).entries) == ["apis/a.example/v1"]
