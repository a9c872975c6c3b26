"""Transports for discovery; names are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apidiscovery_client._grpc.calls import CallRefused, GrpcServer
    from apidiscovery_client._http.flow import HttpOptions
    from apidiscovery_client._interfaces import (
        AsyncTransport,
        Document,
        FetchedSnapshot,
        SnapshotCache,
        Traffic,
        Transport,
    )
    from apidiscovery_client._server import Access, Server, StaticAccess
    from apidiscovery_client.transports.async_betterproto import AsyncBetterprotoTransport
    from apidiscovery_client.transports.async_grpc import AsyncGrpcTransport
    from apidiscovery_client.transports.async_http import AsyncHttpTransport
    from apidiscovery_client.transports.betterproto import BetterprotoTransport
    from apidiscovery_client.transports.grpc import GrpcTransport
    from apidiscovery_client.transports.http import HttpTransport

__all__ = [
    "Access",
    "AsyncBetterprotoTransport",
    "AsyncGrpcTransport",
    "AsyncHttpTransport",
    "AsyncTransport",
    "BetterprotoTransport",
    "CallRefused",
    "Document",
    "FetchedSnapshot",
    "GrpcServer",
    "GrpcTransport",
    "HttpOptions",
    "HttpTransport",
    "Server",
    "SnapshotCache",
    "StaticAccess",
    "Traffic",
    "Transport",
]

_MODULES = {
    "_interfaces": "AsyncTransport Document FetchedSnapshot SnapshotCache Traffic Transport",
    "_http.flow": "HttpOptions",
    "_grpc.calls": "CallRefused GrpcServer",
    "_server": "Access Server StaticAccess",
    "transports.async_betterproto": "AsyncBetterprotoTransport",
    "transports.async_grpc": "AsyncGrpcTransport",
    "transports.async_http": "AsyncHttpTransport",
    "transports.betterproto": "BetterprotoTransport",
    "transports.grpc": "GrpcTransport",
    "transports.http": "HttpTransport",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import what is named in `__all__`."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"apidiscovery_client.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
