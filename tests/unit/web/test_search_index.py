"""The search: results, their order, and the building of the index."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Version
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi.body import Body, DocumentForm, Index
from apidiscovery_service.web.name_search import Match, Names
from apidiscovery_service.web.search_building import IndexBuilder, Progress
from apidiscovery_service.web.search_fields import schema_fields
from apidiscovery_service.web.search_index import SearchIndex, words
from schema_kinds import MadeUpDocuments, document_of


def document(kind: str, **descriptions: str) -> bytes:
    properties = {
        name: {"type": "string", "description": text} for name, text in descriptions.items()
    }
    return document_of("a.example", "v1", {kind: properties})


def index_of(**documents: bytes) -> SearchIndex:
    index = SearchIndex()
    for name, text in documents.items():
        index.add(name, schema_fields(text, "apis/a.example/v1"))
    return index


def found(index: SearchIndex, text: str, *documents: str) -> list[str]:
    """Return the kinds and paths that are found in documents."""
    hits = index.find(text, frozenset(documents))
    return [f"{use[2]} {use[3]}" for hit in hits for uses in hit.documents.values() for use in uses]


def test_names_come_before_words_of_names_and_those_before_descriptions() -> None:
    text = document(
        "Widget",
        other="says what a strategy is, strategy by strategy",
        strategyOfUpdates="text",
        strategy="a very long text about something else " * 20,
    )
    assert found(index_of(one=text), "strategy", "one") == [
        "Widget spec.strategy",
        "Widget spec.strategyOfUpdates",
        "Widget spec.other",
    ]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        pytest.param("maxSurge", True, id="name"),
        pytest.param("max surge", True, id="words-of-a-name"),
        pytest.param("MAXSU", True, id="begin-of-a-name"),
        pytest.param("spec.maxSurge", True, id="path"),
        pytest.param("status.maxSurge", False, id="another-path"),
        pytest.param("pods scheduled", True, id="words-of-a-description"),
        pytest.param("pod schedule", True, id="other-forms-of-the-words"),
        pytest.param('"pods" AND (scheduled*', False, id="operators-are-words"),
        pytest.param("NOT maxSurge", False, id="not-is-a-word"),
        pytest.param('"', False, id="quote"),
        pytest.param("*", False, id="star"),
        pytest.param("name:maxSurge", False, id="column"),
        pytest.param("\0maxSurge\0", True, id="nul"),
        pytest.param("x" * 10_000, False, id="long"),
        pytest.param("\ud800", False, id="surrogate"),
        pytest.param("", False, id="empty"),
    ],
)
def test_any_text_can_be_searched(text: str, is_found: bool) -> None:  # noqa: FBT001 - a table
    index = index_of(one=document("Widget", maxSurge="How many pods are scheduled above."))
    wanted = ["Widget spec.maxSurge"] if is_found else []
    assert found(index, text, "one") == wanted


def test_only_the_given_documents_are_searched() -> None:
    index = index_of(one=document("Widget", size="large"), two=document("Gadget", size="small"))
    assert found(index, "size", "two") == ["Gadget spec.size"]
    assert found(index, "size") == []


def test_equal_schemas_are_found_until_the_last_document_is_removed() -> None:
    text = document("Widget", size="large")
    index = index_of(one=text, two=text)
    index.remove("one")
    assert found(index, "size", "one", "two") == ["Widget spec.size"]
    index.remove("two")
    assert found(index, "size", "one", "two") == []
    index.add("one", schema_fields(text, "apis/a.example/v1"))
    assert found(index, "size", "one") == ["Widget spec.size"]


def test_a_field_of_a_shared_type_is_found_with_the_shortest_path_of_each_kind() -> None:
    source: Any = json.loads(document_of("a.example", "v1", {"Widget": {}, "Gadget": {}}))
    schemas = source["components"]["schemas"]
    part = {"$ref": "#/components/schemas/Part"}
    schemas["Part"] = {"properties": {"colour": {"type": "string"}, "inner": part}}
    for kind, way in (("Widget", "part"), ("Gadget", "parts")):
        schemas[f"test.{kind}"]["properties"]["spec"]["properties"] = {
            way: {"type": "array", "items": part}
        }
    index = index_of(one=json.dumps(source).encode())
    assert sorted(found(index, "colour", "one")) == [
        "Gadget spec.parts.colour",
        "Widget spec.part.colour",
    ]


def test_words_are_bounded() -> None:
    assert len(words("a " * 500)) == 8


class Documents:
    """Documents with an index of their hashes."""

    def __init__(self, texts: dict[str, bytes | DiscoveryError]) -> None:
        self._made = MadeUpDocuments(texts)
        self.asked = self._made.asked
        self.hash_of = self._made.hash_of
        self.body = self._made.body

    async def index(self) -> Index:
        found = await self._made.index()
        hashes = {
            key: str(text)[:1]
            if isinstance(text, DiscoveryError)
            else await self.hash_of(key) or ""
            for key, text in self._made.texts.items()
        }
        return replace(found, entries=hashes)


class Lost(DiscoveryError):
    pass


async def built(builder: IndexBuilder, state: object, **sources: Documents) -> Progress:
    builder.refresh(state, lambda: sources)
    task = builder._task  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - no other end
    assert task is not None
    await task
    return builder.progress


async def test_only_new_documents_are_read_and_those_gone_are_forgotten() -> None:
    key = "apis/a.example/v1"
    text = document("Widget", size="large")
    builder = IndexBuilder()
    east, west = Documents({key: text}), Documents({key: text})
    progress = await built(builder, 1, east=east, west=west)
    assert (progress.done, progress.total, progress.is_building) == (1, 1, False)
    assert (east.asked, west.asked) == ([key], [])
    assert builder.documents["east"] == builder.documents["west"]
    other = Documents({key: document("Gadget", size="small")})
    await built(builder, 2, west=other)
    assert other.asked == [key]
    assert found(builder.index, "size", *builder.documents["west"]) == ["Gadget spec.size"]
    assert set(builder.index.documents) == builder.documents["west"]


async def test_a_changed_document_is_found_until_its_successor_is_read() -> None:
    key, builder = "apis/a.example/v1", IndexBuilder()
    await built(builder, 1, east=Documents({key: document("Widget", size="large")}))
    later = Documents({key: document("Widget", weight="heavy")})
    is_asked, may_go_on, made = asyncio.Event(), asyncio.Event(), later.body

    async def body(key: str, form: DocumentForm, coding: Coding) -> Body | None:
        is_asked.set()
        await may_go_on.wait()
        return await made(key, form, coding)

    later.body = body
    builder.refresh(2, lambda: {"east": later})
    await is_asked.wait()
    assert not builder.progress.is_building
    assert found(builder.index, "size", *builder.documents["east"]) == ["Widget spec.size"]
    may_go_on.set()
    await built(builder, 2, east=later)
    assert found(builder.index, "size", *builder.documents["east"]) == []
    assert found(builder.index, "weight", *builder.documents["east"]) == ["Widget spec.weight"]


@pytest.mark.parametrize("others", [(), ("east",)])
async def test_the_index_is_building_again_while_a_new_cluster_is_read(
    others: tuple[str, ...],
) -> None:
    key, builder = "apis/a.example/v1", IndexBuilder()
    sources = {name: Documents({key: document("Widget", size=name)}) for name in others}
    await built(builder, 1, **sources)
    assert not builder.progress.is_building
    sources["west"] = Documents({key: document("Widget", size="west")})
    builder.refresh(2, lambda: sources)
    assert builder.progress.is_building
    await built(builder, 2, **sources)
    assert not builder.progress.is_building


async def test_a_document_that_fails_is_reported_and_the_others_are_found() -> None:
    texts: dict[str, bytes | DiscoveryError] = {
        "apis/a.example/v1": document("Widget", size="large"),
        "apis/b.example/v1": Lost("it is lost"),
        "apis/c.example/v1": b"no JSON",
    }
    builder = IndexBuilder()
    progress = await built(builder, 1, east=Documents(texts))
    assert progress.failures["east", "apis/b.example/v1"] == "it is lost"
    assert "not JSON" in progress.failures["east", "apis/c.example/v1"]
    assert found(builder.index, "size", *builder.documents["east"]) == ["Widget spec.size"]


async def test_a_document_that_is_never_made_ends_the_building(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apidiscovery_service.web.search_building._AGAIN_S", 0.0)
    key = "apis/a.example/v1"
    progress = await built(IndexBuilder(), 1, east=Documents({key: Lost("")}))
    assert not progress.is_building
    assert progress.failures == {("east", key): "it is not made yet"}


def group(name: str, *kinds: tuple[str, str, str]) -> Group:
    resources = tuple(
        Resource(
            plural, GroupVersionKind("", "", kind), "Namespaced", kind.lower(), ("get",), (short,)
        )
        for kind, plural, short in kinds
    )
    return Group(name, (Version("v1", resources),))


def test_exact_names_come_before_begins_and_those_before_parts() -> None:
    served = group(
        "a.example",
        ("PodDeploy", "poddeploys", "x"),
        ("Deployer", "deployers", "y"),
        ("Deployment", "deployments", "deploy"),
    )
    hidden = group("b.example", ("Deploy", "deploys", "d"))
    names = Names.of([served], {"east": [served, hidden]})
    assert [(match, kind.kind, kind.cluster) for match, kind in names.find_kinds("DEPLOY")] == [
        (Match.EXACT, "Deployment", ""),
        (Match.EXACT, "Deploy", "east"),
        (Match.PREFIX, "Deployer", ""),
        (Match.PART, "PodDeploy", ""),
    ]
    assert names.find_groups("example") == ["a.example", "b.example"]
    assert Names.of([group("", ("Pod", "pods", "po"))], {}).find_groups("core") == [""]


def test_only_groups_that_have_changed_are_read_again() -> None:
    same = group("a.example", ("Pod", "pods", "po"))
    before = Names.of([same, group("b.example", ("Old", "olds", "o"))], {"east": [same]})
    after = Names.of([same, group("b.example", ("New", "news", "n"))], {"east": [same]}, before)
    assert [kind.kind for kind in after.kinds] == ["Pod", "New"]
    assert after.kinds[0] is before.kinds[0]
    # The group is now that of a cluster alone.
    moved = Names.of([], {"east": [same]}, after)
    assert [(kind.kind, kind.cluster) for kind in moved.kinds] == [("Pod", "east")]
    assert moved == Names.of([], {"east": [same]})
