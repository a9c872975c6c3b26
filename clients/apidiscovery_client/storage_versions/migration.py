"""Runs a migration only while all API servers agree on the storage version.

Objects that a migration rewrites stay in the new version only while no server writes another one.
The guard waits for the agreement, and cancels its body when the agreement ends or cannot be
verified.
"""

import asyncio
import time
from collections.abc import Collection
from types import TracebackType

import grpc
import grpc.aio
from apidiscovery.service.v1 import storage_version_pb2, storage_version_pb2_grpc
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client.storage_versions.agreement import (
    Agreement,
    Metadata,
    wait_for_agreement,
)

# Interval and timeout of the reads that verify the agreement, and how long the body may run without
# a successful one.
CHECK_EVERY_S = 1.0
CHECK_TIMEOUT_S = 2.0
UNVERIFIED_S = 3.0

_PAUSE_S = 0.1


class AgreementLost(DiscoveryError):
    """The agreement ended, or could not be verified, before the body ended.

    Rewritten objects may have to be rewritten again after a new agreement.

    Attributes:
        agreement: The agreement at the beginning.
        reason: Why it ended.
    """

    def __init__(self, agreement: Agreement, reason: str) -> None:
        super().__init__(f"{agreement.name}: {reason}")
        self.agreement = agreement
        self.reason = reason


class _Unanswered(Exception):
    """The service has not answered whether the agreement holds."""


