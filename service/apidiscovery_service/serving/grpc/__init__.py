"""The gRPC server: our services, health and reflection."""

from apidiscovery_service.serving.grpc.admission import AdmissionInterceptor
from apidiscovery_service.serving.grpc.discovery import DiscoveryService
from apidiscovery_service.serving.grpc.server import GrpcServer

__all__ = ["AdmissionInterceptor", "DiscoveryService", "GrpcServer"]
