"""What the gRPC services share: handlers, streams, and the statuses of errors."""

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import registry_pb2
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
    status_pb2,
)
from grpc_status import rpc_status

from apidiscovery_service.access.authenticator import Unauthenticated
from apidiscovery_service.errors import (
    DiscoveryError,
    FieldViolation,
    InvalidFields,
    told_to_callers,
)
from apidiscovery_service.history.model import (
    ContentDamaged,
    HistoryError,
    NothingRecorded,
    NotRecorded,
)
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.registrations.record import InvalidRecord, RegistrationKind
from apidiscovery_service.sources.registrations.requests import (
    Denied,
    LimitExceeded,
    NoSuchOwner,
    RevisionMismatch,
)
from apidiscovery_service.storage_versions.collection import Expired, TooLarge, Unreadable
from apidiscovery_service.storage_versions.members import NotMember, Superseded
from apidiscovery_service.store import (
    StoreDamaged,
    StoreRefused,
    StoreUnavailable,
)

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
# Generic in its stubs alone, so both are text.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
OptionalHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
# Takes a request and a Context and returns a message or its bytes, or takes a request and a Stream.
Behaviour: TypeAlias = Callable[[Any, Any], Awaitable[Any]]

STOPPING: Final = "the server is stopping"
STARTING: Final = "the server is still reading its sources"

# The domain of the reasons in ErrorInfo.
_DOMAIN = "apidiscovery"

# Clients of grpc refuse more than 8 KiB of metadata, and details are sent there in base64.
_MAX_DETAIL_BYTES = 3 * 1024
_MAX_CHARACTERS = 1024

# Time in which a stream ends whose caller reads.
_END_WITHIN_S = 0.5


