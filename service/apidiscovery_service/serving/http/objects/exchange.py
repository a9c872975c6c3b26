"""Requests about objects as ASGI brings them: bodies are read, and watches stream."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from time import perf_counter

import structlog
from apidiscovery_formats.negotiation import MEDIA_TYPES

from apidiscovery_service.access.authenticator import Access, Unauthenticated
from apidiscovery_service.access.limits import Counts
from apidiscovery_service.encoding import plain
from apidiscovery_service.encoding.compression import choose
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.serving.http.admission import Refused
from apidiscovery_service.serving.http.kept import Ready
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.objects import statuses
from apidiscovery_service.serving.http.objects.answers import ObjectAnswers
from apidiscovery_service.serving.http.objects.bodies import Disconnected, read_body
from apidiscovery_service.serving.http.objects.negotiation import STREAM_MEDIA_TYPES
from apidiscovery_service.serving.http.objects.parameters import Query
from apidiscovery_service.serving.http.objects.permits import Bearer, Permits, denied
from apidiscovery_service.serving.http.objects.routes import ObjectRoute, object_route
from apidiscovery_service.serving.http.objects.streaming import (
    Receive,
    Send,
    stream,
)
from apidiscovery_service.serving.http.objects.watching import WatchStream
from apidiscovery_service.serving.http.sending import disconnected
from apidiscovery_service.serving.http.statuses import (
    NOT_CACHED,
    negotiated_status,
    restful_refusal,
)

# When a stream of the caller may have ended.
# Of one caller at a time, as many as it may have calls over gRPC.
CALLER_WATCHES = 6_000
_STREAM_WAIT_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the way to answer it.

    Attributes:
        request: The request.
        target: What its path names.
        bearer: What it brings to say who calls.
        receive: As ASGI has it.
        send: As ASGI has it; raises OSError when the caller leaves too much unread.
        deliver: Sends an answer that began at a moment, by `perf_counter`.
        began: When it came, by `perf_counter`.
        caller: Says whose watches are counted together.
    """

    request: Request
    target: ObjectRoute
    bearer: Bearer
    receive: Receive
    send: Send
    deliver: Callable[[Ready, float], Awaitable[None]]
    began: float
    caller: Callable[[], str]


class ObjectGateway:
    """Answers requests about objects whose callers may read.

    Args:
        answers: What is answered.
        access: Who may write, and when a watch has to end; None for everybody and never.
        prepare: Makes an answer ready to be sent, and says where it is counted.
        refuse: Answers a caller who gets no answer.
        compresses: Whether large answers are compressed for who takes that.
    """

    def __init__(
        self,
        answers: ObjectAnswers,
        access: Access | None,
        prepare: Callable[[str, Response], Ready],
        refuse: Callable[[Request, Refused], Response],
        *,
        compresses: bool = True,
    ) -> None:
        self._answers = answers
        self._permits = Permits(access)
        self._prepare = prepare
        self._refuse = refuse
        self._compresses = compresses
        self._watches: Counts[str] = Counts(CALLER_WATCHES)

    def denial(self, request: Request, refused: Refused) -> Response | None:
        """Return what a caller is told who may not even read; None if no objects are concerned."""
        target = object_route(request.path)
        if target is None or refused.code != HTTPStatus.FORBIDDEN:
            return None
        verb = target.verb(request.method, watch=bool(Query(request).flag("watch")))
        response = statuses.answer(request, denied(refused.user, target, verb))
        return replace(response, endpoint=target.endpoint)

    async def serve(self, exchange: Exchange, early: Response | None = None) -> None:
        """Answer one request.

        Args:
            exchange: The request.
            early: What it is answered with whatever it asks for.
        """
        try:
            answer = early or await self._answer(exchange)
        except Disconnected:
            return
        except Exception:  # noqa: BLE001 - the last resort: logged, and answered with 500
            request = exchange.request
            _log.exception("request failed", method=request.method, path=request.path)
            failed = plain.status(500, "InternalError", "the server failed; its log says why")
            answer = negotiated_status(request, failed)
        if isinstance(answer, WatchStream):
            await self._watch(exchange, answer)
        else:
            await self._send(exchange, answer)

    async def _send(self, exchange: Exchange, answer: Response) -> None:
        answer = replace(answer, endpoint=exchange.target.endpoint)
        ready = self._prepare(exchange.request.method, answer)
        await exchange.deliver(ready, exchange.began)

    async def _answer(self, exchange: Exchange) -> Response | WatchStream:
        request, target = exchange.request, exchange.target
        refused = _refusal(request, target)
        if refused is not None:
            return refused
        try:
            admission = self._permits.admit(exchange.bearer)
            self._permits.check_write(admission, request.method, target)
            body = partial(read_body, exchange.receive)
            coding = choose(request.accept_encoding) if self._compresses else "identity"
            return await self._answers.answer(request, target, body, coding)
        except Unauthenticated:
            return self._refuse(request, Refused(401, "Unauthorized"))
        except ObjectError as error:
            return statuses.answer(request, error)

    # Watches.

    async def _watch(self, exchange: Exchange, watch: WatchStream) -> None:
        try:
            admission = self._permits.admit(exchange.bearer)
        except Unauthenticated:
            await watch.frames.aclose()
            await self._send(exchange, self._refuse(exchange.request, Refused(401, "Unauthorized")))
            return
        caller = exchange.caller()
        has_place = self._watches.enter(caller)
        if not has_place or not self._permits.begin_watch(admission):
            if has_place:
                self._watches.leave(caller)
            await watch.frames.aclose()
            message = "Too many requests, please try again later."
            refused = Refused(429, message, _STREAM_WAIT_S)
            await self._send(exchange, self._refuse(exchange.request, refused))
            return
        try:
            await self._stream(exchange, watch)
        except Exception:  # noqa: BLE001 - it has begun, so that no other answer can be given
            _log.exception("watch failed", path=exchange.request.path)
        finally:
            self._watches.leave(caller)
            self._permits.end_watch(admission)

    async def _stream(self, exchange: Exchange, watch: WatchStream) -> None:
        media_type = watch.form.stream_media_type.encode()
        headers = [NOT_CACHED, (b"content-type", media_type)]
        # How long a watch lasts says nothing about the server: it is counted when it begins.
        described = Response(200, headers, b"", exchange.target.endpoint, watch.form.label)
        ready = self._prepare(exchange.request.method, described)
        ready.stats.observe(perf_counter() - exchange.began)
        await stream(
            {"type": "http.response.start", "status": 200, "headers": headers},
            watch.frames,
            exchange.send,
            ends=(
                disconnected(exchange.receive),
                self._permits.revoked(exchange.bearer),
                self._answers.stopped(),
            ),
            timeout_s=watch.timeout_s,
        )


def _refusal(request: Request, target: ObjectRoute) -> Response | None:
    """Return what go-restful says against a request, None if it lets it through."""
    streams = request.method == "GET" and (target.watches or not target.name)
    produced = (*MEDIA_TYPES, *STREAM_MEDIA_TYPES) if streams else MEDIA_TYPES
    refused = restful_refusal(request, produced, target.methods, consumes_anything=True)
    return None if refused is None else negotiated_status(request, refused)
