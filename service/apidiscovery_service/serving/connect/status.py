"""Statuses of calls, as Connect and gRPC-Web write them."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import grpc
from apidiscovery_formats.grpc_codes import HTTP_STATUSES
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
    status_pb2,
)

# gRPC-Web, and gRPC's PROTOCOL-HTTP2.md: characters that need no percent-encoding.
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

_DETAILS = "grpc-status-details-bin"
_TYPE_PREFIX = "type.googleapis.com/"
# A generated module registers its messages, so that details can be shown as JSON.
_ = error_details_pb2


@dataclass(frozen=True, slots=True)
class Failure:
    """The status of a call that failed.

    Attributes:
        code: The code.
        message: The text for the caller.
        details: Messages of google.rpc error_details.proto.
    """

    code: grpc.StatusCode
    message: str
    details: Sequence[ProtoAny] = ()

    @property
    def http_status(self) -> int:
        """The HTTP status of a unary call of Connect."""
        return HTTP_STATUSES[self.code.name]


class CallEnded(Exception):
    """A call ends with this status."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def details_of(trailing: Sequence[tuple[str, str | bytes]]) -> Sequence[ProtoAny]:
    """Return the details in the trailing metadata of a call, as grpcio-status writes them."""
    for name, value in trailing:
        if name == _DETAILS and isinstance(value, bytes):
            return list(status_pb2.Status.FromString(value).details)
    return ()


def connect_error(failure: Failure) -> dict[str, object]:
    """Return a failure as the JSON object of Connect.

    `debug` shows a detail as JSON, for people.
    """
    name = "canceled" if failure.code is grpc.StatusCode.CANCELLED else failure.code.name.lower()
    error: dict[str, object] = {"code": name, "message": failure.message}
    if failure.details:
        error["details"] = [_connect_detail(detail) for detail in failure.details]
    return error


def _connect_detail(detail: ProtoAny) -> dict[str, object]:
    value = base64.b64encode(detail.value).decode().rstrip("=")
    shown: dict[str, object] = {"type": detail.type_url.removeprefix(_TYPE_PREFIX), "value": value}
    try:
        debug = MessageToDict(detail)
    except (TypeError, DecodeError):  # a type that this process does not know
        return shown
    debug.pop("@type", None)
    return {**shown, "debug": debug}


def connect_error_json(failure: Failure) -> bytes:
    """Return a failure as the body of a unary answer of Connect."""
    return _json(connect_error(failure))


def end_of_stream(failure: Failure | None) -> bytes:
    """Return the last message of a stream of Connect."""
    return _json({} if failure is None else {"error": connect_error(failure)})


def grpc_trailers(failure: Failure | None) -> bytes:
    """Return the last message of an answer of gRPC-Web: trailers as an HTTP/1.1 header block."""
    if failure is None:
        return b"grpc-status: 0\r\n"
    number: int = failure.code.value[0]
    lines = [f"grpc-status: {number}", f"grpc-message: {quote(failure.message, safe=_PLAIN)}"]
    if failure.details:
        status = status_pb2.Status(code=number, message=failure.message, details=failure.details)
        value = base64.b64encode(status.SerializeToString()).decode().rstrip("=")
        lines.append(f"{_DETAILS}: {value}")
    return "".join(f"{line}\r\n" for line in lines).encode()


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
