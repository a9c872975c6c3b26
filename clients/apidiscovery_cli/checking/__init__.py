"""Formats what `apidiscovery check` has found."""
