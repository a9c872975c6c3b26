"""For the tests of those who use discovery: an API server that can be made to fail.

With pytest nothing needs to be imported, as the package brings a plugin:

    def test_my_tool_lives_without_metrics(fake_apiserver, fake_apiserver_kubeconfig):
        fake_apiserver.add(group("metrics.k8s.io", v1beta1=[resource("nodes", "NodeMetrics")]))
        fake_apiserver.fail("metrics.k8s.io/v1beta1")
        my_tool.run("--kubeconfig", fake_apiserver_kubeconfig)
        assert "/apis" in fake_apiserver.paths

Fixtures: `fake_apiserver` serves what is built into Kubernetes, `make_fake_apiserver` starts others
with the arguments of `FakeApiServer`, `fake_apiserver_kubeconfig` leads to the first. All modules
are imported when they are first used, since the plugin is loaded by every run of pytest.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apidiscovery_client.testing._state import Serves
    from apidiscovery_client.testing.building import (
        ALL_VERBS,
        builtin_groups,
        group,
        resource,
    )
    from apidiscovery_client.testing.server import FakeApiServer, Request

__all__ = [
    "ALL_VERBS",
    "FakeApiServer",
    "Request",
    "Serves",
    "builtin_groups",
    "group",
    "resource",
]

_HOMES = {
    "ALL_VERBS": "building",
    "FakeApiServer": "server",
    "Request": "server",
    "Serves": "_state",
    "builtin_groups": "building",
    "group": "building",
    "resource": "building",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
