"""What a caller may do with objects, and for how long.

Reading needs the role `reader`, as all of discovery does; writing `publisher` for the API group of
the objects. Source of the words: k8s.io/apiserver
pkg/endpoints/handlers/responsewriters/errors.go:ForbiddenStatusError.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from apidiscovery_formats.go_text import quote

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import Access, Admission, Unauthenticated
from apidiscovery_service.kube.objects.errors import ObjectError, forbidden
from apidiscovery_service.serving.http.objects.routes import ObjectRoute

_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

# Nobody tells of the end of a certificate's validity.
_LOOK_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Bearer:
    """What a request brings to say who calls.

    Attributes:
        connection: Its name (`access.peers`).
        authorization: The first Authorization field.
    """

    connection: str
    authorization: bytes | None


class Permits:
    """Decides about callers who may read.

    Args:
        access: Who decides; None lets everybody do everything.
    """

    def __init__(self, access: Access | None) -> None:
        self._access = access

    def admit(self, bearer: Bearer) -> Admission | None:
        """Return who calls; None where nobody is asked.

        Raises:
            Unauthenticated: Its credentials do not count any more.
        """
        if self._access is None:
            return None
        return self._access.admit(bearer.connection, bearer.authorization)

    def check_write(self, admission: Admission | None, method: str, target: ObjectRoute) -> None:
        """Check that a caller may write, if that is what the request does.

        Raises:
            ObjectError: It may not; 403.
        """
        if self._access is None or admission is None or method not in _WRITES:
            return
        if self._access.may_change(admission.caller, (target.kind.group,)) is not None:
            raise denied(admission.caller.user, target, target.verb(method, watch=False))

    def begin_watch(self, admission: Admission | None) -> bool:
        """Count a stream; False if the caller has as many as it may have."""
        if self._access is None or admission is None:
            return True
        return self._access.begin_watch(admission.limit_key)

    def end_watch(self, admission: Admission | None) -> None:
        """Count a stream less."""
        if self._access is not None and admission is not None:
            self._access.end_watch(admission.limit_key)

    async def revoked(self, bearer: Bearer) -> None:
        """Return as soon as a caller who reads may not any more."""
        changed = asyncio.Event()
        undo: Callable[[], None] = lambda: None  # noqa: E731 - nothing to undo
        if self._access is not None:
            undo = self._access.subscribe(changed.set)
        try:
            while self._may_read(bearer):
                changed.clear()
                await _set_or_later(changed)
        finally:
            undo()

    def _may_read(self, bearer: Bearer) -> bool:
        try:
            admission = self.admit(bearer)
        except Unauthenticated:
            return False
        return admission is None or admission.role >= Role.READER


async def _set_or_later(changed: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_LOOK_AGAIN_S):
            await changed.wait()
    except TimeoutError:
        return


def denied(user: str, target: ObjectRoute, verb: str) -> ObjectError:
    """Return what a caller is told who may not do something."""
    where = f"in the namespace {quote(target.namespace)}" if target.namespace else ""
    said = (
        f"User {quote(user)} cannot {verb} resource {quote(target.resource)} in API group "
        f"{quote(target.kind.group)} {where or 'at the cluster scope'}"
    )
    return forbidden(target.kind, target.name, said.translate(_HTML))
