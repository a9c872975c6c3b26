"""`apidiscovery upgrade` of a real kube-apiserver 1.31 with what an upgrade breaks."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from programs import run_shell
from real_cluster import RealCluster, definition, path_of, running
from waiting import eventually

CRD = definition("widgets", "Widget", "v1", "v2")
LATE = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3",
    "kind": "FlowSchema",
    "metadata": {"name": "late"},
    "spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 5000},
}
API_SERVICE = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.absent.example.com"},
    "spec": {
        "group": "absent.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "default", "name": "absent"},
    },
}
WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "converter"}},
    },
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Return a server with a removed API in use, an old stored version, and no webhook."""
    folder = tmp_path_factory.mktemp("real")
    with running("1.31", folder) as cluster:
        cluster.create(CRD)
        eventually(partial(_has_stored, cluster), "v1 is among storedVersions")
        spec = CRD["spec"]
        old, new = spec["versions"]
        versions = [{**old, "served": False, "storage": False}, {**new, "storage": True}]
        _apply(cluster, {**CRD, "spec": {**spec, "versions": versions, "conversion": WEBHOOK}})
        _apply(cluster, LATE)
        cluster.create(API_SERVICE)
        eventually(partial(_is_down, cluster), "the APIService is not available", 60)
        yield cluster


def _apply(cluster: RealCluster, content: dict[str, Any]) -> None:
    file = cluster.folder / "applied.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    done = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    assert done.exit_code == 0, done.stderr


def _has_stored(cluster: RealCluster) -> bool:
    status = cluster.get(path_of(CRD)).json().get("status", {})
    return bool(status.get("storedVersions") == ["v1"])


def _is_down(cluster: RealCluster) -> bool:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.absent.example.com"
    return cluster.conditions(path).get("Available", ("",))[0] == "False"


def test_all_that_an_upgrade_breaks_is_planned(cluster: RealCluster) -> None:
    found = cluster.apidiscovery("upgrade", "--to", "1.36", "-o", "json")
    assert found.exit_code == 1, found.stderr
    (told,) = json.loads(found.stdout)["clusters"]
    assert (told["from"], told["notRead"]) == ("1.31", [])
    steps = [(step["rule"], step["subject"]) for step in told["steps"]]
    assert steps[:4] == [
        ("webhook-down", "Service default/converter"),
        ("api-service-down", "APIService v1.absent.example.com"),
        ("removed-api-called", "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema"),
        ("stored-version", "CustomResourceDefinition widgets.example.com"),
    ]
    assert ("fields-changed", "fields of built-in kinds") in steps


def test_the_commands_do_what_is_told(cluster: RealCluster) -> None:
    """The one for callers names who wrote; the one for stored versions ends the step."""
    steps = _steps(cluster)
    callers = run_shell(cluster.folder, steps["removed-api-called"])
    assert callers.stdout.split() == ["1", "kubectl"]
    _apply(cluster, {**CRD, "spec": _spec(cluster) | {"conversion": {"strategy": "None"}}})
    widget = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}}
    _apply(cluster, widget)
    rewritten = run_shell(cluster.folder, steps["stored-version"])
    assert rewritten.exit_code == 0, rewritten.stderr
    assert "stored-version" not in _steps(cluster)


def _spec(cluster: RealCluster) -> dict[str, Any]:
    spec = cluster.get(path_of(CRD)).json()["spec"]
    del spec["conversion"]
    return dict(spec)


def _steps(cluster: RealCluster) -> dict[str, str]:
    """Return the commands of the steps by their rules."""
    found = cluster.apidiscovery("upgrade", "--to", "1.36", "-o", "json")
    (told,) = json.loads(found.stdout)["clusters"]
    return {step["rule"]: step["command"] for step in told["steps"]}
