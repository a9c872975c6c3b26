"""OpenAPI 3.0 documents: whether they are sound, and where they are not."""
