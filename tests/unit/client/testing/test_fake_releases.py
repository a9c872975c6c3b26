"""The fake API server answers as the recorded server of its release."""

import pytest
from apidiscovery_client import DiscoveryClient
from apidiscovery_client.snapshots.releases import release as release_of
from apidiscovery_client.testing import FakeApiServer, group, resource
from apidiscovery_releases import Release, releases
from asking_fake import JSON, ask
from media_types import JSON_V2, JSON_V2BETA1


@pytest.mark.parametrize("name", releases())
def test_discovery_is_that_of_the_release_byte_for_byte(name: str) -> None:
    release = Release.read(name)
    with FakeApiServer(release=name) as server:
        for path in ("/apis", *release.list_paths):
            assert ask(server, path, JSON).body == release.plain(path)
        for path in ("/api", "/apis"):
            for version, accept in (("v2", JSON_V2), ("v2beta1", JSON_V2BETA1)):
                found = ask(server, path, accept)
                if version in release.aggregated_versions:
                    assert found.body == release.aggregated(path, version)
                else:
                    assert found.status == 406
        assert ask(server, "/version").body == release.version_text


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("v1.31.4", "1.31"), ("1.20", "1.20"), ("1.7", "1.8"), ("1.99", "1.36")],
)
def test_the_groups_of_the_nearest_known_release_are_served(name: str, nearest: str) -> None:
    with FakeApiServer(release=name) as server:
        assert server.groups == release_of(nearest).groups


def test_given_groups_are_served_whatever_the_release() -> None:
    widgets = group("example.com", v1=[resource("widgets", "Widget")])
    with FakeApiServer([widgets], release="1.31") as server:
        assert server.groups == (widgets,)


@pytest.mark.parametrize("name", ["1.26", "1.29", "1.36"])
def test_a_client_sees_the_resources_of_the_release(name: str) -> None:
    with FakeApiServer(release=name) as server, DiscoveryClient(server.url) as client:
        served = {found.gvr: found.gvk for found in client.snapshot().resources}
        told = {found.gvr: found.gvk for found in release_of(name).resources}
        assert served == told
        assert client.resolve("deploy").resource.kind == "Deployment"
