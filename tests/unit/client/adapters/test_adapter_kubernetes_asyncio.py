"""The discoverer for `kubernetes_asyncio.dynamic`, compared with the package's own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from apidiscovery_client import AsyncDiscoveryClient
from apidiscovery_client.adapters.kubernetes_asyncio import ApiDiscoverer, apidiscovery_discoverer
from apidiscovery_client.testing import FakeApiServer, group, resource
from certificates import Authority
from custom_groups import custom_groups
from dynamic_resources import properties
from kubernetes_asyncio import client as kube
from kubernetes_asyncio.dynamic import DynamicClient
from kubernetes_asyncio.dynamic.discovery import EagerDiscoverer
from kubernetes_asyncio.dynamic.exceptions import (
    ResourceNotUniqueError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from object_cluster import ObjectCluster
from server import Server

WITHOUT_CACHE = apidiscovery_discoverer()


@asynccontextmanager
async def dynamic(
    url: str,
    discoverer: Any = WITHOUT_CACHE,  # noqa: ANN401 - either package's
    cache_file: str | None = None,
    **settings: Any,  # noqa: ANN401 - those of the package
) -> AsyncGenerator[Any]:
    configuration = cast("Any", kube.Configuration)(host=url)
    for name, value in settings.items():
        setattr(configuration, name, value)
    async with (
        cast("Any", kube.ApiClient)(configuration) as api_client,
        DynamicClient(api_client, cache_file=cache_file, discoverer=discoverer) as client,
    ):
        yield client


def flat(tree: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the same
    return properties(
        one
        for groups in tree.values()
        for versions in groups.values()
        for found in versions.values()
        for resources in found.resources.values()
        for one in resources
    )


async def test_every_resource_is_what_the_packages_own_discoverer_makes_of_it(
    tmp_path: Path,
) -> None:
    with FakeApiServer() as server:
        server.add(*custom_groups())
        cache_file = str(tmp_path / "eager.json")
        async with (
            dynamic(server.url) as ours,
            dynamic(server.url, EagerDiscoverer, cache_file) as theirs,
        ):
            mine = flat(await ours.resources.parse_api_groups())
            assert mine == flat(await theirs.resources.parse_api_groups(request_resources=True))
            assert len(mine) > 200
            assert list(await ours.resources.api_groups) == list(await theirs.resources.api_groups)
            kinds = [kind async for kind in ours.resources]
            assert kinds[:2] == ["Binding", "BindingList"]


async def test_the_first_look_up_takes_two_requests_and_the_next_none(
    fake: FakeApiServer,
) -> None:
    async with dynamic(fake.url) as client:
        assert client.version["kubernetes"]["minor"] == "35"
        for kind in ("Deployment", "CronTab", "Pod"):
            assert (await client.resources.get(kind=kind)).kind == kind
    assert sorted(fake.paths) == ["/api", "/apis", "/version"]


async def test_a_document_of_thousands_of_resources_is_read_too() -> None:
    kinds = [resource(f"things{number}", f"Thing{number}") for number in range(3000)]
    with FakeApiServer([group("example.com", v1=kinds)], release="1.35") as server:
        async with dynamic(server.url) as client:
            assert (await client.resources.get(kind="Thing2999")).name == "things2999"


async def test_tasks_share_the_answer(fake: FakeApiServer) -> None:
    async with dynamic(fake.url) as client:
        kinds = ["Deployment", "Pod", "CronTab", "Node"] * 4
        found = await asyncio.gather(*(client.resources.get(kind=kind) for kind in kinds))
    assert [one.kind for one in found] == kinds
    assert len(fake.requests) == 3


async def test_another_process_asks_nothing_while_the_cache_is_new(fake: FakeApiServer) -> None:
    for _ in range(2):
        async with dynamic(fake.url, apidiscovery_discoverer(cache=True)) as client:
            await client.resources.get(kind="CronTab")
    assert sorted(fake.paths) == ["/api", "/apis", "/version", "/version"]


async def test_old_servers_are_asked_for_each_group_version(
    fake: FakeApiServer, tmp_path: Path
) -> None:
    fake.old("1.25")
    cache_file = str(tmp_path / "eager.json")
    async with (
        dynamic(fake.url) as ours,
        dynamic(fake.url, EagerDiscoverer, cache_file) as theirs,
    ):
        mine, other = ours.resources, theirs.resources
        assert flat(await mine.parse_api_groups()) == flat(
            await other.parse_api_groups(request_resources=True)
        )


async def test_a_server_that_says_when_to_ask_again_is_asked_then(fake: FakeApiServer) -> None:
    async with dynamic(fake.url) as client:
        fake.retry_after(0, times=3)
        assert (await client.resources.get(kind="Deployment")).name == "deployments"


async def test_errors_are_the_packages_own(fake: FakeApiServer) -> None:
    async with dynamic(fake.url) as client:
        fake.unauthorized()
        with pytest.raises(UnauthorizedError):
            await client.resources.get(kind="Deployment")
        fake.mend()
        fake.fail("/apis")
        with pytest.raises(ServiceUnavailableError):
            await client.resources.get(kind="Pod")
        fake.down()
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.resources.search(kind="Pod")
        fake.up()
        fake.mend()
        assert await client.resources.search(kind="Pod")
        with pytest.raises(ResourceNotUniqueError):
            await client.resources.get(kind="HorizontalPodAutoscaler")
        with pytest.raises(ResourceNotUniqueError):
            await client.resources.resolve("all")


async def test_what_a_hook_raises_is_raised(fake: FakeApiServer) -> None:
    async def fail(_: Any) -> None:  # noqa: ANN401 - the package's
        raise RuntimeError("the plugin failed")

    async with dynamic(fake.url, api_key={"BearerToken": "old"}) as client:
        client.configuration.refresh_api_key_hook = fail
        with pytest.raises(RuntimeError, match="the plugin failed"):
            await client.resources.get(kind="Deployment")
        client.configuration.refresh_api_key_hook = None
        assert await client.resources.get(kind="Deployment")


async def test_objects_are_got_and_listed(cluster: ObjectCluster) -> None:
    async with dynamic(cluster.url) as client:
        deployments = await client.resources.get(api_version="apps/v1", kind="Deployment")
        web = await deployments.get(name="web", namespace="default")
        assert web.metadata.name == "web"
        cron_tabs = await client.resources.resolve("ct")
        assert (await cron_tabs.get(namespace="default")).items[0].metadata.name == "mine"
    assert cluster.asked == [
        "GET /apis/apps/v1/namespaces/default/deployments/web",
        "GET /apis/stable.example.com/v1/namespaces/default/crontabs",
    ]


async def test_headers_and_trust_are_those_of_the_api_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server(["127.0.0.1"])
    with FakeApiServer(cert_file=pair.cert_file, key_file=pair.key_file) as server:
        told_token = {"BearerToken": "Bearer secret"}
        async with dynamic(
            server.url, ApiDiscoverer, ssl_ca_cert=str(authority.ca_file), api_key=told_token
        ) as client:
            assert (await client.resources.get(kind="Deployment")).name == "deployments"
        assert {request.headers["authorization"] for request in server.requests} == {
            "Bearer secret"
        }


async def test_the_discovery_client_may_be_given(fake: FakeApiServer) -> None:
    async with (
        AsyncDiscoveryClient(fake.url) as discovery,
        dynamic(fake.url, apidiscovery_discoverer(discovery)) as client,
    ):
        await client.resources.discover()
        found = await client.resources.get_resources_for_api_version(
            "apis", "apps", "v1", preferred=True
        )
        assert [one.name for one in found["Deployment"]] == ["deployments"]
        await client.resources.invalidate_cache()
        assert discovery.traffic.not_modified == 2


async def test_the_real_service_answers_as_it_answers_the_packages_own(
    server: Server, tmp_path: Path
) -> None:
    cache_file = str(tmp_path / "eager.json")
    async with (
        dynamic(server.url) as ours,
        dynamic(server.url, EagerDiscoverer, cache_file) as theirs,
    ):
        assert flat(await ours.resources.parse_api_groups()) == flat(
            await theirs.resources.parse_api_groups(request_resources=True)
        )
