"""Gets credentials, which may take a minute, without blocking the event loop."""

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

import structlog
from apidiscovery_kubeconfig import errors
from apidiscovery_kubeconfig.credentials import ClientCertificate, Credentials, Proof

from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration

_END_S = 5.0  # do not wait for a file on a server that hangs

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class CredentialsUnavailable(DiscoveryError):
    """There are no credentials now; the message says why, and where they come from."""


@contextmanager
def translated() -> Generator[None]:
    """Translate errors of `apidiscovery_kubeconfig` into those of this package.

    Raises:
        CredentialsUnavailable: For the same error.
        InvalidConfiguration: For every other.
    """
    try:
        yield
    except errors.CredentialsUnavailable as error:
        raise CredentialsUnavailable(str(error)) from None
    except errors.ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None


class ThreadedCredentials:
    """Credentials, fetched in a thread of their own.

    One fetch at a time serves all callers that wait for it. It goes on when they give up, and the
    next caller uses its result.
    """

    def __init__(self, source: Credentials) -> None:
        self._source = source
        self._asking: asyncio.Future[Proof] | None = None

    async def get(self) -> Proof:
        """Return a valid proof; raise `CredentialsUnavailable`."""
        cached = self._source.cached()
        if cached is not None:
            return cached
        if self._asking is None:
            self._asking = _in_thread(self._source.get, "credentials")
            self._asking.add_done_callback(self._answered)
        with translated():
            return await asyncio.shield(self._asking)

    async def certificate(self) -> ClientCertificate | None:
        """Return the certificate for a handshake now; raise `CredentialsUnavailable`."""
        return (await self.get()).certificate if self._source.gives_certificates else None

    async def aclose(self) -> None:
        """End a fetch that runs, and wait for its end for some seconds."""
        asking = self._asking
        if asking is not None:
            await _in_thread(self._source.close, "end of credentials")
            await asyncio.wait([asking], timeout=_END_S)

    def _answered(self, asking: asyncio.Future[Proof]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # the caller may have given up


def _in_thread(call: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run a call that may hang in a daemon thread: the end of the process does not wait for it."""
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(future)


class _Notices(logging.Handler):
    """Logs the messages of the kubeconfig package."""

    def emit(self, record: logging.LogRecord) -> None:
        what, reason = record.args if isinstance(record.args, tuple) else ("", "")
        _log.warning(f"{what} kept", reason=str(reason))


_notices = logging.getLogger("apidiscovery_kubeconfig")
_notices.addHandler(_Notices())
_notices.propagate = False
