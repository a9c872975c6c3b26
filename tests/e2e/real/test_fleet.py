"""Real kube-apiservers of some releases side by side, each served whole, alive and dead."""

import gzip
import json
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml
from certificates import Authority
from command_line import Outcome
from markers import IS_LONG
from programs import kubectl
from real_cluster import (
    CRDS,
    DEFINITIONS,
    TABLES,
    RealCluster,
    definition,
    path_of,
    registered,
    running,
)
from real_fleet import EXPLAINED, Ask, Mirrored, Said, agreed, different, discovery_paths, printed
from repository import GOLDEN
from server import Server, serving
from waiting import eventually

# The oldest and the newest differ most.
RELEASES = ("1.25", "1.27", "1.31", "1.36") if IS_LONG else ("1.25", "1.36")
PACKAGES = {"1.31": ("gateway-api", "cert-manager"), "1.36": ("argo-cd", "prometheus-operator")}
# Not the second, whose names are taken: kube-apiserver lists its version, and answers 404 to it.
OWN_CRDS = {"1.27": (CRDS[0], *CRDS[2:]), "1.36": (CRDS[0], *CRDS[2:])}
# A kind that is defined there, to be explained.
OF_THEIR_OWN = {
    "1.25": "pods.spec",
    "1.27": "widgets.size",
    "1.31": "httproutes.spec",
    "1.36": "prometheusrules",
}
DEAD = "1.31"
EXTENSION = "served.example.dev"
NAMED = {release: f"k{release}" for release in RELEASES}
SEEN_S = 60.0

pytestmark = pytest.mark.timeout(600)


def define(cluster: RealCluster) -> None:
    """Create the definitions of a cluster, and wait until they have conditions."""
    paths = list[str]()
    for name in PACKAGES.get(cluster.release, ()):
        packed = (GOLDEN / "crds" / "manifests" / f"{name}.yaml.gz").read_bytes()
        file = cluster.folder / f"{name}.yaml"
        file.write_bytes(gzip.decompress(packed))
        created = cluster.kubectl("create", "--validate=false", "-o", "name", "-f", str(file))
        assert created.exit_code == 0, created.stderr
        paths += [f"{DEFINITIONS}/{line.rpartition('/')[2]}" for line in created.stdout.split()]
    for crd in OWN_CRDS.get(cluster.release, ()):
        cluster.create(crd)
        paths.append(path_of(crd))
    for path in paths:
        eventually(partial(cluster.conditions, path), f"{path} has a status", SEEN_S)


@contextmanager
def extended(cluster: RealCluster, folder: Path) -> Generator[None]:
    """Run a server behind the aggregator of a cluster."""
    authority = Authority(folder)
    pair = authority.server(["localhost", "127.0.0.1", "served.default.svc"])
    manifests = folder / "slots.yaml"
    slots = definition("slots", "Slot", "v1", group=EXTENSION)
    manifests.write_text(yaml.safe_dump(slots), encoding="utf-8")
    tls = ("--tls-cert-file", str(pair.cert_file), "--tls-private-key-file", str(pair.key_file))
    flags = ("--catalog", "none", "--manifests", str(manifests), "--store", "memory", *tls)
    with serving(folder, *flags) as server:
        cluster.create(*registered(EXTENSION, server.http_port, authority))
        path = f"/openapi/v3/apis/{EXTENSION}/v1"
        eventually(lambda: cluster.has(path), "the extension is aggregated", SEEN_S)
        yield


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module", name="clusters")
def fixture_clusters(folder: Path) -> Iterator[dict[str, RealCluster]]:
    """Return a cluster of each release, with definitions; the one that dies has an extension."""
    with ExitStack() as stack:
        found = dict[str, RealCluster]()
        for release in RELEASES:
            own = folder / release
            own.mkdir()
            found[release] = stack.enter_context(running(release, own))
            define(found[release])
        if DEAD in found:
            behind = folder / "behind"
            behind.mkdir()
            stack.enter_context(extended(found[DEAD], behind))
        yield found


