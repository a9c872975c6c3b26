"""kr8s looks kinds up in a snapshot, by one `Api` object."""

import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import httpx
import kr8s
import kr8s.asyncio
import pytest
from apidiscovery_client import ClientClosed, ClientOptions
from apidiscovery_client.adapters.kr8s import release, use
from apidiscovery_client.testing import FakeApiServer, group, resource
from custom_groups import custom_groups
from kr8s._async_utils import as_sync_func
from object_cluster import ObjectCluster
from server import Server

METRICS = resource("nodes", "NodeMetrics", namespaced=False)
ASKS_FOR_ALL = ClientOptions(miss_recheck_s=0.0)

Open = Callable[[str], Any]


@pytest.fixture
def connect() -> Iterator[Open]:
    """Return what makes an `Api` of kr8s whose connections are closed after the test."""
    with ExitStack() as stack:

        def made(url: str) -> Any:  # noqa: ANN401 - not typed well
            api = cast("Any", kr8s.api(url=url))
            stack.callback(disconnect, api)
            return api

        yield made


@pytest.fixture
async def connect_async() -> AsyncIterator[Callable[[str], Any]]:
    """Return what makes an `Api` of kr8s.asyncio in the same way."""
    made: list[Any] = []

    async def connected(url: str) -> Any:  # noqa: ANN401 - not typed well
        made.append(await kr8s.asyncio.api(url=url))
        return made[-1]

    yield connected
    for api in made:
        await api._session.aclose()  # noqa: SLF001 - kr8s has no other way


def disconnect(api: Any) -> None:  # noqa: ANN401 - not typed well
    """Close the connections of an `Api`."""
    as_sync_func(api._session.aclose)()  # noqa: SLF001 - kr8s has no other way


