"""Errors of fields in the words of Kubernetes.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go. Paths are written as there:
`metadata.ownerReferences[0].uid`.
"""

from collections.abc import Sequence

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.errors import Cause


def _shown(value: JSONValue) -> str:
    return quote(value) if isinstance(value, str) else go_json.dumps(value).decode()


def _with(detail: str) -> str:
    return f": {detail}" if detail else ""


def invalid(field: str, value: JSONValue, detail: str) -> Cause:
    """The value is malformed or breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {_shown(value)}{_with(detail)}", field)


def required(field: str, detail: str) -> Cause:
    """The value is missing."""
    return Cause("FieldValueRequired", f"Required value{_with(detail)}", field)


def forbidden(field: str, detail: str) -> Cause:
    """The field must not be set, or not be changed so."""
    return Cause("FieldValueForbidden", f"Forbidden{_with(detail)}", field)


def too_long(field: str, limit: int) -> Cause:
    """The value has more than `limit` bytes; it is not repeated."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def not_supported(field: str, value: JSONValue, supported: Sequence[str]) -> Cause:
    """The value is none of the supported ones."""
    known = ", ".join(map(quote, supported))
    message = f"Unsupported value: {_shown(value)}: supported values: {known}"
    return Cause("FieldValueNotSupported", message, field)
