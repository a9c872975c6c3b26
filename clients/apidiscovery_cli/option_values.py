"""Readers of texts that are the values of options; each raises `ValueError` with what is wrong."""

import re
from urllib.parse import urlsplit

from apidiscovery_formats.go_text import parse_bool

_DURATION = r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LARGEST_TIMEOUT_S = 2**63 / 1e9  # Go's time.Duration


def boolean(text: str) -> bool:
    """Return what a text means to Go's strconv.ParseBool, which kubectl reads flags by."""
    value = parse_bool(text)
    if value is None:
        raise ValueError(f"{text!r} is not a valid boolean")
    return value


def server_url(text: str) -> str:
    """Return a server's URL without a trailing slash; `host:port` is one for http.

    Raises:
        ValueError: It is none, or has credentials, a query or a fragment.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{text!r} begins with {parts.scheme!r}, not http or https")
    if not host or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError(f"{text!r} has no host, or white space in it")
    if "@" in parts.netloc:
        raise ValueError("a user and password in a URL are not supported, use --token")
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r} has a query or a fragment")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def grpc_address(text: str) -> str:
    """Return `host:port` as it is given; raise `ValueError` for anything else."""
    host, _, port = text.rpartition(":")
    is_host = re.fullmatch(r"\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]\x00-\x1f\x7f]+", host)
    if not is_host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:50051")
    return text


def duration_s(text: str) -> float:
    """Return the seconds of a duration as Go writes it, such as 1m30s or 500ms; 0 is for ever.

    A bare integer counts seconds. Source: client-go clientcmd/helpers.go `ParseTimeout`.

    Raises:
        ValueError: It is none, or longer than Go's can be.
    """
    if re.fullmatch(r"\d+", text, re.ASCII):
        seconds = float(text)
    elif re.fullmatch(rf"(?:{_DURATION})+", text, re.ASCII):
        seconds = sum(map(_seconds, re.findall(_DURATION, text)))
    else:
        raise ValueError(
            f"{text!r} is neither a number of seconds nor a number and its unit (1s, 2m, 3h)"
        )
    if seconds > _LARGEST_TIMEOUT_S:
        raise ValueError(f"{text!r} is too long")
    return seconds


def _seconds(part: str) -> float:
    number = part.rstrip("nuµμmsh")
    return float(number) * _UNITS_S[part.removeprefix(number)]