class Service:
    """Our server, which can be restarted with its store.

    Attributes:
        server: The one that runs.
    """

    def __init__(self, folder: Path, clusters: dict[str, RealCluster]) -> None:
        self._folder = folder
        self._stack = ExitStack()
        upstreams = {
            NAMED[release]: {
                "kubeconfig": str(cluster.kubeconfig),
                "poll-interval": "1s",
                "openapi-interval": "1s",
            }
            for release, cluster in clusters.items()
        }
        store = f"sqlite:{folder / 'store.db'}"
        content = {"catalog": "none", "store": store, "upstreams": upstreams}
        self._config = folder / "config.json"
        self._config.write_text(json.dumps(content), encoding="utf-8")
        self._starts = 0
        self.server = self._start()

    def _start(self) -> Server:
        self._starts += 1
        own = self._folder / f"serve-{self._starts}"
        own.mkdir()
        return self._stack.enter_context(serving(own, "--config", str(self._config)))

    def restart(self) -> None:
        self._stack.close()
        self.server = self._start()

    def close(self) -> None:
        self._stack.close()

    def of(self, release: str) -> Mirrored:
        return Mirrored(NAMED[release], self.server)


@pytest.fixture(scope="module", name="service")
def fixture_service(folder: Path, clusters: dict[str, RealCluster]) -> Iterator[Service]:
    service = Service(folder, clusters)
    yield service
    service.close()


def commands(release: str) -> tuple[str, ...]:
    return (*TABLES, *EXPLAINED, f"explain {OF_THEIR_OWN[release]}")


def through(folder: Path, mirrored: Mirrored, command: str) -> Outcome:
    """Return what kubectl prints of a mirrored cluster, with nothing in its cache."""
    return kubectl(folder, "--server", mirrored.url, *command.split())


@pytest.mark.parametrize("release", RELEASES)
def test_each_cluster_is_served_whole_to_the_byte(
    clusters: dict[str, RealCluster], service: Service, release: str
) -> None:
    """Every path of discovery and OpenAPI in every form: status, bytes, ETag and Content-Type."""
    cluster, mirrored = clusters[release], service.of(release)
    said = agreed(cluster, mirrored)
    assert len(said) > 900
    etags = {of: answer.etag for of, answer in said.items() if answer.etag}
    assert len(etags) > 100
    for (path, accept), etag in list(etags.items())[::20]:
        answer = mirrored.get(path, accept, etag)
        assert (path, answer.status, answer.body) == (path, 304, b"")


@pytest.mark.parametrize("release", RELEASES)
def test_kubectl_prints_of_it_what_it_prints_of_the_cluster(
    clusters: dict[str, RealCluster], service: Service, tmp_path: Path, release: str
) -> None:
    cluster, mirrored = clusters[release], service.of(release)
    agreed(cluster, mirrored)
    for command in commands(release):
        theirs, ours = cluster.kubectl(*command.split()), through(tmp_path, mirrored, command)
        assert (command, *printed(ours)) == (command, *printed(theirs))
        assert (command, ours.stderr) == (command, theirs.stderr)


def raw(service: Service, release: str, path: str) -> str:
    """Return the argument of `kubectl get --raw`, which leaves out the path of the server's URL."""
    return service.of(release).url.removeprefix(service.server.url) + path


@pytest.mark.long
def test_kubectl_gets_every_path_as_it_is(
    clusters: dict[str, RealCluster], service: Service, tmp_path: Path
) -> None:
    cluster = clusters["1.36"]
    agreed(cluster, service.of("1.36"))
    for path in (*discovery_paths(cluster), "/openapi/v3", "/openapi/v3/apis/argoproj.io/v1alpha1"):
        ours = kubectl(
            tmp_path, "--server", service.server.url, "get", "--raw", raw(service, "1.36", path)
        )
        assert (path, *printed(ours)) == (path, *printed(cluster.kubectl("get", "--raw", path)))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "path",
    [
        *("/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v2"),
        *("/apis/apiregistration.k8s.io", "/apis/nope", "/api/v1/nope", "/apis/apps/v1?timeout=x"),
    ],
)
def test_other_methods_have_the_same_answers(
    clusters: dict[str, RealCluster], service: Service, release: str, path: str
) -> None:
    cluster, mirrored = clusters[release], service.of(release)
    for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
        theirs, ours = cluster.get(path, method=method), mirrored.get(path, method=method)
        assert (method, ours.status, ours.body) == (method, theirs.status, theirs.body)
        assert ours.headers["content-type"] == theirs.headers["content-type"]


