"""A fake API server for tests, which can be made to fail.

With pytest no import is needed, as the package has a plugin:

    def test_my_tool_lives_without_metrics(fake_apiserver, fake_apiserver_kubeconfig):
        fake_apiserver.add(group("metrics.k8s.io", v1beta1=[resource("nodes", "NodeMetrics")]))
        fake_apiserver.fail("metrics.k8s.io/v1beta1")
        my_tool.run("--kubeconfig", fake_apiserver_kubeconfig)
        assert "/apis" in fake_apiserver.paths

Fixtures: `fake_apiserver` serves the built-in APIs of Kubernetes, `make_fake_apiserver` starts
servers with the arguments of `FakeApiServer`, `fake_apiserver_kubeconfig` is a kubeconfig for the
first. Modules are imported on first use, since every run of pytest loads the plugin.
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
