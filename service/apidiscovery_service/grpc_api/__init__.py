"""The gRPC face: DiscoveryService, health and reflection."""

from apidiscovery_service.grpc_api.discovery import DiscoveryService
from apidiscovery_service.grpc_api.server import GrpcServer

__all__ = ["DiscoveryService", "GrpcServer"]
