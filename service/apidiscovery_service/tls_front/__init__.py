"""The end of TLS: knows clients by their certificates and carries bytes to the plain servers."""

from apidiscovery_service.tls_front.certificates import Certificates
from apidiscovery_service.tls_front.front import TlsFront
from apidiscovery_service.tls_front.metrics import FrontMetrics
from apidiscovery_service.tls_front.reload import Reload, follow
from apidiscovery_service.tls_front.token_file import TokenFile

__all__ = ["Certificates", "FrontMetrics", "Reload", "TlsFront", "TokenFile", "follow"]
