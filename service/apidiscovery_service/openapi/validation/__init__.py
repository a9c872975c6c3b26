"""Whether a document from a stranger is sound OpenAPI 3.0."""
