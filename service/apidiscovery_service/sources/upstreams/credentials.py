"""Asks for credentials, which may take a minute, without holding up the event loop."""

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager

import structlog
from apidiscovery_kubeconfig import errors
from apidiscovery_kubeconfig.credentials import ClientCertificate, Credentials, Proof

from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration
from apidiscovery_service.sources.upstreams.threads import in_thread

_END_S = 5.0  # a file on a server that hangs is not waited for

_log = structlog.get_logger(__name__)


class CredentialsUnavailable(DiscoveryError):
    """What the server is to be shown cannot be had now; the message says where from and why."""


@contextmanager
def translated() -> Generator[None]:
    """Make errors of this package of those that concern the configuration of a connection.

    Raises:
        CredentialsUnavailable: For the same.
        InvalidConfiguration: For every other.
    """
    try:
        yield
    except errors.CredentialsUnavailable as error:
        raise CredentialsUnavailable(str(error)) from None
    except errors.ConfigurationError as error:
        raise InvalidConfiguration(str(error)) from None


class AskedCredentials:
    """Credentials that are asked for in a thread of their own.

    One question at a time serves all who wait for it, and goes on when they give up: the next to
    ask finds what it gave.
    """

    def __init__(self, source: Credentials) -> None:
        self._source = source
        self._asking: asyncio.Future[Proof] | None = None

    async def get(self) -> Proof:
        """Return what is valid now; raise `CredentialsUnavailable`."""
        held = self._source.cached()
        if held is not None:
            return held
        if self._asking is None:
            self._asking = in_thread(self._source.get, "credentials")
            self._asking.add_done_callback(self._answered)
        with translated():
            return await asyncio.shield(self._asking)

    async def certificate(self) -> ClientCertificate | None:
        """Return the certificate for a handshake now; raise `CredentialsUnavailable`."""
        return (await self.get()).certificate if self._source.gives_certificates else None

    async def aclose(self) -> None:
        """End what runs, and wait for that as long as it can be ended."""
        asking = self._asking
        if asking is not None:
            await in_thread(self._source.close, "end of credentials")
            await asyncio.wait([asking], timeout=_END_S)

    def _answered(self, asking: asyncio.Future[Proof]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # whoever asked may have given up


class _Notices(logging.Handler):
    """Hands on what the kubeconfig package has to tell."""

    def emit(self, record: logging.LogRecord) -> None:
        what, reason = record.args if isinstance(record.args, tuple) else ("", "")
        _log.warning(f"{what} kept", reason=str(reason))


_notices = logging.getLogger("apidiscovery_kubeconfig")
_notices.addHandler(_Notices())
_notices.propagate = False
