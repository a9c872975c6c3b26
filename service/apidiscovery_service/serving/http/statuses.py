"""Answers that are a `Status`, in the form that the client accepts.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go:ErrorNegotiated.
"""

import re
from dataclasses import replace
from http import HTTPStatus

from apidiscovery.meta.v1 import status_pb2
from apidiscovery_formats.go_text import parse_bool
from apidiscovery_formats.negotiation import JSON, Representation, negotiate, route_accepts

from apidiscovery_service.encoding import plain
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.encoding.plain import PlainDocument
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.errors import Cause, Details, ObjectError
from apidiscovery_service.kube.objects.messages import message_of
from apidiscovery_service.serving.http.messages import Request, Response

NOT_CACHED = (b"cache-control", b"no-cache, private")
NO_SNIFF = (b"x-content-type-options", b"nosniff")

TOO_MANY_REQUESTS = "Too many requests, please try again later."

# Go's time.ParseDuration.
_NUMBER_AND_UNIT = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[^0-9.]*)")
_NS = 1
_US = 1000 * _NS
_MS = 1000 * _US
_S = 1000 * _MS
_UNITS_NS = {
    "ns": _NS,
    "us": _US,
    "\u00b5s": _US,  # the micro sign
    "\u03bcs": _US,  # the Greek letter mu
    "ms": _MS,
    "s": _S,
    "m": 60 * _S,
    "h": 3600 * _S,
}
_SPACE = 0x20
_FIRST_NON_ASCII = 0x80

_MAX_NS = 2**63  # as a magnitude; only -2**63 itself reaches it


def is_pretty(request: Request) -> bool:
    """Return whether JSON is indented.

    Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go:isPrettyPrint.
    """
    asked = request.parameter("pretty")
    return bool(parse_bool(asked)) if asked else request.human


def negotiated_status(request: Request, status: PlainDocument) -> Response:
    """Answer with a Status in the form that the client accepts, pretty JSON if there is none."""
    representation = negotiate(request.accept) or Representation(JSON, pretty=True)
    if representation.serializer is JSON and (representation.pretty or is_pretty(request)):
        representation = replace(representation, pretty=True)
    return status_response(status, representation)


def status_response(status: PlainDocument, representation: Representation) -> Response:
    """Answer with a Status in one form, without negotiation."""
    code = status.fields["code"]
    if not isinstance(code, int):
        raise TypeError(code)
    media_type = representation.serializer.media_type
    headers = [NOT_CACHED, (b"content-type", media_type.encode())]
    return Response(code, headers, plain.encode(status, representation), representation=media_type)


def text_response(code: int, text: str, endpoint: str = "other") -> Response:
    """Answer with text, as Go's http.Error does."""
    headers = [NOT_CACHED, (b"content-type", b"text/plain; charset=utf-8"), NO_SNIFF]
    return Response(code, headers, text.encode(), endpoint, "text")


def with_header(response: Response, name: bytes, value: bytes) -> Response:
    """Return a response with one more header field."""
    return replace(response, headers=[*response.headers, (name, value)])


# JSON with an ETag.


def tagged(etag: str, endpoint: str = "other") -> Response:
    """Return 304 for JSON with an ETag, which is given in its double quotes."""
    return Response(
        HTTPStatus.NOT_MODIFIED,
        [NOT_CACHED, (b"etag", etag.encode()), (b"vary", b"Accept-Encoding")],
        endpoint=endpoint,
        representation=JSON.media_type,
        cacheable=True,
    )


def with_json(described: Response, body: bytes, coding: Coding) -> Response:
    """Return 200 with the JSON that `tagged` describes."""
    headers = [*described.headers, (b"content-type", JSON.media_type.encode())]
    if coding != "identity":
        headers.append((b"content-encoding", coding.encode()))
    return replace(described, status=HTTPStatus.OK, headers=headers, body=body, coding=coding)


# Errors that do not depend on objects.


def internal_error() -> PlainDocument:
    """Return the Status of an unexpected exception."""
    return plain.status(500, "InternalError", "the server failed; its log says why")


def not_found(request: Request, why: str = "") -> Response:
    """Answer 404 with a Status, as go-restful does; `why` is added to its message."""
    message = "the server could not find the requested resource"
    message += f": {why}" if why else ""
    return negotiated_status(request, plain.status(404, "NotFound", message, details=True))


def page_not_found() -> Response:
    """Answer 404 as Go's net/http does."""
    return text_response(404, "404 page not found\n")


def unavailable(request: Request, message: str, retry_after_s: int) -> Response:
    """Answer 503 with a Status and Retry-After."""
    status = plain.status(503, "ServiceUnavailable", message, retry_after_s=retry_after_s)
    response = negotiated_status(request, status)
    return with_header(response, b"retry-after", b"%d" % retry_after_s)


def starting(request: Request, reason: str = "") -> Response:
    """Answer before the sources have been read; without a reason, in kube-apiserver's words.

    Source: k8s.io/apiserver pkg/util/notfoundhandler.
    """
    message = reason or (
        "the request has been made before all known HTTP paths have been installed, "
        "please try again"
    )
    return unavailable(request, message, 5)


