"""OpenAPI v3 documents of API servers, as `DiscoveryClient.openapi` has them, and their errors."""

from apidiscovery_client.openapi.json_documents import NotExplained, UnsoundDocument

__all__ = ["NotExplained", "UnsoundDocument"]
