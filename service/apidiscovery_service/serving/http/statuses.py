"""Answers that are a `Status`, in the form that the client accepts.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go:ErrorNegotiated.
"""

from dataclasses import replace

from apidiscovery_formats.go_text import parse_bool
from apidiscovery_formats.negotiation import JSON, Representation, negotiate, route_accepts

from apidiscovery_service.encoding import plain
from apidiscovery_service.encoding.plain import PlainDocument
from apidiscovery_service.serving.http.go_durations import duration_error
from apidiscovery_service.serving.http.messages import Request, Response

NOT_CACHED = (b"cache-control", b"no-cache, private")


def is_pretty(request: Request) -> bool:
    """Tell whether a person reads the answer.

    Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go:isPrettyPrint.
    """
    asked = request.parameter("pretty")
    return bool(parse_bool(asked)) if asked else request.human


def negotiated_status(request: Request, status: PlainDocument) -> Response:
    """Answer with a Status in the form that the client accepts, pretty JSON if there is none."""
    representation = negotiate(request.accept) or Representation(JSON, pretty=True)
    if representation.serializer is JSON and (representation.pretty or is_pretty(request)):
        representation = replace(representation, pretty=True)
    code = status.fields["code"]
    if not isinstance(code, int):
        raise TypeError(code)
    return Response(
        code,
        [NOT_CACHED, (b"content-type", representation.serializer.media_type.encode())],
        plain.encode(status, representation),
        representation=representation.serializer.media_type,
    )


def restful_refusal(
    request: Request,
    produced: tuple[str, ...],
    methods: tuple[str, ...] = ("GET",),
    *,
    consumes_anything: bool = False,
) -> PlainDocument | None:
    """Return what go-restful says against a request, None if it lets it through.

    Args:
        request: The request.
        produced: The media types that the path has.
        methods: The methods that the path has.
        consumes_anything: Whether a body may be of any type; else of those that the path has.

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


def invalid_timeout(request: Request) -> PlainDocument | None:
    """Check `?timeout=`, which client-go always sends.

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


def starting(request: Request, reason: str = "") -> Response:
    """Answer before the sources have been read; without a reason, in the words of the reference.

    Source: k8s.io/apiserver pkg/util/notfoundhandler.
    """
    message = reason or (
        "the request has been made before all known HTTP paths have been installed, "
        "please try again"
    )
    status = plain.status(503, "ServiceUnavailable", message, retry_after_s=5)
    response = negotiated_status(request, status)
    return replace(response, headers=[*response.headers, (b"retry-after", b"5")])
