"""The manifests of deploy/kubernetes are valid, and start a server that their probes reach."""

import gzip
import re
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any, cast

import pytest
import yaml
from certificates import Authority
from programs import curl, kubectl, run_apidiscovery
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


@pytest.mark.parametrize("release", ["1.27", "1.36"])
def test_every_object_is_valid_for_the_release(release: str, tmp_path: Path) -> None:
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
    done = run_apidiscovery(
        tmp_path, "check", "-f", str(manifests), "--against", f"kubernetes:{release}"
    )
    assert done.exit_code == 0, done


def test_service_budget_and_policy_select_the_pods(tmp_path: Path) -> None:
    text = rendered(tmp_path, MANIFESTS / "overlays" / "etcd")
    labels = deployment(text)["template"]["metadata"]["labels"]
    assert one_of(text, "Service")["spec"]["selector"] == labels
    assert one_of(text, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert one_of(text, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels


def test_replicas_share_etcd_and_a_single_one_keeps_its_volume(tmp_path: Path) -> None:
    etcd = deployment(rendered(tmp_path, MANIFESTS / "overlays" / "etcd"))
    assert etcd["replicas"] == 3
    sqlite = deployment(rendered(tmp_path, MANIFESTS / "overlays" / "sqlite"))
    assert (sqlite["replicas"], sqlite["strategy"]) == (1, {"type": "Recreate"})
    volumes = {volume.pop("name"): volume for volume in sqlite["template"]["spec"]["volumes"]}
    assert volumes["state"] == {"persistentVolumeClaim": {"claimName": "apidiscovery"}}


def test_the_deployment_starts_a_server_that_its_probes_and_prometheus_reach(
    tmp_path: Path,
) -> None:
    text = rendered(tmp_path, MANIFESTS / "overlays" / "sqlite")
    (container,) = deployment(text)["template"]["spec"]["containers"]
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
        here(one_of(text, "ConfigMap")["data"]["config.yaml"])
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
