"""Keeps an ASGI application from writing before what it writes has been reported.

Sources: k8s.io/apiserver pkg/endpoints/filters/storageversion.go; pkg/server/healthz/healthz.go;
Kubernetes cmd/kube-apiserver, whose post-start hook of that name holds back readiness.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from apidiscovery_client.storage_versions.gate import Gate, Refusal
from apidiscovery_client.storage_versions.request_info import (
    UnreadablePath,
    request_attributes,
)
from apidiscovery_client.storage_versions.status_body import unavailable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Identify = Callable[[Scope], tuple[str, Collection[str]]]

HEALTH_PATHS = ("/healthz", "/livez", "/readyz")
READINESS_PATH = "/readyz"
CHECK = "poststarthook/built-in-resources-storage-version-updater"

_MAX_DRAINED_BYTES = 256 << 10  # Go's net/http `maxPostHandlerReadBytes`

_TEXT = "text/plain; charset=utf-8"
_NOSNIFF = (b"x-content-type-options", b"nosniff")  # Go's net/http `Error`


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    content_type: str
    content: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


def anonymous(scope: Scope) -> tuple[str, Collection[str]]:
    """Return that nobody is known; the exception for kube-apiserver itself then never applies."""
    del scope
    return "", ()


class WriteGateMiddleware:
    """Answers 503 for what the gate refuses, and 500 for health while it has to be closed.

    All else is handed on untouched, WebSockets too: they begin with a GET, which reads.

    Paths are those of Kubernetes: what is not below `/api/VERSION` or `/apis/GROUP/VERSION` is no
    resource, and passes.

    A request is looked at when it begins. Let none be under way when the reporter ends, nor any
    that writes for longer than `Timing.write_within_s`.

    Put it behind authentication, if `identify` needs that, and before whatever writes.

    Args:
        app: What is guarded.
        gate: A reporter, or whatever else decides.
        identify: Returns the user and its groups for an ASGI scope.
        health_paths: Answered with 500 until the gate was open for the first time; to go on being
            alive does not depend on the service. Each has the check itself below it.
        readiness_path: That one of them which is 500 whenever the gate is closed.
    """

    def __init__(
        self,
        app: Application,
        gate: Gate,
        *,
        identify: Identify = anonymous,
        health_paths: Iterable[str] = HEALTH_PATHS,
        readiness_path: str = READINESS_PATH,
    ) -> None:
        self._app = app
        self._gate = gate
        self._identify = identify
        self._checks = {f"{path}/{CHECK}": path for path in health_paths}
        self._health_paths = frozenset(self._checks.values())
        self._readiness_path = readiness_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection as ASGI asks for it."""
        answer = self._answer(scope) if scope["type"] == "http" else None
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await _drain(receive)
            await _send(answer, send, has_body=scope["method"] != "HEAD")

    def _answer(self, scope: Scope) -> _Answer | None:
        """Return what to answer instead of the application; None when it is to answer."""
        path = _path(scope)
        if path in self._checks:
            return self._check(self._checks[path])
        if path in self._health_paths:
            return self._health(path, scope)
        return None if self._gate.confirmed else self._refusal(path, scope)

    def _refusal(self, path: str, scope: Scope) -> _Answer | None:
        user, groups = self._identify(scope)
        query = scope.get("query_string", b"").decode("latin-1")
        try:
            asked = request_attributes(scope["method"], path, query, user=user, groups=groups)
        except UnreadablePath as error:
            return _unreadable(path, error)
        refusal = self._gate.refusal(asked)
        if refusal is None:
            return None
        return _unavailable(refusal, _headers(scope).get(b"accept", ""))

    def _is_healthy(self, path: str) -> bool:
        return self._gate.confirmed or (path != self._readiness_path and self._gate.was_confirmed)

    def _health(self, path: str, scope: Scope) -> _Answer | None:
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        if self._is_healthy(path) or CHECK in query.get("exclude", ()):
            return None
        name = path.strip("/").partition("/")[0]
        # The reason is for those only who may see the check itself.
        return _error(f"[-]{CHECK} failed: reason withheld\n{name} check failed")

    def _check(self, path: str) -> _Answer:
        if self._is_healthy(path):
            return _Answer(HTTPStatus.OK, _TEXT, b"ok", (_NOSNIFF,))
        error = self._gate.last_error
        return _error(f"internal server error: not finished{f': {error}' if error else ''}")


def _path(scope: Scope) -> str:
    """Return the path without the prefix under which the application is mounted."""
    path: str = scope["path"]
    prefix = str(scope.get("root_path", "")).rstrip("/")
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


def _headers(scope: Scope) -> Mapping[bytes, str]:
    """Return the first value of each header, as Go's `Header.Get` does."""
    return {name.lower(): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _error(text: str) -> _Answer:
    content = f"{text}\n".encode()
    return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, content, (_NOSNIFF,))


def _unreadable(path: str, error: UnreadablePath) -> _Answer:
    """Source: pkg/endpoints/handlers/responsewriters/errors.go `InternalError`."""
    shown = path.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _error(f'Internal Server Error: "{shown}": failed to create RequestInfo: {error}')


def _unavailable(refusal: Refusal, accept: str) -> _Answer:
    body = unavailable(refusal.message, accept)
    retry_after = (b"retry-after", str(refusal.retry_after_s).encode())
    headers = (retry_after, (b"cache-control", b"no-cache, private"))
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, body.content_type, body.content, headers)


async def _drain(receive: Receive) -> None:
    """Read a body that nobody wants, unless it is large.

    A server that ends a connection on which something is still arriving resets it, and the client
    may never see the answer.
    """
    size, more = 0, True
    while more and size <= _MAX_DRAINED_BYTES:
        message = await receive()
        size += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)


async def _send(answer: _Answer, send: Send, *, has_body: bool) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.content)).encode()),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status.value, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content if has_body else b""})
