"""HTTP/1.1 over a blocking connection: one request without a body, and its answer.

h11 reads and writes it. The standard library's `http.client` takes twice as long to import, for it
brings `email` and `ssl` along, and is lax about framing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import h11

from apidiscovery_client._http import wrong_port
from apidiscovery_client._http.body import Collected
from apidiscovery_client._http.request import Deadline
from apidiscovery_client.transports._streams import Stream

_MAX_HEAD_BYTES = 1 << 16
_MAX_INTERIM = 10  # answers with 1xx before the final one
_FIRST_BYTES = 16  # enough to recognize another protocol


class ProtocolError(ConnectionError):
    """The answer is not HTTP/1.1, or is incomplete."""


class SilentlyClosedError(ProtocolError):
    """The connection ended before the first byte of an answer, as idle ones do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes:
        headers: Names in lower case, values of repeated ones joined with a comma.
        body: Decompressed.
        received: The size of the body in bytes before that.
        is_reusable: Whether the connection may be used for another request.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    received: int
    is_reusable: bool


class Exchange:
    """Sends one request over a connection and reads its answer.

    Raises:
        OSError: The connection failed, or the deadline has passed.
    """

    def __init__(self, stream: Stream, deadline: Deadline, request: h11.Request) -> None:
        self._stream = stream
        self._deadline = deadline
        self._first = b""
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        head = self._connection.send(request) or b""
        self._connection.send(h11.EndOfMessage())
        stream.send(head, deadline)

    def answer(self, max_body_bytes: int) -> Answer:
        """Return the answer.

        Raises:
            ProtocolError: It is not HTTP/1.1, or incomplete.
            BodyError: It is larger than allowed, or wrongly compressed.
            OSError: The connection failed, or the deadline has passed.
        """
        head = self.head()
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode(), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        body = Collected(headers.get("content-encoding", ""), max_body_bytes)
        while isinstance(event := self._event(), h11.Data):
            body.add(bytes(event.data))
        # With both, a proxy may have seen another end of the body (RFC 9112 6.3).
        is_ambiguous = "content-length" in headers and "transfer-encoding" in headers
        is_done = self._connection.their_state is h11.DONE
        is_reusable = is_done and not is_ambiguous and not self._connection.trailing_data[0]
        return Answer(head.status_code, headers, body.whole(), body.received, is_reusable)

    def head(self) -> h11.Response:
        """Return status and headers of the final answer; raise as `answer` does."""
        for _ in range(_MAX_INTERIM):
            event = self._event()
            if isinstance(event, h11.Response):
                return event
        raise ProtocolError("interim answers do not end")

    def _event(self) -> object:
        try:
            while (event := self._connection.next_event()) is h11.NEED_DATA:
                piece = self._stream.receive(self._deadline)
                if not piece and self._connection.their_state is h11.SEND_RESPONSE:
                    raise self._cut_off()
                self._first = self._first or piece[:_FIRST_BYTES]
                self._connection.receive_data(piece)
        except h11.RemoteProtocolError as error:
            raise ProtocolError(wrong_port.of_first_bytes(self._first) or str(error)) from error
        return event

    def _cut_off(self) -> ProtocolError:
        if problem := wrong_port.of_first_bytes(self._first):
            return ProtocolError(problem)
        if self._first:
            return ProtocolError("the connection ended within the headers")
        return SilentlyClosedError("Server disconnected without sending a response.")


def request(
    target: str, host: str, headers: Iterable[tuple[str, str]], method: str = "GET"
) -> h11.Request:
    """Return a request without a body.

    Raises:
        ValueError: A header or the target could be taken for something else.
    """
    lines = [("Host", host), *headers]
    try:
        return h11.Request(
            method=method,
            target=target.encode(),
            headers=[(name.encode(), value.encode()) for name, value in lines],
        )
    except h11.LocalProtocolError as error:
        raise ValueError(f"the request cannot be sent: {error}") from None


def tunnel(stream: Stream, connect: h11.Request, deadline: Deadline) -> None:
    """Have a proxy connect us; raise `ProtocolError` where it does not."""
    status = Exchange(stream, deadline, connect).head().status_code
    if not 200 <= status < 300:  # noqa: PLR2004 - RFC 9110 9.3.6, 2xx
        raise ProtocolError(f"the proxy answered CONNECT with {status}")