class CallFailed(DiscoveryError):
    """A call ends with this status.

    Attributes:
        code: Number of a `google.rpc.Code`.
        detail: A message of google.rpc error_details.proto; None for none.
    """

    def __init__(self, code: int, message: str, detail: Message | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.detail = detail


KIND_NUMBERS: Final = {
    RegistrationKind.GROUPS: registry_pb2.REGISTRATION_KIND_GROUPS,
    RegistrationKind.CRD: registry_pb2.REGISTRATION_KIND_CUSTOM_RESOURCE_DEFINITION,
    RegistrationKind.API_SERVICE: registry_pb2.REGISTRATION_KIND_API_SERVICE,
}

# The first class that matches counts. Two errors have codes beside their class: `InvalidFields` is
# INVALID_ARGUMENT with the fields, and `CallFailed` has its own.
_CODES: tuple[tuple[type[DiscoveryError], int], ...] = (
    (Unauthenticated, code_pb2.UNAUTHENTICATED),
    (Denied, code_pb2.PERMISSION_DENIED),
    (NoSuchOwner, code_pb2.NOT_FOUND),
    (RevisionMismatch, code_pb2.ABORTED),
    (LimitExceeded, code_pb2.RESOURCE_EXHAUSTED),
    (TooLarge, code_pb2.RESOURCE_EXHAUSTED),
    (Expired, code_pb2.OUT_OF_RANGE),
    (Unreadable, code_pb2.DATA_LOSS),
    (InvalidRecord, code_pb2.FAILED_PRECONDITION),
    (NotMember, code_pb2.FAILED_PRECONDITION),
    (Superseded, code_pb2.FAILED_PRECONDITION),
    (StoreUnavailable, code_pb2.UNAVAILABLE),
    (StoreDamaged, code_pb2.DATA_LOSS),
    (StoreRefused, code_pb2.FAILED_PRECONDITION),
    (NothingRecorded, code_pb2.NOT_FOUND),
    (NotRecorded, code_pb2.OUT_OF_RANGE),
    (ContentDamaged, code_pb2.DATA_LOSS),
    (HistoryError, code_pb2.UNAVAILABLE),
)


def error_info(reason: str, **metadata: str) -> error_details_pb2.ErrorInfo:
    """Return the detail with the reason of an error, for clients."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=_DOMAIN, metadata=metadata)


def _error_info(error: DiscoveryError) -> error_details_pb2.ErrorInfo | None:
    match error:
        case RevisionMismatch():
            return error_info(
                "REVISION_MISMATCH",
                kind=registry_pb2.RegistrationKind.Name(KIND_NUMBERS[error.kind]),
                name=error.name,
                current_revision=str(error.revision),
            )
        case NoSuchOwner():
            return error_info("NO_SUCH_OWNER", owner=error.owner)
        case NotMember():
            return error_info("NOT_A_MEMBER", api_server_id=error.api_server_id)
        case Superseded():
            return error_info("SUPERSEDED", api_server_id=error.api_server_id)
        case _:
            return None


async def abort(
    context: Context, code: int, message: str, detail: Message | None = None
) -> NoReturn:
    """End a call with a status and a detail.

    Source: google.rpc error_details.proto, by grpcio-status.
    """
    rich = status_pb2.Status(code=code, message=message)
    if detail is not None:
        packed = ProtoAny()
        packed.Pack(detail)
        rich.details.append(packed)
    status = rpc_status.to_status(rich)  # pyright: ignore[reportUnknownMemberType] - google.rpc again
    context.set_trailing_metadata(status.trailing_metadata)
    await context.abort(status.code, status.details)


async def abort_exhausted(context: Context, message: str, retry_s: float) -> NoReturn:
    """End a call with RESOURCE_EXHAUSTED, and when to retry."""
    delay = Duration()
    delay.FromMilliseconds(math.ceil(retry_s * 1000))
    detail = error_details_pb2.RetryInfo(retry_delay=delay)
    await abort(context, code_pb2.RESOURCE_EXHAUSTED, message, detail)


async def _abort_for(context: Context, error: DiscoveryError) -> NoReturn:
    """End a call with the status of an error.

    Raises:
        DiscoveryError: The error, if it has none.
    """
    if isinstance(error, InvalidFields):
        await _abort_invalid(context, error.violations)
    if isinstance(error, CallFailed):
        await abort(context, error.code, str(error), error.detail)
    code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
    if code is None:
        raise error
    await abort(context, code, told_to_callers(error), _error_info(error))


async def _abort_invalid(context: Context, violations: Iterable[FieldViolation]) -> NoReturn:
    """End a call with INVALID_ARGUMENT and the fields that are wrong, as many as metadata takes."""
    texts: list[str] = []
    details = error_details_pb2.BadRequest()
    listed = list(violations)
    for violation in listed:
        shown = error_details_pb2.BadRequest.FieldViolation(
            field=_shortened(violation.field), description=_shortened(violation.message)
        )
        if details.ByteSize() + shown.ByteSize() > _MAX_DETAIL_BYTES:
            break
        details.field_violations.append(shown)
        texts.append(f"{shown.field}: {shown.description}" if shown.field else shown.description)
    message = _shortened("; ".join(texts))
    if len(listed) > len(texts):
        message += f"; and {len(listed) - len(texts)} more"
    await abort(context, code_pb2.INVALID_ARGUMENT, message, details)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."


@contextlib.contextmanager
def _counted(metrics: Metrics, method: str, context: Context) -> Generator[None]:
    """Count a call with the code that it ends with."""
    code = "OK"
    try:
        yield
    except asyncio.CancelledError:
        code = "CANCELLED"
        raise
    except BaseException:
        # Typed as a StatusCode; before abort has set it, it is a bare 0.
        code = getattr(context.code(), "name", "UNKNOWN")
        raise
    finally:
        metrics.grpc_requests.labels(method, code).inc()


class Service(ABC):
    """Base of the gRPC services.

    Args:
        descriptor: The descriptor of the service.
        metrics: Counts calls.
        ready: Whether the local sources are in the snapshot; UNAVAILABLE until then.
        disabled: Why the service is off, for UNIMPLEMENTED; empty if it is on.

    Attributes:
        descriptor: The descriptor of the service.
        name: The full name of the service.
        streams: The open streams of the service.
    """

    def __init__(
        self,
        descriptor: ServiceDescriptor,
        metrics: Metrics,
        ready: Callable[[], bool],
        disabled: str = "",
    ) -> None:
        self.descriptor = descriptor
        self.name = descriptor.full_name
        self.streams = Streams()
        self._metrics = metrics
        self._ready = ready
        self._disabled = disabled

    @abstractmethod
    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods, by name of the method."""

    def translated(self, error: DiscoveryError) -> DiscoveryError:
        """Return the error whose status ends a call, given the error of a behaviour."""
        return error

    def methods(self) -> dict[str, Handler]:
        """Return the handlers of the methods by name; they take messages and return bytes."""
        return {name: self._handler(name, each) for name, each in self.behaviours().items()}

    def _handler(self, name: str, behaviour: Behaviour) -> Handler:
        async def unary(request: Message, context: Context) -> bytes:
            async with self._answering(name, context):
                answer: Message | bytes = await behaviour(request, context)
                return answer if isinstance(answer, bytes) else answer.SerializeToString()

        async def streaming(request: Message, context: Context) -> None:
            async with self._answering(name, context), self.streams.open(context) as stream:
                await behaviour(request, stream)

        method = self.descriptor.methods_by_name[name]
        read = GetMessageClass(method.input_type).FromString
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(streaming, request_deserializer=read)
        return grpc.unary_unary_rpc_method_handler(unary, request_deserializer=read)

    @contextlib.asynccontextmanager
    async def _answering(self, method: str, context: Context) -> AsyncGenerator[None]:
        """Count a call, and end it with the status of an error."""
        with _counted(self._metrics, method, context):
            if self._disabled:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, self._disabled)
            if self.streams.stopping or not self._ready():
                message = STOPPING if self.streams.stopping else STARTING
                await context.abort(grpc.StatusCode.UNAVAILABLE, message)
            try:
                yield
            except DiscoveryError as error:
                await _abort_for(context, self.translated(error))


