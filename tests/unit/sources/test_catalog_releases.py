"""The catalogue of each release is what a kube-apiserver of it served."""

import orjson
import pytest
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_releases import Release, releases
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.encoding import aggregated, plain
from apidiscovery_service.openapi.v2.merged import merged
from apidiscovery_service.sources.catalog import catalog_recipe, kubernetes_catalog
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.document_recipes import DocumentRecipes

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
    """But for the null that releases up to 1.33 wrote into the metadata of every group."""
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
    """And no others: what it published no document of has none."""
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
