"""OpenAPI v3 documents of CustomResourceDefinitions, as apiextensions-apiserver makes them."""
