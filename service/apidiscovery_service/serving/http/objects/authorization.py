"""Authorization of requests about objects.

Reading needs the role `reader`, as all of discovery does; writing needs `publisher` for the API
group of the objects. Source of the texts: k8s.io/apiserver
pkg/endpoints/handlers/responsewriters/errors.go:ForbiddenStatusError.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from apidiscovery_formats.go_text import quote

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import Access, Admission, Unauthenticated
from apidiscovery_service.kube.objects.errors import ObjectError, forbidden
from apidiscovery_service.serving.http.admission import Credentials
from apidiscovery_service.serving.http.objects.routes import ObjectRoute

_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

# Interval of checks of watches, since the end of a certificate's validity is not announced.
_CHECK_EVERY_S = 10.0


class ObjectAuthorizer:
    """Authorizes callers that may read.

    Args:
        access: Decides; None allows everything.
    """

    def __init__(self, access: Access | None) -> None:
        self._access = access

    def admit(self, credentials: Credentials) -> Admission | None:
        """Return the caller; None without authentication.

        Raises:
            Unauthenticated: Its credentials are no longer valid.
        """
        if self._access is None:
            return None
        return self._access.admit(credentials.connection, credentials.authorization)

    def check_write(self, admission: Admission | None, method: str, target: ObjectRoute) -> None:
        """Check that a caller may write, if the request does.

        Raises:
            ObjectError: It may not; 403.
        """
        if self._access is None or admission is None or method not in _WRITES:
            return
        if self._access.may_change(admission.caller, (target.kind.group,)) is not None:
            raise denied(admission.caller.user, target, target.verb(method, watch=False))

    def begin_watch(self, admission: Admission | None) -> bool:
        """Count a watch; False if the caller has reached its limit."""
        if self._access is None or admission is None:
            return True
        return self._access.begin_watch(admission.limit_key)

    def end_watch(self, admission: Admission | None) -> None:
        """Count the end of a watch."""
        if self._access is not None and admission is not None:
            self._access.end_watch(admission.limit_key)

    async def revoked(self, credentials: Credentials) -> None:
        """Return as soon as a caller may no longer read."""
        changed = asyncio.Event()
        unsubscribe: Callable[[], None] = lambda: None  # noqa: E731 - nothing to end
        if self._access is not None:
            unsubscribe = self._access.subscribe(changed.set)
        try:
            while self._may_read(credentials):
                changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_EVERY_S):
                        await changed.wait()
        finally:
            unsubscribe()

    def _may_read(self, credentials: Credentials) -> bool:
        try:
            admission = self.admit(credentials)
        except Unauthenticated:
            return False
        return admission is None or admission.role >= Role.READER


def denied(user: str, target: ObjectRoute, verb: str) -> ObjectError:
    """Return the error of a caller that may not do something; 403."""
    where = f"in the namespace {quote(target.namespace)}" if target.namespace else ""
    said = (
        f"User {quote(user)} cannot {verb} resource {quote(target.resource)} in API group "
        f"{quote(target.kind.group)} {where or 'at the cluster scope'}"
    )
    return forbidden(target.kind, target.name, said.translate(_HTML))
