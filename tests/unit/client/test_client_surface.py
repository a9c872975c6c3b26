"""The interface of both clients: construction, listings, errors."""

import ast
import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apidiscovery_client
import grpc
import pytest
from apidiscovery_client import (
    AsyncDiscoveryClient,
    DiscoveryClient,
    InvalidConfiguration,
    RequestRefused,
    _errors,
)
from apidiscovery_client.diffing import compare
from apidiscovery_client.fleet import AsyncFleet, Fleet
from apidiscovery_client.resolving import Resolver, best_common_version
from apidiscovery_client.snapshots.releases import release
from apidiscovery_client.testing import FakeApiServer, builtin_groups, group, resource
from apidiscovery_client.transports import (
    CallRefused,
    GrpcServer,
    GrpcTransport,
    HttpTransport,
    Server,
)
from repository import ROOT

WIDGETS = group("example.com", v1=[resource("widgets", "Widget", categories=["all"])])

_NO_API_SERVER = "there is no /apis, so this is not an API server"

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


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("contxt", "context"),
        ("as_usr", "as_user"),
        ("tokn", "token"),
        ("cach", "cache"),
        ("insecure_skip_tls_verfy", "insecure_skip_tls_verify"),
        ("zzz", ""),
    ],
)
def test_an_unknown_argument_is_an_error(misspelt: str, meant: str, tmp_path: Path) -> None:
    """Otherwise the current context answers in place of the one that is meant."""
    file = tmp_path / "config"
    file.write_text(KUBECONFIG.format(url="http://127.0.0.1:8001"))
    calls: list[Callable[..., object]] = [
        partial(DiscoveryClient.from_kubeconfig, file),
        partial(AsyncDiscoveryClient.from_kubeconfig, file),
        partial(DiscoveryClient, "http://127.0.0.1:1"),
        partial(AsyncDiscoveryClient, "grpc://127.0.0.1:1"),
    ]
    if meant != "cache":
        calls += [
            partial(Fleet.of_server, "http://127.0.0.1:1"),
            partial(AsyncFleet.of_server, "http://127.0.0.1:1"),
        ]
    hint = f"; did you mean '{meant}'?" if meant else ""
    for call in calls:
        with pytest.raises(TypeError) as error:
            call(**{misspelt: "x"})
        assert str(error.value) == f"unexpected keyword argument '{misspelt}'{hint}"


@pytest.mark.parametrize("make", [DiscoveryClient.in_cluster, AsyncDiscoveryClient.in_cluster])
def test_without_a_service_account_there_is_no_cluster(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidConfiguration, match="not a pod with a service account"):
        make()


def test_the_repr_of_a_client_has_its_server() -> None:
    assert repr(DiscoveryClient("http://host:1")) == "DiscoveryClient('http://host:1')"
    assert repr(DiscoveryClient("http://host:1").openapi) == "OpenApi('http://host:1')"
    assert repr(HttpTransport(Server("http://host:1"))) == "HttpTransport('http://host:1')"
    assert repr(GrpcTransport(GrpcServer(address="host:1"))) == "GrpcTransport('host:1')"


def test_the_reprs_of_results_are_short() -> None:
    with FakeApiServer(release="1.36") as server, DiscoveryClient(server.url) as client:
        assert repr(server) == f"FakeApiServer('{server.url}')"
        assert repr([client.resolve("deploy"), client.resolve("deploy/scale")]) == (
            "[<Resolution deployments.v1.apps: SHORT_NAME, Current>,"
            " <Resolution deployments.v1.apps/scale: SHORT_NAME, Current>]"
        )
        explained = [client.explain_resolution(name) for name in ("deploy", "nothing")]
    assert repr(explained) == (
        "[<Explanation of 'deploy': 2 steps, deployments.v1.apps>,"
        " <Explanation of 'nothing': 3 steps, NotServed>]"
    )
    old, new = release("1.24"), release("1.36")
    assert repr(Resolver(old)) == "<Resolver of kubernetes:1.24: 20 groups>"
    assert repr(best_common_version("hpa", {"old": old, "new": new})) == (
        "<CommonVersion horizontalpodautoscalers.v2.autoscaling: 2 servers>"
    )
    report = compare(old, new)
    told = f"<Report from kubernetes:1.24 to kubernetes:1.36: {report.summary}>"
    assert repr(report) == told


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
    defined = {
        node.name
        for node in ast.parse(inspect.getsource(_errors)).body
        if isinstance(node, ast.ClassDef)
    }
    assert defined <= set(apidiscovery_client.__all__)


def test_the_package_and_the_guide_list_every_error() -> None:
    sources = Path(apidiscovery_client.__file__).parent.rglob("*.py")
    bases = {
        name: set(re.findall(r"\w+", own))
        for source in sources
        for name, own in re.findall(r"^class (\w+)\((.*)\):", source.read_text(), re.MULTILINE)
    }
    errors = {"DiscoveryError"}
    while found := {name for name, own in bases.items() if own & errors} - errors:
        errors |= found
    assert "UnreadablePath" in errors
    guide = (ROOT / "docs/guides/python-developer.md").read_text()
    for text in (str(apidiscovery_client.__doc__), guide):
        assert errors <= set(re.findall(r"\w+", text))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "no token or password was sent"),
        ({"token": "wrong"}, "the bearer token was not accepted"),
        ({"username": "a", "password": "b"}, "the user name and password were not accepted"),
    ],
)
async def test_a_401_tells_which_credentials_were_sent(given: dict[str, str], told: str) -> None:
    with FakeApiServer() as server:
        server.unauthorized()
        with (
            DiscoveryClient(server.url, **given) as client,  # type: ignore[arg-type]
            pytest.raises(RequestRefused) as refused,
        ):
            client.snapshot()
        assert refused.value.message == f"Unauthorized; {told}"
        async with AsyncDiscoveryClient(server.url, **given) as asynchronous:  # type: ignore[arg-type]
            with pytest.raises(RequestRefused, match=told):
                await asynchronous.snapshot()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/apis", f"{_NO_API_SERVER}; leave /apis out of its URL: {{url}}"),
        ("/api", f"{_NO_API_SERVER}; leave /api out of its URL: {{url}}"),
        ("/clusters/n%C3%B6", "the server shows us no cluster 'nö'"),
        ("/views/nope", "the server shows us no view 'nope'"),
        ("/nope", _NO_API_SERVER),
    ],
)
def test_a_wrong_path_in_the_url_is_told(path: str, told: str) -> None:
    with (
        FakeApiServer() as server,
        DiscoveryClient(server.url + path) as client,
        pytest.raises(RequestRefused) as refused,
    ):
        client.snapshot()
    assert refused.value.message == told.format(url=server.url)
