"""Errors of requests about objects, with the fields of their `Status`.

The texts, codes and reasons are Kubernetes'. Sources: k8s.io/apimachinery
pkg/api/errors/errors.go and pkg/util/validation/field/errors.go; k8s.io/apiserver
pkg/endpoints/handlers/negotiation/errors.go.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from apidiscovery_formats.go_text import quote
from apidiscovery_formats.negotiation import not_acceptable_message

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.objects.kinds import ObjectKind

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)

# How much of an invalid object an answer repeats. Upstream repeats everything: its answer to a body
# of 1.5 MB can have 20 MB.
_MAX_CAUSES = 100
_MAX_TEXT = 16 * 1024


@dataclass(frozen=True, slots=True)
class Cause:
    """One error of one field.

    Attributes:
        reason: Such as `FieldValueInvalid`; empty when there is no machine-readable one.
        message: The error, without the field.
        field: Path of the field, such as `status.storageVersions[0].apiServerID`.
    """

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Details:
    """The `details` of a Status; an empty string, no cause or 0 seconds is not written.

    Attributes:
        kind: The kind's name in errors about its fields (`StorageVersion`), else the plural that
            stands in URLs (`storageversions`): Kubernetes uses the field for both.
    """

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: int = 0


class ObjectError(DiscoveryError):
    """A request about an object failed; the answer is a `Status`.

    Attributes:
        code: HTTP status code.
        reason: Machine-readable reason, such as `NotFound`.
        message: What a person reads.
        details: None when the Status has none.
        continue_token: Where an expired list can be continued; empty for nowhere.
    """

    def __init__(
        self,
        code: HTTPStatus,
        reason: str,
        message: str,
        details: Details | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.continue_token = continue_token


def group_resource(kind: ObjectKind) -> str:
    """Return `storageversions.internal.apiserver.k8s.io`; a core resource goes without a group."""
    return _dotted(kind.plural, kind.group)


def _dotted(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _resource(kind: ObjectKind, name: str = "", retry_after_s: int = 0) -> Details:
    return Details(name, kind.group, kind.plural, retry_after_s=retry_after_s)


def not_found(kind: ObjectKind, name: str) -> ObjectError:
    """There is no object of that name."""
    message = f"{group_resource(kind)} {quote(name)} not found"
    return ObjectError(HTTPStatus.NOT_FOUND, "NotFound", message, _resource(kind, name))


def already_exists(kind: ObjectKind, name: str) -> ObjectError:
    """An object of that name exists and cannot be created."""
    message = f"{group_resource(kind)} {quote(name)} already exists"
    return ObjectError(HTTPStatus.CONFLICT, "AlreadyExists", message, _resource(kind, name))


def name_not_generated(kind: ObjectKind, name: str) -> ObjectError:
    """Every name that was generated from `generateName` is in use; `name` is the last one."""
    message = (
        f"{group_resource(kind)} {quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = _resource(kind, name, retry_after_s=1)
    return ObjectError(HTTPStatus.CONFLICT, "AlreadyExists", message, details)


def conflict(kind: ObjectKind, name: str, why: str = MODIFIED) -> ObjectError:
    """The object has changed since the caller read it, or a precondition fails."""
    message = f"Operation cannot be fulfilled on {group_resource(kind)} {quote(name)}: {why}"
    return ObjectError(HTTPStatus.CONFLICT, "Conflict", message, _resource(kind, name))


def forbidden(kind: ObjectKind, name: str, why: str) -> ObjectError:
    """The caller is not authorized; `name` is empty when the request is about no single object."""
    subject = f"{group_resource(kind)} {quote(name)}" if name else group_resource(kind)
    message = f"{subject} is forbidden: {why}"
    return ObjectError(HTTPStatus.FORBIDDEN, "Forbidden", message, _resource(kind, name))


def aggregate(messages: Sequence[str]) -> str:
    """Return one message for several, each once: `[a, b]`, or the only one as it is.

    Source: k8s.io/apimachinery pkg/util/errors/errors.go, `aggregate.Error`.
    """
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def invalid(kind: ObjectKind, name: str, causes: Sequence[Cause]) -> ObjectError:
    """Fields of an object break the rules of its kind."""
    return _invalid(kind.group, kind.kind, name, causes)


def invalid_options(kind: str, causes: Sequence[Cause]) -> ObjectError:
    """Fields of options are wrong, such as those of `DeleteOptions` or `ListOptions`."""
    return _invalid("meta.k8s.io", kind, "", causes)


def invalid_patch(cause: Cause) -> ObjectError:
    """The result of a patch is not an object of the kind. Upstream names no kind here."""
    return _invalid("", "", "", [cause])


def _invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ObjectError:
    name = _cut(name)
    shown = tuple(
        Cause(cause.reason, _cut(cause.message), cause.field) for cause in causes[:_MAX_CAUSES]
    )
    message = f"{_dotted(kind, group)} {quote(name)} is invalid"
    if shown:
        message += f": {aggregate([str(cause) for cause in shown])}"
    details = Details(name, group, kind, causes=shown)
    return ObjectError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, details)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."


def bad_request(message: str) -> ObjectError:
    """The request cannot be understood."""
    return ObjectError(HTTPStatus.BAD_REQUEST, "BadRequest", _cut(message))


def not_acceptable(offered: Sequence[str]) -> ObjectError:
    """None of the media types that are served is accepted."""
    message = not_acceptable_message(offered)
    return ObjectError(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> ObjectError:
    """The media type of the body is not supported."""
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return ObjectError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)


def too_large(message: str) -> ObjectError:
    """The body, or its result, is too large."""
    return ObjectError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "RequestEntityTooLarge",
        f"Request entity too large: {message}",
    )


def expired(message: str, continue_token: str = "") -> ObjectError:
    """The state that was asked for is gone; list again, or continue with the token."""
    return ObjectError(HTTPStatus.GONE, "Expired", message, continue_token=continue_token)


def gone(message: str) -> ObjectError:
    """The object that was asked for has been removed for good."""
    return ObjectError(HTTPStatus.GONE, "Gone", message)


def timeout(message: str, retry_after_s: int) -> ObjectError:
    """The request took too long; its effect may still happen."""
    details = Details(retry_after_s=retry_after_s)
    return ObjectError(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", f"Timeout: {message}", details)


def internal_error(why: str) -> ObjectError:
    """The server failed."""
    details = Details(causes=(Cause("", why, ""),))
    return ObjectError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "InternalError",
        f"Internal error occurred: {why}",
        details,
    )
