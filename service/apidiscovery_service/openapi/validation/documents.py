"""Whether a document from a stranger is a sound OpenAPI 3.0 document.

What passes has no surprises for whoever reads it next: it is of a bounded size and depth, every
field is of its type, every reference leads to a component of the same document. Regular
expressions in it are not tried. It takes about 0.1 s for each MB.
"""

import orjson
from apidiscovery_formats.openapi.shapes import as_object
from apidiscovery_formats.openapi.validation import problems

from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.validation.json_reader import InvalidDocuments, Limits, read

__all__ = ["DEFAULT_LIMITS", "InvalidDocuments", "Limits", "concerning", "validate"]

DEFAULT_LIMITS = Limits()


def validate(document: bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return a document as compact JSON as Go writes it, its keys in the order as given.

    Raises:
        InvalidDocuments: It is no sound document.
    """
    value = read(document, limits)
    found = problems(value, most=limits.errors, published=True)
    if found:
        raise InvalidDocuments(InvalidOpenAPI(*problem) for problem in found)
    return go_json.dumps(value)


def concerning(
    document: bytes, group: str, version: str, *, limits: Limits = DEFAULT_LIMITS
) -> None:
    """See that a sound document describes paths of one group-version alone.

    Args:
        document: As `validate` returned it.
        group: Empty for the core group.
        version: The version.
        limits: How many errors are told.

    Raises:
        InvalidDocuments: It describes others.
    """
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    value = as_object(orjson.loads(document))
    errors = [
        InvalidOpenAPI(("paths", path), f"want a path below {root}/")
        for path in as_object(value.get("paths"))
        if not path.startswith((f"{root}/", "x-")) and path != root
    ]
    if errors:
        raise InvalidDocuments(errors[: limits.errors])
