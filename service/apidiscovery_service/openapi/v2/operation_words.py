"""What operations say of themselves."""

from apidiscovery_service.openapi.v2.places import (
    Object,
    Place,
    as_flag,
    as_object,
    as_text,
    as_texts,
)


def described(source: Object, at: Place) -> Object:
    """Return what an operation says in the same words in v2 and in v3."""
    result: Object = {}
    for name in ("summary", "description", "operationId"):
        if name in source:
            result[name] = as_text(source[name], (at, name))
    if "tags" in source:
        result["tags"] = as_texts(source["tags"], (at, "tags"))
    if "deprecated" in source:
        result["deprecated"] = as_flag(source["deprecated"], (at, "deprecated"))
    if "externalDocs" in source:
        result["externalDocs"] = as_object(source["externalDocs"], (at, "externalDocs"))
    return result
