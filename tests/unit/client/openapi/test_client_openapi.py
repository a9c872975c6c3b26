"""`client.openapi`, of both clients: documents and schemas by their names, fetched once."""

import pytest
from apidiscovery_client import (
    AsyncDiscoveryClient,
    DiscoveryClient,
    GroupVersion,
    GroupVersionKind,
    InvalidConfiguration,
)
from apidiscovery_client.openapi.json_documents import NotExplained
from fake_api_server import FakeApiServer, openapi_routes

APPS = GroupVersion("apps", "v1")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


async def test_both_clients_return_the_same_documents_and_schemas(real: FakeApiServer) -> None:
    with DiscoveryClient(real.url) as client:
        index = client.openapi.index()
        document = client.openapi.document(APPS)
        schema = client.openapi.schema(DEPLOYMENT)
    assert document["openapi"] == "3.0.0"
    assert schema["title"] == "Deployment apps/v1"
    assert index[APPS].key == "apis/apps/v1"
    async with AsyncDiscoveryClient(real.url) as asynchronous:
        assert await asynchronous.openapi.index() == index
        assert await asynchronous.openapi.document(APPS) == document
        assert await asynchronous.openapi.schema(DEPLOYMENT) == schema


def test_a_document_is_fetched_again_only_when_its_hash_has_changed(real: FakeApiServer) -> None:
    with DiscoveryClient(real.url) as client:
        first = client.openapi.document(APPS)
        before = len(real.paths)
        assert client.openapi.document(APPS) == first
    assert real.paths[before:] == ["/openapi/v3"]


def test_a_missing_document_or_schema_is_an_error(real: FakeApiServer) -> None:
    with DiscoveryClient(real.url) as client:
        with pytest.raises(NotExplained, match="no OpenAPI document of"):
            client.openapi.document(GroupVersion("example.dev", "v1"))
        with pytest.raises(NotExplained, match="no schema of apps/v1 Nothing"):
            client.openapi.schema(GroupVersionKind("apps", "v1", "Nothing"))


def test_the_index_lists_group_versions_alone() -> None:
    body = b'{"openapi":"3.0.0","info":{"title":"t","version":"v"},"paths":{}}'
    routes = openapi_routes({"apis/example.com/v1": body, "version": body})
    gv = GroupVersion("example.com", "v1")
    with FakeApiServer(routes) as server, DiscoveryClient(server.url) as client:
        assert list(client.openapi.index()) == [gv]
        assert client.openapi.document(gv)["info"] == {"title": "t", "version": "v"}


def test_documents_need_http() -> None:
    with (
        DiscoveryClient("grpc://127.0.0.1:1") as client,
        pytest.raises(InvalidConfiguration, match="over HTTP"),
    ):
        client.openapi.index()