def told(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return resources in a fixed order, without the hash that aggregated documents lack."""
    found = [{**one, "storageVersionHash": None} for one in resources]
    return sorted(found, key=lambda one: (one["version"], one["name"]))


def test_the_resources_are_those_that_kr8s_finds_itself(connect: Open) -> None:
    with FakeApiServer(release="1.35") as server:
        server.add(*custom_groups())
        api = connect(server.url)
        theirs = api.api_resources()
        versions = list(api.api_versions())
        use(api)
        assert told(api.api_resources()) == told(theirs)
        assert set(api.api_versions()) == set(versions)
        server.forget_requests()
        release(api)
        list(api.api_versions())
        assert server.paths == ("/api/", "/apis/")


def test_every_kind_is_found_in_exactly_its_group_version(connect: Open) -> None:
    with FakeApiServer(release="1.35") as server:
        server.add(*custom_groups())
        api = connect(server.url)
        use(api)
        for served in server.groups:
            for version in served.versions:
                for one in version.resources:
                    mark = "." if served.name else "/"
                    want = (
                        f"{one.singular_name}{mark}{version.gv}",
                        one.name,
                        one.is_namespaced,
                    )
                    if served.name:
                        assert api.lookup_kind(f"{one.name}.{version.gv}") == want
                        text = f"{one.kind}.{version.name}.{served.name}"
                        assert api.lookup_kind(text) == want
                    else:
                        assert api.lookup_kind(f"{one.singular_name}/v1") == want


def test_all_the_forms_of_kr8s_are_understood(connect: Open, fake: FakeApiServer) -> None:
    api = connect(fake.url)
    use(api)
    forms = {
        "deploy": "deployment.apps/v1",
        "Deployment": "deployment.apps/v1",
        "deployments/v1": "deployment.apps/v1",
        "deployment/apps/v1": "deployment.apps/v1",
        "pod": "pod/v1",
        "po/v1": "pod/v1",
        "ing": "ingress.networking.k8s.io/v1",
        "ingress.networking.k8s.io": "ingress.networking.k8s.io/v1",
        "ingress.v1.networking.k8s.io": "ingress.networking.k8s.io/v1",
        "hpa": "horizontalpodautoscaler.autoscaling/v2",
        "hpa.autoscaling/v1": "horizontalpodautoscaler.autoscaling/v1",
        "ct": "crontab.stable.example.com/v1",
    }
    assert {text: api.lookup_kind(text)[0] for text in forms} == forms


def test_parts_of_a_group_version_are_not_found(connect: Open, fake: FakeApiServer) -> None:
    api = connect(fake.url)
    use(api)
    for text in (
        "crontabs.able.example.com/v1",
        "crontabs.stable.example.com/v1beta1",
        "pods/log",
        "x",
    ):
        with pytest.raises(ValueError, match=f"Kind {text} not found"):
            api.lookup_kind(text)


def test_a_version_that_begins_like_another_is_not_taken_for_it(connect: Open) -> None:
    served = group("example.com", v1beta1=[resource("widgets", "Widget")])
    with FakeApiServer([served], release="1.35") as server:
        api = connect(server.url)
        use(api)
        with pytest.raises(ValueError, match="not found"):
            api.lookup_kind("widgets.example.com/v1")
        assert api.lookup_kind("widgets.example.com/v1beta1")[1] == "widgets"


def test_all_look_ups_together_take_two_requests(connect: Open, fake: FakeApiServer) -> None:
    api = connect(fake.url)
    fake.forget_requests()
    discovery = use(api)
    for text in ("deploy", "po", "ct", "Node"):
        api.lookup_kind(text)
    assert sorted(fake.paths) == ["/api", "/apis"]
    assert discovery.traffic.requests == 2


def test_a_kind_that_was_defined_a_second_ago_is_found_and_known(
    connect: Open, fake: FakeApiServer
) -> None:
    api = connect(fake.url)
    use(api, options=ASKS_FOR_ALL)
    api.lookup_kind("deploy")
    fake.add(group("new.example.com", v1=[resource("widgets", "Widget")]))
    fake.forget_requests()
    for _ in range(3):
        assert api.lookup_kind("widget")[0] == "widget.new.example.com/v1"
    assert len(fake.requests) == 2


def test_two_clusters_do_not_forget_each_other(connect: Open, fake: FakeApiServer) -> None:
    with FakeApiServer([group("", v1=[resource("pods", "Pod")])], release="1.35") as other:
        one, two = connect(fake.url), connect(other.url)
        use(one)
        use(two)
        for _ in range(3):
            assert one.lookup_kind("deploy")[1] == "deployments"
            with pytest.raises(ValueError, match="not found"):
                two.lookup_kind("deploy")
            assert two.lookup_kind("pod")[1] == "pods"
        for asked in (fake, other):
            assert sorted(path for path in asked.paths if path != "/version/") == ["/api", "/apis"]


def test_a_dead_group_leaves_the_others_alone_and_the_error_names_it(
    connect: Open, fake: FakeApiServer
) -> None:
    fake.add(group("metrics.k8s.io", v1beta1=[METRICS]))
    fake.fail("metrics.k8s.io")
    api = connect(fake.url)
    use(api)
    assert api.lookup_kind("deploy")[1] == "deployments"
    for text in ("nodemetrics", "nodes.metrics.k8s.io/v1beta1"):
        with pytest.raises(ValueError, match=r"did not answer: metrics\.k8s\.io/v1beta1"):
            api.lookup_kind(text)


def test_errors_are_those_of_kr8s(connect: Open, fake: FakeApiServer) -> None:
    api = connect(fake.url)
    use(api)
    fake.unauthorized()
    with pytest.raises(kr8s.ServerError, match="401"):
        api.lookup_kind("deploy")
    fake.mend()
    fake.fail("/apis")
    with pytest.raises(kr8s.ServerError, match="503"):
        api.api_resources()
    fake.down()
    with pytest.raises(httpx.ConnectError):
        api.lookup_kind("deploy")
    fake.up()
    fake.mend()
    assert api.lookup_kind("deploy")
    with pytest.raises(ValueError, match="may be any of"):
        api.lookup_kind("all")


def test_other_api_objects_are_left_as_they_were(connect: Open, fake: FakeApiServer) -> None:
    with FakeApiServer([group("", v1=[resource("pods", "Pod")])], release="1.35") as other:
        used, untouched = connect(fake.url), connect(other.url)
        use(used)
        assert "async_lookup_kind" not in vars(untouched)
        other.forget_requests()
        assert [one["name"] for one in untouched.api_resources()] == ["pods"]
        assert "/api/" in other.paths


def test_an_unused_api_is_freed_and_its_client_closed(fake: FakeApiServer) -> None:
    api: Any = kr8s.api(url=fake.url)
    discovery = use(api)
    api.lookup_kind("deploy")
    disconnect(api)
    instances = cast("Any", kr8s.Api)._instances  # noqa: SLF001 - where kr8s finds them again
    gc.disable()
    try:
        before = sum(len(one) for one in instances.values())
        del api
        assert sum(len(one) for one in instances.values()) < before
    finally:
        gc.enable()
    with pytest.raises(ClientClosed):
        as_sync_func(discovery.refresh)()


def test_objects_are_got_by_any_name(connect: Open, cluster: ObjectCluster) -> None:
    api = connect(cluster.url)
    use(api)
    deployments = list(cast("Any", kr8s).get("deploy", api=api, namespace="default"))
    assert [(one.kind, one.name) for one in deployments] == [("Deployment", "web")]
    (mine,) = api.get("ct", namespace="default")
    assert (mine.name, mine.version) == ("mine", "stable.example.com/v1")
    assert cluster.asked == [
        "GET /apis/apps/v1/namespaces/default/deployments",
        "GET /apis/stable.example.com/v1/namespaces/default/crontabs",
    ]
    assert sorted(cluster.fake.paths) == ["/api", "/apis", "/version/"]


def test_another_process_asks_nothing_while_the_cache_is_new(
    connect: Open, fake: FakeApiServer
) -> None:
    api = connect(fake.url)
    fake.forget_requests()
    for _ in range(2):
        use(api, cache=True)
        assert api.lookup_kind("deploy")
    assert sorted(fake.paths) == ["/api", "/apis"]


async def test_asyncio_works_the_same(
    connect_async: Callable[[str], Any], cluster: ObjectCluster
) -> None:
    api = await connect_async(cluster.url)
    discovery = use(api)
    assert (await api.lookup_kind("deploy"))[0] == "deployment.apps/v1"
    found = [one async for one in api.get("crontabs.stable.example.com", namespace="default")]
    assert [one.name for one in found] == ["mine"]
    assert {one["version"] for one in await api.api_resources()} == {
        version async for version in api.api_versions()
    }
    assert (await api.async_lookup_kind("pod", skip_cache=True))[0] == "pod/v1"
    await api.async_api_resources_uncached()
    assert (discovery.traffic.requests, discovery.traffic.not_modified) == (6, 4)


async def test_credentials_are_read_anew_after_a_refusal(
    connect_async: Callable[[str], Any], fake: FakeApiServer
) -> None:
    api = await connect_async(fake.url)
    use(api)
    fake.fail("/api", status=401, times=1)
    fake.fail("/apis", status=403, times=1)
    assert (await api.lookup_kind("pod"))[0] == "pod/v1"


async def test_many_refusals_at_once_leave_no_connection_behind(
    connect_async: Callable[[str], Any], fake: FakeApiServer
) -> None:
    api = await connect_async(fake.url)
    fake.old("1.25")  # kr8s warns of it when it connects
    use(api)
    versions = [str(version.gv) for one in fake.groups for version in one.versions]
    for gv in versions:
        fake.fail(gv, status=401, times=1)
    assert (await api.lookup_kind("deploy"))[0] == "deployment.apps/v1"
    assert {one["version"] for one in await api.api_resources()} == set(versions)
    gc.collect()


def test_the_real_service_is_asked_twice_in_all(connect: Open, server: Server) -> None:
    with pytest.warns(UserWarning, match="is not supported"):  # kr8s is of 1.35
        api = connect(server.url)
    theirs = api.api_resources()
    discovery = use(api)
    assert told(api.api_resources()) == told(theirs)
    assert api.lookup_kind("deploy")[0] == "deployment.apps/v1"
    assert discovery.traffic.requests == 2
