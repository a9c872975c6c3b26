"""The HTTP server: kube-apiserver's answers for discovery, byte for byte, from an ASGI app."""

from apidiscovery_service.serving.http.asgi import Gateway
from apidiscovery_service.serving.http.respond import Site
from apidiscovery_service.serving.http.server import HttpServer

__all__ = ["Gateway", "HttpServer", "Site"]
