"""Generic classes of lightkube from discovery."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from apidiscovery_client import AsyncDiscoveryClient, DiscoveryClient, ServerUnreachable
from apidiscovery_client.adapters import lightkube as adapter
from apidiscovery_client.testing import FakeApiServer, group, resource
from custom_groups import custom_groups
from lightkube import Client, KubeConfig, codecs, generic_resource
from lightkube.core.exceptions import LoadResourceError
from lightkube.core.resource import NamespacedResource, api_info
from lightkube.core.resource_registry import resource_registry
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Node, Pod
from object_cluster import ObjectCluster, deployment
from server import Server


@contextmanager
def connected(url: str) -> Generator[Any]:
    """Yield a client of a server that wants no credentials."""
    told: dict[str, Any] = {
        "clusters": [{"name": "fake", "cluster": {"server": url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}],
        "current-context": "fake",
    }
    with cast("Any", Client)(config=cast("Any", KubeConfig).from_dict(told)) as client:
        yield client


GENERIC = cast("Any", generic_resource)  # its functions are typed in part


@pytest.fixture(autouse=True)
def _empty_registry() -> Iterator[None]:
    registry = cast("Any", resource_registry)
    registry.clear()
    yield
    registry.clear()


def test_all_kinds_that_lightkube_does_not_know_get_a_class() -> None:
    with FakeApiServer() as server:
        server.add(*custom_groups())
        with DiscoveryClient(server.url) as discovery:
            loaded = adapter.load_generic_resources(discovery)
            assert discovery.traffic.requests == 2
            assert adapter.load_generic_resources(discovery) == loaded
            served = [
                one for found in custom_groups() for v in found.versions for one in v.resources
            ]
    found = {(*api_info(one).resource, api_info(one).plural): one for one in loaded}
    assert found.keys() >= {(one.gv.group, one.gv.version, one.kind, one.name) for one in served}
    for one in served:
        made = found[one.gv.group, one.gv.version, one.kind, one.name]
        assert issubclass(made, NamespacedResource) is one.is_namespaced
        assert GENERIC.get_generic_resource(str(one.gv), one.kind) is made


def test_no_built_in_kind_is_generic_or_contradicts_lightkube() -> None:
    with FakeApiServer() as server, DiscoveryClient(server.url) as discovery:
        loaded = [api_info(one).resource for one in adapter.load_generic_resources(discovery)]
        assert not [one for one in loaded if not one.group.endswith(".k8s.io")]
        assert adapter.resource("deploy", discovery) is Deployment


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        ("ct", "CronTab", "/apis/stable.example.com/v1/namespaces/default/crontabs/a"),
        (
            "crontabs.stable.example.com",
            "CronTab",
            "/apis/stable.example.com/v1/namespaces/default/crontabs/a",
        ),
        ("deployments.v1.apps", "Deployment", "/apis/apps/v1/namespaces/default/deployments/a"),
        ("no", "Node", "/api/v1/nodes/a"),
        ("ct/scale", "Scale", "/apis/stable.example.com/v1/namespaces/default/crontabs/a/scale"),
        (
            "ct/status",
            "CronTab",
            "/apis/stable.example.com/v1/namespaces/default/crontabs/a/status",
        ),
    ],
)
def test_a_name_leads_to_a_class_with_the_right_path(
    text: str, kind: str, path: str, fake: FakeApiServer
) -> None:
    with DiscoveryClient(fake.url) as discovery:
        made = adapter.resource(text, discovery)
    objects = {path: {**deployment("a"), "kind": kind}}
    with ObjectCluster(fake, objects) as cluster, connected(cluster.url) as client:
        assert client.get(made, "a").kind == kind
        assert cluster.asked == [f"GET {path}"]


def test_classes_of_lightkube_itself_are_used_where_there_are_some(fake: FakeApiServer) -> None:
    with DiscoveryClient(fake.url) as discovery:
        names = ("pods/log", "nodes", "deployments/scale")
        assert [adapter.resource(name, discovery) for name in names] == [
            cast("Any", Pod).Log,
            Node,
            cast("Any", Deployment).Scale,
        ]


def test_verbs_are_those_that_are_served() -> None:
    served = group(
        "example.com",
        v1=[
            resource("reports", "Report", verbs=["get", "list"]),
            resource("orders", "Order", verbs=["create", "update"], namespaced=False),
        ],
    )
    with FakeApiServer([served]) as server, DiscoveryClient(server.url) as discovery:
        snapshot = discovery.snapshot()
    reports, orders = adapter.load_generic_resources(snapshot)
    assert api_info(reports).verbs == ["get", "global_list", "list"]
    assert api_info(orders).verbs == ["post", "put"]


def test_a_class_that_was_made_before_stays(fake: FakeApiServer) -> None:
    made = GENERIC.create_namespaced_resource(
        "stable.example.com", "v1", "CronTab", "crontabs", verbs=["get"]
    )
    with DiscoveryClient(fake.url) as discovery:
        assert adapter.resource("ct", discovery) is made


def test_lightkube_may_make_the_same_class_later(fake: FakeApiServer) -> None:
    with DiscoveryClient(fake.url) as discovery:
        made = adapter.resource("ct", discovery)
    again = GENERIC.create_namespaced_resource("stable.example.com", "v1", "CronTab", "crontabs")
    assert again is made


def test_a_class_that_leads_elsewhere_is_an_error_and_no_other_kind_suffers(
    fake: FakeApiServer,
) -> None:
    fake.add(group("other.example.com", v1=[resource("widgets", "Widget")]))
    GENERIC.create_global_resource("stable.example.com", "v1", "CronTab", "crontabs")
    with DiscoveryClient(fake.url) as discovery:
        problem = r"crontabs.v1.stable.example.com has the scope Namespaced, but .* global"
        with pytest.raises(LoadResourceError, match=problem):
            adapter.resource("ct", discovery)
        with pytest.raises(LoadResourceError, match=problem):
            adapter.load_generic_resources(discovery)
    assert GENERIC.get_generic_resource("other.example.com/v1", "Widget")


def test_of_two_resources_of_one_kind_the_first_is_loaded() -> None:
    served = group(
        "example.com",
        v1=[resource("templates", "Template"), resource("processedtemplates", "Template")],
    )
    with FakeApiServer([served]) as server, DiscoveryClient(server.url) as discovery:
        (made,) = adapter.load_generic_resources(discovery)
        assert api_info(made).plural == "templates"
        with pytest.raises(LoadResourceError, match="of the namespaced resource templates"):
            adapter.resource("processedtemplates", discovery)


def test_a_name_that_is_not_served_is_lightkubes_own_error(fake: FakeApiServer) -> None:
    with DiscoveryClient(fake.url) as discovery:
        with pytest.raises(LoadResourceError, match="did you mean crontabs"):
            adapter.resource("crontbas", discovery)
        with pytest.raises(LoadResourceError, match="may be any of"):
            adapter.resource("all", discovery)
        with pytest.raises(LoadResourceError, match="no class for the subresource 'exec' of Pod"):
            adapter.resource("pods/exec", discovery)


def test_a_dead_group_leaves_the_others_alone_and_the_error_names_it(
    fake: FakeApiServer,
) -> None:
    fake.add(group("dead.example.com", v1=[resource("widgets", "Widget")]))
    fake.fail("dead.example.com")
    with DiscoveryClient(fake.url) as discovery:
        (made,) = [
            one
            for one in adapter.load_generic_resources(discovery)
            if api_info(one).resource.group.endswith("example.com")
        ]
        assert api_info(made).resource.kind == "CronTab"
        with pytest.raises(LoadResourceError, match=r"did not answer: dead\.example\.com/v1"):
            adapter.resource("widgets", discovery)


def test_a_server_that_is_down_is_our_own_error(fake: FakeApiServer) -> None:
    fake.down()
    with DiscoveryClient(fake.url) as discovery:
        with pytest.raises(ServerUnreachable):
            adapter.load_generic_resources(discovery)
        with pytest.raises(ServerUnreachable):
            adapter.resource("pods", discovery)


def test_objects_are_listed_and_loaded_from_yaml(cluster: ObjectCluster) -> None:
    with (
        DiscoveryClient(cluster.url) as discovery,
        connected(cluster.url) as client,
    ):
        cron_tab = adapter.resource("ct", discovery)
        assert [one.metadata.name for one in client.list(cron_tab, namespace="default")] == ["mine"]
        assert client.get(cron_tab, "mine", namespace="default").kind == "CronTab"
        deployments = client.list(adapter.resource("deploy", discovery), namespace="*")
        assert [one.spec.replicas for one in deployments] == [1]
    text = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: yours}\n"
    (loaded,) = cast("Any", codecs).load_all_yaml(text)
    assert isinstance(loaded, cron_tab)
    assert cluster.asked == [
        "GET /apis/stable.example.com/v1/namespaces/default/crontabs",
        "GET /apis/stable.example.com/v1/namespaces/default/crontabs/mine",
        "GET /apis/apps/v1/deployments",
    ]


async def test_a_snapshot_serves_as_well_as_a_client(fake: FakeApiServer) -> None:
    async with AsyncDiscoveryClient(fake.url) as discovery:
        snapshot = await discovery.snapshot()
    assert adapter.resource("ct", snapshot) in adapter.load_generic_resources(snapshot)


def test_the_catalogue_of_the_real_service_can_be_loaded(server: Server) -> None:
    with DiscoveryClient(server.url) as discovery:
        adapter.load_generic_resources(discovery)
        assert adapter.resource("deploy", discovery) is Deployment
