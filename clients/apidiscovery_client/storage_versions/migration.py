"""Runs a migration only while all API servers agree on the storage version.

What a migration rewrites is in the new version only as long as no server writes another one. The
guard waits for the agreement, and interrupts whatever it guards as soon as it is over, or can no
longer be proved to stand.
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

# How often the agreement is read again, how long one answer may take, and for how long it may
# stand without having been read.
CHECK_EVERY_S = 1.0
CHECK_TIMEOUT_S = 2.0
UNPROVED_S = 3.0

_PAUSE_S = 0.1


class AgreementLost(DiscoveryError):
    """The agreement did not hold, or could not be proved to hold, until the end.

    What has been rewritten may have to be rewritten again, after a new agreement.

    Attributes:
        agreement: The one of the beginning.
        reason: What became of it.
    """

    def __init__(self, agreement: Agreement, reason: str) -> None:
        super().__init__(f"{agreement.name}: {reason}")
        self.agreement = agreement
        self.reason = reason


class _Unanswered(Exception):
    """The service has not said whether the agreement stands."""


class migration_guard:  # noqa: N801 - used like a function, as asyncio.timeout is
    """Waits until all servers agree, and cancels its body the moment they no longer do.

    >>> async def migrate(channel: grpc.aio.Channel) -> None:
    ...     async with migration_guard(channel, "example.dev.widgets") as agreement:
    ...         ...  # rewrite what was last written before agreement.since

    The body is cancelled, and AgreementLost raised in place of the cancellation, when servers begin
    to differ, agree on another version, or the object goes; and when for UNPROVED_S nobody could
    be asked. When the body ends by itself the agreement is read once more: without an error,
    nothing came between. A body that suppresses its cancellation delays the end, no more.

    Args:
        channel: To a server with StorageVersionService.
        name: Of the StorageVersion, `<group>.<resource>` with `core` for the core group.
        encoding_version: The version to agree on; empty for any.
        timeout_s: For how long to wait for the agreement; None without end.
        metadata: Sent with every call, such as a bearer token.

    Raises:
        NoAgreement: On entry: there was none in time, or the server cannot say.
        AgreementLost: At the end: the body did not run under one agreement.
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
            if await self._has_begun(left_s):
                self._following = asyncio.create_task(self._follow())
                return self._agreement
            await asyncio.sleep(_PAUSE_S)
            if self._timeout_s is not None:
                left_s = max(0.0, begun + self._timeout_s - time.monotonic())

    async def _has_begun(self, left_s: float | None) -> bool:
        """Wait for an agreement; tell whether the store says that it stands.

        A replica that is behind tells of one that is over already.
        """
        self._agreement = await wait_for_agreement(
            self._channel,
            self._name,
            encoding_version=self._version,
            timeout_s=left_s,
            metadata=self._metadata,
        )
        self._proved = time.monotonic()
        try:
            found = await self._get(CHECK_TIMEOUT_S)
        except _Unanswered:
            return False
        return found is not None and self._agreement.is_that_of(Agreement.of(found))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_cancelled = await self._end(check=kind is None)
        is_others = self._is_cancelled_by_others()
        if error is not None and not isinstance(error, Exception | asyncio.CancelledError):
            return  # KeyboardInterrupt and the like go before everything else
        if is_cancelled and (is_others or not self._reason):
            raise asyncio.CancelledError  # after the body had ended, however it had
        if is_others and self._reason and kind is None:
            raise asyncio.CancelledError  # the body suppressed it, together with ours
        if is_others or not self._reason:
            return
        cause = None if isinstance(error, asyncio.CancelledError) else error
        raise AgreementLost(self._agreement, self._reason) from cause

    async def _end(self, *, check: bool) -> bool:
        """Stop following, and tell whether the task was cancelled meanwhile."""
        is_cancelled = False
        try:
            if check and not self._reason:
                await self._prove_at_the_end()
        except asyncio.CancelledError:
            is_cancelled = True
        finally:
            self._following.cancel()
            is_cancelled |= await _settle([self._following])
        return is_cancelled

    def _is_cancelled_by_others(self) -> bool:
        """Take back our own cancellation, and tell whether there is another one."""
        left = self._body.uncancel() if self._has_cancelled else self._body.cancelling()
        return left > self._cancelling

    def _lose(self, reason: str) -> None:
        """Take note of why the agreement is over; the first reason counts."""
        self._reason = self._reason or reason

    def _interrupt(self) -> None:
        self._has_cancelled = True
        self._body.cancel()

    async def _follow(self) -> None:
        """Watch, for a change is to be known at once, and read, for a watch may be silent."""
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
                    self._look_at(event)
                    if self._reason:
                        return
            except grpc.aio.AioRpcError:
                pass  # the readings tell whether that lasts too long
            finally:
                call.cancel()
            # What happened meanwhile is told at the beginning of the next one.
            request = storage_version_pb2.WatchStorageVersionsRequest(names=[self._name])
            await asyncio.sleep(_PAUSE_S)

    def _look_at(self, event: storage_version_pb2.WatchStorageVersionsResponse) -> None:
        if event.type == storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_DELETED:
            self._lose("the object was removed")
        elif event.HasField("storage_version"):
            self._compare(Agreement.of(event.storage_version))

    def _compare(self, found: Agreement | None) -> None:
        if self._agreement.is_that_of(found):
            return
        if found is None:
            self._lose(f"the servers no longer agree on {self._agreement.encoding_version}")
        elif found.encoding_version != self._agreement.encoding_version:
            self._lose(f"the servers now agree on {found.encoding_version}")
        else:
            self._lose("the servers disagreed for a while")

    async def _read(self) -> None:
        """Return when what is read ends the agreement, or nothing can be read for too long."""
        while not self._reason:
            left_s = self._proved + UNPROVED_S - time.monotonic()
            await asyncio.sleep(max(0.0, min(CHECK_EVERY_S, left_s)))
            await self._check()

    async def _check(self) -> None:
        """Read the agreement once, and take note of whether it stands."""
        asked = time.monotonic()
        timeout_s = max(_PAUSE_S, min(CHECK_TIMEOUT_S, self._proved + UNPROVED_S - asked))
        try:
            found = await self._get(timeout_s)
        except _Unanswered as error:
            if time.monotonic() - self._proved >= UNPROVED_S:
                self._lose(f"cannot be proved any more: {error}")
            return
        if found is None:
            self._lose("the object was removed")
            return
        self._compare(Agreement.of(found))
        self._proved = max(self._proved, asked)

    async def _get(self, timeout_s: float) -> storageversion_pb2.StorageVersion | None:
        """Return the object, None when it is not there."""
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

    async def _prove_at_the_end(self) -> None:
        """Read until the store has answered, or it has been silent for too long."""
        ended = time.monotonic()
        while True:
            await self._check()
            if self._reason or self._proved >= ended:
                return
            await asyncio.sleep(_PAUSE_S)


def _is_being_cancelled(body: "asyncio.Task[object]", before: int) -> bool:
    """Tell whether somebody cancels the present task; grpc also raises for a closed channel.

    Args:
        body: The task that had been cancelled so often
        before: when it entered the guard.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > (before if task is body else 0)


async def _settle(tasks: Collection["asyncio.Task[None]"]) -> bool:
    """Return when tasks have ended, and whether whoever waits was cancelled meanwhile."""
    is_cancelled = False
    while True:
        # Also for those that have ended already: a cancellation may wait to be delivered.
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            is_cancelled = True
        else:
            return is_cancelled
