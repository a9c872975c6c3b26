"""Whether a document from a stranger is a sound OpenAPI 3.0 document.

What passes has no surprises for whoever reads it next: it is of a bounded size and depth, every
field is of its type, every reference leads to a component of the same document. Regular
expressions in it are not tried. It takes about 0.1 s for each MB; other threads go on meanwhile.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from apidiscovery_formats.openapi.shapes import as_object
from apidiscovery_formats.openapi.validation import problems

from apidiscovery_service import go_json
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi import stepwise_json
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.validation.json_reader import InvalidDocuments, Limits, read

__all__ = ["DEFAULT_LIMITS", "InvalidDocuments", "Limits", "concerning", "validate"]

DEFAULT_LIMITS = Limits()

# Objects down to this level are written one by one: `components`, `schemas`, each of these.
_WRITTEN_APART = 3


def validate(document: bytes, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return a document as compact JSON as Go writes it, its keys in the order as given.

    Raises:
        InvalidDocuments: It is no sound document.
    """
    value = read(document, limits)
    try:
        found = problems(value, most=limits.errors, published=True)
        if found:
            raise InvalidDocuments(InvalidOpenAPI(*problem) for problem in found)
        return b"".join(_pieces(value, _WRITTEN_APART))
    finally:
        stepwise_json.dismantle(value)


def _pieces(value: JSONValue, levels: int) -> Iterator[bytes]:
    """Yield JSON text; what writes it lets nothing else go on meanwhile, so it gets little."""
    if not levels or not isinstance(value, dict):
        yield go_json.dumps(value)
        return
    before = b"{"
    for name, item in cast("Mapping[str, JSONValue]", value).items():
        yield before + go_json.dumps(name) + b":"
        yield from _pieces(item, levels - 1)
        before = b","
    yield b"}" if before == b"," else b"{}"


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
    value = as_object(stepwise_json.loads(document))
    errors = [
        InvalidOpenAPI(("paths", path), f"want a path below {root}/")
        for path in as_object(value.get("paths"))
        if not path.startswith((f"{root}/", "x-")) and path != root
    ]
    stepwise_json.dismantle(value)
    if errors:
        raise InvalidDocuments(errors[: limits.errors])
