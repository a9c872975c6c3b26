"""Documents that are made on request, and cached by hash."""

import asyncio
import gzip
import pickle
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager

import orjson
import pytest
import zstandard
from apidiscovery_service import workers
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.openapi import body_cache
from apidiscovery_service.openapi.body import Body, DocumentForm, make_index, pack
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.making import DocumentUnavailable
from apidiscovery_service.openapi.v2 import merge
from fake_api_server import sha512
from openapi_recipes import FakeRecipes, FakeWorkers, LoopLag, recipes_of
from repository import GOLDEN

pytestmark = pytest.mark.usefixtures("fake_workers")

GOLDEN_INDEX = GOLDEN / "crds" / "openapi" / "openapi.v3.index.json"

LARGE = b'{"large":"' + b"x" * 5000 + b'"}'


@contextmanager
def traced() -> Generator[Callable[[], int]]:
    """Trace memory; yield a function that returns the bytes in use."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_index_bytes_are_kubernetes() -> None:
    golden = GOLDEN_INDEX.read_bytes()
    paths = orjson.loads(golden)["paths"]
    hashes = {key: paths[key]["serverRelativeURL"].partition("?hash=")[2] for key in paths}
    index = make_index(dict(reversed(hashes.items())), {"version": "a note", "gone": "another"})
    assert index.body == golden
    assert index.etag == sha512(golden)
    assert list(index.entries.items()) == sorted(hashes.items())
    assert index.notes == {"version": "a note"}


async def test_index_states_the_hash_of_each_document() -> None:
    recipes = recipes_of("apis/b.example/v1", "api/v1", "apis/a.example/v2", "apis/a.example/v1")
    recipes.shared["version"] = b"{}"
    recipes.notes["api/v1"] = "made up"
    index = await Documents(recipes).index()
    assert list(index.entries) == [
        "api/v1",
        "apis/a.example/v1",
        "apis/a.example/v2",
        "apis/b.example/v1",
        "version",
    ]
    assert index.entries["api/v1"] == sha512(b'{"of":"api/v1"}')
    assert index.notes == {"api/v1": "made up"}


async def test_an_empty_index_is_an_index() -> None:
    assert (await Documents(FakeRecipes({})).index()).body == b'{"paths":{}}'


async def test_nothing_is_made_before_it_is_asked_for() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    documents = Documents(recipes)
    documents.changed(["a.example"])
    assert not recipes.makes
    assert not recipes.looked_at
    assert await documents.hash_of("apis/b.example/v1") == sha512(b'{"of":"apis/b.example/v1"}')
    assert recipes.makes == {"apis/b.example/v1": 1}


async def test_one_change_makes_one_document() -> None:
    recipes = recipes_of(*(f"apis/g{number}.example/v1" for number in range(50)))
    documents = Documents(recipes)
    before = await documents.index()
    recipes.makes.clear()
    recipes.looked_at.clear()
    recipes.texts["g7.example"]["apis/g7.example/v1"] = b"{}"
    documents.changed(["g7.example", "g8.example"])
    after = await documents.index()
    assert recipes.makes == {"apis/g7.example/v1": 1}
    assert set(recipes.looked_at) == {"g7.example", "g8.example"}
    differing = {key for key in after.entries if after.entries[key] != before.entries[key]}
    assert differing == {"apis/g7.example/v1"}


async def test_an_index_of_the_same_documents_is_the_same() -> None:
    recipes = recipes_of("apis/a.example/v1")
    documents = Documents(recipes)
    before = await documents.index()
    documents.changed(["a.example"])
    assert await documents.index() is before


async def test_groups_come_and_go() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    documents = Documents(recipes)
    await documents.index()
    recipes.texts["c.example"] = {"apis/c.example/v1": b"{}"}
    del recipes.texts["a.example"]
    documents.changed(["a.example", "c.example"])
    assert await documents.hash_of("apis/a.example/v1") is None
    assert await documents.body("apis/a.example/v1") is None
    assert list((await documents.index()).entries) == ["apis/b.example/v1", "apis/c.example/v1"]
    assert await documents.body("apis/never.example/v1") is None


async def test_a_document_out_of_place_is_not_served() -> None:
    recipes = recipes_of("apis/a.example/v1")
    recipes.texts["a.example"]["apis/b.example/v1"] = b"{}"
    assert list((await Documents(recipes).index()).entries) == ["apis/a.example/v1"]


async def test_concurrent_callers_share_one_document(fake_workers: FakeWorkers) -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1", "apis/c.example/v1")
    recipes.gate = asyncio.Event()
    documents = Documents(recipes)
    key = "apis/b.example/v1"
    asked = [asyncio.ensure_future(documents.index()) for _ in range(3)]
    hashes = [asyncio.ensure_future(documents.hash_of(key)) for _ in range(3)]
    bodies = [asyncio.ensure_future(documents.body(key, DocumentForm.PROTOBUF)) for _ in range(3)]
    await asyncio.sleep(0)
    recipes.gate.set()
    indexes = await asyncio.gather(*asked)
    assert indexes[0] is indexes[1] is indexes[2]
    assert set(await asyncio.gather(*hashes)) == {indexes[0].entries[key]}
    found = await asyncio.gather(*bodies)
    assert {body.data for body in found if body} == {b'v3:{"of":"apis/b.example/v1"}'}
    assert set(recipes.makes.values()) == {1}
    assert fake_workers.calls["v3"] == 1


async def test_at_most_two_are_made_at_a_time() -> None:
    keys = [f"apis/g{number}.example/v1" for number in range(20)]
    recipes = recipes_of(*keys)
    documents = Documents(recipes)
    await asyncio.gather(documents.index(), *map(documents.body, keys))
    assert recipes.at_once == 2


async def test_a_cancelled_caller_does_not_cancel_the_others() -> None:
    recipes = recipes_of("apis/a.example/v1")
    recipes.gate = asyncio.Event()
    documents = Documents(recipes)
    impatient = asyncio.create_task(documents.index())
    patient = asyncio.create_task(documents.index())
    await asyncio.sleep(0)
    impatient.cancel()
    recipes.gate.set()
    assert list((await patient).entries) == ["apis/a.example/v1"]
    assert recipes.makes == {"apis/a.example/v1": 1}


async def test_an_index_has_all_changes_from_before_its_request() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    recipes.gate = asyncio.Event()
    documents = Documents(recipes)
    first = asyncio.create_task(documents.index())
    await recipes.until_begun("apis/a.example/v1")
    recipes.texts["a.example"]["apis/a.example/v1"] = b"{}"
    documents.changed(["a.example"])
    second = asyncio.create_task(documents.index())
    await asyncio.sleep(0)
    recipes.gate.set()
    assert (await first).entries.keys() == {"apis/a.example/v1", "apis/b.example/v1"}
    assert (await second).entries["apis/a.example/v1"] == sha512(b"{}")


async def test_a_document_that_changes_during_a_run_is_listed_with_a_valid_hash() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    documents = Documents(recipes)
    before = await documents.index()
    recipes.gate = asyncio.Event()
    recipes.texts["b.example"]["apis/b.example/v1"] = b"{}"
    documents.changed(["b.example"])
    run = asyncio.create_task(documents.index())
    await recipes.until_begun("apis/b.example/v1", times=2)
    recipes.texts["a.example"]["apis/a.example/v1"] = b'{"new":1}'
    documents.changed(["a.example"])
    asked = asyncio.create_task(documents.hash_of("apis/a.example/v1"))
    recipes.gate.set()
    during = await run
    assert during.entries["apis/b.example/v1"] == sha512(b"{}")
    assert during.entries["apis/a.example/v1"] in {
        before.entries["apis/a.example/v1"],
        sha512(b'{"new":1}'),
    }
    assert await asked == sha512(b'{"new":1}')
    assert (await documents.index()).entries["apis/a.example/v1"] == sha512(b'{"new":1}')


async def test_a_body_has_the_hash_of_its_own_document() -> None:
    recipes = recipes_of("apis/a.example/v1")
    recipes.gate = asyncio.Event()
    documents = Documents(recipes)
    key = "apis/a.example/v1"
    early = asyncio.create_task(documents.body(key))
    await recipes.until_begun(key)
    recipes.texts["a.example"][key] = b"{}"
    documents.changed(["a.example"])
    late = asyncio.create_task(documents.body(key))
    await asyncio.sleep(0)
    recipes.gate.set()
    for body in await asyncio.gather(early, late):
        assert body is not None
        assert body.hash == sha512(body.data)
    assert await documents.hash_of(key) == sha512(b"{}")


def decoded(body: Body) -> bytes:
    if body.coding == "gzip":
        return gzip.decompress(body.data)
    return zstandard.decompress(body.data) if body.coding == "zstd" else body.data


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
@pytest.mark.parametrize(
    ("form", "text"), [(DocumentForm.JSON, LARGE), (DocumentForm.PROTOBUF, b"v3:" + LARGE)]
)
async def test_bodies_come_in_forms_and_codings(
    form: DocumentForm, text: bytes, coding: Coding
) -> None:
    recipes = FakeRecipes({"": {"api/v1": LARGE}})
    documents = Documents(recipes)
    bodies = [await documents.body("api/v1", form, coding) for _ in range(2)]
    for body in bodies:
        assert body is not None
        assert (body.key, body.hash, body.coding) == ("api/v1", sha512(LARGE), coding)
        assert decoded(body) == text
    assert recipes.makes == {"api/v1": 1}


async def test_small_bodies_are_not_compressed() -> None:
    documents = Documents(recipes_of("api/v1"))
    for _ in range(2):
        body = await documents.body("api/v1", DocumentForm.PROTOBUF, "zstd")
        assert body is not None
        assert (body.coding, body.data) == ("identity", b'v3:{"of":"api/v1"}')


async def test_evicted_bodies_are_made_again() -> None:
    texts = {f"apis/a.example/v{number}": LARGE + b" " * number for number in range(1, 5)}
    recipes = FakeRecipes({"a.example": texts})
    documents = Documents(recipes, cache_bytes=2 * 6000)
    for _ in range(2):
        for key, text in texts.items():
            body = await documents.body(key)
            assert body is not None
            assert body.data == text
    assert set(recipes.makes.values()) == {2}
    await documents.body("apis/a.example/v4")
    assert recipes.makes["apis/a.example/v4"] == 2


async def test_a_document_is_made_once_for_its_hash_and_its_body() -> None:
    recipes = recipes_of("apis/a.example/v1")
    documents = Documents(recipes)
    await documents.hash_of("apis/a.example/v1")
    await documents.body("apis/a.example/v1", DocumentForm.PROTOBUF)
    assert recipes.makes == {"apis/a.example/v1": 1}


@pytest.mark.parametrize("asked_before", [False, True])
async def test_groups_that_come_and_go_leave_nothing(*, asked_before: bool) -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    documents = Documents(recipes)
    if asked_before:
        await documents.index()
    documents.changed(["warm.example"])
    with traced() as size:
        for number in range(20_000):
            documents.changed([f"gone{number}.example"])
        assert size() < 500_000
    recipes.texts["c.example"] = {"apis/c.example/v1": b"{}"}
    del recipes.texts["b.example"]
    documents.changed(["b.example", "c.example"])
    assert list((await documents.index()).entries) == ["apis/a.example/v1", "apis/c.example/v1"]


async def test_requests_for_unknown_documents_take_no_memory() -> None:
    documents = Documents(recipes_of("apis/a.example/v1"))
    await documents.index()
    generation = documents.generation
    with traced() as size:
        for number in range(2000):
            assert await documents.body(f"apis/none{number}.example/v1") is None
        assert size() < 200_000 + 100 * 2000  # the recipes count what they are asked for
    assert documents.generation == generation


async def test_protobuf_of_a_large_document_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_cache, "ENCODED_BYTES", 100)
    documents = Documents(FakeRecipes({"": {"api/v1": LARGE}}))
    with pytest.raises(InvalidOpenAPI, match="takes 5012 bytes as JSON; up to 100 "):
        await documents.body("api/v1", DocumentForm.PROTOBUF)
    assert await documents.body("api/v1") is not None


@pytest.mark.parametrize("form", DocumentForm)
@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
async def test_the_merged_document_is_cached_without_room_for_bodies(
    form: DocumentForm, coding: Coding, fake_workers: FakeWorkers
) -> None:
    recipes = FakeRecipes({"": {"api/v1": LARGE}})
    documents = Documents(recipes, cache_bytes=0)
    text = b"Kubernetes|api/v1=" + LARGE
    for _ in range(3):
        body = await documents.merged_v2(form, coding)
        assert body.coding == coding
        assert isinstance(body, Body)
        assert decoded(body) == (text if form is DocumentForm.JSON else b"v2:" + text)
        assert body.hash == sha512(text)
    assert fake_workers.calls["merged"] == 1


async def test_a_merged_document_that_is_too_large_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipes = FakeRecipes({"": {"api/v1": LARGE, "api/v2": LARGE, "api/v3": LARGE}})
    monkeypatch.setattr(merge, "MAX_BYTES", 8000)
    documents = Documents(recipes)
    await documents.index()
    recipes.makes.clear()
    for _ in range(2):
        with pytest.raises(DocumentUnavailable, match=r"/openapi/v2 .* more than 8000 bytes"):
            await documents.merged_v2()
    assert recipes.makes == {"api/v1": 1, "api/v2": 1, "api/v3": 1}
    recipes.texts[""] = {"api/v1": LARGE}
    documents.changed([""])
    assert (await documents.merged_v2()).data == b"Kubernetes|api/v1=" + LARGE


async def test_the_merged_document_is_made_once_for_an_index(fake_workers: FakeWorkers) -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    documents = Documents(recipes)
    text = (
        b'Kubernetes|apis/a.example/v1={"of":"apis/a.example/v1"}'
        b'|apis/b.example/v1={"of":"apis/b.example/v1"}'
    )
    asked = [
        documents.merged_v2(),
        documents.merged_v2(DocumentForm.PROTOBUF),
        documents.merged_v2(),
    ]
    found = await asyncio.gather(*asked)
    assert [body.data for body in found] == [text, b"v2:" + text, text]
    assert {body.hash for body in found} == {sha512(text)}
    await documents.merged_v2(DocumentForm.PROTOBUF)
    assert fake_workers.calls == {"merged": 1, "v2": 1}
    assert documents.warnings() == ["a note of merging"]
    recipes.texts["b.example"]["apis/b.example/v1"] = b"{}"
    documents.changed(["b.example"])
    body = await documents.merged_v2()
    assert isinstance(body, Body)
    assert body.data.endswith(b"|apis/b.example/v1={}")
    assert fake_workers.calls["merged"] == 2


async def test_a_merge_under_way_serves_only_those_for_whom_it_is_new_enough(
    fake_workers: FakeWorkers,
) -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    fake_workers.go_on.clear()
    documents = Documents(recipes, cache_bytes=0)
    early = asyncio.create_task(documents.merged_v2())
    await fake_workers.merging.wait()
    same = asyncio.create_task(documents.merged_v2(DocumentForm.PROTOBUF))
    await asyncio.sleep(0)
    recipes.texts["b.example"]["apis/b.example/v1"] = b"{}"
    documents.changed(["b.example"])
    await documents.index()
    late = [asyncio.create_task(documents.merged_v2(form)) for form in DocumentForm]
    await asyncio.sleep(0)
    fake_workers.go_on.set()
    await asyncio.gather(early, same)
    for body in await asyncio.gather(*late):
        assert isinstance(body, Body)
        assert body.data.endswith(b"|apis/b.example/v1={}")
    assert fake_workers.calls["merged"] == 2


async def test_a_hash_that_is_known_beforehand_needs_no_document() -> None:
    recipes = recipes_of("apis/a.example/v1", "apis/b.example/v1")
    right = sha512(b'{"of":"apis/a.example/v1"}')
    recipes.stated = {"apis/a.example/v1": right, "apis/b.example/v1": "WRONG"}
    documents = Documents(recipes)
    assert dict((await documents.index()).entries) == recipes.stated
    assert not recipes.makes
    for key in recipes.stated:
        body = await documents.body(key)
        assert body is not None
        assert body.hash == sha512(body.data)
        assert (await documents.index()).entries[key] == body.hash


async def test_durations_are_observed() -> None:
    seen: list[str] = []
    recipes = FakeRecipes({"": {"api/v1": LARGE}})
    documents = Documents(recipes, lambda what, _: seen.append(what))
    await documents.index()
    await documents.body("api/v1", DocumentForm.PROTOBUF, "gzip")
    await documents.merged_v2()
    assert seen == ["document", "index", "document", "protobuf", "gzip", "merged"]


async def test_the_loop_goes_on_while_an_index_is_made() -> None:
    recipes = recipes_of(*(f"apis/g{number}.example/v1" for number in range(2000)))
    documents = Documents(recipes)
    async with LoopLag() as lag:
        index = await documents.index()
    assert len(index.entries) == 2000
    assert lag.longest_s < 0.02


async def test_documents_that_were_not_requested_take_memory_for_their_hash_alone() -> None:
    texts = {f"g{n}.example": {f"apis/g{n}.example/v1": b""} for n in range(3000)}
    recipes = FakeRecipes(texts)
    for group, of_group in texts.items():
        of_group[f"apis/{group}/v1"] = orjson.dumps({"title": group, "text": "x" * 2000})
    documents = Documents(recipes)
    with traced() as size:
        index = await documents.whole_index()
        # The body is there twice, and orjson may have taken half as much again to write it.
        assert (size() - 2.5 * len(index.body)) / len(index.entries) < 1200


async def test_the_reason_why_no_worker_can_encode_a_document_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipes = FakeRecipes({"": {"api/v1": LARGE}})
    documents = Documents(recipes)

    async def fail(*_: object) -> object:
        raise workers.WorkerFailed("it takes more than 60 s")

    monkeypatch.setattr(workers, "run", fail)
    with pytest.raises(InvalidOpenAPI, match="cannot be written as protobuf: it takes more than"):
        await documents.body("api/v1", DocumentForm.PROTOBUF)


TEXT = bytes(range(256)) * 8


def test_concurrent_readers_share_one_text() -> None:
    packed = pack(TEXT)
    first = packed.unpacked()
    assert first.text == TEXT
    assert packed.part(5, 10).unpacked() is first


def test_a_packed_text_is_pickled_compressed() -> None:
    packed = pack(TEXT)
    packed.unpacked()
    assert len(pickle.dumps(packed)) < len(TEXT)
    assert pickle.loads(pickle.dumps(packed)) == packed  # noqa: S301 - our own