def number_of(message: type[Message], field: str) -> int:
    """Return the number of a field, for messages that are made of encoded parts."""
    return message.DESCRIPTOR.fields_by_name[field].number


# Streams.


class _Ended(Exception):
    """The stream must send nothing more."""


class Stream:
    """One stream, for the task that opens it.

    Attributes:
        context: The context of its call.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._task = asyncio.current_task()
        self._sending = False
        self._ended = False

    async def send(self, message: Message | bytes) -> None:
        """Send a message, encoded or not, once the caller has room for it."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        self._sending = True
        try:
            await self.context.write(data)
        except grpc.aio.InternalError as error:  # the caller has gone meanwhile
            raise _Ended from error
        self._sending = False
        # grpc can lose the cancellation of a handler that is just writing.
        if self._ended or self.context.done():
            raise _Ended

    def end(self) -> None:
        """Let the task send nothing more: at once, or after the message under way.

        Cancelling it then would lose the status: grpc sends none beside an interrupted message,
        which it goes on sending (GRPC_CALL_ERROR_TOO_MANY_OPERATIONS).
        """
        self._ended = True
        if self._task is not None and not self._sending:
            self._task.cancel()


class Streams:
    """The open streams of one service.

    Args:
        are_finite: Whether streams end by themselves, so that a server that stops lets them.
    """

    def __init__(self, *, are_finite: bool = False) -> None:
        self._are_finite = are_finite
        self._open: set[Stream] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def stopping(self) -> bool:
        """Whether `end` has been called."""
        return self._stopping

    async def end(self) -> None:
        """Take no more calls, and end streams with UNAVAILABLE: callers go on at another replica.

        Returns once they have ended, but soon, since a caller may not read the status. A second
        call only waits.
        """
        is_first, self._stopping = not self._stopping, True
        if self._are_finite:
            return
        if is_first:
            for stream in self._open:
                stream.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_WITHIN_S):
                await self._none_open.wait()

    @contextlib.asynccontextmanager
    async def open(self, context: Context) -> AsyncGenerator[Stream]:
        """Open a stream, until its body ends or is cancelled, or the server stops."""
        stream = Stream(context)
        self._open.add(stream)
        self._none_open.clear()
        # The stubs want a callback of a class that does not exist.
        context.add_done_callback(lambda _: self._call_done(stream))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        try:
            yield stream
        except (_Ended, asyncio.CancelledError):
            if not self._stopping or context.done():
                raise asyncio.CancelledError from None
            await context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        finally:
            self._open.discard(stream)
            if not self._open:
                self._none_open.set()

    def _call_done(self, stream: Stream) -> None:
        # Also called when the call has ended by itself, with nothing left to end.
        if stream in self._open:
            stream.end()
