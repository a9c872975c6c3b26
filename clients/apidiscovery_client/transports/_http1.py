"""HTTP/1.1 over a blocking connection: one GET request, and what is answered.

The standard library's `http.client` does the same, but importing it takes longer than asking a
server on this machine: it brings `email` and `ssl` with it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apidiscovery_client._http import wrong_port
from apidiscovery_client._http.body import Collected
from apidiscovery_client.transports._streams import Deadline, Stream

_MAX_HEAD_BYTES = 1 << 16
_MAX_INTERIM = 10  # answers with 1xx before the real one
_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2})(?: .*)?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r]*?)[ \t]*")
_CHUNK = re.compile(rb"0*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")  # extensions mean nothing to us
_SWITCHING = 101
_NO_BODY = (204, 304)
_BLANK = (b" ", b"\t")
_CUT_OFF = "peer closed connection without sending complete message body"


class ProtocolError(ConnectionError):
    """What came is not HTTP/1.1, or not all of it came."""


class SilentlyClosedError(ProtocolError):
    """The connection ended before the first byte of an answer, as idle ones do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered.

    Attributes:
        headers: Names in lower case, values of repeated ones joined with a comma.
        body: Decompressed.
        received: How many bytes the body had before that.
        is_reusable: Whether the connection may be used for another request.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    received: int
    is_reusable: bool


def request(
    target: str, host: str, headers: Iterable[tuple[str, str]], method: str = "GET"
) -> bytes:
    """Return a request without a body.

    Raises:
        ValueError: A header or the target could be taken for something else.
    """
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if any(re.search(r"[\r\n\0]", line) for line in lines) or " " in target:
        raise ValueError("a header has a line break in it, or the path a space")
    return "\r\n".join([*lines, "", ""]).encode()


def answer(stream: Stream, deadline: Deadline, max_body_bytes: int) -> Answer:
    """Return what is answered.

    Raises:
        ProtocolError: It is not HTTP/1.1, or ends early.
        BodyError: It is larger than allowed, or wrongly compressed.
        OSError: The connection failed, or the deadline has passed.
    """
    incoming = _Incoming(stream, deadline)
    version, status, headers = _head(incoming)
    collected = Collected(headers.get("content-encoding", ""), max_body_bytes)
    is_delimited = True
    if status not in _NO_BODY:
        # With both, somebody on the way may have seen another end (RFC 9112 6.3).
        is_delimited = ("content-length" in headers) is not ("transfer-encoding" in headers)
        for piece in _pieces(incoming, headers):
            collected.add(piece)
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    is_reusable = is_delimited and version == b"1.1" and "close" not in options
    return Answer(
        status,
        headers,
        collected.whole() if status not in _NO_BODY else b"",
        collected.received,
        is_reusable and not incoming.rest,
    )


def tunnel(stream: Stream, connect: bytes, deadline: Deadline) -> None:
    """Have a proxy connect us; raise `ProtocolError` where it does not."""
    stream.send(connect, deadline)
    _, status, _ = _head(_Incoming(stream, deadline))
    if not 200 <= status < 300:  # noqa: PLR2004 - RFC 9110 9.3.6, 2xx
        raise ProtocolError(f"the proxy answered CONNECT with {status}")


class _Incoming:
    """What arrives, line by line or by length.

    Attributes:
        rest: What has arrived and was not taken yet.
    """

    def __init__(self, stream: Stream, deadline: Deadline) -> None:
        self.rest = b""
        self._stream = stream
        self._deadline = deadline

    def line(self, limit: int) -> bytes:
        while (end := self.rest.find(b"\n")) < 0:
            if len(self.rest) > limit:
                raise ProtocolError("a line of the answer is too long")
            if not (piece := self.some()):
                if problem := wrong_port.of_first_bytes(self.rest):
                    raise ProtocolError(problem)
                raise SilentlyClosedError("Server disconnected without sending a response.")
            self.rest += piece
        taken, self.rest = self.rest[:end], self.rest[end + 1 :]
        return taken.removesuffix(b"\r")

    def some(self) -> bytes:
        return self._stream.receive(self._deadline)

    def taken(self, limit: int | None) -> bytes:
        """Return what there is, at most `limit` bytes; nothing at the end of the connection."""
        piece = self.rest or self.some()
        limit = len(piece) if limit is None else limit
        self.rest = piece[limit:]
        return piece[:limit]


def _head(incoming: _Incoming) -> tuple[bytes, int, dict[str, str]]:
    for _ in range(_MAX_INTERIM):
        line = incoming.line(_MAX_HEAD_BYTES)
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            problem = wrong_port.of_first_bytes(line)
            begin = f"the answer begins with {line[:80]!r}, which is not HTTP/1.1"
            raise ProtocolError(problem or begin)
        headers = _fields(incoming)
        status = int(found[2])
        if status == _SWITCHING:
            raise ProtocolError("the answer is 101, another protocol, which nobody asked for")
        if status >= 200:  # noqa: PLR2004 - RFC 9110 15.2, those below are interim
            return found[1], status, headers
    raise ProtocolError("interim answers do not end")


def _fields(incoming: _Incoming) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in _field_lines(incoming):
        found = _FIELD.fullmatch(line)
        if found is None:
            raise ProtocolError(f"{line[:80]!r} is no header, or one too many")
        name, value = found[1].decode().lower(), found[2].decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _field_lines(incoming: _Incoming) -> list[bytes]:
    """Return each header in one line, also one that goes on in the next (RFC 9112 5.2)."""
    lines: list[bytes] = []
    left = _MAX_HEAD_BYTES
    try:
        while line := incoming.line(left):
            left -= len(line)
            if left < 0:
                raise ProtocolError(f"{line[:80]!r} is no header, or one too many")
            if line[:1] in _BLANK and lines:
                lines[-1] += b" " + line.strip()
            else:
                lines.append(line)
    except SilentlyClosedError:
        raise ProtocolError("the connection ended within the headers") from None
    return lines


def _pieces(incoming: _Incoming, headers: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the body; its end is told in one of three ways (RFC 9112 6.3)."""
    if (coding := headers.get("transfer-encoding")) is not None:
        if coding.lower() != "chunked":
            raise ProtocolError(f"the transfer coding is {coding!r}, not chunked")
        yield from _chunks(incoming)
    elif (length := headers.get("content-length")) is not None:
        yield from _counted(incoming, _length(length))
    else:
        while piece := incoming.taken(None):
            yield piece


def _length(text: str) -> int:
    lengths = {length.strip() for length in text.split(",")}
    length = lengths.pop()
    if lengths or not re.fullmatch(r"[0-9]{1,18}", length):
        raise ProtocolError(f"the content length is {text!r}")
    return int(length)


def _counted(incoming: _Incoming, length: int) -> Iterator[bytes]:
    left = length
    while left:
        piece = incoming.taken(left)
        if not piece:
            raise ProtocolError(f"{_CUT_OFF} (received {length - left} bytes, expected {length})")
        left -= len(piece)
        yield piece


def _chunks(incoming: _Incoming) -> Iterator[bytes]:
    try:
        while True:
            size = _CHUNK.fullmatch(line := incoming.line(_MAX_HEAD_BYTES))
            if size is None:
                raise ProtocolError(f"{line[:80]!r} is no size of a chunk")
            if not (length := int(size[1], 16)):
                break
            yield from _counted(incoming, length)
            if incoming.line(2):
                raise ProtocolError("a chunk is longer than it says")
        _fields(incoming)
    except SilentlyClosedError:
        raise ProtocolError(f"{_CUT_OFF} (incomplete chunked read)") from None
