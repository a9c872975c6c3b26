"""The discoverer for `kubernetes.dynamic`, compared with the package's own."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import legacy_clusters
import pytest
from apidiscovery_client import ClientOptions, DiscoveryClient
from apidiscovery_client.adapters.kubernetes import ApiDiscoverer, apidiscovery_discoverer
from apidiscovery_client.testing import FakeApiServer, group, resource
from certificates import Authority
from custom_groups import custom_groups
from dynamic_resources import properties
from kubernetes import client as kube
from kubernetes.dynamic import DynamicClient, ResourceList
from kubernetes.dynamic.exceptions import (
    NotFoundError,
    ResourceNotFoundError,
    ResourceNotUniqueError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from object_cluster import ObjectCluster
from server import Server
from urllib3.exceptions import MaxRetryError

METRICS = resource("nodes", "NodeMetrics", namespaced=False)
ASKS_FOR_ALL = ClientOptions(miss_recheck_s=0.0)


def api_client(url: str, **settings: Any) -> Any:  # noqa: ANN401 - not typed well
    configuration = cast("Any", kube.Configuration)(host=url, **settings)
    return cast("Any", kube.ApiClient)(configuration)


def dynamic(url: str, discoverer: type[ApiDiscoverer] | None = None) -> Any:  # noqa: ANN401 - the same
    return cast("Any", DynamicClient)(
        api_client(url), discoverer=discoverer or apidiscovery_discoverer()
    )


def lazy(url: str, folder: Path) -> Any:  # noqa: ANN401 - the same
    return cast("Any", DynamicClient)(api_client(url), cache_file=str(folder / "lazy.json"))


def test_every_resource_is_what_the_packages_own_discoverer_makes_of_it(tmp_path: Path) -> None:
    with FakeApiServer() as fake:
        fake.add(*custom_groups())
        ours, theirs = dynamic(fake.url).resources, lazy(fake.url, tmp_path).resources
        pairs = list(zip(ours, theirs, strict=True))
        assert list(ours.api_groups) == list(theirs.api_groups)
    assert len(pairs) > 200
    for some, others in pairs:
        assert properties(some) == properties(others)
        for mine, other in zip(some, others, strict=True):
            if not isinstance(mine, ResourceList):
                assert urls(mine) == urls(other)


def urls(found: Any) -> dict[str, object]:  # noqa: ANN401 - the same
    """Return the paths of a resource and of its subresources."""
    below = {name: one.urls for name, one in found.subresources.items()}
    return {**below, "": (found.urls, found.path(name="a", namespace="b"))}


def test_a_query_finds_what_the_packages_own_finds(fake: FakeApiServer, tmp_path: Path) -> None:
    ours, theirs = dynamic(fake.url).resources, lazy(fake.url, tmp_path).resources
    queries: list[dict[str, Any]] = [
        {"kind": "Deployment"},
        {"kind": "DeploymentList"},
        {"kind": "List"},
        {"api_version": "v1"},
        {"api_version": "v1", "kind": "Pod"},
        {"api_version": "apps/v1"},
        {"group": "apps", "api_version": "v1", "kind": "StatefulSet"},
        {"group": "apps", "api_version": "apps/v1"},
        {"prefix": "api", "kind": "Event"},
        {"prefix": "apis", "kind": "Event"},
        {"name": "deployments"},
        {"singular_name": "pod"},
        {"short_names": ["deploy"]},
        {"kind": "HorizontalPodAutoscaler"},
        {"group": "nowhere.example.com"},
        {"kind": "deployment"},
    ]
    for query in queries:
        assert properties(ours.search(**query)) == properties(theirs.search(**query)), query


def test_the_first_look_up_takes_two_requests_and_the_next_none(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url).resources
    assert not fake.requests
    for kind in ("Deployment", "CronTab", "Pod"):
        assert resources.get(kind=kind).kind == kind
    assert sorted(fake.paths) == ["/api", "/apis"]


def test_another_process_asks_nothing_while_the_cache_is_new(fake: FakeApiServer) -> None:
    for _ in range(2):
        kept = apidiscovery_discoverer(cache=True)
        found = dynamic(fake.url, kept).resources.get(kind="CronTab")
        assert found.group == "stable.example.com"
    assert sorted(fake.paths) == ["/api", "/apis"]


def test_another_user_has_another_cache(fake: FakeApiServer) -> None:
    for token in ("one", "two"):
        own = api_client(fake.url, api_key={"authorization": f"Bearer {token}"})
        kept = apidiscovery_discoverer(cache=True)
        cast("Any", DynamicClient)(own, discoverer=kept).resources.get(kind="Pod")
    assert [request.headers["authorization"] for request in fake.requests] == [
        "Bearer one",
        "Bearer one",
        "Bearer two",
        "Bearer two",
    ]


def test_a_typo_costs_one_conditional_round_and_then_nothing(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url, apidiscovery_discoverer(options=ASKS_FOR_ALL)).resources
    resources.get(kind="Deployment")
    fake.forget_requests()
    for _ in range(3):
        with pytest.raises(
            ResourceNotFoundError, match=r"No matches found for \{'kind': 'Depoyment'\}"
        ):
            resources.get(kind="Depoyment")
        assert resources.search(kind="Depoyment") == []
    assert [request.status for request in fake.requests] == [304, 304]


def test_a_dead_group_leaves_the_others_alone_and_the_error_names_it(fake: FakeApiServer) -> None:
    fake.add(group("metrics.k8s.io", v1beta1=[METRICS]))
    fake.fail("metrics.k8s.io")
    resources = dynamic(fake.url).resources
    assert resources.get(kind="Deployment").name == "deployments"
    assert len(fake.requests) == 2
    with pytest.raises(
        ResourceNotFoundError, match=r"did not answer: metrics\.k8s\.io/v1beta1 \(stale"
    ):
        resources.get(kind="NodeMetrics")
    with pytest.raises(ResourceNotFoundError) as caught:
        resources.get(group="apps", kind="NodeMetrics")
    assert "metrics" not in str(caught.value)


def test_of_versions_the_first_that_answers_is_preferred(fake: FakeApiServer) -> None:
    fake.fail("autoscaling/v2")
    found = dynamic(fake.url).resources.get(kind="HorizontalPodAutoscaler")
    assert (found.group_version, found.preferred) == ("autoscaling/v1", True)


def test_a_group_that_dies_later_keeps_the_resources_that_are_known(fake: FakeApiServer) -> None:
    fake.add(group("metrics.k8s.io", v1beta1=[METRICS]))
    resources = dynamic(fake.url).resources
    resources.get(kind="NodeMetrics")
    fake.fail("metrics.k8s.io")
    resources.invalidate_cache()
    assert resources.get(kind="NodeMetrics").path(name="n") == (
        "/apis/metrics.k8s.io/v1beta1/nodes/n"
    )


def test_a_server_that_is_down_is_the_error_that_the_package_has_for_it(
    fake: FakeApiServer,
) -> None:
    resources = dynamic(fake.url).resources
    fake.down()
    with pytest.raises(MaxRetryError):
        resources.get(kind="Deployment")
    with pytest.raises(MaxRetryError):
        resources.invalidate_cache()
    fake.up()
    assert resources.get(kind="Deployment")
    fake.down()
    assert resources.get(kind="Pod").name == "pods"


def test_refusals_are_the_packages_own_errors(fake: FakeApiServer) -> None:
    fake.unauthorized()
    with pytest.raises(UnauthorizedError) as caught:
        dynamic(fake.url).resources.get(kind="Deployment")
    assert cast("Any", caught.value).status == 401
    fake.mend()
    fake.fail("/apis")
    with pytest.raises(ServiceUnavailableError):
        dynamic(fake.url).resources.search(kind="Deployment")


def test_a_missing_document_is_reported_where_it_matters(fake: FakeApiServer) -> None:
    fake.fail("/api")
    resources = dynamic(fake.url).resources
    assert resources.get(kind="Deployment").name == "deployments"
    with pytest.raises(ResourceNotFoundError, match="did not answer: /api"):
        resources.get(api_version="v1", kind="Pod")


def test_old_servers_are_asked_for_each_group_version(fake: FakeApiServer, tmp_path: Path) -> None:
    fake.old("1.25")
    ours, theirs = dynamic(fake.url).resources, lazy(fake.url, tmp_path).resources
    assert [[one.to_dict() for one in some] for some in ours] == [
        [one.to_dict() for one in some] for some in theirs
    ]


@pytest.mark.parametrize("recording", legacy_clusters.CLUSTERS)
def test_recorded_clusters_look_as_they_do_to_the_packages_own(
    recording: str, tmp_path: Path
) -> None:
    documents = legacy_clusters.recorded(recording)
    objects = {path: json.loads(document) for path, document in documents.items()}
    with FakeApiServer([]) as nothing, ObjectCluster(nothing, objects) as cluster:
        ours, theirs = dynamic(cluster.url).resources, lazy(cluster.url, tmp_path).resources
        mine = [[one.to_dict() for one in some] for some in ours]
        assert mine == [[one.to_dict() for one in some] for some in theirs]
        assert len(mine) > 50


def test_what_a_hook_raises_is_raised(fake: FakeApiServer) -> None:
    def fail(_: Any) -> None:  # noqa: ANN401 - the package's
        raise RuntimeError("the plugin failed")

    own = api_client(fake.url, api_key={"authorization": "old"})
    resources = cast("Any", DynamicClient)(own, discoverer=apidiscovery_discoverer()).resources
    own.configuration.refresh_api_key_hook = fail
    with pytest.raises(RuntimeError, match="the plugin failed"):
        resources.get(kind="Deployment")
    own.configuration.refresh_api_key_hook = None
    assert resources.get(kind="Deployment").name == "deployments"


def test_all_filters_must_match(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url).resources
    assert resources.search(kind="Deployment", namespaced=True, name="nonexistent") == []
    assert [one.kind for one in resources.search(name="deployments", namespaced=True)] == [
        "Deployment",
        "DeploymentList",
    ]
    assert resources.search(name="deployments", namespaced=False) == []


def test_a_kind_in_several_versions_is_not_unique(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url).resources
    with pytest.raises(ResourceNotUniqueError, match="Multiple matches found"):
        resources.get(kind="HorizontalPodAutoscaler")
    preferred = resources.get(kind="HorizontalPodAutoscaler", preferred=True)
    assert preferred.group_version == "autoscaling/v2"
    exact = resources.get(api_version="autoscaling/v1", kind="HorizontalPodAutoscaler")
    assert exact.group_version == "autoscaling/v1"


def test_a_name_is_resolved_as_kubectl_does(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url).resources
    assert resources.resolve("deploy") is resources.get(kind="Deployment")
    assert resources.resolve("ct").path(namespace="a") == (
        "/apis/stable.example.com/v1/namespaces/a/crontabs"
    )
    with pytest.raises(ResourceNotFoundError, match="did you mean deployments"):
        resources.resolve("deploymnts")
    with pytest.raises(ResourceNotUniqueError, match="may be any of"):
        resources.resolve("all")


def test_objects_are_got_listed_and_patched(cluster: ObjectCluster) -> None:
    client = dynamic(cluster.url)
    deployments = client.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.get(name="web", namespace="default").metadata.name == "web"
    assert [one.metadata.name for one in deployments.get().items] == ["web"]
    cron_tabs = client.resources.resolve("ct")
    assert cron_tabs.get(namespace="default").items[0].metadata.name == "mine"
    changed = cron_tabs.patch(body={"metadata": {"name": "mine"}}, namespace="default")
    assert changed.kind == "CronTab"
    with pytest.raises(NotFoundError):
        cron_tabs.get(name="yours", namespace="default")
    assert cluster.asked == [
        "GET /apis/apps/v1/namespaces/default/deployments/web",
        "GET /apis/apps/v1/deployments",
        "GET /apis/stable.example.com/v1/namespaces/default/crontabs",
        "PATCH /apis/stable.example.com/v1/namespaces/default/crontabs/mine",
    ]


def test_a_list_of_objects_leads_to_the_objects(cluster: ObjectCluster) -> None:
    resources = dynamic(cluster.url).resources
    body = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}},
        ],
    }
    found = resources.get(kind="List").get(body=body, namespace="default")
    assert found.items[0].spec.replicas == 1
    of_kind = resources.get(api_version="apps/v1", kind="DeploymentList")
    assert of_kind.base_resource() is resources.get(kind="Deployment")


def test_the_version_is_asked_for_when_it_is_wanted(fake: FakeApiServer) -> None:
    client = dynamic(fake.url)
    assert client.version["kubernetes"]["minor"] == "35"
    assert client.version == client.resources.version
    assert fake.paths == ("/version",)


def test_groups_are_parsed_as_the_package_does(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url).resources
    tree = resources.parse_api_groups()
    assert tree["apis"]["autoscaling"]["v2"].preferred
    assert not tree["apis"]["autoscaling"]["v1"].preferred
    assert [one.name for one in tree["api"][""]["v1"].resources["Pod"]] == ["pods"]
    found = resources.get_resources_for_api_version("apis", "apps", "v1", preferred=True)
    assert [one.name for one in found["Deployment"]] == ["deployments"]
    assert not resources.get_resources_for_api_version("apis", "apps", "v9", preferred=True)
    resources.discover()
    assert len(fake.requests) == 2


def test_threads_share_the_answer(fake: FakeApiServer) -> None:
    resources = dynamic(fake.url).resources
    with ThreadPoolExecutor(8) as pool:
        waited = [pool.submit(resources.get, kind="Deployment") for _ in range(16)]
        found = [one.result() for one in waited]
    assert {one.name for one in found} == {"deployments"}
    assert len(fake.requests) == 2


def test_the_discovery_client_may_be_given(fake: FakeApiServer) -> None:
    with DiscoveryClient(fake.url) as discovery:
        resources = dynamic(fake.url, apidiscovery_discoverer(discovery)).resources
        assert resources.get(kind="CronTab").name == "crontabs"
        assert resources.discovery is discovery
        assert discovery.traffic.requests == 2


def test_headers_and_trust_are_those_of_the_api_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server(["127.0.0.1"])
    with FakeApiServer(cert_file=pair.cert_file, key_file=pair.key_file) as server:
        own = api_client(server.url, ssl_ca_cert=str(authority.ca_file))
        own.set_default_header("Impersonate-User", "jane")
        find = cast("Any", DynamicClient)(own, discoverer=apidiscovery_discoverer())
        assert find.resources.get(kind="Deployment").name == "deployments"
        assert {request.headers["impersonate-user"] for request in server.requests} == {"jane"}
        with pytest.raises(MaxRetryError, match="certificate"):
            dynamic(server.url).resources.get(kind="Deployment")


def test_a_hook_that_renews_the_token_is_called(fake: FakeApiServer) -> None:
    own = api_client(fake.url, api_key={"authorization": "old"})
    renewed: list[str] = []

    def renew(configuration: Any) -> None:  # noqa: ANN401 - the package's
        renewed.append("now")
        configuration.api_key["authorization"] = f"Bearer {len(renewed)}"

    own.configuration.refresh_api_key_hook = renew
    found = cast("Any", DynamicClient)(own, discoverer=apidiscovery_discoverer())
    found.resources.get(kind="Deployment")
    assert {request.headers["authorization"] for request in fake.requests} == {
        "Bearer 1",
        "Bearer 2",
    }


def test_the_real_service_answers_as_it_answers_the_packages_own(
    server: Server, tmp_path: Path
) -> None:
    ours, theirs = dynamic(server.url).resources, lazy(server.url, tmp_path).resources
    assert [properties(some) for some in ours] == [properties(some) for some in theirs]
    assert ours.discovery.traffic.requests == 2
    ours.invalidate_cache()
    assert ours.discovery.traffic.not_modified == 2
