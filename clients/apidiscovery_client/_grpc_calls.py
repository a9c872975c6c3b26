"""Calls services over gRPC, one call at a time, and words what goes wrong."""

import contextlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - stubs lie in it, unmarked
    error_details_pb2,
    status_pb2,
)

from apidiscovery_client._errors import DiscoveryError, ServerUnreachable

MAX_ANSWER_BYTES = 64 << 20  # what our server sends at most
RETRY_WAITS_S = (0.1, 0.2, 0.4, 0.8)
MAX_RETRY_AFTER_S = 5  # a server that asks for more is better told of than waited for

_STATUS_DETAILS = "grpc-status-details-bin"
_PREFIX = re.compile(
    r"failed to connect to all addresses; last error: (?:[A-Z_]+: )?(?:(?:ipv[46]|unix):\S+: )?"
)
# How the texts begin that grpc itself, and no server, gives to UNAVAILABLE.
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

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcServer:
    """A gRPC server and how to reach it.

    Attributes:
        address: `host:port`.
        is_local: Whether the host is this machine; it is then never asked through a proxy.
        credentials: None for plain text.
        tls_server_name: Expected in the certificate instead of the host.
        token: Sent as a bearer token with every call.
        request_timeout_s: For each call with its repetitions; None waits forever.
    """

    address: str
    is_local: bool
    credentials: grpc.ChannelCredentials | None = None
    tls_server_name: str | None = None
    token: str | None = field(default=None, repr=False)
    request_timeout_s: float | None = None


class FieldProblem(NamedTuple):
    """A field of a request that the server does not take, as google.rpc.BadRequest has it."""

    field: str
    description: str


