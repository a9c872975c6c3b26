"""OpenAPI documents of group-versions: made, converted, merged, encoded and kept by hash.

Nothing here knows where a document comes from: sources hand over recipes, transports ask for
bodies.
"""
