"""OpenAPI v2 into v3 and back, and one v2 document of everything."""
