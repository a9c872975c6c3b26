"""Registrations at run time: taken, kept in the store, followed from there by every replica."""

from apidiscovery_service.sources.registrations.owners import OwnerExpiry
from apidiscovery_service.sources.registrations.registrations import Registrations

__all__ = ["OwnerExpiry", "Registrations"]
