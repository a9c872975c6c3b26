"""The HTTP face: kube-apiserver's answers for discovery, byte for byte, from an ASGI app."""

from apidiscovery_service.http_gateway.asgi import Gateway
from apidiscovery_service.http_gateway.respond import Site
from apidiscovery_service.http_gateway.server import HttpServer

__all__ = ["Gateway", "HttpServer", "Site"]
