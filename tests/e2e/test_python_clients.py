"""The Kubernetes clients on PyPI find what is served, through their own code.

kubernetes and kr8s have discovery of their own. lightkube 1.0 has none: its resource classes are
generated, so here they are held against our discovery, read through lightkube's HTTP client.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from server import Server

Fields = dict[str, Any]


@pytest.fixture(params=["server", "old_server"])
def any_server(request: pytest.FixtureRequest) -> Server:
    """Return a server with and one without aggregated discovery."""
    chosen = request.getfixturevalue(str(request.param))
    assert isinstance(chosen, Server)
    return chosen


class TestKubernetes:
    def test_dynamic_client(self, any_server: Server, tmp_path: Path) -> None:
        client: Any = import_module("kubernetes.client")
        dynamic: Any = import_module("kubernetes.dynamic")
        with client.ApiClient(client.Configuration(host=any_server.url)) as api:
            found = dynamic.DynamicClient(api, cache_file=str(tmp_path / "cache.json"))
            deployment = found.resources.get(api_version="apps/v1", kind="Deployment")
            pod = found.resources.get(api_version="v1", kind="Pod")
            autoscaler = found.resources.get(kind="HorizontalPodAutoscaler", preferred=True)
            server_version = found.version["kubernetes"]["gitVersion"]
        assert (deployment.name, deployment.namespaced) == ("deployments", True)
        assert deployment.subresources["scale"].kind == "Scale"
        assert pod.subresources["eviction"].kind == "Eviction"
        assert pod.subresources["eviction"].verbs == ["create"]
        assert autoscaler.api_version == "v2"
        assert server_version.startswith("v1.")

    def test_generated_client(self, any_server: Server) -> None:
        client: Any = import_module("kubernetes.client")
        with client.ApiClient(client.Configuration(host=any_server.url)) as api:
            resources = client.AppsV1Api(api).get_api_resources().resources
            groups = client.ApisApi(api).get_api_versions().groups
            core = client.CoreV1Api(api).get_api_resources()
            versions = client.CoreApi(api).get_api_versions()
            group = client.AppsApi(api).get_api_group()
            version = client.VersionApi(api).get_code()
        assert "deployments/scale" in [resource.name for resource in resources]
        assert "apps" in [group.name for group in groups]
        assert "pods/eviction" in [resource.name for resource in core.resources]
        assert versions.versions == ["v1"]
        assert group.preferred_version.group_version == "apps/v1"
        assert version.major == "1"


# It warns of every Kubernetes that is newer than it.
@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s(any_server: Server) -> None:
    kr8s: Any = import_module("kr8s.asyncio")
    api = await kr8s.api(url=any_server.url)
    try:
        found = ("deployment.apps/v1", "deployments", True)
        assert await api.lookup_kind("Deployment.apps/v1") == found
        assert await api.lookup_kind("deploy") == found
        resources = cast("list[Fields]", await api.api_resources())
        names = [resource["name"] for resource in resources]
        assert {"pods", "deployments"} <= set(names)
        assert not any("/" in name for name in names)
        listed: set[str] = set()
        for version, base in (("v1", "/api"), ("apps/v1", "/apis")):
            async with api.call_api("GET", version="", base=base, url=version) as response:
                listed |= {resource["name"] for resource in response.json()["resources"]}
        assert {"pods/eviction", "deployments/scale", "deployments"} <= listed
    finally:
        await api._session.aclose()  # noqa: SLF001 - it has no public way to close


@pytest.mark.parametrize(
    ("module", "name", "path", "resource"),
    [
        ("apps_v1", "Deployment", "/apis/apps/v1", "deployments"),
        ("apps_v1", "DeploymentScale", "/apis/apps/v1", "deployments/scale"),
        ("core_v1", "Pod", "/api/v1", "pods"),
        ("core_v1", "PodEviction", "/api/v1", "pods/eviction"),
    ],
)
def test_lightkube(any_server: Server, module: str, name: str, path: str, resource: str) -> None:
    lightkube: Any = import_module("lightkube")
    kubeconfig: Any = import_module("lightkube.config.kubeconfig")
    models: Any = import_module("lightkube.config.models")
    resources: Any = import_module(f"lightkube.resources.{module}")
    config = kubeconfig.KubeConfig.from_one(
        cluster=models.Cluster(server=any_server.url), user=models.User()
    )
    client = lightkube.Client(config=config, trust_env=False)
    try:
        response = client._client._client.get(path)  # noqa: SLF001 - nothing public reads discovery
    finally:
        client.close()
    listed = {entry["name"]: entry for entry in cast("list[Fields]", response.json()["resources"])}
    expected = getattr(resources, name)._api_info  # noqa: SLF001 - what it builds requests from
    entry = listed[resource]
    assert "/".join(filter(None, (expected.plural, expected.action))) == resource
    assert entry["kind"] == expected.resource.kind
    if "group" in entry:
        assert (entry["group"], entry["version"]) == (
            expected.resource.group,
            expected.resource.version,
        )
    assert set(expected.verbs) <= {
        verb for one in entry["verbs"] for verb in LIGHTKUBE_VERBS.get(one, (one,))
    }


# lightkube's own names for requests to one object and for what Kubernetes calls otherwise.
LIGHTKUBE_VERBS: dict[str, tuple[str, ...]] = {
    "update": ("put", "global_put"),
    "create": ("post", "global_post"),
    "list": ("list", "global_list"),
    "watch": ("watch", "global_watch"),
}


def test_lightkube_tells_that_objects_are_not_found(server: Server) -> None:
    lightkube: Any = import_module("lightkube")
    kubeconfig: Any = import_module("lightkube.config.kubeconfig")
    models: Any = import_module("lightkube.config.models")
    exceptions: Any = import_module("lightkube.core.exceptions")
    apps: Any = import_module("lightkube.resources.apps_v1")
    config = kubeconfig.KubeConfig.from_one(
        cluster=models.Cluster(server=server.url), user=models.User()
    )
    client = lightkube.Client(config=config, trust_env=False)
    try:
        with pytest.raises(exceptions.ApiError) as caught:
            client.get(apps.Deployment, "x", namespace="default")
    finally:
        client.close()
    assert (caught.value.status.code, caught.value.status.reason) == (404, "NotFound")
