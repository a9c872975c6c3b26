"""The packaged documents of Kubernetes' own APIs."""

import hashlib
from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest
from apidiscovery_service import go_json
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.catalog_openapi import catalog_keys, catalog_recipe
from openapi_checks import dangling, errors, without_empty_defaults

KEYS = ["api/v1", "apis/apps/v1", "apis/batch/v1", "apis/discovery.k8s.io/v1"]


async def text_of(key: str) -> bytes:
    recipe = catalog_recipe(key)
    assert recipe is not None
    return await recipe.make()


def test_documents_are_of_what_the_catalogue_serves() -> None:
    served = {
        f"apis/{offer.group}/{offer.version.version}" if offer.group else "api/v1"
        for offer in kubernetes_catalog().offers
    }
    assert sorted(catalog_keys()) == KEYS
    assert catalog_keys() <= served


@pytest.mark.parametrize("key", ["apis/networking.k8s.io/v1alpha1", "apis/apps", "README.md", ""])
def test_there_is_no_other_document(key: str) -> None:
    assert catalog_recipe(key) is None


@pytest.mark.parametrize("key", KEYS)
async def test_documents_are_sound(key: str) -> None:
    document = orjson.loads(await text_of(key))
    assert dangling(document) == set()
    assert errors(without_empty_defaults(document)) == []
    assert f"/{key}/" in document["paths"]


@pytest.mark.parametrize("key", KEYS)
async def test_documents_are_canonical(key: str) -> None:
    text = await text_of(key)
    document = orjson.loads(text)
    assert go_json.dumps(document) == text
    assert list(document) == ["openapi", "info", "paths", "components"]
    assert list(document["paths"]) == sorted(document["paths"])
    for schema in schemas(document["components"]["schemas"]):
        named = [name for name in schema if not name.startswith("x-")]
        assert named == key_order.SCHEMA.names(dict.fromkeys(named))
        assert list(schema)[: len(named)] == named
        assert list(schema)[len(named) :] == sorted(schema.keys() - set(named))
    for operation in operations(document):
        assert list(operation) == key_order.V3_OPERATION.names(operation)


def schemas(several: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield schemas with all below them, where names are those of schemas."""
    for schema in several.values():
        yield schema
        yield from schemas(schema.get("properties", {}))
        inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("allOf", ())]
        yield from schemas(dict(enumerate(one for one in inner if isinstance(one, dict))))  # type: ignore[arg-type]  # numbers are as good as names


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in document["paths"].values():
        yield from (
            cast("dict[str, Any]", item[method]) for method in item if method != "parameters"
        )


async def test_the_same_recipe_makes_the_same_bytes() -> None:
    one, other = catalog_recipe("api/v1"), catalog_recipe("api/v1")
    assert one is not None
    assert other is not None
    assert one.fingerprint == other.fingerprint
    assert await one.make() == await other.make()
    assert hashlib.sha512(await one.make()).hexdigest().startswith("161f5391a36db721")
