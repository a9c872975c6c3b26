"""Authentication and authorization of HTTP requests, and the answers to refused callers.

Public paths are those of the cluster role `system:public-info-viewer`. Sources:
k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go; for the answers
k8s.io/apiserver pkg/endpoints/filters/authentication.go:Unauthorized, authorization.go,
pkg/endpoints/handlers/responsewriters/errors.go:Forbidden,
pkg/server/filters/priority-and-fairness.go.
"""

import math
from dataclasses import dataclass
from http import HTTPStatus

from apidiscovery_formats.go_text import quote

from apidiscovery_service.access import ANONYMOUS, Role
from apidiscovery_service.access.authenticator import (
    Access,
    Admission,
    NoCredentials,
    Unauthenticated,
)
from apidiscovery_service.encoding import plain
from apidiscovery_service.serving.health import ENDPOINTS
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.statuses import (
    NO_SNIFF,
    TOO_MANY_REQUESTS,
    negotiated_status,
    text_response,
    with_header,
)

_HEALTH = frozenset(f"/{endpoint}" for endpoint in ENDPOINTS)
_PUBLIC = _HEALTH | {"/version", "/version/"}
_SINGLE_CHECKS = tuple(f"/{endpoint}/" for endpoint in ENDPOINTS)

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a request.

    Attributes:
        connection: The name of the connection (`access.authenticator.Peers`).
        authorization: The first Authorization field.
    """

    connection: str
    authorization: bytes | None


class Refused(Exception):
    """A request is refused.

    Attributes:
        code: 401, 403 or 429.
        message: The text for the caller.
        retry_s: When to retry, in seconds.
        user: The user, for 403.
        caller: The limit key of the caller; empty if it is unknown.
    """

    def __init__(
        self, code: int, message: str, retry_s: float = 0.0, *, user: str = "", caller: str = ""
    ) -> None:
        super().__init__(message)
        self.caller = caller
        self.code = code
        self.message = message
        self.retry_s = retry_s
        self.user = user


def refusal(request: Request, refused: Refused) -> Response:
    """Answer a refused caller, as kube-apiserver does."""
    if refused.code == HTTPStatus.TOO_MANY_REQUESTS:
        retry_after = b"%d" % max(1, math.ceil(refused.retry_s))
        return with_header(
            text_response(refused.code, f"{refused.message}\n"), b"retry-after", retry_after
        )
    if refused.code == HTTPStatus.UNAUTHORIZED:
        return negotiated_status(request, plain.status(401, "Unauthorized", refused.message))
    forbidden = plain.status(403, "Forbidden", refused.message, details=True)
    return with_header(negotiated_status(request, forbidden), *NO_SNIFF)


def needed_role(path: str, query: bytes = b"") -> Role:
    """Return the role that a request needs."""
    if path in _PUBLIC:
        return Role.ADMIN if query and path in _HEALTH and _is_verbose(query) else Role.NONE
    if path == "/metrics" or path.startswith(_SINGLE_CHECKS):
        return Role.ADMIN
    return Role.READER


def _is_verbose(query: bytes) -> bool:
    return "verbose" in Request("GET", "", query.decode("latin-1")).parameters()


def admit(
    access: Access, credentials: Credentials, method: str, path: str, query: bytes
) -> Admission:
    """Admit a caller.

    Args:
        access: Decides.
        credentials: The credentials of the caller.
        method: As sent.
        path: Percent-decoded.
        query: As sent.

    Raises:
        Refused: The caller may not make this request, or not now.
    """
    try:
        admission = access.admit(credentials.connection, credentials.authorization)
    except Unauthenticated as error:
        _throttle(access, error.limit_key)
        is_public = needed_role(path, query) is Role.NONE
        key = error.limit_key or ""
        if is_public and isinstance(error, NoCredentials):
            return unidentified(key)
        raise Refused(401, "Unauthorized", caller=key) from None
    _throttle(access, admission.limit_key)
    if admission.role is not Role.ADMIN and admission.role < needed_role(path, query):
        message = _forbidden(admission.user, method, path)
        raise Refused(403, message, user=admission.user, caller=admission.limit_key)
    return admission


def unidentified(limit_key: str) -> Admission:
    """Return a caller who may read public paths only."""
    return Admission(ANONYMOUS, Role.NONE, limit_key, math.inf, None, ())


def _throttle(access: Access, limit_key: str | None) -> None:
    retry_s = access.throttle(limit_key) if limit_key is not None else 0.0
    if retry_s:
        raise Refused(429, TOO_MANY_REQUESTS, retry_s, caller=limit_key or "")


def _forbidden(user: str, method: str, path: str) -> str:
    return f"forbidden: {escaped(f'User {quote(user)} cannot {method.lower()} path {quote(path)}')}"


def escaped(text: str) -> str:
    """Return the text of a refusal as kube-apiserver escapes it, which is as HTML."""
    return text.translate(_HTML)