def restful_refusal(
    request: Request,
    produced: tuple[str, ...],
    methods: tuple[str, ...] = ("GET",),
    *,
    consumes_anything: bool = False,
) -> PlainDocument | None:
    """Return the Status with which go-restful refuses a request, None if it does not.

    Args:
        request: The request.
        produced: The media types of the path.
        methods: The methods of the path.
        consumes_anything: Whether a body may have any type; else one of `produced`.

    Source: emicklei/go-restful jsr311.go:detectRoute; the mapping to Status is k8s.io/apiserver
    pkg/server/handler.go:serviceErrorHandler.
    """
    if request.method not in methods:
        message = "the server does not allow this method on the requested resource"
        return plain.status(405, "MethodNotAllowed", message, details=True)
    content_type = request.content_type.partition(";")[0].strip()
    if not consumes_anything and content_type and content_type not in produced:
        message = "415: Unsupported Media Type"
        return plain.status(415, "UnsupportedMediaType", message, details=True)
    if not route_accepts(request.accept, produced):
        available = ", ".join(produced)
        message = f"406: Not Acceptable\n\nAvailable representations: {available}"
        return plain.status(406, "NotAcceptable", message, details=True)
    return None


# Errors about objects, and deletions: a Status with details.


def object_failure(error: ObjectError) -> PlainDocument:
    """Return the Status of a failed request."""
    return _status(
        error.message, error.reason, error.details, int(error.code), error.continue_token
    )


def object_deleted(details: Details) -> PlainDocument:
    """Return the Status of a deletion; it has no code."""
    return _status("", "", details)


def object_error(request: Request, error: ObjectError) -> Response:
    """Answer with the Status of an error, in the form that the client accepts."""
    response = negotiated_status(request, object_failure(error))
    if error.code == HTTPStatus.FORBIDDEN:
        response = with_header(response, *NO_SNIFF)
    if error.details and error.details.retry_after_s:
        response = with_header(response, b"retry-after", b"%d" % error.details.retry_after_s)
    return response


def _status(
    message: str, reason: str, details: Details | None, code: int = 0, continue_token: str = ""
) -> PlainDocument:
    status = "Failure" if code else "Success"
    metadata: dict[str, JSONValue] = {"continue": continue_token} if continue_token else {}
    fields: dict[str, JSONValue] = {"metadata": metadata, "status": status}
    if message:
        fields["message"] = message
    if reason:
        fields["reason"] = reason
    if details is not None:
        fields["details"] = _details(details)
    if code:
        fields["code"] = code

    return PlainDocument("Status", "v1", fields, lambda: message_of(status_pb2.Status, fields))


def _details(details: Details) -> dict[str, JSONValue]:
    causes: list[JSONValue] = [_cause(cause) for cause in details.causes]
    fields: dict[str, JSONValue] = {
        "name": details.name,
        "group": details.group,
        "kind": details.kind,
        "uid": details.uid,
        "causes": causes,
        "retryAfterSeconds": details.retry_after_s,
    }
    return {name: value for name, value in fields.items() if value}


def _cause(cause: Cause) -> dict[str, JSONValue]:
    fields = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    return {name: value for name, value in fields.items() if value}


# The parameter `timeout`.


def invalid_timeout(request: Request) -> PlainDocument | None:
    """Return the Status of a malformed `?timeout=`, which client-go always sends.

    Source: k8s.io/apiserver pkg/endpoints/filters/request_deadline.go:parseTimeout.
    """
    if not request.query:
        return None
    timeout = request.parameter("timeout")
    wrong = duration_error(timeout) if timeout else None
    if wrong is None:
        return None
    message = f"invalid timeout specified in the request URL - {wrong}"
    return plain.status(400, "BadRequest", message)


def duration_error(text: str) -> str | None:
    """Return the error of Go's time.ParseDuration, None for a well-formed duration."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return None
    invalid = f"time: invalid duration {_quote(text)}"
    if not rest:
        return invalid
    total_ns = 0
    while rest:
        match = _NUMBER_AND_UNIT.match(rest)
        if match is None:
            return invalid
        unit = match["unit"]
        if not unit:
            return f"time: missing unit in duration {_quote(text)}"
        if unit not in _UNITS_NS:
            return f"time: unknown unit {_quote(unit)} in duration {_quote(text)}"
        total_ns += _nanoseconds(match["number"], _UNITS_NS[unit])
        rest = rest[match.end() :]
    limit = _MAX_NS if text.startswith("-") else _MAX_NS - 1
    return invalid if total_ns > limit else None


def _nanoseconds(number: str, unit_ns: int) -> int:
    whole, _, fraction = number.partition(".")
    # Digits beyond the 19th are below a nanosecond of any unit.
    fraction = fraction[:19]
    scale: int = 10 ** len(fraction)
    return int(whole[:40] or "0") * unit_ns + int(fraction or "0") * unit_ns // scale


def _quote(text: str) -> str:
    """Return text as time's own `quote` does, which is not strconv's."""
    quoted = [
        f"\\{chr(byte)}"
        if byte in b'"\\'
        else chr(byte)
        if _SPACE <= byte < _FIRST_NON_ASCII
        else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogateescape")
    ]
    return f'"{"".join(quoted)}"'
