"""CustomResourceDefinitions: reading, validation, names and discovery."""
