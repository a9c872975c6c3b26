"""The sides of a comparison: files, servers, contexts of a kubeconfig, releases of Kubernetes."""

from collections.abc import Sequence
from typing import Protocol, cast
from urllib.parse import quote, urlsplit

import click
from apidiscovery_client import DiscoveryClient, InvalidConfiguration
from apidiscovery_client._connecting import Flags, open_blocking
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.file import MAX_BYTES, load
from apidiscovery_client.snapshots.releases import PREFIX, release

from apidiscovery_cli.connection_options import ACCESS, KUBECONFIG_FILE, is_from_environment
from apidiscovery_cli.files import input_name, read_input
from apidiscovery_cli.options import SERVER_URL, Option

CONTEXT = "context:"
CLUSTER = "cluster:"
SCHEMES = ("http", "https", "grpc", "grpcs")

_WANTED = (
    "want a file, - for standard input, a URL of http, https, grpc or grpcs,"
    f" {CONTEXT}NAME or {PREFIX}1.30"
)


# Options for how to connect; arguments name the servers.
SIDE_OPTIONS = (KUBECONFIG_FILE, *ACCESS)
SIDE_HELP = (
    "a file (of 'apidiscovery snapshot save', or an aggregated document), - for standard input,"
    " a URL (https://host:6443, grpc://host:50051), context:NAME of the kubeconfig, or a release"
    " such as kubernetes:1.30"
)


_IDENTITY = {
    "token": "--token",
    "username": "--username",
    "password": "--password",
    "client_certificate": "--client-certificate",
    "client_key": "--client-key",
}


# Names the service whose clusters are sides; its URL is no side itself.
SERVICE: Option = click.option(
    "--server",
    "-s",
    "service",
    type=SERVER_URL,
    metavar="URL",
    help="The running service (apidiscovery serve) that knows the clusters of cluster:NAME.",
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
        InvalidConfiguration: The text names nothing, or it cannot be read.
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


def with_service(text: str, service: str | None) -> str:
    """Return a side in which `cluster:NAME` is the URL of that cluster's documents.

    Raises:
        click.UsageError: It names a cluster, and there is no service.
    """
    if not text.startswith(CLUSTER):
        return text
    name = text.removeprefix(CLUSTER)
    if not name:
        raise click.UsageError(f"{text}: the name of a cluster is missing")
    if not service:
        raise click.UsageError(f"{text}: which service knows it? want --server URL")
    return f"{service.rstrip('/')}/clusters/{quote(name)}"


def side_name(text: str) -> str:
    """Return the name of a side in reports: the text as it was typed.

    The server that a saved snapshot names may be the other side. The text has no secrets: URLs
    with credentials are refused.
    """
    return input_name(text)


def is_server(text: str) -> bool:
    """Return whether a text names a server."""
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


def connector(flags: Flags) -> Connect:
    """Return a function that asks servers with these flags; a URL is asked without a kubeconfig."""

    def connect(target: str | None, context: str | None) -> Snapshot:
        kubeconfig = None if target else flags.get("kubeconfig")
        own: Flags = {**flags, "context": context, "kubeconfig": kubeconfig}
        opened = open_blocking(target, **own)
        with DiscoveryClient(opened.transport) as client:
            return client.refresh()

    return connect


def flags_for(flags: Flags, sides: Sequence[str]) -> Flags:
    """Return the flags without a token of the environment where a side is a context.

    Contexts have credentials of their own.
    """
    if any(side.startswith(CONTEXT) for side in sides) and is_from_environment("token"):
        return {**flags, "token": None}
    return flags


def refuse_shared_identity(flags: Flags, sides: Sequence[str]) -> None:
    """Refuse flags with credentials that would go to more than one server."""
    if len({_origin(side) for side in sides if is_server(side)}) < 2:  # noqa: PLR2004 - one alone
        return
    given = cast("dict[str, object]", flags)
    if named := [flag for name, flag in _IDENTITY.items() if given.get(name)]:
        raise click.UsageError(
            f"{', '.join(named)} would go to several servers; name each as context:NAME, whose"
            " credentials are those of the kubeconfig"
        )


def _origin(side: str) -> object:
    """Return what is the same for sides of one server; each context is one of its own."""
    parts = urlsplit(side)
    return (parts.scheme, parts.netloc) if parts.netloc else object()
