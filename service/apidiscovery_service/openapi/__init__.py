"""OpenAPI documents of group-versions: making, converting, merging, encoding and caching them.

Sources provide recipes, transports ask for bodies; nothing here knows where a document comes from.
"""
