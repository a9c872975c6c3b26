"""Patches: what an object becomes by one, in the three forms that there are.

Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go, for the errors too. A patch is hostile
until it has been applied: its depth, its operations and what it copies are bounded here, its
length by whoever reads it.
"""

from collections.abc import Mapping, Sequence

import jsonpatch
import jsonpointer
import orjson

from apidiscovery_service import go_json
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import (
    decoding,
    errors,
    field_errors,
    json_text,
    limits,
    patch_problems,
    strategic_merge,
)
from apidiscovery_service.kube_objects.decoding import Decoded, Undecodable
from apidiscovery_service.kube_objects.errors import ObjectError
from apidiscovery_service.kube_objects.go_text import plain
from apidiscovery_service.kube_objects.kinds import Kind, Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

SUPPORTED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
"""The media types of patches, in Kubernetes' order; server-side apply is not among them."""

# Upstream takes 10 000: handlers/patch.go, maxJSONPatchOperations.
MAX_OPERATIONS = 1_000
# Of all `copy` operations of a patch, as compact JSON; what is larger cannot be stored.
# k8s.io/apiserver pkg/server/config.go, JSONPatchMaxCopyBytes, has 3 MiB.
MAX_COPIED_BYTES = limits.MAX_JSON_BYTES

_GO_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "number"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
)


def apply(
    content_type: str, patch: bytes, target: Object, kind: Kind, *, strict: bool = False
) -> Decoded:
    """Return what an object becomes by a patch; the object itself is not changed.

    Args:
        content_type: The value of Content-Type; parameters do not matter.
        patch: The body.
        target: The object, with its `resourceVersion` if the patch is to see it.
        kind: What it is and must stay.
        strict: Whether unknown and duplicate fields are refused (`fieldValidation=Strict`); else
            they are the outcome's problems.

    Raises:
        ObjectError: 415 for another media type, 400 for what is no such patch, 413 for one that
            says too much, 422 for one that cannot be applied or makes no object of the kind.
    """
    form = content_type.partition(";")[0]
    if form not in SUPPORTED:
        raise errors.unsupported_media_type(SUPPORTED)
    limits.check_json(patch)
    tree = _tree(patch)
    change = _value(patch)
    patched = _patched(form, change, target)
    # Upstream shows the outcome, but of a strategic merge patch the patch itself.
    shown = plain(change) if form == STRATEGIC_MERGE_PATCH else None
    try:
        decoded = decoding.from_value(patched, kind)
    except Undecodable as undecodable:
        raise _not_an_object(patched, shown, str(undecodable)) from None
    operations = form == JSON_PATCH
    problems = (*patch_problems.find(tree, operations=operations), *decoded.problems)
    if strict and problems:
        detail = f"strict decoding error: {', '.join(problems)}"
        raise _not_an_object(patched, shown, detail)
    return Decoded(decoded.object, problems)


def _tree(patch: bytes) -> json_text.Tree:
    try:
        return json_text.parse(patch)
    except json_text.NotJSON:
        raise errors.bad_request("invalid JSON patch") from None


def _value(patch: bytes) -> JSONValue:
    try:
        value: JSONValue = orjson.loads(patch)
    except orjson.JSONDecodeError:
        raise errors.bad_request("invalid JSON patch") from None
    return value


def _not_an_object(patched: JSONValue, shown: str | None, detail: str) -> ObjectError:
    text = go_json.dumps(patched).decode() if shown is None else shown
    return errors.invalid_patch(field_errors.invalid("patch", text, detail))


def _patched(form: str, change: JSONValue, target: Object) -> JSONValue:
    if form == JSON_PATCH:
        return json_patched(change, target)
    if not isinstance(change, Mapping | None):
        message = (
            f"json: cannot unmarshal {_go_type(change)} into Go value of type "
            "map[string]interface {}"
        )
        strategic = form == STRATEGIC_MERGE_PATCH
        raise errors.bad_request(message if strategic else f"error decoding patch: {message}")
    if form == STRATEGIC_MERGE_PATCH:
        return strategic_merge.merge(target, change or {})
    if change is None:
        raise errors.bad_request("Invalid JSON Patch")
    return merge_patched(target, change)


def _go_type(value: JSONValue) -> str:
    return next((name for kind, name in _GO_TYPES if isinstance(value, kind)), "object")


def merge_patched(target: JSONValue, patch: JSONValue) -> JSONValue:
    """Return what a JSON value becomes by a merge patch. Source: RFC 7386 section 2."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return merged


def json_patched(operations: JSONValue, target: JSONValue) -> JSONValue:
    """Return what a JSON value becomes by a JSON patch (RFC 6902).

    Raises:
        ObjectError: 400 for what is no list of operations, 413 for too many of them, 422 when one
            of them cannot be done or they copy too much.
    """
    checked = [_operation(operation) for operation in _operations(operations)]
    if len(checked) > MAX_OPERATIONS:
        raise errors.too_large(
            "The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(checked)}"
        )
    document: JSONValue = orjson.loads(orjson.dumps(target))
    copied = values = 0
    try:
        for operation in checked:
            step, copy = _without_copying(operation, document)
            copied += len(copy)
            values += limits.values(copy)
            if copied > MAX_COPIED_BYTES or values > limits.MAX_VALUES:
                raise errors.unprocessable()
            document = jsonpatch.JsonPatch([step]).apply(document, in_place=True)
        orjson.dumps(document)  # what is nested too deep can be neither written nor decoded
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        RecursionError,
        orjson.JSONEncodeError,
    ):
        raise errors.unprocessable() from None
    return document


def _operations(patch: JSONValue) -> Sequence[JSONValue]:
    if patch is None:
        return ()
    if isinstance(patch, str) or not isinstance(patch, Sequence):
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {_go_type(patch)} into Go value of "
            "type []handlers.jsonPatchOp"
        )
    return patch


def _operation(operation: JSONValue) -> dict[str, JSONValue]:
    if operation is None:
        raise errors.unprocessable()
    if not isinstance(operation, Mapping):
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {_go_type(operation)} into Go value of "
            "type handlers.jsonPatchOp"
        )
    for name in ("op", "path", "from"):
        value = operation.get(name)
        if value is not None and not isinstance(value, str):
            raise errors.bad_request(
                f"error decoding patch: json: cannot unmarshal {_go_type(value)} into Go struct "
                f"field jsonPatchOp.{name} of type string"
            )
    return dict(operation)


def _without_copying(
    operation: dict[str, JSONValue], document: JSONValue
) -> tuple[dict[str, JSONValue], bytes]:
    """Return an operation with any `copy` made an `add`, and what it copies.

    A copy doubles a document, so that some dozens of them fill the memory: it is measured first.
    """
    source = operation.get("from")
    if operation.get("op") != "copy" or not isinstance(source, str):
        return operation, b""
    value: JSONValue = jsonpointer.resolve_pointer(document, source)
    text = orjson.dumps(value)
    step = {"op": "add", "path": operation.get("path"), "value": orjson.loads(text)}
    return step, text
