"""Opens whatever can be compared: files, servers, contexts of a kubeconfig, releases."""

from typing import Protocol

from apidiscovery_client import InvalidConfiguration
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.file import MAX_BYTES, load
from apidiscovery_client.snapshots.releases import PREFIX, release

from apidiscovery_cli.inputs import input_name, read_input

CONTEXT = "context:"
SCHEMES = ("http", "https", "grpc", "grpcs")

_WANTED = (
    "want a file, - for standard input, a URL of http, https, grpc or grpcs,"
    f" {CONTEXT}NAME or {PREFIX}1.30"
)


class Connect(Protocol):
    """Asks a server; raises `DiscoveryError`."""

    def __call__(self, target: str | None, context: str | None) -> Snapshot:
        """Return what the server at a URL, or else that of a context, serves."""
        ...


def open_side(text: str, connect: Connect) -> Snapshot:
    """Return the snapshot that a text names.

    Args:
        text: A file that was saved by `apidiscovery snapshot save` or is an aggregated document,
            `-` for the same on standard input, `https://host:6443` or another URL,
            `grpc://host:50051`, `context:NAME` of the kubeconfig, or `kubernetes:1.30`.
        connect: Asks servers.

    Raises:
        InvalidConfiguration: There is no such thing, or it cannot be read.
        DiscoveryError: The server does not answer.
    """
    if text.startswith(PREFIX):
        return release(text.removeprefix(PREFIX))
    if text.startswith(CONTEXT):
        return connect(None, _context(text))
    scheme, separator, _ = text.partition("://")
    if not separator:
        return load(_content(text), side_name(text))
    if scheme.lower() not in SCHEMES:
        raise InvalidConfiguration(f"{text}: {scheme!r} is no scheme of a server; {_WANTED}")
    return connect(text, None)


def side_name(text: str) -> str:
    """Return what the side that a text names is called: as it was typed.

    What a server was called when its snapshot was saved may be what the other side is called.
    There are no secrets in it: URLs with credentials are not opened.
    """
    return input_name(text)


def is_server(text: str) -> bool:
    """Tell whether a text names a server, which is asked for what it serves."""
    return text.startswith(CONTEXT) or "://" in text


def _context(text: str) -> str:
    name = text.removeprefix(CONTEXT)
    if not name:
        raise InvalidConfiguration(f"{text}: the name of a context is missing; {_WANTED}")
    return name


def _content(path: str) -> bytes:
    try:
        return read_input(path, MAX_BYTES)
    except FileNotFoundError:
        raise InvalidConfiguration(f"{path!r}: there is no such file; {_WANTED}") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidConfiguration(f"{path!r} cannot be read: {reason}; {_WANTED}") from None
