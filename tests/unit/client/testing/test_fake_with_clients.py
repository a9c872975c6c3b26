"""Other clients work with the fake API server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from apidiscovery_client.testing import FakeApiServer, group, resource
from kubernetes import config, dynamic
from kubernetes.dynamic.exceptions import ResourceNotFoundError

from tools import find_tool


def kubectl(kubeconfig: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own arguments
        [find_tool("kubectl"), "--cache-dir", str(kubeconfig.parent / "cache"), *args],
        check=False,
        capture_output=True,
        env={"KUBECONFIG": str(kubeconfig), "PATH": os.environ["PATH"]},
        timeout=60,
        text=True,
    )


@pytest.mark.parametrize("release", ["1.26", "1.27", "1.36"])
def test_kubectl_lists_the_same_of_any_release(
    fake_apiserver: FakeApiServer, fake_apiserver_kubeconfig: Path, release: str
) -> None:
    fake_apiserver.old(release)
    listed = kubectl(fake_apiserver_kubeconfig, "api-resources", "-o", "wide", "--no-headers")
    assert (listed.returncode, listed.stderr) == (0, "")
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert len(rows) == len(
        {
            (served.name, found.name)
            for served in fake_apiserver.groups
            for version in served.versions
            for found in version.resources
            if found.verbs
        }
    )
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in [row[:5] for row in rows]
    assert ("/apis/apps/v1" in fake_apiserver.paths) == (release == "1.26")


def test_kubectl_gets_raw_documents(fake_apiserver_kubeconfig: Path) -> None:
    raw = kubectl(fake_apiserver_kubeconfig, "get", "--raw", "/apis/apps/v1")
    assert json.loads(raw.stdout)["groupVersion"] == "apps/v1"
    missing = kubectl(fake_apiserver_kubeconfig, "get", "--raw", "/apis/nope")
    assert "NotFound" in missing.stderr
    version = kubectl(fake_apiserver_kubeconfig, "version", "-o", "json")
    assert json.loads(version.stdout)["serverVersion"]["gitVersion"] == "v1.36.2"


def test_kubectl_sees_faults(
    fake_apiserver: FakeApiServer, fake_apiserver_kubeconfig: Path
) -> None:
    fake_apiserver.fail("apps/v1")
    fake_apiserver.old("1.26")
    partial = kubectl(fake_apiserver_kubeconfig, "api-resources")
    assert partial.returncode == 1
    assert "unable to retrieve the complete list of server APIs: apps/v1" in partial.stderr
    fake_apiserver.unauthorized()
    refused = kubectl(fake_apiserver_kubeconfig, "api-versions")
    assert refused.returncode == 1


def test_the_official_client_finds_resources(
    fake_apiserver: FakeApiServer,
    fake_apiserver_kubeconfig: Path,
    tmp_path: Path,
) -> None:
    fake_apiserver.add(group("example.com", v1=[resource("widgets", "Widget")]))
    api = config.new_client_from_config(  # type: ignore[no-untyped-call]  # it has no types
        config_file=str(fake_apiserver_kubeconfig)
    )
    with api:
        client: Any = dynamic.DynamicClient(  # type: ignore[no-untyped-call]  # it has no types
            api, cache_file=str(tmp_path / "cache")
        )
        assert client.resources.get(api_version="apps/v1", kind="Deployment").name == "deployments"
        assert client.resources.get(api_version="example.com/v1", kind="Widget").namespaced
        fake_apiserver.remove("example.com")
        client.resources.invalidate_cache()
        with pytest.raises(ResourceNotFoundError):
            client.resources.get(api_version="example.com/v1", kind="Widget")


_KR8S = """
import asyncio, json, sys
import kr8s.asyncio

async def main():
    api = await kr8s.asyncio.api(kubeconfig=sys.argv[1])
    kind = await api.lookup_kind("deploy")
    print(json.dumps([kind, [found["name"] for found in await api.api_resources()]]))

asyncio.run(main())
"""


def test_kr8s_finds_kinds(fake_apiserver: FakeApiServer, fake_apiserver_kubeconfig: Path) -> None:
    """kr8s leaves connections to the garbage collector, so it has a process of its own."""
    fake_apiserver.old("1.34")
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-c", _KR8S, str(fake_apiserver_kubeconfig)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    kind, names = json.loads(done.stdout)
    assert kind == ["deployment.apps/v1", "deployments", True]
    assert "pods" in names
    assert "/apis/apps/v1" in fake_apiserver.paths
