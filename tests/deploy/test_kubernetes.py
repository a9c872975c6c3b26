"""The manifests of deploy/kubernetes are valid, and start a server that their probes reach."""

import gzip
import re
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any, cast

import pytest
import yaml
from certificates import Authority
from command_line import run
from programs import curl, kubectl
from repository import GOLDEN, ROOT
from server import serving

MANIFESTS = ROOT / "deploy" / "kubernetes"
OPERATOR = GOLDEN / "crds" / "manifests" / "prometheus-operator.yaml.gz"
WITH_OPERATOR = """\
resources: [../{}]
namespace: apidiscovery
components: [../../components/prometheus-operator]
"""
Object = dict[str, Any]


def rendered(folder: Path, kustomization: Path) -> str:
    """Return the manifests of a kustomization."""
    done = kubectl(folder, "kustomize", str(kustomization))
    assert (done.exit_code, done.stderr) == (0, ""), done
    return done.stdout


def one_of(text: str, kind: str) -> Object:
    """Return the only object of a kind in manifests."""
    objects = cast("list[Object]", list(yaml.safe_load_all(text)))
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def deployment(text: str) -> Object:
    """Return the specification of the Deployment in manifests."""
    return cast("Object", one_of(text, "Deployment")["spec"])


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the manifests of the overlay with etcd."""
    return rendered(tmp_path_factory.mktemp("etcd"), MANIFESTS / "overlays" / "etcd")


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the manifests of the overlay with SQLite."""
    return rendered(tmp_path_factory.mktemp("sqlite"), MANIFESTS / "overlays" / "sqlite")


def test_every_object_is_valid_for_the_oldest_and_the_newest_release(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = tmp_path / "kubernetes"
    copytree(MANIFESTS, copy)
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "operator.yaml").write_bytes(gzip.decompress(OPERATOR.read_bytes()))
    (manifests / "reader.yaml").write_text(rendered(tmp_path, copy / "read-cluster"))
    for overlay in ("etcd", "sqlite"):
        monitored = copy / "overlays" / f"{overlay}-monitored"
        monitored.mkdir()
        (monitored / "kustomization.yaml").write_text(WITH_OPERATOR.format(overlay))
        text = rendered(tmp_path, monitored)
        assert "kind: ServiceMonitor" in text
        (manifests / f"{overlay}.yaml").write_text(text)
    for release in ("1.27", "1.36"):
        done = run(capsys, "check", "-f", str(manifests), "--against", f"kubernetes:{release}")
        assert done.exit_code == 0, done


def test_service_budget_and_policy_select_the_pods(etcd: str) -> None:
    labels = deployment(etcd)["template"]["metadata"]["labels"]
    assert one_of(etcd, "Service")["spec"]["selector"] == labels
    assert one_of(etcd, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert one_of(etcd, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels


def test_replicas_share_etcd_and_a_single_one_keeps_its_volume(etcd: str, sqlite: str) -> None:
    assert deployment(etcd)["replicas"] == 3
    single = deployment(sqlite)
    assert (single["replicas"], single["strategy"]) == (1, {"type": "Recreate"})
    volumes = {volume.pop("name"): volume for volume in single["template"]["spec"]["volumes"]}
    assert volumes["state"] == {"persistentVolumeClaim": {"claimName": "apidiscovery"}}


def test_the_deployment_starts_a_server_that_its_probes_and_prometheus_reach(
    sqlite: str, tmp_path: Path
) -> None:
    (container,) = deployment(sqlite)["template"]["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    inside = {path: str(tmp_path / name) for name, path in mounts.items()}
    paths = re.compile("|".join(sorted(map(re.escape, inside), reverse=True)))

    def here(value: str) -> str:
        return paths.sub(lambda found: inside[found[0]], value)

    for folder in inside.values():
        Path(folder).mkdir()
    pair = Authority(tmp_path / "ca").server(["127.0.0.1"])
    copyfile(pair.cert_file, tmp_path / "tls" / "tls.crt")
    copyfile(pair.key_file, tmp_path / "tls" / "tls.key")
    (tmp_path / "tokens" / "tokens.csv").write_text('some-token,prometheus,1,"admins"\n')
    (tmp_path / "config" / "config.yaml").write_text(
        here(one_of(sqlite, "ConfigMap")["data"]["config.yaml"])
    )
    variables = {one["name"]: here(one["value"]) for one in container["env"]}
    command, *flags = map(here, container["args"])
    assert command == "serve"
    with serving(
        tmp_path, *flags, "--catalog=kubernetes", "--shutdown-delay=0s", env=variables
    ) as server:
        trusted = ("--fail", "--cacert", str(tmp_path / "ca" / "ca.crt"))
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["scheme"] == "HTTPS"
            url = f"https://{server.http}{container[probe]['httpGet']['path']}"
            assert curl(tmp_path, *trusted, url).stdout == "ok"
        metrics = ("--oauth2-bearer", "some-token", f"https://{server.http}/metrics")
        assert "apidiscovery_groups 21.0" in curl(tmp_path, *trusted, *metrics).stdout
        assert (tmp_path / "state" / "store.sqlite").exists()
