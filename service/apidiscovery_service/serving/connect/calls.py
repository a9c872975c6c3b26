"""Answers calls over HTTP with the handlers of gRPC, behind the same admission and limits."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from time import perf_counter
from typing import Any, NoReturn

import grpc
import structlog
from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)

from apidiscovery_service.encoding.compression import Coding, coding_for, compress
from apidiscovery_service.metrics import Metrics, RequestLabels
from apidiscovery_service.serving.connect import forms
from apidiscovery_service.serving.connect.context import CallContext
from apidiscovery_service.serving.connect.conversions import Conversions
from apidiscovery_service.serving.connect.forms import CallForm
from apidiscovery_service.serving.connect.methods import (
    Interceptors,
    Method,
    methods_of,
)
from apidiscovery_service.serving.connect.status import CallEnded, Failure
from apidiscovery_service.serving.grpc.admission import behaviour_of, writing
from apidiscovery_service.serving.grpc.calls import Service
from apidiscovery_service.serving.grpc.server import MAX_RECEIVED_BYTES
from apidiscovery_service.serving.http.admission import Refused
from apidiscovery_service.serving.http.conditional import none_match
from apidiscovery_service.serving.http.messages import (
    Headers,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    body_message,
)
from apidiscovery_service.serving.http.sending import disconnected
from apidiscovery_service.serving.http.statuses import NOT_CACHED, text_response, with_header

_READS = ("GET", "HEAD")
_BODY_TIMEOUT_S = 30.0
# A large message goes in more pieces than Granian buffers, as other answers do (`http.sending`), so
# that it counts as unread until its client reads.
_PIECE_BYTES, _MIN_PIECE_BYTES, _MIN_PIECES = 64 * 1024, 1024, 8

_VERSION = "connect-protocol-version"

_REFUSED = {
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
}

_log = structlog.get_logger(__name__)


class ConnectCalls:
    """Answers calls by Connect and gRPC-Web.

    Args:
        services: The services, which gRPC may serve as well.
        interceptors: Admit calls and bound unread messages. HTTP limits the rate of requests.
        metrics: Counts streams; other answers are counted by HTTP.
    """

    def __init__(
        self, services: Sequence[Service], interceptors: Interceptors, metrics: Metrics
    ) -> None:
        self._services = services
        self._interceptors = interceptors
        self._metrics = metrics
        self._streams = {
            f"/{service.name}/{name}": handler.response_streaming
            for service in services
            for name, handler in service.methods().items()
        }
        self._methods: Mapping[str, Method] = {}
        self._conversions = Conversions()

    @property
    def prefix(self) -> str:
        """The prefix of the paths of all methods."""
        return "/apidiscovery."

    def refusal(self, request: Request, refused: Refused) -> Response:
        """Answer a caller whom HTTP's admission refuses."""
        form = self._form(request)
        details: Sequence[ProtoAny] = ()
        more: Headers = []
        if refused.retry_s:
            seconds = math.ceil(refused.retry_s)
            info = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds))
            packed = ProtoAny()
            packed.Pack(info)
            details, more = (packed,), [(b"retry-after", b"%d" % seconds)]
        failure = Failure(_REFUSED[HTTPStatus(refused.code)], refused.message, details)
        return (form or forms.DEFAULT).failed(failure, request.path, more)

    async def answer(
        self, request: Request, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Answer a call below `prefix`; return None for a stream, which is sent already."""
        if not self._methods:
            self._methods = await methods_of(self._services, self._interceptors)
        method = self._methods.get(request.path)
        if method is None:
            return self._unknown(request)
        fields = _fields(scope)
        by_get = request.method in _READS
        parameters = request.parameters() if by_get else {}
        takes_get = method.is_read and not method.streams
        if request.method != "POST" and not (by_get and takes_get):
            return _method_not_allowed(method, "GET, POST" if takes_get else "POST")
        form = (
            forms.BY_GET.get(parameters.get("encoding", [""])[0])
            if by_get
            else forms.form_of(request.content_type, streams=method.streams)
        )
        if form is None:
            return _no_encoding(method) if by_get else _unsupported(method, request.content_type)
        call = _Call(method, form, fields, scope, receive, self._conversions)
        if by_get:
            call.parameters = parameters
        if method.streams:
            await self._stream(call, send)
            return None
        return await _unary(call, request)

    def _form(self, request: Request) -> CallForm | None:
        streams = self._streams.get(request.path)
        if streams is not None:
            return forms.form_of(request.content_type, streams=streams)
        unary = forms.form_of(request.content_type, streams=False)
        return unary or forms.form_of(request.content_type, streams=True)

    def _unknown(self, request: Request) -> Response:
        """Answer a call of a method that does not exist, with 404 as the routers of connect-go."""
        service, _, name = request.path[1:].partition("/")
        names = {each.name: list(each.methods()) for each in self._services}
        if service in names:
            short = service.rpartition(".")[2]
            text = f"{short} has no {name[:100]}; it has {', '.join(names[service])}"
        else:
            text = f"there is no service {service[:100]}; there are {', '.join(names)}"
        failure = Failure(grpc.StatusCode.UNIMPLEMENTED, text)
        answer = (self._form(request) or forms.DEFAULT).failed(failure, "other")
        return replace(answer, status=404) if answer.status == failure.http_status else answer

    async def _stream(self, call: "_Call", send: Send) -> None:
        """Answer with a stream."""
        labels = RequestLabels("POST", call.method.path, call.form.media_type, call.coding, 200)
        # The duration of a stream says nothing about the server: it is counted when it begins.
        stats = self._metrics.request_stats(labels)
        stats.observe(perf_counter() - call.began)
        sending = _Sending(call, send)
        context = CallContext(call.scope, sending.write)
        failure: Failure | None = None
        working = asyncio.create_task(_ended_with(call, context))
        call.on_disconnect = lambda: _gone(context, working)
        try:
            failure = await working
        except asyncio.CancelledError:
            if not context.done():
                raise
        finally:
            working.cancel()
            call.close()
            is_gone = context.done()
            context.finish()
        if not is_gone:
            await sending.end(failure)


@dataclass(slots=True)
class _Call:
    """One call.

    Attributes:
        method: The method.
        form: The form of its messages.
        fields: The header fields of the request, the first of each name.
        scope: As ASGI has it.
        receive: As ASGI has it.
        conversions: Converts responses.
        parameters: The query of a GET request; None for POST.
        on_disconnect: Called when the client goes, once the request has been read.
        request: The request, once it has been read.
        began: When it began, in seconds.
    """

    method: Method
    form: CallForm
    fields: Mapping[str, str]
    scope: Scope
    receive: Receive
    conversions: Conversions
    parameters: Mapping[str, list[str]] | None = None
    on_disconnect: Callable[[], None] | None = None
    request: Message | None = None
    began: float = field(default_factory=perf_counter)
    _watching: asyncio.Task[None] | None = None

    @property
    def coding(self) -> Coding:
        """How the answer, or each large message of it, is compressed."""
        return forms.chosen_coding(self.form, self.fields)

    async def encoded(self, response: bytes) -> bytes:
        """Return an encoded response in the codec of the call."""
        if self.form.codec == "proto":
            return response
        return await self.conversions.run(self.method.json, response)

    async def envelope(self, response: bytes, coding: Coding) -> bytes:
        """Return an encoded response in the codec of the call and in an envelope."""
        message = await self.encoded(response)
        if coding == "identity":
            return forms.envelope(message)
        return await self.conversions.run(forms.packed, message, coding)

    async def run(self, context: CallContext) -> bytes:
        """Run the handler, in the time that the client gives.

        Returns:
            The encoded response; empty for a stream.

        Raises:
            CallEnded: It ends with another status than OK.
        """
        version = self.fields.get(_VERSION, "1")
        if version != "1":
            raise forms.invalid(f"{_VERSION}: want 1, got {version[:100]!r}")
        named = (self.parameters or {}).get("connect", ["v1"])[0]
        if named != "v1":
            raise forms.invalid(f"connect: want v1, got {named[:100]!r}")
        deadline = asyncio.timeout(forms.timeout_s(self.form, self.fields))
        try:
            async with deadline:
                return await self._handled(context)
        except TimeoutError:
            if not deadline.expired():
                raise
            message = "the deadline of the call has passed"
            failure = Failure(grpc.StatusCode.DEADLINE_EXCEEDED, message)
            raise CallEnded(failure) from None

    async def _handled(self, context: CallContext) -> bytes:
        handler = self.method.handler
        behaviour: Callable[..., Any] = behaviour_of(handler)
        if handler.response_streaming:
            behaviour = writing(behaviour)
        # Behind admission handlers read the request themselves, once its caller is admitted.
        request = self._requests() if handler.request_streaming else await self._read()
        answer = await behaviour(request, context)
        if handler.response_streaming:
            return b""
        return (handler.response_serializer or bytes)(answer)

    async def _requests(self) -> AsyncGenerator[Message]:
        yield await self._read()

    async def _read(self) -> Message:
        if self.parameters is not None:
            data = forms.message_of_query(self.parameters)
        else:
            body = await _body(self.receive)
            if self.on_disconnect is not None:
                self._watching = asyncio.create_task(disconnected(self.receive))
                self._watching.add_done_callback(self._disconnected)
            data = forms.message_of_body(self.form, self.fields, body)
        self.request = await self.method.decoded(data, self.form.codec)
        return self.request

    def _disconnected(self, watching: asyncio.Task[None]) -> None:
        if self.on_disconnect is not None and not watching.cancelled():
            self.on_disconnect()

    def close(self) -> None:
        """Watch no longer for a disconnect."""
        if self._watching is not None:
            self._watching.cancel()


class _Sending:
    """Sends the messages of a stream."""

    def __init__(self, call: _Call, send: Send) -> None:
        self._call = call
        self._send = send
        self._coding: Coding = call.coding
        self._has_begun = False

    async def write(self, message: bytes) -> None:
        """Send a message; return when the client has room for it.

        Raises:
            CancelledError: The client has gone.
        """
        envelope = await self._call.envelope(message, self._coding)
        try:
            await self._begin()
            even = min(_PIECE_BYTES, len(envelope) // _MIN_PIECES)
            step = max(_MIN_PIECE_BYTES, even)
            for at in range(0, len(envelope), step):
                await self._send(body_message(envelope[at : at + step], more=True))
        except (OSError, RuntimeError):
            raise asyncio.CancelledError from None

    async def end(self, failure: Failure | None) -> None:
        """Send the status, unless the client has gone."""
        try:
            await self._begin()
            await self._send(body_message(self._call.form.end(failure)))
        except (OSError, RuntimeError):
            return

    async def _begin(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        form = self._call.form
        headers = [NOT_CACHED, (b"content-type", form.media_type.encode())]
        if self._coding != "identity":
            headers.append((form.encoding_field.encode(), self._coding.encode()))
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})


async def _ended_with(call: _Call, context: CallContext) -> Failure | None:
    """Run the handler of a call; return its status, None for OK."""
    try:
        await call.run(context)
    except CallEnded as ended:
        return ended.failure
    except Exception:  # noqa: BLE001 - the last resort: logged, and answered
        return _unexpected(call)
    return None


def _gone(context: CallContext, working: asyncio.Task[Failure | None]) -> None:
    context.finish()
    working.cancel()


async def _unary(call: _Call, request: Request) -> Response:
    """Answer with one message."""
    context = CallContext(call.scope, _no_stream)
    try:
        return await _answered(call, request, await call.run(context))
    except CallEnded as ended:
        return call.form.failed(ended.failure, call.method.path)
    except Exception:  # noqa: BLE001 - the last resort: logged, and answered
        return call.form.failed(_unexpected(call), call.method.path)
    finally:
        context.finish()


async def _no_stream(_message: bytes) -> NoReturn:
    raise TypeError("a unary call has no stream")


async def _answered(call: _Call, request: Request, data: bytes) -> Response:
    """Return the answer with an encoded response."""
    form, method, coding = call.form, call.method, call.coding
    headers: Headers = [(b"content-type", form.media_type.encode())]
    if form.has_envelopes:
        if coding != "identity":
            headers.append((form.encoding_field.encode(), coding.encode()))
        body = await call.envelope(data, coding) + form.end(None)
        return Response(200, [NOT_CACHED, *headers], body, method.path, form.media_type)
    headers += [NOT_CACHED, (b"vary", b"Accept-Encoding")]
    is_get = call.parameters is not None
    is_tagged = is_get and method.has_etag and not _is_with_provenance(call.request)
    # The only read that depends on neither the caller nor the time.
    cacheable = is_tagged and isinstance(call.request, discovery_pb2.GetDiscoveryRequest)
    etag = await call.conversions.run(method.etag, data) if is_tagged else b""
    if etag:
        tag = f'"{etag.decode()}"'
        headers.append((b"etag", tag.encode()))
        if request.if_none_match and not none_match(request.if_none_match, tag):
            path, media_type = method.path, form.media_type
            return Response(304, headers, b"", path, media_type, cacheable=cacheable)
    body = await call.encoded(data)
    coding = coding_for(len(body), coding)
    if coding != "identity":
        body = await call.conversions.run(compress, body, coding)
        headers.append((b"content-encoding", coding.encode()))
    return Response(200, headers, body, method.path, form.media_type, coding, cacheable=cacheable)


def _is_with_provenance(request: Message | None) -> bool:
    """Return whether an answer may change while its document, and so its ETag, stays the same."""
    return isinstance(request, discovery_pb2.GetDiscoveryRequest) and request.with_provenance


def _fields(scope: Scope) -> dict[str, str]:
    """Return the header fields of a request, the first of each name."""
    headers: Headers = scope["headers"]
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed([*headers])}


async def _body(receive: Receive) -> bytes:
    """Return the body of a request.

    Raises:
        CallEnded: It is too large, takes too long, or its client has gone.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    failure = Failure(grpc.StatusCode.CANCELLED, "the client has gone")
                    raise CallEnded(failure)
                body += message.get("body", b"")
                if len(body) > MAX_RECEIVED_BYTES:
                    raise forms.too_large()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        text = f"the body of the request did not arrive within {_BODY_TIMEOUT_S:g} seconds"
        raise CallEnded(Failure(grpc.StatusCode.DEADLINE_EXCEEDED, text)) from None


def _unexpected(call: _Call) -> Failure:
    """Log the exception that is handled; return the status for the caller."""
    _log.exception("call failed", method=call.method.path)
    return Failure(grpc.StatusCode.INTERNAL, "the server failed; its log says why")


def _method_not_allowed(method: Method, allowed: str) -> Response:
    text = f"want {allowed.replace(', ', ' or ')}\n"
    return with_header(text_response(405, text, method.path), b"allow", allowed.encode())


def _no_encoding(method: Method) -> Response:
    text = "GET needs encoding=json or encoding=proto, and message, in the query\n"
    return text_response(415, text, method.path)


def _unsupported(method: Method, content_type: str) -> Response:
    """Answer a request in a form that the method does not take, as connect-go does."""
    accepted = forms.media_types(streams=method.streams)
    text = f"want Content-Type of {accepted}"
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in {"application/grpc", "application/grpc+proto", "application/grpc+json"}:
        text += "; native gRPC is on the other port (--grpc)"
    answer = text_response(415, f"{text}\n", method.path)
    return with_header(answer, b"accept-post", accepted.encode())
