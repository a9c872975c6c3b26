"""The command line."""

from apidiscovery_client.cli._main import main

__all__ = ["main"]
