"""The pages for browsers: what is served, by which clusters, what differs, and what changed."""

from apidiscovery_service.web.application import WebInterface
from apidiscovery_service.web.view import Served

__all__ = ["Served", "WebInterface"]
