"""The packaged documents of Kubernetes' own APIs."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import orjson
import pytest
from apidiscovery_client import _reading
from apidiscovery_client.snapshots.releases import known_releases
from apidiscovery_client.testing import builtin_groups
from apidiscovery_releases import newest
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.sources.catalog import catalog_recipe, kubernetes_catalog
from raw_http import AGG

KEYS = sorted(newest().openapi_hashes)
VERSIONS = [key for key in KEYS if key == "api/v1" or (key[:5] == "apis/" and key.count("/") == 2)]


async def text_of(key: str) -> bytes:
    recipe = catalog_recipe(key)
    assert recipe is not None
    return await recipe.make()


def test_documents_are_of_what_the_catalogue_serves() -> None:
    served = {
        f"apis/{offer.group}/{offer.version.version}" if offer.group else "api/v1"
        for offer in kubernetes_catalog().offers
    }
    assert set(VERSIONS) == served
    assert set(KEYS) - served == {
        *(key.rpartition("/")[0] for key in VERSIONS),
        *(".well-known/openid-configuration", "apis", "openid/v1/jwks", "version"),
    }


@pytest.mark.parametrize("key", ["apis/networking.k8s.io/v1alpha1", "README.md", "index", ""])
def test_there_is_no_other_document(key: str) -> None:
    assert catalog_recipe(key) is None


@pytest.mark.parametrize("key", KEYS)
async def test_documents_are_those_of_the_index(key: str) -> None:
    recipe = catalog_recipe(key)
    assert recipe is not None
    text = await recipe.make()
    assert hashlib.sha512(text).hexdigest().upper() == recipe.hash
    assert f"/{key}/" in orjson.loads(text)["paths"]


@pytest.mark.parametrize("key", VERSIONS)
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


def test_the_release_is_the_newest_that_clients_know() -> None:
    """And that of the groups that the testing package has; clients have their own copies."""
    assert known_releases()[-1] == newest().name
    core, named = map(newest().aggregated, ("/api", "/apis"))
    now = datetime.now(UTC)
    assert builtin_groups() == (
        *_reading.read_document("/api", AGG, core, now).groups,
        *_reading.read_document("/apis", AGG, named, now).groups,
    )
