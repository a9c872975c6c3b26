"""The OpenAPI document of each group-version, by the source that serves it."""

import asyncio
import gc
import pickle
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import crd_goldens
import orjson
import pytest
import zstandard
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_formats.openapi.keys import group_of
from apidiscovery_releases import newest
from apidiscovery_service import workers
from apidiscovery_service.core.model import Contribution, Offer, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import aggregated
from apidiscovery_service.openapi.body import DocumentForm
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.generated import MARK
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.declarations import Declarations, Declared
from apidiscovery_service.sources.document_recipes import DocumentRecipes
from crd_goldens import manifests
from crd_manifests import CRONTABS, crd, edited, simple
from fake_api_server import sha512
from groups import offer, resource
from openapi_documents import dangling
from openapi_recipes import LoopLag

_ANOTHER = {"openAPIV3Schema": {"type": "object", "description": "Another."}}


class FakeUpstreams:
    """Documents of upstreams, by source and key."""

    def __init__(self) -> None:
        self.recipes: dict[tuple[str, str], Recipe] = {}
        self.listeners: list[Callable[[frozenset[str]], None]] = []

    def recipe(self, source: str, key: str) -> Recipe | None:
        return self.recipes.get((source, key))

    def common(self) -> dict[str, Recipe]:
        return {key: one for (_, key), one in self.recipes.items() if group_of(key) is None}

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        self.listeners.append(listener)

    def publish(self, source: str, key: str, text: bytes) -> None:
        async def make() -> bytes:
            await asyncio.sleep(0)
            return text

        self.recipes[source, key] = Recipe(("upstream", text), make)
        for listener in self.listeners:
            listener(frozenset({group_of(key) or ""}))

    def withdraw(self, source: str, key: str) -> None:
        del self.recipes[source, key]
        for listener in self.listeners:
            listener(frozenset({group_of(key) or ""}))


