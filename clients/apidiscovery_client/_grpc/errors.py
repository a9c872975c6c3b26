"""Errors of calls over gRPC, for all stubs."""

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import grpc
from apidiscovery_formats.grpc_codes import HTTP_STATUSES
from google.protobuf.message import DecodeError
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - stubs lie in it, unmarked
    error_details_pb2,
    status_pb2,
)

from apidiscovery_client._errors import DiscoveryError, RequestRefused, ServerUnreachable

_STATUS_DETAILS = "grpc-status-details-bin"
_PREFIX = re.compile(
    r"failed to connect to all addresses; last error: (?:[A-Z_]+: )?(?:(?:ipv[46]|unix):\S+: )?"
)
# Prefixes of texts with UNAVAILABLE that are from grpc itself and not from a server.
_BROKEN_CONNECTION = (
    "failed to connect",
    "errors resolving",
    "DNS resolution failed",
    "Socket closed",
    "Connection reset",
    "Connection closed",
    "Broken pipe",
    "recvmsg",
    "sendmsg",
    "Stream removed",
    "Transport closed",
    "Endpoint closing",
    "GOAWAY",
    "Received http2 header",
)

_NO_GRPC = ("Failed parsing HTTP/2", "Received http2 header")
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A field of a request that the server refuses, from google.rpc.BadRequest."""

    field: str
    description: str


class CallRefused(RequestRefused):
    """The server answered a call over gRPC with an error.

    Attributes:
        code: The status code.
        problems: Invalid fields, or preconditions that do not hold; empty for other errors.
        retry_after_s: When to retry; None when the server does not say.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        problems: Sequence[FieldProblem] = (),
        retry_after_s: float | None = None,
        *,
        url: str = "",
    ) -> None:
        text = message or code.name
        super().__init__(message, url=url, status=HTTP_STATUSES[code.name], text=text)
        self.code = code
        self.problems = tuple(problems)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Failure:
    """How a call failed.

    Attributes:
        code: The status.
        said: Its text, of the server or of the library.
        details: The google.rpc.Status; empty when it was not sent.
        is_broken: Whether the connection failed, and not the server refused.
    """

    code: grpc.StatusCode
    said: str
    details: status_pb2.Status
    is_broken: bool

    @property
    def is_hopeless(self) -> bool:
        """Whether it is about certificates, so that a retry is useless."""
        return "handshake failed" in self.said or "verification check failed" in self.said

    @property
    def is_too_large(self) -> bool:
        """Whether a message was larger than the client accepts, so that a retry is useless."""
        return self.code == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in self.said


class CallFailedError(Exception):
    """A call failed.

    Attributes:
        failed: The failure.
    """

    def __init__(self, failed: Failure) -> None:
        super().__init__(failed.said)
        self.failed = failed


def failure(error: grpc.RpcError) -> Failure:
    """Return the failure of a call of grpcio, sync or async."""
    code, said = error.code(), error.details() or ""
    is_broken = code == grpc.StatusCode.UNAVAILABLE and said.startswith(_BROKEN_CONNECTION)
    return Failure(code, said, _rich_status(error), is_broken)


def plain_failure(code: grpc.StatusCode, said: str, *, is_broken: bool = False) -> Failure:
    """Return a failure without details."""
    return Failure(code, said, status_pb2.Status(), is_broken)


def rich_failure(code: grpc.StatusCode, said: str, details: bytes) -> Failure:
    """Return a failure from a server, with its encoded details."""
    return Failure(code, said, _decoded(details), is_broken=False)


def discovery_error(
    name: str,
    address: str,
    failed: Failure,
    allowed_s: float | None = None,
    before: Failure | None = None,
) -> DiscoveryError:
    """Return the error to raise.

    Args:
        name: Of the method.
        address: Of the server; empty when only its channel is known.
        failed: The failure.
        allowed_s: The timeout of the call.
        before: The refusal of an earlier attempt within that time, if there was one.
    """
    call = f"{name} {address}".rstrip()
    if failed.code == grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"{call}: no answer"
        if allowed_s is not None:
            text += f" within {allowed_s:g} s"
        if before is not None:
            text += f"; before, {before.code.name}: {' '.join(before.said.split())}"
        return ServerUnreachable(text, url=address)
    # grpc derives the status from that of HTTP: gRPC's doc/http-grpc-status-mapping.md.
    if failed.is_broken or failed.said.startswith(_NO_GRPC):
        return ServerUnreachable(_why(call, address, failed.said), url=address)
    return refusal(failed, address)


def refusal(failed: Failure, address: str = "") -> CallRefused:
    """Return an error with the details of google.rpc.Status, if there are any."""
    problems: list[FieldProblem] = []
    retry_after_s: float | None = None
    bad_request, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    precondition = error_details_pb2.PreconditionFailure()
    for detail in failed.details.details:
        if detail.Unpack(bad_request):
            problems += [FieldProblem(v.field, v.description) for v in bad_request.field_violations]
        elif detail.Unpack(precondition):
            problems += [FieldProblem(v.subject, v.description) for v in precondition.violations]
        elif detail.Unpack(retry):
            retry_after_s = max(0.0, retry.retry_delay.ToNanoseconds() / 1e9)
    return CallRefused(failed.code, failed.said, problems, retry_after_s, url=address)


def _rich_status(error: grpc.RpcError) -> status_pb2.Status:
    """Return the google.rpc.Status, an empty one when it was not sent.

    Source: googleapis google/rpc/status.proto, under the key of grpcio-status.
    """
    # Sync and async they have different classes, which are pairs both.
    trailers = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in trailers:
        if key == _STATUS_DETAILS and isinstance(value, bytes):
            return _decoded(value)
    return status_pb2.Status()


def _decoded(details: bytes) -> status_pb2.Status:
    with contextlib.suppress(DecodeError):
        return status_pb2.Status.FromString(details)
    return status_pb2.Status()


def _why(call: str, address: str, said: str) -> str:
    """Return why there was no answer, in the same words as over HTTP."""
    reason = _PREFIX.sub("", said)
    if reason.endswith("Connection refused"):
        server = f"the server {address}".rstrip()
        return f"the connection to {server} was refused - did you specify the right host or port?"
    if found := re.search(r"CERTIFICATE_VERIFY_FAILED(?:: (.*?))?(?:: OK)?$", reason):
        detail = found[1] or "it cannot be verified"
        return f"{call}: the server's certificate is not trusted: {detail}"
    if "Hostname Verification Check failed" in reason:
        return (
            f"{call}: the server's certificate is not trusted: it is for another name"
            " than that of the server"
        )
    if address and "Domain name not found" in reason:
        return f"{call}: name not known: {address.rpartition(':')[0]}"
    return f"{call}: {_of_wrong_port(reason) or reason}"


def _of_wrong_port(reason: str) -> str:
    """Return what a failure says of a port for another protocol; empty if unknown."""
    if reason.startswith(_NO_GRPC):
        return "the port speaks HTTP but no gRPC; that for gRPC is another, by default 50051"
    if reason == "Socket closed":
        return f"{reason}, as by a port for TLS where none is spoken"
    if found := re.search(r"handshake failed.*OPENSSL_internal:(\w+)", reason):
        is_plain = found[1] in _NO_TLS
        hint = "the port does not speak TLS; if it is the right one, use --plaintext"
        return hint if is_plain else f"TLS failed: {found[1]}"
    return ""
