"""The front of the servers: terminates TLS, limits connections, and relays bytes to a server."""

from apidiscovery_service.serving.front.credential_files import (
    Certificates,
    Reload,
    TokenFile,
    follow,
)
from apidiscovery_service.serving.front.front import Front
from apidiscovery_service.serving.front.metrics import FrontMetrics

__all__ = ["Certificates", "Front", "FrontMetrics", "Reload", "TokenFile", "follow"]
