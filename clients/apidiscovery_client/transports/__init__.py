"""The ways to ask a server for discovery; each module is about one, and imported when used."""
