"""OpenAPI documents of other API servers: requested, recorded, served."""
