"""The HTTP face: what kube-apiserver answers for discovery, byte for byte, as an ASGI application."""

from apidiscovery_service.http_gateway.asgi import Gateway
from apidiscovery_service.http_gateway.respond import Site
from apidiscovery_service.http_gateway.server import HttpServer

__all__ = ["Gateway", "HttpServer", "Site"]
