"""What both clients have for users: how they are made, what they list, what they raise."""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from apidiscovery_client import (
    AsyncDiscoveryClient,
    DiscoveryClient,
    InvalidConfiguration,
    RequestRefused,
    _errors,
)
from apidiscovery_client.testing import FakeApiServer, builtin_groups, group, resource
from apidiscovery_client.transports import CallRefused

WIDGETS = group("example.com", v1=[resource("widgets", "Widget", categories=["all"])])

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- name: one
  context: {{cluster: one}}
- name: other
  context: {{cluster: other}}
clusters:
- name: one
  cluster: {{server: "{url}"}}
- name: other
  cluster: {{server: "http://127.0.0.1:1"}}
"""

Make = Callable[..., DiscoveryClient | AsyncDiscoveryClient]


@pytest.mark.parametrize(
    "make", [DiscoveryClient.from_kubeconfig, AsyncDiscoveryClient.from_kubeconfig]
)
def test_a_kubeconfig_names_the_server(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG.format(url="http://127.0.0.1:8001"))
    assert make(file).server == "http://127.0.0.1:8001"
    assert make(file, context="other").server == "http://127.0.0.1:1"
    with pytest.raises(InvalidConfiguration, match="missing"):
        make(tmp_path / "missing")


@pytest.mark.parametrize("make", [DiscoveryClient.in_cluster, AsyncDiscoveryClient.in_cluster])
def test_without_a_service_account_there_is_no_cluster(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidConfiguration, match="no pod with a service account"):
        make()


def test_a_client_is_shown_with_its_server() -> None:
    assert repr(DiscoveryClient("http://host:1")) == "DiscoveryClient('http://host:1')"


async def test_resources_are_those_of_kubectl_with_its_filters() -> None:
    with FakeApiServer([*builtin_groups(), WIDGETS]) as server:
        with DiscoveryClient(server.url) as client:
            every = client.resources()
            assert [one.name for one in client.resources(group="example.com")] == ["widgets"]
            assert {one.is_namespaced for one in client.resources(namespaced=False)} == {False}
            assert all("watch" in one.verbs for one in client.resources(verbs=["watch", "list"]))
            of_all = client.resources(categories=["all"], sort_by="name")
        async with AsyncDiscoveryClient(server.url) as asynchronous:
            assert await asynchronous.resources() == every
            assert await asynchronous.resources(categories=["all"], sort_by="name") == of_all
    names = [one.name for one in of_all]
    assert "widgets" in names
    assert names == sorted(names)
    assert len({one.gvr for one in every}) == len(every)


def test_a_refused_call_is_a_refused_request() -> None:
    refused: RequestRefused = CallRefused(
        grpc.StatusCode.PERMISSION_DENIED, "not you", url="host:1"
    )
    assert (refused.status, refused.message, str(refused)) == (403, "not you", "not you")
    assert refused.is_of_the_caller


def test_every_error_that_clients_raise_is_exported() -> None:
    import apidiscovery_client

    defined = {
        node.name
        for node in ast.parse(inspect.getsource(_errors)).body
        if isinstance(node, ast.ClassDef)
    }
    assert defined <= set(apidiscovery_client.__all__)
