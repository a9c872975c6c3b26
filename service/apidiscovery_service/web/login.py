"""Who asks for a page, and the forms by which a person logs in and out."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qs, urlsplit

from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.serving.http.admission import Refused, admit
from apidiscovery_service.serving.http.messages import Headers, Receive
from apidiscovery_service.serving.http.pages_interface import PageExchange
from apidiscovery_service.web.routes import HOME
from apidiscovery_service.web.sessions import (
    FORM_COOKIE,
    SESSION_COOKIE,
    Sessions,
    cookie,
    set_cookie,
)
from apidiscovery_service.web.view import Viewer

LOGIN, LOGOUT = "/ui/login", "/ui/logout"

_MAX_FORM_BYTES = 16 * 1024
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller that may see pages.

    Attributes:
        viewer: What pages need to know of it.
        limit_key: Key by which its requests are limited.
    """

    viewer: Viewer
    limit_key: str


@dataclass(frozen=True, slots=True)
class LoginOutcome:
    """The outcome of a form: a path to go to, or the form again.

    Attributes:
        location: Below the prefix; empty for the form again.
        error: Why the form is shown again.
        next: Where the form leads then, as it said itself.
        cookies: Values of Set-Cookie fields.
    """

    location: str = ""
    error: str = ""
    next: str = ""
    status: HTTPStatus = HTTPStatus.SEE_OTHER
    cookies: tuple[bytes, ...] = ()


class Login:
    """Admits the callers of pages.

    Args:
        access: Authenticates and authorizes callers.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sessions = Sessions()

    @property
    def is_needed(self) -> bool:
        """Whether callers are identified at all."""
        return self._access.identifies

    def admit(self, exchange: PageExchange) -> Visitor:
        """Return who asks: by its Authorization field, its session, or its certificate.

        Raises:
            Refused: It may not see pages, or not now.
        """
        session = cookie(exchange.headers.get("cookie", ""), SESSION_COOKIE)
        kept = self._sessions.authorization(session) if session else None
        credentials = exchange.credentials
        if credentials.authorization is None and kept is not None:
            credentials = replace(credentials, authorization=kept)
        request = exchange.request
        admitted = admit(self._access, credentials, request.method, request.path, b"")
        token = self._sessions.form_token(session) if kept is not None else ""
        viewer = Viewer(admitted.user, admitted.role, admitted.clusters, token)
        return Visitor(viewer, admitted.limit_key)

    def form(self, exchange: PageExchange) -> tuple[str, Headers]:
        """Return the token for the form, and the header fields that it needs."""
        nonce = cookie(exchange.headers.get("cookie", ""), FORM_COOKIE)
        headers: Headers = []
        if not nonce:
            nonce = secrets.token_urlsafe(_NONCE_BYTES)
            headers = [(b"set-cookie", set_cookie(FORM_COOKIE, nonce))]
        return self._sessions.form_token(nonce), headers

    async def log_in(self, exchange: PageExchange) -> LoginOutcome:
        """Begin a session with the bearer token of a form."""
        fields = await _form(exchange)
        nonce = cookie(exchange.headers.get("cookie", ""), FORM_COOKIE)
        if fields is None or not self._sessions.is_form_token(fields.get("form", ""), nonce):
            message = "The form has expired. Enter the token again."
            return LoginOutcome(error=message, status=HTTPStatus.FORBIDDEN)
        token = fields.get("token", "").strip()
        after = location_of(fields.get("next", ""))
        if not token or not token.isascii() or len(token.split()) != 1:
            message = "Enter a bearer token, as after --token or in a kubeconfig."
            return LoginOutcome(error=message, next=after, status=HTTPStatus.BAD_REQUEST)
        authorization = b"Bearer " + token.encode()
        credentials = replace(exchange.credentials, authorization=authorization)
        try:
            admit(self._access, credentials, "GET", HOME, b"")
        except Refused as refused:
            status = HTTPStatus(refused.code)
            return LoginOutcome(error=_reason(refused), next=after, status=status)
        name = self._sessions.begin(authorization)
        cookies = (set_cookie(SESSION_COOKIE, name), set_cookie(FORM_COOKIE, ""))
        return LoginOutcome(after, cookies=cookies)

    async def log_out(self, exchange: PageExchange) -> LoginOutcome:
        """End the session of the browser."""
        fields = await _form(exchange)
        session = cookie(exchange.headers.get("cookie", ""), SESSION_COOKIE)
        if fields is None or not self._sessions.is_form_token(fields.get("form", ""), session):
            message = "The form has expired."
            return LoginOutcome(error=message, status=HTTPStatus.FORBIDDEN)
        self._sessions.end(session)
        return LoginOutcome(LOGIN, cookies=(set_cookie(SESSION_COOKIE, ""),))


def location_of(text: str) -> str:
    """Return the page that a form leads to: one of ours, whatever the form says."""
    parts = urlsplit(text)
    is_ours = not parts.scheme and not parts.netloc and parts.path.startswith(HOME)
    is_ours &= parts.path not in (LOGIN, LOGOUT)
    return text if is_ours and text.isprintable() and text.isascii() and "\\" not in text else HOME


def _reason(refused: Refused) -> str:
    if refused.code == HTTPStatus.UNAUTHORIZED:
        return "This token is not known here. Enter another one."
    if refused.code == HTTPStatus.TOO_MANY_REQUESTS:
        return "Too many attempts. Try again in some seconds."
    return "This token may not read discovery here. Ask for the role reader."


async def _form(exchange: PageExchange) -> Mapping[str, str] | None:
    """Return the first value of each field; None if the body is not a form, or too large."""
    if not exchange.request.content_type.startswith("application/x-www-form-urlencoded"):
        return None
    body = await _body(exchange.receive)
    if body is None:
        return None
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return None
    return {name: values[0] for name, values in fields.items()}


async def _body(receive: Receive) -> bytes | None:
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += cast("bytes", message.get("body", b""))
        if len(body) > _MAX_FORM_BYTES:
            return None
        if not message.get("more_body"):
            return body
