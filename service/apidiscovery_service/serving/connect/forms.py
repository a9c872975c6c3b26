"""Forms of calls: protocol, codec, compression and deadline."""

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import grpc

from apidiscovery_service.encoding.compression import (
    Coding,
    choose,
    coding_for,
    compress,
)
from apidiscovery_service.serving.connect.status import (
    CallEnded,
    Failure,
    connect_error_json,
    end_of_stream,
    grpc_trailers,
)
from apidiscovery_service.serving.grpc.server import MAX_RECEIVED_BYTES
from apidiscovery_service.serving.http.messages import Headers, Response
from apidiscovery_service.serving.http.statuses import NOT_CACHED

Codec = Literal["proto", "json"]

# Of an envelope: flags, and the size of the message.
_PREFIX = struct.Struct(">BI")
_COMPRESSED, _CONNECT_END, _GRPC_TRAILERS = 0x01, 0x02, 0x80

_GZIP_BITS = zlib.MAX_WBITS | 16
_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_MAX_GRPC_DIGITS, _MAX_CONNECT_DIGITS = 8, 10


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form of a call.

    Attributes:
        media_type: Content-Type of the answer.
        codec: Encoding of messages.
        timeout_field: Header field of the deadline.
        encoding_field: Header field with the compression of the request's messages.
        accept_field: Header field with the codings that the client accepts.
        has_envelopes: Whether messages are in envelopes, the last of which has the status;
            otherwise HTTP's status counts.
        is_grpc: Whether the status is written as gRPC's trailers.
    """

    media_type: str
    codec: Codec
    timeout_field: str = "connect-timeout-ms"
    encoding_field: str = "content-encoding"
    accept_field: str = "accept-encoding"
    has_envelopes: bool = False
    is_grpc: bool = False

    def end(self, failure: Failure | None) -> bytes:
        """Return the envelope that ends an answer."""
        if self.is_grpc:
            return envelope(grpc_trailers(failure), _GRPC_TRAILERS)
        return envelope(end_of_stream(failure), _CONNECT_END)

    def failed(self, failure: Failure, endpoint: str, more: Headers | None = None) -> Response:
        """Return the answer to a call that failed before it was answered."""
        status, media_type, body = 200, self.media_type, b""
        if self.has_envelopes:
            body = self.end(failure)
        else:
            status, media_type = failure.http_status, "application/json"
            body = connect_error_json(failure)
        headers = [NOT_CACHED, (b"content-type", media_type.encode()), *(more or ())]
        return Response(status, headers, body, endpoint, media_type)


def _connect(codec: Codec) -> CallForm:
    return CallForm(f"application/{codec}", codec)


def _connect_stream(codec: Codec) -> CallForm:
    return CallForm(
        f"application/connect+{codec}",
        codec,
        encoding_field="connect-content-encoding",
        accept_field="connect-accept-encoding",
        has_envelopes=True,
    )


def _grpc_web(codec: Codec, media_type: str = "") -> CallForm:
    return CallForm(
        media_type or f"application/grpc-web+{codec}",
        codec,
        timeout_field="grpc-timeout",
        encoding_field="grpc-encoding",
        accept_field="grpc-accept-encoding",
        has_envelopes=True,
        is_grpc=True,
    )


_GRPC_WEB = (
    _grpc_web("proto", "application/grpc-web"),
    _grpc_web("proto"),
    _grpc_web("json"),
)
_UNARY = {form.media_type: form for form in (_connect("json"), _connect("proto"), *_GRPC_WEB)}
_STREAMS = {
    form.media_type: form
    for form in (_connect_stream("json"), _connect_stream("proto"), *_GRPC_WEB)
}
BY_GET: Final[Mapping[str, CallForm]] = {
    form.codec: form for form in (_connect("json"), _connect("proto"))
}
# The form of a refusal when the request has none.
DEFAULT: Final = BY_GET["json"]


def media_types(*, streams: bool) -> str:
    """Return the media types of requests to a method."""
    return ", ".join(_STREAMS if streams else _UNARY)


def form_of(content_type: str, *, streams: bool) -> CallForm | None:
    """Return the form of a POST request; None if no method of this kind takes it."""
    media_type = content_type.partition(";")[0].strip().lower()
    return (_STREAMS if streams else _UNARY).get(media_type)


def timeout_s(form: CallForm, fields: Mapping[str, str]) -> float | None:
    """Return the deadline of a call, in seconds from now; None without one.

    Raises:
        CallEnded: It is malformed.
    """
    text = fields.get(form.timeout_field, "")
    if not text:
        return None
    digits, unit = (text[:-1], text[-1]) if form.is_grpc else (text, "m")
    most = _MAX_GRPC_DIGITS if form.is_grpc else _MAX_CONNECT_DIGITS
    seconds = _UNITS_S.get(unit)
    if seconds is None or not (digits.isascii() and digits.isdigit() and len(digits) <= most):
        wanted = f"up to {most} digits" + (" and one of H, M, S, m, u, n" if form.is_grpc else "")
        raise invalid(f"{form.timeout_field}: want {wanted}, got {text[:100]!r}")
    return int(digits) * seconds


def chosen_coding(form: CallForm, fields: Mapping[str, str]) -> Coding:
    """Return how the answer, or each large message of it, is compressed."""
    return choose(fields.get(form.accept_field, ""))


# Requests.


def message_of_query(parameters: Mapping[str, list[str]]) -> bytes:
    """Return the message in the query of a GET request.

    Raises:
        CallEnded: There is none, or it cannot be read.
    """
    texts = parameters.get("message")
    if texts is None:
        raise invalid(
            "the query has no message; want message={} or message in base64 with base64=1"
        )
    data = texts[0].encode()
    if parameters.get("base64", [""])[0] == "1":
        try:
            padded = texts[0].rstrip("=") + "=" * (-len(texts[0].rstrip("=")) % 4)
            data = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise invalid("message: want base64 of the URL alphabet, since base64=1") from None
    return decompressed(data, parameters.get("compression", [""])[0])


def message_of_body(form: CallForm, fields: Mapping[str, str], body: bytes) -> bytes:
    """Return the one message in the body of a POST request.

    Raises:
        CallEnded: There is none, or more than one, or it cannot be read.
    """
    encoding = fields.get(form.encoding_field, "")
    if not form.has_envelopes:
        return decompressed(body, encoding)
    if len(body) < _PREFIX.size:
        raise invalid(f"want one message in an envelope, got {len(body)} bytes")
    flags, size = _PREFIX.unpack_from(body)
    data = body[_PREFIX.size :]
    if flags & ~_COMPRESSED or len(data) != size:
        raise invalid(f"want one message of {size} bytes in an envelope, got {len(data)} bytes")
    return decompressed(data, encoding) if flags & _COMPRESSED else data


def decompressed(data: bytes, encoding: str) -> bytes:
    """Return a message without its compression.

    Raises:
        CallEnded: It is not valid, larger than MAX_RECEIVED_BYTES, or in another coding than gzip.
    """
    if encoding in ("", "identity"):
        return data
    if encoding != "gzip":
        message = f"compression {encoding[:100]!r} is not supported; want gzip or identity"
        raise CallEnded(Failure(grpc.StatusCode.UNIMPLEMENTED, message))
    if not data:
        return data
    unpacking = zlib.decompressobj(_GZIP_BITS)
    try:
        unpacked = unpacking.decompress(data, MAX_RECEIVED_BYTES + 1)
    except zlib.error:
        raise invalid("the message is not valid gzip") from None
    if len(unpacked) > MAX_RECEIVED_BYTES:
        raise too_large()
    if not unpacking.eof or unpacking.unused_data:
        raise invalid("the message is not valid gzip")
    return unpacked


def too_large() -> CallEnded:
    """Return the error of a message above MAX_RECEIVED_BYTES."""
    message = f"the message is larger than {MAX_RECEIVED_BYTES} bytes"
    return CallEnded(Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, message))


def invalid(message: str) -> CallEnded:
    """Return the error of a request that cannot be read."""
    return CallEnded(Failure(grpc.StatusCode.INVALID_ARGUMENT, message))


# Answers.


def envelope(message: bytes, flags: int = 0) -> bytes:
    """Return a message in an envelope."""
    return _PREFIX.pack(flags, len(message)) + message


def packed(message: bytes, coding: Coding) -> bytes:
    """Return a message in an envelope, compressed if that pays."""
    coding = coding_for(len(message), coding)
    return envelope(compress(message, coding), 0 if coding == "identity" else _COMPRESSED)
