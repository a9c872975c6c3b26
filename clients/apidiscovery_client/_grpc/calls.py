"""Calls services over gRPC, one call at a time, with the credentials of a kubeconfig or others."""

import asyncio
import contextlib
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import grpc
import grpc.aio
from apidiscovery_kubeconfig.addresses import is_loopback
from apidiscovery_kubeconfig.connection import Connection
from apidiscovery_kubeconfig.tls import Tls
from google.protobuf.message import Message

from apidiscovery_client._errors import DiscoveryError, InvalidConfiguration
from apidiscovery_client._grpc.errors import (
    CallFailedError,
    CallRefused,
    Failure,
    FieldProblem,
    discovery_error,
    failure,
    plain_failure,
    refusal,
)
from apidiscovery_client._kube_access import KubeAccess, translated
from apidiscovery_client._package import VERSION
from apidiscovery_client._server import Access

if TYPE_CHECKING:  # only whoever makes a context needs it
    import ssl


__all__ = ["CallRefused", "FieldProblem", "GrpcClient", "GrpcServer"]

MAX_ANSWER_BYTES = 64 << 20  # what our server sends at most
RETRY_WAITS_S = (0.1, 0.2, 0.4, 0.8)
MAX_RETRY_AFTER_S = 5  # a longer wait is reported as an error instead
# How long an attempt to connect may take, with TLS and the HTTP/2 preface: a machine that is gone,
# or a proxy without a server, does not answer, and one that is back is found by the next attempt.
CONNECT_S = 3.0
CONNECT_LOCALLY_S = 2.0
# Without keepalive a watch would not notice that the other machine is gone. Our server allows three
# times as many pings.
KEEPALIVE_TIME_S = 30
KEEPALIVE_TIMEOUT_S = 20

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)


