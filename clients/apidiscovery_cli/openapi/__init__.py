"""OpenAPI v3 documents: fetched, bundled, explained, validated."""
