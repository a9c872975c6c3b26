"""How calls end that fail: a status with details, as google.rpc has them."""

import asyncio
import contextlib
from collections.abc import Generator, Iterable
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
    status_pb2,
)
from grpc_status import rpc_status

from apidiscovery_service.access.authenticator import Unauthenticated
from apidiscovery_service.errors import DiscoveryError, FieldViolation
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.store import (
    StoreDamaged,
    StoreRefused,
    StoreUnavailable,
    told_to_callers,
)

# Who gives the reasons of ErrorInfo their meaning.
DOMAIN = "apidiscovery"

# Metadata of a whole answer beyond 8 KiB is refused by clients of grpc, and details are written in
# base64.
_MAX_DETAIL_BYTES = 3 * 1024
_MAX_CHARACTERS = 1024

Codes: TypeAlias = tuple[tuple[type[DiscoveryError], int], ...]

# What calls of every service end with.
_CODES: Codes = (
    (Unauthenticated, code_pb2.UNAUTHENTICATED),
    (StoreUnavailable, code_pb2.UNAVAILABLE),
    (StoreDamaged, code_pb2.DATA_LOSS),
    (StoreRefused, code_pb2.FAILED_PRECONDITION),
)


async def abort(
    context: grpc.aio.ServicerContext[Any, Any], code: int, message: str, *details: Message
) -> NoReturn:
    """End a call with a rich status.

    Source: google.rpc error_details.proto, by grpcio-status.
    """
    rich = status_pb2.Status(code=code, message=message)
    for detail in details:
        packed = ProtoAny()
        packed.Pack(detail)
        rich.details.append(packed)
    status = rpc_status.to_status(rich)  # pyright: ignore[reportUnknownMemberType] - google.rpc again
    context.set_trailing_metadata(status.trailing_metadata)
    await context.abort(status.code, status.details)


async def abort_for(
    context: grpc.aio.ServicerContext[Any, Any], error: DiscoveryError, codes: Codes
) -> NoReturn:
    """End a call with the code of an error that has no more to tell than its text.

    Args:
        context: Of the call.
        error: Why it fails.
        codes: Of the service's own errors; the first class that fits counts.

    Raises:
        DiscoveryError: The error, if it has no code.
    """
    code = next((code for kind, code in (*codes, *_CODES) if isinstance(error, kind)), None)
    if code is None:
        raise error
    await abort(context, code, told_to_callers(error))


async def abort_invalid(
    context: grpc.aio.ServicerContext[Any, Any], violations: Iterable[FieldViolation]
) -> NoReturn:
    """End a call with INVALID_ARGUMENT and the fields that are wrong.

    Of very many only the first are told: they travel as metadata, which clients take little of.
    """
    texts: list[str] = []
    details = error_details_pb2.BadRequest()
    listed = list(violations)
    for violation in listed:
        told = error_details_pb2.BadRequest.FieldViolation(
            field=_shortened(violation.field), description=_shortened(violation.message)
        )
        if details.ByteSize() + told.ByteSize() > _MAX_DETAIL_BYTES:
            break
        details.field_violations.append(told)
        texts.append(f"{told.field}: {told.description}" if told.field else told.description)
    message = _shortened("; ".join(texts))
    if len(listed) > len(texts):
        message += f"; and {len(listed) - len(texts)} more"
    await abort(context, code_pb2.INVALID_ARGUMENT, message, details)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."


@contextlib.contextmanager
def counted(
    metrics: Metrics, method: str, context: grpc.aio.ServicerContext[Any, Any]
) -> Generator[None]:
    """Count a call with the code with which it ends."""
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
