"""`--catalog kubernetes:1.NN` serves that release of Kubernetes in place of the newest."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_releases import Release
from command_line import run
from media_types import JSON_V2, JSON_V2BETA1
from programs import kubectl
from raw_http import get
from server import Server, serving

JSON = "application/json"
# Without aggregated documents; with v2beta1; with both; with full names of the patch release.
RELEASES = ("1.26", "1.29", "1.31")


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    return Release.read(request.param)


@pytest.fixture(scope="module")
def server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of the release, which a flag or the configuration file names."""
    folder = tmp_path_factory.mktemp(f"release-{release.name}")
    (folder / "config.yaml").write_text(f"catalog: kubernetes:{RELEASES[0]}\nstore: memory\n")
    flags = ["--config", str(folder / "config.yaml")]
    if release.name != RELEASES[0]:
        flags += ["--catalog", f"kubernetes:v{release.name}"]
    with serving(folder, *flags) as started:
        yield started


def test_discovery_is_that_of_the_release(release: Release, server: Server) -> None:
    for path in ("/apis", *release.list_paths):
        assert get(server.http_port, path, JSON).body == release.plain(path)
    accepts = {"v2": JSON_V2, "v2beta1": JSON_V2BETA1}
    for version in release.aggregated_versions:
        for path in ("/api", "/apis"):
            recorded = release.aggregated(path, version)
            assert get(server.http_port, path, accepts[version]).body == recorded
    for version in accepts.keys() - set(release.aggregated_versions):
        # Without one there is the list of groups, as kube-apiserver answers a client with a choice.
        answer = get(server.http_port, "/apis", f"{accepts[version]},{JSON}")
        assert answer.body == release.plain("/apis")


def test_openapi_is_that_of_the_release(release: Release, server: Server) -> None:
    index = get(server.http_port, "/openapi/v3", JSON)
    assert index.body == release.openapi_index
    for key in ("api/v1", "apis/batch/v1", "apis/flowcontrol.apiserver.k8s.io", "version"):
        found = get(server.http_port, f"/openapi/v3/{key}", JSON)
        assert found.body == release.openapi_v3(key)
    found = get(server.http_port, "/openapi/v2", JSON)
    assert json.loads(found.body) == json.loads(release.openapi_v2)


def test_version_is_that_of_the_release(release: Release, server: Server) -> None:
    told = json.loads(get(server.http_port, "/version").body)
    assert f"{told['major']}.{told['minor']}" == release.name
    assert told["gitVersion"].startswith(f"{release.version['gitVersion']}+apidiscovery-")
    assert list(told) == list(release.version)


def test_kubectl_lists_and_explains_what_the_release_has(
    release: Release, server: Server, tmp_path: Path
) -> None:
    listed = kubectl(tmp_path, "--server", server.url, "api-versions")
    assert sorted(listed.stdout.split()) == sorted(
        path.removeprefix("/apis/").removeprefix("/api/") for path in release.list_paths
    )
    field = "deployments.spec.replicas"
    explained = kubectl(tmp_path, "--server", server.url, "explain", field)
    assert "Number of desired pods" in explained.stdout


@pytest.mark.parametrize(
    ("catalog", "error"),
    [
        ("kubernetes:1.24", "release '1.24' of Kubernetes is not recorded; want one of 1.25, "),
        ("kubernetes:latest", "'latest' is not a release of Kubernetes; write it as '1.30'"),
        ("kubernetes:", "want kubernetes, kubernetes:1.NN or none, got 'kubernetes:'"),
        ("openshift", "want kubernetes, kubernetes:1.NN or none, got 'openshift'"),
    ],
)
def test_a_catalogue_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], catalog: str, error: str
) -> None:
    ended = run(capsys, "serve", "--catalog", catalog)
    assert ended.exit_code == 2
    assert error in ended.stderr
    assert "--catalog" in ended.stderr
