"""Whether a server can be reached, and if not, why, with a hint what to do."""

import asyncio
import re
import socket
import ssl
from collections.abc import Iterator
from typing import cast
from urllib.parse import urlsplit

_LOOK_S = 1.0
# OpenSSL's name of an error and the line of its source.
_OPENSSL = re.compile(r"\[[^]]*\] |\s*\(_ssl\.c:\d+\)")
# Messages of h11 for bytes that do not begin HTTP/1.1, and of h2 for a stream that ends at once.
_NO_HTTP = ("illegal request line", "illegal status line")
_RESET = "StreamReset"
_DISCONNECTED = "Server disconnected"

GRPC_PORT = "this is a gRPC port, its HTTP port is probably 8080"
_SPEAKS_TLS = "this port speaks TLS; want an https:// URL"
_SPEAKS_NO_TLS = "this port does not speak TLS; want an http:// URL"
# Answers with status 400 to HTTP without TLS: of Go, of nginx.
_PLAIN_TO_TLS = (b"HTTP request to an HTTPS server", b"plain HTTP request was sent to HTTPS port")


def answered_without_tls(body: bytes) -> str:
    """Return a hint if a body of status 400 says that the server wants TLS, else nothing."""
    return _SPEAKS_TLS if any(text in body for text in _PLAIN_TO_TLS) else ""


async def accepts(host: str, port: int) -> bool:
    """Tell whether a server accepts connections; send nothing."""
    try:
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def explained(error: BaseException, url: str, proxy: str = "") -> str:
    """Return why a request failed, in one line.

    Args:
        error: The error that was raised.
        url: The URL of the server.
        proxy: `HOST:PORT` of the proxy that was used; empty for none.
    """
    import httpcore2  # noqa: PLC0415 - takes 30 ms, and few servers have upstreams

    host, port = address(url)
    peer = proxy or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    for cause in _causes(error):
        words = _describe_cause(cause, peer)
        if words:
            return words
    text = str(error) or type(error).__name__
    if isinstance(error, httpcore2.RemoteProtocolError) and not proxy:
        return await _describe_protocol(text, url, host, port)
    return text


def _describe_cause(cause: BaseException, peer: str) -> str:
    """Return the text for a cause; empty if it explains nothing."""
    match cause:
        case ConnectionRefusedError():
            return f"connection refused by {peer}"
        case socket.gaierror():
            return f"name not known: {peer.rpartition(':')[0]}"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return _SPEAKS_NO_TLS
        case ssl.SSLError():
            return _OPENSSL.sub("", str(cause))
        case OSError(strerror=str(reason)):
            return f"{peer}: {reason}"
        case _:
            return ""


async def _describe_protocol(text: str, url: str, host: str, port: int) -> str:
    """Return what an answer that is not HTTP says about the port."""
    is_odd = text.startswith((*_NO_HTTP, _DISCONNECTED))
    if url.startswith("https:"):
        return GRPC_PORT if _RESET in text else text
    if is_odd and await _speaks_tls(host, port):
        return _SPEAKS_TLS
    # A first byte that is not a letter belongs to an HTTP/2 frame.
    return GRPC_PORT if text == _NO_HTTP[0] else text


def address(url: str) -> tuple[str, int]:
    """Return the host and the port of a server."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, including members of exception groups."""
    seen: list[BaseException] = [error]
    for one in seen:
        yield one
        if isinstance(one, BaseExceptionGroup):
            seen += cast("BaseExceptionGroup[BaseException]", one).exceptions
        cause = one.__cause__ or one.__context__
        seen += [cause] if cause and cause not in seen else []


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent, and no answer is read.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
