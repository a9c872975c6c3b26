"""Clients for Kubernetes-style API discovery.

What is named here is imported when it is first used, so that `import apidiscovery_client` costs
next to nothing. The rest is in modules of their own: `changes` (what differs between two
snapshots), `resolving` (names, versions that several servers have), `transports` (servers,
credentials, how they are asked, caches), `adapters` (other Kubernetes packages), `testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apidiscovery_client._errors import (
        AmbiguousResource,
        ClientClosed,
        DiscoveryError,
        IncompleteDiscovery,
        InvalidConfiguration,
        NoCommonVersion,
        NotServed,
        NotYetServed,
        RequestRefused,
        ServerUnreachable,
        StaleGroup,
        UncertainResource,
        UnexpectedDocument,
    )
    from apidiscovery_client._sans_io.options import ClientOptions
    from apidiscovery_client.async_client import AsyncDiscoveryClient
    from apidiscovery_client.client import DiscoveryClient
    from apidiscovery_client.model import (
        Current,
        Group,
        GroupVersion,
        GroupVersionKind,
        GroupVersionResource,
        Resource,
        Snapshot,
        Stale,
        Subresource,
        Unknown,
        Version,
    )
    from apidiscovery_client.resolving import Resolution

__all__ = [
    "AmbiguousResource",
    "AsyncDiscoveryClient",
    "ClientClosed",
    "ClientOptions",
    "Current",
    "DiscoveryClient",
    "DiscoveryError",
    "Group",
    "GroupVersion",
    "GroupVersionKind",
    "GroupVersionResource",
    "IncompleteDiscovery",
    "InvalidConfiguration",
    "NoCommonVersion",
    "NotServed",
    "NotYetServed",
    "RequestRefused",
    "Resolution",
    "Resource",
    "ServerUnreachable",
    "Snapshot",
    "Stale",
    "StaleGroup",
    "Subresource",
    "UncertainResource",
    "UnexpectedDocument",
    "Unknown",
    "Version",
]

_MODULES = {
    "_errors": (
        "AmbiguousResource ClientClosed DiscoveryError IncompleteDiscovery "
        "InvalidConfiguration NoCommonVersion NotServed NotYetServed RequestRefused "
        "ServerUnreachable StaleGroup UncertainResource UnexpectedDocument"
    ),
    "async_client": "AsyncDiscoveryClient",
    "client": "DiscoveryClient",
    "_sans_io.options": "ClientOptions",
    "model": (
        "Current Group GroupVersion GroupVersionKind GroupVersionResource Resource Snapshot "
        "Stale Subresource Unknown Version"
    ),
    "resolving": "Resolution",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import what is named in `__all__`."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return also what was not imported yet."""
    return sorted({*globals(), *__all__})
