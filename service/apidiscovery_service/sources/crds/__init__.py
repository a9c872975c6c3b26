"""CustomResourceDefinitions: read, validated, named, and what discovery tells of them."""
