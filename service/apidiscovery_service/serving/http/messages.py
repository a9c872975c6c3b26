"""Requests and responses, and the types of ASGI."""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

from apidiscovery_service.metrics import RequestStats
from apidiscovery_service.openapi.body import Packed

# The names and types of the ASGI specification; its scopes and messages are untyped mappings.
Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

Headers: TypeAlias = list[tuple[bytes, bytes]]

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request that an answer can depend on.

    Attributes:
        method: As sent.
        path: Percent-decoded, without the prefix under which the application is mounted.
        query: As sent, without the question mark.
        accept: The first Accept line; the others are ignored (Go's `Header.Get`).
        accept_encoding: All Accept-Encoding lines, joined by commas.
        if_none_match: All If-None-Match lines, joined by commas.
        content_type: The first Content-Type line.
        human: Whether the client is curl, Wget or a browser.
        fields: Further conditions and ranges, for content that is served like a file: the values
            by name in lower case.
        trusted: Whether the caller may see internal errors.
    """

    method: str
    path: str
    query: str = ""
    accept: str = ""
    accept_encoding: str = ""
    if_none_match: str = ""
    content_type: str = ""
    human: bool = False
    trusted: bool = True
    fields: Mapping[str, str] = field(default_factory=dict[str, str])

    def parameters(self) -> dict[str, list[str]]:
        """Return the parameters of the query by name.

        Those with a malformed escape or a semicolon are skipped, as by Go's url.ParseQuery.
        """
        parameters: dict[str, list[str]] = {}
        for piece in self.query.split("&") if self.query else ():
            if ";" in piece or _BAD_ESCAPE.search(piece):
                continue
            name, _, value = piece.partition("=")
            parameters.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return parameters

    def parameter(self, name: str) -> str:
        """Return a parameter's first value; empty without one."""
        return self.parameters().get(name, [""])[0]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, and its labels in metrics.

    Attributes:
        status: HTTP status code.
        headers: Names in lower case; a name may occur twice.
        body: The whole body, also for HEAD; a packed one is sent in pieces.
        endpoint: Kind of path, for metrics.
        representation: The negotiated media type, for metrics.
        coding: Content coding of the body.
        aggregated: `api` or `apis` for an aggregated document, else empty.
        cacheable: Whether an equal request gets the same answer until the snapshot changes.
    """

    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes | Packed = b""
    endpoint: str = "other"
    representation: str = ""
    coding: str = "identity"
    aggregated: str = ""
    cacheable: bool = False


@dataclass(frozen=True, slots=True)
class PreparedResponse:
    """An answer as ASGI messages.

    Attributes:
        start: The message with status and headers.
        body: The message with the body; a packed one is sent in pieces instead.
        stats: Counts the request.
        size: Bytes of the body.
    """

    start: Message
    body: Message
    stats: RequestStats
    size: int = 0


def coding_headers(coding: str) -> Headers:
    """Return the header fields for the coding of a body; none for identity."""
    if coding == "identity":
        return []
    return [(b"content-encoding", coding.encode()), (b"vary", b"Accept-Encoding")]


def body_message(body: bytes | Packed, *, more: bool = False) -> Message:
    """Return the ASGI message that sends a body, or a piece of one."""
    return {"type": "http.response.body", "body": body, "more_body": more}
