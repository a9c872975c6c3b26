"""Who may ask for which path, and what whoever may not is told.

Public paths are those of the cluster role `system:public-info-viewer`. Sources:
k8s.io/kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go; for the answers
k8s.io/apiserver pkg/endpoints/filters/authentication.go:Unauthorized, authorization.go,
pkg/endpoints/handlers/responsewriters/errors.go:Forbidden,
pkg/server/filters/priority-and-fairness.go.
"""

import math

from apidiscovery_formats.go_text import quote

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import Access, NoCredentials, Unauthenticated
from apidiscovery_service.encoding import plain
from apidiscovery_service.encoding.plain import PlainDocument
from apidiscovery_service.serving.health import ENDPOINTS
from apidiscovery_service.serving.http.messages import Request

_HEALTH = frozenset(f"/{endpoint}" for endpoint in ENDPOINTS)
_PUBLIC = _HEALTH | {"/version", "/version/"}
_SINGLE_CHECKS = tuple(f"/{endpoint}/" for endpoint in ENDPOINTS)

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Refused(Exception):
    """A request is not answered.

    Attributes:
        code: 401, 403 or 429.
        message: What the caller is told.
        wait_s: After how many seconds it may come again.
        user: Who is forbidden something.
        caller: By what the caller is limited; empty if that is not known.
    """

    def __init__(
        self, code: int, message: str, wait_s: float = 0.0, *, user: str = "", caller: str = ""
    ) -> None:
        super().__init__(message)
        self.caller = caller
        self.code = code
        self.message = message
        self.wait_s = wait_s
        self.user = user

    @property
    def status(self) -> PlainDocument:
        """As a `Status` object."""
        if self.code == 401:  # noqa: PLR2004 - Unauthorized
            return plain.status(401, "Unauthorized", self.message)
        return plain.status(403, "Forbidden", self.message, details=True)

    @property
    def retry_after(self) -> bytes:
        """When to come again, in whole seconds, at least one."""
        return str(max(1, math.ceil(self.wait_s))).encode()


def needed_role(path: str, query: bytes = b"") -> Role:
    """Return the role without which a request is refused."""
    if path in _PUBLIC:
        return Role.ADMIN if query and path in _HEALTH and _is_verbose(query) else Role.NONE
    if path == "/metrics" or path.startswith(_SINGLE_CHECKS):
        return Role.ADMIN
    return Role.READER


def _is_verbose(query: bytes) -> bool:
    return "verbose" in Request("GET", "", query.decode("latin-1")).parameters()


class Doorkeeper:
    """Decides about requests before they are looked at further."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def admit(
        self, connection: str, authorization: bytes | None, method: str, path: str, query: bytes
    ) -> tuple[Role, str]:
        """Return the role in which a caller gets an answer, and by what it is limited.

        Args:
            connection: Its name (`access.peers`).
            authorization: The first Authorization field.
            method: As sent.
            path: Percent-decoded.
            query: As sent.

        Raises:
            Refused: There is no answer for this caller, or not now.
        """
        try:
            admission = self._access.admit(connection, authorization)
        except Unauthenticated as error:
            self._throttle(error.limit_key)
            is_public = needed_role(path, query) is Role.NONE
            key = error.limit_key or ""
            if is_public and isinstance(error, NoCredentials):
                return Role.NONE, key
            raise Refused(401, "Unauthorized", caller=key) from None
        self._throttle(admission.limit_key)
        if admission.role is not Role.ADMIN and admission.role < needed_role(path, query):
            user = admission.caller.user
            message = _forbidden(user, method, path)
            raise Refused(403, message, user=user, caller=admission.limit_key)
        return admission.role, admission.limit_key

    def _throttle(self, limit_key: str | None) -> None:
        wait_s = self._access.throttle(limit_key) if limit_key is not None else 0.0
        if wait_s:
            message = "Too many requests, please try again later."
            raise Refused(429, message, wait_s, caller=limit_key or "")


def _forbidden(user: str, method: str, path: str) -> str:
    said = f"User {quote(user)} cannot {method.lower()} path {quote(path)}"
    return f"forbidden: {said.translate(_HTML)}"
