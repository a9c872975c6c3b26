"""Bodies of requests: read with a bound on size and time, and decoded.

Sources: k8s.io/apiserver pkg/endpoints/handlers/rest.go:limitedReadBody, pkg/server/config.go for
the bound, pkg/endpoints/handlers/negotiation/negotiate.go:NegotiateInputSerializerForMediaType.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, TypeAlias

from apidiscovery_formats.negotiation import JSON, MEDIA_TYPES, SERIALIZERS, Serializer

from apidiscovery_service.kube.objects.decoding import Decoded, Undecodable, decode, refusal
from apidiscovery_service.kube.objects.errors import (
    ObjectError,
    bad_request,
    too_large,
    unsupported_media_type,
)
from apidiscovery_service.kube.objects.kinds import DELETE_OPTIONS, Kind, Object
from apidiscovery_service.serving.http.messages import Request
from apidiscovery_service.serving.http.objects import parameters
from apidiscovery_service.serving.http.objects.parameters import FieldValidation

MAX_BODY_BYTES = 3 * 1024 * 1024

# As long as the header fields may take to arrive.
_BODY_TIMEOUT_S = 30.0

_PARAMETER = r'[ \t]*;[ \t]*[!#$%&\'*+.^_`|~0-9A-Za-z-]+=(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)'
_MEDIA_TYPE = re.compile(rf"[ \t]*([^\s;,]+)(?:{_PARAMETER})*[ \t]*;?[ \t]*")

# The name of the ASGI specification; its messages are untyped mappings.
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Disconnected(Exception):
    """The client has gone before it had sent the whole body; nobody waits for an answer."""


async def read_body(receive: Receive, timeout_s: float = _BODY_TIMEOUT_S) -> bytes:
    """Return the body of a request.

    Args:
        receive: As ASGI has it.
        timeout_s: How long all of it may take to arrive.

    Raises:
        ObjectError: It is larger than MAX_BODY_BYTES, 413, or takes too long, 408.
        Disconnected: The client has gone.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(receive)
    except TimeoutError:
        message = f"the body of the request did not arrive within {timeout_s:g} seconds"
        raise ObjectError(HTTPStatus.REQUEST_TIMEOUT, "Timeout", message) from None


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise too_large(f"limit is {MAX_BODY_BYTES}")
        if not message.get("more_body", False):
            return bytes(body)


def serializer_of(content_type: str) -> Serializer:
    """Return the encoding that a Content-Type says; JSON when there is none.

    Raises:
        ObjectError: It says another one; 415.
    """
    if not content_type:
        return JSON
    match = _MEDIA_TYPE.fullmatch(content_type)
    said = match[1].lower() if match else ""
    for serializer in SERIALIZERS:
        if said == serializer.media_type:
            return serializer
    raise unsupported_media_type(MEDIA_TYPES)


def decoded(request: Request, body: bytes, kind: Kind, validation: FieldValidation) -> Decoded:
    """Return the object of a body; its problems are those that the client is warned of.

    Raises:
        ObjectError: It is no such object, or not to the letter though it must be, 400; or in a
            form that is not read, 415.
    """
    try:
        read = decode(body, serializer_of(request.content_type), kind)
    except Undecodable as error:
        raise bad_request(str(error)) from None
    if validation is FieldValidation.STRICT and read.problems:
        raise bad_request(refusal(read.problems, kind))
    return read if validation is FieldValidation.WARN else Decoded(read.object)


def delete_options(request: Request, body: bytes) -> Object:
    """Return the DeleteOptions of a body or, without one, of the query.

    Raises:
        ObjectError: They are none, 400 or 415, or say what may not be, 422.
    """
    options: Object
    if body:
        try:
            options = decode(body, serializer_of(request.content_type), DELETE_OPTIONS).object
        except Undecodable as error:
            raise bad_request(error.why) from None
    else:
        options = parameters.delete_options(request)
    parameters.check_delete_options(options)
    return options
