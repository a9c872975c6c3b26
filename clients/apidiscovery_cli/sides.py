"""The sides of a comparison: files, servers, contexts of a kubeconfig, releases of Kubernetes."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, cast
from urllib.parse import quote, unquote, urlsplit

import click
from apidiscovery_client import DiscoveryClient, InvalidConfiguration
from apidiscovery_client._connecting import Flags, http_target, open_blocking
from apidiscovery_client._interfaces import Transport
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.file import MAX_BYTES, load
from apidiscovery_client.snapshots.releases import PREFIX, release
from apidiscovery_client.transports import HttpOptions, HttpTransport

from apidiscovery_cli.connection_options import (
    ACCESS,
    KUBECONFIG_FILE,
    grpc_server_named,
    is_from_environment,
)
from apidiscovery_cli.files import input_name, read_input
from apidiscovery_cli.options import ANY_SERVER_URL, GRPC_SCHEMES, Option
from apidiscovery_cli.output import tell_warning

CONTEXT = "context:"
CLUSTER = "cluster:"
# Names may have an @, too: those of contexts do.
_AT = re.compile(r"(.+)@([0-9]{4}-[0-9].*)")
_CLUSTER_OVER_GRPC = re.compile(r"(grpcs?://[^/?]+)/clusters/([^?]+)(?:\?at=(.+))?")
# A time in the future, so that another clock still means the latest state.
_AHEAD = timedelta(days=1)
SCHEMES = ("http", "https", *GRPC_SCHEMES)

_WANTED = (
    "want a file, - for standard input, a URL of http, https, grpc or grpcs,"
    f" {CONTEXT}NAME or {PREFIX}1.30"
)


# Options for how to connect; arguments name the servers.
SIDE_OPTIONS = (KUBECONFIG_FILE, *ACCESS)
CONTEXTS: Option = click.option(
    "--contexts",
    metavar="PATTERN",
    multiple=True,
    help="All contexts of the kubeconfig whose names match, such as 'prod-*'; repeatable.",
)
ALL_CONTEXTS: Option = click.option(
    "--all-contexts", is_flag=True, help="All contexts of the kubeconfig."
)
CLUSTER_HELP = (
    "with --server also cluster:NAME for a cluster of that service, and cluster:NAME@2026-11-20 or"
    " cluster:NAME@2026-11-20T10:00:00Z for what it served at that time"
)
SIDE_HELP = (
    "a URL (https://host:6443, grpc://host:50051), context:NAME of the kubeconfig, a release such"
    " as kubernetes:1.30, a file (of 'apidiscovery snapshot save', or an aggregated document), or -"
    " for standard input"
)


_IDENTITY = {
    "token": "--token",
    "username": "--username",
    "password": "--password",
    "client_certificate": "--client-certificate",
    "client_key": "--client-key",
}


# The service whose clusters are sides; the service itself is none.
SERVICE: Option = click.option(
    "--server",
    "-s",
    "service",
    type=ANY_SERVER_URL,
    metavar="URL",
    help="The running service (apidiscovery serve) that has the clusters of cluster:NAME.",
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
    if is_server(text):
        return connect(*server_in(text))
    return load(content_of(text), side_name(text))


def with_service(text: str, service: str | None) -> str:
    """Return a side in which `cluster:NAME[@TIME]` is the URL of that cluster's documents.

    Raises:
        click.UsageError: It names a cluster, and there is no service; or it is not a time.
    """
    if not text.startswith(CLUSTER):
        return text
    name, when = cluster_in(text)
    if not name:
        raise click.UsageError(f"{text}: the name of a cluster is missing")
    if not service:
        raise click.UsageError(f"{text}: which service knows it? want --server URL")
    at = f"?at={when:%Y-%m-%dT%H:%M:%S.%fZ}" if when else ""
    return f"{service.rstrip('/')}/clusters/{quote(name)}{at}"


def cluster_in(text: str) -> tuple[str, datetime | None]:
    """Return the name of a cluster and the time in `cluster:NAME@TIME`; None for no time.

    Raises:
        click.UsageError: It is not a time.
    """
    name = text.removeprefix(CLUSTER)
    found = _AT.fullmatch(name)
    if found is None:
        return name, None
    try:
        return found[1], utc(datetime.fromisoformat(found[2]))
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"{text}: {found[2]!r} is not a time; want one such as 2026-11-20 or "
            "2026-11-20T10:00:00Z"
        ) from None


def utc(when: datetime) -> datetime:
    """Return a time in UTC; one without a time zone is in UTC."""
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def side_name(text: str) -> str:
    """Return the name of a side in reports: the text as it was typed.

    The server that a saved snapshot names may be the other side. The text has no secrets: URLs
    with credentials are refused.
    """
    return input_name(text)


def is_server(text: str) -> bool:
    """Return whether a text names a server."""
    return text.startswith(CONTEXT) or "://" in text


def server_in(text: str) -> tuple[str | None, str | None]:
    """Return the URL or the context that a text names; raise `InvalidConfiguration`."""
    if text.startswith(CONTEXT):
        return None, _context(text)
    scheme = text.partition("://")[0]
    if scheme.lower() not in SCHEMES:
        raise InvalidConfiguration(f"{text}: {scheme!r} is not a scheme of a server; {_WANTED}")
    return text, None


def _context(text: str) -> str:
    name = text.removeprefix(CONTEXT)
    if not name:
        raise InvalidConfiguration(f"{text}: the name of a context is missing; {_WANTED}")
    return name


def content_of(path: str) -> bytes:
    """Return the content of a file or of standard input; raise `InvalidConfiguration`."""
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
        if target and (found := _CLUSTER_OVER_GRPC.fullmatch(target)):
            return _cluster_over_grpc(flags, *found.groups())
        with DiscoveryClient(_transport(flags, target, context)) as client:
            return client.refresh()

    return connect


def _cluster_over_grpc(flags: Flags, url: str, name: str, at: str | None) -> Snapshot:
    """Return a cluster from a service's history, the only source of its discovery over gRPC."""
    from apidiscovery_cli.history_calls import HistoryClient  # noqa: PLC0415 - it imports grpc

    when = datetime.fromisoformat(at) if at else datetime.now(UTC) + _AHEAD
    own: Flags = {**flags, "server": url, "context": None, "kubeconfig": None}
    with HistoryClient(grpc_server_named(own)) as client:
        return client.cluster_at(unquote(name), when)


def transport_to(text: str, flags: Flags) -> Transport:
    """Return a transport to the server that a text names; raise `InvalidConfiguration`."""
    return _transport(flags, *server_in(text))


def _transport(flags: Flags, target: str | None, context: str | None) -> Transport:
    kubeconfig = None if target else flags.get("kubeconfig")
    own: Flags = {**flags, "context": context, "kubeconfig": kubeconfig}
    if target and _CLUSTER_OVER_GRPC.fullmatch(target):
        raise InvalidConfiguration(
            f"{target}: over gRPC a service has only the discovery of a cluster; want --server with"
            " the service's http:// URL"
        )
    if target and target.partition("://")[0].lower() in GRPC_SCHEMES:
        return open_blocking(target, **own).transport
    url, _, query = (target or "").partition("?")
    server = http_target(url or None, own, prefix="--")
    return HttpTransport(server, HttpOptions(query=query, warn=tell_warning))


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
