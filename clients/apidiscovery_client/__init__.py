"""Clients for Kubernetes-style API discovery, and the command line.

What is named here is imported when it is first used, so that `import apidiscovery_client` costs
next to nothing. What changed between two snapshots is told by `apidiscovery_client.changes`.
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
        NotServed,
        NotYetServed,
        RequestRefused,
        ServerUnreachable,
        StaleGroup,
        UncertainResource,
        UnexpectedDocument,
    )
    from apidiscovery_client.cache import DiskCache
    from apidiscovery_client.changes import (
        Change,
        FreshnessChanged,
        GroupAdded,
        GroupChanged,
        GroupRemoved,
        OrderChanged,
        PreferredVersionChanged,
        ResourceAdded,
        ResourceChanged,
        ResourceRemoved,
        ServerFreshnessChanged,
        VersionAdded,
        VersionChanged,
        VersionRemoved,
    )
    from apidiscovery_client.client import DiscoveryClient
    from apidiscovery_client.core.options import ClientOptions
    from apidiscovery_client.held import (
        AsyncTransport,
        Document,
        Held,
        SnapshotCache,
        Traffic,
        Transport,
    )
    from apidiscovery_client.model import (
        CURRENT,
        Current,
        Freshness,
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
    from apidiscovery_client.resolving import (
        CommonVersion,
        Explanation,
        Resolution,
        Resolver,
        best_common_version,
    )
    from apidiscovery_client.rpc.calls import CallRefused
    from apidiscovery_client.server import Access, Server, StaticAccess
    from apidiscovery_client.sync_client import SyncDiscoveryClient

__all__ = [
    "CURRENT",
    "Access",
    "AmbiguousResource",
    "AsyncTransport",
    "CallRefused",
    "Change",
    "ClientClosed",
    "ClientOptions",
    "CommonVersion",
    "Current",
    "DiscoveryClient",
    "DiscoveryError",
    "DiskCache",
    "Document",
    "Explanation",
    "Freshness",
    "FreshnessChanged",
    "Group",
    "GroupAdded",
    "GroupChanged",
    "GroupRemoved",
    "GroupVersion",
    "GroupVersionKind",
    "GroupVersionResource",
    "Held",
    "IncompleteDiscovery",
    "InvalidConfiguration",
    "NotServed",
    "NotYetServed",
    "OrderChanged",
    "PreferredVersionChanged",
    "RequestRefused",
    "Resolution",
    "Resolver",
    "Resource",
    "ResourceAdded",
    "ResourceChanged",
    "ResourceRemoved",
    "Server",
    "ServerFreshnessChanged",
    "ServerUnreachable",
    "Snapshot",
    "SnapshotCache",
    "Stale",
    "StaleGroup",
    "StaticAccess",
    "Subresource",
    "SyncDiscoveryClient",
    "Traffic",
    "Transport",
    "UncertainResource",
    "UnexpectedDocument",
    "Unknown",
    "Version",
    "VersionAdded",
    "VersionChanged",
    "VersionRemoved",
    "best_common_version",
]

_MODULES = {
    "_errors": (
        "AmbiguousResource ClientClosed DiscoveryError IncompleteDiscovery "
        "InvalidConfiguration NotServed NotYetServed RequestRefused ServerUnreachable "
        "StaleGroup UncertainResource UnexpectedDocument"
    ),
    "rpc.errors": "CallRefused",
    "core.options": "ClientOptions",
    "cache": "DiskCache",
    "changes": (
        "Change FreshnessChanged GroupAdded GroupChanged GroupRemoved OrderChanged "
        "PreferredVersionChanged ResourceAdded ResourceChanged ResourceRemoved "
        "ServerFreshnessChanged VersionAdded VersionChanged VersionRemoved"
    ),
    "client": "DiscoveryClient",
    "held": "AsyncTransport Document Held SnapshotCache Traffic Transport",
    "model": (
        "CURRENT Current Freshness Group GroupVersion GroupVersionKind "
        "GroupVersionResource Resource Snapshot Stale Subresource Unknown Version"
    ),
    "resolving": "CommonVersion Explanation Resolution Resolver best_common_version",
    "server": "Access Server StaticAccess",
    "sync_client": "SyncDiscoveryClient",
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
