"""Answers requests about StorageVersions and leases.

Reading needs the role `reader`, as all of discovery does; writing needs `publisher` for the API
group of the objects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import Any

import structlog
from apidiscovery_formats.go_text import quote
from apidiscovery_formats.negotiation import MEDIA_TYPES

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import Access, Admission, Unauthenticated
from apidiscovery_service.encoding.compression import Coding, choose
from apidiscovery_service.errors import DiscoveryError, told_to_callers
from apidiscovery_service.kube.objects import errors, json_fields
from apidiscovery_service.kube.objects.errors import Details, ObjectError, bad_request
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.serving.http.admission import (
    Credentials,
    Refused,
    escaped,
    refusal,
)
from apidiscovery_service.serving.http.messages import (
    PreparedResponse,
    Receive,
    Request,
    Response,
    Send,
)
from apidiscovery_service.serving.http.objects import write_requests
from apidiscovery_service.serving.http.objects.parameters import Query, list_parameters
from apidiscovery_service.serving.http.objects.representation import (
    STREAM_MEDIA_TYPES,
    Shape,
    compressed,
    negotiate,
    require_stream,
    response,
    shape_of,
)
from apidiscovery_service.serving.http.objects.routes import ObjectRoute, object_route
from apidiscovery_service.serving.http.objects.watch import WatchStream, stream, watch
from apidiscovery_service.serving.http.objects.write_requests import Disconnected, read_body
from apidiscovery_service.serving.http.sending import disconnected
from apidiscovery_service.serving.http.statuses import (
    NOT_CACHED,
    TOO_MANY_REQUESTS,
    internal_error,
    negotiated_status,
    object_error,
    restful_refusal,
)
from apidiscovery_service.serving.revocation import revoked
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.object_reads import ObjectReads
from apidiscovery_service.storage_versions.object_writes import Objects
from apidiscovery_service.store import StoreUnavailable

_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))

# When to retry a watch: another one of the caller may have ended.
_WATCH_RETRY_S = 5.0

_log = structlog.get_logger(__name__)


class ObjectAnswers:
    """Answers requests about objects, apart from ASGI and authorization.

    Args:
        objects: The StorageVersions.
        leases: The leases, which are read only.
    """

    def __init__(self, objects: Collection, leases: Collection) -> None:
        self._objects = Objects(objects)
        self._reads = {STORAGE_VERSION.kind: self._objects, LEASE.kind: ObjectReads(leases)}
        self._collections = {STORAGE_VERSION.kind: objects, LEASE.kind: leases}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End all watches, present and future: the server stops."""
        self._stopping.set()

    async def stopped(self) -> None:
        """Return when `stop` has been called."""
        await self._stopping.wait()

    async def answer(
        self,
        request: Request,
        target: ObjectRoute,
        read: Callable[[], Awaitable[bytes]],
        coding: Coding,
    ) -> Response | WatchStream:
        """Answer a request whose method the path has.

        Args:
            request: The request.
            target: The route of its path.
            read: Returns its body; called at most once, and only for writes.
            coding: Content coding for a large body.

        Raises:
            ObjectError: The request fails.
        """
        try:
            if request.method != "GET":
                return await self._write(request, target, read)
            shape = shape_of(request, target.kind, negotiate(request))
            if target.name and not target.watches:
                return await self._get(request, target, shape)
            return await self._list(request, target, shape, coding)
        except ObjectError:
            raise
        except StoreUnavailable as error:
            code, details = HTTPStatus.SERVICE_UNAVAILABLE, Details(retry_after_s=1)
            raise ObjectError(code, "ServiceUnavailable", error.public_text, details) from None
        except DiscoveryError as error:
            raise errors.internal_error(told_to_callers(error)) from None

    async def _get(self, request: Request, target: ObjectRoute, shape: Shape) -> Response:
        query = Query(request)
        if query.flag("export"):
            raise bad_request(
                "the export parameter, deprecated since v1.14, is no longer supported"
            )
        reads = self._reads[target.kind.kind]
        value = await reads.get(target.name, query.text("resourceVersion"))
        namespace = json_fields.text(json_fields.mapping(value, "metadata"), "namespace")
        if namespace != target.namespace:
            raise errors.not_found(target.kind, target.name)
        return response(target, shape.form, shape.one(value))

    async def _list(
        self, request: Request, target: ObjectRoute, shape: Shape, coding: Coding
    ) -> Response | WatchStream:
        parameters = list_parameters(request, target)
        if parameters.watch or target.watches:
            streamed = Shape(shape.kind, require_stream(shape.form), shape.include)
            collection = self._collections[target.kind.kind]
            return await watch(collection, target, parameters, streamed)
        listed = await self._reads[target.kind.kind].list(parameters.as_list())
        body = shape.many(listed.items, listed.metadata)
        return await compressed(response(target, shape.form, body), coding)

    async def _write(
        self, request: Request, target: ObjectRoute, read: Callable[[], Awaitable[bytes]]
    ) -> Response:
        if request.method == "PATCH":
            write_requests.check_patch_type(request.content_type)
        shape = shape_of(request, target.kind, negotiate(request))
        return await write_requests.Write(
            self._objects, request, target, await read(), shape
        ).answer()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the means to answer it.

    Attributes:
        request: The request.
        target: The route of its path.
        credentials: The credentials of its caller.
        admission: Its caller.
        receive: As ASGI has it.
        send: As ASGI has it; raises OSError when the caller leaves too much unread.
        deliver: Sends an answer.
        began: When the request arrived, by `perf_counter`.
        caller: Returns the key by which watches are counted.
    """

    request: Request
    target: ObjectRoute
    credentials: Credentials
    admission: Admission
    receive: Receive
    send: Send
    deliver: Callable[[PreparedResponse], Awaitable[None]]
    began: float
    caller: Callable[[], str]


class ObjectGateway:
    """Answers requests about objects from callers that may read.

    Args:
        answers: Answers without ASGI.
        access: Decides who may write, and when a watch must end.
        prepare: Returns an answer as ASGI messages, given the method.
        compresses: Whether large answers are compressed for clients that accept it.
    """

    def __init__(
        self,
        answers: ObjectAnswers,
        access: Access,
        prepare: Callable[[str, Response], PreparedResponse],
        *,
        compresses: bool = True,
    ) -> None:
        self._answers = answers
        self._access = access
        self._prepare = prepare
        self._compresses = compresses

    def denial(self, request: Request, refused: Refused) -> Response | None:
        """Return the answer to a caller that may not even read; None if no object is concerned."""
        target = object_route(request.path)
        if target is None or refused.code != HTTPStatus.FORBIDDEN:
            return None
        verb = target.verb(request.method, watch=bool(Query(request).flag("watch")))
        answer = object_error(request, _denied(refused.user, target, verb))
        return replace(answer, endpoint=target.endpoint)

    async def serve(self, exchange: Exchange, early: Response | None = None) -> None:
        """Answer one request.

        Args:
            exchange: The request.
            early: The answer if it is known before the request is routed further.
        """
        try:
            answer = early or await self._answer(exchange)
        except Disconnected:
            return
        except Exception:  # noqa: BLE001 - the last resort: logged, and answered with 500
            request = exchange.request
            _log.exception("request failed", method=request.method, path=request.path)
            answer = negotiated_status(request, internal_error())
        if isinstance(answer, WatchStream):
            await self._watch(exchange, answer)
        else:
            await self._send(exchange, answer)

    async def _send(self, exchange: Exchange, answer: Response) -> None:
        answer = replace(answer, endpoint=exchange.target.endpoint)
        prepared = self._prepare(exchange.request.method, answer)
        await exchange.deliver(prepared)

    async def _answer(self, exchange: Exchange) -> Response | WatchStream:
        request, target = exchange.request, exchange.target
        refused = _restful_refusal(request, target)
        if refused is not None:
            return refused
        try:
            self._check_write(exchange)
            body = partial(read_body, exchange.receive)
            coding = choose(request.accept_encoding) if self._compresses else "identity"
            return await self._answers.answer(request, target, body, coding)
        except ObjectError as error:
            return object_error(request, error)

    def _check_write(self, exchange: Exchange) -> None:
        """Check that the caller may write, if the request does.

        Raises:
            ObjectError: It may not; 403.
        """
        method, target, caller = exchange.request.method, exchange.target, exchange.admission.caller
        if method in _WRITES and self._access.may_change(caller, (target.kind.group,)):
            raise _denied(caller.user, target, target.verb(method, watch=False))

    # Watches.

    async def _watch(self, exchange: Exchange, watched: WatchStream) -> None:
        with self._access.watches.counted(exchange.caller()) as may_watch:
            if not may_watch:
                await watched.frames.aclose()
                refused = Refused(429, TOO_MANY_REQUESTS, _WATCH_RETRY_S)
                await self._send(exchange, refusal(exchange.request, refused))
                return
            try:
                await self._stream(exchange, watched)
            except Exception:  # noqa: BLE001 - the answer has begun, so there can be no other
                _log.exception("watch failed", path=exchange.request.path)

    async def _stream(self, exchange: Exchange, watched: WatchStream) -> None:
        media_type = watched.form.stream_media_type.encode()
        headers = [NOT_CACHED, (b"content-type", media_type)]
        # The duration of a watch says nothing about the server: it is counted when it begins.
        described = Response(200, headers, b"", exchange.target.endpoint, watched.form.label)
        prepared = self._prepare(exchange.request.method, described)
        prepared.stats.observe(perf_counter() - exchange.began)
        ends: list[Coroutine[Any, Any, object]] = [
            disconnected(exchange.receive),
            self._answers.stopped(),
        ]
        if self._access.identifies:
            unreadable = partial(_unreadable, self._access, exchange.credentials)
            ends.append(revoked(self._access, unreadable))
        await stream(
            {"type": "http.response.start", "status": 200, "headers": headers},
            watched.frames,
            exchange.send,
            ends=ends,
            timeout_s=watched.timeout_s,
        )


def _restful_refusal(request: Request, target: ObjectRoute) -> Response | None:
    """Return the answer with which go-restful refuses a request, None if it does not."""
    streams = request.method == "GET" and (target.watches or not target.name)
    produced = (*MEDIA_TYPES, *STREAM_MEDIA_TYPES) if streams else MEDIA_TYPES
    refused = restful_refusal(request, produced, target.methods, consumes_anything=True)
    return None if refused is None else negotiated_status(request, refused)


def _unreadable(access: Access, credentials: Credentials) -> bool | None:
    """Return True once a caller may no longer read, None before."""
    try:
        admission = access.admit(credentials.connection, credentials.authorization)
    except Unauthenticated:
        return True
    return None if admission.role >= Role.READER else True


def _denied(user: str, target: ObjectRoute, verb: str) -> ObjectError:
    """Return the error of a caller that may not do something; 403.

    Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go:ForbiddenStatusError.
    """
    where = f"in the namespace {quote(target.namespace)}" if target.namespace else ""
    text = (
        f"User {quote(user)} cannot {verb} resource {quote(target.resource)} in API group "
        f"{quote(target.kind.group)} {where or 'at the cluster scope'}"
    )
    return errors.forbidden(target.kind, target.name, escaped(text))
