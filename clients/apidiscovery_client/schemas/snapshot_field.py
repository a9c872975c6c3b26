"""Writes schemas into a snapshot's file, and reads them.

They are in its field `schemas`, as JSON that zlib compresses and base64 writes:

    {"objects": {DIGEST: a schema or definition}, "definitions": {NAME: DIGEST},
     "documents": {"apis/apps/v1": {COMPONENT: DIGEST}}, "failures": {"apis/...": reason}}

A digest is the SHA-256 of an object's canonical JSON, so what many documents share is there once.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._fields import (
    Fields,
    MisshapenError,
    as_fields,
    check_size,
    inner,
    text,
    text_map,
)
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.openapi.asking import group_version_of, key_of
from apidiscovery_client.schemas.model import Components
from apidiscovery_client.schemas.sources import GivenSchemas
from apidiscovery_client.snapshots.file import parsed_own

MAX_BYTES = 256 << 20  # uncompressed; a cluster of 500 definitions has 30 MB
_ENCODING = "zlib+base64"
_AGAIN = "save it again by `apidiscovery snapshot save --schemas`"


def stored_schemas(schemas: GivenSchemas) -> dict[str, object]:
    """Return schemas as the value of a snapshot's field, for `snapshots.file.dump`."""
    objects = dict[str, object]()

    def put(value: object) -> str:
        digest = _digest(value)
        objects[digest] = value
        return digest

    content = {
        "definitions": {name: put(found) for name, found in schemas.definitions.items()},
        "documents": {
            key_of(gv): {name: put(schema) for name, schema in components.schemas.items()}
            for gv, components in schemas.known.items()
        },
        "failures": {key_of(gv): why for gv, why in schemas.failures.items()},
        "objects": objects,
    }
    data = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    return {"encoding": _ENCODING, "data": base64.b64encode(data).decode()}


def load_schemas(data: bytes, name: str) -> GivenSchemas:
    """Return the schemas in a snapshot's file.

    Args:
        data: The content of the file.
        name: What errors and reports call it.

    Raises:
        InvalidConfiguration: It is not a snapshot, or has no or damaged schemas; the text tells
            what to do.
    """
    fields = parsed_own(data, name)
    stored = fields.get("schemas")
    if stored is None:
        raise InvalidConfiguration(f"{name}: it has no schemas; {_AGAIN}")
    try:
        return _read(as_fields(stored), name)
    except MisshapenError as error:
        raise InvalidConfiguration(f"{name}: schemas: {error}; {_AGAIN}") from None


def _read(stored: Fields, name: str) -> GivenSchemas:
    content = _unpacked(stored)
    objects = as_fields(content.get("objects"))
    for digest, value in objects.items():
        if _digest(value) != digest:
            raise MisshapenError(f"objects[{digest[:100]!r}]", "is damaged: its digest is another")

    def named(references: Mapping[str, str], path: str) -> dict[str, Fields]:
        missing = [key for key, digest in references.items() if digest not in objects]
        if missing:
            raise MisshapenError(path, f"has no object of {missing[0]!r}")
        return {key: as_fields(objects[digest]) for key, digest in references.items()}

    documents = inner(content, "documents") or {}
    known = {
        _group_version(key): Components(named(text_map(documents, key), f"documents.{key}"))
        for key in documents
    }
    failures = text_map(content, "failures")
    return GivenSchemas(
        name,
        named(text_map(content, "definitions"), "definitions"),
        known,
        {_group_version(key): why for key, why in failures.items()},
    )


def _unpacked(stored: Fields) -> Fields:
    encoding = text(stored, "encoding")
    if encoding != _ENCODING:
        raise MisshapenError("encoding", f"is {encoding!r}, not {_ENCODING!r}")
    unpack = zlib.decompressobj()
    try:
        packed = base64.b64decode(text(stored, "data"), validate=True)
        content = unpack.decompress(packed, MAX_BYTES)
        if unpack.unconsumed_tail:
            raise MisshapenError("data", f"has more than {MAX_BYTES} bytes")
        if not unpack.eof:
            raise MisshapenError("data", "ends in the middle")
        check_size(content)
        return as_fields(json.loads(content))
    except (binascii.Error, zlib.error, RecursionError, ValueError) as error:
        if isinstance(error, MisshapenError):
            raise
        raise MisshapenError("data", f"is damaged: {error}") from None


def _group_version(key: str) -> GroupVersion:
    gv = group_version_of(key)
    if gv is None:
        raise MisshapenError(f"documents[{key[:100]!r}]", "is not a group-version")
    return gv


def _digest(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
