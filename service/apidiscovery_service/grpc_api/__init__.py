"""The gRPC face: DiscoveryService, health and reflection."""

from apidiscovery_service.grpc_api.admission import AdmissionInterceptor, CallAccess
from apidiscovery_service.grpc_api.discovery import DiscoveryService
from apidiscovery_service.grpc_api.server import GrpcServer

__all__ = ["AdmissionInterceptor", "CallAccess", "DiscoveryService", "GrpcServer"]