@pytest.mark.long
def test_a_cluster_that_dies_is_served_as_it_was_and_comes_back(
    clusters: dict[str, RealCluster], service: Service, tmp_path: Path
) -> None:
    """It dies, our server is restarted, and the cluster comes back with another definition."""
    cluster = clusters[DEAD]
    agreed(cluster, service.of(DEAD))
    told = {line: printed(cluster.kubectl(*line.split())) for line in commands(DEAD)}
    said = _last_words(cluster, service)
    _prints(service, tmp_path / "dead", told)
    assert _warning(service, "1.36") == ""

    service.restart()
    _sees(service, DEAD, "")
    assert different(service.of(DEAD), said) == []
    _prints(service, tmp_path / "restarted", told)

    cluster.start_again()
    cluster.create(definition("crontabs", "CronTab", "v1", group="later.example.com"))
    path = "/apis/later.example.com/v1"
    eventually(lambda: service.of(DEAD).get(path).status == 200, "it has the definition", SEEN_S)
    eventually(lambda: not _warning(service, DEAD), "it is current", SEEN_S)
    eventually(lambda: cluster.has(f"/openapi/v3{path}"), "the cluster documents it", SEEN_S)
    eventually(lambda: cluster.has(f"/apis/{EXTENSION}/v1"), "the extension is back", SEEN_S)
    now = agreed(cluster, service.of(DEAD))
    assert now[path, "application/json"].status == 200
    assert b"later.example.com" in now["/openapi/v2", "application/json"].body
    command = "explain crontabs.size"
    ours = through(tmp_path, service.of(DEAD), command)
    assert (ours.stdout, ours.stderr) == (cluster.kubectl(*command.split()).stdout, "")


def _last_words(cluster: RealCluster, service: Service) -> dict[Ask, Said]:
    """Kill the cluster, and see that it is served as it was; return what it said.

    Every five minutes a kube-apiserver puts the resources of definitions into another order, which
    may happen between what we heard last and its death. Not three times.
    """
    changed: list[Ask] = []
    for _ in range(3):
        said = agreed(cluster, service.of(DEAD))
        cluster.kill()
        _sees(service, DEAD, "connect")
        changed = different(service.of(DEAD), said)
        if not changed:
            return said
        cluster.start_again()
        eventually(lambda: not _warning(service, DEAD), "it is current", SEEN_S)
    pytest.fail(f"it is not served as it was: {changed[:10]}")


def _warning(service: Service, release: str) -> str:
    return service.of(release).get("/apis").headers.get("warning", "")


def _sees(service: Service, release: str, why: str) -> None:
    """Wait until our server says that a cluster does not answer, and why."""
    words = f"this is the last known answer of cluster {NAMED[release]}"

    def is_told() -> bool:
        warning = _warning(service, release)
        return words in warning and why in warning.lower()

    eventually(is_told, f"{NAMED[release]} is known to be down", SEEN_S)


def _prints(service: Service, folder: Path, told: dict[str, tuple[int, str]]) -> None:
    folder.mkdir()
    for command, wanted in told.items():
        ours = through(folder, service.of(DEAD), command)
        assert (command, *printed(ours)) == (command, *wanted)
        if not command.startswith("explain"):  # the rest is in its cache by then
            assert f"Warning: this is the last known answer of cluster {NAMED[DEAD]}" in ours.stderr