class migration_guard:  # noqa: N801 - used like a function, as asyncio.timeout is
    """Waits until all servers agree, and cancels its body as soon as they no longer do.

    >>> async def migrate(channel: grpc.aio.Channel) -> None:
    ...     async with migration_guard(channel, "example.dev.widgets") as agreement:
    ...         ...  # rewrite objects last written before agreement.since

    The body is cancelled, and AgreementLost raised in place of the cancellation, when servers begin
    to differ, agree on another version, or the object is removed; and when the service cannot be
    asked for UNVERIFIED_S. When the body ends by itself the agreement is read once more: without an
    error it held all the time. A body that suppresses its cancellation only delays the end.

    Args:
        channel: A channel to a server with StorageVersionService.
        name: Name of the StorageVersion, `<group>.<resource>` with `core` for the core group.
        encoding_version: The version to agree on; empty for any.
        timeout_s: Timeout of the wait for the agreement; None for none.
        metadata: Sent with every call, such as a bearer token.

    Raises:
        NoAgreement: On entry: the timeout has passed.
        ServerUnreachable: On entry: the service does not answer.
        CallRefused: On entry: it refuses the call.
        AgreementLost: On exit: the agreement did not hold all the time.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        name: str,
        *,
        encoding_version: str = "",
        timeout_s: float | None = None,
        metadata: Metadata = (),
    ) -> None:
        self._channel = channel
        self._stub = storage_version_pb2_grpc.StorageVersionServiceStub(channel)
        self._name = name
        self._version = encoding_version
        self._timeout_s = timeout_s
        self._metadata = tuple(metadata)
        self._reason = ""
        self._cancelling = 0
        self._has_cancelled = False

    async def __aenter__(self) -> Agreement:
        body = asyncio.current_task()
        if body is None:
            raise RuntimeError("migration_guard is used within a task")
        self._body = body
        self._cancelling = body.cancelling()
        begun, left_s = time.monotonic(), self._timeout_s
        while True:
            if await self._agrees(left_s):
                self._following = asyncio.create_task(self._follow())
                return self._agreement
            await asyncio.sleep(_PAUSE_S)
            if self._timeout_s is not None:
                left_s = max(0.0, begun + self._timeout_s - time.monotonic())

    async def _agrees(self, left_s: float | None) -> bool:
        """Wait for an agreement; return whether a read of the store confirms it.

        The wait may be answered from the view of a replica that is behind.
        """
        self._agreement = await wait_for_agreement(
            self._channel,
            self._name,
            encoding_version=self._version,
            timeout_s=left_s,
            metadata=self._metadata,
        )
        self._verified_at = time.monotonic()
        try:
            found = await self._get(CHECK_TIMEOUT_S)
        except _Unanswered:
            return False
        return found is not None and self._agreement.is_same_as(Agreement.of(found))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_cancelled = await self._end(check=kind is None)
        by_others = self._is_cancelled_by_others()
        if error is not None and not isinstance(error, Exception | asyncio.CancelledError):
            return  # KeyboardInterrupt and the like go before everything else
        if is_cancelled and (by_others or not self._reason):
            raise asyncio.CancelledError  # while the guard ended
        if by_others and self._reason and kind is None:
            raise asyncio.CancelledError  # the body suppressed it together with ours
        if by_others or not self._reason:
            return
        cause = None if isinstance(error, asyncio.CancelledError) else error
        raise AgreementLost(self._agreement, self._reason) from cause

    async def _end(self, *, check: bool) -> bool:
        """Stop following; return whether the task was cancelled meanwhile."""
        is_cancelled = False
        try:
            if check and not self._reason:
                await self._verify_end()
        except asyncio.CancelledError:
            is_cancelled = True
        finally:
            self._following.cancel()
            is_cancelled |= await _settle([self._following])
        return is_cancelled

    def _is_cancelled_by_others(self) -> bool:
        """Undo our own cancellation; return whether there is another one."""
        left = self._body.uncancel() if self._has_cancelled else self._body.cancelling()
        return left > self._cancelling

    def _lose(self, reason: str) -> None:
        """Record why the agreement ended; the first reason counts."""
        self._reason = self._reason or reason

    def _interrupt(self) -> None:
        self._has_cancelled = True
        self._body.cancel()

    async def _follow(self) -> None:
        """Watch, to learn of changes at once, and read, as a watch may be silent."""
        tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._read())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self._lose("following it failed")
            self._interrupt()
        finally:
            for task in tasks:
                task.cancel()
            await _settle(tasks)

    async def _watch(self) -> None:
        """Return when a change of the object ends the agreement."""
        request = storage_version_pb2.WatchStorageVersionsRequest(
            names=[self._name], resource_version=self._agreement.resource_version
        )
        while not self._reason:
            call = self._stub.WatchStorageVersions(request, metadata=self._metadata)
            try:
                async for event in call:
                    self._handle(event)
                    if self._reason:
                        return
            except grpc.aio.AioRpcError:  # `_read` decides whether that lasts too long
                # The status of a connection that breaks may come in place of a cancellation.
                if _is_being_cancelled(self._body, self._cancelling):
                    raise asyncio.CancelledError from None
            finally:
                call.cancel()
            # The next watch begins with the current object.
            request = storage_version_pb2.WatchStorageVersionsRequest(names=[self._name])
            await asyncio.sleep(_PAUSE_S)

    def _handle(self, event: storage_version_pb2.WatchStorageVersionsResponse) -> None:
        if event.type == storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_DELETED:
            self._lose("the object was removed")
        elif event.HasField("storage_version"):
            self._compare(Agreement.of(event.storage_version))

    def _compare(self, found: Agreement | None) -> None:
        if self._agreement.is_same_as(found):
            return
        if found is None:
            self._lose(f"the servers no longer agree on {self._agreement.encoding_version}")
        elif found.encoding_version != self._agreement.encoding_version:
            self._lose(f"the servers now agree on {found.encoding_version}")
        else:
            self._lose("the servers disagreed for a while")

    async def _read(self) -> None:
        """Return when a read ends the agreement, or when none has succeeded for too long."""
        while not self._reason:
            left_s = self._verified_at + UNVERIFIED_S - time.monotonic()
            await asyncio.sleep(max(0.0, min(CHECK_EVERY_S, left_s)))
            await self._check()

    async def _check(self) -> None:
        """Read the agreement once, and record whether it holds."""
        asked = time.monotonic()
        timeout_s = max(_PAUSE_S, min(CHECK_TIMEOUT_S, self._verified_at + UNVERIFIED_S - asked))
        try:
            found = await self._get(timeout_s)
        except _Unanswered as error:
            if time.monotonic() - self._verified_at >= UNVERIFIED_S:
                self._lose(f"cannot be verified: {error}")
            return
        if found is None:
            self._lose("the object was removed")
            return
        self._compare(Agreement.of(found))
        self._verified_at = max(self._verified_at, asked)

    async def _get(self, timeout_s: float) -> storageversion_pb2.StorageVersion | None:
        """Return the object, None if there is none."""
        request = storage_version_pb2.GetStorageVersionRequest(name=self._name)
        try:
            answer = await self._stub.GetStorageVersion(
                request, timeout=timeout_s, metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise _Unanswered(error.details() or error.code().name) from error
        except grpc.aio.UsageError as error:
            raise _Unanswered(str(error)) from error
        except asyncio.CancelledError:
            if _is_being_cancelled(self._body, self._cancelling):
                raise
            raise _Unanswered("the channel was closed") from None
        return answer.storage_version

    async def _verify_end(self) -> None:
        """Read until the store has answered, or has not answered for too long."""
        ended = time.monotonic()
        while True:
            await self._check()
            if self._reason or self._verified_at >= ended:
                return
            await asyncio.sleep(_PAUSE_S)


def _is_being_cancelled(body: "asyncio.Task[object]", before: int) -> bool:
    """Tell whether the current task is cancelled; grpc also raises for a closed channel.

    Args:
        body: The task of the body.
        before: How often it had been cancelled when it entered the guard.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > (before if task is body else 0)


async def _settle(tasks: Collection["asyncio.Task[None]"]) -> bool:
    """Wait until tasks have ended; return whether the waiting task was cancelled meanwhile."""
    is_cancelled = False
    while True:
        # Also if they have ended already: a cancellation may be pending.
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            is_cancelled = True
        else:
            return is_cancelled
