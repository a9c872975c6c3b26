"""Several clusters side by side: what each serves, where they differ, what all have."""

from apidiscovery_client.fleet.async_fleet import AsyncFleet
from apidiscovery_client.fleet.blocking_fleet import Fleet

__all__ = ["AsyncFleet", "Fleet"]
