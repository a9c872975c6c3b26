"""Registrations at run time: written to the store, and served as every replica follows it."""

from apidiscovery_service.sources.registrations.registrations import Registrations

__all__ = ["Registrations"]
