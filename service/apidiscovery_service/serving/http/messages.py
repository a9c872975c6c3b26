"""A request and a response, apart from ASGI."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from apidiscovery_service.openapi.body import Packed

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """What of a request an answer can depend on.

    Attributes:
        method: As sent.
        path: Percent-decoded, without the prefix under which the application is mounted.
        query: As sent, without the question mark.
        accept: The first Accept line; the others count for nothing (Go's `Header.Get`).
        accept_encoding: All Accept-Encoding lines, joined by commas.
        if_none_match: All If-None-Match lines, joined by commas.
        content_type: The first Content-Type line.
        human: Whether the client is one that people look at: curl, Wget or a browser.
        fields: Further conditions and ranges, for content that is served like a file: the values
            by name in lower case.
        trusted: Whether the caller may see what is wrong inside.
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

        Those with a malformed escape or a semicolon are passed over, as by Go's url.ParseQuery.
        """
        parameters: dict[str, list[str]] = {}
        for piece in self.query.split("&") if self.query else ():
            if ";" in piece or _BAD_ESCAPE.search(piece):
                continue
            name, _, value = piece.partition("=")
            parameters.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return parameters

    def parameter(self, name: str) -> str:
        """Return a parameter's first value; empty when there is none."""
        return self.parameters().get(name, [""])[0]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, and how to count it.

    Attributes:
        status: HTTP status code.
        headers: Names in lower case; a name may occur twice.
        body: The whole body, also for HEAD; one that is packed is sent in pieces.
        endpoint: Kind of path, for metrics.
        representation: What was chosen, for metrics.
        coding: Content coding of the body.
        aggregated: `api` or `apis` for an aggregated document, else empty.
        lasting: Whether an equal request gets the same answer until the snapshot changes.
    """

    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes | Packed = b""
    endpoint: str = "other"
    representation: str = ""
    coding: str = "identity"
    aggregated: str = ""
    lasting: bool = False
