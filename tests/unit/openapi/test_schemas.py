"""JSON Schemas of kinds, made from documents and kept by their hash."""

import asyncio
import json

import pytest
from apidiscovery_formats.openapi.json_schema import Kind
from apidiscovery_service import workers
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.openapi import schemas as module
from apidiscovery_service.openapi.schema_text import UnusableDocument, own_kinds, schema_text
from apidiscovery_service.openapi.schemas import Named, Schemas
from schema_kinds import GVK, MadeUpDocuments, document_of

GROUP = "g.example.com"
KEY = f"apis/{GROUP}/v1"
THING = Named(GROUP, "v1", "thing")
SIZE = {"size": {"type": "integer"}}


def made_up(**more: bytes | DiscoveryError) -> MadeUpDocuments:
    pods = document_of("", "v1", {"Pod": SIZE})
    things = document_of(GROUP, "v1", {"Thing": SIZE, "Other": {}})
    return MadeUpDocuments({"api/v1": pods, KEY: things, "version": b"{}", **more})


async def test_a_schema_is_found_by_its_kind_in_lower_case() -> None:
    text = await Schemas().text(made_up(), THING)
    assert text is not None
    schema = json.loads(text)
    assert (schema["$schema"], schema["title"]) == (
        "http://json-schema.org/draft-07/schema#",
        f"Thing {GROUP}/v1",
    )
    assert "additionalProperties" not in schema["properties"]["spec"]


async def test_a_strict_one_refuses_properties_that_are_not_listed() -> None:
    text = await Schemas().text(made_up(), Named(GROUP, "v1", "thing", strict=True))
    assert json.loads(text or b"")["properties"]["spec"]["additionalProperties"] is False


async def test_the_core_group_has_its_own_key() -> None:
    text = await Schemas().text(made_up(), Named("", "v1", "pod"))
    assert json.loads(text or b"")["title"] == "Pod v1"


@pytest.mark.parametrize(
    "named", [Named(GROUP, "v1", "pod"), Named(GROUP, "v2", "thing"), Named("none", "v1", "x")]
)
async def test_an_unknown_kind_has_no_schema(named: Named) -> None:
    documents = made_up()
    schemas = Schemas()
    assert await schemas.text(documents, named) is None
    before = list(documents.asked)
    assert await schemas.text(documents, named) is None
    assert documents.asked == before  # whoever tries names makes no work


async def test_the_same_document_elsewhere_has_the_same_schemas() -> None:
    schemas, first, second = Schemas(), made_up(), made_up()
    text = await schemas.text(first, THING)
    assert await schemas.text(second, THING) is text
    assert (first.asked, second.asked) == ([KEY, KEY], [])


async def test_another_document_has_other_schemas() -> None:
    schemas, documents = Schemas(), made_up()
    before = await schemas.text(documents, THING)
    documents.texts[KEY] = document_of(GROUP, "v1", {"Thing": {"colour": {"type": "string"}}})
    after = await schemas.text(documents, THING)
    assert before != after
    assert b"colour" in (after or b"")


async def test_concurrent_callers_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Kind] = []

    def counted(text: bytes, kind: Kind, *, strict: bool) -> bytes:
        made.append(kind)
        return schema_text(text, kind, strict=strict)

    monkeypatch.setattr(module, "schema_text", counted)
    schemas, documents = Schemas(), made_up()
    await schemas.listing(documents)
    texts = await asyncio.gather(*(schemas.text(documents, THING) for _ in range(10)))
    assert len(set(texts)) == len(made) == 1


async def test_a_large_document_is_converted_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    large = document_of(GROUP, "v1", {"Thing": SIZE}, "d" * 600_000)
    sent: list[object] = []
    run = workers.run

    async def recorded(function: object, *args: object, **kwargs: object) -> object:
        sent.append(function)
        return await run(function, *args, **kwargs)  # type: ignore[arg-type] # of any function

    monkeypatch.setattr(workers, "run", recorded)
    text = await Schemas().text(MadeUpDocuments({KEY: large}), THING)
    assert text == schema_text(large, Kind(GROUP, "v1", "Thing"), strict=False)
    assert sent == [own_kinds, schema_text]


async def test_the_list_has_the_kinds_of_all_documents_sorted() -> None:
    listing = await Schemas().listing(made_up())
    assert listing.failures == {}
    assert listing.kinds == (
        Kind("", "v1", "Pod"),
        Kind(GROUP, "v1", "Other"),
        Kind(GROUP, "v1", "Thing"),
    )


async def test_the_list_tells_which_documents_cannot_be_read() -> None:
    documents = made_up()
    documents.texts["apis/bad/v1"] = b"[]"
    documents.texts["apis/broken/v1"] = b"{"
    documents.texts["apis/gone/v1"] = DiscoveryError("the cluster is away")
    listing = await Schemas().listing(documents)
    assert [kind.name for kind in listing.kinds] == ["Pod", "Other", "Thing"]
    assert list(listing.failures) == ["apis/bad/v1", "apis/broken/v1", "apis/gone/v1"]
    assert listing.failures["apis/bad/v1"] == "the document is not a JSON object"
    assert listing.failures["apis/broken/v1"].startswith("the document is not JSON: ")
    assert listing.failures["apis/gone/v1"] == "the cluster is away"


def test_kinds_of_other_groups_are_in_their_own_documents() -> None:
    document = json.loads(document_of(GROUP, "v1", {"Thing": SIZE}))
    scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    document["paths"]["/scale"] = {"get": {GVK: scale}}
    document["components"]["schemas"]["Scale"] = {"type": "object", GVK: [scale]}
    assert own_kinds(json.dumps(document).encode(), KEY) == (Kind(GROUP, "v1", "Thing"),)


def test_a_schema_nested_too_deeply_is_refused() -> None:
    document = document_of(GROUP, "v1", {"Thing": {"deep": "DEEP"}})
    nested = '{"items":' * 900 + "{}" + "}" * 900
    text = document.replace(b'"DEEP"', nested.encode())
    with pytest.raises(UnusableDocument, match="nested too deeply"):
        schema_text(text, Kind(GROUP, "v1", "Thing"), strict=False)


async def test_a_text_is_compressed_once() -> None:
    schemas = Schemas()
    text = b"a" * 5000
    first = await schemas.body(text, "gzip")
    second = await schemas.body(text, "gzip")
    plain = await schemas.body(text, "identity")
    assert first.data is second.data
    assert first.etag == plain.etag
    assert (first.coding, plain.coding) == ("gzip", "identity")


async def test_a_small_text_stays_plain() -> None:
    assert (await Schemas().body(b"{}", "zstd")).coding == "identity"
