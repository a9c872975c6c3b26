"""Errors of fields as causes of a Status.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go. Paths are written as there:
`metadata.ownerReferences[0].uid`.
"""

from collections.abc import Sequence

from apidiscovery_service.kube import field_messages
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.errors import Cause


def invalid(field: str, value: JSONValue, detail: str) -> Cause:
    """The value is malformed or breaks a rule."""
    return Cause("FieldValueInvalid", field_messages.invalid(value, detail), field)


def required(field: str, detail: str) -> Cause:
    """The value is missing."""
    return Cause("FieldValueRequired", field_messages.required(detail), field)


def forbidden(field: str, detail: str) -> Cause:
    """The field must not be set, or not be changed so."""
    return Cause("FieldValueForbidden", field_messages.forbidden(detail), field)


def too_long(field: str, limit: int) -> Cause:
    """The value has more than `limit` bytes; it is not repeated."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def not_supported(field: str, value: JSONValue, supported: Sequence[str]) -> Cause:
    """The value is none of the supported ones."""
    return Cause("FieldValueNotSupported", field_messages.unsupported(value, supported), field)