class CallRefused(DiscoveryError):
    """The server answered a call with an error.

    Attributes:
        code: Whose status it is.
        message: What the server said.
        problems: The fields that are wrong; empty when it is not about fields.
        retry_after_s: When the server would take the call; None when it does not say so.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        problems: Sequence[FieldProblem] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.problems = tuple(problems)
        self.retry_after_s = retry_after_s


class GrpcClient:
    """One connection to a server, opened with the first call.

    Every method of the clients of single services raises `ServerUnreachable` when no answer came,
    and `CallRefused` when it was an error.
    """

    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self._channel = _channel(server)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._channel.close()

    @property
    def request_timeout_s(self) -> float | None:
        """How long a call may take with its repetitions; None waits forever."""
        return self._server.request_timeout_s

    def _call(
        self,
        name: str,
        method: "grpc.UnaryUnaryMultiCallable[RequestT, AnswerT]",  # not generic when run
        request: RequestT,
        timeout_s: float | None = None,
    ) -> tuple[AnswerT, bool]:
        """Return the answer, and whether an earlier attempt may have done something already.

        A call that ends UNAVAILABLE is made again a few times: the services say that this is safe.

        Args:
            name: Of the method.
            method: The method.
            request: What to send.
            timeout_s: For how long to wait, if that is less than for any request.
        """
        limits = (timeout_s, self._server.request_timeout_s)
        allowed_s = min((limit for limit in limits if limit is not None), default=None)
        end = None if allowed_s is None else time.monotonic() + allowed_s
        metadata = self._metadata
        repeated = False
        for attempt in range(len(RETRY_WAITS_S) + 1):
            left_s = None if end is None else max(0.0, end - time.monotonic())
            try:
                return method(request, timeout=left_s, metadata=metadata), repeated
            except grpc.RpcError as error:
                wait_s = _wait_s(error, attempt)
                if wait_s is None or (left_s is not None and wait_s >= left_s):
                    raise self._error(name, error, allowed_s) from None
                repeated |= error.code() == grpc.StatusCode.UNAVAILABLE
            time.sleep(wait_s)
        raise AssertionError  # the last attempt has no wait

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        token = self._server.token
        return (("authorization", f"Bearer {token}"),) if token else ()

    def _error(
        self, name: str, error: grpc.RpcError, allowed_s: float | None = None
    ) -> DiscoveryError:
        code, said = error.code(), error.details() or ""
        address = self._server.address
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServerUnreachable(
                f"{name} {address}: no answer within {allowed_s or 0:g} s", url=address
            )
        if code == grpc.StatusCode.UNAVAILABLE and said.startswith(_BROKEN_CONNECTION):
            return ServerUnreachable(_why(name, address, said), url=address)
        return _refusal(error)


def _channel(server: GrpcServer) -> grpc.Channel:
    options = [
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.primary_user_agent", f"apidiscovery/{version('apidiscovery')}"),
        # No longer than we wait: an attempt within grpc's own wait of a second would be in vain.
        ("grpc.initial_reconnect_backoff_ms", 50),
        # Under this name grpc keeps the time that one attempt to connect may take.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 500),
        # Who listens for hours would not notice that the other machine is gone. A server of ours
        # allows three times as many of these.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.enable_http_proxy", 0 if server.is_local else 1),
        # One process makes few calls; a channel of an earlier one in this process is not reused.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if server.credentials is None:
        return grpc.insecure_channel(server.address, options)
    if server.tls_server_name:
        options.append(("grpc.ssl_target_name_override", server.tls_server_name))
    return grpc.secure_channel(server.address, server.credentials, options)


def _wait_s(error: grpc.RpcError, attempt: int) -> float | None:
    """Return how long to wait before another attempt, None when there is to be none."""
    if attempt == len(RETRY_WAITS_S):
        return None
    if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
        wait_s = _refusal(error).retry_after_s
        return wait_s if wait_s is not None and wait_s <= MAX_RETRY_AFTER_S else None
    said = error.details() or ""
    # Certificates do not change between attempts.
    is_hopeless = "handshake failed" in said or "verification check failed" in said
    if error.code() != grpc.StatusCode.UNAVAILABLE or is_hopeless:
        return None
    return RETRY_WAITS_S[attempt]


def _why(name: str, address: str, said: str) -> str:
    """Return why there was no answer, in the words of the other commands where they have some."""
    reason = _PREFIX.sub("", said)
    if reason.endswith("Connection refused"):
        return (
            f"the connection to the server {address} was refused"
            " - did you specify the right host or port?"
        )
    if found := re.search(r"CERTIFICATE_VERIFY_FAILED(?:: (.*?))?(?:: OK)?$", reason):
        detail = found[1] or "it cannot be verified"
        return f"{name} {address}: the server's certificate is not trusted: {detail}"
    if "Hostname Verification Check failed" in reason:
        return (
            f"{name} {address}: the server's certificate is not trusted: it is for another name"
            " than that of the server"
        )
    if found := re.search(r"handshake failed.*OPENSSL_internal:(\w+)", reason):
        return f"{name} {address}: TLS failed: {found[1]}"
    return f"{name} {address}: {reason}"


def _refusal(error: grpc.RpcError) -> CallRefused:
    """Return an error with what google.rpc.Status tells beside code and message, if it does."""
    problems: list[FieldProblem] = []
    retry_after_s: float | None = None
    bad_request, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    for detail in _rich_status(error).details:
        if detail.Unpack(bad_request):
            problems += [FieldProblem(v.field, v.description) for v in bad_request.field_violations]
        elif detail.Unpack(retry):
            retry_after_s = max(0.0, retry.retry_delay.ToNanoseconds() / 1e9)
    return CallRefused(error.code(), error.details() or "", problems, retry_after_s)


def _rich_status(error: grpc.RpcError) -> status_pb2.Status:
    """Return the status that is sent beside gRPC's own; an empty one when there is none.

    Source: googleapis google/rpc/status.proto, under the key of grpcio-status.
    """
    for entry in error.trailing_metadata():
        if entry.key == _STATUS_DETAILS:
            with contextlib.suppress(DecodeError):
                return status_pb2.Status.FromString(entry.value)
    return status_pb2.Status()