class Served:
    """A registry with its sources and documents."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.declarations = Declarations(self.registry)
        self.upstreams = FakeUpstreams()
        self.crd_seconds: list[float] = []
        self.recipes = DocumentRecipes(
            self.registry, self.declarations, self.upstreams, self.crd_seconds.append
        )
        self.made: list[str] = []
        self.documents = Documents(self.recipes, lambda what, _: self.made.append(what))
        self.heard: list[set[str]] = []
        self.recipes.on_change(self.documents.changed)
        self.recipes.on_change(lambda groups: self.heard.append(set(groups)))

    def declare(self, origin: str, *documents: dict[str, Any], stale: bool = False) -> None:
        self.declarations.update({origin: Declared(crds=tuple(map(crd, documents)), stale=stale)})

    def offer(self, source: str, *offers: Offer) -> None:
        self.registry.publish(Contribution(source, Precedence.AGGREGATOR, offers))

    async def document(self, key: str) -> dict[str, Any]:
        body = await self.documents.body(key)
        assert body is not None
        found: dict[str, Any] = orjson.loads(body.data)
        return found


@pytest.fixture
def served() -> Served:
    return Served()


async def test_without_sources_there_is_only_the_document_of_version(served: Served) -> None:
    assert list((await served.documents.index()).entries) == ["version"]
    assert served.documents.warnings() == []


async def test_the_catalogue_with_real_definitions_equals_kubernetes(served: Served) -> None:
    served.registry.publish(kubernetes_catalog())
    served.declare("manifests:a", *manifests())
    discovery = aggregated.encode(served.registry.snapshot.named, Representation(JSON, "v2"))
    assert discovery == crd_goldens.discovery()
    index = await served.documents.whole_index()
    assert index.body == crd_goldens.index()
    assert len(served.crd_seconds) == len(crd_goldens.group_versions())
    assert all(seconds > 0 for seconds in served.crd_seconds)


async def test_the_catalogue_has_the_documents_of_a_kube_apiserver(served: Served) -> None:
    """Their hashes are recorded, so the index makes no document."""
    served.registry.publish(kubernetes_catalog())
    index = await served.documents.index()
    recorded = newest().openapi_index
    assert index.body == recorded
    assert served.made == ["index"]
    assert dict(index.notes) == {}
    assert served.documents.warnings() == []
    for key, stated in index.entries.items():
        body = await served.documents.body(key)
        assert body is not None
        assert sha512(body.data) == stated
        assert dangling(orjson.loads(body.data)) == []


@pytest.mark.parametrize("key", ["api/v1", "apis/storage.k8s.io/v1", "version"])
async def test_documents_have_a_protobuf_form(served: Served, key: str) -> None:
    served.registry.publish(kubernetes_catalog())
    text = await served.documents.body(key)
    protobuf = await served.documents.body(key, DocumentForm.PROTOBUF)
    assert text is not None
    assert protobuf is not None
    assert protobuf.hash == text.hash
    assert protobuf.data.startswith(b"\x0a\x053.0.0")


async def test_groups_of_others_have_no_document_of_the_group(served: Served) -> None:
    served.offer("upstream:a", offer("a.example/v1"))
    assert list((await served.documents.index()).entries) == ["apis/a.example/v1", "version"]


async def test_the_source_that_serves_a_group_version_provides_its_document(served: Served) -> None:
    served.registry.publish(kubernetes_catalog())
    assert MARK not in await served.document("apis/apps/v1")
    served.offer("upstream:a", offer("apps/v1", resources=(resource(),)))
    assert (await served.document("apis/apps/v1"))[MARK] == (
        "from discovery, for the source publishes no document"
    )
    served.upstreams.publish("upstream:a", "apis/apps/v1", b'{"openapi":"3.0.0"}')
    assert await served.document("apis/apps/v1") == {"openapi": "3.0.0"}
    assert "apis/apps" not in (await served.documents.index()).entries
    served.registry.withdraw("upstream:a")
    assert MARK not in await served.document("apis/apps/v1")


async def test_documents_of_upstreams_above_group_versions_come_before_our_own(
    served: Served,
) -> None:
    served.registry.publish(kubernetes_catalog())
    served.offer("upstream:a", offer("apps/v1", resources=(resource(),)))
    ours = {key: await served.document(key) for key in ("apis", "apis/batch", "version")}
    for key in ("apis", "apis/apps", "version", ".well-known/openid-configuration"):
        served.upstreams.publish("upstream:a", key, f'{{"of":"{key}"}}'.encode())
        assert await served.document(key) == {"of": key}
        assert key in (await served.documents.index()).entries
    assert await served.document("apis/batch") == ours["apis/batch"]
    for key in ("apis", "apis/apps", "version"):
        served.upstreams.withdraw("upstream:a", key)
    assert {key: await served.document(key) for key in ours} == ours


async def test_another_source_of_the_same_discovery_gives_its_own_document(served: Served) -> None:
    served.registry.publish(kubernetes_catalog())
    before = await served.documents.hash_of("apis/apps/v1")
    apps = next(one for one in kubernetes_catalog().offers if one.group == "apps")
    snapshot = served.registry.snapshot
    served.offer("upstream:a", apps)
    assert served.registry.snapshot is snapshot
    assert await served.documents.hash_of("apis/apps/v1") != before


async def test_origins_carry_documents(served: Served) -> None:
    def carry(text: bytes) -> None:
        documents = {"apis/a.example/v1": zstandard.compress(text)} if text else {}
        declared = Declared(offers=(offer("a.example/v1"),), documents=documents)
        served.declarations.update({"registrations:groups/a": declared})

    carry(b"")
    assert MARK in await served.document("apis/a.example/v1")
    carry(b'{"one":1}')
    assert await served.document("apis/a.example/v1") == {"one": 1}
    served.heard.clear()
    carry(b'{"two":2}')
    assert set().union(*served.heard) == {"a.example"}
    assert await served.document("apis/a.example/v1") == {"two": 2}
    served.declarations.update({}, ["registrations:groups/a"])
    assert await served.documents.body("apis/a.example/v1") is None


async def test_another_schema_of_a_version_is_another_document_of_that_version_alone(
    served: Served,
) -> None:
    served.declare("manifests:a", CRONTABS, simple("dogs", "b.example"))
    before = await served.documents.whole_index()
    served.made.clear()
    served.heard.clear()
    etag = served.registry.snapshot.named.etag
    crontabs = edited(CRONTABS, "spec.versions[1].schema", _ANOTHER)
    served.declare("manifests:a", crontabs, simple("dogs", "b.example"))
    assert served.registry.snapshot.named.etag == etag
    assert set().union(*served.heard) == {"stable.example.com"}
    after = await served.documents.whole_index()
    assert served.made.count("document") == 1
    differing = {key for key in after.entries if after.entries[key] != before.entries[key]}
    assert differing == {"apis/stable.example.com/v1beta1"}


async def test_one_definition_of_many_makes_one_document(served: Served) -> None:
    many = [simple("cats", f"g{number}.example") for number in range(40)]
    for document in many:
        served.declare(f"manifests:{document['spec']['group']}", document)
    before = await served.documents.index()
    served.made.clear()
    one = edited(many[7], "spec.names.shortNames", ["c"])
    served.declare("manifests:g7.example", one)
    assert await served.documents.index() is before
    assert served.made == ["document", "index"]


async def test_only_established_definitions_have_a_document(served: Served) -> None:
    loser = simple("curs", singular="cat", created="2030-01-01T00:00:00Z")
    winner = simple("cats", created="2020-01-01T00:00:00Z")
    served.declare("manifests:a", loser, winner)
    assert not any("curs" in path for path in (await served.document("apis/a.example/v1"))["paths"])
    served.declare("manifests:a", loser)
    assert any("curs" in path for path in (await served.document("apis/a.example/v1"))["paths"])


async def test_versions_that_are_not_served_have_no_document(served: Served) -> None:
    served.declare("manifests:a", CRONTABS)
    assert list((await served.documents.index()).entries) == [
        "apis/stable.example.com/v1",
        "apis/stable.example.com/v1beta1",
        "version",
    ]


async def test_a_stale_group_version_keeps_its_document(served: Served) -> None:
    served.declare("manifests:a", CRONTABS)
    served.offer("upstream:a", offer("b.example/v1"))
    before = await served.documents.index()
    served.made.clear()
    served.declare("manifests:a", CRONTABS, stale=True)
    served.offer("upstream:a", offer("b.example/v1", freshness="Stale"))
    assert (
        served.registry.snapshot.named.by_name["b.example"].group.versions[0].freshness == "Stale"
    )
    assert await served.documents.index() is before
    assert served.made == []


async def test_a_document_that_cannot_be_made_comes_from_discovery(served: Served) -> None:
    cats = simple("cats", listKind="CatDogs")
    dogs = edited(simple("dogs"), "spec.names.kind", "CatDogsOf")
    clash = edited(simple("birds"), "spec.names", {"plural": "birds", "kind": "Bird"})
    served.declare("manifests:a", cats, dogs, clash)
    assert MARK not in await served.document("apis/a.example/v1")

    async def broken() -> bytes:
        await asyncio.sleep(0)
        raise OSError("no such place")

    served.offer("upstream:a", offer("a.example/v1", resources=(resource(),)))
    served.upstreams.recipes["upstream:a", "apis/a.example/v1"] = Recipe("broken", broken)
    document = await served.document("apis/a.example/v1")
    assert document[MARK] == (
        "from discovery, for the document cannot be made: the document could not be read"
    )
    assert "/apis/a.example/v1/namespaces/{namespace}/widgets" in document["paths"]


def _many(count: int) -> Iterable[dict[str, Any]]:
    return (simple("cats", f"g{number}.example") for number in range(count))


async def _index_of(served: Served, count: int) -> int:
    index = await served.documents.whole_index()
    assert len(index.entries) == count + 1
    return len(index.body)


async def _lag_of(work: Awaitable[object]) -> float:
    async with LoopLag() as lag:
        await work
    return lag.longest_s


async def test_the_loop_goes_on_while_documents_are_made(served: Served) -> None:
    large = (simple(f"cat{number}s", "large.example") for number in range(200))
    served.declare("manifests:a", *_many(100), *large)
    assert await _lag_of(_index_of(served, 101)) < 0.02
    assert max(served.crd_seconds) > 0.02  # so one made on the loop would be seen


async def test_of_thousands_of_documents_hashes_are_kept(served: Served) -> None:
    count = 300
    served.declare("manifests:a", *_many(count))
    await served.document("apis/g0.example/v1")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        text = await _index_of(served, count)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before - 2 * text) / count < 1800


async def test_many_versions_cost_as_much_as_many_definitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither input nor look-ups grow with the square of their number."""
    number = 60
    first = CRONTABS["spec"]["versions"][0]
    versions = [{**first, "name": f"v{n}", "storage": n == 1} for n in range(1, number + 1)]
    document = edited(CRONTABS, "spec.versions", versions)
    served = Served()
    served.declare("manifests:a.yaml", document)
    read, looked_at = 0, 0
    run, of_group = workers.run, served.recipes.of_group

    async def counted_run(function: Callable[..., object], *given: object) -> object:
        nonlocal read
        read += len(pickle.dumps((function, given)))
        return await run(function, *given)

    def counted_of_group(group: str) -> Mapping[str, Recipe]:
        nonlocal looked_at
        looked_at += 1
        return of_group(group)

    monkeypatch.setattr(workers, "run", counted_run)
    monkeypatch.setattr(workers, "INLINE_BYTES", 0)
    monkeypatch.setattr(served.recipes, "of_group", counted_of_group)
    index = await served.documents.index()
    assert len(index.entries) == number + 1
    assert number < read < 3 * len(orjson.dumps(document))
    await served.documents.merged_v2()
    assert looked_at < 5


@pytest.mark.parametrize(("count", "calls"), [(8, 0), (9, 1)])
async def test_documents_of_few_resources_need_no_worker(
    monkeypatch: pytest.MonkeyPatch, served: Served, count: int, calls: int
) -> None:
    called: list[object] = []

    async def counted_run(function: Callable[[], object]) -> object:
        called.append(function)
        return function()

    monkeypatch.setattr(workers, "run", counted_run)
    served.declare("manifests:a", *(simple(f"cat{n}s", "a.example") for n in range(count)))
    await served.documents.index()
    assert len(called) == calls
