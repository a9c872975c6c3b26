"""The catalogue of each release equals the answers of its kube-apiserver."""

from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest
from apidiscovery_client.snapshots.releases import known_releases
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_releases import Release, newest, releases
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.encoding import aggregated, plain
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.merge import merged
from apidiscovery_service.sources.catalog import catalog_recipe, kubernetes_catalog
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.document_recipes import DocumentRecipes

KEYS = sorted(newest().openapi_hashes)
VERSIONS = [key for key in KEYS if key == "api/v1" or (key[:5] == "apis/" and key.count("/") == 2)]
PLAIN = Representation(JSON)
ESCAPES_UNTIL = 26  # `<` and `>` in documents of OpenAPI v2, as for HTML


@pytest.fixture(params=releases())
def release(request: pytest.FixtureRequest) -> Release:
    return Release.read(request.param)


@pytest.fixture
def registry(release: Release) -> Registry:
    made = Registry()
    made.publish(kubernetes_catalog(release))
    return made


@pytest.fixture
def snapshot(registry: Registry) -> Snapshot:
    return registry.snapshot


def groups(snapshot: Snapshot) -> list[Group]:
    named = [published.group for published in snapshot.named.by_name.values()]
    return [snapshot.core.by_name[""].group, *named]


def test_aggregated_documents_are_those_of_the_release(
    release: Release, snapshot: Snapshot
) -> None:
    """Except for the null that releases up to 1.33 wrote into the metadata of every group."""
    for version in release.aggregated_versions:
        for path, document in (("/api", snapshot.core), ("/apis", snapshot.named)):
            recorded = release.aggregated(path, version)
            for null in (b',"creationTimestamp":null', b'"creationTimestamp":null'):
                recorded = recorded.replace(null, b"")
            representation = Representation(JSON, aggregated=version)
            assert aggregated.encode(document, representation) == recorded


def test_unaggregated_documents_are_those_of_the_release(
    release: Release, snapshot: Snapshot
) -> None:
    assert plain.encode(plain.group_list(snapshot.named), PLAIN) == release.plain("/apis")
    seen: list[str] = []
    for group in groups(snapshot):
        for version in group.versions:
            path = f"/apis/{group.name}" if group.name else "/api"
            seen.append(f"{path}/{version.version}")
            recorded = release.plain(seen[-1])
            assert plain.encode(plain.resource_list(group, version), PLAIN) == recorded
    assert sorted(seen) == list(release.list_paths)


def test_openapi_documents_are_those_of_the_release(release: Release, registry: Registry) -> None:
    """And no others."""
    recipes = DocumentRecipes(registry, Declarations(registry), release=release)
    found = dict(recipes.common())
    for group in recipes.groups():
        found |= recipes.of_group(group)
    assert {key: recipe.hash for key, recipe in found.items()} == dict(release.openapi_hashes)


async def test_a_document_is_that_of_the_release(release: Release) -> None:
    recipe = catalog_recipe("apis/apps/v1", release)
    assert recipe is not None
    assert await recipe.make() == release.openapi_v3("apis/apps/v1")


def test_documents_of_two_releases_are_not_taken_for_each_other() -> None:
    one, other = (catalog_recipe("apis/apps/v1", Release(name)) for name in ("1.30", "1.31"))
    assert one is not None
    assert other is not None
    assert one.fingerprint != other.fingerprint


def test_the_v2_document_is_that_of_the_release(release: Release) -> None:
    result = merged([], release.openapi_info, packaged=release.openapi_hashes, release=release)
    assert result.notes == []
    text = result.document.unpacked().text
    if release.minor <= ESCAPES_UNTIL:
        assert orjson.loads(text) == orjson.loads(release.openapi_v2)
    else:
        assert text == release.openapi_v2


def test_the_newest_release_has_documents_of_all_that_it_serves() -> None:
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


@pytest.mark.parametrize("key", VERSIONS)
async def test_documents_of_group_versions_are_canonical(key: str) -> None:
    recipe = catalog_recipe(key)
    assert recipe is not None
    text = await recipe.make()
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
    assert known_releases()[-1] == newest().name
