"""Reports on upgrades."""
