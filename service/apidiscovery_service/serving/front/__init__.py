"""What stands before the servers: ends TLS, limits connections, and carries bytes to a server."""

from apidiscovery_service.serving.front.certificates import Certificates
from apidiscovery_service.serving.front.front import Front
from apidiscovery_service.serving.front.metrics import FrontMetrics
from apidiscovery_service.serving.front.reload import Reload, follow
from apidiscovery_service.serving.front.token_file import TokenFile

__all__ = ["Certificates", "Front", "FrontMetrics", "Reload", "TokenFile", "follow"]
