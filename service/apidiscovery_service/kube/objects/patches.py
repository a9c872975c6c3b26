"""Applies JSON merge patches to objects.

Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go, also for the errors. The depth of a patch
is bounded here, its length by the code that reads the body.
"""

from collections.abc import Iterator, Mapping

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import decoding, errors, field_errors, json_text, limits
from apidiscovery_service.kube.objects.decoding import Decoded, Undecodable
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.json_text import Pairs, Tree
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from apidiscovery_service.kube.objects.typed_values import Mistyped, plain

MERGE_PATCH = "application/merge-patch+json"

SUPPORTED = (MERGE_PATCH,)
"""The media types of patches."""

_MAX_PROBLEMS = 100  # sigs.k8s.io/json internal/golang/encoding/json/kubernetes_patch.go

_GO_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "number"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
)


def apply(
    content_type: str, patch: bytes, target: Object, kind: ObjectKind, *, strict: bool = False
) -> Decoded:
    """Return the result of a patch; the object itself is not changed.

    Args:
        content_type: The value of Content-Type; parameters do not matter.
        patch: The body.
        target: The object, with its `resourceVersion` if the patch is to see it.
        kind: The kind of the object and of the result.
        strict: Whether unknown and duplicate fields are refused (`fieldValidation=Strict`); else
            they are problems of the result.

    Raises:
        ObjectError: 415 for another media type, 400 for a malformed patch, 413 for one that exceeds
            `limits`, 422 for a result that is not an object of the kind.
    """
    if content_type.partition(";")[0] not in SUPPORTED:
        raise errors.unsupported_media_type(SUPPORTED)
    limits.check_json(patch)
    try:
        tree = json_text.parse(patch)
    except json_text.NotJSON:
        raise errors.bad_request("invalid JSON patch") from None
    try:
        change = plain(tree)
    except Mistyped as mistyped:
        raise errors.bad_request(f"error decoding patch: {mistyped}") from None
    patched = merge_patched(target, _checked(change))
    try:
        decoded = decoding.from_value(patched, kind)
    except Undecodable as undecodable:
        raise _not_an_object(patched, str(undecodable)) from None
    problems = (*_problems(tree), *decoded.problems)
    if strict and problems:
        raise _not_an_object(patched, f"strict decoding error: {', '.join(problems)}")
    return Decoded(decoded.object, problems)


def _checked(change: JSONValue) -> Mapping[str, JSONValue]:
    if change is None:
        raise errors.bad_request("Invalid JSON Patch")
    if not isinstance(change, Mapping):
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {_go_type(change)} into Go value of "
            "type map[string]interface {}"
        )
    return change


def _not_an_object(patched: JSONValue, detail: str) -> ObjectError:
    text = go_json.dumps(patched).decode()
    return errors.invalid_patch(field_errors.invalid("patch", text, detail))


def _go_type(value: JSONValue) -> str:
    return next((name for kind, name in _GO_TYPES if isinstance(value, kind)), "object")


def merge_patched(target: JSONValue, patch: JSONValue) -> JSONValue:
    """Return the result of a merge patch on a JSON value. Source: RFC 7386 section 2."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return merged


def _problems(patch: Tree) -> tuple[str, ...]:
    """Return a problem for each repeated field, in the order of the text, at most 100."""
    problems = dict[str, None]()
    for problem in _duplicates(patch, ""):
        problems[problem] = None
        if len(problems) == _MAX_PROBLEMS:
            break
    return tuple(problems)


def _duplicates(tree: Tree, place: str) -> Iterator[str]:
    if isinstance(tree, Pairs):
        seen = set[str]()
        for name, value in tree:
            inner = f"{place}.{name}" if place else name
            if name in seen:
                yield f"duplicate field {quote(inner)}"
            seen.add(name)
            yield from _duplicates(value, inner)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _duplicates(item, f"{place}[{index}]")
