"""What the tests of all adapters share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer, group, resource
from object_cluster import ObjectCluster, deployment, list_of

CRON_TABS = resource("crontabs", "CronTab", short_names=["ct"], subresources=["scale", "status"])
CRON_TAB = {
    "apiVersion": "stable.example.com/v1",
    "kind": "CronTab",
    "metadata": {"name": "mine", "namespace": "default", "resourceVersion": "1"},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


@pytest.fixture
def fake() -> Iterator[FakeApiServer]:
    """Return a server of the built-in APIs and CronTabs."""
    with FakeApiServer(release="1.35") as fake:
        fake.add(group("stable.example.com", v1=[CRON_TABS]))
        yield fake


@pytest.fixture
def cluster(fake: FakeApiServer) -> Iterator[ObjectCluster]:
    """Return the same with one object of each of two kinds."""
    apps = "/apis/apps/v1/namespaces/default/deployments"
    custom = "/apis/stable.example.com/v1/namespaces/default/crontabs"
    web = deployment("web")
    objects = {
        apps: list_of("Deployment", "apps/v1", web),
        f"{apps}/web": web,
        "/apis/apps/v1/deployments": list_of("Deployment", "apps/v1", web),
        custom: list_of("CronTab", "stable.example.com/v1", CRON_TAB),
        f"{custom}/mine": CRON_TAB,
    }
    with ObjectCluster(fake, objects) as cluster:
        yield cluster
