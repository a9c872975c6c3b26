"""OpenAPI v3 documents of API servers: fetched, kept, explained, merged, checked, converted."""
