"""Clients for Kubernetes-style API discovery.

`DiscoveryClient` blocks, `AsyncDiscoveryClient` is for asyncio. Both return the values of `model`.
Names of this package are imported when they are first used, so that importing it is quick. More is
in submodules: `changes` (what differs between two snapshots), `resolving` (what names mean, common
versions of several servers), `transports` (servers, credentials, protocols, caches), `openapi`,
`snapshots` (saved to files, and of Kubernetes' releases), `adapters` (other Kubernetes packages),
`storage_versions` and `testing`.

Every error is a `DiscoveryError`, except `TypeError`, `ValueError` and `RuntimeError` for wrong
calls, and in `adapters` the errors of the other package:

- no usable answer: `ServerUnreachable`, `RequestRefused` (over gRPC its subclass
  `transports.CallRefused`), `UnexpectedDocument`;
- a name: `NotServed`, `AmbiguousResource`, `NoCommonVersion`, `NotYetServed`, and with `strict`
  `StaleGroup` and `UncertainResource`;
- OpenAPI documents: `openapi.NotExplained`, `openapi.UnsoundDocument`;
- schemas: `schema_diff.InvalidSchema`;
- storage versions: `NoAgreement`, `AgreementLost`, `ReporterEnded` and `UnreadablePath` of
  `storage_versions`;
- the caller: `InvalidConfiguration` (for files of objects its subclass
  `manifests.UnreadableManifest`), `MissingExtra`, `ClientClosed`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apidiscovery_client._errors import (
        AmbiguousResource,
        ClientClosed,
        DiscoveryError,
        InvalidConfiguration,
        MissingExtra,
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
    "InvalidConfiguration",
    "MissingExtra",
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
        "AmbiguousResource ClientClosed DiscoveryError InvalidConfiguration MissingExtra "
        "NoCommonVersion NotServed NotYetServed RequestRefused ServerUnreachable StaleGroup "
        "UncertainResource UnexpectedDocument"
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
