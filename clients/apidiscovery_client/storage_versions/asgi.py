"""The write gate as ASGI middleware.

Sources: k8s.io/apiserver pkg/endpoints/filters/storageversion.go; pkg/server/healthz/healthz.go;
pkg/endpoints/handlers/responsewriters/writers.go, `ErrorNegotiated`; Kubernetes cmd/kube-apiserver,
whose post-start hook of that name delays readiness.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs

from apidiscovery.meta.v1 import status_pb2
from apidiscovery_formats import go_json, go_yaml
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, negotiate

from apidiscovery_client._writing_protobuf import enveloped, list_meta
from apidiscovery_client.storage_versions.gate import Gate, Refusal
from apidiscovery_client.storage_versions.request_info import (
    UnreadablePath,
    request_attributes,
)

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
    """Return no user, so that the exception for kube-apiserver itself never applies."""
    del scope
    return "", ()


class WriteGateMiddleware:
    """Answers 503 to requests that the gate refuses, and 500 to health checks while it is closed.

    All other requests pass unchanged, WebSockets too: they begin with a GET, which reads.

    Paths are those of Kubernetes: a path that is not below `/api/VERSION` or `/apis/GROUP/VERSION`
    is not a resource, and passes.

    The gate is asked when a request begins. No request may still run when the reporter ends, nor
    write for longer than `Timing.write_within_s`.

    Add it after authentication, if `identify` needs that, and before everything that writes.

    Args:
        app: The guarded application.
        gate: A reporter or another gate.
        identify: Returns the user and its groups for an ASGI scope.
        health_paths: Answered with 500 until the gate opens for the first time; liveness does not
            depend on the service afterwards. Each has the check itself below it.
        readiness_path: The one of them that is 500 whenever the gate is closed.
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
        """Return the answer in place of the application's; None if the application is to answer."""
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
            attributes = request_attributes(scope["method"], path, query, user=user, groups=groups)
        except UnreadablePath as error:
            return _unreadable(path, error)
        refusal = self._gate.refusal(attributes)
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
        # Only those who may read the check itself see the reason.
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
    content_type, content = _status_body(refusal.message, accept)
    retry_after = (b"retry-after", str(refusal.retry_after_s).encode())
    headers = (retry_after, (b"cache-control", b"no-cache, private"))
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, content_type, content, headers)


def _status_body(message: str, accept: str) -> tuple[str, bytes]:
    """Return the Content-Type and body of a Status of code 503.

    Args:
        message: The text for people.
        accept: The Accept header; empty when there is none. JSON if it admits no known type, so
            that a failed negotiation does not hide the error.
    """
    chosen = negotiate(accept)
    serializer = chosen.serializer if chosen else JSON
    if serializer is PROTOBUF:
        return serializer.media_type, _protobuf_status(message)
    status: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "ServiceUnavailable",
        "code": HTTPStatus.SERVICE_UNAVAILABLE.value,
    }
    text = (
        go_yaml.text(cast("go_json.JSONValue", status))
        if serializer is YAML
        else go_json.dumps(status) + "\n"
    )
    return serializer.media_type, text.encode()


def _protobuf_status(message: str) -> bytes:
    """Return the Status as gogo writes it, with every scalar, empty or not."""
    status = status_pb2.Status(
        metadata=list_meta(),
        status="Failure",
        message=message,
        reason="ServiceUnavailable",
        code=HTTPStatus.SERVICE_UNAVAILABLE.value,
    )
    return enveloped("v1", "Status", status)


async def _drain(receive: Receive) -> None:
    """Read and drop the body, unless it is large.

    A server that closes a connection with unread data resets it, and the client may never see the
    answer.
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
