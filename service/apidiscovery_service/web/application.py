"""Answers requests for pages: admits callers, makes the pages and sends them."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import quote, urlencode

import structlog

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.encoding.compression import choose, coding_for, compress
from apidiscovery_service.errors import DiscoveryError, told_to_callers
from apidiscovery_service.history.model import ContentDamaged
from apidiscovery_service.serving.http.admission import Refused
from apidiscovery_service.serving.http.conditional import none_match
from apidiscovery_service.serving.http.messages import Headers, Request, Response
from apidiscovery_service.serving.http.pages_interface import PageExchange, is_page
from apidiscovery_service.web.events import CONTENT_TYPE as EVENT_STREAM
from apidiscovery_service.web.events import Changes
from apidiscovery_service.web.login import LOGIN, LOGOUT, Login, LoginOutcome, Visitor, location_of
from apidiscovery_service.web.rendering import ASSETS, Renderer, load_assets
from apidiscovery_service.web.routes import HOME, PageRoute, find
from apidiscovery_service.web.view import Page, PageError, Served, View, Viewer, not_found

EVENTS = "/ui/events"

_HTML = b"text/html; charset=utf-8"
_METHODS = ("GET", "HEAD")
_POLICY = (
    b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    b" object-src 'none'"
)
_SECURITY: Headers = [
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
]
_MAX_STREAMS = 256
_NOT_LOGGED_IN = "Log in to see this page."
_FAILED = "The page cannot be made; the log of the server has the reason."
_STARTING = "The server is starting: its sources are still being read. Try again in a second."

_log = structlog.get_logger(__name__)


def _page_error(error: DiscoveryError) -> PageError:
    """Return the answer to an error that no page expects."""
    is_lasting = isinstance(error, ContentDamaged)
    status = HTTPStatus.INTERNAL_SERVER_ERROR if is_lasting else HTTPStatus.SERVICE_UNAVAILABLE
    return PageError(status, f"This page cannot be made: {told_to_callers(error)}.")


@dataclass(frozen=True, slots=True)
class _Made:
    """A rendered page."""

    body: bytes
    status: HTTPStatus


class WebInterface:
    """The pages of one server. For the event loop's thread.

    Args:
        served: The state that they show.
        access: Authenticates and authorizes callers.
    """

    def __init__(self, served: Served, access: Access) -> None:
        self._served = served
        self._access = access
        self._login = Login(access)
        self._assets = load_assets()
        self._by_path = {asset.path: asset for asset in self._assets.values()}
        self._renderer = Renderer(self._assets, served.site.version)
        self._changes = Changes(served)
        self._streams = 0

    def takes(self, path: str, accept: bytes | None) -> bool:
        """Return whether a request is for a page."""
        return is_page(path, accept)

    def stop(self) -> None:
        """End all streams of events, and work in the background."""
        self._changes.stop()
        self._served.fields.stop()

    async def serve(self, exchange: PageExchange) -> None:
        """Answer a request."""
        path, method = exchange.request.path, exchange.request.method
        asset = self._by_path.get(path)
        if asset is not None and method in _METHODS:
            headers = [
                (b"cache-control", b"public, max-age=31536000, immutable"),
                (b"content-type", asset.content_type),
                *_SECURITY,
            ]
            coded = await _coded(asset.body, exchange.request)
            response = Response(HTTPStatus.OK, [*headers, *coded[1]], coded[0], ASSETS)
            await exchange.answer("", response)
        elif not path.startswith(HOME):  # `/` and `/ui`
            await exchange.answer("", _redirect(exchange.root + HOME))
        elif path in (LOGIN, LOGOUT) and self._login.is_needed:
            await self._serve_form(exchange)
        else:
            await self._serve_page(exchange)

    # Pages.

    async def _serve_page(self, exchange: PageExchange) -> None:
        try:
            visitor = self._login.admit(exchange)
        except Refused as refused:
            await exchange.answer(refused.caller, await self._refusal(exchange, refused))
            return
        view = self._view(exchange, visitor.viewer)
        endpoint = "/ui"
        made: _Made | None = None
        try:
            if view.path == EVENTS and exchange.request.method in _METHODS:
                self._begin_stream(visitor.limit_key)
            else:
                route, captured = self._route(exchange.request.method, view)
                shown = replace(view, captured=captured)
                made = await self._rendered(shown, await route.make(shown))
                endpoint = route.endpoint
        except PageError as error:
            made = await self._error(view, error)
        except DiscoveryError as error:
            made = await self._error(view, _page_error(error))
        except Exception:  # noqa: BLE001 - the last resort: logged, and answered with 500
            _log.exception("page failed", path=view.path)
            made = await self._error(view, PageError(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED))
        if made is None:
            await self._serve_events(exchange, visitor)
        else:
            response = await _html(exchange.request, made, endpoint)
            await exchange.answer(visitor.limit_key, response)

    def _route(self, method: str, view: View) -> tuple[PageRoute, Mapping[str, str]]:
        if method not in _METHODS:
            raise PageError(HTTPStatus.METHOD_NOT_ALLOWED, "This page can only be read.")
        if not self._served.ready():
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING)
        found = find(view.path)
        if found is None:
            raise not_found(f"There is no page {view.path}.")
        return found

    async def _rendered(self, view: View, page: Page) -> _Made:
        body = await asyncio.to_thread(self._renderer.render, view, page)
        return _Made(body, page.status)

    async def _error(self, view: View, error: PageError) -> _Made:
        values = {"message": str(error), "code": error.status}
        return await self._rendered(view, Page("error.html", values, error.status))

    def _view(self, exchange: PageExchange, viewer: Viewer) -> View:
        request = exchange.request
        return View(
            self._served,
            viewer,
            self._served.fleet.scope(viewer.clusters),
            self._served.encoding.current,
            request.path,
            parameters={name: values[0] for name, values in request.parameters().items()},
            root=exchange.root,
            is_fragment=exchange.headers.get("hx-request") == "true",
        )

    # Access.

    async def _refusal(self, exchange: PageExchange, refused: Refused) -> Response:
        request = exchange.request
        is_page = find(request.path) is not None and not exchange.headers.get("hx-request")
        if refused.code == HTTPStatus.UNAUTHORIZED and is_page and request.method == "GET":
            wanted = request.path + (f"?{request.query}" if request.query else "")
            return _redirect(f"{exchange.root}{LOGIN}?{urlencode({'next': wanted})}")
        is_unknown = refused.code == HTTPStatus.UNAUTHORIZED
        message = _NOT_LOGGED_IN if is_unknown else refused.message
        view = self._view(exchange, Viewer(refused.user, Role.NONE, ()))
        made = await self._error(view, PageError(HTTPStatus(refused.code), message))
        return await _html(request, made, "/ui")

    async def _serve_form(self, exchange: PageExchange) -> None:
        request = exchange.request
        if request.method == "POST":
            is_login = request.path == LOGIN
            outcome = await (self._login.log_in if is_login else self._login.log_out)(exchange)
            if outcome.location:
                cookies = [(b"set-cookie", each) for each in outcome.cookies]
                response = _redirect(exchange.root + outcome.location, cookies)
            else:
                response = await self._form(exchange, outcome)
        else:
            response = await self._form(exchange, LoginOutcome(status=HTTPStatus.OK))
        await exchange.answer("", response)

    async def _form(self, exchange: PageExchange, outcome: LoginOutcome) -> Response:
        token, headers = self._login.form(exchange)
        viewer = Viewer(role=Role.NONE, clusters=())
        view = self._view(exchange, viewer)
        values = {
            "form_token": token,
            "error": outcome.error,
            "next": location_of(outcome.next or view.parameter("next")),
        }
        made = await self._rendered(view, Page("login.html", values, outcome.status))
        return await _html(exchange.request, made, LOGIN, headers)

    # Events.

    def _begin_stream(self, limit_key: str) -> None:
        is_full = self._streams >= _MAX_STREAMS
        if is_full or not self._access.watches.enter(limit_key):
            raise PageError(HTTPStatus.TOO_MANY_REQUESTS, "Too many pages are open.")
        self._streams += 1

    async def _serve_events(self, exchange: PageExchange, visitor: Visitor) -> None:
        headers = [
            (b"cache-control", b"no-store"),
            (b"content-type", EVENT_STREAM),
            *_SECURITY,
        ]
        try:
            scope = self._served.fleet.scope(visitor.viewer.clusters)
            await exchange.stream(visitor.limit_key, headers, self._changes.follow(scope))
        finally:
            self._streams -= 1
            self._access.watches.leave(visitor.limit_key)


def _redirect(location: str, headers: Headers | None = None) -> Response:
    quoted = quote(location, safe="/?&=%:;,+@~!$'()*#[]-._")
    fields = [(b"location", quoted.encode()), (b"cache-control", b"no-store"), *_SECURITY]
    return Response(HTTPStatus.SEE_OTHER, [*fields, *(headers or [])], endpoint="/ui")


async def _html(
    request: Request, made: _Made, endpoint: str, headers: Headers | None = None
) -> Response:
    """Return a page, or that it is the one that the browser has."""
    tag = f'"{hashlib.sha256(made.body).hexdigest()[:32]}"'
    fields: Headers = [
        (b"cache-control", b"private, no-cache"),
        (b"vary", b"Accept-Encoding, Cookie, Authorization, HX-Request"),
        *_SECURITY,
        *(headers or []),
    ]
    if made.status == HTTPStatus.OK and not headers:
        fields.append((b"etag", f"W/{tag}".encode()))
        if not none_match(request.if_none_match, tag):
            return Response(HTTPStatus.NOT_MODIFIED, fields, endpoint=endpoint)
    coded, more = await _coded(made.body, request)
    fields += [(b"content-type", _HTML), *more]
    return Response(made.status, fields, coded, endpoint, "text/html")


async def _coded(body: bytes, request: Request) -> tuple[bytes, Headers]:
    """Return a body in the coding that the client wants, and the field that says so."""
    coding = coding_for(len(body), choose(request.accept_encoding))
    if coding == "identity":
        return body, []
    coded = await asyncio.to_thread(compress, body, coding)
    return coded, [(b"content-encoding", coding.encode())]