@contextlib.contextmanager
def aio_failing() -> Generator[None]:
    """Raise `CallFailedError` for what calls of grpc.aio raise; let cancellation through."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        if _is_cancelled():
            raise asyncio.CancelledError from None
        raise CallFailedError(failure(error)) from None
    except grpc.aio.UsageError as error:  # the channel is closed
        raise CallFailedError(_closed(grpc.StatusCode.UNAVAILABLE, str(error))) from None
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        closed = _closed(grpc.StatusCode.CANCELLED, "the channel was closed")
        raise CallFailedError(closed) from None


def _closed(code: grpc.StatusCode, said: str) -> Failure:
    return plain_failure(code, said, is_broken=True)


def _is_cancelled() -> bool:
    """Return whether the current task is cancelled.

    The error of a call does not tell: grpc.aio raises CancelledError also for a closed channel,
    and, when a connection breaks just as a task is cancelled, the status alone.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def is_local(address: str) -> bool:
    """Return whether `host:port` is on this machine."""
    return is_loopback(address.rpartition(":")[0].strip("[]"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcServer:
    """A gRPC server and how to reach it.

    Attributes:
        address: `host:port`.
        credentials: For grpcio; None for plain text.
        context: For grpclib; None for plain text. Its ALPN protocols are set to that of HTTP/2.
        tls_server_name: Expected in the certificate instead of the host.
        token: Sent as a bearer token with every call.
        access: Its headers are sent with every call, in addition to the token or instead of it;
            for credentials that change.
        request_timeout_s: For each call with its retries; None for no timeout.
    """

    address: str
    credentials: grpc.ChannelCredentials | None = None
    context: "ssl.SSLContext | None" = field(default=None, repr=False)
    tls_server_name: str | None = None
    token: str | None = field(default=None, repr=False)
    access: Access | None = None
    request_timeout_s: float | None = None

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine; no proxy is used then."""
        return is_local(self.address)

    @property
    def connect_s(self) -> float:
        """How long an attempt to connect may take."""
        return CONNECT_LOCALLY_S if self.is_local else CONNECT_S

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of each call; it may block where `access` does.

        Raises:
            InvalidConfiguration: `access` has no credentials, or some that gRPC cannot send.
        """
        given = self.access.headers() if self.access else ()
        names = {name.lower() for name, _ in given}
        own = (("authorization", f"Bearer {self.token}"),) if self.token else ()
        sent = tuple((name.lower(), value) for name, value in given)
        for name, value in sent:
            if not (value.isascii() and value.isprintable()):
                raise InvalidConfiguration(
                    f"{name} for {self.address} has characters that gRPC does not send:"
                    " only printable ASCII"
                )
        return sent if "authorization" in names else own + sent


class GrpcClient:
    """One connection to a server, opened with the first call.

    Every method of the clients of single services raises `ServerUnreachable` when no answer came,
    and `CallRefused` when it was an error.
    """

    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self._channel = open_channel(server)

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
        """The timeout of a call with its retries; None for no timeout."""
        return self._server.request_timeout_s

    def _call(
        self,
        name: str,
        method: "grpc.UnaryUnaryMultiCallable[RequestT, AnswerT]",  # not generic when run
        request: RequestT,
        timeout_s: float | None = None,
    ) -> tuple[AnswerT, bool]:
        """Return the answer, and whether an earlier attempt may have had an effect already.

        A call that ends UNAVAILABLE is retried a few times: the services define that as safe.
        """
        attempts = Attempts(name, self._server, timeout_s)
        metadata = self._metadata
        repeated = False
        while True:
            try:
                return method(request, timeout=attempts.left_s, metadata=metadata), repeated
            except grpc.RpcError as error:
                failed = failure(error)
            wait_s = attempts.wait_s(failed)
            repeated |= failed.code == grpc.StatusCode.UNAVAILABLE
            time.sleep(wait_s)

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return self._server.metadata()

    def _error(self, name: str, error: grpc.RpcError) -> DiscoveryError:
        return discovery_error(name, self._server.address, failure(error))


class Attempts:
    """The retries of one call: the time left, and whether to try again."""

    def __init__(self, name: str, server: GrpcServer, timeout_s: float | None = None) -> None:
        self._name = name
        self._address = server.address
        limits = (timeout_s, server.request_timeout_s)
        self._allowed_s = min((limit for limit in limits if limit is not None), default=None)
        self._end = None if self._allowed_s is None else time.monotonic() + self._allowed_s
        self._made = 0
        self._refusal: Failure | None = None

    @property
    def left_s(self) -> float | None:
        """The timeout of the next attempt; None for no timeout."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def wait_s(self, failed: Failure) -> float:
        """Return the pause in seconds before the next attempt; raise when there is none.

        Raises:
            ServerUnreachable: No answer came.
            CallRefused: The answer was an error.
        """
        wait_s, left_s = retry_wait_s(failed, self._made), self.left_s
        if wait_s is None or (left_s is not None and wait_s >= left_s):
            raise discovery_error(self._name, self._address, failed, self._allowed_s, self._refusal)
        self._made += 1
        if not failed.is_broken:
            self._refusal = failed
        return wait_s


def channel_options(server: GrpcServer) -> Sequence[tuple[str, int | str]]:
    """Return the options of a channel of grpcio, sync or async."""
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.primary_user_agent", f"apidiscovery/{VERSION}"),
        # Below our own pauses: an attempt within grpc's pause of a second would fail at once.
        ("grpc.initial_reconnect_backoff_ms", 50),
        # This is also grpc's timeout of one attempt to connect.
        ("grpc.min_reconnect_backoff_ms", round(server.connect_s * 1000)),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.keepalive_time_ms", KEEPALIVE_TIME_S * 1000),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1000),
        ("grpc.enable_http_proxy", 0 if server.is_local else 1),
        # A channel of an earlier client in this process is not reused.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if server.credentials is not None and server.tls_server_name:
        options.append(("grpc.ssl_target_name_override", server.tls_server_name))
    return options


def require_grpcio_credentials(server: GrpcServer) -> None:
    """Raise `InvalidConfiguration` for TLS settings that only grpclib can use.

    Without them the connection would be in plain text, the token too.
    """
    if server.context is not None and server.credentials is None:
        raise InvalidConfiguration(
            f"{server.address}: grpcio cannot use an SSLContext: give the server's credentials, too"
        )


def open_channel(server: GrpcServer) -> grpc.Channel:
    """Return a channel, which connects with the first call.

    Raises:
        InvalidConfiguration: The TLS settings are for grpclib alone.
    """
    require_grpcio_credentials(server)
    options = channel_options(server)
    if server.credentials is None:
        return grpc.insecure_channel(server.address, options)
    return grpc.secure_channel(server.address, server.credentials, options)


def retry_wait_s(failed: Failure, attempt: int) -> float | None:
    """Return the pause in seconds before another attempt, None for no other attempt.

    Args:
        failed: How the last one ended.
        attempt: How many were made before that.
    """
    if attempt >= len(RETRY_WAITS_S):
        return None
    if failed.code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        wait_s = refusal(failed).retry_after_s
        return wait_s if wait_s is not None and wait_s <= MAX_RETRY_AFTER_S else None
    if failed.code != grpc.StatusCode.UNAVAILABLE or failed.is_hopeless:
        return None
    return RETRY_WAITS_S[attempt]


def grpc_server(
    address: str,
    found: Connection,
    timeout_s: float | None,
    *,
    for_grpclib: bool,
) -> GrpcServer:
    """Return a server to which we are who `found` says, with TLS if its URL is https.

    Certificates are those of now: a connection of gRPC is not made anew when a file changes.

    Raises:
        InvalidConfiguration: A file cannot be used.
    """
    has_tls = found.url.startswith("https:")
    with translated():
        credentials = _credentials(found.tls) if has_tls and not for_grpclib else None
        context = _context(found.tls) if has_tls and for_grpclib else None
    return GrpcServer(
        address=address,
        credentials=credentials,
        context=context,
        tls_server_name=found.tls.server_name or None,
        access=KubeAccess(found),
        request_timeout_s=timeout_s or None,
    )


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    pair = tls.own_certificate()
    return grpc.ssl_channel_credentials(
        root_certificates=tls.ca.read() if tls.ca else None,
        private_key=pair.key if pair else None,
        certificate_chain=pair.certificate if pair else None,
    )


def _context(tls: Tls) -> "ssl.SSLContext":
    from apidiscovery_kubeconfig.ssl_contexts import make_context  # noqa: PLC0415 - it imports ssl

    return make_context(tls, None, shared=False)
