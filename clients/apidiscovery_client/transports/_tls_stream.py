"""TLS over any blocking connection, also over TLS, as through an https proxy."""

import ssl
from collections.abc import Callable
from typing import TypeVar

from apidiscovery_client._http.request import Deadline
from apidiscovery_client.transports._streams import Stream

T = TypeVar("T")


class TlsStream:
    """A TLS connection over another one.

    Raises:
        OSError: The handshake fails; `below` is left open.
    """

    def __init__(
        self, below: Stream, context: ssl.SSLContext, server_name: str, deadline: Deadline
    ) -> None:
        self._below = below
        self._arrived = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname=server_name)
        self._done(self._tls.do_handshake, deadline)

    def send(self, data: bytes, deadline: Deadline) -> None:
        # A memory BIO takes everything at once.
        self._done(lambda: self._tls.write(data), deadline)

    def receive(self, deadline: Deadline) -> bytes:
        try:
            return self._done(lambda: self._tls.read(1 << 16), deadline)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""  # whether the body is complete is seen by its length

    def is_quiet(self) -> bool:
        return not (self._tls.pending() or self._arrived.pending) and self._below.is_quiet()

    def abort(self) -> None:
        self._below.abort()

    def close(self) -> None:
        self._below.close()

    def _done(self, step: Callable[[], T], deadline: Deadline) -> T:
        """Return the result of a step, after exchanging the bytes that it needs."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush(deadline)
                piece = self._below.receive(deadline)
                if piece:
                    self._arrived.write(piece)
                else:
                    self._arrived.write_eof()
            except ssl.SSLError:
                self._flush(deadline)  # the alert, which tells the server why
                raise
            else:
                self._flush(deadline)
                return result

    def _flush(self, deadline: Deadline) -> None:
        if self._leaving.pending:
            self._below.send(self._leaving.read(), deadline)
