"""Recognizes a port that speaks another protocol, and suggests the right one."""

import re
from urllib.parse import urlsplit

_GRPC = "as a port for gRPC does; that for HTTP is another, by default 8080"
# A first frame of HTTP/2, SETTINGS of stream 0: RFC 9113 3.4 and 6.5. An alert of TLS: RFC 8446 6.
_SETTINGS = re.compile(rb"...\x04.\0\0\0\0", re.DOTALL)
_ALERT = b"\x15\x03"
# In the words of Go net/http, nginx, Apache httpd and h11.
_WANTS_TLS = re.compile(
    r"HTTP request (?:was sent )?to (?:an )?HTTPS|speaking plain HTTP to an SSL", re.IGNORECASE
)
_NO_HTTP = re.compile(r"illegal (?:request|status) line|BadStatusLine", re.IGNORECASE)
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})

SPEAKS_TLS = "the port speaks TLS"
NO_HTTP1 = f"the port does not speak HTTP/1.1, {_GRPC}"


def of_first_bytes(received: bytes) -> str:
    """Return what the first bytes of an answer say if it is not HTTP/1.1; empty if unknown."""
    if _SETTINGS.match(received):
        return NO_HTTP1
    return f"{SPEAKS_TLS}; ask https" if received.startswith(_ALERT) else ""


def of_tls(reason: str, url: str) -> str:
    """Return what OpenSSL's reason for a failed handshake says; empty if unknown."""
    if reason not in _NO_TLS:
        return ""
    return f"the port does not speak TLS; if it is the right one, ask http://{urlsplit(url).netloc}"


def of_error(text: str) -> str:
    """Return what the text of an HTTP library's error says; empty if unknown."""
    return NO_HTTP1 if _NO_HTTP.search(text) else ""


def of_refusal(body: bytes, url: str) -> str:
    """Return what a refusal (status 400) says; empty if unknown."""
    if not _WANTS_TLS.search(body[:1000].decode(errors="replace")):
        return ""
    return f"{SPEAKS_TLS}; ask https://{urlsplit(url).netloc}"
